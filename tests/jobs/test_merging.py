import copy
import dataclasses
import decimal
import fractions
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import awkward
import hist
import numpy
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot.jobs.merging import merge, merge_into


@dataclasses.dataclass
class Yields:
    events: int
    masses: numpy.ndarray
    by_run: dict[int, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    events: int
    runs: frozenset[int]


class Moments(NamedTuple):
    number: int
    total: float


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __add__(self, other: "Money") -> "Money":
        return Money(self.cents + other.cents)


class Silent:
    pass


# What they become


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (1, 2.5, 3.5),
        (1, numpy.int64(2), numpy.int64(3)),
        (fractions.Fraction(1, 3), 1, fractions.Fraction(4, 3)),
        ("ab", "c", "abc"),
        ([1], [2, [3]], [1, 2, [3]]),
        (None, None, None),
        ({1}, {2}, {1, 2}),
        (frozenset({1}), frozenset({1, 2}), frozenset({1, 2})),
        (deque([1]), deque([2]), deque([1, 2])),
        ({"a": 1, "b": [1]}, {"b": [2], "c": None}, {"a": 1, "b": [1, 2], "c": None}),
        (Moments(1, 2.0), Moments(2, 3.0), Moments(3, 5.0)),
        (Frozen(1, frozenset({1})), Frozen(2, frozenset({2})), Frozen(3, frozenset({1, 2}))),
    ],
)
def test_two_become_one_by_what_they_are(first: Any, second: Any, merged: Any) -> None:
    got = aliquot.merge(first, second)
    assert got == merged
    assert type(got) is type(merged)


def test_a_counter_keeps_what_is_zero_or_below() -> None:
    merged = merge(Counter(a=1, b=-3), Counter(a=-1, c=0))
    assert type(merged) is Counter
    assert dict(merged) == {"a": 0, "b": -3, "c": 0}


def test_mappings_keep_their_type_their_order_and_their_default() -> None:
    merged = merge(defaultdict(list, a=[1]), defaultdict(list, b=[2]))
    assert merged["missing"] == []
    assert list(merge(OrderedDict(b=1, a=1), OrderedDict(c=1, a=1))) == ["b", "a", "c"]
    # Of two, the more general one.
    assert type(merge(Counter(a=1), {"a": 1})) is type(merge({"a": 1}, Counter(a=1))) is dict


def test_a_dataclass_is_merged_field_by_field() -> None:
    first, second = Yields(1, numpy.ones(2), {1: 1}), Yields(2, numpy.ones(2), {1: 1, 2: 1})
    merged = merge(first, second)
    assert (merged.events, merged.masses.tolist(), merged.by_run) == (3, [2.0, 2.0], {1: 2, 2: 1})
    assert (first.events, first.masses.tolist(), first.by_run) == (1, [1.0, 1.0], {1: 1})


def test_arrays_are_added_and_become_as_wide_as_numpy_says() -> None:
    merged = merge(numpy.ones(3, "i4"), numpy.ones(3, "f8"))
    assert merged.dtype == numpy.float64
    assert merged.tolist() == [2, 2, 2]
    assert merge(merge(numpy.array(1), numpy.array(2)), numpy.array(3)) == 6


def test_histograms_are_added_also_where_their_categories_differ() -> None:
    first = hist.Hist.new.StrCat([], growth=True, name="run").Weight().fill(["a", "b"])
    second = hist.Hist.new.StrCat([], growth=True, name="run").Weight().fill(["b", "c"])
    for merged in (merge(first, second), merge_into(merge(first, second), second) + -1 * second):
        assert [merged[{"run": hist.loc(name)}].value for name in "abc"] == [1, 2, 1]
    assert first.sum().value == 2


def test_what_has_its_own_sum_is_added() -> None:
    assert merge({"paid": Money(3)}, {"paid": Money(4)})["paid"].cents == 7


