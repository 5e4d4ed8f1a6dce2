from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from aliquot.errors import AliquotError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class OutputError(AliquotError):
    """An output cannot be written or joined. Names the file; what is certain so far stays as it is.

    ``is_out_of_room`` tells a full disk, after which the same call can be made again, from all else.
    """

    def __init__(self, problem: str, *, path: str, advice: str | None = None, is_out_of_room: bool = False) -> None:
        self.problem = problem
        self.path = path
        self.advice = advice
        self.is_out_of_room = is_out_of_room
        message = f"{shown(path)}: {problem}"
        super().__init__(f"{message}. {advice}" if advice else message)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.problem, self.path, self.advice, self.is_out_of_room))


def _rebuild(kind: type[OutputError], problem: str, path: str, advice: str | None, is_out_of_room: bool) -> OutputError:
    return kind(problem, path=path, advice=advice, is_out_of_room=is_out_of_room)


def shown(path: str) -> str:
    """A path as it can be printed anywhere: newlines and bytes that are no text are escaped."""
    return path if path.isprintable() else ascii(path)


@contextlib.contextmanager
def naming(path: str, doing: str = "cannot be written") -> Iterator[None]:
    """Turn what the system refuses into an error that names the file: the system's own word, or this one."""
    try:
        yield
    except OSError as error:
        raise output_error(error, path, doing) from error


def output_error(error: OSError, path: str, doing: str = "cannot be written") -> OutputError:
    """What the system refused, with the file and what to do."""
    told = error.filename2 or error.filename
    if isinstance(told, str):
        path = told
    is_out_of_room = error.errno in _NO_ROOM
    advice = "Make room and run it again: it goes on from here" if is_out_of_room else None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        advice = "May you write there?"
    return OutputError(f"{doing}: {error.strerror or error}", path=path, advice=advice, is_out_of_room=is_out_of_room)
