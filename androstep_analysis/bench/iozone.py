"""Reader of IOzone's output: the table of automatic mode, the Excel report (-R), and throughput mode (-t).

IOzone prints rates, without the number of operations or their duration. A kB is 1024 B. The unit is stated above the
table: kBytes/sec, operations per second (-O) or microseconds per operation (-N) (IOzone 3.471, iozone.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from androstep_analysis.bench.tables import Part, foreign, names
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.results import Results


class _Test(NamedTuple):
    test: str
    layout: str | None = None
    engine: str | None = None


_TESTS: Final = (
    _Test("seq_write", "empty"),
    _Test("seq_write", "written"),
    _Test("seq_read"),
    _Test("seq_reread"),
    _Test("rand_read"),
    _Test("rand_write", "written"),
    _Test("backward_read"),
    _Test("record_rewrite", "written"),
    _Test("stride_read"),
    _Test("seq_write", "empty", "stdio"),
    _Test("seq_write", "written", "stdio"),
    _Test("seq_read", None, "stdio"),
    _Test("seq_reread", None, "stdio"),
)
"""The columns of the table from left to right, which are also the order of the reports."""

_REPORTS: Final = (
    *("writer", "re-writer", "reader", "re-reader", "random read", "random write", "backward read"),
    *("record rewrite", "stride read", "fwrite", "re-fwrite", "fread", "re-fread"),
)
_CHILDREN: Final = {
    **{"initial writers": 0, "rewriters": 1, "readers": 2, "re-readers": 3, "random readers": 4, "random writers": 5},
    **{"reverse readers": 6, "stride readers": 8, "fwriters": 9, "freaders": 11},
}
_MIXED: Final = "mixed workload"

_BEGIN: Final = re.compile(r"(?m)^\s*Iozone: Performance Test of File I/O")
_HEADER: Final = re.compile(r"^ *[kK]B +reclen( +(?:re)?(?:write|read)){4} .*$")
_COLUMNS: Final = 2 + len(_TESTS)
_UNITS: Final = (
    (re.compile(r"Output is in [kK]Bytes/sec"), "kB"),
    (re.compile(r"OPS Mode\. Output is in operations per second"), "ops"),
    (re.compile(r"Microseconds/op Mode\."), "us"),
)
_POOR: Final = re.compile(r"reported inaccurate results\. Sizes (\d+) [kK]Bytes and below")
_CHILD_RATE: Final = re.compile(r"^\s*Children see throughput for +(\d+) (.+?)\s*= *([\d.]+) (\w+)/sec")


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is output of IOzone."""
    text = head[: 1 << 14].decode("utf-8", "replace")
    return _BEGIN.search(text) is not None or any(map(_HEADER.match, text.splitlines()))


def read(text: str, origin: bytes) -> Results:
    """Return the rates in `text`, which may be the output of several runs. `origin` is the bytes of the file.

    Each rate is a run. IOzone's rewrite is `seq_write` of a written file, and its stdio tests have engine `stdio`.
    Raises `InputError` if a table has no unit.
    """
    starts = [found.start() for found in _BEGIN.finditer(text)] or [0]
    outputs = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    runs: list[dict[str, Any]] = []
    parts: list[list[Part]] = []
    losses: list[Loss] = []
    for output in outputs:
        found, strange = _output(output)
        for run, part in found:
            runs.append(run)
            parts.append([part])
        if strange:
            shown = printable(strange[0].strip()[:60])
            losses.append(Loss("unreadable", len(strange), f"{len(strange)} lines of IOzone are unknown: “{shown}”"))
    if not runs:
        raise InputError("contains no rates of IOzone; give its complete output")
    runs = [run | {"run_id": name} for run, name in zip(runs, names(origin), strict=False)]
    return foreign("IOzone text", runs, parts, tuple(losses))


def _output(text: str) -> tuple[list[tuple[dict[str, Any], Part]], list[str]]:
    """Return the runs of one output of IOzone, and the lines with rates that cannot be read."""
    lines = re.split(r"\r\n?|\n", text)
    known, unit = _setup(text), next((unit for form, unit in _UNITS if form.search(text)), None)
    poor = _POOR.search(text)
    found: list[tuple[dict[str, Any], Part]] = []
    strange: list[str] = []
    cells = [*_table(lines, strange)] or [*_reports(lines)]
    if cells and unit is None:
        raise InputError(
            "IOzone's table has no unit; give its complete output, with the line “Output is in kBytes/sec”"
        )
    for file_kb, record_kb, test, value in cells:
        run = known | {"threads": 1, "file_bytes": file_kb << 10, "block_bytes": record_kb << 10}
        if poor is not None and file_kb <= int(poor[1]):
            run |= {"valid": False, "invalid": "IOzone: the timer is too coarse for files of this size"}
        found.append(_run(run, _TESTS[test], value, str(unit)))
    return [*found, *_throughput(lines, known, strange)], strange


