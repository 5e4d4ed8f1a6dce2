"""Files made of frames that are compressed one by one: BGZF, and zstd with several frames.

    file      | frame | frame | frame | frame |      a point is remembered about every MiB of content;
    content   |   .   |   .   |   .   |   .   |      from there, frames are skipped by their headers

Any byte is reached by decoding the one or two frames that hold it.
"""

from __future__ import annotations

import os
import threading
import zlib
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from aliquot.errors import AliquotError, DataError, MissingExtraError
from aliquot.virtual_file.forking import renew_locks_after_fork
from aliquot.virtual_file.storage.magics import is_skippable, looks_like_bgzf, looks_like_zstd
from aliquot.virtual_file.storage.storage import Identity, Storage

_POINT_SPACING_BYTES = 1024 * 1024
_READ_BYTES = 512 * 1024
_LARGEST_FRAME_BYTES = 64 * 1024 * 1024
_CACHED_BYTES = 16 * 1024 * 1024
_BATCH_BYTES = 1024 * 1024

_Batch = list[tuple[int, memoryview]]

# The empty block that ends every complete BGZF file.
_BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


class FramedStorage(Storage):
    """Frames that can be decoded alone. Kinds of compression say how long a frame is and what is in it."""

    def __init__(self, path: str, identity: Identity) -> None:
        super().__init__(path, identity)
        self.renew_locks()
        renew_locks_after_fork(self)
        # Where frames begin, in the file and in the content; the last point is the end of what has been seen.
        self._file_offsets = array("q", [0])
        self._content_offsets = array("q", [0])
        self._frontier = (0, 0)
        self._end_was_checked = False
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cached_bytes = 0

    def renew_locks(self) -> None:
        """Make a new lock, also in a new process."""
        self._lock = threading.RLock()

    @abstractmethod
    def frame_bytes(self, data: memoryview) -> int | None:
        """The length of the frame that ``data`` begins with, or None if more of it must be read."""

    @abstractmethod
    def content_bytes(self, frame: memoryview) -> int | None:
        """The length of what is in a frame, or None if only decoding tells."""

    @abstractmethod
    def decode(self, frame: memoryview) -> bytes:
        """What is in a frame."""

    def check_end(self, descriptor: int) -> None:
        """Raise if the file looks complete but is cut between two frames."""

    @property
    def known_size_bytes(self) -> int | None:
        """Known once the last frame was seen."""
        file_offset, content_offset = self._frontier
        # The end of the file may have been read while its last frames are still being decoded.
        return content_offset if self._end_was_checked and file_offset == self.identity.size_bytes else None

    def read_at(self, offset: int, length: int) -> bytes:
        """Decode the frames that hold the range."""
        return b"".join(self._content(offset, offset + length))

    def pieces(self, start: int, stop: int | None = None, *, threads: int = 1) -> Iterator[bytes]:
        """Decode onwards; with several threads, ahead of what is asked for."""
        if threads == 1:
            yield from self._content(start, stop)
            return
        at = start
        for frames in self._decoded_ahead(start, threads):
            for content_offset, data in frames:
                if stop is not None and content_offset >= stop:
                    return
                piece = data[max(0, at - content_offset) : None if stop is None else stop - content_offset]
                if piece:
                    yield piece
                    at = content_offset + len(data)

    def saved_state(self) -> bytes:
        """Return the points seen so far, as differences, which compress well."""
        with self._lock:
            frontier = array("q", [*self._frontier, self._end_was_checked])
            points = array("q")
            for offsets in (self._file_offsets, self._content_offsets):
                points.extend([offsets[0], *(b - a for a, b in pairwise(offsets))])
            return zlib.compress(frontier.tobytes() + points.tobytes(), 6)

    def restore_state(self, saved: bytes) -> None:
        """Take over the points."""
        if not saved:
            return
        numbers = array("q")
        numbers.frombytes(zlib.decompress(saved))
        points = numbers[3:]
        half = len(points) // 2
        with self._lock:
            self._frontier = (numbers[0], numbers[1])
            self._end_was_checked = bool(numbers[2])
            self._file_offsets = _running_sum(points[:half])
            self._content_offsets = _running_sum(points[half:])

    def _content(self, start: int, stop: int | None) -> Iterator[bytes]:
        if stop is None or start < stop:
            yield from self._content_of_frames(start, stop)
            self.check_unchanged()

    def _content_of_frames(self, start: int, stop: int | None) -> Iterator[bytes]:
        with self._lock:
            near = bisect_right(self._content_offsets, start) - 1
            at = self._file_offsets[near]
            content_offset = self._content_offsets[near]
        for file_offset, frame in self._frames(at):
            if stop is not None and content_offset >= stop:
                return
            data: bytes | None = self._cache.get(file_offset)
            length = len(data) if data is not None else self.content_bytes(frame)
            if data is None and (length is None or content_offset + length > start):
                data = self._decode_here(frame, file_offset, content_offset)
                length = len(data)
            assert length is not None
            self._saw(file_offset + len(frame), content_offset + length)
            if data is not None:
                piece = data[max(0, start - content_offset) : None if stop is None else stop - content_offset]
                if piece:
                    yield piece
            content_offset += length

    def _decode_here(self, frame: memoryview, file_offset: int, content_offset: int) -> bytes:
        data = self._decode_or_explain(frame, file_offset, content_offset)
        with self._lock:
            if file_offset not in self._cache:
                self._cache[file_offset] = data
                self._cached_bytes += len(data)
            while self._cached_bytes > _CACHED_BYTES and len(self._cache) > 1:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1])
        return data

    def _decode_or_explain(self, frame: memoryview, file_offset: int, content_offset: int | None) -> bytes:
        try:
            return self.decode(frame)
        except DataError:
            raise
        except Exception as error:
            raise self._damaged(
                f"the compressed block at byte {file_offset} of the file is damaged ({error})", content_offset
            ) from error

    def _decoded_ahead(self, start: int, threads: int) -> Iterator[list[tuple[int, bytes]]]:
        """Decode batches of frames in threads, give them back in order with their offsets into the content."""
        with self._lock:
            near = bisect_right(self._content_offsets, start) - 1
            at, content_offset = self._file_offsets[near], self._content_offsets[near]
        waiting: deque[tuple[Future[list[bytes]], list[int]]] = deque()

        def finish() -> list[tuple[int, bytes]]:
            nonlocal content_offset
            future, ends = waiting.popleft()
            decoded = []
            for end, data in zip(ends, future.result(), strict=True):
                decoded.append((content_offset, data))
                content_offset += len(data)
                self._saw(end, content_offset)
            return decoded

        def decode_all(batch: list[tuple[int, memoryview]]) -> list[bytes]:
            return [self._decode_or_explain(frame, file_offset, None) for file_offset, frame in batch]

        with ThreadPoolExecutor(threads) as pool:
            try:
                for batch in _batched(self._frames(at)):
                    waiting.append((_submit(pool, decode_all, batch), [offset + len(frame) for offset, frame in batch]))
                    if len(waiting) > 2 * threads:
                        yield finish()
                while waiting:
                    yield finish()
            finally:
                pool.shutdown(cancel_futures=True)

    def _frames(self, file_offset: int) -> Iterator[tuple[int, memoryview]]:
        """All frames from one that begins at a file offset, with the file offset of each."""
        descriptor = self.open_unchanged()
        try:
            data = memoryview(b"")
            at = file_offset
            within = 0
            while True:
                length = self._length_of_frame(data[within:], at) if len(data) > within else None
                if length is not None and within + length <= len(data):
                    yield at, data[within : within + length]
                    within += length
                    at += length
                    continue
                rest = data[within:]
                if len(rest) > _LARGEST_FRAME_BYTES:
                    raise self._frame_too_large()
                to_read = min(max(_READ_BYTES, len(rest)), _LARGEST_FRAME_BYTES + 1 - len(rest))
                more = os.pread(descriptor, to_read, at + len(rest))
                if not more:
                    if rest:
                        raise self._damaged(f"the compressed data is cut short at byte {at + len(rest)}", None)
                    self.check_open_file(descriptor)
                    self.check_end(descriptor)
                    self._end_was_checked = True
                    return
                data = memoryview(bytes(rest) + more)
                within = 0
        finally:
            os.close(descriptor)

    def _length_of_frame(self, data: memoryview, file_offset: int) -> int | None:
        try:
            return self.frame_bytes(data)
        except Exception as error:
            raise self._damaged(
                f"no compressed block begins at byte {file_offset} of the file, where one should ({error})",
                None,
            ) from error

    def _saw(self, file_offset: int, content_offset: int) -> None:
        """Remember the end of a frame if it is further than all before."""
        with self._lock:
            if file_offset > self._frontier[0]:
                self._frontier = (file_offset, content_offset)
                if content_offset - self._content_offsets[-1] >= _POINT_SPACING_BYTES:
                    self._file_offsets.append(file_offset)
                    self._content_offsets.append(content_offset)

    def _frame_too_large(self) -> DataError:
        return self._damaged(
            f"a compressed frame is, or holds, more than {_LARGEST_FRAME_BYTES // 2**20} MiB, so it cannot be read "
            "from the middle",
            None,
            "Recompress it in many frames with pzstd, or with bgzip",
        )

    def _damaged(self, problem: str, byte: int | None, advice: str | None = None) -> DataError:
        return DataError(problem, path=self.path, byte=byte, advice=advice or "Copy or download it again")


