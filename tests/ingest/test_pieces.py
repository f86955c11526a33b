"""Tables that fill up many times yield the same rows as one table that holds all.

References that C code keeps to a table or its strings must belong to the current tables.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from support import readers

from androstep_analysis.ingest import lines
from androstep_analysis.ingest.syscalls import strace

pytestmark = pytest.mark.sanitized

ROWS = 64
"""As many rows as one event may fill (MAX_STEPS in native/decode/text/forms.h)."""


def ftrace_line(number: int) -> str:
    """Return a line of the thread with this number, with its own path.

    Names recur some lines later, in another table.
    """
    name = f"task{number % 5}-{number // 50}"
    return (
        f" {name}-{100 + number % 5} [000] .... {number}.000000: "
        f"block_rq_issue: 8,0 W 4096 () {8 * number} + 8 [{name}]\n"
    )


def blkparse_line(number: int) -> str:
    return f"  8,0    0 {number + 1:8d} {number:5d}.000000000   100  Q  W {8 * number} + 8 [task{number // 50}]\n"


def csv_line(number: int) -> str:
    return f"{128166372003061629 + 10 * number},host{number % 3},{number % 3},Write,{512 * number},4096,100\n"


def strace_line(number: int) -> str:
    return f'{100 + number % 3} {1600000000 + number}.000000 unlink("/data/{number // 20}") = 0\n'


LINES = {"ftrace": ftrace_line, "blkparse": blkparse_line, "MSR CSV": csv_line, "strace": strace_line}


@pytest.mark.parametrize("format", LINES)
def test_text(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "".join(LINES[format](number) for number in range(700)).encode()
    whole = readers.read_bytes(tmp_path, data)
    monkeypatch.setattr(lines, "_ROWS", ROWS)
    monkeypatch.setattr(strace, "ROWS", ROWS)
    monkeypatch.setattr(strace, "STRINGS_BYTES", 100)
    pieces = readers.read_bytes(tmp_path, data)
    assert whole.events == pieces.events
    assert max(whole.block.height, whole.syscalls.height) >= 700
    for table in ("block", "syscalls", "tasks"):
        assert_frame_equal(getattr(pieces, table), getattr(whole, table))


def test_names_are_of_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """String numbers of an earlier table have other meanings in a new table, even if it is in the same memory."""
    monkeypatch.setattr(lines, "_ROWS", ROWS)
    staging = readers.read_bytes(tmp_path, "".join(map(ftrace_line, range(700))).encode())
    assert staging.block["comm"].to_list() == [f"task{number % 5}-{number // 50}" for number in range(700)]