def _setup(text: str) -> dict[str, Any]:
    """Return the setup above the rates as columns of bench_runs."""
    version = re.search(r"Version \$Revision: (\S+) \$", text)
    command = re.search(r"(?m)^\s*Command line used: *(.*?)\s*$", text)
    modes = [
        *(["mmap"] if "Using mmap files" in text else []),
        *(["direct"] if "O_DIRECT feature enabled" in text else []),
        *(["osync"] if re.search(r"(?m)^\s*SYNC Mode\.", text) else []),
    ]
    mode = "+".join(modes) or "buffered"
    return {
        "tool": "iozone",
        "tool_version": None if version is None else version[1],
        "command": None if command is None else command[1],
        "workload": "file",
        "engine": "mmap" if "mmap" in modes else "sync",
        "sync_mode": {"direct+osync": "direct_osync"}.get(mode, mode),
        "final_sync": "Include fsync in write timing" in text,
        "valid": True,
    }


def _run(run: dict[str, Any], test: _Test, value: Decimal, unit: str) -> tuple[dict[str, Any], Part]:
    """Return a row of bench_runs and its row of bench, where `value` is in `unit` (kB/s, ops/s, µs)."""
    engine = run["engine"] if test.engine is None else test.engine
    record = Decimal(run["block_bytes"])
    per_second = {"kB": lambda: value * 1024 / record, "ops": lambda: value, "us": lambda: 1_000_000 / value}[unit]()
    rates = {"stated_ops_rate": round(per_second * 1000), "stated_bytes_rate": round(per_second * record)}
    return run | {"test": test.test, "layout": test.layout, "engine": engine}, Part("op", known=rates)


def _table(lines: Sequence[str], strange: list[str]) -> Iterator[tuple[int, int, int, Decimal]]:
    """Yield file size and record size in kB, index of the test, and value of each cell of the table that is not empty.

    Cells are right-aligned and may touch each other. A column that was not measured is empty.
    """
    start = next((number for number, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        return
    rows = [line for line in lines[start + 1 :] if re.fullmatch(r" *\d[\d ]*", line.rstrip())]
    ends = _ends(lines[start], rows)
    for row in rows:
        cells = [row[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        is_whole = row[ends[-1] :].strip() == "" and all(re.fullmatch(r" *\d+| *", cell) for cell in cells)
        if not is_whole or not cells[0].strip() or not cells[1].strip():
            strange.append(row)
            continue
        numbers = [int(cell) if cell.strip() else 0 for cell in cells]
        for test, value in enumerate(numbers[2:]):
            if value:
                yield numbers[0], numbers[1], test, Decimal(value)


def _ends(header: str, rows: Sequence[str]) -> list[int]:
    """Return the end of each column, which is that of most numbers near the end of its name."""
    named = [found.end() for found in re.finditer(r"\S+", header)][:_COLUMNS]
    tokens = [found.end() for row in rows for found in re.finditer(r"\d+", row)]
    ends = []
    for end in named:
        near = [token for token in tokens if abs(token - end) <= _NEAR]
        ends.append(max(sorted(set(near)), key=near.count, default=end))
    return ends


_NEAR: Final = 3
"""The largest distance from the end of a number to that of its column's name. Columns are at least 8 characters
wide."""


def _reports(lines: Sequence[str]) -> Iterator[tuple[int, int, int, Decimal]]:
    """Yield the cells of the reports for Excel, which repeat the table."""
    test, records = None, list[int]()
    for line in lines:
        if title := re.fullmatch(r'"(.+) report"', line.strip()):
            name = title[1].lower()
            test, records = (_REPORTS.index(name) if name in _REPORTS else None), []
        elif test is not None and re.fullmatch(r'(?:\s*"\d+")+\s*', line):
            records = [int(size) for size in re.findall(r"\d+", line)]
        elif test is not None and (row := re.fullmatch(r'"(\d+)"((?:\s+\d+)*)\s*', line)):
            for record, value in zip(records, row[2].split(), strict=False):
                if int(value):
                    yield int(row[1]), record, test, Decimal(value)


def _throughput(
    lines: Sequence[str], known: dict[str, Any], strange: list[str]
) -> Iterator[tuple[dict[str, Any], Part]]:
    """Yield the runs of throughput mode: the sum of the rates of the children, while all of them were running."""
    sizes, is_thread = None, False
    for line in lines:
        if shape := re.match(r"\s*Each (\w+) writes a (\d+) [kK][bB]yte file in (\d+) [kK][bB]yte records", line):
            sizes, is_thread = (int(shape[2]) << 10, int(shape[3]) << 10), shape[1] == "thread"
        found = _CHILD_RATE.match(line)
        if found is None:
            continue
        test = _Test("rand_mixed") if found[2] == _MIXED else None
        if found[2] in _CHILDREN:
            test = _TESTS[_CHILDREN[found[2]]]
        unit = {"kb": "kB", "ops": "ops"}.get(found[4].lower())
        if test is None or sizes is None or unit is None:
            strange.append(line)
            continue
        value = Decimal(found[3])
        run = known | {
            "threads": int(found[1]),
            "processes": not is_thread,
            "file_bytes": sizes[0],
            "block_bytes": sizes[1],
        }
        if not value:
            run |= {"valid": False, "invalid": "IOzone: no child moved anything"}
        yield _run(run, test, value, unit)