class BgzfStorage(FramedStorage):
    """BGZF, as bgzip and samtools write it: gzip in blocks of at most 64 KiB that say how long they are."""

    compression = "bgzf"

    def __init__(self, path: str, identity: Identity) -> None:
        super().__init__(path, identity)
        self._inflate = _fastest_inflate()

    def frame_bytes(self, data: memoryview) -> int | None:
        """From the BC field of the gzip header."""
        if len(data) < 18:
            return None
        if not looks_like_bgzf(data):
            raise ValueError("not a BGZF header")
        return int.from_bytes(data[16:18], "little") + 1

    def content_bytes(self, frame: memoryview) -> int:
        """From the gzip trailer."""
        return int.from_bytes(frame[-4:], "little")

    def decode(self, frame: memoryview) -> bytes:
        """With its checksum checked."""
        return self._inflate(frame)

    def check_end(self, descriptor: int) -> None:
        """A complete file ends with an empty block."""
        end = os.pread(descriptor, len(_BGZF_END), max(0, self.identity.size_bytes - len(_BGZF_END)))
        if end != _BGZF_END:
            raise DataError(
                "the BGZF end marker is missing, so the file may be cut short",
                path=self.path,
                advice="Copy or download it again; if it is known to be whole, open it with compression='gzip'",
            )


