"""Made-up short reads, made once: plain, as one gzip member, and as BGZF."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.measuring import console, find_program

FULL_BYTES = 1_000_000_000
QUICK_BYTES = 100_000_000

_Bytes = NDArray[np.uint8]
DIRECTORY = "bench-data"
_READ_BASES = 150
_SHORTEST_READ_BASES = 80
_READS_AT_ONCE = 50_000
_READ_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Data:
    """Paths of the same reads in three forms; a form is None where the program that makes it is not installed."""

    plain: str
    gzip: str | None
    bgzf: str | None


def make_data(*, quick: bool) -> Data:
    """Find the data, or make what is missing of it."""
    directory = os.path.join(DIRECTORY, "quick" if quick else "full")
    os.makedirs(directory, exist_ok=True)
    plain = os.path.join(directory, "reads.fastq")
    make_once(plain, lambda path: _write_reads(path, QUICK_BYTES if quick else FULL_BYTES))
    gzip = _make_compressed(plain, os.path.join(directory, "reads.fastq.gz"), "gzip", "-1")
    bgzf = _make_compressed(plain, os.path.join(directory, "reads.fastq.bgz"), "bgzip")
    return Data(plain, gzip, bgzf)


def read_through(path: str) -> None:
    """Bring a file into the memory of the system, so that no disk is measured."""
    with open(path, "rb", buffering=0) as file:
        while file.read(_READ_CHUNK_BYTES):
            pass


def _make_compressed(plain: str, path: str, program: str, *options: str) -> str | None:
    found = find_program(program)
    if found is None:
        return path if os.path.exists(path) else None

    def compress(target: str) -> None:
        with open(target, "wb") as output:
            subprocess.run([found, *options, "-c", plain], check=True, stdout=output)

    make_once(path, compress)
    return path


def make_once(path: str, write: Callable[[str], None]) -> None:
    """Write a file under another name first, so that one that is there is whole."""
    if os.path.exists(path):
        return
    console.print(f"making {path} (once)")
    unfinished = f"{path}.unfinished"
    write(unfinished)
    os.replace(unfinished, path)


def _write_reads(path: str, at_least_bytes: int) -> None:
    random = np.random.default_rng(1)
    qualities_by_chance = _qualities_by_chance()
    written = first_read = 0
    with open(path, "wb") as file:
        while written < at_least_bytes:
            written += file.write(_reads(random, qualities_by_chance, first_read).tobytes())
            first_read += _READS_AT_ONCE


def _reads(random: np.random.Generator, qualities_by_chance: _Bytes, first_read: int) -> _Bytes:
    """Some reads as bytes: columns of one table in which a zero is a place that a shorter read or number leaves."""
    shape = (_READS_AT_ONCE, _READ_BASES)
    bases = np.frombuffer(b"ACGT", dtype=np.uint8)[random.integers(0, 4, shape, dtype=np.uint8)]
    chances = random.integers(0, 256, shape, dtype=np.uint8)
    qualities = qualities_by_chance[np.arange(_READ_BASES), chances]
    # One read in ten has lost its end to trimming.
    lengths = np.where(
        random.random(_READS_AT_ONCE) < 0.1,
        random.integers(_SHORTEST_READ_BASES, _READ_BASES, _READS_AT_ONCE),
        _READ_BASES,
    )
    trimmed = np.arange(_READ_BASES) >= lengths[:, None]
    bases[trimmed] = qualities[trimmed] = 0

    tile = 1101 + (first_read + np.arange(_READS_AT_ONCE)) // 200_000
    table = np.hstack(
        (
            _same(b"@SIM01:7:FLOWCELL:1:"),
            _decimal(tile, 4),
            _same(b":"),
            _decimal(random.integers(1_000, 33_000, _READS_AT_ONCE), 5),
            _same(b":"),
            _decimal(random.integers(1_000, 37_000, _READS_AT_ONCE), 5),
            _same(b" 1:N:0:ATCACG\n"),
            bases,
            _same(b"\n+\n"),
            qualities,
            _same(b"\n"),
        )
    ).ravel()
    return np.asarray(table[table != 0])


def _qualities_by_chance() -> _Bytes:
    """For each place in a read, 256 equally likely qualities: good at its beginning, mixed towards its end."""
    place = np.linspace(0, 1, _READ_BASES)[:, None]
    chance = (np.arange(256)[None, :] + 0.5) / 256
    quality = 40 + (2 + 6 * place) * np.log(1 - chance) * (0.5 + place)
    return (33 + np.clip(np.round(quality), 2, 40)).astype(np.uint8)


def _same(text: bytes) -> _Bytes:
    return np.tile(np.frombuffer(text, dtype=np.uint8), (_READS_AT_ONCE, 1))


def _decimal(numbers: NDArray[np.int64], digits: int) -> _Bytes:
    """Digits of numbers; zeros instead of leading '0's."""
    powers = 10 ** np.arange(digits - 1, -1, -1)
    figures = numbers[:, None] // powers
    return np.where(figures > 0, ord("0") + figures % 10, 0).astype(np.uint8)
