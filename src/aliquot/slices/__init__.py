"""Contiguous ranges of units, and whether some of them cover a whole exactly."""

from aliquot.slices.cover import find_cover_fault
from aliquot.slices.slice import Slice, check_split_arguments

__all__ = ["Slice", "check_split_arguments", "find_cover_fault"]
