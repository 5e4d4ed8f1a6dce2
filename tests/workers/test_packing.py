from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.workers.packing import MOST_INLINE_BYTES, Packed, PackedLists, pack, pack_values

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=200),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


def round_trip(packed: Packed) -> Any:
    try:
        return packed.load()
    finally:
        packed.close()


@pytest.mark.parametrize(
    "values",
    [
        list(np.linspace(0, 1, 100)),
        list(np.arange(100, dtype=np.int8)),
        list(np.array([True, False] * 50)),
        list(np.array([1j, -0.0, np.nan] * 10)),
        [np.float32(1)] * 7,
        [*np.linspace(0, 1, 100), 1.0],
        [np.float64(1)] * 50 + [np.float32(1)] * 50,
        list(np.array(["a", "bc"] * 50)),
        list(np.array(["2026-11-17"] * 50, "M8[D]")),
        [np.zeros(3)] * 10,
        [],
    ],
    ids=str,
)
def test_numbers_of_numpy_come_as_they_went(values: list[Any]) -> None:
    """To the last bit, each of its own type, whether or not they travel as an array."""
    came = round_trip(pack_values(values))
    assert type(came) is list
    assert [type(one) for one in came] == [type(one) for one in values]
    assert [one.tobytes() if hasattr(one, "tobytes") else one for one in came] == [
        one.tobytes() if hasattr(one, "tobytes") else one for one in values
    ]


def test_many_numbers_of_numpy_take_no_more_bytes_than_an_array() -> None:
    """Pickled one by one, each has its type with it."""
    values = list(np.linspace(0, 1, 1000))
    assert pack_values(values).total_bytes < 9000 < pack(values).total_bytes


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


@given(_values)
def test_any_value_comes_back(value: Any) -> None:
    """Equal to what it was."""
    assert round_trip(pack(value)) == value


def test_a_small_value_needs_no_file() -> None:
    """It goes through the socket itself."""
    packed = pack([1, 2, 3])
    assert packed.descriptor is None
    assert packed.inline


@pytest.mark.parametrize(
    "value", [np.zeros(3000), b"x" * (MOST_INLINE_BYTES + 1), list(range(200_000))], ids=["array", "bytes", "list"]
)
def test_a_large_value_is_in_a_file(value: Any) -> None:
    """So that a message stays short."""
    packed = pack(value)
    assert packed.descriptor is not None
    assert packed.inline == b""
    assert packed.total_bytes > 16_000
    assert np.array_equal(round_trip(packed), value)


def test_the_bytes_of_an_array_are_not_in_the_pickle() -> None:
    """They are copied once, beside it: 8 MB of array make a pickle of some bytes."""
    packed = pack({"array": np.arange(1_000_000)})
    pickle_bytes, array_bytes = packed.sizes
    assert pickle_bytes < 1000
    assert array_bytes == 8_000_000
    packed.close()


def test_arrays_arrive_writable_and_live_on_without_their_file() -> None:
    """As if they had been made here."""
    packed = pack([np.arange(100_000), np.ones((300, 300), order="F")])
    first, second = packed.load()
    packed.close()
    first += 1
    second[0, 0] = 5
    assert (first == np.arange(1, 100_001)).all()
    assert second.sum() == 90_004
    assert second.flags.f_contiguous


def test_arrays_begin_at_aligned_addresses() -> None:
    """Fast code wants that."""
    arrays = round_trip(pack([np.zeros(2049, dtype=np.int8).repeat(9) for _ in range(5)]))
    assert all(one.ctypes.data % 64 == 0 for one in arrays)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(100_000)[::2],
        np.arange(100_000).reshape(250, 400).T[3:],
        np.empty((0, 5)),
        np.array([1, "a", None], dtype=object),
        np.zeros(50_000, dtype=[("a", "i4"), ("b", "f8")]),
        np.ma.masked_array(np.arange(10_000), mask=np.arange(10_000) % 2 == 0),
        np.arange(30_000).view(np.matrix),
    ],
    ids=["strided", "transposed", "empty", "objects", "records", "masked", "matrix"],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_any_kind_of_array_comes_back(value: Any) -> None:
    """With its values, shape and type."""
    loaded = round_trip(pack(value))
    assert type(loaded) is type(value)
    assert loaded.dtype == value.dtype
    assert loaded.shape == value.shape
    assert (loaded == value).all()


def test_a_read_only_array_stays_read_only() -> None:
    """It is what its owner made of it."""
    frozen = np.arange(50_000)
    frozen.flags.writeable = False
    assert not round_trip(pack(frozen)).flags.writeable


def test_one_array_in_two_places_stays_one() -> None:
    """And is sent once."""
    shared = np.arange(50_000)
    packed = pack([shared, shared])
    assert len(packed.sizes) == 2
    first, second = round_trip(packed)
    assert first is second


def test_lambdas_are_packed_by_value() -> None:
    """What cannot be imported is sent itself."""
    offset = 3
    assert round_trip(pack(lambda number: number + offset))(4) == 7


def test_what_cannot_be_pickled_raises_and_leaves_no_file() -> None:
    """Also when a large array comes before it."""
    before = files()
    with pytest.raises(TypeError, match="cannot pickle"):
        pack([np.zeros(100_000), threading.Lock()])
    assert files() == before


def test_a_copy_is_a_file_of_its_own() -> None:
    """The one can be closed while the other is sent."""
    packed = pack(np.arange(50_000))
    copy = packed.copy()
    packed.close()
    assert round_trip(copy).sum() == np.arange(50_000).sum()


def test_lists_that_came_one_by_one_are_one_list() -> None:
    """In the order in which they came."""
    together = PackedLists(pack([1, 2]))
    together.add(pack([]))
    together.add(pack(["three"]))
    assert together.load() == [1, 2, "three"]
    assert together.total_bytes == sum(pack(value).total_bytes for value in ([1, 2], [], ["three"]))


def test_closing_twice_is_harmless() -> None:
    """The number of the file may be another file's by then."""
    packed = pack(np.zeros(50_000))
    packed.close()
    packed.close()
    assert packed.descriptor is None


def test_a_loaded_array_holds_no_descriptor() -> None:
    """Memory is what it costs, and not one of the files that a process may have open."""
    before = files()
    arrays = [round_trip(pack(np.zeros(50_000))) for _ in range(10)]
    assert files() == before
    assert len(arrays) == 10


@pytest.mark.parametrize("value", [[1, 2, 3], np.arange(1_000_000)], ids=["inline", "file"])
@pytest.mark.parametrize("most_bytes", [10**9, 70_000])
def test_a_value_is_rebuilt_from_its_content(value: Any, most_bytes: int) -> None:
    """Wherever that was kept, and however little is read of it at a time."""
    packed = pack(value)
    content = bytes(packed.content())
    rebuilt = Packed.from_content(
        lambda offset, size: content[offset : offset + min(size, most_bytes)],
        packed.sizes,
        was_inline=packed.descriptor is None,
    )
    packed.close()
    assert np.array_equal(round_trip(rebuilt), value)


def test_content_that_was_cut_short_is_an_error() -> None:
    """A full disk is not taken for a value."""
    packed = pack(np.arange(100_000))
    content = bytes(packed.content())[:-1000]
    sizes = packed.sizes
    packed.close()
    before = files()
    with pytest.raises(OSError, match="cut short: 1000 bytes are missing"):
        Packed.from_content(lambda offset, size: content[offset : offset + size], sizes, was_inline=False)
    assert files() == before