# What does not go together


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"ttbar": {"mass": {}}}, {"ttbar": {"mass": []}}, r'result\["ttbar"\]\["mass"\]: dict and list .*join='),
        (None, 3, "result: None and int"),
        ({1: None}, {1: "x"}, r"result\[1\]: None and str"),
        ("a", ["b"], "result: str and list"),
        ([1], (1,), "list and tuple"),
        (Counter(), OrderedDict(), "collections.Counter and collections.OrderedDict"),
        (decimal.Decimal(1), 0.5, "decimal.Decimal and float"),
        (range(2), range(3), "two of range"),
        (numpy.ones(3), numpy.ones(4), r"their shapes are \(3,\) and \(4,\)"),
        (numpy.ones(3), numpy.array(1.0), r"their shapes are \(3,\) and \(\)"),
        (numpy.ones(3), 1.0, "numpy.ndarray and float"),
        (numpy.ones((3, 1)), numpy.ones((1, 3)), "only arrays of one shape are added"),
        (numpy.ones(3), [1, 2, 3], "numpy.ndarray and list"),
        (numpy.array(["2020"], "M8[D]"), numpy.array(["2021"], "M8[D]"), "numpy says"),
        (Yields(1, numpy.ones(2)), Yields(1, numpy.ones(3)), r"result\.masses: .*shapes"),
        (Silent(), Silent(), "two of tests.Silent"),
        (Frozen(1, frozenset()), Moments(1, 1.0), "tests.Frozen and tests.Moments"),
        (hist.Hist.new.Reg(3, 0, 1).Double(), hist.Hist.new.Reg(4, 0, 1).Double(), "axes not mergable.*Regular"),
        (hist.Hist.new.Reg(3, 0, 1).Double(), hist.Hist.new.Reg(3, 0, 1).Int64(), "different storage types"),
        (hist.Hist.new.Reg(3, 0, 1).Double(), 3, "hist.Hist and int"),
        (hist.Hist.new.Reg(3, 0, 1).Double(), numpy.ones(3), "hist.Hist and numpy.ndarray"),
        (awkward.Array([1]), awkward.Array([1]), r"awkward\.concatenate\(\[first, second\]\)"),
        (pandas.DataFrame({"a": [1]}), pandas.DataFrame({"a": [1]}), r"pandas\.concat"),
        (pandas.Series([1]), pandas.Series([1]), "join=lambda"),
        (polars.DataFrame({"a": [1]}), polars.DataFrame({"a": [1]}), r"polars\.concat"),
        (pyarrow.table({"a": [1]}), pyarrow.table({"a": [1]}), r"pyarrow\.concat_tables"),
    ],
)
def test_what_does_not_go_together_is_named_with_its_place(first: Any, second: Any, told: str) -> None:
    for way in (merge, merge_into):
        with pytest.raises(aliquot.UsageError, match=told):
            way(copy.deepcopy(first), second)


# Laws

values: Any = st.recursive(
    st.integers(-9, 9) | st.none(),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def alike(shape: Any) -> Any:
    """Values that go with one another."""
    kinds = {
        "number": st.integers(-9, 9),
        "text": st.lists(st.text("xy", max_size=3), max_size=3),
        "list": st.lists(st.integers(0, 3), max_size=3),
        "set": st.sets(st.integers(0, 3), max_size=3),
        "array": st.lists(st.integers(-3, 3), min_size=2, max_size=2).map(numpy.array),
        "none": st.none(),
    }
    if isinstance(shape, str):
        return kinds[shape]
    return st.fixed_dictionaries({}, optional={key: alike(one) for key, one in shape.items()})


shapes = st.recursive(
    st.sampled_from(["number", "text", "list", "set", "array", "none"]),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3),
    max_leaves=5,
)
threes = shapes.flatmap(lambda shape: st.tuples(alike(shape), alike(shape), alike(shape)))


