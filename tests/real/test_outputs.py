"""Outputs beside the programs that know them best, on disks that are full, and in processes that are killed."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.outputs import OutputError, PartialOutput, find_rule, join_pieces

from .processes import Script

MB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def piece_of(directory: Path, rule: str) -> Path:
    """A piece of 1 MB."""
    piece = directory / "piece"
    if rule == "dir":
        piece.mkdir()
        (piece / "a").write_bytes(b"line 1\n" * (MB // 14))
        (piece / "b").write_bytes(b"line 1\n" * (MB // 14))
    else:
        piece.write_bytes(b"line 1\n" * (MB // 7))
    return piece


@pytest.mark.parametrize("rule", ["concat", "csv", "lines-sorted", "dir"])
def test_a_full_disk_is_an_error_that_passes(tmp_path: Path, small_disk: Path, rule: str) -> None:
    """While appending: nothing of the piece stays, and once there is room it goes on."""
    piece = piece_of(tmp_path, rule)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(MB // 2))
    partial = PartialOutput(find_rule(rule), str(small_disk / "partial"))
    for _ in range(3):
        partial.append(str(piece))
    used = shutil.disk_usage(small_disk).used
    for _ in range(2):
        with pytest.raises(OutputError, match=r"No space left.*Make room") as caught:
            partial.append(str(piece))
        assert caught.value.is_out_of_room
        assert caught.value.path.startswith(partial.path)
        assert shutil.disk_usage(small_disk).used <= used + 8192
    state = partial.sync()
    filler.unlink()
    partial = PartialOutput(find_rule(rule), str(small_disk / "partial"), json.loads(json.dumps(state)))
    if rule != "lines-sorted":  # which needs room for its sections and for the result
        partial.finish(str(small_disk / "out"))
    else:
        with pytest.raises(OutputError, match="No space left") as caught:
            partial.finish(str(small_disk / "out"))
        assert os.listdir(small_disk) == ["partial"]
        subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
        partial.finish(str(small_disk / "out"))
    outs = [small_disk / "out" / "a", small_disk / "out" / "b"] if rule == "dir" else [small_disk / "out"]
    lines = 3 * (MB // 14 if rule == "dir" else MB // 7)
    for out in outs:
        assert out.read_bytes() == b"line 1\n" * (lines - 2 if rule == "csv" else lines)


@pytest.mark.parametrize("rule", ["concat", "dir"])
def test_a_target_on_a_full_disk_is_not_there(tmp_path: Path, small_disk: Path, rule: str) -> None:
    """Nor anything beside it; with room, the same call succeeds."""
    piece = piece_of(tmp_path, rule)
    partial = PartialOutput(find_rule(rule), str(tmp_path / "partial"))
    for _ in range(5):
        partial.append(str(piece))
    for _ in range(2):
        with pytest.raises(OutputError, match=r"No space left.*Make room") as caught:
            partial.finish(str(small_disk / "out"))
        assert str(small_disk) in caught.value.path
        assert os.listdir(small_disk) == []
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    partial.finish(str(small_disk / "out"))
    assert os.listdir(small_disk) == ["out"]


@pytest.mark.skipif(not (shutil.which("bwa") and shutil.which("samtools")), reason="needs bwa and samtools")
def test_alignments_in_pieces_are_those_of_the_whole(tmp_path: Path) -> None:
    """Bwa over slices of the reads, joined, and samtools reads it: the same records and reference."""
    chance = random.Random(1)
    genome = "".join(chance.choices("ACGT", k=20_000))
    (tmp_path / "ref.fa").write_text(f">chr1\n{genome[:12000]}\n>chr2\n{genome[12000:]}\n")
    subprocess.run(["bwa", "index", "ref.fa"], cwd=tmp_path, check=True, capture_output=True)
    starts = [chance.randrange(19_900) for _ in range(400)]
    reads = [f"@r{number}\n{genome[at : at + 80]}\n+\n{'I' * 80}\n" for number, at in enumerate(starts)]

    def align(name: str, units: list[str]) -> str:
        (tmp_path / f"{name}.fq").write_text("".join(units))
        with (tmp_path / f"{name}.sam").open("wb") as out:
            command = ["bwa", "mem", "ref.fa", f"{name}.fq"]
            subprocess.run(command, cwd=tmp_path, check=True, stdout=out, stderr=subprocess.DEVNULL)
        return str(tmp_path / f"{name}.sam")

    whole = Path(align("whole", reads)).read_bytes()
    cuts = [0, 1, 100, 100, 250, 400]
    pieces = [align(f"{start}-{stop}", reads[start:stop]) for start, stop in itertools.pairwise(cuts)]
    rule = find_rule("sam")
    join_pieces(rule, pieces[1:3], str(tmp_path / "several"))
    partial = PartialOutput(rule, str(tmp_path / "partial"))
    for piece in (pieces[0], str(tmp_path / "several"), *pieces[3:]):
        partial.append(piece)
    partial.finish(str(tmp_path / "out.sam"))
    # Only the command line in @PG names another file.
    assert (tmp_path / "out.sam").read_bytes() == whole.replace(b"whole.fq", b"0-1.fq")
    counted = subprocess.run(["samtools", "view", "-c", tmp_path / "out.sam"], check=True, capture_output=True)
    assert int(counted.stdout) == 400


def test_lines_are_sorted_as_sort_does(tmp_path: Path) -> None:
    """Several runs of them."""
    chance = random.Random(2)
    pieces = []
    for number in range(3):
        piece = tmp_path / f"piece-{number}"
        piece.write_bytes(b"\n".join(chance.randbytes(chance.randrange(200)) for _ in range(60_000)))
        pieces.append(str(piece))
    partial = PartialOutput(find_rule("lines-sorted"), str(tmp_path / "partial"))
    for name in pieces:
        partial.append(name)
    partial.finish(str(tmp_path / "out"))
    with (tmp_path / "sorted").open("wb") as out:
        subprocess.run(["sort", *pieces], check=True, stdout=out, env={**os.environ, "LC_ALL": "C"})
    assert (tmp_path / "out").read_bytes() == (tmp_path / "sorted").read_bytes()


APPEND_FOREVER = """
import json
from aliquot.outputs import PartialOutput, find_rule
state = json.load(open("state")) if os.path.exists("state") else {"pieces": 0, "output": None}
partial = PartialOutput(find_rule("csv"), "partial", state["output"])
done = state["pieces"]
while done < 2000:
    partial.append(f"pieces/{done}")
    done += 1
    if done % 50 == 0:
        with open("state.new", "w") as file:
            json.dump({"pieces": done, "output": partial.sync()}, file)
        os.replace("state.new", "state")
    if done % 50 == 30:
        print(done, flush=True)
partial.finish("out.csv")
print("finished", flush=True)
"""


def test_killed_again_and_again_the_bytes_are_the_same(tmp_path: Path) -> None:
    """With -9, between any two syncs."""
    (tmp_path / "pieces").mkdir()
    for number in range(2000):
        (tmp_path / "pieces" / str(number)).write_bytes(b"x,y\n" + b"%d,1\n" % number * 1000)
    kills = 0
    while True:
        with Script(tmp_path, APPEND_FOREVER) as script:
            for _ in range(5):
                line = script.line()
                if line == "finished":
                    break
            else:
                kills += 1
                script.process.kill()
                continue
            break
    assert kills >= 5
    expected = b"x,y\n" + b"".join(b"%d,1\n" % number * 1000 for number in range(2000))
    assert (tmp_path / "out.csv").read_bytes() == expected
