"""What a batch of rows can be: arrays, data frames, tables of other libraries, or plain dictionaries."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from aliquot.errors import MissingExtraError, UsageError
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable, check_columns
from aliquot.virtual_file.tables.type_names import array_type
from aliquot.virtual_file.tables.wording import one_line

if TYPE_CHECKING:
    import numpy

# Whole numbers beyond this are not all there as floats.
_LARGEST_EXACT = 2**53
FORMS = ("awkward", "numpy", "pandas", "arrow", "polars", "records")

_ALIASES = {"ak": "awkward", "np": "numpy", "pd": "pandas", "pa": "arrow", "pl": "polars", "pyarrow": "arrow"}
_LIBRARIES = {"awkward": "awkward", "pandas": "pandas", "arrow": "pyarrow", "polars": "polars"}
_EXTRAS = {"awkward": "hep", "pyarrow": "arrow", "h5py": "hdf5", "uproot": "hep", "duckdb": "duckdb"}

_MOST_BAD_ROWS = 10_000


def canonical_form(told: str | None, offered: Sequence[str], format_name: str) -> str:
    """The name of a form, the first that is offered by default. Raises where its library is not installed, too."""
    form = offered[0] if told is None else _ALIASES.get(told, told)
    if form not in offered:
        problem = f"{format_name} gives no such batches" if form in FORMS else "there is no such form"
        choices = ", ".join(repr(name) for name in offered)
        raise UsageError(f"as_={told!r}: {problem}. Choose one of {choices}")
    library = _LIBRARIES.get(form)
    if library is not None and importlib.util.find_spec(library) is None:
        raise _missing(library, f"as_={form!r}")
    return form


def needed(library: str, purpose: str) -> Any:
    """Import an optional library, or a module of it; or say how to install it."""
    outermost = library.partition(".")[0]
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != outermost:  # it is there, and lacks something itself
            raise
        raise _missing(outermost, purpose) from error


def _missing(library: str, purpose: str) -> UsageError:
    extra = _EXTRAS.get(library)
    if extra is None:
        return UsageError(f"{purpose} needs {library}: pip install {library}")
    return MissingExtraError(purpose, extra)


def _library_of(form: str) -> Any:
    return needed(_LIBRARIES[form], f"as_={form!r}")


class Columns:
    """Some rows, as a numpy array for each column.

    ``batch["pt"]`` is an array; ``batch[["pt", "eta"]]`` has only these columns; ``batch[2:5]``, or an array of
    booleans or of positions, has only these rows; ``batch[0]`` is one row, a dictionary, as they come when iterating.
    """

    __slots__ = ("_arrays", "_rows")

    def __init__(self, arrays: Mapping[str, numpy.ndarray[Any, Any]], rows: int | None = None) -> None:
        self._arrays = dict(arrays)
        # Without any column, only the caller knows.
        self._rows = rows if rows is not None else len(next(iter(self._arrays.values()), ()))
        for name, array in self._arrays.items():
            if len(array) != self._rows:
                raise UsageError(f"column {name!r} has {len(array)} rows, and others have {self._rows}")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, in order."""
        return tuple(self._arrays)

    def arrays(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """An array for each column, by name."""
        return dict(self._arrays)

    def __len__(self) -> int:
        return self._rows

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(_records(self._arrays, self._rows))

    @overload
    def __getitem__(self, key: str) -> numpy.ndarray[Any, Any]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | list[str] | numpy.ndarray[Any, Any]) -> Columns: ...
    def __getitem__(self, key: Any) -> Any:
        import numpy

        if isinstance(key, str):
            try:
                return self._arrays[key]
            except KeyError:
                raise KeyError(f"no column {key!r}: there are {', '.join(self._arrays)}") from None
        if isinstance(key, (int, numpy.integer)):
            row = range(self._rows)[key]
            return _records({name: array[row : row + 1] for name, array in self._arrays.items()}, 1)[0]
        if isinstance(key, slice):
            rows = len(range(self._rows)[key])
            return Columns({name: array[key] for name, array in self._arrays.items()}, rows)
        if isinstance(key, list) and key and all(isinstance(name, str) for name in key):
            return Columns({name: self[name] for name in key}, self._rows)
        chosen = numpy.arange(self._rows)[key]  # checks the key once, and counts
        return Columns({name: array[key] for name, array in self._arrays.items()}, len(chosen))

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {array_type(array)}" for name, array in list(self._arrays.items())[:6])
        more = f", and {len(self._arrays) - 6} more" if len(self._arrays) > 6 else ""
        return f"<Columns of {self._rows} rows: {columns}{more}>"


