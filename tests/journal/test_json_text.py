"""What journals hold of any value."""

from __future__ import annotations

import enum
import math

import pytest

from aliquot.journal.json_text import from_json, to_json


class Kind(enum.Enum):
    RARE = 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null(number: float) -> None:
    """Also deep within; JSON has no word for it, and NaN would differ from itself when a run is gone on with."""
    assert to_json({"a": (1.5, [number]), "b": number}) == '{"a":[1.5,[null]],"b":null}'


def test_what_json_has_no_word_for_is_text() -> None:
    """A run must not fail because of an option of a format; and what it was is only compared with what it is."""
    told = {"separator": b"|", "names": {"b", "a"}, "kind": Kind.RARE}
    assert from_json(to_json(told)) == {"separator": "b'|'", "names": ["'a'", "'b'"], "kind": "<Kind.RARE: 1>"}


def test_a_key_may_be_anything() -> None:
    assert from_json(to_json({b"a": 1, (1, 2): 2, math.nan: 3})) == {"b'a'": 1, "(1, 2)": 2, "nan": 3}


def test_any_name_of_a_file_comes_back() -> None:
    """Also one that is no UTF-8."""
    name = b"r\xe9sum\xff\xc3\xa9 \n\0".decode(errors="surrogateescape")
    text = to_json([name])
    assert text.isascii()
    assert from_json(text) == [name]
