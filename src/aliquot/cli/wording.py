"""What the library says, in the words of the command line."""

from __future__ import annotations

import re

# Only as arguments of calls are written: a word of the user's own, or a path, is left as it is.
_PYTHON_TO_OPTIONS = (
    (r" \((?:fresh|resume_anyway|force)=True\)", ""),
    (r"fresh and resume_anyway cannot", "--fresh and --resume-anyway cannot"),
    (r"Local\(memory='?([^')]*)'?\)", r"--memory \1"),
    (r"\bmax_failures=1\.0 \(all, and not 1\) would", "--keep-going would"),
    (r"\bmax_failures(?:=| (?=allows|is \d))", "--max-failures "),
    (r"\bwith max_failures,", "with --max-failures,"),
    (r"\bwith columns=", "with --columns"),
    (r"\baliquot\.map for single units", "--each for single units"),
    (r"\bjoin=(?:lambda|operator|numpy|max|min|\.\.\.|$).*", "--join MODULE:FUNCTION"),
    (r"\b(?:longer than )wall_seconds\b", "longer than --wall"),
    (r"\bwall_seconds=", "--wall "),
    (r"\btarget_seconds=", "--target-seconds "),
    (r"\bleast_bytes_per_unit=", "--least-bytes "),
    (r"\bdisk='?([^':]*)'?:", r"--disk \1:"),
    (r"\bset_aside='([^']*)'", r"--set-aside \1"),
    (r"\bsandbox=True\b", "--sandbox"),
    (r"\bcan be opened with same_names=False\b", "can be divided with --names-may-differ"),
    (r"format='fixed' with record_bytes=\.\.\.", "--format fixed with --option record_bytes=..."),
    (r"\b(format|compression)='(\w+)'", r"--\1 \2"),
    (r", or register your own with aliquot\.register_format", ""),
    (r"\binputs are for a sandbox\b", "--input is for a sandbox"),
)

# Beside the words that `aliquot.running.spoiled` has for it: options take it in per cent.
_PART = r"(max-failures is | or a part such as )((?:0\.\d+|\d+e-\d+|1\.0)(?= of |$))"


def in_options(message: str) -> str:
    """Name options where a message names Python arguments."""
    for pattern, instead in _PYTHON_TO_OPTIONS:
        message = re.sub(pattern, instead, message)
    return re.sub(_PART, lambda found: f"{found[1]}{100 * float(found[2]):g}%", message, flags=re.MULTILINE)
