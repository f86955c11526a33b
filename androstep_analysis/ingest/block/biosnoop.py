"""Read the lists that biosnoop (bcc, libbpf-tools) and iosnoop (perf-tools) print, a request per line.

The header line names the columns, which are padded with spaces. A list without it, as of ``biosnoop | grep sda``, is
recognised if most of its first lines have one of the `_ORDERS` of columns. The name of a process may contain spaces. An
unknown disk or process leaves its column empty; an unknown process may also be called ``?`` (PID 0), an unknown disk
``Unknown`` or ``<unknown>``. Between BYTES and a duration there is no space if both are long: bcc prints them with
``%-7s%7.2f``. The times are (bcc: tools/biosnoop_example.txt; perf-tools: man/man8/iosnoop.8; libbpf-tools/biosnoop.c):

=====================  ===============================================================
``TIME(s)``, ``ENDs``  the completion
``TIMESTAMP``          the completion, as a time of day
``STARTs``             the issue
``LAT(ms)``            from issue to completion
``QUE(ms)``            from insertion to issue; -1 if the request was not inserted
=====================  ===============================================================

Lines are converted to CSV rows, which native/decode/text/csv.c reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.block import csv
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_NUMBER = rb"(\d+\.\d+)"
"""All of these tools print decimals. A number without them is that of a line, or one that was cut off."""

_COLUMNS: dict[str, tuple[str, bytes]] = {
    "TIME(s)": ("done:s", _NUMBER),
    "TIMESTAMP": ("done:s", rb"(\d\d:\d\d:\d\d\.\d+)"),
    "ENDs": ("done:s", _NUMBER),
    "STARTs": ("time:s", _NUMBER),
    "COMM": ("comm", rb"(\S(?:[^\t\n]{0,62}?\S)?|)"),
    "PID": ("pid", rb"(\d+)"),
    "DISK": ("dev", rb"(?:Unknown(?= )|<unknown>(?= ))?([A-Za-z]\S*|\d+,\d+|)"),
    "DEV": ("dev", rb"(\d+,\d+)"),
    "T": ("op", rb"([A-Z]+)"),
    "TYPE": ("op", rb"([A-Z]+)"),
    "SECTOR": ("offset:sectors", rb"(?:-1(?= ))?(\d*)"),
    "BLOCK": ("offset:sectors", rb"(\d+)"),
    "BYTES": ("size:B", rb"(\d+)"),
    "P": ("-", rb"([A-Z]?)"),
    "PATTERN": ("-", rb"([A-Z]*)"),
    "QUE(ms)": ("wait:ms", rb"(?:-1\.0+)?((?:\d+\.\d+)?)"),
    "LAT(ms)": ("response:ms", _NUMBER),
    "LATms": ("response:ms", _NUMBER),
}
"""For each name the word in `csv.Columns`, and a pattern for its values with one group.

