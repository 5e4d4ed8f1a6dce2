from __future__ import annotations

# The first report comes soon, so that rates are known early; later ones more rarely.
_FIRST_SECONDS = 0.01
_LONGEST_SECONDS = 0.5
_GROWTH = 1.5
# A report may cost this part of a worker's time.
_REPORT_SHARE = 0.02
_MOST_WAITING_BYTES = 64 << 20
# A joined value that has become larger by more than this goes on growing, as a list does, unlike a histogram.
_STEADY = 1.25
# How long it takes to send a large value up, before that was measured.
_SECONDS_A_BYTE = 1e-9


class ReportPacer:
    """Decides when a worker sends up what it has finished.

    At least every half second, so that a dead worker loses little; as soon as results begin to fill memory; but not
    so often that sending them costs more than a fiftieth of the time. A joined value that does not grow any more, such
    as a histogram, does not fill memory.
    """

    __slots__ = (
        "_after_every_step",
        "_grown_bytes",
        "_interval_seconds",
        "_is_joined",
        "_last_seconds",
        "_report_seconds",
    )

    def __init__(self, now_seconds: float, *, after_every_step: bool = False, is_joined: bool = False) -> None:
        self._after_every_step = after_every_step
        self._is_joined = is_joined
        self._grown_bytes = 0  # since the last report, where that was much
        self._interval_seconds = _FIRST_SECONDS
        self._report_seconds = 0.0
        self._last_seconds = now_seconds

    def is_due(self, now_seconds: float, grown_bytes: int = 0) -> bool:
        """Whether to report now, with memory grown by so much since the last report."""
        if self._after_every_step:
            return True
        report_seconds = self._report_seconds
        if grown_bytes > _MOST_WAITING_BYTES:
            is_growing = 0 < self._grown_bytes * _STEADY < grown_bytes
            if not self._is_joined or is_growing:
                return True
            self._grown_bytes = max(self._grown_bytes, grown_bytes)
            report_seconds = max(report_seconds, grown_bytes * _SECONDS_A_BYTE)
        interval = max(self._interval_seconds, report_seconds / _REPORT_SHARE)
        return now_seconds - self._last_seconds >= interval

    def reported(self, now_seconds: float, took_seconds: float) -> None:
        """Take note that a report was sent, and how long that took."""
        self._last_seconds = now_seconds
        self._report_seconds = took_seconds
        self._grown_bytes = 0
        self._interval_seconds = min(self._interval_seconds * _GROWTH, _LONGEST_SECONDS)
