"""The command line as a person meets it: exit codes, what is printed where; in a real process where that matters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aliquot.cli.wording import in_options
from tests.conftest import Ran

ALIQUOT = Path(sys.executable).parent / "aliquot"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ALIQUOT, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("a;b\n" + "".join(f"{number};x\n" for number in range(100)))
    return path


def test_index_counts_and_remembers(table: Path) -> None:
    """The first time it counts, the second time it knows, with --rebuild it counts again."""
    first, second, third = run("index", table), run("index", table), run("index", "--rebuild", table)
    assert "100 units, 490 B of content\n" in first.stdout
    assert "counted in" in first.stdout
    assert "known without counting" in second.stdout
    assert "counted in" in third.stdout


def test_index_quietly_prints_a_number(table: Path, tmp_path: Path) -> None:
    """Ready for a shell script; several files are one stream."""
    other = tmp_path / "other.csv"
    other.write_text("a;b\n1;2\n")
    assert run("index", "-q", table, other).stdout == "101\n"


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ("2:4", "2;x\n3;x\n"),
        ("98:", "98;x\n99;x\n"),
        ("-1:", "99;x\n"),
        (":1", "0;x\n"),
        ("7", "7;x\n"),
        ("-2", "98;x\n"),
    ],
)
def test_slice_follows_the_rules_of_python(
    in_process: Callable[..., Ran], table: Path, units: str, expected: str
) -> None:
    """From the front, from the end, or one alone; the header is repeated."""
    printed = in_process("slice", "--option", "delimiter=;", table, units)
    assert (printed.out, printed.err, printed.code) == ("a;b\n" + expected, "", 0)


def test_slice_writes_a_file(table: Path, tmp_path: Path) -> None:
    """With --out, nothing is printed."""
    printed = run("slice", table, "0:2", "--out", tmp_path / "two.csv")
    assert printed.stdout == ""
    assert (tmp_path / "two.csv").read_text() == "a;b\n0;x\n1;x\n"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """`aliquot slice ... | head` ends quietly."""
    path = tmp_path / "long.txt"
    path.write_text("line\n" * 1_000_000)
    ran = subprocess.run(
        f"{ALIQUOT} slice {path} : | head -n 1", shell=True, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("line\n", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["index", "missing.csv"], "missing.csv: there is no such file"),
        (["slice", "missing.csv", "1:x"], "missing.csv: there is no such file"),
        (["index"], "Missing argument"),
        (["index", "--option", "nonsense", "x"], "--option 'nonsense' is not NAME=VALUE"),
        (["index", "--format", "nonsense", "{table}"], "unknown format 'nonsense': choose from csv, "),
        (["slice", "{table}", "one:two"], "'one:two' is not START:STOP"),
        (["nonsense"], "No such command"),
        (["slice", "{table}", "5000"], "there is no unit 5000: there are 100"),
    ],
)
def test_a_mistake_is_explained_in_a_line(
    in_process: Callable[..., Ran], table: Path, arguments: list[str], complaint: str
) -> None:
    """Exit code 2, nothing on standard output, no traceback."""
    ran = in_process(*(argument.format(table=table) for argument in arguments))
    assert ran.code == 2
    assert complaint in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("command", [[], ["index"], ["slice"]])
def test_help_shows_examples(in_process: Callable[..., Ran], command: list[str]) -> None:
    """Every --help has an example to copy."""
    printed = in_process(*command, "--help").out
    assert "aliquot index reads.fastq.gz" in printed or "aliquot slice reads.fastq.gz" in printed


@pytest.mark.parametrize(
    "program", ["import aliquot", "from aliquot.cli import commands; commands.main(['--help'], standalone_mode=False)"]
)
def test_starting_loads_nothing_heavy(program: str) -> None:
    """`import aliquot` and `aliquot --help` load no numpy and no optional library."""
    check = (
        f"{program}\nimport sys; sys.exit(str([m for m in ('numpy', 'rich', 'dnaio', 'msgspec') if m in sys.modules]))"
    )
    ran = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == "[]"


def test_a_program_is_run_without_anything_heavy(tmp_path: Path) -> None:
    """Until it begins, its user waits for all that is imported."""
    (tmp_path / "in.txt").write_text("a\nb\n")
    told = ["run", "-q", "--split", "text=in.txt", "--join", "out=out.txt", "--", "tr a-z A-Z < {text} > {out}"]
    heavy = ("numpy", "rich", "dnaio", "msgspec")
    program = (
        "import contextlib, sys\nfrom aliquot.cli import commands\n"
        f"with contextlib.suppress(SystemExit): commands.main({told})\n"
        f"sys.exit(str([m for m in {heavy} if m in sys.modules]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == "[]"
    assert (tmp_path / "out.txt").read_text() == "A\nB\n"


@pytest.mark.parametrize("option", ["header=maybe", "delimiter=ab", "encoding=5", "quote=ab"])
@pytest.mark.parametrize("command", ["index", "slice"])
def test_an_option_that_cannot_be_is_explained_in_a_line(
    in_process: Callable[..., Ran], table: Path, command: str, option: str
) -> None:
    """Exit code 2, the name of the option, no traceback."""
    ran = in_process(command, "--option", option, table, *(["0:1"] if command == "slice" else []))
    assert (ran.code, ran.out) == (2, "")
    assert option.partition("=")[0] in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("option", ["header=no", "header=NO", "header=false"])
def test_an_option_may_say_no(in_process: Callable[..., Ran], table: Path, option: str) -> None:
    """In the words that people use."""
    assert in_process("index", "-q", "--option", option, table).out == "101\n"


def test_a_full_disk_is_explained_in_a_line(table: Path) -> None:
    """Exit code 2, and no traceback at the end of the interpreter either."""
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [ALIQUOT, "slice", str(table), "0:10"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 2
    assert "No space left on device" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_forgotten_range_is_asked_for(in_process: Callable[..., Ran], table: Path) -> None:
    """With the command as it should be."""
    ran = in_process("slice", table)
    assert (ran.code, ran.out) == (2, "")
    assert f"aliquot slice {table} START:STOP" in " ".join(ran.err.split())
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", [[], ["index"], ["slice"]])
def test_help_shows_one_example_a_line(in_process: Callable[..., Ran], command: list[str]) -> None:
    """Not wrapped into a paragraph, and without the mark that keeps them apart."""
    printed = in_process(*command, "--help").out
    assert "\\b" not in printed
    assert "\b" not in printed
    examples = [line.strip() for line in printed.splitlines() if line.strip().startswith("aliquot ")]
    assert len(examples) >= 2
    assert all(example.count("aliquot ") == 1 for example in examples)


def test_empty_files_have_no_units(in_process: Callable[..., Ran], tmp_path: Path) -> None:
    """Two of them neither, and it is no error."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.touch()
    ran = in_process("index", *paths)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("0 units, 0 B of content")
    assert in_process("index", "-q", *paths).out == "0\n"


