from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Container, Iterator
from typing import NamedTuple

from aliquot.outputs.copying import copy_range
from aliquot.outputs.errors import OutputError, naming
from aliquot.outputs.growing_file import GrowingFile, opened, remove_if_there, sync_data, sync_directory
from aliquot.outputs.rules.rule import Growing, Rule, State
from aliquot.outputs.trees import Entry, entries_of, sync_file_system

# More files than this are brought to the disk with all of their file system: one by one takes longer.
_MANY_FILES = 200


class Directory(Rule):
    """A piece is a directory. Files of the same name in it are put one after another, all others are collected.

    Subdirectories are treated in the same way, also empty ones. A symbolic link stays what it is: in every piece that
    has it, it must lead to the same place. One that leads into its own piece by a full path is made relative. A file
    has the permissions that it has in the first piece with it.
    """

    name = "dir"
    makes_directory = True

    def grow(self, path: str, state: State | None) -> Growing:
        """As it is said in the state: how long every file is."""
        return GrowingDirectory(path, state)


class _File(NamedTuple):
    size_bytes: int
    mode: int


class GrowingDirectory(Growing):
    """A directory whose files grow."""

    def __init__(self, path: str, state: State | None) -> None:
        self.path = path
        self._files: dict[str, _File] = {}
        self._links: dict[str, str] = {}
        self._directories: set[str] = set()
        self._unsynced_files: set[str] = set()
        self._unsynced_directories: set[str] = set()
        if state is None:
            _remove_tree(path)
            os.mkdir(path)
            self._unsynced_directories = {"", ".."}
        else:
            self._restore(state)

    def _restore(self, state: State) -> None:
        """Cut every file to what is certain, and remove what is not in the state."""
        self._files = {_name(name): _File(*about) for name, about in state["files"].items()}
        self._links = {_name(name): _name(target) for name, target in state["links"].items()}
        self._directories = set(map(_name, state["directories"]))
        if not os.path.isdir(self.path):
            raise OutputError("is not there, and was recorded", path=self.path, advice="Begin the run anew")
        for entry in list(entries_of(self.path)):
            place = self._place(entry.name)
            if entry.kind == "directory":
                if entry.name not in self._directories:
                    _remove_tree(place)
            elif entry.name not in (self._files if entry.kind == "file" else self._links):
                remove_if_there(place)
        for name in sorted(self._directories):
            os.makedirs(self._place(name), exist_ok=True)
        for name, file in self._files.items():
            GrowingFile(self._place(name), file.size_bytes).close()
        for name, target in self._links.items():
            if not os.path.islink(self._place(name)):
                os.symlink(target, self._place(name))

    def append(self, piece: str) -> None:
        """Add its files, links and directories, or none of them."""
        with naming(piece, "cannot be read"):
            if not os.path.isdir(piece):
                what = "is a file" if os.path.exists(piece) else "is not there"
                raise OutputError(f"{what}, and the output is joined from directories", path=piece)
            entries = list(entries_of(piece))
        targets = {entry.name: _link_target(piece, entry) for entry in entries if entry.kind == "link"}
        for entry in entries:
            self._check(piece, entry, targets.get(entry.name))
        with contextlib.ExitStack() as undoing:
            changed: dict[str, _File] = {}
            for entry in entries:
                if entry.kind == "directory":
                    self._add_directory(entry.name, undoing)
                elif entry.kind == "link":
                    self._add_link(entry.name, targets[entry.name], undoing)
                else:
                    changed[entry.name] = self._add_file(piece, entry.name, undoing)
            undoing.pop_all()
        self._files.update(changed)
        self._links.update(targets)
        self._directories.update(entry.name for entry in entries if entry.kind == "directory")

    def _check(self, piece: str, entry: Entry, target: str | None) -> None:
        kinds: dict[str, Container[str]] = {"file": self._files, "link": self._links, "directory": self._directories}
        problem = None
        if entry.kind not in kinds:
            problem = "is neither a file nor a directory nor a link"
        for kind, names in kinds.items():
            if kind != entry.kind and entry.name in names:
                problem = f"is a {entry.kind}, and in an earlier piece it is a {kind}"
        if entry.kind == "link" and self._links.get(entry.name, target) != target:
            problem = f"leads to {target}, and in an earlier piece to {self._links[entry.name]}"
        if problem:
            raise OutputError(f"{problem}: these cannot be joined", path=os.path.join(piece, entry.name))

    def _add_directory(self, name: str, undoing: contextlib.ExitStack) -> None:
        if name not in self._directories:
            os.mkdir(self._place(name))
            undoing.callback(_remove_tree, self._place(name))
            self._unsynced_directories |= {name, os.path.dirname(name)}

    def _add_link(self, name: str, target: str, undoing: contextlib.ExitStack) -> None:
        if name not in self._links:
            os.symlink(target, self._place(name))
            undoing.callback(remove_if_there, self._place(name))
            self._unsynced_directories.add(os.path.dirname(name))

    def _add_file(self, piece: str, name: str, undoing: contextlib.ExitStack) -> _File:
        with opened(os.path.join(piece, name)) as (source, size_bytes):
            known = self._files.get(name)
            if known is None:
                known = _File(0, os.fstat(source).st_mode & 0o777)
                self._unsynced_directories.add(os.path.dirname(name))
                undoing.callback(remove_if_there, self._place(name))
            elif not size_bytes:
                return known
            else:
                undoing.callback(_cut, self._place(name), known.size_bytes)
            self._unsynced_files.add(name)
            out = os.open(self._place(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                os.lseek(out, known.size_bytes, os.SEEK_SET)
                copy_range(source, 0, size_bytes, out)
            finally:
                os.close(out)
        return _File(known.size_bytes + size_bytes, known.mode)

    def sync(self) -> State:
        """How long every file is. A name is written as characters with the numbers of its bytes: any is JSON."""
        if len(self._unsynced_files) + len(self._unsynced_directories) > _MANY_FILES:
            sync_file_system(self.path)
        else:
            for name in self._unsynced_files & self._files.keys():
                with _opened_for_sync(self._place(name)) as descriptor:
                    sync_data(descriptor)
            for name in self._unsynced_directories:
                if name in ("", "..") or name in self._directories:
                    sync_directory(self._place(name))
        self._unsynced_files.clear()
        self._unsynced_directories.clear()
        return {
            "files": {_text(name): list(file) for name, file in self._files.items()},
            "links": {_text(name): _text(target) for name, target in self._links.items()},
            "directories": sorted(map(_text, self._directories)),
        }

    def result(self, suffix: str) -> str:
        """It is the whole itself, once every file has its permissions."""
        for name, file in self._files.items():
            os.chmod(self._place(name), file.mode)
        return self.path

    def close(self) -> None:
        """Nothing is held open."""

    def discard(self) -> None:
        """Remove it with all that is in it."""
        _remove_tree(self.path)

    def _place(self, name: str) -> str:
        return os.path.join(self.path, name)


def _link_target(piece: str, entry: Entry) -> str:
    """Where a link leads; from within the piece, if it leads there, as the piece itself will be gone."""
    place = os.path.join(piece, entry.name)
    target = os.readlink(place)
    root = os.path.realpath(piece)
    if os.path.isabs(target):
        for base in (root, os.path.abspath(piece)):
            if target == base or target.startswith(base + "/"):
                return os.path.relpath(target, os.path.join(base, os.path.dirname(entry.name)))
    return target


def _name(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))


def _text(name: str) -> str:
    return os.fsencode(name).decode("latin-1")


def _cut(path: str, size_bytes: int) -> None:
    with contextlib.suppress(OSError):
        os.truncate(path, size_bytes)


def _remove_tree(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        remove_if_there(path)


@contextlib.contextmanager
def _opened_for_sync(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
