from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from aliquot.errors import AliquotError, DescriptionError, JobError
from aliquot.job.description import Description, check_envelope, check_version
from aliquot.job.registry import find_job_class, import_path_of, register_short_name
from aliquot.job.result import (
    NOT_RUN,
    Done,
    Failed,
    NotRun,
    Result,
    describe_result,
    join_results,
    result_from_desc,
    same_result,
)


class Resources(NamedTuple):
    """What a job asks for; None where it does not say."""

    cores: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None


class Job(ABC):
    """Work over ``size`` units that can be divided at any unit.

    An application author writes five functions::

        split(count, size)   at most `count` jobs of `size` units, then one with what remains;
                             too few units: as many as possible; never an empty job; logical only
        join(other)          [joined], or both in order; on two executed or two un-executed jobs
        execute()            do the work of all units and return the result; raise if it fails
        to_desc()            what the job is, as JSON:  return self.describe(key=value, ...)
        from_desc(desc)      the job again

    and sets ``size``. The rest of the attributes are optional. A job does not change once made:
    `attempt` gives back a copy that carries its result.

    ``type_name`` is what descriptions call the class: by default its import path. ``version`` grows when the meaning of
    a description changes; ``from_desc`` is only given descriptions of this version or older.
    """

    type_name: ClassVar[str]
    version: ClassVar[int] = 1

    size: int
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    resources: Resources = Resources()
    environment: tuple[tuple[str, str], ...] = ()
    result: Result = NOT_RUN

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "type_name" in cls.__dict__:
            register_short_name(cls.type_name, cls)
        else:
            cls.type_name = import_path_of(cls)
        if "from_desc" in cls.__dict__:
            cls.from_desc = classmethod(_checked(cls.__dict__["from_desc"].__func__))  # type: ignore[assignment]

    @abstractmethod
    def split(self, count: int, size: int) -> list[Self]:
        """At most ``count`` jobs of ``size`` units, then one with what remains."""

    @abstractmethod
    def join(self, other: Self) -> list[Self]:
        """One job that is both, or both in order where they do not touch."""

    @abstractmethod
    def execute(self) -> Any:
        """Do the work of all units and return the result."""

    @abstractmethod
    def to_desc(self) -> Description:
        """Say what the job is, as JSON."""

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild a described job; `Job.from_desc` finds its class, whatever it is."""
        if cls is not Job:
            raise JobError(f"the job class {cls.__name__} does not define from_desc")
        type_name, _ = check_envelope(desc)
        return find_job_class(type_name).from_desc(desc)  # type: ignore[return-value]  # here cls is Job itself

    def describe(self, **content: Any) -> Description:
        """Make a description of this type and version with the given content.

        The result and the other attributes of a job are added where they were set, and restored by ``from_desc``.
        """
        desc = {"type": self.type_name, "version": self.version, **content}
        attributes = {name: getattr(self, name) for name in _ATTRIBUTES if name in self.__dict__}
        if attributes:
            desc["attributes"] = {name: _describe_attribute(value) for name, value in attributes.items()}
        if not isinstance(self.result, NotRun):
            desc["result"] = describe_result(self.result)
        return desc

    def attempt(self) -> Self:
        """Execute here and now; a copy of this job with the result, done or failed."""
        try:
            result: Result = Done(self.execute())
        except Exception as error:
            result = Failed.from_exception(error)
        return self.with_result(result)

    def with_result(self, result: Result) -> Self:
        """Copy this job and give the copy a result."""
        executed = copy.copy(self)
        executed.result = result
        return executed

    def joined_result(self, other: Job, combine: Callable[[Any, Any], Any]) -> Result:
        """Join two results: combined if both jobs are done, not run if neither was run."""
        return join_results(self.result, other.result, combine)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Job):
            return NotImplemented
        same_job = self.with_result(NOT_RUN).to_desc() == other.with_result(NOT_RUN).to_desc()
        return same_job and same_result(self.result, other.result)

    __hash__ = None  # type: ignore[assignment]  # equal by description, which is a dict

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.size} units, {self.result.state}>"


_ATTRIBUTES = ("inputs", "outputs", "resources", "environment")


def _describe_attribute(value: Any) -> Any:
    if isinstance(value, Resources):
        return value._asdict()
    return [_describe_attribute(part) for part in value] if isinstance(value, list | tuple) else value


def _decode_attribute(name: str, value: object) -> Any:
    match name, value:
        case "inputs" | "outputs", list(texts) if _are_texts(texts):
            return tuple(texts)
        case "environment", list(pairs) if all(isinstance(pair, list) and _are_texts(pair, 2) for pair in pairs):
            return tuple(map(tuple, pairs))
        case "resources", dict(told):
            # A later release may tell of more.
            amounts = {name: told[name] for name in Resources._fields if name in told}
            if all(amount is None or type(amount) is int for amount in amounts.values()):
                return Resources(**amounts)
    raise DescriptionError(f"the attribute {name!r} of a described job is malformed: {value!r:.200}")


def _are_texts(values: list[Any], count: int | None = None) -> bool:
    return count in (None, len(values)) and all(isinstance(value, str) for value in values)


def _checked(from_desc: Callable[[type[Job], Description], Job]) -> Callable[[type[Job], Description], Job]:
    """Give every author's from_desc the same checks and the same errors, and the job its result back."""

    @functools.wraps(from_desc)
    def checked_from_desc(cls: type[Job], desc: Description) -> Job:
        type_name, version = check_envelope(desc)
        if type_name != cls.type_name:
            raise DescriptionError(f"this describes a {type_name!r}, not a {cls.type_name!r}")
        check_version(type_name, version, cls.version)
        try:
            job = from_desc(cls, desc)
        except AliquotError:
            raise
        except Exception as error:
            raise DescriptionError(
                f"the description of a {type_name!r} is malformed: {type(error).__name__}: {error}: {desc!r:.300}"
            ) from error
        attributes = desc.get("attributes", {})
        if not isinstance(attributes, dict):
            raise DescriptionError(f"the attributes of a described job are an object, not {attributes!r:.200}")
        for name, value in attributes.items():
            if name not in _ATTRIBUTES:
                raise DescriptionError(f"a job has no attribute {name!r}: it has {', '.join(_ATTRIBUTES)}")
            setattr(job, name, _decode_attribute(name, value))
        return job.with_result(result_from_desc(desc["result"])) if "result" in desc else job

    return checked_from_desc
