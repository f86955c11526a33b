"""Describe a file that is not a known recording, and name the format that comes closest."""

from __future__ import annotations

import re
from typing import Final

from androstep_analysis.common.errors import printable
from androstep_analysis.ingest.block import csv_header

_LINES: Final = 50
"""The number of lines at the beginning that are examined."""

_QUOTED: Final = 60

_TEXTS: Final = (
    ("ftrace text", re.compile(rb"^\s*.{1,40}-\d+\s.*?\s\d+\.\d+:\s+\w+")),
    ("blkparse text", re.compile(rb"^\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d+\s")),
    ("strace log", re.compile(rb"^(?:\[?(?:pid )?\s*\d+\]?\s+)?(?:\d[\d:.]*\s+)?\w+\(.*\)\s+= ")),
    ("biosnoop list", re.compile(rb"^\s*\d+\.\d+\s+\S+\s+\d+\s+\S+\s+[RWDF]\w*\s")),
)
"""Patterns for lines of each text format. Other text may match them, too."""

_SEPARATORS: Final = (b",", b"\t", b";")
_SEPARATORS_OF_NAMES: Final = (b"|", b" ")
"""Separators that count only if the names of the columns have a meaning."""


def found(head: bytes) -> str:
    """Return a description of a file and advice, as the end of a sentence."""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[: _LINES + 1][:-1] or [head]]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith(b"#")]
    if not lines:
        return "there are only comments and empty lines at its beginning; record it again"
    if any(byte < 9 or 13 < byte < 27 for byte in head):
        return f"it is binary, and starts with {head[:16]!r}"
    matches = {title: sum(map(bool, map(form.match, lines))) for title, form in _TEXTS}
    title = max(matches, key=lambda name: matches[name])
    if matches[title]:
        odd = next((line for line in lines if not dict(_TEXTS)[title].match(line)), lines[0])
        return (
            f"{matches[title]} of its first {len(lines)} lines look like {title}, but none is a known event; "
            f"one of them: {_quoted(odd)}; state the format with --trace-format, or record block events too"
        )
    if _has_decimal_commas(lines):
        return (
            f"its first line has {lines[0].count(b',') + 1} columns and the others have more, as if commas were also "
            "decimal points; save the table again with points, or with another separator (;)"
        )
    for separator in (*_SEPARATORS, *_SEPARATORS_OF_NAMES):
        counts = {line.count(separator) for line in lines}
        if len(counts) == 1 and min(counts) >= 2:
            suggested = csv_header.suggested(lines[0].decode("utf-8", "replace"), separator.decode())
            if suggested is None and separator in _SEPARATORS_OF_NAMES:
                continue
            example = "for example time:s,op,offset:B,size:B"
            if suggested is not None:
                unstated = (
                    f"no name states the unit of {', '.join(suggested[1])}, which is a guess; " if suggested[1] else ""
                )
                example = f"by their names {suggested[0]} ({printable(unstated)}check the units)"
            return (
                f"its {min(counts) + 1} columns match no known table, and the first line is {_quoted(lines[0])}; "
                f"describe the columns with --csv-columns, {example}"
            )
    return f"it is text without events; it starts with {_quoted(lines[0])}"


def _has_decimal_commas(lines: list[bytes]) -> bool:
    """Return whether a table separated by commas has more cells in its rows than it has names of columns."""
    names = lines[0].decode("utf-8", "replace")
    rows = [line.count(b",") for line in lines[1:]]
    return bool(rows) and min(rows) > names.count(",") and csv_header.suggested(names, ",") is not None


def _quoted(line: bytes) -> str:
    text = line.strip().decode("utf-8", "replace")
    return printable(repr(text[:_QUOTED] + "…" if len(text) > _QUOTED else text))
