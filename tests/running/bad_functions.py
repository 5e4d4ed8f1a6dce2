"""Functions with bad units, for workers: in every way that a unit can be bad."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tests.running.functions import note_in


class Everything:
    """Holds whatever one asks for."""

    def __contains__(self, _: object) -> bool:
        return True


def raise_something(number: int) -> int:
    raise ValueError(f"{number} is no good")


def crash(_: int) -> int:
    import ctypes

    ctypes.string_at(0)
    raise AssertionError("the process is gone by now")


def leave(_: int) -> int:
    os._exit(3)


def kill_itself(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("the process is gone by now")


def hang(_: int) -> int:
    while True:
        time.sleep(0.001)  # the cores are for other tests


def hang_busily(_: int) -> int:
    while True:
        pass


def hang_deaf(_: int) -> int:
    """As a library that hangs in C: no signal that can be handled helps."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        pass


def hang_stubbornly(_: int) -> int:
    """As a function that tries again whatever happens."""
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def fill_memory(_: int) -> int:
    held = []
    while True:
        held.append(b"x" * (8 << 20))


def ask_for_all_memory(_: int) -> int:
    """At once: to fill it bit by bit may take long on a busy machine."""
    return len(b"x" * (64 << 30))


def return_a_lock(_: int) -> Any:
    return threading.Lock()


def recurse_without_end(number: int) -> int:
    return recurse_without_end(number) + 1


class _Endless:
    def __repr__(self) -> str:
        return repr(self)


def overflow_the_stack(_: int) -> int:
    """Recursion through C that Python was told to allow."""
    sys.setrecursionlimit(10**9)
    return len(repr(_Endless()))


class Bad:
    """A number as it is, but for some, at which one of the functions above is called."""

    def __init__(self, what: Callable[[int], Any], units: Collection[int] | Everything) -> None:
        self._what = what
        self._units = units

    def __call__(self, number: int) -> Any:
        return self._what(number) if number in self._units else number


class BadBatch:
    """The same for batches, which become lists."""

    def __init__(self, what: Callable[[int], Any], units: Collection[int] | Everything) -> None:
        self._each = Bad(what, units)

    def __call__(self, numbers: Iterable[int]) -> list[Any]:
        return list(map(self._each, numbers))


class ManyBads:
    """Different functions at different units; all others are counted."""

    def __init__(self, whats: dict[int, Callable[[int], Any]]) -> None:
        self._whats = whats

    def __call__(self, number: int) -> Any:
        what = self._whats.get(number)
        return number if what is None else what(number)


def fail_first_time(directory: str, units: Collection[int], number: int) -> int:
    """Each of these units fails once."""
    if number in units:
        try:
            os.close(os.open(os.path.join(directory, f"failed{number}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        raise ConnectionError(f"{number} did not get through")
    return number


_is_spoilt = False


def fail_once_spoilt(directory: str, number: int) -> int:
    """The first worker of all that comes to unit 10 or beyond is spoilt, and fails from there on."""
    global _is_spoilt  # noqa: PLW0603
    if number >= 10 and not _is_spoilt:
        try:
            os.close(os.open(os.path.join(directory, "spoilt"), os.O_CREAT | os.O_EXCL))
            _is_spoilt = True
        except FileExistsError:
            pass
    if _is_spoilt:
        raise OSError(f"unit {number}: the connection is gone for good")
    return number


def refuse_texts(bad: tuple[str, ...], record: Any) -> str:
    """A record as text, but for those that have one of these words in them."""
    shown = str(record)
    if any(word in shown for word in bad):
        raise ValueError("cannot be read")
    return shown


def refuse_texts_of_batch(bad: tuple[str, ...], records: Iterable[Any]) -> int:
    return len([refuse_texts(bad, record) for record in records])


_has_failed = False


def fail_amid_others(directory: str, number: int) -> int:
    """Unit 0 fails twice; the worker where it failed first is amid another unit when it fails again elsewhere."""
    from tests.running.functions import is_first, note_in, wait_for

    global _has_failed  # noqa: PLW0603
    again = os.path.join(directory, "again")
    if number == 0:
        if is_first(directory):
            _has_failed = True
        else:
            with open(again, "w"):
                pass
        raise ValueError("the first one")
    if _has_failed:
        wait_for(again)
    return note_in(directory, number)


class EndlessWords:
    """Cannot be shown in any time."""

    def __repr__(self) -> str:
        while True:
            pass


def fail_at_endless_words(unit: object) -> object:
    if isinstance(unit, EndlessWords):
        raise TypeError("no good")
    return unit


def failures_within(_: int) -> list[str]:
    """What a run within a worker gives, of which one unit may fail."""
    import warnings

    import aliquot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values: list[Any] = aliquot.map(Bad(raise_something, [2]), range(4), max_failures=1)
    return [type(value).__name__ for value in values]


class NeverFits:
    """Says that there is no memory for one number, however often it is asked; notes each time that it was."""

    def __init__(self, directory: str, bad: int) -> None:
        self._directory = directory
        self._bad = bad

    def __call__(self, number: int) -> int:
        if number == self._bad:
            note_in(self._directory, number)
            raise MemoryError
        return number
