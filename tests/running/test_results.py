from __future__ import annotations

import operator
import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import AppendAsTheyCome, AppendInOrder, Joining, MergeAsTree
from aliquot.running.job_sink import JobSink
from aliquot.running.results import JoinSink, ListSink, Results, Sink, StreamSink
from aliquot.workers.packing import PackedLists, pack
from tests.job.counting import Counting


def drive(joining: Joining, results: Results, pieces: list[tuple[int, int, Any]]) -> Any:
    """Have results arrive in the order in which they are listed; what comes of them."""
    for number, (start, stop, value) in enumerate(pieces):
        packed = pack(value)
        results.arrived(number, start, stop, packed)
        for command in joining.add(start, stop, number, packed.total_bytes):
            results.perform(command)  # type: ignore[arg-type]  # only commands about results
        results.unpack_early(number)
    for command in joining.finish():
        results.perform(command)  # type: ignore[arg-type]  # only commands about results
    results.close()
    return results.outcome


def shuffled(pieces: list[tuple[int, int, Any]], seed: int = 5) -> list[tuple[int, int, Any]]:
    Random(seed).shuffle(pieces)
    return pieces


def pieces_of(values: list[Any], size: int) -> list[tuple[int, int, Any]]:
    return [
        (start, min(start + size, len(values)), values[start : start + size]) for start in range(0, len(values), size)
    ]


@given(st.lists(st.integers(), min_size=1), st.integers(1, 9), st.randoms(use_true_random=False), st.integers(0, 500))
def test_a_list_is_in_order_whatever_arrives_first(values: list[int], size: int, random: Random, limit: int) -> None:
    """Also where some of it has to wait on disk."""
    pieces = pieces_of(values, size)
    random.shuffle(pieces)
    assert drive(AppendInOrder(limit), Results(ListSink()), pieces) == values


def test_what_waits_beyond_the_limit_is_written_to_disk() -> None:
    """The list is the same, and the report tells how much was on disk."""
    values = [bytes([number]) * 1000 for number in range(50)]
    results = Results(ListSink())
    assert drive(AppendInOrder(5000), results, list(reversed(pieces_of(values, 5)))) == values
    assert 30_000 < results.spilled_bytes < 60_000


def test_lists_that_came_together_wait_on_disk_as_one() -> None:
    """And come back as they were."""
    results = Results(ListSink())
    joining = AppendInOrder(10)
    together = PackedLists(pack([3, 4]))
    together.add(pack([5]))
    results.arrived(9, 2, 5, together)
    for command in joining.add(2, 5, 9, together.total_bytes):
        results.perform(command)  # type: ignore[arg-type]  # only commands about results
    assert results.spilled_bytes
    assert drive(joining, results, [(5, 6, [6]), (0, 2, [1, 2])]) == [1, 2, 3, 4, 5, 6]


def test_large_arrays_come_back_from_disk() -> None:
    """Equal, and still writable."""
    values = [np.full(100_000, number) for number in range(6)]
    results = Results(ListSink())
    arrived = drive(AppendInOrder(1000), results, list(reversed(pieces_of(values, 1))))
    assert results.spilled_bytes > 3_000_000
    for number, one in enumerate(arrived):
        assert (one == number).all()
        one[0] = -1


def test_what_is_on_disk_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is killed leaves no file behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    results = Results(ListSink())
    packed = pack([1, 2, 3])
    results.arrived(7, 5, 8, packed)
    for command in AppendInOrder(0).add(5, 8, 7, packed.total_bytes):
        results.perform(command)  # type: ignore[arg-type]  # only commands about results
    assert results.spilled_bytes > 0
    assert list(tmp_path.iterdir()) == []
    results.close()


@pytest.mark.parametrize("limit", [0, 10**9])
def test_no_descriptor_is_left(limit: int) -> None:
    """Neither of those in memory nor of those on disk, nor of those that were never appended."""
    before = len(os.listdir("/proc/self/fd"))
    values = [np.zeros(50_000) for _ in range(8)]
    drive(AppendInOrder(limit), Results(ListSink()), shuffled(pieces_of(values, 1)))
    results = Results(ListSink())
    joining = AppendInOrder(limit)
    for start, stop, value in pieces_of(values, 1)[1:]:
        packed = pack(value)
        results.arrived(start, start, stop, packed)
        for command in joining.add(start, stop, start, packed.total_bytes):
            results.perform(command)  # type: ignore[arg-type]  # only commands about results
    results.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_values_in_memory_hold_no_descriptors() -> None:
    """A list of ten thousand arrays does not use up the files that a process may have open."""
    before = len(os.listdir("/proc/self/fd"))
    values = drive(AppendInOrder(10**9), Results(ListSink()), pieces_of([np.zeros(50_000) for _ in range(20)], 1))
    assert len(values) == 20
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_results_that_wait_hold_no_descriptors() -> None:
    """Nor do the many that wait for a first one that takes long."""
    before = len(os.listdir("/proc/self/fd"))
    results = Results(ListSink())
    for number in range(1, 40):
        results.arrived(number, number, number + 1, pack([np.zeros(50_000)]))
        results.unpack_early(number)
    waiting = len(os.listdir("/proc/self/fd"))
    results.close()
    assert waiting <= before + 5


@given(st.integers(1, 40), st.integers(1, 7), st.randoms(use_true_random=False))
def test_a_joined_value_is_in_order_whatever_arrives_first(count: int, size: int, random: Random) -> None:
    """A join that is not commutative gets neighbours only, the earlier one first."""
    pieces = [(start, stop, "".join(map(str, part))) for start, stop, part in pieces_of(list(range(count)), size)]
    random.shuffle(pieces)
    assert drive(AppendInOrder(100), Results(JoinSink(operator.add)), pieces) == "".join(map(str, range(count)))


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_values_that_are_merged_as_they_come_count_once(count: int, random: Random) -> None:
    """Each of them is in the sum."""
    pieces: list[tuple[int, int, Any]] = [(number, number + 1, 2**number) for number in range(count)]
    random.shuffle(pieces)
    results = Results(JoinSink(operator.add), operator.add)
    assert drive(MergeAsTree(), results, pieces) == 2**count - 1


def test_the_parts_of_a_job_are_joined_by_the_job() -> None:
    """The result of the whole is what it would have been in one piece."""
    pieces: list[tuple[int, int, Any]] = [(start, start + 5, sum(range(start, start + 5))) for start in range(0, 50, 5)]
    sink: Sink = JobSink(Counting(0, 50))
    assert drive(AppendInOrder(100), Results(sink), shuffled(pieces)) == sum(range(50))


def test_a_stream_passes_on_what_is_appended() -> None:
    """In order, or as it comes."""
    passed: list[int] = []
    drive(AppendInOrder(100), Results(StreamSink(passed.extend)), shuffled(pieces_of(list(range(20)), 3)))
    assert passed == list(range(20))
    passed.clear()
    drive(AppendAsTheyCome(), Results(StreamSink(passed.extend)), shuffled(pieces_of(list(range(20)), 3)))
    assert sorted(passed) == list(range(20))
