"""How names and errors become parts of sentences and of queries."""

from __future__ import annotations


def one_line(error: BaseException, most: int = 200) -> str:
    """What a library says first, as part of a sentence: some go on with everything that they know."""
    # Some of uproot's begin with where they are, and have what they say by itself.
    text = getattr(error, "message", None)
    lines = (text if isinstance(text, str) and text else str(error)).splitlines()
    said = next((" ".join(line.split()) for line in lines if line.strip()), "").rstrip(".")
    if not said:
        return type(error).__name__
    if isinstance(error, KeyError):  # says no more than the key
        said = f"{type(error).__name__}: {said}"
    return said if len(said) <= most else f"{said[:most]}..."


def quoted(name: str) -> str:
    """As SQL has the names of tables and columns."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
