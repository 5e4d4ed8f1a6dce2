from __future__ import annotations

from typing import Any


class Output:
    """What a processor returned for some entries, as Runner wraps it; ``is_own`` if nobody else holds it."""

    def __init__(self, value: Any, *, is_own: bool = False) -> None:
        self.value = value
        self.is_own = is_own

    def __reduce__(self) -> tuple[object, ...]:
        return (_own_output, (self.value,))


def _own_output(value: Any) -> Output:
    return Output(value, is_own=True)


def join_outputs(first: Output, second: Output) -> Output:
    """Add two outputs as coffea does; in place where the first is not one that the processor may still hold."""
    from coffea.processor import accumulate

    if first.is_own:
        return _own_output(accumulate([second.value], first.value))
    return _own_output(accumulate([first.value, second.value]))
