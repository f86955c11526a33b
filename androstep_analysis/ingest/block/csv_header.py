"""Suggest the meaning of the columns of a CSV file by their names."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = {
    "time": "time|timestamp|ts|start|started|starttime|arrival|arrivaltime|issue|issued|submit|submitted|queued",
    "done": "end|ended|endtime|done|complete|completed|completion|completiontime|finish|finished|finishtime",
    "response": "latency|lat|response|responsetime|duration|elapsed",
    "op": "op|t|operation|opcode|type|iotype|rw|rwbs|readwrite|action",
    "dev": "dev|device|disk|diskname|volume",
    "offset": "offset|sector|startsector|lba|lbn|address|addr|position",
    "size": "size|iosize|length|len|bytes|nrbytes|sectors|nrsectors|numsectors|sectorcount",
    "pid": "pid|processid",
    "tid": "tid|threadid",
    "comm": "comm|process|processname|app",
}
"""For each meaning (`csv.Columns`) the words of columns, without spaces and underscores."""

_UNITS: Final = {
    **{"s": "s|sec|secs|second|seconds", "ms": "ms|msec|msecs|milliseconds"},
    **{"us": "us|usec|usecs|µs|microseconds", "ns": "ns|nsec|nsecs|nanoseconds"},
    **{"B": "b|byte|bytes", "1024": "kb|kib", "sectors": "sector|sectors|lba|lbn"},
}
_OF_TIME: Final = ("s", "ms", "us", "ns")
_MOST_COLUMNS: Final = 50
"""A suggestion for more columns would be no sentence."""

_DEFAULTS: Final = {"time": "s", "done": "s", "response": "s", "offset": "B", "size": "B"}
"""The unit that is suggested if the name states none."""


def suggested(header: str, separator: str) -> str | None:
    """Return the columns that the names suggest, as a shell takes them after ``--csv-columns``.

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
    return {",": columns, "\t": rf"$'\t{columns}'"}.get(separator, f"'{separator}{columns}'")


def _word(name: str) -> str:
    """Return the meaning of a column with its unit; ``-`` if the name says nothing."""
    parts = [part for part in re.findall(r"[^\W_]+", name.lower()) if part != "in"]
    units = [next((unit for unit, names in _UNITS.items() if part in names.split("|")), None) for part in parts]
    for last in (len(parts), len(parts) - 1):
        of = next((of for of, names in _NAMES.items() if "".join(parts[:last]) in names.split("|")), None)
        if of is None:
            continue
        if of not in _DEFAULTS:
            return of
        unit = units[-1] if units[-1] is not None and (units[-1] in _OF_TIME) == (_DEFAULTS[of] == "s") else None
        return f"{of}:{unit or _DEFAULTS[of]}"
    return "-"
