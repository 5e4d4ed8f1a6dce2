"""Values as bytes, with large buffers aside: an array is copied once, into shared memory, and used there.

    pickle (protocol 5)  ->  | pickle | array | array | ...     in one anonymous file, mapped by the receiver

A pickle that is small goes through the socket itself. `_pickle` is `pickle` without what that imports besides.
"""

from __future__ import annotations

import mmap
import os
import sys
from _pickle import PickleBuffer, dumps, loads
from _weakref import ref as weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Through a socket, a byte is copied in and out again; up to here that is cheaper than a file of its own.
MOST_INLINE_BYTES = 128 << 10
_SMALLEST_ASIDE_BYTES = 16 << 10
# To make an array of fewer is not worth it.
_FEWEST_AS_ARRAY = 8
_ALIGNMENT = 64
_COPY_BYTES = 4 << 20
# A mapping holds a descriptor as long as it lives, and a process has about a thousand of them.
_MOST_MAPPED = 128
_SMALLEST_MAPPED_BYTES = 1 << 20


_mapped: dict[int, Any] = {}


class Packed:
    """A pickled value, inline or in a file; ``sizes`` are those of the pickle and of the buffers."""

    __slots__ = ("descriptor", "inline", "sizes")

    def __init__(self, inline: bytes | bytearray, sizes: tuple[int, ...], descriptor: int | None) -> None:
        self.inline = inline
        self.sizes = sizes
        self.descriptor = descriptor

    @property
    def total_bytes(self) -> int:
        """How large it is."""
        return sum(self.sizes)

    def load(self) -> Any:
        """Unpickle; arrays stay where they are, and keep the file mapped as long as they live."""
        pickled, *buffers = self._parts(self.content())
        return loads(pickled, buffers=buffers)

    def content(self) -> memoryview:
        """All bytes, as they are laid out."""
        if self.descriptor is None:
            return memoryview(self.inline)
        return _map(self.descriptor, _layout(self.sizes)[-1])

    @classmethod
    def from_content(cls, read: Callable[[int, int], bytes], sizes: tuple[int, ...], *, was_inline: bool) -> Packed:
        """Rebuild from what ``read(offset, size)`` gives of the `content`."""
        if was_inline:
            return cls(_read_all(read, 0, sizes[0]), sizes, None)
        end = _layout(sizes)[-1]
        descriptor = os.memfd_create("aliquot-value", os.MFD_CLOEXEC)
        try:
            for offset in range(0, end, _COPY_BYTES):
                os.pwrite(descriptor, _read_all(read, offset, min(_COPY_BYTES, end - offset)), offset)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(b"", sizes, descriptor)

    def in_memory(self) -> Packed:
        """The same without a file; closes this one."""
        if self.descriptor is None:
            return self
        content = bytearray(self.content())
        self.close()
        return Packed(content, self.sizes, None)

    def copy(self) -> Packed:
        """The same, to be sent once more."""
        return Packed(self.inline, self.sizes, None if self.descriptor is None else os.dup(self.descriptor))

    def close(self) -> None:
        """Give the file back; what was loaded stays."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _parts(self, memory: memoryview) -> list[memoryview]:
        offsets = _layout(self.sizes)
        return [memory[offset : offset + size] for offset, size in zip(offsets, self.sizes, strict=False)]


class PackedLists(Packed):
    """Lists that came one by one, as one list. Nobody sends it on."""

    __slots__ = ("_lists",)

    def __init__(self, first: Packed) -> None:
        super().__init__(b"", first.sizes, None)
        self._lists = [first]

    def add(self, more: Packed) -> None:
        """It comes behind those that are there. Neither has a file."""
        self._lists.append(more)
        self.sizes += more.sizes

    def load(self) -> Any:
        """All values."""
        values: list[Any] = []
        for packed in self._lists:
            values += packed.load()
        return values


# How pickle names a class, for the first time: a text and the class itself, each noted. Among numbers it is rare.
_OBJECT = b"\x94\x93\x94"


def pack(value: Any) -> Packed:
    """Pickle a value, into a file if it is large.

    What belongs to the user's script or notebook is pickled by value, as no other process can import it.
    """
    return _packed(*_pickle(value))


def _pickle(value: Any) -> tuple[bytes, list[memoryview]]:
    try:
        pickled, buffers = _dump(value, dumps)
    except Exception:
        return _dump(value, _by_value())
    if b"_main__" in pickled:  # also __mp_main__, as a script is called in a process of multiprocessing
        return _dump(value, _by_value())
    return pickled, buffers


def _packed(pickled: bytes, buffers: list[memoryview]) -> Packed:
    sizes = (len(pickled), *(buffer.nbytes for buffer in buffers))
    if sum(sizes) <= MOST_INLINE_BYTES and not buffers:
        return Packed(pickled, sizes, None)
    return Packed(b"", sizes, _write_file([memoryview(pickled), *buffers], sizes))


def pack_values(values: list[Any]) -> Packed:
    """Pickle some values, as `pack` does. Numbers of numpy go as an array, and are a list of such numbers again.

    Refuses exceptions that could not be unpickled, as those are that take other arguments than they pass on: they are
    often returned, and nobody could tell later which unit they belong to.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and len(values) >= _FEWEST_AS_ARRAY and isinstance(values[0], numpy.generic):
        kind = type(values[0])
        is_plain = kind.__module__ == "numpy" and numpy.dtype(kind).kind in "biufc"
        if is_plain and set(map(type, values)) == {kind}:
            return pack(_AsArray(numpy.array(values, kind)))
    pickled, buffers = _pickle(values)
    if _OBJECT in pickled:
        for value in values:
            if isinstance(value, BaseException):
                _check_that_it_comes_back(value)
    return _packed(pickled, buffers)


