from __future__ import annotations

import functools
import gc
import itertools
import os
import threading
import time
import warnings
import weakref
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import aliquot
from tests.real.processes import wait_until, wait_until_gone
from tests.running.functions import (
    TeapotError,
    block_at,
    calls_in,
    double,
    fail_late_units_before_early_ones_end,
    named_array,
    note_in,
    process_of,
    scald,
)

TWO = aliquot.sites.Local(cores=2)


def runs_under_way() -> int:
    return sum(thread.name == "aliquot-run" for thread in threading.enumerate())


def test_values_come_in_order() -> None:
    """The same values as those of map."""
    assert list(aliquot.imap(double, range(1000), on=TWO)) == list(range(0, 2000, 2))


def test_values_that_come_one_by_one_are_all_there_however_slowly_they_are_taken() -> None:
    """What waits is taken many at once."""
    taken = []
    for value in aliquot.imap(double, range(3000), target_seconds=0, on=TWO):
        taken.append(value)
        if value % 1000 == 0:
            time.sleep(0.1)
    assert taken == list(range(0, 6000, 2))


def test_values_that_were_taken_are_not_held_on_to() -> None:
    """Nor those that do not look large; many may have come at once."""
    values = aliquot.imap(named_array, range(12), target_seconds=0, on=TWO)
    time.sleep(0.5)
    _, array = next(values)
    first = weakref.ref(array)
    del array
    next(values)
    gc.collect()
    assert first() is None
    assert len(list(values)) == 10


def test_without_an_order_every_value_comes_once() -> None:
    """Whichever are ready first come first."""
    assert Counter(aliquot.imap(double, range(1000), ordered=False, on=TWO)) == Counter(range(0, 2000, 2))


def test_without_an_order_a_slow_unit_holds_nothing_up(tmp_path: Path) -> None:
    """All others come while one is still under way."""
    go = tmp_path / "go"
    values = aliquot.imap(functools.partial(block_at, 0, str(go)), range(40), ordered=False, target_seconds=0, on=TWO)
    others = list(itertools.islice(values, 39))
    go.touch()
    assert sorted(others) == list(range(1, 40))
    assert list(values) == [0]


def test_in_order_the_first_values_come_while_others_are_under_way(tmp_path: Path) -> None:
    """A value is given when those before it are there, and not at the end of the run."""
    go = tmp_path / "go"
    values = aliquot.imap(functools.partial(block_at, 39, str(go)), range(40), target_seconds=0, on=TWO)
    first = list(itertools.islice(values, 10))
    go.touch()
    assert first + list(values) == list(range(40))


@pytest.mark.parametrize("items", [[], range(0), iter(())], ids=["list", "range", "iterator"])
def test_nothing_gives_nothing(items: Any) -> None:
    """An iterator like any other, that is over at once and can be closed."""
    with closing(aliquot.imap(double, items, on=TWO)) as values:  # type: ignore[type-var]
        assert list(values) == []


def test_after_its_end_an_iterator_stays_at_its_end() -> None:
    """As the language asks of every iterator."""
    values = aliquot.imap(double, range(5), on=TWO)
    assert list(values) == [0, 2, 4, 6, 8]
    assert list(values) == []
    assert runs_under_way() == 0


def test_an_iterator_that_is_closed_early_leaves_no_workers() -> None:
    """What was begun is stopped, and the processes are gone."""
    values: Any = aliquot.imap(process_of, range(10_000), target_seconds=0, on=TWO)
    processes = set(itertools.islice(values, 20))
    values.close()
    wait_until_gone(*processes)
    assert list(values) == []
    assert runs_under_way() == 0


def test_an_iterator_can_be_closed_amid_a_long_step(tmp_path: Path) -> None:
    """Closing does not wait for what nobody wants any more."""
    values: Any = aliquot.imap(
        functools.partial(block_at, 1, str(tmp_path / "never")), range(40), target_seconds=0, on=TWO
    )
    assert next(values) == 0
    closer = threading.Thread(target=values.close, daemon=True)
    closer.start()
    closer.join(10)
    is_closed = not closer.is_alive()
    (tmp_path / "never").touch()  # so that a failure of this test leaves nothing behind
    closer.join()
    assert is_closed


