"""For those who write applications: checks that a job keeps the laws that aliquot relies on."""

from aliquot.testing.laws import check_description, check_history, check_split

__all__ = ["check_description", "check_history", "check_split"]
