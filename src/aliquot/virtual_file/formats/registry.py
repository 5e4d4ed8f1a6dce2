"""Formats by name: those that come with aliquot, those that users register, those that packages offer.

A package offers formats through the entry point group `aliquot.formats`.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import msgspec

from aliquot.errors import DescriptionError, UsageError
from aliquot.job import find_by_import_path, import_path_of
from aliquot.virtual_file.formats.csv import Csv, Tsv
from aliquot.virtual_file.formats.fasta import Fasta
from aliquot.virtual_file.formats.fastq import Fastq
from aliquot.virtual_file.formats.fixed import FixedRecords
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.json_lines import JsonLines
from aliquot.virtual_file.formats.lines import Lines
from aliquot.virtual_file.formats.npy import Npy

_BUILT_IN: tuple[type[Format], ...] = (Lines, Csv, Tsv, JsonLines, Fasta, Fastq, FixedRecords, Npy)
_by_name: dict[str, type[Format]] = {built_in.name: built_in for built_in in _BUILT_IN}
_entry_points_loaded = False


def register_format(format_class: type[Format]) -> type[Format]:
    """Make a format known to `aliquot.open`, by its name and its suffixes. Usable as a decorator.

    Registering a class of the same name again replaces it, unless the name is one of aliquot's own.
    """
    given: object = format_class  # not every caller checks types
    if not (isinstance(given, type) and issubclass(given, Format)):
        raise UsageError(f"{format_class!r} is not a subclass of aliquot.Format")
    if inspect.isabstract(format_class) or not isinstance(getattr(format_class, "name", None), str):
        raise UsageError(f"the format {format_class.__name__} needs a name and a parse function")
    own_rule = any("boundaries_for" in base.__dict__ for base in format_class.__mro__ if base is not Format)
    if not own_rule and not hasattr(format_class, "boundaries"):
        raise UsageError(f"the format {format_class.name!r} does not say what its boundaries are")
    if any(format_class.name == built_in.name for built_in in _BUILT_IN):
        raise UsageError(f"the format name {format_class.name!r} is one of aliquot's own: choose another")
    _by_name[format_class.name] = format_class
    return format_class


def make_format(name: str, options: dict[str, Any]) -> Format:
    """Make the format of that name."""
    format_class = _all_formats().get(name)
    if format_class is None:
        near = difflib.get_close_matches(name, _by_name, n=1)
        if near:
            raise UsageError(f"unknown format {name!r}: did you mean {near[0]}?")
        raise UsageError(
            f"unknown format {name!r}: choose from {', '.join(sorted(_by_name))}, "
            "or register your own with aliquot.register_format"
        )
    return _with_options(format_class, options)


def format_by_suffix(file_name: str) -> str | None:
    """Name the format that a file name means, if it means one."""
    # Those that are known come first: to look for what is installed takes as long as to start Python.
    return _find_suffix(_by_name, file_name.lower()) or _find_suffix(_all_formats(), file_name.lower())


def _find_suffix(formats: dict[str, type[Format]], lowered: str) -> str | None:
    found = (name for name, format_class in reversed(formats.items()) if lowered.endswith(format_class.suffixes))
    return next(found, None)


def format_by_content(head: bytes) -> str | None:
    """Name the format that the first bytes of a file mean, if they mean one."""
    for name, format_class in reversed(_all_formats().items()):
        with_defaults = _without_options(format_class)
        if with_defaults is not None and with_defaults.looks_like(head):
            return name
    return None


def describe_format(described: Format) -> dict[str, Any]:
    """Say as JSON which format, with which options."""
    desc: dict[str, Any] = {"name": described.name, "options": described.options()}
    if type(described) not in _BUILT_IN:
        desc["class"] = import_path_of(type(described))
    return desc


def format_from_desc(desc: dict[str, Any]) -> Format:
    """Rebuild a described format, importing its class if it is not known here."""
    match desc:
        case {"name": str(name), "options": dict(options)}:
            # To look for what is installed takes longer than a worker takes to start.
            known = _by_name.get(name) or _all_formats().get(name)
            if known is None and "class" in desc:
                known = find_by_import_path(desc["class"])
            if known is None:
                raise DescriptionError(f"unknown format {name!r}: import the module that registers it")
            return _with_options(known, options)
    raise DescriptionError(f"this does not describe a format: {desc!r:.200}")


def _with_options(format_class: type[Format], options: dict[str, Any]) -> Format:
    known = format_class.option_names()
    unknown = [option for option in options if option not in known]
    if unknown:
        offered = f"it has {', '.join(known)}" if known else "it has none"
        raise UsageError(f"the format {format_class.name!r} has no option {unknown[0]!r}: {offered}")
    if not options:
        return format_class()
    try:
        # Not strict, as the command line has only text to say a number or a truth with.
        return msgspec.convert(options, format_class, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"an option of the format {format_class.name!r} is wrong: {error}") from None


def _without_options(format_class: type[Format]) -> Format | None:
    """The format with its defaults, or None where some option must be given."""
    try:
        return format_class()
    except (TypeError, UsageError):
        return None


def _all_formats() -> dict[str, type[Format]]:
    global _entry_points_loaded  # noqa: PLW0603  # once for each process
    if not _entry_points_loaded:
        import importlib.metadata  # slow, and not needed in workers

        for entry_point in importlib.metadata.entry_points(group="aliquot.formats"):
            try:
                register_format(entry_point.load())
            except Exception as error:
                raise UsageError(
                    f"the format {entry_point.name!r} of an installed package cannot be loaded "
                    f"({entry_point.value}: {type(error).__name__}: {error}): mend or uninstall that package"
                ) from error
        _entry_points_loaded = True
    return _by_name
