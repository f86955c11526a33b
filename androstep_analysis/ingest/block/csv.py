"""Read block requests from CSV files, a request per row: traces of public repositories, and any other table.

`Columns` describes the columns of a file. `PRESETS` holds those of public traces. They are recognised by their header
or, if the files have none, by all of their first rows. Other files are read with the columns that the user states, as
in ``androstep ingest --csv-columns time:us,op,dev,offset:B,size:B,response:us FILE``.

The compiled reader of the rows is native/decode/text/csv.c.
"""

from __future__ import annotations

import csv
import functools
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, RWBS, WORDS, Staging, has_flags

_MEANINGS = (
    *("-", "task", "comm", "tid", "pid", "cpu", "dev", "major", "minor", "host", "op", "offset", "size", "time"),
    *("response", "done", "wait"),
)
"""``enum meaning`` of native/decode/text/csv.c."""

_TIMES = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000, "filetime": 10_000_000, "ticks": 10_000_000}
_FILETIME_1970 = 116_444_736_000_000_000
"""1970 in Windows FILETIME: units of 100 ns since 1601 (Microsoft, MS-DTYP 2.3.3)."""

_OPERATIONS = {word: letter for name, letter in WORDS.items() for word in (name, name.title(), name.upper())}
_OPERATIONS |= {"r": "R", "w": "W"}
"""Common words for operations. Words of capital letters that match `RWBS` are rwbs, all others an unknown operation."""

_UNKNOWN_MINOR = (1 << 20) - 1
"""``UNKNOWN_MINOR`` of native/decode/text/csv.c."""

_SEPARATORS = (" ", "\t", ";", "|")
"""Separators besides the comma."""

_SHOWN = "time:us,op,dev,offset:B,size:B,response:us"


