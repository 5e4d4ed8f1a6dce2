from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import aliquot
from aliquot.job.description import Description
from tests.job.counting import Counting


def test_a_job_of_the_users_own_module_is_found_by_its_import_path() -> None:
    """A description is enough to rebuild a job whose class nobody registered."""
    job = Counting(3, 10)
    desc = json.loads(json.dumps(job.to_desc()))
    assert desc["type"] == "tests.job.counting:Counting"
    assert aliquot.Job.from_desc(desc) == job


def test_a_described_job_is_found_by_another_process() -> None:
    """The other process imports the module that the description names."""
    program = "import json, sys, aliquot; print(aliquot.Job.from_desc(json.load(sys.stdin)).execute())"
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(Counting(3, 10).to_desc()),
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert ran.stdout.strip() == str(sum(range(3, 10)))


def test_a_short_type_name_is_used_in_descriptions() -> None:
    """A class that names its type is described and found by that name."""

    class Named(Counting):
        type_name = "test.named"

        @classmethod
        def from_desc(cls, desc: Description) -> Named:
            return cls(desc["start"], desc["stop"])

    assert Named(0, 2).to_desc()["type"] == "test.named"
    assert isinstance(aliquot.Job.from_desc(Named(0, 2).to_desc()), Named)


def test_a_taken_type_name_is_refused() -> None:
    """Two classes cannot share a name."""
    with pytest.raises(aliquot.UsageError, match="is taken by aliquot"):

        class Taken(Counting):
            type_name = "aliquot.bundle"


@pytest.mark.parametrize(
    ("desc", "complaint"),
    [
        ("text", "a description is a JSON object, not str"),
        ({}, "needs a 'type'"),
        ({"type": "aliquot.bundle"}, "and a 'version'"),
        ({"type": "aliquot.bundle", "version": 0}, "a whole number from 1"),
        ({"type": "nobody.knows", "version": 1}, "unknown job type 'nobody.knows'"),
        ({"type": "no.such.module:Thing", "version": 1}, "cannot import 'no.such.module'"),
        ({"type": "json:Nothing", "version": 1}, "'json' has no 'Nothing'"),
        ({"type": "json:JSONDecoder", "version": 1}, "is not an aliquot.Job"),
        ({"type": "aliquot.bundle", "version": 99}, "has version 99, and this release reads up to 1"),
        ({"type": "aliquot.bundle", "version": 1, "parts": [{"start": 0}]}, "does not describe a part"),
        ({"type": "aliquot.function", "version": 1}, "is malformed: KeyError: 'function'"),
        ({"type": "tests.job.counting:Counting", "version": 1, "start": 5}, "is malformed: KeyError: 'stop'"),
    ],
)
def test_a_bad_description_is_explained(desc: Description, complaint: str) -> None:
    """Whatever is wrong with a description is said, and nothing else is raised."""
    with pytest.raises(aliquot.DescriptionError) as raised:
        aliquot.Job.from_desc(desc)
    assert complaint in str(raised.value)


def test_a_description_of_another_type_is_refused() -> None:
    """A class rebuilds only its own."""
    with pytest.raises(aliquot.DescriptionError, match=r"not a 'aliquot\.bundle'"):
        aliquot.Bundle.from_desc(Counting(0, 1).to_desc())


def test_an_executed_job_travels_with_its_result() -> None:
    """Done and failed jobs come back from a description as they were."""
    done = Counting(0, 4).attempt()
    failed = Counting(0, 4, bad_unit=2).attempt()
    assert aliquot.Job.from_desc(json.loads(json.dumps(done.to_desc()))).result == aliquot.Done(6)
    travelled = Counting.from_desc(json.loads(json.dumps(failed.to_desc())))
    assert travelled.result == failed.result
    assert isinstance(travelled.result, aliquot.Failed)
    assert travelled.result.error == "ValueError: unit 2 is bad"
    assert "Traceback" in travelled.result.traceback


@pytest.mark.parametrize("value", [None, 1.5, "x", [1, {"a": None}], (1, 2), {1: 2}, b"bytes", float("inf"), {3, 4}])
def test_a_value_of_any_type_survives_a_description(value: object) -> None:
    """JSON where it is exact, else pickled: the type is the same afterwards."""
    job = Counting(0, 4).with_result(aliquot.Done(value))
    (result,) = [Counting.from_desc(json.loads(json.dumps(job.to_desc()))).result]
    assert result == aliquot.Done(value)
    assert isinstance(result, aliquot.Done)
    assert type(result.value) is type(value)


def test_a_job_that_is_done_is_not_joined_with_one_that_is_not() -> None:
    """Never one of each."""
    first, second = Counting(0, 4).split(1, 2)
    with pytest.raises(aliquot.JobStateError, match="cannot join a job that is done with one that is not run"):
        first.attempt().join(second)


