"""What becomes of units that failed: tried once more, elsewhere; then in halves, until the guilty ones are alone.

        [ 0 ........ 15 ]  fails
        [ 0 ........ 15 ]  fails again, elsewhere
[ 0 .... 7 ]    [ 8 ... 15 ]
   done            fails
            [ 8 .. 11 ]  [ 12 .. 15 ]
               fails          done
          ...  [ 10 ]  is given up; all others are done

One bad unit among n costs about 2 log2(n) steps more than none.
"""

from __future__ import annotations

from aliquot.coordinator.waiting import Waiting

# A step that fails so often as it is has failed for good: it is cut in two, and a single unit given up.
_MOST_ATTEMPTS = 2
# So many places are known at once where heavy units follow each other: workers are at different ones.
_MOST_RUNS = 10_000


def after_failure(
    failed: Waiting, *, attempts_before: int, is_whole: bool, is_indivisible: bool = False
) -> list[Waiting]:
    """What is to be tried next; nothing if it is to be given up.

    ``failed`` has the units, the worker to avoid and the error. They were a part of what had failed before, or all of
    it (``is_whole``): what failed as a part of more is first tried by itself, unless halves are being tried already.
    What is indivisible is given up as it is.
    """
    attempts = attempts_before + 1
    if is_indivisible:
        return [] if attempts >= _MOST_ATTEMPTS else [failed._replace(attempts=attempts)]
    is_decisive = is_whole or attempts_before >= _MOST_ATTEMPTS
    if attempts < _MOST_ATTEMPTS or not is_decisive:
        return [failed._replace(attempts=attempts)]
    return _halves(failed._replace(attempts=attempts, avoid=None))


def after_exhaustion(failed: Waiting) -> list[Waiting]:
    """In halves, as often as it takes; nothing for a single unit."""
    return _halves(failed)


class HeavyRuns:
    """Where one heavy unit follows another, those behind it are probably heavy too: ever more of them at once."""

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}  # where heavy pieces end -> how many units the last of them was to have

    def widen(self, unit: Waiting, most: int) -> Waiting:
        """A heavy unit with those behind it, not beyond ``most``."""
        units = 2 * self._runs.pop(unit.start, 0) or 1
        stop = min(unit.start + units, most)
        # Also where its span happens to end sooner: what follows is as heavy.
        self._runs[stop] = units
        if len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return unit._replace(stop=stop)


def _halves(failed: Waiting) -> list[Waiting]:
    if failed.stop - failed.start <= 1:
        return []
    middle = (failed.start + failed.stop) // 2
    return [failed._replace(stop=middle), failed._replace(start=middle)]