@dataclass(frozen=True)
class Columns:
    """The meaning of each column.

    `columns` has one word for each column from the left:

    - ``time:UNIT``: when the request was made. UNIT is s, ms, us, ns, ticks (100 ns) or filetime (100 ns since 1601),
      with or without a fraction. Dates (``2024-01-15 10:30:45.123``) and times of day are read with any unit.
    - ``done:UNIT``: when it completed. It replaces or complements ``time``.
    - ``response:UNIT``: its duration. The request completes at ``time + response``, or began at ``done - response``.
    - ``wait:UNIT``: how long it had waited before ``time``, which then is its issue. Empty or negative durations are
      unknown.
    - ``offset:UNIT``, ``size:UNIT``: its location and length. UNIT is B, sectors (512 B) or a number of bytes.
    - ``op``: read, write, discard (trim, unmap) or flush as a word, or letters as blkparse prints them. ``op:0=R;1=WS``
      defines other words. A word states the flags that its letters state, and none if it has only an operation.
    - ``dev``: ``major:minor``, the kernel's dev_t (``major << 20 | minor``), the number n of a volume, or the name of a
      disk. Volume n, and the n-th name in the file, become device 0:n: no block device of Linux has major number 0.
      ``major`` and ``minor`` in two columns form a device, too.
    - ``host``: a machine with volume numbers of its own. Volumes of the n-th name in the file become n:volume.
    - ``comm``, ``tid``, ``pid``, ``cpu``: the requesting thread. ``task`` is ``COMM-TID``.
    - ``-``: an ignored column. ``...`` as the last word: all further columns are ignored.

    Only ``comm`` or ``task``, and cells in quotation marks, may contain the separator.

    `is_realtime`: times are calendar times. `start` is the action at ``time``, from which the response counts.
    """

    columns: tuple[str, ...]
    separator: str = ","
    is_realtime: bool = False
    start: str = "queue"

    @classmethod
    def parse(cls, words: str) -> Columns:
        """Return the columns that comma-separated words describe.

        A space, tab, semicolon or bar as the first character is the separator of the columns, instead of a comma.

        Raises
        ------
        InputError
            If a word is unknown or a required one is missing.
        """
        separator = words[:1] if words[:1] in _SEPARATORS else ","
        words = words.strip(" \t;|")
        made = cls(tuple(word.strip() for word in words.split(",")), separator)
        made.cells()
        made.operations()
        return made

    def cells(self) -> list[tuple[int, int, int]]:
        """Return for each column its index in `_MEANINGS`, its unit, and the origin of its values."""
        names = [word.partition(":")[0] for word in self.columns]
        missing = [name for name in ("time", "op", "offset", "size") if name not in names]
        if "done" in names and "time" in missing:
            missing.remove("time")
        doubled = {name for name in names if name != "-" and names.count(name) > 1}
        if {"comm", "task"} <= set(names):
            doubled |= {"comm", "task"}  # both are the name of the process
        if missing or doubled:
            twice = f"a column occurs twice ({', '.join(sorted(doubled))})"
            what = f"column {missing[0]} is missing" if missing else twice
            raise InputError(f"CSV columns {','.join(self.columns)!r}: {what}; write for example {_SHOWN}")
        return [self._cell(word) for word in self.columns if word != "..."]

    def operations(self) -> dict[str, str]:
        """Return the rwbs letters for each word of an operation."""
        unit = next(word for word in self.columns if word.partition(":")[0] == "op").partition(":")[2]
        letters = dict(pair.partition("=")[::2] for pair in unit.split(";")) if unit else {}
        if wrong := sorted(word for word in letters if not RWBS.fullmatch(letters[word])):
            raise InputError(
                f"CSV column 'op:{unit}': {wrong[0]!r} has no letters as blkparse prints them (R, W, WS, D, FN); "
                "write for example op:load=R;store=WS"
            )
        return _OPERATIONS | letters

    def _cell(self, word: str) -> tuple[int, int, int]:
        name, _, unit = word.partition(":")
        wrong = InputError(f"CSV column {word!r}: no such unit; write for example {_SHOWN}")
        if name not in _MEANINGS:
            known = ", ".join(sorted(set(_MEANINGS) - {"-"}))
            raise InputError(f"CSV column {word!r}: known are {known}, and - for others; write for example {_SHOWN}")
        number, size, origin = _MEANINGS.index(name), 1, 0
        if name in ("time", "response", "done", "wait"):
            if unit not in _TIMES:
                raise wrong
            size = _TIMES[unit]
            origin = _FILETIME_1970 if name in ("time", "done") and unit == "filetime" else 0
        elif name in ("offset", "size"):
            size = {"B": 1, "sectors": 512}.get(unit) or (int(unit) if re.fullmatch("[1-9][0-9]{0,8}", unit) else 0)
            if not size:
                raise wrong
        elif unit and name != "op":
            raise wrong
        return number, size, origin


@dataclass(frozen=True)
class Preset:
    """Files of one origin: the column names in their header, and a pattern for their rows.

    If the files have no header, the names are in column order.
    """

    origin: str
    names: dict[str, str]
    """The word in `Columns` for each column name in lower case. A column may have several names."""
    row: str | None = None
    separator: str = ","
    is_realtime: bool = False
    start: str = "queue"
    is_0_unknown: bool = False
    """Whether a response time of 0 is unknown. No request takes no time; AndroStep exports unknown times as 0."""
    repeat_ns: int = 0
    """Rows that repeat an earlier one within this time are counted: these files mix two tracepoints of one request."""
    optional: frozenset[str] = frozenset()
    """The words that a header need not have."""
    is_plain: bool = False
    """Whether rows without a header are only numbers and letters, as those of other tables in other units may be."""

    def columns(self, header: str) -> Columns | None:
        """Return the columns of a file with this first line; None if it does not have the names of this preset."""
        separator = next((mark for mark in (",", *_SEPARATORS[1:]) if mark in header), ",")
        names = [_spelled(name) for name in header.split(separator)]
        known = {"": "-"} | {_spelled(name): word for name, word in self.names.items()}
        words = [known.get(name, "?") for name in names]
        named, expected = sorted(word for word in words if word != "-"), {*known.values()} - {"-"}
        if len({*named}) < len(named) or not expected - self.optional <= {*named} <= expected:
            return None
        return Columns(tuple(words), separator, self.is_realtime, self.start)