def from_numpy(columns: Mapping[str, numpy.ndarray[Any, Any]], form: str) -> Any:
    """Rows in any form, from an array for each column. Those of more than one axis fit only some forms."""
    if form == "numpy":
        return Columns(columns)
    if form == "records":
        return _records(columns, len(next(iter(columns.values()), ())))
    library = _library_of(form)
    arrays = {name: _native(array) for name, array in columns.items()}
    if form == "awkward":
        contents = {name: _awkward_of(array, library) for name, array in arrays.items()}
        return library.zip(contents, depth_limit=1) if contents else library.Array([])
    for name, array in arrays.items():
        if array.ndim > 1 or array.dtype.names is not None:
            what = "several axes" if array.ndim > 1 else "fields"
            raise UsageError(
                f"column {name!r} has {what} ({array_type(array)}), which as_={form!r} has no place for: "
                "use as_='numpy', 'awkward' or 'records', or leave the column out"
            )
    if form == "pandas":
        return library.DataFrame(arrays)
    if form == "polars":
        # Of a list it finds out what the objects are; without any, it leaves the type open.
        return library.DataFrame(
            {name: array.tolist() if array.dtype.kind == "O" else array for name, array in arrays.items()}
        )
    contents = {}
    for name, array in arrays.items():
        try:
            contents[name] = library.array(array)
        except library.ArrowException as error:
            raise UsageError(
                f"column {name!r} ({array_type(array)}) cannot be an arrow array: {error}. "
                "Use as_='numpy', or leave the column out"
            ) from error
    return library.table(contents)


def from_arrow(table: Any, form: str) -> Any:
    """Rows in any form, from an arrow table.

    As numpy arrays, numbers of which some are missing become floats with NaN, as in pandas; or stay as they are, as
    objects, where a float has not so many digits.
    """
    if form == "arrow":
        return table
    if form == "numpy":
        return Columns({name: _numpy_of(name, table.column(name)) for name in table.column_names}, table.num_rows)
    if form == "records":
        return table.to_pylist()
    library = _library_of(form)
    if form == "pandas":
        return table.to_pandas(use_threads=False, integer_object_nulls=any(map(_loses_digits, table.columns)))
    if form == "awkward":
        table = _without_dictionaries(table)  # awkward cannot put such columns together
    return library.from_arrow(table)  # so it is called in awkward and in polars


def check_content(table: Any, first_row: int) -> None:
    """Raise `BadRows` for the first rows of an arrow table that hold what they must not: bad offsets, or bad UTF-8."""
    problem = _problem_in(table, 0, table.num_rows)
    if not problem:
        return
    low, high = 0, table.num_rows  # the first bad row is among these
    while high - low > 1:
        middle = (low + high) // 2
        if _problem_in(table, low, middle):
            high = middle
        else:
            low = middle
    # Damage is often to many rows in turn. They are told together, but not looked for without end.
    problem = _problem_in(table, low, high) or problem
    last = min(table.num_rows, low + _MOST_BAD_ROWS)
    while high < last and _problem_in(table, high, high + 1):
        high += 1
    raise BadRows(f"a value cannot be what it is ({problem})", first_row + low, first_row + high)


def _problem_in(table: Any, start: int, stop: int) -> str:
    try:
        table.slice(start, stop - start).validate(full=True)
    except _library_of("arrow").ArrowException as error:
        return one_line(error)
    return ""


def distinct_columns(wanted: Sequence[str] | None, available: Sequence[str]) -> tuple[str, ...]:
    """As `check_columns`, where a file may have two columns of one name, which no form has a place for."""
    columns = tuple(dict.fromkeys(check_columns(wanted, available)))
    twice = {name for name, count in Counter(available).items() if count > 1}.intersection(columns)
    if twice:
        raise UnreadableTable(f"has two columns {min(twice)!r}", advice="Name the columns to read, without this one")
    return columns


