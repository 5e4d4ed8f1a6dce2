"""A site in virtual time."""

from aliquot.sites.simulated.costs import EqualCosts, GivenBytes, GivenCosts, UnitBytes, UnitCosts
from aliquot.sites.simulated.site import Simulated
from aliquot.sites.simulated.worker import (
    BAD_UNIT,
    FAULTY_WORKER,
    FLAKY_UNIT,
    TOO_LARGE,
    SimulatedWorker,
    Workload,
)

__all__ = [
    "BAD_UNIT",
    "FAULTY_WORKER",
    "FLAKY_UNIT",
    "TOO_LARGE",
    "EqualCosts",
    "GivenBytes",
    "GivenCosts",
    "Simulated",
    "SimulatedWorker",
    "UnitBytes",
    "UnitCosts",
    "Workload",
]
