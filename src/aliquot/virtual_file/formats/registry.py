"""Formats by name: those that come with aliquot, those that users register, those that packages offer.

A package offers formats through the entry point group `aliquot.formats`.
"""

from __future__ import annotations

import importlib
from typing import Any

from aliquot.errors import DescriptionError, UsageError
from aliquot.job import find_by_import_path, import_path_of
from aliquot.virtual_file.formats.format import Format

# Those that come with aliquot: the class, which is imported when it is first used, and the suffixes that mean it.
_BUILT_IN: dict[str, tuple[str, tuple[str, ...]]] = {
    "lines": ("lines:Lines", (".txt", ".log", ".lines", ".list")),
    "csv": ("csv:Csv", (".csv",)),
    "tsv": ("csv:Tsv", (".tsv", ".tab")),
    "jsonl": ("json_lines:JsonLines", (".jsonl", ".ndjson", ".jsonlines")),
    "fasta": ("fasta:Fasta", (".fasta", ".fa", ".fna", ".faa", ".ffn", ".frn")),
    "fastq": ("fastq:Fastq", (".fastq", ".fq")),
    "fixed": ("fixed:FixedRecords", ()),
    "npy": ("npy:Npy", (".npy",)),
}
_BUILT_IN_SUFFIXES = tuple(suffix for _, suffixes in _BUILT_IN.values() for suffix in suffixes)
_registered: dict[str, type[Format]] = {}
_entry_points_loaded = False


def register_format(format_class: type[Format]) -> type[Format]:
    """Make a format known to `aliquot.open`, by its name and its suffixes. Usable as a decorator.

    Registering a class of the same name again replaces it, unless the name is one of aliquot's own.
    """
    given: object = format_class  # not every caller checks types
    if not (isinstance(given, type) and issubclass(given, Format)):
        raise UsageError(f"{format_class!r} is not a subclass of aliquot.Format")
    if getattr(format_class, "__abstractmethods__", None) or not isinstance(getattr(format_class, "name", None), str):
        raise UsageError(f"the format {format_class.__name__} needs a name and a parse function")
    own_rule = any("boundaries_for" in base.__dict__ for base in format_class.__mro__ if base is not Format)
    if not own_rule and not hasattr(format_class, "boundaries"):
        raise UsageError(f"the format {format_class.name!r} does not say what its boundaries are")
    if format_class.name in _BUILT_IN:
        raise UsageError(f"the format name {format_class.name!r} is one of aliquot's own: choose another")
    _registered[format_class.name] = format_class
    return format_class


def make_format(name: str, options: dict[str, Any]) -> Format:
    """Make the format of that name."""
    format_class = find_format(name)
    if format_class is None:
        import difflib

        near = difflib.get_close_matches(name, _names(), n=1)
        if near:
            raise UsageError(f"unknown format {name!r}: did you mean {near[0]}?")
        from aliquot.virtual_file.tables.registry import table_format_names

        raise UsageError(
            f"unknown format {name!r}: choose from {', '.join(sorted([*_names(), *table_format_names()]))}, "
            "or register your own with aliquot.register_format"
        )
    return _with_options(format_class, options)


def format_by_suffix(file_name: str) -> str | None:
    """Name the format that a file name means, if it means one."""
    found = format_by_known_suffix(file_name)
    if found is None:
        _load_entry_points()
        found = format_by_known_suffix(file_name)
    return found


def format_by_known_suffix(file_name: str) -> str | None:
    """As `format_by_suffix`, without looking for what is installed."""
    lowered = file_name.lower()
    for name, format_class in reversed(_registered.items()):
        if lowered.endswith(format_class.suffixes):
            return name
    if not lowered.endswith(_BUILT_IN_SUFFIXES):  # as most names of tables, of which there may be many
        return None
    return next(name for name, (_, suffixes) in _BUILT_IN.items() if lowered.endswith(suffixes))


def format_by_content(head: bytes) -> str | None:
    """Name the format that the first bytes of a file mean, if they mean one."""
    _load_entry_points()
    for name in reversed(_names()):
        format_class = find_format(name)
        with_defaults = None if format_class is None else _without_options(format_class)
        if with_defaults is not None and with_defaults.looks_like(head):
            return name
    return None


def describe_format(described: Format) -> dict[str, Any]:
    """Say as JSON which format, with which options."""
    desc: dict[str, Any] = {"name": described.name, "options": described.options()}
    if type(described) is not _built_in(described.name):
        desc["class"] = import_path_of(type(described))
    return desc


def format_from_desc(desc: dict[str, Any]) -> Format:
    """Rebuild a described format, importing its class if it is not known here."""
    match desc:
        case {"name": str(name), "options": dict(options)}:
            known = find_format(name)
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
    import msgspec

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


def find_format(name: str) -> type[Format] | None:
    """The class of a format."""
    known = _registered.get(name) or _built_in(name)
    if known is None:
        # Last: to look for what is installed takes longer than a worker takes to start.
        _load_entry_points()
        known = _registered.get(name)
    return known


def format_option_names() -> set[str]:
    """The options of all formats that are known."""
    classes = [find_format(name) for name in _names()]
    return {option for format_class in classes if format_class is not None for option in format_class.option_names()}


def _built_in(name: str) -> type[Format] | None:
    if name not in _BUILT_IN:
        return None
    module, _, class_name = _BUILT_IN[name][0].partition(":")
    format_class: type[Format] = getattr(importlib.import_module(f"aliquot.virtual_file.formats.{module}"), class_name)
    return format_class


def _names() -> list[str]:
    return [*_BUILT_IN, *_registered]


def _load_entry_points() -> None:
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
