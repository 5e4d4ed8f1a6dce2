"""How large a step should be: what a step costs is learned while running, and never asked of anyone.

Nothing here reads a clock or touches the machine; workers, the coordinator and the simulation use the same code.
"""

from aliquot.sizing.item_sizer import ItemSizer
from aliquot.sizing.linear_model import MEMORY_QUANTILE, LinearModel, Observation
from aliquot.sizing.reporting import ReportPacer
from aliquot.sizing.step_sizer import OVERHEAD_SHARE, WITH_REST, StepSizer

__all__ = [
    "MEMORY_QUANTILE",
    "OVERHEAD_SHARE",
    "WITH_REST",
    "ItemSizer",
    "LinearModel",
    "Observation",
    "ReportPacer",
    "StepSizer",
]