def _check_that_it_comes_back(value: Any) -> None:
    packed = pack(value)
    try:
        packed.load()
    finally:
        packed.close()


class _AsArray:
    """A list, on its way: one by one, such numbers take ten times as long to pickle, and as many bytes."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __reduce__(self) -> tuple[type[list[Any]], tuple[Any]]:
        return (list, (self._array,))


def _dump(value: Any, dump: Callable[..., bytes]) -> tuple[bytes, list[memoryview]]:
    buffers: list[memoryview] = []

    def keep_inline(buffer: PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            return True  # not contiguous
        if raw.nbytes < _SMALLEST_ASIDE_BYTES:
            return True
        buffers.append(raw)
        return False

    return dump(value, protocol=5, buffer_callback=keep_inline), buffers


def _by_value() -> Callable[..., bytes]:
    import cloudpickle

    script = sys.modules.get("__mp_main__")
    if script is not None:
        cloudpickle.register_pickle_by_value(script)
    dump: Callable[..., bytes] = cloudpickle.dumps
    return dump


def _write_file(parts: list[memoryview], sizes: tuple[int, ...]) -> int:
    descriptor = os.memfd_create("aliquot-value", os.MFD_CLOEXEC)
    try:
        offsets = _layout(sizes)
        os.ftruncate(descriptor, offsets[-1])
        for part, offset in zip(parts, offsets, strict=False):
            while part.nbytes:
                written = os.pwrite(descriptor, part, offset)
                part, offset = part[written:], offset + written  # noqa: PLW2901  # what is left of it
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _layout(sizes: tuple[int, ...]) -> list[int]:
    """Where each part begins, and where the last one ends."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(at)
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
    return [*offsets, at]


def _map(descriptor: int, size: int) -> memoryview:
    """The content of a file, where it is; copied where it is small, or where too many are mapped already."""
    if size >= _SMALLEST_MAPPED_BYTES and len(_mapped) < _MOST_MAPPED:
        # Private: what one process writes to its array is not another's business.
        mapped = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
        number = id(mapped)
        _mapped[number] = weakref(mapped, lambda _: _mapped.pop(number, None))
        return memoryview(mapped)
    # Aligned as the file is, which bytes of Python would not be.
    view, at = memoryview(mmap.mmap(-1, size)), 0
    while at < size:
        at += os.preadv(descriptor, [view[at:]], at)
    return view


def _read_all(read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
    content = read(offset, size)
    while len(content) < size:
        piece = read(offset + len(content), size - len(content))
        if not piece:
            raise OSError(f"a result that was put on disk is cut short: {size - len(content)} bytes are missing")
        content += piece
    return content
