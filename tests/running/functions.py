"""What workers are given to do. Each imports this module, so it imports little."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import aliquot


def double(number: Any) -> Any:
    return 2 * number


def named_array(number: int) -> Any:
    import numpy

    return str(number), numpy.full(1 << 18, number)


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def of(self, number: int) -> int:
        return self.factor * number

    def __call__(self, number: int) -> int:
        return self.factor * number


class Pair:
    def __init__(self, number: int) -> None:
        self.number = number


class OldSequence:
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        if index >= 20:
            raise IndexError(index)
        return index


class Unsliceable(Sequence[int]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int):
            raise TypeError("only one at a time")
        if index >= 20:
            raise IndexError(index)
        return index


def length_of(record: Any) -> int:
    return len(record.sequence)


def process_of(_: int) -> int:
    return os.getpid()


def processes_within(_: int) -> tuple[int, list[int]]:
    return os.getpid(), aliquot.map(process_of, range(5))


def sums_within(number: int) -> tuple[int, list[int], int, list[int]]:
    numbers = [number + addend for addend in range(4)]
    return (
        aliquot.map_batches(sum, numbers),
        list(aliquot.imap(double, numbers)),
        aliquot.run(aliquot.FunctionJob(sum, aliquot.open(range(number, number + 4)))).value,
        aliquot.map(double, numbers),
    )


def fails_within(number: int) -> str:
    try:
        aliquot.map(math.sqrt, [4, -number])
    except ValueError as error:
        return f"{error} {error.__notes__}"
    return "no error"


def surroundings(name: str) -> tuple[str, str | None, list[str], list[str]]:
    return os.getcwd(), os.environ.get(name), sys.argv, sys.path


def read_stdin(_: int) -> str:
    return sys.stdin.read()


def numbers_of_threads(_: int) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def large(number: int) -> Any:
    import numpy as np

    return np.full(1_000_000, number, dtype=np.int64)


def total_of(row: Any) -> float:
    return float(row.sum())


def adder(addend: int) -> Any:
    return lambda number: number + addend


class TeapotError(Exception):
    def __init__(self, message: str, temperature: int) -> None:
        super().__init__(message)
        self.temperature = temperature

    def __reduce__(self) -> tuple[object, ...]:
        return (TeapotError, (str(self), self.temperature))


class OneWayError(Exception):
    """Is pickled, and cannot be rebuilt: its arguments are not those of its class."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UnpicklableError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.generator = (number for number in range(3))


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Huge:
    def __repr__(self) -> str:
        return "x" * 10_000_000


class Shy:
    def __repr__(self) -> str:
        raise ValueError("not to be shown")


class UnrebuildableValue:
    def __init__(self) -> None:
        self.secret = 1

    def __reduce__(self) -> tuple[object, ...]:
        return (refuse_to_be_rebuilt, ())


def refuse_to_be_rebuilt() -> None:
    raise LookupError("not here")


def scald(number: int) -> int:
    if number == 13:
        raise TeapotError("too hot", 99)
    return number


def fail_at(bad: int, error: BaseException, number: int) -> int:
    if number == bad:
        raise error
    return number


def fail_one_way(number: int) -> int:
    if number == 7:
        raise OneWayError("lost on the way", 3)
    return number


def fail_unpicklably(number: int) -> int:
    if number == 7:
        raise UnpicklableError("holds a generator")
    return number


def fail_silently(number: int) -> int:
    if number == 7:
        raise MuteError
    return number


def recurse(number: int) -> int:
    return recurse(number) + 1


def fail_on_any(_: Any) -> None:
    raise KeyError("no unit is right")


def generator_at_7(number: int) -> Any:
    return (number for _ in range(3)) if number == 7 else number


def exit_at(bad: int, code: int, number: int) -> int:
    if number == bad:
        os._exit(code)
    return number


def kill_itself_once(directory: str, bad: int, number: int) -> int:
    if number == bad and is_first(directory):
        os.kill(os.getpid(), 9)
    return number


def fail_once(directory: str, bad: int, number: int) -> int:
    if number == bad and is_first(directory):
        raise ConnectionError("try again")
    return number