class ZstdStorage(FramedStorage):
    """Zstandard in several frames, as pzstd and the seekable format write it. Skippable frames are empty."""

    compression = "zstd"

    def __init__(self, path: str, identity: Identity) -> None:
        super().__init__(path, identity)
        try:
            from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14 and later
        except ImportError:
            try:
                from backports import zstd
            except ImportError:
                raise MissingExtraError("Reading zstd files", "zstd") from None
        self._zstd: Any = zstd

    def frame_bytes(self, data: memoryview) -> int | None:
        """As the library finds it; it cannot tell a frame that is damaged from one that goes on."""
        if len(data) >= 4 and not looks_like_zstd(data):
            raise ValueError("not a zstd header")
        try:
            return int(self._zstd.get_frame_size(data))
        except self._zstd.ZstdError:
            return None

    def content_bytes(self, frame: memoryview) -> int | None:
        """From the frame's header, where it says."""
        if is_skippable(frame):
            return 0
        size: int | None = self._zstd.get_frame_info(frame).decompressed_size
        if size is not None and size > _LARGEST_FRAME_BYTES:
            raise self._frame_too_large()
        return size

    def decode(self, frame: memoryview) -> bytes:
        """With its checksum checked, where it has one."""
        if is_skippable(frame):
            return b""
        decoder = self._zstd.ZstdDecompressor()
        content: bytes = decoder.decompress(frame, max_length=_LARGEST_FRAME_BYTES + 1)
        if len(content) > _LARGEST_FRAME_BYTES:
            raise self._frame_too_large()
        if not decoder.eof:
            raise EOFError("the frame ends too early")
        return content


def _fastest_inflate() -> Callable[[memoryview], bytes]:
    """Choose isal, which takes about half the time of zlib, where it is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return lambda frame: zlib.decompress(frame, wbits=31)
    return lambda frame: isal_zlib.decompress(frame, wbits=31)


def _submit(pool: ThreadPoolExecutor, work: Callable[[_Batch], list[bytes]], batch: _Batch) -> Future[list[bytes]]:
    try:
        return pool.submit(work, batch)
    except RuntimeError as error:
        raise AliquotError("the program is ending, so that nothing more is decoded") from error


def _batched(frames: Iterator[tuple[int, memoryview]]) -> Iterator[list[tuple[int, memoryview]]]:
    batch: list[tuple[int, memoryview]] = []
    batch_bytes = 0
    for frame in frames:
        batch.append(frame)
        batch_bytes += len(frame[1])
        if batch_bytes >= _BATCH_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch


def _running_sum(differences: array[int]) -> array[int]:
    total = 0
    sums = array("q")
    for difference in differences:
        total += difference
        sums.append(total)
    return sums