@functools.lru_cache(maxsize=1024)
def _spelled(name: str) -> str:
    """Return a column name without case, spaces, underscores and quotation marks."""
    return re.sub(r'[\s_"]', "", name.lower())


_IO_TRACER = {
    **{"pid": "pid", "command": "comm", "sector": "offset:sectors"},
    **{"operation": "op:secure_erase=DE;none=N", "size": "size:B", "latency_ms": "response:ms", "tid": "tid"},
    **{"...": "...", "device": "dev", "dev": "dev"},
    **dict.fromkeys(("flags", "ppid", "cpu_id", "nr_sectors", "queue_latency_ms", "queue_time_ms"), "-"),
    **dict.fromkeys(("command_flags", "cmd_flags", "operation_code", "op_code", "request_id"), "-"),
}
_IO_TRACER_OPTIONAL = frozenset({"pid", "tid", "comm", "dev", "response:ms", "..."})
_DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"

PRESETS = (
    Preset(
        "Pixel 6a phones (MobileBlockIOTraces, SYSTOR 2024)",
        {"proces": "task", "process": "task", "device": "dev", "dev": "dev", "rw_flag": "op", "rw": "op"}
        | {"sector": "offset:sectors", "size": "size:sectors", "timestamp": "time:s", "time": "time:s"},
        repeat_ns=50_000_000,
    ),
    # SNIA IOTTA 388, README.txt. Timestamp: when the I/O was issued; ResponseTime: until it completed.
    Preset(
        "MSR Cambridge (FAST 2008)",
        {"timestamp": "time:filetime", "hostname": "host", "disknumber": "dev", "type": "op", "offset": "offset:B"}
        | {"size": "size:B", "responsetime": "response:filetime"},
        r"\d{1,18},[^,]+,\d+,(?i:read|write),\d+,\d+,-?\d+",
        is_realtime=True,
        is_0_unknown=True,
    ),
    # SNIA IOTTA 4928, README.txt. A blank IOType: no response was captured, and the operation is unknown.
    Preset(
        "virtual desktops (SYSTOR 2017)",
        {"timestamp": "time:s", "response": "response:s", "iotype": "op:R=R;W=W;=N", "lun": "dev"}
        | {"offset": "offset:B", "size": "size:B"},
        r"\d{9,10}\.\d{6,9},\d*\.?\d*,[RW]?,\d+,\d+,\d+",
        is_realtime=True,
    ),
    # github.com/alibaba/block-traces, README.
    Preset(
        "Alibaba Cloud (IISWC 2020)",
        {"device_id": "dev", "opcode": "op", "offset": "offset:B", "length": "size:B", "timestamp": "time:us"},
        r"\d+,[RW],\d+,\d+,\d{16}",
        is_realtime=True,
        is_plain=True,
    ),
    # SNIA IOTTA 27917, README.txt: offset and size in sectors of 512 B, Read(0), Write(1).
    Preset(
        "Tencent CBS (ATC 2020)",
        {"timestamp": "time:s", "offset": "offset:sectors", "size": "size:sectors", "iotype": "op:0=R;1=W"}
        | {"volumeid": "dev"},
        r"\d{10},\d+,\d+,[01],\d+",
        is_realtime=True,
        is_plain=True,
    ),
    # SNIA IOTTA 390 and 391, README: ts in ns, pid, process, lba and size in 512 B, kind, major, minor, MD5.
    Preset(
        "FIU (FAST 2010)",
        {"ts": "time:ns", "pid": "pid", "process": "comm", "lba": "offset:sectors", "size": "size:sectors", "rw": "op"}
        | {"major": "major", "minor": "minor", "md5": "-"},
        r"\d+ \d+ [^\n]* \d+ \d+ [RW] \d+ \d+ [0-9a-fA-F]{32}",
        separator=" ",
    ),
    # github.com/cacheMon/io-tracer, docs/TRACE_FORMAT.md: a row is written when the request completes, at timestamp
    # (local time) and mono_ns (CLOCK_MONOTONIC); latency_ms is from issue to completion.
    Preset(
        "io-tracer (cacheMon)",
        {"mono_ns": "done:ns", "timestamp": "-"} | _IO_TRACER,
        start="issue",
        optional=_IO_TRACER_OPTIONAL,
    ),
    Preset(
        "io-tracer (cacheMon), before the column mono_ns",
        {"timestamp": "done:s"} | _IO_TRACER,
        rf"{_DATE},\d*,[^,\n]*,\d+,[a-z_]+,\d+,\d+\.?\d*,\d*(?:,[^\n]*)?",
        start="issue",
        optional=_IO_TRACER_OPTIONAL,
    ),
    # SPC Trace File Format Specification 1.0.1: application unit, LBA in blocks of 512 B, size in B, kind, seconds.
    Preset(
        "SPC (UMass)",
        {"asu": "dev", "lba": "offset:sectors", "size": "size:B", "opcode": "op", "timestamp": "time:s", "...": "..."},
        r"\d+,\d+,\d+,[rRwW],\d+\.\d{1,8}(?:,[^\n]*)?",  # nine digits: blkparse -f may have printed them
        is_plain=True,
    ),
)
"""Known traces, with the source of the definition of their columns."""

