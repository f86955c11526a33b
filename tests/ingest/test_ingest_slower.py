"""Lists of slow calls that ext4slower and related tools print."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from androstep_analysis.present import headline

pytestmark = pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")

HEADER = "TIME     COMM             PID     T BYTES   OFF_KB   LAT(ms) FILENAME\n"

DAY_S = 86_400


def opened(tmp_path: Path, text: str, codec: str = "utf-8") -> Capture:
    path = tmp_path / "list.txt"
    path.write_bytes(text.encode(codec))
    return androstep.open(path)


def rows(capture: Capture, *columns: str) -> list[tuple[Any, ...]]:
    return capture.syscalls.sort("line").select(columns).collect().rows()


@pytest.mark.parametrize(
    ("end", "codec"),
    left_to_prove(
        itertools.product(["\n", "\r\n"], ["utf-8", "utf-8-sig", "utf-16"]),
        {("\n", "utf-8"), ("\r\n", "utf-16")}.__contains__,
    ),
)
@pytest.mark.parametrize(
    "begin", ["Tracing ext4 operations slower than 1 ms\n", "Tracing xfs operations slower than 1 ms for 5 secs.\n", ""]
)
def test_a_list_of_calls(begin: str, codec: str, end: str, tmp_path: Path) -> None:
    text = (
        begin
        + HEADER
        + "23:59:59 a 12 R 3         1234567 R 128     0           7.75 a file 1.00 name\n"
        + "00:00:00 x                3616    W 4096    12       1750.34 b\n"
        + "00:00:01 x                3616    O 0       0           2.00 c\n"
    )
    capture = opened(tmp_path, text.replace("\n", end), codec)
    assert rows(capture, "pid", "comm", "call", "result", "fd_path", "path") == [
        (1_234_567, "a 12 R 3", "read", 128, "a file 1.00 name", None),
        (3616, "x", "write", 4096, "b", None),
        (3616, "x", "open", None, None, "c"),
    ]
    assert rows(capture, "duration_ns") == [(7_750_000,), (1_750_340_000,), (2_000_000,)]
    ends = [begin + took for begin, took in rows(capture, "ts_ns", "duration_ns")]
    assert ends == [s * 10**9 for s in (DAY_S - 1, DAY_S, DAY_S + 1)]
    assert rows(capture, "offset_bytes", "bytes", "tid") == [(None, None, None)] * 3
    assert capture.about["rows"]["requests"] == 0
    (loss,) = capture.about["losses"]
    assert loss["kind"] == "faster" and ("1 ms or less" in loss["message"]) == bool(begin)
    assert "complete" not in {sentence.about for sentence in headline.of(capture).sentences}


@pytest.mark.parametrize(
    ("letter", "size", "bytes_asked", "result"),
    [
        ("R", "0", None, 0),
        ("R", "-5", None, -5),
        ("R", str(2**64 - 5), None, -5),
        ("S", str(2**32 - 5), None, -5),
        ("S", "0", None, 0),
        ("F", "LL_MAX", None, None),
        ("F", "4096", 4096, None),
        ("O", str(2**64 - 2), None, -2),
        ("C", "8192", 8192, None),
        ("W", str(2**31 - 4096), None, 2**31 - 4096),
    ],
)
def test_what_bytes_means(letter: str, size: str, bytes_asked: int | None, result: int | None, tmp_path: Path) -> None:
    capture = opened(tmp_path, f"{HEADER}10:00:00 x 7 {letter} {size} 0 2.00 f\n")
    failed = result is not None and result < 0
    assert rows(capture, "bytes", "result", "error") == [(bytes_asked, result, "?" if failed else None)]


@pytest.mark.parametrize("task", ["TID", "PID"])
def test_fileslower_numbers_threads_and_tells_what_was_asked_for(task: str, tmp_path: Path) -> None:
    header = f"TIME(s)  COMM           {task}    D BYTES   LAT(ms) FILENAME\n"
    text = (
        "Tracing sync read/writes slower than 10 ms\n"
        + header
        + "8.850    rand read      4762   R 8192      11.26 data1\n"
    )
    capture = opened(tmp_path, text)
    assert rows(capture, "ts_ns", "tid", "pid", "comm", "bytes", "result") == [
        (8_838_740_000, 4762, None, "rand read", 8192, None)
    ]


@pytest.mark.parametrize(("unit", "end"), [("us", "5000100"), ("ns", "5000100000")])
def test_the_csv_of_these_tools(unit: str, end: str, tmp_path: Path) -> None:
    text = f"ENDTIME_{unit},TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n{end},a,b,7,W,10,4097,100,c, d\n"
    capture = opened(tmp_path, text)
    assert rows(capture, "ts_ns", "duration_ns", "comm", "offset_bytes", "result", "fd_path") == [
        (5_000_000_000, 100_000, "a,b", 4097, 10, "c, d")
    ]
    assert capture.facts["clock"] == "mono"


def test_what_stands_between_the_calls(tmp_path: Path) -> None:
    row = "10:00:00 x 7 R 1 0 2.00 f\n"
    text = (
        f"Tracing ext4 operations\n{HEADER}{row}Possibly lost 33 samples\n\n{HEADER}{row}"
        f"lost 2 events on CPU #3\nwhat is this\n^C{row.rstrip()}"
    )
    capture = opened(tmp_path, text)
    assert capture.about["events"] == {"read": 2}
    assert [(loss["kind"], loss["count"]) for loss in capture.about["losses"]] == [
        ("torn", 1),
        ("dropped", 35),
        ("unreadable", 1),
    ]


def test_a_name_that_may_be_cut_says_so(tmp_path: Path) -> None:
    capture = opened(tmp_path, "".join(f"10:00:00 x 7 R 1 0 2.00 {'n' * length}\n" for length in (30, 31, 32)))
    assert rows(capture, "fd_path") == [("n" * 30,), ("n" * 31 + "…",), ("n" * 32 + "…",)]


def test_a_list_is_no_program_to_replay(tmp_path: Path) -> None:
    capture = opened(tmp_path, HEADER + "10:00:00 x 7 R 1 0 2.00 f\n")
    cleaned = androstep.replay.clean(capture.syscalls, capture.tables["tasks"])
    assert cleaned.program.operations.filter(pl.col("inserted").not_()).is_empty()
