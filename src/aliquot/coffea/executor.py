from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from aliquot.coffea.release import LIBRARIES, coffea_executors


@functools.cache
def executor_class() -> type[Any]:
    """Made when it is first wanted, as coffea takes seconds to import."""
    from dataclasses import dataclass

    executors = coffea_executors()

    @dataclass
    class Executor(executors.ExecutorBase):  # type: ignore[misc, name-defined]  # known only now
        """Have coffea's own Runner run its chunks by aliquot: ``Runner(executor=aliquot.coffea.Executor())``.

        Chunks that fail are tried again, set aside and counted as in `aliquot.imap`, of which the arguments are.
        Outputs are accumulated as they come. Who wants no chunk size uses `aliquot.coffea.run`.
        """

        on: Any = None
        memory: int | str | None = None
        max_failures: float = 0
        wall_seconds: float | None = None
        retries: int = 0  # by Runner: a chunk that fails is run again by another worker anyway

        def __call__(self, items: Iterable[Any], function: Callable[[Any], Any], accumulator: Any) -> tuple[Any, int]:
            """Add what the function returns for each item to the accumulator."""
            import aliquot

            called = functools.partial(function)
            called.libraries = LIBRARIES  # type: ignore[attr-defined]  # imported once, for all workers
            outputs = aliquot.imap(
                called,
                list(items),
                ordered=False,
                on=self.on,
                memory=self.memory,
                max_failures=self.max_failures,
                wall_seconds=self.wall_seconds,
                progress=None if self.status else False,
            )
            good = (output for output in outputs if not isinstance(output, aliquot.Failure))
            return executors.accumulate(good, accumulator), 0

    Executor.__module__, Executor.__qualname__ = "aliquot.coffea", "Executor"
    return Executor
