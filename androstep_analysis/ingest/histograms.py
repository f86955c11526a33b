"""Describe histograms and lists of latencies, of which no table can be made.

biolatency, ext4dist and other tools of bcc and libbpf-tools count values in intervals. A histogram is a line with its
unit (``usecs : count distribution``) and a line for each interval (``4 -> 7 : 3 |***|``). Lines above it name the disk,
the flags or the operation. With ``-j`` it is a Python dictionary (bcc: src/python/bcc/table.py, ``print_log2_hist``).
bpftrace prints the name of a map (``@usecs[259, 0]:``) and intervals (``[1K, 2K) 3 |@@@|``, K is 1024; bpftrace:
src/output.cpp, ``hist_to_str``).

biosnoop.bt of bpftrace and disksnoop of bcc print a line for each request, but not its location.
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
_MAP: Final = re.compile(r"^(?:@(\w*)(\[.*\])?|(\s*\])):\s*$")
_LIMIT: Final = r"(\.\.\.|-?\d{1,19}[KMGTPE]?)"
_OF_MAP: Final = re.compile(rf"^[\[(]{_LIMIT}(?:, {_LIMIT}[])]|\])\s+(\d{{1,19}}) \|@* *\|\s*$")
_NO_LIMIT: Final = 1 << 127
_LETTERS: Final = "KMGTPE"
_UNITS: Final = {"nsecs", "usecs", "msecs", "secs", "ns", "us", "ms", "bytes", "kb"}
_LATENCIES: Final = re.compile(r"^\s*TIME\(m?s\)\s(?!.*SECTOR).*\bLAT\(ms\)\s*$")
_LATENCY: Final = re.compile(r"^\s*\d+(?:\.\d+)?\s.*\s(\d{1,12})(?:\.(\d\d))?\s*$")
_JSON: Final = re.compile(r"^\{'ts': .*'val_type': '.*'data': \[\{'interval-start': ")
_SUBJECT_KEYS: Final = ("Bucket ptr", "flags")

_ADVICE: Final = (
    "so that no table can be made; record each request with biosnoop of bcc or libbpf-tools, or with androstep record"
)
_HISTOGRAMS: Final = "histograms, as biolatency prints them"
_LIST: Final = "a list of latencies, as biosnoop.bt prints it"


def described(source: Source) -> str | None:
    """Return the contents of a file of histograms or latencies in a sentence with advice; None for any other file."""
    head = source.head.decode("utf-8", "replace").splitlines()
    is_list = any(map(_LATENCIES.match, head))
    if not is_list and not any(_UNIT.match(line) or _JSON.match(line) or _OF_MAP.match(line) for line in head):
        return None
    counts: dict[tuple[str, str], Counter[int]] = {}
    lines = source.read(0, _MOST_BYTES).decode("utf-8", "replace").splitlines()
    for subject, unit, most, count in _latencies(lines) if is_list else _intervals(lines):
        counts.setdefault((subject, unit), Counter())[most] += count
    sentences = [
        f"{subject}{_sentence(unit, intervals)}"
        for (subject, unit), intervals in list(counts.items())[:_MOST_NAMES]
        if intervals.total()
    ]
    more = f"; and {len(counts) - _MOST_NAMES} more" if len(counts) > _MOST_NAMES else ""
    found = f": {'; '.join(sentences)}{more}" if sentences else ""
    extent = "" if source.size <= _MOST_BYTES else f" (of the first {_MOST_BYTES >> 20} MiB)"
    what, missing = (_LIST, "they have no locations") if is_list else (_HISTOGRAMS, "they contain no requests")
    return f"{what}{extent}{found}; {missing}, {_ADVICE}"


def _latencies(lines: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the greatest possible latency of each line. biosnoop.bt prints whole ms, rounded down."""
    for line in lines:
        if found := _LATENCY.match(line):
            yield "", "us", int(found[1]) * 1000 + (int(found[2]) * 10 + 9 if found[2] else 999), 1


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
        elif found := _MAP.match(line):
            name, key = found[1] or "", printable((found[2] or "")[:60])
            unit = name if name in _UNITS else ""
            subject = f"{'' if unit else name}{key}: " if key or (name and not unit) else ""
        elif unit is not None and (found := _OF_MAP.match(line)):
            yield subject, unit, _scaled(found[1]) if found[2] is None else _scaled(found[2]) - 1, int(found[3])
        elif not line.strip():
            subject, unit = ("", None) if unit is not None else (subject, None)


def _scaled(limit: str) -> int:
    """Return a limit of an interval of bpftrace. Three dots are a missing limit."""
    if limit == "...":
        return _NO_LIMIT
    return int(limit.rstrip(_LETTERS)) << 10 * (_LETTERS.find(limit[-1]) + 1)


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
    half, nearly_all, all_values = (
        f"{limits[percent]:,}" if limits[percent] < _NO_LIMIT - 1 else "unlimited" for percent in (50, 99, 100)
    )
    limit = f"{half} {printable(unit)}".rstrip()
    return f"{total:,} values, half of them at most {limit}, 99 % at most {nearly_all}, all at most {all_values}"