_ROWS = 16
"""The number of rows at the start that must all match the pattern of a file without a header."""


def sniff(head: bytes) -> bool:
    """Return whether the first line has known column names, or the first rows all match a known pattern."""
    return _recognised(head) is not None


def read(source: Source, spool: Spool, columns: Columns | None = None) -> Staging:
    """Read the requests. `columns` is needed for files that match no preset; such files may have a header.

    The time of a row is the time of queueing. A row with a response time yields a completion, too. In a table with
    response times, a row without one is issued at its time, so that it counts like the others (`measures.counted`).
    Times are rounded to the nearest ns, since decimals of binary fractions are inexact (159273.83748699998). A request
    that is not aligned to sectors counts as all sectors that it touches. `events` counts by operation, including
    completions.

    A last row without a newline counts if it cannot have been cut off. The file records flags if at least one row has
    more letters than its operation, by itself or by `Columns`.
    """
    preset, header = None, _MAYBE
    if columns is None:
        recognised = _recognised(source.head)
        if recognised is None:
            raise InputError(f"{source.name}: unknown columns; describe them, for example {_SHOWN}")
        columns, preset, header = recognised
    staging = parse(_with_last_newline(source.pieces(), columns), spool, columns, preset, header)
    return replace(staging, issue_error_ns=_issue_error_ns(source.head, columns))


def _issue_error_ns(head: bytes, columns: Columns) -> int:
    """Return how far the time between two issues may be off, if each is a completion minus a duration.

    The last digits of both add up. Trailing zeros may be left out, so that the longest fraction shows the resolution.
    """
    units = [word.partition(":")[::2] for word in columns.columns]
    places = [(at, unit) for at, (name, unit) in enumerate(units) if name in ("done", "response")]
    if len(places) < 2 or "time" in dict(units):
        return 0
    rows = [_cells(row, columns.separator) for row in head.decode(errors="replace").split("\n")[:-1]]
    error = 0.0
    for at, unit in places:
        fractions = (row[at].partition(".")[2] for row in rows if len(row) > at and row[at][:1].isdigit())
        error += 10**9 / _TIMES[unit] / 10 ** max(map(len, fractions), default=0)
    return int(error) if error > 2 else 0


_END_BYTES = 1 << 13
"""The end of a file, whose rows show how its last column is written."""