def is_first(directory: str, name: str = "first") -> bool:
    """Whether this is the first call among all processes."""
    try:
        os.close(os.open(os.path.join(directory, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def note_in(directory: str, number: int) -> int:
    """Leave a byte in a file: how many calls there were is its length."""
    with open(os.path.join(directory, "calls"), "ab") as file:
        file.write(b".")
    return number


def calls_in(directory: str) -> int:
    """How many calls of `note_in` there were."""
    path = os.path.join(directory, "calls")
    return os.path.getsize(path) if os.path.exists(path) else 0


def raise_from_a_cause(number: int) -> int:
    try:
        return [][number]
    except IndexError as error:
        raise ValueError("nothing there") from error


def map_list(function: Any, numbers: range) -> list[Any]:
    return list(map(function, numbers))


def total(batch: Any) -> Any:
    return batch.sum()


def kind_of(batch: Any) -> list[str]:
    return [type(batch).__name__]


def histogram(batch: Any) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in batch:
        counts[number % 10] = counts.get(number % 10, 0) + 1
    return counts


def added(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in first.keys() | second.keys()}


def refuse_to_join(first: Any, second: Any) -> Any:
    raise ArithmeticError("these do not go together")


def concatenate(first: Any, second: Any) -> Any:
    import numpy as np

    return np.concatenate([first, second])


def wait_for(path: str) -> None:
    """Until a file is there; a minute at most, so that no worker outlives a test that failed."""
    deadline = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.002)


def block_at(bad: int, path: str, number: int) -> int:
    if number == bad:
        wait_for(path)
    return number


def block_once_at(directory: str, units: frozenset[int], number: int) -> int:
    """Wait to be killed at each of some units, but only whoever comes there first."""
    if number in units and is_first(directory, str(number)):
        wait_for(os.path.join(directory, "never"))
    return number


def fail_late_units_before_early_ones_end(directory: str, number: int) -> int:
    """Unit 90 fails for good before unit 3 is done."""
    if number == 3:
        wait_for(os.path.join(directory, "failed"))
    if number == 90:
        if not is_first(directory):
            with open(os.path.join(directory, "failed"), "w"):
                pass
        raise LookupError("ninety")
    return number


def allocate(size_bytes: int) -> int:
    block = bytearray(b"x") * size_bytes
    return len(block)


class Letters(aliquot.Job):
    """A text in capitals; joined in order, and so not commutative."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.start = start
        self.size = len(text)

    def split(self, count: int, size: int) -> list[Self]:
        parts = aliquot.Slice(0, self.size).split(count, size)
        return [type(self)(self.text[part.start : part.stop], self.start + part.start) for part in parts]

    def join(self, other: Self) -> list[Self]:
        first, second = sorted((self, other), key=lambda job: job.start)
        if first.start + first.size != second.start:
            return [first, second]
        whole = type(self)(first.text + second.text, first.start)
        return [whole.with_result(first.joined_result(second, str.__add__))]

    def execute(self) -> str:
        return self.text.upper()

    def to_desc(self) -> dict[str, Any]:
        return self.describe(text=self.text, start=self.start)

    @classmethod
    def from_desc(cls, desc: dict[str, Any]) -> Self:
        return cls(desc["text"], desc["start"])


def tell_and_block(directory: str, number: int) -> int:
    with open(os.path.join(directory, "started"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(directory, "started"), os.path.join(directory, "process"))
    return block_at(number, os.path.join(directory, "go"), number)


def block_or_fail(path: str, number: int) -> int:
    if number == 0:
        return block_at(0, path, number)
    os._exit(3)


def kill_itself_after(began: str, go: str, directory: str, number: int) -> int:
    if number == 50:
        with open(began, "w"):
            pass
        block_at(50, go, number)
    return kill_itself_once(directory, 50, number)


def kill_at(bad: int, number: int) -> int:
    if number == bad:
        os.kill(os.getpid(), 9)
    return number


def start_program_and_exit(path: str, number: int) -> int:
    program = subprocess.Popen(["sleep", "3600"])
    with open(path, "a") as file:
        file.write(f"{program.pid}\n")
    return exit_at(0, 3, number)


def start_program(_: int) -> int:
    with open(os.devnull, "w") as nowhere:
        return subprocess.Popen(["sleep", "3600"], stdout=nowhere, stderr=nowhere).pid


def scald_as_units(number: int) -> int:
    try:
        return scald(number)
    except Exception:
        raise SystemExit from None


def chatter(lines: int, number: int) -> int:
    """Long lines, in pieces, to both streams; from Python and from a program."""
    for line in range(lines):
        print(f"out {number} {line} ", end="")
        sys.stdout.flush()
        print("x" * 3000, f"end {number} {line}")
    print(f"err {number}", file=sys.stderr)
    return number


def say(number: int) -> int:
    print(f"line {number}")
    return number


def say_twice(number: int) -> int:
    print(f"out {number}")
    print(f"err {number}", file=sys.stderr)
    return number


def start_a_speaker(number: int) -> int:
    subprocess.run(["sh", "-c", f"echo program {number}; echo trouble {number} >&2"], check=True)
    return number


def say_without_an_end(number: int) -> int:
    sys.stdout.write(f"no end {number}")
    return number


def say_and_die(directory: str, number: int) -> int:
    if number == 5 and is_first(directory):
        print("last words")
        print("last trouble", file=sys.stderr)
        os.kill(os.getpid(), 9)
    return number


class EndsItsWorker:
    """Ends the process that unpickles it, as a library does that crashes when it is imported."""

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self) -> tuple[object, ...]:
        return (os._exit, (3,))


def tell_and_block_at(directory: str, bad: int, number: int) -> int:
    return tell_and_block(directory, number) if number == bad else number


class Flaw:
    """Returns its number, but fails at the last ones of 200 until it is mended; keeps a list of its calls."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def __call__(self, number: int) -> int:
        descriptor = os.open(f"{self._directory}/calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{number}\n".encode())
        os.close(descriptor)
        if number == 199 and not os.path.exists(f"{self._directory}/mended"):
            raise ValueError("not yet")
        return number

    def mend(self) -> None:
        Path(f"{self._directory}/mended").touch()

    def calls(self) -> list[int]:
        return [int(line) for line in Path(f"{self._directory}/calls").read_text().split()]


class Times:
    """Multiplies."""

    def __init__(self, factor: int) -> None:
        self._factor = factor

    def __call__(self, number: int) -> int:
        return number * self._factor


class OddError(Exception):
    """Takes another number of arguments than it passes on, as many do."""

    def __init__(self, what: str, where: int) -> None:
        super().__init__(f"{what} at {where}")


def return_odd_error_at_7(number: float) -> float | OddError:
    return OddError("odd", int(number)) if number == 7 else number
