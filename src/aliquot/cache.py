"""Where what aliquot has learned is kept from one run to the next."""

from __future__ import annotations

import os


def cache_directory() -> str:
    """$ALIQUOT_CACHE, or 'aliquot' in the user's cache directory."""
    told = os.environ.get("ALIQUOT_CACHE")
    if told:
        return told
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "aliquot")
