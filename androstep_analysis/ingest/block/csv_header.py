"""Suggest the meaning of the columns of a CSV file by their names."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = {
    "time": "time|timestamp|ts|start|started|starttime|arrival|arrivaltime|issue|issued|submit|submitted|queued"
    "|zeit|zeitstempel|zeitpunkt|beginn",
    "done": "end|ended|endtime|done|complete|completed|completion|completiontime|finish|finished|finishtime",
    "response": "latency|lat|response|responsetime|duration|elapsed|latenz|dauer|antwortzeit",
    "op": "op|t|operation|opcode|type|iotype|rw|rwbs|readwrite|action|art|typ",
    "dev": "dev|device|disk|diskname|volume|gerät|geraet|laufwerk",
    "offset": "offset|sector|startsector|lba|lbn|address|addr|position|sektor|startsektor|adresse",
    "size": "size|iosize|length|len|bytes|nrbytes|sectors|nrsectors|numsectors|sectorcount"
    "|größe|groesse|länge|laenge|sektoren",
    "pid": "pid|processid|prozessid",
    "tid": "tid|threadid",
    "comm": "comm|process|processname|app|prozess",
}
"""For each meaning (`csv.Columns`) the words of columns, without spaces and underscores, in English and German."""

_UNITS: Final = {
    **{"s": "s|sec|secs|second|seconds|sekunden", "ms": "ms|msec|msecs|milliseconds"},
    **{"us": "us|usec|usecs|µs|microseconds", "ns": "ns|nsec|nsecs|nanoseconds"},
    **{"B": "b|byte|bytes", "1024": "kb|kib", "sectors": "sector|sectors|lba|lbn|sektor|sektoren|startsektor"},
}
_OF_TIME: Final = ("s", "ms", "us", "ns")
_MOST_COLUMNS: Final = 50
"""A suggestion for more columns would be no sentence."""

_DEFAULTS: Final = {"time": "s", "done": "s", "response": "s", "offset": "B", "size": "B"}
"""The unit that is suggested if the name states none."""


def suggested(header: str, separator: str) -> tuple[str, list[str]] | None:
    """Return the columns that the names suggest, as a shell takes them after ``--csv-columns``.

    Also return the names that state no unit.

    None if operation, location, size or time have no column, or two.
    """
    names = header.split(separator)
    if len(names) > _MOST_COLUMNS:
        return None
    words = [_word(name) for name in names]
    meanings = [word.partition(":")[0] for word in words if word != "-"]
    is_complete = {"op", "offset", "size"} <= {*meanings} and not {"time", "done"}.isdisjoint(meanings)
    if not is_complete or len({*meanings}) < len(meanings):
        return None
    columns = ",".join(words)
    guessed = [
        name.strip() for name, word in zip(names, words, strict=True) if ":" in word and _unit(name, word) is None
    ]
    return {",": columns, "\t": rf"$'\t{columns}'"}.get(separator, f"'{separator}{columns}'"), guessed


def _word(name: str) -> str:
    """Return the meaning of a column with its unit; ``-`` if the name says nothing."""
    parts = _parts(name)
    for last in (len(parts), len(parts) - 1):
        of = next((of for of, names in _NAMES.items() if "".join(parts[:last]) in names.split("|")), None)
        if of is None:
            continue
        if of not in _DEFAULTS:
            return of
        return f"{of}:{_unit(name, of) or _DEFAULTS[of]}"
    return "-"


def _unit(name: str, word: str) -> str | None:
    """Return the unit that the name of a column states: a word, or a number of bytes (``lba(512)``)."""
    last, is_of_time = _parts(name)[-1], _DEFAULTS[word.partition(":")[0]] == "s"
    if last.isdecimal() and not is_of_time and int(last):
        return last
    unit = next((unit for unit, names in _UNITS.items() if last in names.split("|")), None)
    return unit if unit is not None and (unit in _OF_TIME) == is_of_time else None


def _parts(name: str) -> list[str]:
    return [part for part in re.findall(r"[^\W_]+", name.lower()) if part != "in"]