def _with_last_newline(pieces: Iterable[bytes], columns: Columns) -> Iterator[bytes]:
    """Yield the pieces, and a newline if that is all that the last row lacks."""
    end = b""
    for piece in pieces:
        end = (end + piece)[-_END_BYTES:]
        yield piece
    *before, last = end.decode(errors="replace").split("\n")
    if last.strip() and _is_whole(last, before[1:], columns):
        yield b"\n"


def _is_whole(last: str, before: Sequence[str], columns: Columns) -> bool:
    """Return whether the last row of a file has all its columns, and its last cell was not cut off.

    A cell was not cut off if it is in quotation marks, is the word for an operation, or is a number with the same
    decimals as in all rows before (of which the first one may be the header). If it is not used, it does not matter.
    """
    cells = [_cells(row, columns.separator) for row in (last, *(row for row in before if row.strip()))]
    words = columns.columns
    if len(cells[0]) < len(words) or (len(cells[0]) > len(words) and words[-1] != "..."):
        return False
    cell = cells[0][-1]
    word = words[-1] if len(cells[0]) == len(words) else "..."
    if word in ("-", "...") or (len(cell) > 1 and last.rstrip()[-1] == '"'):
        return True
    if word.partition(":")[0] == "op":
        return any(cell == one for one in columns.operations() if len(one) > 1)
    decimals = {len(row[-1].partition(".")[2]) if row and row[-1][:1].isdigit() else 0 for row in cells}
    return len(cells) > 2 and len(decimals) == 1 and decimals != {0}


def _cells(row: str, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([row.strip()], delimiter=separator), [])]
    except csv.Error:
        return []


def parse(
    pieces: Iterable[bytes],
    spool: Spool,
    columns: Columns,
    preset: Preset | None,
    header: int,
    format_name: str = "block_csv",
) -> Staging:
    """Read the requests in the rows of `pieces`, which may end anywhere; see `read`."""
    hosts = native.Strings()
    repeat_ns = preset.repeat_ns if preset else 0
    reader, handle = _reader(spool, columns, header, repeat_ns, hosts, preset is not None and preset.is_0_unknown)
    truncated = reader.read(iter(pieces))
    totals = reader.totals
    first_ns, last_ns = totals.span
    operations = columns.operations()
    letters = {name: operations.get(name, name) for name in reader.events}
    return Staging(
        format=format_name,
        events=reader.events,
        first_ns=first_ns,
        last_ns=last_ns,
        clock="realtime" if columns.is_realtime else "unknown",
        realtime_offset_ns=0 if columns.is_realtime else None,
        losses=(
            *truncated,
            *clock.set_back(totals, is_moved=False),
            *totals.refused[lines.LINES].losses("rows of the table"),
            *_repeated(_library().block_csv_repeats(handle), totals.events, repeat_ns),
            *_rounded(totals.rounded),
            *_negative(_library().block_csv_negative(handle)),
            *_deviceless(_library().block_csv_deviceless(handle)),
            *_numbered(columns, hosts),
            *(_assumed(columns, preset) if preset and preset.is_plain and header == NO_HEADER else ()),
        ),
        flags=FLAGS if any(map(has_flags, letters.values())) else frozenset(),
        words=frozenset(name for name in letters if name in operations and not has_flags(letters[name])),
        names_submitters=columns.start == "queue",
    )


def _reader(
    spool: Spool, columns: Columns, header: int, repeat_ns: int, hosts: native.Strings, is_0_unknown: bool
) -> tuple[lines.Reader, int]:
    """Return a reader of these columns, and its C structure. Names of machines and disks are added to `hosts`."""
    names = native.Strings()
    has_more = columns.columns[-1] == "..."
    actions = schema.table("block_events").column("action").values
    start = "issue" if any(word.startswith("wait:") for word in columns.columns) else columns.start
    handle: int = _library().block_csv_new(
        names.handle,
        hosts.handle,
        ord(columns.separator),
        header,
        has_more,
        is_0_unknown,
        repeat_ns,
        actions.index(start),
    )
    reader = lines.Reader(handle, spool, ("block_events",), names)
    weakref.finalize(reader, _library().block_csv_free, handle)
    for cell in columns.cells():
        _library().block_csv_cell(handle, *cell)
    for word, letters in columns.operations().items():
        _library().block_csv_operation(handle, word.encode(), len(word.encode()), letters.encode(), len(letters))
    return reader, handle


