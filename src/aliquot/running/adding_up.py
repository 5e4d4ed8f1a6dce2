"""Well-known functions whose values do not add up, and so need a join of their own.

The sum of the maxima of some batches is a number like any other: nobody would notice that it means nothing. What
somebody's own function returns, nobody can tell; but these are known by their names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aliquot.errors import UsageError

_LIBRARIES = ("builtins", "math", "statistics", "numpy", "awkward")
# Of what is best joined by a function of two.
_JOINS = {
    "max": "join=max, or numpy.maximum of arrays",
    "amax": "join=max, or numpy.maximum of arrays",
    "nanmax": "join=numpy.fmax",
    "min": "join=min, or numpy.minimum of arrays",
    "amin": "join=min, or numpy.minimum of arrays",
    "nanmin": "join=numpy.fmin",
    "prod": "join=operator.mul",
    "sorted": "join=lambda a, b: sorted(a + b)",
    "sort": "join=lambda a, b: numpy.sort(numpy.concatenate([a, b]))",
    "unique": "join=numpy.union1d",
}
# Of what cannot be made of that of the parts.
_OF_ALL = {
    *("mean", "nanmean", "fmean", "geometric_mean", "harmonic_mean", "average", "median", "nanmedian", "mode"),
    *("percentile", "nanpercentile", "quantile", "nanquantile", "quantiles"),
    *("std", "nanstd", "stdev", "pstdev", "var", "nanvar", "variance", "pvariance", "ptp"),
    *("cov", "covariance", "corrcoef", "correlation", "multimode", "argsort"),
    *("argmax", "argmin", "nanargmax", "nanargmin"),
}


def refuse_what_does_not_add_up(function: Callable[[Any], Any]) -> None:
    """Where its values are to be merged, and it is known that this would be wrong."""
    while isinstance(function, functools.partial):
        function = function.func
    library, _, _ = str(getattr(function, "__module__", "")).partition(".")
    name = str(getattr(function, "__name__", ""))
    if library not in _LIBRARIES:
        return
    if name in _JOINS:
        raise UsageError(
            f"{name}: what it returns for each batch would be added up. Say how two values become one: {_JOINS[name]}"
        )
    if name in _OF_ALL:
        raise UsageError(
            f"{name}: that of all units cannot be made of those of batches, which would be added up. Return what adds "
            'up, such as {"sum": ..., "count": ...}, and work it out in the end; or say how two become one: join='
        )
