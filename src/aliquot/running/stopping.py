from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


class RunInterruptedError(KeyboardInterrupt):
    """The run was stopped by Ctrl-C or SIGTERM, and what is done is recorded: the same call again goes on with it.

    ``signal_number`` is the signal that stopped it. ``is_in_order`` is False where a second one did not let it wait for
    what was under way.
    """

    def __init__(
        self, message: str = "interrupted", *, signal_number: int = signal.SIGINT, is_in_order: bool = True
    ) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.is_in_order = is_in_order


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """While this lasts, Ctrl-C and SIGTERM ask for an end in good order; a second one ends it at once.

    ``stop`` is told the number of the first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = False

    def on_signal(number: int, _: object) -> None:
        nonlocal is_asked
        if is_asked:
            told = "interrupted twice; what was recorded until then stays, and the same call goes on with it"
            raise RunInterruptedError(told, signal_number=number, is_in_order=False)
        is_asked = True
        stop(number)

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
