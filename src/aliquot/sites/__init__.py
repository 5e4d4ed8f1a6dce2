"""Places with workers."""

from aliquot.sites.site import Site

__all__ = ["Site"]
