"""Decides who works on what. Events in, commands out; nothing here knows a clock, a process or a result.

event  ->  Coordinator.handle(event, now_seconds)  ->  commands
           transitions.py   the states of a worker, as a table
           roster.py        the workers, and all that changes their states
           waiting.py       units that nobody owns
           outlook.py       who will finish when, by what was reported
           rates.py         how long a unit takes a worker, by noisy reports
           speeds.py        which workers are fast, told apart from which units are dear
           stealing.py      how much of a running span to move
           budget.py        who may hold how much of the site's memory
           isolating.py     what becomes of units that failed
           joining.py       in which order results become one
           joins.py         large ones are joined by workers
           invariants.py    what must hold after each event
"""

from aliquot.coordinator.commands import (
    Advise,
    Allow,
    Append,
    Assign,
    Command,
    Extend,
    FailJoin,
    Finish,
    GiveUp,
    Join,
    Merge,
    Skip,
    Spill,
    Suspend,
    Trim,
)
from aliquot.coordinator.coordinator import Coordinator
from aliquot.coordinator.events import (
    Event,
    Halted,
    Joined,
    Progressed,
    Restored,
    SourceGrew,
    StepExhausted,
    StepFailed,
    Ticked,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.joining import AppendAsTheyCome, AppendInOrder, Joining, MergeAsTree
from aliquot.coordinator.roster import ImpossibleEventError

__all__ = [
    "Advise",
    "Allow",
    "Append",
    "AppendAsTheyCome",
    "AppendInOrder",
    "Assign",
    "Command",
    "Coordinator",
    "Event",
    "Extend",
    "FailJoin",
    "Finish",
    "GiveUp",
    "Halted",
    "ImpossibleEventError",
    "Join",
    "Joined",
    "Joining",
    "Merge",
    "MergeAsTree",
    "Progressed",
    "Restored",
    "Skip",
    "SourceGrew",
    "Spill",
    "StepExhausted",
    "StepFailed",
    "Suspend",
    "Ticked",
    "Trim",
    "Trimmed",
    "WorkerJoined",
    "WorkerLost",
]
