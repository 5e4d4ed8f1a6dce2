from __future__ import annotations

# The first report comes soon, so that rates are known early; later ones more rarely.
_FIRST_SECONDS = 0.01
_LONGEST_SECONDS = 0.5
# Where workers die of their units, what one has not sent up is lost.
_LONGEST_WARY_SECONDS = 0.05
_GROWTH = 2.0
# A report may cost this part of a worker's time.
_REPORT_SHARE = 0.02
_MOST_WAITING_BYTES = 64 << 20


class ReportPacer:
    """Decides when a worker sends up what it has finished.

    Every half second at least, so that a dead worker loses little, and much more often once one has died; as
    soon as results begin to fill memory; but not so often that sending them costs more than a fiftieth of the time.
    """

    __slots__ = ("_after_every_step", "_interval_seconds", "_last_seconds", "_report_seconds")

    def __init__(self, now_seconds: float, *, after_every_step: bool = False) -> None:
        self._after_every_step = after_every_step
        self._interval_seconds = _FIRST_SECONDS
        self._report_seconds = 0.0
        self._last_seconds = now_seconds

    def is_due(self, now_seconds: float, grown_bytes: int = 0, *, is_wary: bool = False) -> bool:
        """Whether to report now, with memory grown by so much since the last report; ``is_wary``: workers have died."""
        if self._after_every_step or grown_bytes > _MOST_WAITING_BYTES:
            return True
        interval = min(self._interval_seconds, _LONGEST_WARY_SECONDS) if is_wary else self._interval_seconds
        interval = max(interval, self._report_seconds / _REPORT_SHARE)
        return now_seconds - self._last_seconds >= interval

    def reported(self, now_seconds: float, took_seconds: float) -> None:
        """Take note that a report was sent, and how long that took."""
        self._last_seconds = now_seconds
        self._report_seconds = took_seconds
        self._interval_seconds = min(self._interval_seconds * _GROWTH, _LONGEST_SECONDS)