def test_an_iterator_that_nobody_has_any_more_ends_its_run() -> None:
    """A loop that is left with `break` leaves no workers behind."""
    values = aliquot.imap(process_of, range(10_000), target_seconds=0, on=TWO)
    processes = set(itertools.islice(values, 20))
    del values
    gc.collect()
    wait_until(lambda: runs_under_way() == 0, "no run is under way", seconds=5)
    wait_until_gone(*processes)


def test_the_error_comes_after_the_values_before_it() -> None:
    """As from a loop: what is good up to the unit that fails is given."""
    values = aliquot.imap(scald, range(20), on=aliquot.sites.Local(cores=1))
    assert list(itertools.islice(values, 13)) == list(range(13))
    with pytest.raises(TeapotError, match="too hot"):
        next(values)
    assert list(values) == []


def test_the_error_of_a_late_unit_does_not_overtake_the_values_of_early_ones(tmp_path: Path) -> None:
    """Also where the unit fails while earlier ones are still under way elsewhere."""
    values = aliquot.imap(
        functools.partial(fail_late_units_before_early_ones_end, str(tmp_path)),
        range(100),
        target_seconds=0,
        on=aliquot.sites.Local(cores=3),
    )
    got: list[int] = []
    with pytest.raises(LookupError, match="ninety"):
        got.extend(values)
    assert got == list(range(90))


def test_a_consumer_that_takes_one_value_does_not_have_all_computed(tmp_path: Path) -> None:
    """Workers wait when too many values are not taken: memory does not fill up behind a slow consumer."""
    units = 20_000
    values: Any = aliquot.imap(functools.partial(note_in, str(tmp_path)), range(units), target_seconds=0, on=TWO)
    assert next(values) == 0
    started = [0] * 30
    # Until nothing more is started: the same number so often in a row.
    wait_until(lambda: is_at_rest(started, calls_in(str(tmp_path))), "no more units are started")
    values.close()
    assert started[-1] < units / 4


def is_at_rest(seen: list[int], count: int) -> bool:
    seen.append(count)
    return count > 0 and len(set(seen[-30:])) == 1


def test_several_streams_at_once_do_not_mix() -> None:
    """Two runs can be read in turn."""
    evens = aliquot.imap(double, range(50), on=TWO)
    squares = aliquot.imap(lambda number: number**2, range(50), on=TWO)
    assert list(zip(evens, squares, strict=True)) == [(2 * number, number**2) for number in range(50)]


def test_a_stream_can_be_read_by_another_thread() -> None:
    """An iterator belongs to no thread."""
    values = aliquot.imap(double, range(50), on=TWO)
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(values))
    reader.start()
    reader.join()
    assert got == list(range(0, 100, 2))


def test_work_begins_before_the_first_value_is_asked_for(tmp_path: Path) -> None:
    """The call itself starts the run."""
    values: Any = aliquot.imap(functools.partial(note_in, str(tmp_path)), range(4), on=TWO)
    wait_until(lambda: calls_in(str(tmp_path)) > 0, "a unit is started")
    assert list(values) == [0, 1, 2, 3]


class Named(NamedTuple):
    """As users have them: what is called so need not be a number."""

    nbytes: Any


def make_named(number: int) -> Named:
    return Named("many" if number % 2 else 10**12)


def test_values_may_have_any_attribute() -> None:
    """What they weigh is asked of arrays alone."""
    assert list(aliquot.imap(make_named, range(10), on=TWO)) == [make_named(number) for number in range(10)]


def test_a_stream_is_of_no_use_in_a_process_that_was_forked() -> None:
    """There is no run behind it: to wait would be for ever."""
    values = aliquot.imap(double, range(1000), on=TWO)
    assert next(values) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: nothing of theirs is used
        child = os.fork()
    if child == 0:
        try:
            for _ in values:
                pass
        except aliquot.UsageError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(values) == [2 * number for number in range(1, 1000)]