@pytest.mark.parametrize("module", ["formats.json_lines", "tables.looking"])
def test_an_interrupt_while_modules_are_imported_is_not_lost(module: str) -> None:
    """It would be if msgspec were the first to import datetime."""
    program = f"""
import signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "datetime":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
import aliquot.virtual_file.{module}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    ("told", "in_words"),
    [
        ("Rename it, or open it with compression='none'", "Rename it, or open it with --compression none"),
        ("what is run instead begins anew, with --fresh (fresh=True)", "what is run instead begins anew, with --fresh"),
        (
            "from the input as it was; --fresh (fresh=True) begins anew with the input as it is",
            "from the input as it was; --fresh begins anew with the input as it is",
        ),
    ],
)
def test_advice_names_options(told: str, in_words: str) -> None:
    """And no arguments of Python, which a command line does not take."""
    assert in_options(told) == in_words


def test_standard_input_that_is_a_file_is_divided(tmp_path: Path) -> None:
    """Workers have another one: they are told of the file itself."""
    (tmp_path / "numbers.txt").write_text("1\n2\n3\n")
    with open(tmp_path / "numbers.txt") as numbers:
        code = "import aliquot; print(aliquot.map_batches(len, '/dev/stdin'))"
        ran = subprocess.run(
            [sys.executable, "-c", code], stdin=numbers, capture_output=True, text=True, check=True, cwd=tmp_path
        )
    assert ran.stdout == "3\n"


def test_standard_input_without_a_name_is_refused(tmp_path: Path) -> None:
    """Workers could not open it."""
    path = tmp_path / "numbers.txt"
    path.write_text("1\n2\n3\n")
    with open(path) as numbers:
        path.unlink()
        ran = subprocess.run(
            [ALIQUOT, "index", "/dev/stdin"], stdin=numbers, capture_output=True, text=True, check=False
        )
    assert ran.returncode == 2
    assert "without a name" in ran.stderr
