"""From the type name in a description to the class, and from an import path to the object.

A job type is called by its import path, `package.module:Class`, and found by importing it, so a class in the user's own
module needs nothing more. A class may give itself a short name instead; it is found once its module was imported, or at
once where its package offers it in the entry point group `aliquot.jobs`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from aliquot.errors import DescriptionError, UsageError

if TYPE_CHECKING:
    from aliquot.job.job import Job

_classes_by_short_name: dict[str, type[Job]] = {}


def register_short_name(name: str, job_class: type[Job]) -> None:
    """Let descriptions call a job class by a name that stays when the class moves."""
    taken = _classes_by_short_name.get(name)
    # The same class defined again (a notebook cell run twice, a module reloaded) replaces the first.
    if taken is not None and import_path_of(taken) != import_path_of(job_class):
        raise UsageError(
            f"the job type name {name!r} of {import_path_of(job_class)} is taken by {import_path_of(taken)}: "
            "choose another type_name"
        )
    _classes_by_short_name[name] = job_class


def find_job_class(type_name: str) -> type[Job]:
    """Find the class that a description's type names."""
    from aliquot.job.job import Job

    if ":" not in type_name and type_name not in _classes_by_short_name:
        import importlib.metadata

        for entry_point in importlib.metadata.entry_points(group="aliquot.jobs", name=type_name):
            entry_point.load()
    found = _classes_by_short_name.get(type_name)
    if found is not None:
        return found
    if ":" not in type_name:
        known = ", ".join(sorted(_classes_by_short_name)) or "none"
        raise DescriptionError(
            f"unknown job type {type_name!r} (known: {known}): import the module that defines it, "
            "or describe it by its import path, 'package.module:Class'"
        )
    found = find_by_import_path(type_name)
    if not (isinstance(found, type) and issubclass(found, Job)):
        raise DescriptionError(f"{type_name!r} is not an aliquot.Job")
    return found


def import_path_of(thing: Any) -> str:
    """'package.module:Qualified.name' of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def find_by_import_path(path: str) -> Any:
    """Find the object that an import path such as 'package.module:Class' names."""
    module_name, _, qualified_name = path.partition(":")
    if not module_name or not qualified_name:
        raise DescriptionError(f"{path!r} is not an import path: write 'package.module:name'")
    try:
        thing: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
    except Exception as error:
        raise DescriptionError(
            f"cannot import {module_name!r}, which {path!r} needs: {type(error).__name__}: {error}. "
            "Is its folder on PYTHONPATH?"
        ) from error
    for name in qualified_name.split("."):
        try:
            thing = getattr(thing, name)
        except AttributeError:
            raise DescriptionError(f"{module_name!r} has no {qualified_name!r}") from None
    return thing