NO_HEADER, _ONE, _MAYBE = range(3)
"""``enum header`` of native/decode/text/csv.c: whether the first line contains the column names."""


def _recognised(head: bytes) -> tuple[Columns, Preset, int] | None:
    """Return the columns of a file with this head, its preset, and whether it has a header."""
    first = head.partition(b"\n")[0].decode(errors="replace").rstrip(" \r")
    for preset in PRESETS:
        if preset.separator == "," and (columns := preset.columns(first)) is not None:
            return columns, preset, _ONE
    *whole, last = head.decode(errors="replace").split("\n")
    rows = [row for row in whole if row.strip()][:_ROWS] or [last]
    for preset in PRESETS:
        if preset.row and rows and all(re.fullmatch(preset.row, row.rstrip(" \r")) for row in rows):
            return _of_rows(preset, rows[0]), preset, NO_HEADER
    return None


def _of_rows(preset: Preset, row: str) -> Columns:
    """Return the columns of a file of `preset` without a header. `row` is its first row."""
    words = tuple(preset.names.values())
    if "..." in words:
        words = words[: words.index("...") + 1]
    is_realtime = preset.is_realtime
    if words[0] == "time:filetime" and int(row.partition(",")[0]) < _FILETIME_1970:
        # `androstep export --to msr` writes such times for a capture without the time of day.
        words, is_realtime = ("time:ticks", *words[1:]), False
    return Columns(words, preset.separator, is_realtime, preset.start)


def _repeated(count: int, rows: int, repeat_ns: int) -> tuple[Loss, ...]:
    """Return the `Loss` for rows that soon repeat device, direction, sector and size of an earlier row.

    No row is dropped, because it is unknown which of the two is the request.
    """
    if not count:
        return ()
    message = (
        f"{count} of {rows} rows ({count / rows:.1%}) repeat an earlier one within"
        f" {repeat_ns // 1_000_000} ms, as if two tracepoints were mixed; all count: to avoid"
        " that, ingest the rows of one tracepoint only"
    )
    return (Loss("repeated", count, message, ()),)


def _numbered(columns: Columns, names: native.Strings) -> tuple[Loss, ...]:
    """Return the `Loss` that lists the device numbers assigned to names of disks. No row is lost."""
    disks = [] if "host" in columns.columns else [printable(str(name)) for name in names.array().to_pylist()]
    if not disks:
        return ()
    listed = ", ".join(f"0:{number} for {name}" for number, name in enumerate(disks))
    return (Loss("numbered", len(disks), f"the file has names of disks; they became device numbers {listed}", ()),)


def _assumed(columns: Columns, preset: Preset) -> tuple[Loss, ...]:
    """Return the `Loss` that states which columns and units a file without names of columns is taken to have."""
    message = (
        f"no names of columns: the rows look like those of {preset.origin}, {','.join(columns.columns)}; if they are "
        "others, state the columns with --csv-columns"
    )
    return (Loss("assumed", 1, message, ()),)


def _rounded(count: int) -> tuple[Loss, ...]:
    if not count:
        return ()
    message = f"{count} requests are not aligned to sectors of 512 B; they count as all sectors that they touch"
    return (Loss("rounded", count, message, ()),)


def _negative(count: int) -> tuple[Loss, ...]:
    message = f"{count} durations are negative and count as unknown"
    return (Loss("negative", count, message, ()),) if count else ()


def _deviceless(count: int) -> tuple[Loss, ...]:
    message = f"{count} rows do not state their device; it is 0:{_UNKNOWN_MINOR} here"
    return (Loss("deviceless", count, message, ()),) if count else ()


_library = native.library
