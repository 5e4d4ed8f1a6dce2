"""Files that end in the middle of a read, as downloads do that were broken off."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.virtual_file.boundaries import EveryLines

READ = "@r\nAC\n+\nII\n"
# The second line of each read, whatever else is there.
COMMANDS = {
    "file": "awk 'NR % 4 == 2' {reads} > {out}",
    "pipe": "awk 'NR % 4 == 2' {reads:pipe} > {out}",
    "range": "tail -c +$(({reads:offset} + 1)) {reads:source} | head -c {reads:length} | awk 'NR % 4 == 2' > {out}",
}


ENDS = {"1 line": "@r", "2 lines": "@r\nAC", "3 lines": "@r\nAC\n+\n", "4 lines": "@r\nAC\n+\nI", "blank": "\n\n"}


@pytest.fixture(params=ENDS)
def torn(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of 300 reads, and one that has no end; another one is beside it."""
    path = tmp_path / "a.fastq"
    path.write_text(READ * 300 + ENDS[request.param])
    (tmp_path / "b.fastq").write_text(READ * 200)
    return path


def run(path: str, command: str, directory: Path, **options: Any) -> aliquot.Outcome:
    job = aliquot.Command(command, split={"reads": path}, join={"out": "out.txt:concat"}, directory=directory)
    return aliquot.run(job, fresh=True, force=True, progress=False, **options)


@pytest.mark.parametrize("mode", COMMANDS)
def test_a_program_is_not_given_a_read_without_its_end(torn: Path, tmp_path: Path, mode: str) -> None:
    """But all others."""
    outcome = run(str(torn), COMMANDS[mode], tmp_path, max_failures=1)
    assert [(failure.start, failure.stop) for failure in outcome.failures] == [(300, 301)]
    assert "Is the file complete" in outcome.failures[0].error
    assert (tmp_path / "out.txt").read_text() == "AC\n" * 300
    with pytest.raises(aliquot.DataError, match="unit 300, byte 3300"):
        run(str(torn), COMMANDS[mode], tmp_path)


@pytest.mark.parametrize("mode", COMMANDS)
@pytest.mark.parametrize("bad", [0, 300])
def test_a_program_is_not_given_a_read_that_was_found_to_be_bad(tmp_path: Path, mode: str, bad: int) -> None:
    """It might pass over it without a word, and whoever has read that it is bad would take it for set aside."""
    reads = [READ] * 301
    reads[bad] = "@r\nAC\n+\nI\n"
    (tmp_path / "reads.fastq").write_text("".join(reads))
    with pytest.raises(aliquot.DataError, match="2 bases and 1 qualities"):
        run(str(tmp_path / "reads.fastq"), COMMANDS[mode], tmp_path)
    outcome = run(str(tmp_path / "reads.fastq"), COMMANDS[mode], tmp_path, max_failures=1)
    assert [(failure.start, failure.stop) for failure in outcome.failures] == [(bad, bad + 1)]
    assert (tmp_path / "out.txt").read_text() == "AC\n" * 300


@pytest.mark.parametrize("mode", ["file", "pipe"])
def test_reads_of_the_next_file_stay_where_they_are(torn: Path, tmp_path: Path, mode: str) -> None:
    """What is left of the last read of a file would make others of them."""
    outcome = run(f"{torn.parent}/*.fastq", COMMANDS[mode], tmp_path, max_failures=1)
    assert [(failure.start, failure.stop) for failure in outcome.failures] == [(300, 301)]
    assert (tmp_path / "out.txt").read_text() == "AC\n" * 500


def test_a_view_that_expects_it_does_not_copy_it_either(torn: Path, tmp_path: Path) -> None:
    """Nor one that has travelled, and cannot know what is expected."""
    with pytest.warns(aliquot.UnitsSetAsideWarning):
        assert aliquot.map_batches(len, str(torn), max_failures=1, progress=False) == 300
    travelled = pickle.loads(pickle.dumps(aliquot.open(torn)))
    for view in (aliquot.open(torn), travelled):
        with pytest.raises(aliquot.DataError, match="Is the file complete"):
            view.instantiate(tmp_path / "copy.fastq")
        assert not (tmp_path / "copy.fastq").exists()
    assert travelled[:300].read() == (READ * 300).encode()
    with pytest.raises(aliquot.DataError, match="Is the file complete"):
        travelled.read()


def test_units_of_several_lines_of_ones_own_are_whole(tmp_path: Path) -> None:
    """Whoever parses them is promised that."""
    path = tmp_path / "a.pairs-of-lines"
    path.write_text("1\n2\n3\n4\n5\n")
    view = aliquot.open(path)
    view.source.expect_bad_units()
    assert len(view) == 3
    assert view[:2].batch() == [["1", "2"], ["3", "4"]]
    for units in (view, view[1:], view[2:]):
        with pytest.raises(aliquot.DataError, match="unit 2, byte 8: ends in the middle of a unit"):
            units.batch()


@aliquot.register_format
class _Pairs(aliquot.Format):
    name = "pairs-of-lines"
    suffixes = (".pairs-of-lines",)
    boundaries = EveryLines(2)

    def parse(self, data: bytes, header: bytes) -> list[list[str]]:
        lines = data.decode().splitlines()
        return [lines[at : at + 2] for at in range(0, len(lines), 2)]
