"""What a run is made of, and what differs from an earlier one.

An identity is a JSON object: "command" (its text), "inputs" and "programs" (lists of what `describe_input` and
`describe_program` give), or "function" and "items" (checksums) with "label" (what the function is called), and anything
else by which one run differs from another.
"""

from __future__ import annotations

import datetime
import os
import shutil
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from aliquot.errors import DataError
from aliquot.hashing import blake2b
from aliquot.journal.json_text import from_json, to_json
from aliquot.quantities import format_bytes, format_count

# A directory with more is told from another by the first of them.
_MOST_ENTRIES = 10_000


def describe_input(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What tells an input from another or an earlier one, quickly however large it is.

    ``kind`` is "file", "directory", "special" (a pipe or a device), "unreadable" or "missing". A file is known by its
    size, its time of change and a hash of both of its ends; a directory by the names, sizes and times of all files.
    """
    absolute = os.path.abspath(os.fspath(path))
    try:
        mode = os.stat(absolute).st_mode
    except FileNotFoundError:
        return {"path": absolute, "kind": "missing"}
    except OSError:
        return {"path": absolute, "kind": "unreadable"}
    if stat.S_ISDIR(mode):
        return {"path": absolute, "kind": "directory", **_look_through(absolute)}
    if not stat.S_ISREG(mode):
        return {"path": absolute, "kind": "special"}
    return {"path": absolute, **_look_at_file(absolute)}


def describe_program(name: str) -> dict[str, Any]:
    """What tells a program from an updated one, without running it; "missing" where the shell would have to know it."""
    path = shutil.which(name)
    if path is None:
        return {"name": name, "path": None, "kind": "missing"}
    return {"name": name, "path": os.path.abspath(path), **_look_at_file(path)}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, each as a sentence for people; nothing where they are the same."""
    from aliquot.journal.comparing import COMPARED_BY, compare_values  # most runs are begun, or the same as before

    # As it would come back from a journal, where a tuple is a list.
    old, new = from_json(to_json(dict(old))), from_json(to_json(dict(new)))
    found: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        before, now = old.get(key), new.get(key)
        if before == now or key == "label":
            continue
        if key == "function":
            found.append(_compare_functions(before, now, new.get("label")))
        elif key == "items":
            found.append("the items have changed")
        elif key == "inputs":
            found += _compare_inputs(before or [], now or [])
        elif key == "programs":
            found += _compare_programs(before or [], now or [])
        elif key in COMPARED_BY:
            found += COMPARED_BY[key](before, now)
        else:
            found += compare_values(_CALLED.get(key, key), before, now)
    return found


def _look_at_file(path: str) -> dict[str, Any]:
    # Not imported before it is needed.
    from aliquot.virtual_file.storage.storage import read_identity

    try:
        identity, _ = read_identity(path)
    except DataError:
        return {"kind": "unreadable"}
    return {
        "kind": "file",
        "size_bytes": identity.size_bytes,
        "mtime_ns": identity.mtime_ns,
        "fingerprint": identity.fingerprint,
    }


def _look_through(directory: str) -> dict[str, Any]:
    digest = blake2b(digest_size=16)
    files = size_bytes = mtime_ns = 0
    for place, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            try:
                found = os.stat(path)
            except OSError:
                continue  # a link to nowhere
            files += 1
            size_bytes += found.st_size
            mtime_ns = max(mtime_ns, found.st_mtime_ns)
            digest.update(os.fsencode(os.path.relpath(path, directory)))
            digest.update(f"\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
            if files == _MOST_ENTRIES:
                directories.clear()
                break
    return {"files": files, "size_bytes": size_bytes, "mtime_ns": mtime_ns, "fingerprint": digest.hexdigest()}


def _compare_inputs(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[str]:
    old_by_path = {one["path"]: one for one in old}
    new_by_path = {one["path"]: one for one in new}
    paths = list(dict.fromkeys([*old_by_path, *new_by_path]))
    names = _short_names(paths)
    found: list[str] = []
    for path in paths:
        before, now = old_by_path.get(path), new_by_path.get(path)
        if now is None:
            found.append(f"{names[path]} was an input and is none now")
        elif before is None:
            found.append(f"{names[path]} is an input and was none")
        elif before != now:
            found.append(_compare_files(names[path], before, now))
    return found or ["the inputs are in another order than they were, or one of them is given more or less often"]


def _compare_files(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    if before["kind"] != now["kind"]:
        return f"{name} {_SAID_OF_KIND[now['kind']]} now and {_SAID_OF_KIND_BEFORE[before['kind']]}"
    if before["size_bytes"] != now["size_bytes"]:
        had, has = format_bytes(before["size_bytes"]), format_bytes(now["size_bytes"])
        if had == has:
            had, has = (f"{format_count(one['size_bytes'])} bytes" for one in (before, now))
        return f"{name} has {has} now and had {had}"
    if before["fingerprint"] != now["fingerprint"]:
        what = "files in it are others" if now["kind"] == "directory" else "its content is another"
        return f"{name} is as large as it was, but {what} (changed {_date(now)})"
    return f"{name} is as large as it was, but was written since (changed {_date(now)}, before that {_date(before)})"


def _compare_programs(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[str]:
    old_by_name = {one["name"]: one for one in old}
    new_by_name = {one["name"]: one for one in new}
    found: list[str] = []
    for name in dict.fromkeys([*old_by_name, *new_by_name]):
        before, now = old_by_name.get(name), new_by_name.get(name)
        if now is None:
            found.append(f"{name} was used and is not now")
        elif before is None:
            found.append(f"{name} is used and was not")
        elif before == now:
            continue
        elif now["path"] is None:
            found.append(f"{name} is not found any more; it was {before['path']}")
        elif before["path"] is None:
            found.append(f"{name} was not found and is {now['path']} now")
        elif _content(before) != _content(now):
            where = "" if before["path"] == now["path"] else f": {now['path']}, and it was {before['path']}"
            found.append(f"{name} is another program than it was (changed {_date(now)}){where}")
        elif before["path"] != now["path"]:
            found.append(f"{name} is {now['path']} now and was {before['path']}")
        else:
            found.append(f"{name} was written since (changed {_date(now)}, before that {_date(before)})")
    return found


def _compare_functions(before: Any, now: Any, name: Any) -> str:
    """Nobody can read their checksums. The first is that of the function, others that of the join, and so on."""
    called = f"the function {name}" if name else "the function"
    if before and now and before[0] == now[0]:
        return f"{called} is the same, but its join, or what else goes with it, has changed"
    return f"{called} has changed"


# What a person calls them, where that is not their own name.
_CALLED = {
    "command": "the command",
    "directory": "the directory that it runs in",
    "split": "what is split",
    "named": "what the command names",
}

_SAID_OF_KIND = {
    "file": "is a file",
    "directory": "is a directory",
    "special": "is a pipe or a device",
    "unreadable": "cannot be read",
    "missing": "is missing",
}
_SAID_OF_KIND_BEFORE = {
    "file": "was a file",
    "directory": "was a directory",
    "special": "was a pipe or a device",
    "unreadable": "could not be read",
    "missing": "was missing",
}


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """The last part of each path, or all of it where two have the same."""
    often = Counter(map(os.path.basename, paths))
    return {path: path if often[os.path.basename(path)] > 1 else os.path.basename(path) for path in paths}


def _content(program: dict[str, Any]) -> tuple[Any, ...]:
    return (program["kind"], program.get("size_bytes"), program.get("fingerprint"))


def _date(described: dict[str, Any]) -> str:
    if "mtime_ns" not in described:
        return "at an unknown time"
    return datetime.datetime.fromtimestamp(described["mtime_ns"] / 1e9).strftime("%Y-%m-%d %H:%M:%S")
