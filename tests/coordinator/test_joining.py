from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Command,
    Finish,
    Joining,
    Merge,
    MergeAsTree,
    Skip,
    Spill,
)


class Piece:
    """A finished piece: its result is numbered by its place."""

    def __init__(self, result: int, start: int, stop: int, result_bytes: int) -> None:
        self.result = result
        self.start = start
        self.stop = stop
        self.result_bytes = result_bytes


@st.composite
def pieces_in_any_order(draw: st.DrawFn) -> list[Piece]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=40))
    pieces, at = [], 0
    for result, size in enumerate(sizes):
        pieces.append(Piece(result, at, at + size, draw(st.integers(0, 100))))
        at += size
    return draw(st.permutations(pieces))


def swapped_pairs(count: int) -> list[int]:
    """1, 0, 3, 2, ...: hardly anything waits, and never for long."""
    return [number ^ 1 for number in range(count)]


def depths(commands: list[Command], results: int) -> list[int]:
    """How many merges each result went through."""
    depth_of, members = [0] * results, {number: [number] for number in range(results)}
    for command in commands:
        if isinstance(command, Merge):
            members[command.first] += members.pop(command.second)
            for member in members[command.first]:
                depth_of[member] += 1
    return depth_of


# In order


@given(pieces_in_any_order(), st.integers(0, 1000))
def test_results_are_appended_from_the_first_upward(pieces: list[Piece], most_waiting_bytes: int) -> None:
    """Whatever the order of arrival and however few may wait, each is appended once, after all before it."""
    joining = AppendInOrder(most_waiting_bytes)
    appended = []
    for piece in pieces:
        commands = joining.add(piece.start, piece.stop, piece.result, piece.result_bytes)
        appended += [command.result for command in commands if isinstance(command, Append)]
    assert appended == list(range(len(pieces)))
    assert joining.finish() == [Finish(None)]


@given(pieces_in_any_order())
def test_a_result_is_appended_as_soon_as_it_can_be(pieces: list[Piece]) -> None:
    """After each arrival, everything up to the first unit that is missing was appended."""
    joining = AppendInOrder(10**9)
    arrived: dict[int, int] = {}
    for piece in pieces:
        joining.add(piece.start, piece.stop, piece.result, piece.result_bytes)
        arrived[piece.start] = piece.stop
        first_missing = 0
        while first_missing in arrived:
            first_missing = arrived[first_missing]
        assert joining.appended_to == first_missing


@given(pieces_in_any_order(), st.integers(0, 1000))
def test_the_bytes_that_wait_are_counted(pieces: list[Piece], most_waiting_bytes: int) -> None:
    """Those that have arrived, were not appended and were not spilled are counted, and are never more than allowed."""
    joining = AppendInOrder(most_waiting_bytes)
    waiting: dict[int, int] = {}
    for piece in pieces:
        waiting[piece.result] = piece.result_bytes
        for command in joining.add(piece.start, piece.stop, piece.result, piece.result_bytes):
            assert isinstance(command, Append | Spill)
            waiting.pop(command.result, None)
        assert joining.waiting_bytes == sum(waiting.values()) <= most_waiting_bytes


@given(pieces_in_any_order(), st.integers(0, 300))
def test_nothing_is_spilled_twice_or_after_it_was_appended(pieces: list[Piece], most_waiting_bytes: int) -> None:
    """A result is spilled once at most, while it waits, and is appended all the same."""
    joining = AppendInOrder(most_waiting_bytes)
    spilled: list[int] = []
    appended: list[int] = []
    for piece in pieces:
        for command in joining.add(piece.start, piece.stop, piece.result, piece.result_bytes):
            if isinstance(command, Spill):
                assert command.result not in appended
                spilled.append(command.result)
            elif isinstance(command, Append):
                appended.append(command.result)
    assert len(spilled) == len(set(spilled))
    assert set(spilled) <= set(appended)


@given(pieces_in_any_order(), st.integers(0, 300))
def test_the_farthest_are_spilled_first(pieces: list[Piece], most_waiting_bytes: int) -> None:
    """Of those that wait in memory, the one that will wait longest is spilled."""
    joining = AppendInOrder(most_waiting_bytes)
    in_memory: set[int] = set()
    for piece in pieces:
        in_memory.add(piece.result)
        for command in joining.add(piece.start, piece.stop, piece.result, piece.result_bytes):
            assert isinstance(command, Append | Spill)
            if isinstance(command, Spill):
                assert command.result == max(in_memory)
            in_memory.discard(command.result)


def test_nothing_is_spilled_within_the_limit() -> None:
    """Just as many bytes as are allowed stay in memory, and one more is too many."""
    joining = AppendInOrder(100)
    assert joining.add(1, 2, 1, 60) == []
    assert joining.add(2, 3, 2, 40) == []
    assert joining.add(3, 4, 3, 1) == [Spill(3)]


def test_a_result_that_is_next_need_not_fit() -> None:
    """A result of any size that can be appended at once is not spilled."""
    assert AppendInOrder(0).add(0, 5, 7, 10**12) == [Append(7)]


