"""Directories with all that is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from aliquot.outputs.copying import copy_range


class Entry(NamedTuple):
    """What is in a directory, at any depth: its name from there, and 'file', 'directory', 'link' or 'other'."""

    name: str
    kind: str


def entries_of(path: str, under: str = "") -> Iterator[Entry]:
    """All that is in a directory, by name, a directory before what is in it."""
    with os.scandir(os.path.join(path, under)) as scan:
        found = sorted(scan, key=lambda entry: entry.name)
    for entry in found:
        name = os.path.join(under, entry.name)
        if entry.is_symlink():
            yield Entry(name, "link")
        elif entry.is_dir():
            yield Entry(name, "directory")
            yield from entries_of(path, name)
        else:
            yield Entry(name, "file" if entry.is_file() else "other")


def copy_tree(source: str, target: str) -> None:
    """Copy a directory of files, links and directories to one that is made here."""
    os.mkdir(target)
    for name, kind in entries_of(source):
        old, new = os.path.join(source, name), os.path.join(target, name)
        if kind == "directory":
            os.mkdir(new)
        elif kind == "link":
            os.symlink(os.readlink(old), new)
        else:
            copy_file(old, new)


def copy_file(source: str, target: str) -> None:
    """Copy a file with its permissions to one that is made here."""
    old = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(old)
        new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            copy_range(old, 0, status.st_size, new)
            os.fchmod(new, status.st_mode & 0o777)
        finally:
            os.close(new)
    finally:
        os.close(old)


def sync_file_system(path: str) -> None:
    """Bring all that was written to a file system to its disk."""
    import ctypes

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if sync is None:
            os.sync()
        elif sync(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)
