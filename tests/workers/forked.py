from __future__ import annotations

import _socket
import os

from aliquot.workers.cell import Cell
from aliquot.workers.channel import Channel
from aliquot.workers.nursery import Nursery


class ForkedWorker:
    """A worker that was forked for nothing but its life and death."""

    def __init__(self, nursery: Nursery) -> None:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.channel, self.cell = Channel(ours), Cell.create()
        self.out, out = os.pipe()
        try:
            self.token = nursery.fork((theirs.fileno(), self.cell.descriptor, out, out), 1)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
            os.close(out)

    def process(self) -> int:
        """Its number, which it tells when it is ready."""
        ready = self.channel.receive()
        assert ready is not None
        return int(ready.numbers[0])

    def close(self) -> None:
        self.channel.close()
        self.cell.close()
        os.close(self.out)