@pytest.mark.parametrize(
    "error",
    [
        aliquot.DataError("is bad", path="x.csv", unit=3, byte=17, advice="Mend it"),
        aliquot.SourceChangedError("grew", path="x.csv"),
        aliquot.MissingExtraError("Reading zstd files", "zstd"),
        aliquot.UsageError("wrong"),
    ],
)
def test_errors_travel_between_processes(error: aliquot.AliquotError) -> None:
    """An error that was pickled says the same and has the same attributes."""
    travelled = pickle.loads(pickle.dumps(error))
    assert str(travelled) == str(error)
    assert type(travelled) is type(error)
    if isinstance(error, aliquot.DataError):
        assert isinstance(travelled, aliquot.DataError)
        assert (travelled.path, travelled.unit, travelled.byte) == (error.path, error.unit, error.byte)


def test_a_job_class_without_from_desc_says_so() -> None:
    """To whoever rebuilds one, by its class or by its description."""

    class Halfway(aliquot.Job):
        type_name = "test.halfway"
        size = 1

        def split(self, count: int, size: int) -> list[Self]:
            return [self]

        def join(self, other: Self) -> list[Self]:
            return [self, other]

        def execute(self) -> int:
            return 1

        def to_desc(self) -> Description:
            return self.describe()

    for rebuild in (Halfway.from_desc, aliquot.Job.from_desc):
        with pytest.raises(aliquot.JobError, match="the job class Halfway does not define from_desc"):
            rebuild(Halfway().to_desc())


def test_the_attributes_of_a_job_travel() -> None:
    """What was set comes back as it was; what was not set is not described."""
    job = Counting(0, 4)
    assert "attributes" not in job.to_desc()
    job.resources = aliquot.Resources(cores=2, memory_bytes=10**9)
    job.inputs = ("a.txt", "b.txt")
    job.outputs = ("out",)
    job.environment = (("PATH", "/bin"), ("LANG", "C"))
    travelled = Counting.from_desc(json.loads(json.dumps(job.to_desc())))
    assert travelled == job
    assert travelled != Counting(0, 4)
    assert travelled.resources == aliquot.Resources(cores=2, memory_bytes=10**9)
    assert (travelled.inputs, travelled.outputs) == (("a.txt", "b.txt"), ("out",))
    assert travelled.environment == (("PATH", "/bin"), ("LANG", "C"))


def test_what_a_later_release_tells_of_resources_is_left_out() -> None:
    desc = {**Counting(0, 4).to_desc(), "attributes": {"resources": {"cores": 2, "gpus": 1}}}
    assert Counting.from_desc(desc).resources == aliquot.Resources(cores=2)


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"resources": 5}, "the attribute 'resources' of a described job is malformed"),
        ({"resources": {"cores": "two"}}, "the attribute 'resources' of a described job is malformed"),
        ({"resources": {"cores": True}}, "the attribute 'resources' of a described job is malformed"),
        ({"inputs": "a.txt"}, "the attribute 'inputs' of a described job is malformed"),
        ({"environment": [["PATH"]]}, "the attribute 'environment' of a described job is malformed"),
        ({"colour": "red"}, "a job has no attribute 'colour'"),
        ([1, 2], "attributes"),
        ("text", "attributes"),
    ],
)
def test_a_malformed_attribute_is_explained(attributes: object, complaint: str) -> None:
    """As a description, never as a bug."""
    with pytest.raises(aliquot.DescriptionError, match=complaint):
        Counting.from_desc({**Counting(0, 4).to_desc(), "attributes": attributes})


def words(numbers: range) -> set[str]:
    """Many make a set that keeps them in an order that depends on how it was made."""
    return {f"word {number}" for number in numbers}


@pytest.mark.parametrize(
    ("value", "same", "other"),
    [
        (np.arange(3), np.arange(3), np.arange(1, 4)),
        (np.arange(3), np.arange(3), np.arange(4)),
        (np.arange(3), np.arange(3), np.zeros((2, 3))),
        ([np.arange(3), 1], [np.arange(3), 1], [np.arange(3), 2]),
        ({"a": np.arange(3)}, {"a": np.arange(3)}, {"a": np.arange(1, 4)}),
        (words(range(200)), words(range(199, -1, -1)), words(range(199))),
        (1.0, 1.0, None),
    ],
    ids=["array", "length", "shape", "list of arrays", "dict of arrays", "set", "number"],
)
def test_jobs_are_equal_where_their_values_are(value: Any, same: Any, other: Any) -> None:
    """Arrays and sets too, alone and in a bundle."""
    first, second, third = (Counting(0, 4).with_result(aliquot.Done(found)) for found in (value, same, other))
    assert first == second
    assert first != third
    assert aliquot.Bundle.of(first) == aliquot.Bundle.of(second)
    assert aliquot.Bundle.of(first) != aliquot.Bundle.of(third)
