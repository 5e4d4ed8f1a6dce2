"""Command texts: placeholders, quotes, and what is refused with which words."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import UsageError
from aliquot.jobs.command import Template

ODD_PATHS = ["/a b/c", "/it's", '/say "x"', "/new\nline", "/$HOME/`id`/\\n", "/*?[a]", "/-x", "/ü"]


def read(text: str, splits: tuple[str, ...] = ("reads",), outputs: tuple[str, ...] = ()) -> Template:
    return Template(text, splits, outputs)


def test_placeholders_become_words() -> None:
    """Splits, outputs and numbers."""
    template = read("bwa mem -t {cores} ref.fa {reads} > {sam}", outputs=("sam",))
    words = {"cores": "2", "reads": "/p/reads.fastq", "sam": "/p/sam.sam"}
    assert template.render(words) == "bwa mem -t 2 ref.fa /p/reads.fastq > /p/sam.sam"
    assert template.mode == "file"
    assert template.stdout_output is None


@pytest.mark.parametrize("written", ["{reads}", "'{reads}'", '"{reads}"', "--in={reads}", "\"$(printf %s '{reads}')\""])
@pytest.mark.parametrize("path", ODD_PATHS)
def test_any_path_reaches_the_program_as_it_is(written: str, path: str) -> None:
    """Also between the user's own quotes, as the shell itself shows."""
    script = read(f"printf %s {written}").render({"reads": path})
    shown = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode()
    assert shown.removeprefix("--in=") == path


@given(path=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_quotes_nest(path: str) -> None:
    """A path in double quotes in a command in double quotes stays one word, whatever is in it."""
    script = read('printf %s "$(printf %s. "{reads}")"').render({"reads": path})
    shown = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode()
    assert shown == f"{path}."


def test_a_comment_opens_no_quote() -> None:
    """An apostrophe in it is none."""
    script = read("# don't\nprintf %s {reads}").render({"reads": "/a b"})
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout == b"/a b"


def test_doubled_braces_are_braces() -> None:
    """For awk, for variables of the shell, and around placeholders."""
    template = read("awk '{{print $1}}' ${{HOME}} {{{reads}}}")
    assert template.render({"reads": "x"}) == "awk '{print $1}' ${HOME} {x}"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("awk '{print $1}' {reads}", "{{print $1}}"),
        ("echo ${HOME} {reads}", "{{HOME}}"),
        ("cat {reads} | awk '{ if (1) ", "write {{"),
        ("echo } {reads}", "write }}"),
        ("cat {reads} {1..3}", "{{1..3}}"),
    ],
)
def test_single_braces_are_explained(text: str, instead: str) -> None:
    """What to write instead, for this very text."""
    with pytest.raises(UsageError) as refused:
        read(text)
    assert instead in str(refused.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("cat {raeds}", "{reads}"), ("cat {reads} {unit}", "{units}"), ("x {reads:ofset}", "reads:offset")],
)
def test_near_names_are_suggested(text: str, meant: str) -> None:
    """A slip of the finger is told as one."""
    with pytest.raises(UsageError, match="Did you mean") as refused:
        read(text)
    assert meant in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "wc -l < {reads}",
        "wc -l <{reads}",
        'wc -l < "{reads}"',
        "wc -l 0<{reads}",
        "wc -l {reads:pipe}",
        "a | b < {reads}",
    ],
)
def test_what_is_read_from_a_redirection_or_a_pipe_is_streamed(text: str) -> None:
    """However it is written."""
    assert read(text).mode == "stream"


@pytest.mark.parametrize(
    "text", ["sort {reads}", "awk '1 < {reads}'", "cat <<E {reads}\nE", "cat < x {reads}", "diff <(sort {reads}) x"]
)
def test_other_less_than_signs_are_no_redirection_of_it(text: str) -> None:
    """In quotes, in here-documents, of another file, of a process."""
    assert read(text).mode == "file"


def test_ranges() -> None:
    """Offset and length need the source's own path."""
    template = read("tail -c +{reads:offset} {reads:source} | head -c {reads:length}")
    assert template.mode == "range"
    assert read("prog {reads:source} {unit_start} {units}").mode == "range"