def test_a_long_run_leaves_nothing_behind() -> None:
    """When everything was appended, nothing of it is kept, however much it was."""
    joining = AppendInOrder(10**9)
    for number in swapped_pairs(10_000):
        joining.add(number, number + 1, number, 1)
    assert joining.waiting_bytes == 0
    # What it holds on to is private: nothing else shows it but memory that grows over a run of days.
    assert len(joining._waiting) + len(joining._farthest) < 100


# As they come


@given(pieces_in_any_order())
def test_results_are_appended_as_they_come(pieces: list[Piece]) -> None:
    """Without an order every result is appended at once."""
    joining = AppendAsTheyCome()
    for piece in pieces:
        assert joining.add(piece.start, piece.stop, piece.result, piece.result_bytes) == [Append(piece.result)]
    assert joining.finish() == [Finish(None)]


# As a tree


def merge_all(results: int) -> list[Command]:
    joining = MergeAsTree()
    commands: list[Command] = []
    for number in range(results):
        commands += joining.add(number, number + 1, number, 0)
    return commands + joining.finish()


@pytest.mark.parametrize("results", [1, 2, 3, 7, 8, 9, 100, 1000, 1023, 1024, 1025])
def test_a_tree_ends_in_one(results: int) -> None:
    """Every result is merged into another but the last, which has them all."""
    commands = merge_all(results)
    alive = {number: {number} for number in range(results)}
    for command in commands[:-1]:
        assert isinstance(command, Merge)
        alive[command.first] |= alive.pop(command.second)
    assert len(alive) == 1
    [(last, members)] = alive.items()
    assert members == set(range(results))
    assert commands[-1] == Finish(last)


@pytest.mark.parametrize("results", [1, 2, 3, 7, 8, 9, 100, 1000, 1023, 1024, 1025])
def test_each_result_is_merged_a_few_times_only(results: int) -> None:
    """No result goes through more merges than the logarithm of their number, and one more at the end."""
    assert max(depths(merge_all(results), results)) <= math.log2(results) + 1


def test_few_results_wait_in_a_tree() -> None:
    """After any number of results, no more of them are unmerged than that number has binary digits."""
    joining = MergeAsTree()
    unmerged = 0
    for number in range(1, 2000):
        unmerged += 1 - len(joining.add(number, number + 1, number, 0))
        assert unmerged == number.bit_count()


def test_nothing_makes_an_empty_tree() -> None:
    """Where there were no units there is no result."""
    assert MergeAsTree().finish() == [Finish(None)]


def test_a_tree_takes_results_of_any_place() -> None:
    """The order of arrival does not matter to a tree."""
    joining = MergeAsTree()
    order = list(range(50))
    random.Random(1).shuffle(order)
    commands: list[Command] = []
    for number in order:
        commands += joining.add(number, number + 1, number, 0)
    merges = [command for command in commands + joining.finish() if isinstance(command, Merge)]
    assert sorted([merge.second for merge in merges]) == sorted(set(order) - {merges[-1].first})


# Units that were given up


@given(pieces_in_any_order(), st.integers(0, 300), st.data())
def test_what_was_given_up_is_skipped_in_its_turn(
    pieces: list[Piece], most_waiting_bytes: int, data: st.DataObject
) -> None:
    """Results and gaps follow each other from the first unit to the last, and a gap is never spilled."""
    given_up = data.draw(st.sets(st.sampled_from([piece.result for piece in pieces])))
    joining = AppendInOrder(most_waiting_bytes)
    told: list[int] = []
    results = {piece.start: piece.result for piece in pieces}
    for piece in pieces:
        if piece.result in given_up:
            commands = joining.skip(piece.start, piece.stop)
        else:
            commands = joining.add(piece.start, piece.stop, piece.result, piece.result_bytes)
        told += [command.result for command in commands if isinstance(command, Append)]
        told += [results[command.start] for command in commands if isinstance(command, Skip)]
        assert not [one for one in commands if isinstance(one, Spill) and one.result in given_up]
        assert joining.waiting_bytes <= most_waiting_bytes
    assert sorted(told) == list(range(len(pieces)))
    assert joining.finish() == [Finish(None)]


def test_a_gap_waits_for_what_is_before_it() -> None:
    """It is told when its turn has come, and lets those behind it go on."""
    joining = AppendInOrder(100)
    assert joining.skip(2, 4) == []
    assert joining.add(4, 5, 9, 0) == []
    assert joining.add(0, 2, 8, 0) == [Append(8), Skip(2, 4), Append(9)]


def test_where_there_is_no_order_a_gap_is_told_at_once() -> None:
    """And a tree needs to know nothing of it."""
    assert AppendAsTheyCome().skip(2, 4) == [Skip(2, 4)]
    assert MergeAsTree().skip(2, 4) == []


@pytest.mark.parametrize(
    "joining", [AppendInOrder(0), AppendAsTheyCome(), MergeAsTree()], ids=lambda one: type(one).__name__
)
def test_all_may_be_given_up(joining: Joining) -> None:
    """Then there is an end, and no result."""
    joining.skip(0, 10)
    assert joining.finish() == [Finish(None)]
