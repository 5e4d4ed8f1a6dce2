from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


class RunInterruptedError(KeyboardInterrupt):
    """The run was stopped by Ctrl-C or a signal, in good order: what is done is recorded."""


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts, Ctrl-C and SIGTERM ask for an end in good order; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = False

    def on_signal(*_: object) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True
        stop()

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
    ]
    before = [(number, signal.signal(number, on_signal)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
