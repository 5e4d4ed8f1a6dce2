"""What a step took: seconds of wall and CPU time, and bytes at its peak."""

from aliquot.measuring.peak import PeakMeter

__all__ = ["PeakMeter"]