def concatenate(parts: Sequence[Any], form: str) -> Any:
    """Batches of one form, put together. One alone is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    return _CONCATENATE[form](parts)


def _concatenate_records(parts: Sequence[Any]) -> Any:
    return [row for part in parts for row in part]


def _concatenate_columns(parts: Sequence[Columns]) -> Any:
    import numpy

    rows = sum(len(part) for part in parts)
    return Columns({name: numpy.concatenate([part[name] for part in parts]) for name in parts[0].names}, rows)


def _concatenate_pandas(parts: Sequence[Any]) -> Any:
    pandas = _library_of("pandas")
    # An index that is only a count goes on counting; one with a meaning is kept.
    counted = all(isinstance(part.index, pandas.RangeIndex) for part in parts)
    return pandas.concat(parts, ignore_index=counted)


def _concatenate_polars(parts: Sequence[Any]) -> Any:
    columns = parts[0].columns  # files may have the same ones in another order
    return _library_of("polars").concat([part.select(columns) for part in parts], how="vertical_relaxed")


def _concatenate_arrow(parts: Sequence[Any]) -> Any:
    return _library_of("arrow").concat_tables(parts, promote_options="permissive")


def _concatenate_awkward(parts: Sequence[Any]) -> Any:
    return _library_of("awkward").concatenate(parts)


_CONCATENATE: dict[str, Callable[[Sequence[Any]], Any]] = {
    "awkward": _concatenate_awkward,
    "numpy": _concatenate_columns,
    "pandas": _concatenate_pandas,
    "arrow": _concatenate_arrow,
    "polars": _concatenate_polars,
    "records": _concatenate_records,
}


def _records(columns: Mapping[str, numpy.ndarray[Any, Any]], rows: int) -> list[dict[str, Any]]:
    """A dictionary for each row, with Python's own numbers and strings."""
    names = list(columns)
    if not names:
        return [{} for _ in range(rows)]
    # Times stay numpy's: as Python's own, those in nanoseconds would be bare numbers.
    values = [list(array) if array.dtype.kind in "mM" else array.tolist() for array in columns.values()]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _native(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """In this machine's byte order, which is all that the other libraries take."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _awkward_of(array: numpy.ndarray[Any, Any], awkward: Any) -> Any:
    if array.dtype.kind == "O":
        return awkward.from_iter(array.tolist())
    return awkward.from_numpy(array, regulararray=True)


def _numpy_of(name: str, column: Any) -> numpy.ndarray[Any, Any]:
    """One column of an arrow table as an array that belongs to the caller."""
    types = _library_of("arrow").types
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_fixed_size_list(kind) and types.is_primitive(kind.value_type) and not column.null_count:
        values = column.combine_chunks().flatten()
        return _own(values.to_numpy(zero_copy_only=False)).reshape(len(column), kind.list_size)
    if types.is_nested(kind) and not types.is_struct(kind):
        raise UsageError(
            f"column {name!r} is ragged ({kind}), which numpy has no place for: "
            "use as_='awkward' or 'arrow', or leave the column out"
        )
    if _loses_digits(column):
        import numpy

        objects = numpy.empty(len(column), dtype=object)
        objects[:] = column.to_pylist()
        return objects
    return _own(column.to_numpy())


def _loses_digits(column: Any) -> bool:
    """Whether some numbers are missing, and others are too large to be floats, as all would then become."""
    arrow = _library_of("arrow")
    if not column.null_count or not arrow.types.is_integer(column.type) or column.type.bit_width < 64:
        return False
    import pyarrow.compute

    ends = pyarrow.compute.min_max(column).as_py()
    return any(end is not None and abs(end) > _LARGEST_EXACT for end in ends.values())


def _without_dictionaries(table: Any) -> Any:
    """With the values themselves in columns that hold numbers of entries in a dictionary."""
    types = _library_of("arrow").types
    for number, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            plain = field.with_type(field.type.value_type)
            table = table.set_column(number, plain, table.column(number).cast(plain.type))
    return table


def _own(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    return array if array.flags.writeable else array.copy()