The sector of a flush is -1.
"""

_TIMES = ("TIME(s)", "TIMESTAMP", "STARTs", "ENDs")

_ORDERS = tuple(
    line.split()
    for line in (
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)",
        "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)",
        "TIMESTAMP COMM PID DISK T SECTOR BYTES LAT(ms)",
        "TIMESTAMP COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)",
        "STARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms",
    )
)
"""The columns of lists without a header that are recognised."""

_HEAD_LINES = 50


def sniff(head: bytes) -> bool:
    """Return whether one of the first lines is the header of such a list, or all of them are its rows."""
    return _header(head) is not None


def _header(head: bytes) -> list[str] | None:
    """Return the column names of a list. Tools may print sentences above the header."""
    first = head.decode(errors="replace").splitlines()[:_HEAD_LINES]
    for names in map(str.split, first):
        known = [name for name in names if name in _COLUMNS]
        words = {_COLUMNS[name][0] for name in known}
        if names and known == names and names[0] in (*_TIMES, "COMM") and {"op", "offset:sectors", "size:B"} <= words:
            return names
    rows = [row for line in head.split(b"\n")[:-1][:_HEAD_LINES] if (row := line.rstrip())]
    return next((names for names in _ORDERS if 2 * sum(map(bool, map(_line(names).fullmatch, rows))) > len(rows)), None)


def _line(names: list[str]) -> re.Pattern[bytes]:
    """Return the pattern of a row with these columns. Its parts are bounded, so that a long line costs no time."""
    first, *others = (_COLUMNS[name][1] for name in names)
    spaces = (rb" {0,64}?" if name in ("P", "PATTERN") else rb" {1,64}" for name in names[1:])
    return re.compile(
        rb"(?m)^ {0,64}" + first + b"".join(map(b"".join, zip(spaces, others, strict=True))) + rb" {0,64}\r?$"
    )


def read(source: Source, spool: Spool) -> Staging:
    """Read the requests. The PID is that of the process; thread ids are not in these lists.

    biosnoop records name and PID when a request is created (blk_account_io_start), so that they belong to the
    submitter. iosnoop records those of the thread that was running when the request was issued.

    Lines without disk are flushes or commands of a driver whose sector and bytes the tool could not identify (bcc
    before 0.26). They are counted and left out. Flags are unknown if the operation has only one letter.
    """
    names = _header(source.head)
    if names is None or not {*_TIMES} & set(names):
        raise InputError(f"{source.name}: the list has no times; record it again with times (iosnoop -ts)")
    columns = csv.Columns(tuple(_COLUMNS[name][0] for name in names), "\t", start="issue")
    rows = _Rows(names)
    staging = csv.parse(rows.of(source.pieces()), spool, columns, None, csv.NO_HEADER, "biosnoop")
    losses = (*staging.losses, *lines.dropped(rows.nr_lost), *clock.mixed(rows.nr_restarts))
    if rows.nr_diskless:
        message = (
            f"{rows.nr_diskless} lines without disk and bytes (flushes that the tool cannot identify) are left out"
        )
        losses += (Loss("diskless", rows.nr_diskless, message),)
    by_submitter = {"TIME(s)", "TIMESTAMP"} & set(names) != set()
    return replace(
        staging,
        losses=losses,
        lost_events=rows.nr_lost,
        names_submitters=by_submitter,
        issue_error_ns=_issue_error_ns(names, source.head),
    )


def _issue_error_ns(names: list[str], head: bytes) -> int:
    """Return how far the time between two issues may be off: by the last digits of its columns.

    An issue is stated, so that rounding keeps the order of all but equal times, or is a completion minus a latency.
    """
    is_stated = "STARTs" in names
    columns = [("STARTs", 9)] if is_stated else [(names[0], 9), (names[-1], 6)]
    rows = _line(names).finditer(head.replace(b"\t", b" "))
    errors = (
        sum(10 ** max(0, digits - len(row[names.index(name) + 1].partition(b".")[2])) for name, digits in columns)
        for row in rows
    )
    return max(errors, default=is_stated) - is_stated


_JOINED = re.compile(rb"(?m)(?<= )(\d{11,20})(\.\d\d)(?= |\r?$)")
"""BYTES of at least 7 digits, and a duration of at least 7 characters."""


def _separated(joined: re.Match[bytes]) -> bytes:
    """Return BYTES and the duration with a space between them, if there is only one way: BYTES are whole sectors."""
    digits = joined[1]
    cuts = [
        cut
        for cut in range(7, len(digits) - 3)
        if not digits.startswith(b"0", cut) and int(digits[:cut]) % SECTOR_BYTES == 0 and int(digits[:cut]) >> 32 == 0
    ]
    return joined[0] if len(cuts) != 1 else digits[: cuts[0]] + b" " + digits[cuts[0] :] + joined[2]


class _Rows:
    """Converts the lines of a list to rows with tab-separated cells."""

    def __init__(self, names: list[str]) -> None:
        self._line = _line(names)
        self._row = b"\t".join(b"\\%d" % number for number in range(1, len(names) + 1))
        header = rb"[ \t]+".join(re.escape(name.encode()) for name in names)
        self._header = re.compile(rb"(?m)^ *" + header + rb"[ \t]*\r?\n")
        self._restarts = "TIME(s)" in names
        self._begin = re.compile(rb"(?s)\A(?:[^\n]*\n)*? *" + header + rb" *\r?\n")
        self._has_disks = "DISK" in names
        self._is_joined = any(name in ("QUE(ms)", "LAT(ms)") for name in names[names.index("BYTES") + 1 :][:1])
        diskless = {"DISK": rb"", "SECTOR": rb"0?"}
        cells = (diskless.get(name, rb"[^\t\n]*") for name in names)
        self._diskless = re.compile(rb"(?m)^" + rb"\t".join(cells) + rb"$\n?")
        unknown_task = {"COMM": rb"\??", "PID": rb"0"}
        cells = (rb"(" + unknown_task.get(name, rb"[^\t\n]*") + rb")" for name in names)
        self._unknown_task = re.compile(rb"(?m)^" + rb"\t".join(cells) + rb"$")
        self._unnamed = b"\t".join(
            b"" if name in unknown_task else b"\\%d" % number for number, name in enumerate(names, 1)
        )
        self.nr_diskless = 0
        self.nr_lost = 0
        self.nr_restarts = 0
        """The number of further headers in a list whose times restart at each."""

    def of(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rows of all lines. A line that does not match stays as it is."""
        rest, before, is_first = b"", b"", True
        for piece in pieces:
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            before = whole.rpartition(b"\n")[2] if newline else before
            whole = self._begin.sub(b"", whole + newline) if is_first else whole + newline
            yield self._converted(whole)
            is_first = False
        yield self._converted(rest + b"\n" if self._is_whole(rest, before) else rest)

    def _is_whole(self, row: bytes, before: bytes) -> bool:
        """Return whether the last row lacks only its newline: tools print each duration with the same decimals."""
        decimals = [len(line.rstrip().rpartition(b".")[2]) for line in (row, before)]
        return decimals[0] == decimals[1] and all(map(self._line.fullmatch, (row, before)))

    def _converted(self, text: bytes) -> bytes:
        self.nr_lost += sum(map(int, lines.LOST.findall(text)))
        text, restarts = self._header.subn(b"", text)
        self.nr_restarts += restarts * self._restarts
        for pattern in (lines.LOST, lines.NOTE):
            text = pattern.sub(b"", text)
        text = lines.without_interrupt(text)
        if self._is_joined:
            text = _JOINED.sub(_separated, text)
        rows = self._line.sub(self._row, text)
        rows = self._unknown_task.sub(self._unnamed, rows)
        if self._has_disks:
            rows, count = self._diskless.subn(b"", rows)
            self.nr_diskless += count
        return rows