def plain(value: Any) -> Any:
    """What can be compared."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return ("array", str(value.dtype), value.tolist()) if isinstance(value, numpy.ndarray) else value


def changeable_parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(part for one in value.values() for part in changeable_parts(one))]
    return [value] if isinstance(value, list | set | numpy.ndarray) else []


@given(threes)
def test_how_results_are_paired_makes_no_difference(three: tuple[Any, Any, Any]) -> None:
    first, second, third = three
    assert plain(merge(merge(first, second), third)) == plain(merge(first, merge(second, third)))


@given(threes)
def test_neither_argument_is_changed_and_what_is_new_shares_nothing_with_them(three: tuple[Any, Any, Any]) -> None:
    first, second, third = three
    before = plain(copy.deepcopy(three))
    made = merge(first, second)
    theirs = {id(part) for one in three for part in changeable_parts(one)}
    assert theirs.isdisjoint(map(id, changeable_parts(made)))
    for _ in range(2):
        expected = plain(merge(made, third))
        made = merge_into(made, third)
        assert plain(made) == expected
        assert theirs.isdisjoint(map(id, changeable_parts(made)))
    assert plain(three) == before


@given(values, values)
def test_anything_is_merged_or_refused_in_the_same_way(first: Any, second: Any) -> None:
    got = []
    for way in (merge, merge_into):
        try:
            got.append(way(copy.deepcopy(first), second))
        except aliquot.UsageError as error:
            got.append(str(error))
    assert got[0] == got[1]


# Into the first


def test_large_parts_are_changed_where_they_are() -> None:
    histogram = hist.Hist.new.Reg(3, 0, 1, name="x").Double()
    made = merge({"a": numpy.ones(3), "h": histogram, "l": [1]}, {"a": numpy.ones(3), "h": histogram, "l": [1]})
    parts = dict(made)
    again = merge_into(made, {"a": numpy.ones(3, "i8"), "h": histogram, "l": [2]})
    assert again is made
    assert all(again[name] is parts[name] for name in parts)
    assert again["a"].tolist() == [3, 3, 3]


def test_an_array_that_has_to_become_wider_is_made_anew() -> None:
    made = merge(numpy.ones(3, "i4"), numpy.ones(3, "i4"))
    wider = merge_into(made, numpy.full(3, 0.5))
    assert wider.tolist() == [2.5, 2.5, 2.5]
    assert made.tolist() == [2, 2, 2]


def test_one_object_in_two_places_is_not_changed_twice() -> None:
    shared = numpy.ones(2)
    made = merge({"a": shared, "b": shared}, {"c": shared, "d": {"e": shared}})
    for _ in range(2):
        made = merge_into(made, dict.fromkeys("abc", shared))
    assert {name: made[name].tolist() for name in "abc"} == {name: [3.0, 3.0] for name in "abc"}
    assert made["d"]["e"].tolist() == shared.tolist() == [1.0, 1.0]


def test_what_cannot_be_copied_is_merged_nevertheless() -> None:
    class Stubborn(Money):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("no")

    made = merge({"a": Stubborn(1)}, {"b": Stubborn(2), "n": numpy.ones(1)})
    assert merge_into(made, {"a": Stubborn(1), "b": Stubborn(1), "n": numpy.ones(1)})["b"].cents == 3


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (True, False, "both may have to be true.*operator.and_"),
        ({"cuts": {"passed": True}}, {"cuts": {"passed": True}}, r'result\["cuts"\]\["passed"\].*have to be true'),
        ((1, 2), (3,), "may be several values, or items.*return a dict of what is to be added up"),
        ({"dataset": "DY"}, {"dataset": "DY"}, r'result\["dataset"\].*may be a name, or text'),
    ],
)
def test_what_could_mean_several_things_is_refused(first: Any, second: Any, words: str) -> None:
    """What it gave would depend on how the work was cut."""
    for join in (merge, merge_into):
        with pytest.raises(aliquot.UsageError, match=words):
            join(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (numpy.array([True]), numpy.array([False])),
        (numpy.bool_(1), numpy.bool_(0)),
        (numpy.array(["a"]), numpy.array(["b"])),
        (1, True),
        ({"a": numpy.str_("x")}, {"a": numpy.str_("y")}),
    ],
)
def test_so_is_what_numpy_makes_of_it(first: Any, second: Any) -> None:
    with pytest.raises(aliquot.UsageError, match="join="):
        merge(first, second)


def test_arrays_with_a_value_for_each_unit_are_noticed() -> None:
    """They are noticed where all of them have been as long as their batches, and two are to be joined."""
    watch = merge.watch()  # type: ignore[attr-defined]
    watch.look(numpy.arange(4), 4, is_joined=False)
    watch.look(numpy.arange(3), 3, is_joined=False)
    with pytest.warns(UserWarning, match=r"result: .* each unit.*aliquot\.map.*concatenate.*operator\.add"):
        watch.look(numpy.arange(4), 4, is_joined=True)


def test_so_are_those_within_dicts() -> None:
    """As several functions give them."""
    watch = merge.watch()  # type: ignore[attr-defined]
    watch.look({"sum": 1, "all": {"x": numpy.zeros((1, 3))}}, 1, is_joined=False)
    with pytest.warns(UserWarning, match=r'result\["all"\]\["x"\]: .* each unit'):
        watch.look({"sum": 1, "all": {"x": numpy.zeros((1, 3))}}, 1, is_joined=True)


@pytest.mark.parametrize(
    "value", [numpy.zeros(5), numpy.float64(1), numpy.array(1), [0] * 4, {"counts": numpy.zeros(5)}, None]
)
def test_all_else_is_joined_whatever_the_size_of_its_batch(value: Any) -> None:
    """One that is not as long as its batch clears all others: they are so by chance."""
    watch = merge.watch()  # type: ignore[attr-defined]
    watch.look(value, 4, is_joined=False)
    for _ in range(2):
        watch.look(value, 5, is_joined=True)
