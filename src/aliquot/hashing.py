"""A hash without OpenSSL: `hashlib` loads that first, which takes longer than all that is hashed here."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not every Python has it apart
    from hashlib import blake2b

__all__ = ["blake2b"]
