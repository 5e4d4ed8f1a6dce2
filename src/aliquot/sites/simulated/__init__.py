"""A site in virtual time."""

from aliquot.sites.simulated.costs import EqualCosts, GivenCosts, UnitCosts
from aliquot.sites.simulated.site import Simulated
from aliquot.sites.simulated.worker import SimulatedWorker, Workload

__all__ = ["EqualCosts", "GivenCosts", "Simulated", "SimulatedWorker", "UnitCosts", "Workload"]
