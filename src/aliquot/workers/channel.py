"""Messages between a parent and a worker: a kind, some numbers, and perhaps a value.

    | sizes: head, inline | head: pickled (kind, numbers, sizes of the value) | inline: small value |   + a descriptor

A large value is in a file whose descriptor travels with the message (see packing.py), so that a message is short.
"""

from __future__ import annotations

import _socket
import errno
import os
import struct
from _pickle import dumps, loads

from aliquot.workers.packing import Packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Parent to worker.
WORK, ASSIGN, ITEMS, ADVISE, TAKEN = "work", "assign", "items", "advise", "taken"
JOIN_FIRST, JOIN = "join first", "join"
# Worker to parent.
READY, REPORT, FAILED, EXHAUSTED, NEED, JOINED = "ready", "report", "failed", "exhausted", "need", "joined"

_SIZES = struct.Struct("<II")
_DESCRIPTOR = struct.Struct("i")
_ANCILLARY_BYTES = _socket.CMSG_SPACE(_DESCRIPTOR.size)
_RECEIVE_BYTES = 256 << 10


class Message:
    """What was received."""

    __slots__ = ("kind", "numbers", "value")

    def __init__(self, kind: str, numbers: tuple[Any, ...], value: Packed | None) -> None:
        self.kind = kind
        self.numbers = numbers
        self.value = value


class Channel:
    """One end of a socket. The worker's end blocks; the parent's is read when something is there."""

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self._received = bytearray()
        self._descriptors: list[int] = []
        self.is_closed = False

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def send(self, kind: str, numbers: tuple[Any, ...] = (), value: Packed | None = None) -> None:
        """Send all of it; closes the value's file, which is the receiver's from now on."""
        head = dumps((kind, numbers, None if value is None else value.sizes), protocol=5)
        inline = b"" if value is None else value.inline
        content = b"".join((_SIZES.pack(len(head), len(inline)), head, inline))
        ancillary = []
        if value is not None and value.descriptor is not None:
            ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTOR.pack(value.descriptor))]
        try:
            sent = self._socket.sendmsg([content], ancillary)
            if sent < len(content):
                self._socket.sendall(content[sent:])
        finally:
            if value is not None:
                value.close()

    def receive(self) -> Message | None:
        """The next message; None when the other end is closed. Blocks."""
        while (message := self._next()) is None:
            if not self._read():
                return None
        return message

    def receive_ready(self) -> list[Message]:
        """All messages that have come; `is_closed` tells that there will be no more. Does not block."""
        if not self._read(_socket.MSG_DONTWAIT):
            self.is_closed = True
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _read(self, flags: int = 0) -> bool:
        """Read some; False at the end."""
        try:
            content, ancillary, received_flags, _ = self._socket.recvmsg(
                _RECEIVE_BYTES, _ANCILLARY_BYTES, flags | _socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        if received_flags & _socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "too many open files: a worker's result could not be received (see ulimit -n)")
        for level, kind, data in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                self._descriptors += [number for (number,) in _DESCRIPTOR.iter_unpack(data)]
        self._received += content
        return bool(content)

    def _next(self) -> Message | None:
        received = self._received
        if len(received) < _SIZES.size:
            return None
        head_size, inline_size = _SIZES.unpack_from(received)
        end_of_head = _SIZES.size + head_size
        end = end_of_head + inline_size
        if len(received) < end:
            return None
        kind, numbers, sizes = loads(memoryview(received)[_SIZES.size : end_of_head])
        value = None
        if sizes is not None:
            inline = bytes(received[end_of_head:end])
            value = Packed(inline, sizes, None if inline else self._descriptors.pop(0))
        del received[:end]
        return Message(kind, numbers, value)
