from __future__ import annotations

from typing import Any

from aliquot.errors import MissingExtraError, UsageError

# What a Runner does with a fileset and with each chunk is done here, and has changed from year to year.
_YEAR, _FIRST_MONTH = 2026, 4
# Imported once, before workers are forked.
LIBRARIES = ("coffea.processor", "coffea.nanoevents.methods.nanoaod", "aliquot.coffea", "cloudpickle")


def coffea_executors() -> Any:
    """The module of coffea's Runner, if it is of the right year."""
    try:
        import coffea
        from coffea.processor import executor
    except ImportError as error:
        raise MissingExtraError("running a coffea processor", "coffea") from error
    year, month = (int(number) for number in coffea.__version__.split(".")[:2])
    if year != _YEAR or month < _FIRST_MONTH:
        raise UsageError(
            f"aliquot.coffea is written for coffea {_YEAR}.{_FIRST_MONTH} and later ones of {_YEAR}, "
            f"and this is coffea {coffea.__version__}: pip install 'aliquot[coffea]'"
        )
    return executor
