"""Places with workers: this machine, or a simulation."""

from aliquot.sites.local import Local
from aliquot.sites.site import Site, StepError
from aliquot.sites.work import Work

__all__ = ["Local", "Site", "StepError", "Work"]
