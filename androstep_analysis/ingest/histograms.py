"""Describe histograms that biolatency, ext4dist and other tools of bcc and libbpf-tools print.

Such files count values in intervals and hold no requests, so no table can be made of them. A histogram is a line with
its unit (``usecs : count distribution``) and a line for each interval (``4 -> 7 : 3 |***|``). Lines above it name the
disk, the flags or the operation. With ``-j`` it is a Python dictionary (bcc: src/python/bcc/table.py,
``print_log2_hist``).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from androstep_analysis.common.errors import printable
from androstep_analysis.ingest.source import Source

_MOST_BYTES: Final = 4 << 20
_MOST_NAMES: Final = 3

_UNIT: Final = re.compile(r"^\s*(\w+)\s+: count\s+distribution\s*$")
_ROW: Final = re.compile(r"^\s*(\d{1,20}) -> (\d{1,20})\s*: (\d{1,20})\s*\|[* +]*\|?\s*$")
_SUBJECT: Final = re.compile(r"^\s*((?:disk|flags|operation|device) = .*?)\s*$")
_JSON: Final = re.compile(r"^\{'ts': .*'val_type': '.*'data': \[\{'interval-start': ")
_SUBJECT_KEYS: Final = ("Bucket ptr", "flags")

_ADVICE: Final = (
    "they contain no requests, so that no table can be made; record each request with biosnoop, "
    "or with androstep record"
)


def described(source: Source) -> str | None:
    """Return the contents of a file of histograms in a sentence with advice; None if it holds none."""
    head = source.head.decode("utf-8", "replace").splitlines()
    if not any(_UNIT.match(line) or _JSON.match(line) for line in head):
        return None
    counts: dict[tuple[str, str], Counter[int]] = {}
    text = source.read(0, _MOST_BYTES).decode("utf-8", "replace")
    for subject, unit, most, count in _intervals(text.splitlines()):
        counts.setdefault((subject, unit), Counter())[most] += count
    sentences = [
        f"{subject}{_sentence(unit, intervals)}"
        for (subject, unit), intervals in list(counts.items())[:_MOST_NAMES]
        if intervals.total()
    ]
    more = f"; and {len(counts) - _MOST_NAMES} more" if len(counts) > _MOST_NAMES else ""
    found = f": {'; '.join(sentences)}{more}" if sentences else ""
    extent = "" if source.size <= _MOST_BYTES else f" (of the first {_MOST_BYTES >> 20} MiB)"
    return f"histograms, as biolatency prints them{extent}{found}; {_ADVICE}"


def _intervals(lines: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the subject, the unit, the greatest value and the count of each interval."""
    subject, unit = "", None
    for line in lines:
        if _JSON.match(line):
            yield from _intervals_of_dictionary(line)
        elif found := _SUBJECT.match(line):
            subject, unit = f"{printable(' '.join(found[1].split())[:60])}: ", None
        elif found := _UNIT.match(line):
            unit = found[1]
        elif unit is not None and (found := _ROW.match(line)):
            yield subject, unit, int(found[2]), int(found[3])
        elif not line.strip():
            subject, unit = ("", None) if unit is not None else (subject, None)


def _intervals_of_dictionary(line: str) -> Iterator[tuple[str, str, int, int]]:
    try:
        histogram = ast.literal_eval(line)
        names = [histogram[name] for name in _SUBJECT_KEYS if name in histogram]
        texts = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]
        subject = "".join(f"{printable(text[:60])}: " for text in texts)
        for interval in histogram["data"]:
            yield subject, str(histogram["val_type"])[:20], int(interval["interval-end"]), int(interval["count"])
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError):
        return


def _sentence(unit: str, intervals: Counter[int]) -> str:
    """Return the number of values, and the limits of half of them, of 99 %, and of all."""
    total, seen = intervals.total(), 0
    limits: dict[int, int] = {}
    for most, count in sorted(intervals.items()):
        seen += count
        for percent in (50, 99, 100):
            if percent not in limits and seen * 100 >= total * percent:
                limits[percent] = most
    unit = printable(unit)
    return (
        f"{total:,} values, half of them at most {limits[50]:,} {unit}, 99 % at most {limits[99]:,}, "
        f"all at most {limits[100]:,}"
    )
