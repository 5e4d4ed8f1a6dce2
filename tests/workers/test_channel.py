from __future__ import annotations

import _socket
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from aliquot.workers.channel import Channel, Message
from aliquot.workers.packing import pack

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    first, second = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    channels = Channel(first), Channel(second)
    yield channels
    for channel in channels:
        channel.close()


def test_messages_arrive_in_order(ends: Ends) -> None:
    """With their kind and numbers."""
    ours, theirs = ends
    for number in range(5):
        ours.send("report", (number, 2.5, None, ((1, 2.0, 3.0),)))
    got = [theirs.receive() for _ in range(5)]
    assert [(message.kind, message.numbers[0]) for message in got if message] == [("report", n) for n in range(5)]
    assert got[0] is not None
    assert got[0].numbers == (0, 2.5, None, ((1, 2.0, 3.0),))
    assert got[0].value is None


def test_small_and_large_values_keep_their_messages(ends: Ends) -> None:
    """Inline values and files are not mixed up, however many wait to be read."""
    ours, theirs = ends
    values = [np.full(10 if number % 3 else 5000, number) for number in range(30)]
    for value in values:
        ours.send("items", (), pack(value))
    messages: list[Message] = []
    while len(messages) < 30:
        messages += theirs.receive_ready()
    for number, message in enumerate(messages):
        assert message.value is not None
        assert (message.value.load() == values[number]).all()
        message.value.close()


def test_a_message_larger_than_the_socket_takes_is_sent_whole(ends: Ends) -> None:
    """The sender waits until the other end has read enough."""
    ours, theirs = ends
    text = "x" * 3_000_000
    sender = threading.Thread(target=ours.send, args=("failed", (text,)))
    sender.start()
    message = theirs.receive()
    sender.join()
    assert message is not None
    assert message.numbers == (text,)


def test_nothing_there_is_no_message(ends: Ends) -> None:
    """Looking does not wait, and does not take the other end for closed."""
    ours, _ = ends
    assert ours.receive_ready() == []
    assert not ours.is_closed


def test_the_end_is_told_after_the_last_message(ends: Ends) -> None:
    """What was sent before the other end closed is not lost."""
    ours, theirs = ends
    theirs.send("ready", (1,))
    theirs.close()
    got = []
    while not ours.is_closed:
        got += ours.receive_ready()
    assert [message.kind for message in got] == ["ready"]
    assert ours.receive() is None


def test_the_end_is_told_where_the_other_end_closed_without_reading(ends: Ends) -> None:
    """A worker that dies with unread messages resets the connection, which is an end like any other."""
    ours, theirs = ends
    theirs.send("ready", (1,))
    ours.send("work")
    theirs.close()
    got = []
    while not ours.is_closed:
        got += ours.receive_ready()
    assert [message.kind for message in got] == ["ready"]


def test_sending_to_a_closed_end_raises_and_closes_the_value(ends: Ends) -> None:
    """No file is left open for a worker that is gone."""
    ours, theirs = ends
    theirs.close()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BrokenPipeError):
        ours.send("items", (), pack(np.zeros(50_000)))
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_of_messages_that_were_never_read_are_closed(ends: Ends) -> None:
    """At the end of a run, nothing is left of what was still on its way."""
    ours, theirs = ends
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        ours.send("items", (), pack(np.zeros(50_000)))
    for message in theirs.receive_ready():
        assert message.value is not None
        message.value.close()
    ours.close()
    theirs.close()
    assert len(os.listdir("/proc/self/fd")) <= before
