"""Measured worker processes on this machine."""

from aliquot.sites.local.local import Local
from aliquot.sites.local.workplace import InterruptedRunError, Workplace

__all__ = ["InterruptedRunError", "Local", "Workplace"]