@pytest.mark.parametrize(
    ("text", "splits", "outputs", "words"),
    [
        ("cat x", ("reads",), (), "nowhere in the command"),
        ("cat {a}", ("a", "b"), (), "'b' is split, but"),
        ("cat {reads}", ("reads",), ("x", "y"), "{x}, {y} are outputs that are nowhere"),
        ("cat {reads}", ("reads",), ("reads",), "both split and an output"),
        ("cat {reads}", ("reads",), ("x", "x"), "two outputs are called 'x'"),
        ("cat {units}", ("units",), (), "has a meaning already"),
        ("cat {reads}", ("reads",), ("stderr",), "has a meaning already"),
        ("cat {a-b}", ("a-b",), (), "letters, digits and _"),
        ("  ", ("reads",), (), "a line for the shell"),
        ("cat {reads}\0", ("reads",), (), "zero byte"),
        ("cat {sam:pipe} {reads}", ("reads",), ("sam",), "only what is split"),
        ("cat {reads:xyz}", ("reads",), (), "pipe, offset, length, source"),
        ("cat `cat {reads}`", ("reads",), (), "use $(...) instead"),
        ("cat {a} < {b}", ("a", "b"), (), "Use one way for all"),
        ("cat {a} {b:pipe}", ("a", "b"), (), "write {b} instead of {b:pipe}, for files; or {a:pipe} instead of {a}"),
        ("cat {a} {a:pipe}", ("a",), (), "one part cannot be both. Write {a} instead of {a:pipe}"),
        ("cat {a} - < {a}", ("a",), (), "'< {a}' is a pipe, and {a} elsewhere in the command is a file"),
        ("cat {a} - < {a}", ("a",), (), "Write 'cat {a} |' before the program instead of '< {a}'"),
        ("cat {a:offset} < {b}", ("a", "b"), (), "Use one way for all"),
        ("cat {a:pipe} {a:pipe}", ("a",), (), "only once"),
        ("head -n {units} < {a}", ("a",), (), "{units} is not known"),
        ("cat {a:source}", ("a",), (), "which units to work on"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    text: str, splits: tuple[str, ...], outputs: tuple[str, ...], words: str
) -> None:
    """With what is wrong and what to do."""
    with pytest.raises(UsageError) as refused:
        Template(text, splits, outputs)
    assert words in str(refused.value)


def test_the_output_that_is_not_named_is_standard_output() -> None:
    """One may be."""
    assert read("cat {reads} 2> {log}", outputs=("text", "log")).stdout_output == "text"


def test_a_check_may_leave_names_out_but_reads_no_pipe() -> None:
    """It runs when the pipe is closed."""
    assert Template("test -s {sam}", ("reads",), ("sam", "x"), is_check=True).stdout_output is None
    assert Template("wc -l < {reads}", ("reads",), (), is_check=True).mode == "file"
    with pytest.raises(UsageError, match="a check runs after the command"):
        Template("cat {reads:pipe}", ("reads",), (), is_check=True)


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("bwa mem ref.fa {reads} > {sam}", ["bwa"]),
        ("bwa mem ref.fa {reads} | samtools sort -o {sam} -", ["bwa", "samtools"]),
        ("cd x && LC_ALL=C sort {reads} 2>&1 | uniq -c; gzip x", ["sort", "uniq", "gzip"]),
        ("if test -s {reads}; then ./mine {reads}; else echo no; fi > {sam}", ["./mine"]),
        ("env A=1 nice -n 5 /opt/x/prog {reads} > {sam}", ["env", "nice", "/opt/x/prog"]),
        ("awk '{{ a | \"b\" }}' {reads} > {sam}\nwc -l \\\n {sam}", ["awk", "wc"]),
        ("(time zcat {reads}) > {sam} & wait", ["zcat"]),
        ("exec prog < x 'unclosed {reads} {sam}", ["prog"]),
        ("{scratch}/tool {reads} {sam}", []),
    ],
)
def test_the_programs_of_a_command_are_found(text: str, programs: list[str]) -> None:
    """As far as its text shows them."""
    assert read(text, outputs=("sam",)).programs() == programs


def test_words_are_known_with_what_they_are_redirected_to() -> None:
    """Without quotes, up to one that is never closed."""
    found = read("prog 'a b' {reads} 2>>\"x\" <y | tee ./z; >|w cat 'unclosed").words()
    redirected = [("", "prog"), ("", "a b"), ("", "{}"), ("", "2"), (">>", "x"), ("<", "y")]
    assert found == [*redirected, ("", "tee"), ("", "./z"), (">|", "w"), ("", "cat")]


@pytest.mark.parametrize(
    ("text", "is_simple", "has_pipes"),
    [
        ("bwa mem {reads} > x 2>&1", True, False),
        ("bwa mem {reads} | x", False, True),
        ("bwa mem {reads} || x", False, False),
        ("grep 'a|b' {reads}", True, False),
        ("echo {reads}", False, False),
        ("A=1 prog {reads}", False, False),
        ("prog {reads} &", False, False),
        ("if true; then prog {reads}; fi", False, False),
        ("prog {reads} >| x", True, False),
        ("a {reads} || b | c", False, True),
        ("prog {reads}\nprog", False, False),
        ("prog `id` {reads}", False, False),
    ],
)
def test_simple_commands_and_pipes_are_told_apart(text: str, is_simple: bool, has_pipes: bool) -> None:
    """A simple one needs no shell once it is started; a pipe needs one that tells of every failure."""
    template = read(text)
    assert (template.is_simple, template.has_pipes) == (is_simple, has_pipes)
