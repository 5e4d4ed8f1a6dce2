from __future__ import annotations

import math
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.forms import from_numpy
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable, check_columns
from aliquot.virtual_file.tables.type_names import numpy_type
from aliquot.virtual_file.tables.wording import one_line

if TYPE_CHECKING:
    import numpy

# Compressed arrays that are not larger, all together, are decompressed once and kept.
_KEPT_BYTES = 32 << 20
# Compressed bytes are taken in pieces that do not depend on what is asked for: so damage begins at the same row always.
_PIECE_BYTES = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # what stands before a member: lengths of its name and of something extra
_SUFFIX = ".npy"
_FAULTS = (
    zlib.error,
    struct.error,
    zipfile.BadZipFile,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class _Array:
    """One array of the archive: what its header says, and where its first row is."""

    name: str
    member: zipfile.ZipInfo
    dtype: numpy.dtype[Any]
    shape: tuple[int, ...]
    by_columns: bool  # so that a row is not in one place
    member_byte: int  # of the file, where the member begins
    header_bytes: int  # of the array, before its first row

    @property
    def data_byte(self) -> int:
        """Where the first row is in the file, if it is stored as it is."""
        return self.member_byte + self.header_bytes

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def stored(self) -> bool:
        return self.member.compress_type == zipfile.ZIP_STORED

    @property
    def type_name(self) -> str:
        return numpy_type(self.dtype, self.shape[1:])


class NpzTable(Table):
    """The arrays of a numpy archive, side by side: their first axes are the rows.

    Of arrays that are stored as they are, only the wanted rows are read. Compressed ones are decompressed once and kept
    where they are small, and otherwise as far as needed, going on where the last call left them.
    """

    name = "npz"
    suffixes = (".npz",)
    library = "numpy"
    forms = ("numpy", "pandas", "polars", "arrow", "awkward", "records")

    _file: Any = None
    _archive: zipfile.ZipFile | None = None
    _arrays: tuple[_Array, ...] = ()
    _state: _Decompressed | None = None

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """A zip archive whose first member is an array."""
        if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
            return False
        _, name_bytes, _ = _LOCAL_HEADER.unpack_from(head)
        return head[30 : 30 + name_bytes].endswith(_SUFFIX.encode())

    def facts(self) -> Facts:
        """From the headers of the arrays."""
        arrays = self._opened()
        self._in_form({array.name: _empty(array, 0) for array in arrays})  # refuses what has no place in the form
        return Facts(arrays[0].rows if arrays else 0, (), {array.name: array.type_name for array in arrays})

    def read(self, start: int, stop: int) -> Any:
        """Every wanted array from one row up to another."""
        return self._in_form({array.name: self._rows_of(array, start, stop) for array in self._opened()})

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Rows that are stored as they are; compressed arrays as a whole."""
        found = []
        for array in self._opened():
            if start >= stop:
                break
            if array.stored and not array.by_columns:
                begin = array.data_byte + start * array.row_bytes
                found.append(ByteRange(self.path, begin, begin + (stop - start) * array.row_bytes))
            else:
                end = array.member_byte + array.member.compress_size
                found.append(ByteRange(self.path, array.member_byte, end))
        return found

    def close(self) -> None:
        """And forget what was decompressed."""
        self._state = None
        if self._archive is not None:
            self._archive.close()
            self._archive = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()  # as other libraries do, without a warning

    def _in_form(self, columns: dict[str, numpy.ndarray[Any, Any]]) -> Any:
        return from_numpy(columns, self.form)

    def _opened(self) -> tuple[_Array, ...]:
        if self._archive is not None:
            return self._arrays
        try:
            self._file = open(self.path, "rb")  # noqa: SIM115  # kept for the calls that follow
        except OSError as error:
            raise UnreadableTable(f"cannot be opened ({error.strerror})") from error
        try:
            self._arrays, self._archive = self._look()
        except BaseException:
            self._file.close()
            self._file = None
            raise
        self._state = _Decompressed(self._archive, self._arrays)
        return self._arrays

    def _look(self) -> tuple[tuple[_Array, ...], zipfile.ZipFile]:
        head = self._file.read(4)
        if not head:
            raise UnreadableTable("is empty, and a numpy archive is not, even without arrays")
        if head[:2] != b"PK":
            raise UnreadableTable("is not a numpy archive: it does not begin as a zip archive does", byte=0)
        try:
            archive = zipfile.ZipFile(self._file)
        except _FAULTS as error:
            raise UnreadableTable(
                f"has no list of its arrays at its end ({one_line(error)})",
                advice="Was it copied or written to its end? Copy or write it again",
            ) from error
        members = {
            member.filename.removesuffix(_SUFFIX): member
            for member in archive.infolist()
            if member.filename.endswith(_SUFFIX)
        }
        if self.inner and self.inner not in members:
            raise UnreadableTable(f"has no array {self.inner!r}", advice=f"It has {', '.join(members) or 'none'}")
        names = dict.fromkeys(check_columns(self.columns, [self.inner] if self.inner else list(members)))
        arrays = tuple(_look_at(self._file, archive, name, members[name]) for name in names)
        for array in arrays[1:]:
            if array.rows != arrays[0].rows:
                raise UnreadableTable(
                    f"array {arrays[0].name!r} has {arrays[0].rows} rows, and {array.name!r} has {array.rows}",
                    advice="Name the columns to read, of arrays that belong together",
                )
        return arrays, archive

    def _rows_of(self, array: _Array, start: int, stop: int) -> numpy.ndarray[Any, Any]:
        assert self._state is not None
        if not array.stored:
            return self._state.rows_of(array, start, stop)
        if array.by_columns and start < stop:
            import numpy

            mapped = numpy.memmap(self.path, array.dtype, "r", array.data_byte, array.shape, "F")
            return numpy.array(mapped[start:stop])
        content = bytearray((stop - start) * array.row_bytes)
        begin = array.data_byte + start * array.row_bytes
        try:
            self._file.seek(begin)
            found = self._file.readinto(content)
        except OSError as error:
            problem = f"array {array.name!r} cannot be read ({one_line(error)})"
            raise BadRows(problem, start, stop, begin, is_certain=False) from error
        if found < len(content):
            first = start + found // array.row_bytes
            raise BadRows(f"the file ends within array {array.name!r}", first, stop, begin + found)
        return _shaped(array, content, stop - start)


class _Decompressed:
    """What was decompressed of an archive, and may be wanted again."""

    def __init__(self, archive: zipfile.ZipFile, arrays: tuple[_Array, ...]) -> None:
        self._archive = archive
        total_bytes = sum(array.member.file_size for array in arrays if not array.stored)
        self._keep_all = total_bytes <= _KEPT_BYTES
        self._whole: dict[str, numpy.ndarray[Any, Any]] = {}
        self._streams: dict[str, _Stream] = {}
        self._bad: dict[str, tuple[int, str]] = {}  # the first row of an array that cannot be had, and why

    def rows_of(self, array: _Array, start: int, stop: int) -> numpy.ndarray[Any, Any]:
        """Some rows of a compressed array, which belong to the caller."""
        as_a_whole = self._keep_all or array.by_columns
        if as_a_whole and array.name not in self._whole and array.name not in self._bad:
            content = self._content(array, 0, array.rows)
            if content is not None:
                self._whole[array.name] = _shaped(array, content, array.rows)
            else:
                # What could be decompressed before the damage was noticed may be wrong: only the checksum, at the end,
                # would tell.
                self._bad[array.name] = (0, self._bad[array.name][1])
        if array.name in self._whole:
            return self._whole[array.name][start:stop].copy()
        content = None
        if start == stop or self._bad.get(array.name, (stop, ""))[0] >= stop:
            content = self._content(array, start, stop)
        if content is None:
            first, problem = self._bad[array.name]
            advice = "Copy the file again, or write it again"
            if first:
                advice = f"Rows before row {first} of this file may be wrong too. {advice}"
            raise BadRows(problem, max(start, first), stop, array.member.header_offset, advice)
        return _shaped(array, content, stop - start)

    def _content(self, array: _Array, start: int, stop: int) -> bytearray | None:
        """The bytes of some rows; None where some are bad, which is noted."""
        begin = array.header_bytes + start * array.row_bytes
        stream = self._streams.pop(array.name, None)
        if stream is None or begin < stream.at:
            stream = _Stream(self._archive, array.member)
        content = bytearray((stop - start) * array.row_bytes)
        try:
            stream.read_into(content, begin)
        except MemoryError:
            raise
        except _FAULTS as error:
            bad_byte = max(stream.at - array.header_bytes, 0)
            problem = f"array {array.name!r} cannot be decompressed ({one_line(error)})"
            self._bad[array.name] = (bad_byte // max(array.row_bytes, 1), problem)
            return None
        self._streams[array.name] = stream
        return content


class _Stream:
    """A member that is decompressed from its beginning on, by pieces, of which the last one is kept."""

    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._member = member
        self._file: Any = None
        self._piece = b""
        self.at = 0  # where the piece begins

    def read_into(self, content: bytearray, begin: int) -> None:
        """Fill it with what is there from a byte on, which is not before the piece."""
        if self._file is None:
            self._file = self._archive.open(self._member)
        filled = 0
        while filled < len(content):
            within = begin + filled - self.at
            if within >= len(self._piece):
                self.at += len(self._piece)
                self._piece = b""
                self._piece = self._file.read(_PIECE_BYTES)
                if not self._piece:
                    raise EOFError("it ends too early")
                continue
            part = self._piece[within : within + len(content) - filled]
            content[filled : filled + len(part)] = part
            filled += len(part)


def _look_at(file: Any, archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> _Array:
    """Read the header of an array."""
    from numpy.lib import format as npy_format

    if member.flag_bits & 1:
        raise UnreadableTable(f"array {name!r} is encrypted", byte=member.header_offset)
    try:
        with archive.open(member) as content:
            version = npy_format.read_magic(content)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"version {version} is not supported")  # noqa: TRY301  # told below
            read_header = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, by_columns, dtype = read_header(content)
            header_bytes = content.tell()
        member_byte = _member_byte(file, member)
    except MemoryError:
        raise
    except Exception as error:  # a header is Python's own syntax, and may be anything else
        raise UnreadableTable(
            f"the header of array {name!r} cannot be read ({one_line(error)})",
            byte=member.header_offset,
            advice="Copy the file again, write it again, or name other columns",
        ) from error
    if dtype.hasobject:
        raise UnreadableTable(
            f"array {name!r} holds Python objects, which could run anything when they are loaded",
            advice="Name other columns, or save it as numbers or as text of fixed length",
        )
    if not shape:
        raise UnreadableTable(f"array {name!r} is a single value, without rows", advice="Name other columns")
    array = _Array(name, member, dtype, shape, by_columns and len(shape) > 1, member_byte, header_bytes)
    announced = header_bytes + array.rows * array.row_bytes
    if announced != member.file_size:
        raise UnreadableTable(
            f"array {name!r} announces {announced} bytes, and has {member.file_size}",
            byte=member.header_offset,
            advice="Was numpy.savez finished?",
        )
    return array


def _member_byte(file: Any, member: zipfile.ZipInfo) -> int:
    """Where the content of a member begins in the file."""
    file.seek(member.header_offset)
    magic, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if magic != b"PK\x03\x04":
        raise ValueError("it is not where the list at the end says")
    return member.header_offset + _LOCAL_HEADER.size + int(name_bytes) + int(extra_bytes)


def _empty(array: _Array, rows: int) -> numpy.ndarray[Any, Any]:
    import numpy

    return numpy.zeros((rows, *array.shape[1:]), array.dtype)


def _shaped(array: _Array, content: bytearray, rows: int) -> numpy.ndarray[Any, Any]:
    import numpy

    if not content:
        return _empty(array, rows)
    order = "F" if array.by_columns else "C"
    return numpy.frombuffer(content, array.dtype).reshape((rows, *array.shape[1:]), order=order)  # type: ignore[call-overload,no-any-return]  # order is one of two
