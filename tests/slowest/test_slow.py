"""The slowest operations: against plain Python on the demo and on random captures, and worked out by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import polars as pl
import pytest
from support import made
from support.oracles.slow import Oracle
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import cli, schema
from androstep_analysis.capture import Capture, derivation
from androstep_analysis.common.errors import InputError
from androstep_analysis.present.headline import slow as layout
from androstep_analysis.slowest import OPERATIONS, details, stages

pytestmark = pytest.mark.unit

DISK, OTHER_DISK, PARTITION = 8 << 20, 8 << 20 | 16, 8 << 20 | 1
THREADS = {1: "mail", 2: "game", 3: "jbd2/sda1-8", 4: None}
FILE = {"path": "/a/mail.db", "names": [], "name_encrypted": False, "file_type": "sqlite_db", "source": "tracepoint"}


def random_capture(seed: int) -> Capture:
    """Draw requests, commits and calls of fsync at random times, some with missing ends."""
    draw = random.Random(seed)
    requests, pieces, events = [], [], []
    for number in range(60):
        queue = draw.randrange(1000)
        insert = queue + draw.randrange(5)
        issue = insert + draw.randrange(20)
        op = draw.choice(["read", "write", "write", "write", "flush", "discard"])
        tid = draw.choice(list(THREADS))
        row: dict[str, Any] = {"request_id": number, "op": op, "dev": draw.choice([DISK, DISK, DISK, OTHER_DISK])}
        row |= {"part_dev": PARTITION if row["dev"] == DISK else OTHER_DISK, "sector": 8 * number, "nr_sectors": 8}
        row |= {"queue_ns": queue if op != "flush" else None, "insert_ns": draw.choice([None, insert])}
        row |= {"issue_ns": issue, "complete_ns": issue + draw.randrange(120), "sync": draw.random() < 0.7}
        if draw.random() < 0.03:
            row[draw.choice(["issue_ns", "complete_ns"])] = None
        elif draw.random() < 0.05:
            row["matched"] = "interchangeable"
        if op in ("read", "write"):
            row["swap"] = number % 5 == 0
        if op != "flush":
            row |= {"submit_tid": tid, "submit_pid": tid, "submit_comm": THREADS[tid]}
        requests.append(row)
        kind = draw.choice(["data", "data", "metadata", "journal"])
        owner = draw.choice([{}, {"owner_comm": "mail", "owner_pid": 1, "owner_via": "write_begin"}])
        owner = draw.choice([owner, {"owner_comm": "game", "owner_pid": 2, "owner_via": "inferred"}])
        ino = draw.choice([11, 12, None]) if kind == "data" else None
        size = 0 if op == "flush" else 4096
        pieces.append(row | owner | {"block_type": kind if size else None, "ino": ino, "bytes": size})
    for transaction in range(6):
        start = draw.randrange(1000)
        events.append({"ts_ns": start, "event": "jbd2_start_commit", "dev": PARTITION, "tid": 3})
        events.append({"ts_ns": start + draw.randrange(90), "event": "jbd2_end_commit", "dev": PARTITION, "tid": 3})
        for event in events[-2:]:
            event["transaction"] = transaction
    for tid in (1, 2):
        at = 0
        for _ in range(6):
            at += 1 + draw.randrange(80)
            row = {
                "tid": tid,
                "pid": tid,
                "comm": THREADS[tid],
                "dev": PARTITION,
                "ino": draw.choice([11, 12]),
                "error": 0,
            }
            events.append(row | {"ts_ns": at, "event": "ext4_sync_file_enter"})
            at += 1 + draw.randrange(150)
            events.append(row | {"ts_ns": at, "event": "ext4_sync_file_exit"})
    shared = [column.name for column in schema.table("io").columns]
    tables = {name: schema.empty(name) for name in derivation.TABLES} | {
        "requests": made.table("requests", requests),
        "io": made.table("io", [{name: row[name] for name in shared if name in row} for row in pieces]),
        "fs_events": made.table("fs_events", sorted(events, key=lambda event: event["ts_ns"])),
    }
    return made.of_tables(tables)


def check(capture: Capture, op: str, top: int) -> pl.DataFrame:
    """Compare every column that says more than the tables do with what the oracle says."""
    oracle, table = Oracle(capture), androstep.slow(capture, op, top)
    assert table.schema == schema.table("slow").polars
    if op != "fsync":
        assert table["duration_ns"].to_list() == oracle.slowest(op, top)
    for row in table.to_dicts():
        disks = {row["dev"]}
        told = list(zip(row["stages"], row["stages_ns"], strict=True))
        assert sum(row["stages_ns"]) == row["duration_ns"] == row["end_ns"] - row["begin_ns"]
        if op == "fsync":
            disks = {one["dev"] for one in oracle.requests.values() if one["part_dev"] == row["dev"]}
            assert told == oracle.call_stages(row, disks)
            assert row["depth"] == oracle.depth(*disks, row["begin_ns"])
        else:
            assert told == oracle.stages(row)
            issue = oracle.requests[row["request_id"]]["issue_ns"]
            assert row["depth"] == (None if issue is None else oracle.depth(row["dev"], issue))
        others = oracle.in_device(row, disks)
        assert row["others"] == len(others)
        assert row["flush_ns"] == oracle.flush_ns(row, others)
        names = (f"others_{name}" for name in ("process", "pid", "op", "bytes"))
        assert list(zip(*(row[name] for name in names), strict=True)) == oracle.moved(row, others)
    return table


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_demo_by_the_oracle(op: str) -> None:
    table = check(androstep.open(ROOT / "datasets/demo"), op, 12)
    assert table.height == (0 if op == "fsync" else 12)


@pytest.mark.parametrize("seed", range(5))
def test_random_captures_by_the_oracle(seed: int) -> None:
    capture = random_capture(seed)
    assert check(capture, "fsync", 12).height == 12
    for op in ("read", "write", "flush", "discard"):
        check(capture, op, 25)


def test_random_captures_have_every_stage() -> None:
    tables = [androstep.slow(random_capture(seed), "fsync", 12) for seed in range(5)]
    assert {*pl.concat(tables)["stages"].explode()} == {"requests", "flush", "journal", "rest"}


def test_of_files_with_equal_bytes_in_a_request_the_first_is_named() -> None:
    names = {"request_id": 1, "owner_via": "unknown", "bytes": 4096, "block_type": "data", "map_source": "tracepoint"}
    rows = [names | {"piece": number, "ino": 90 - number} for number in range(8)]
    io, requests = (
        pl.DataFrame(found, schema.table(name).polars)
        for name, found in (("io", rows), ("requests", [{"request_id": 1, "nr_sectors": 64}]))
    )
    for shuffled in (io, io.reverse()):
        capture: Any = SimpleNamespace(requests=requests.lazy(), io=shuffled.lazy())
        assert details.of_requests(capture, requests)["ino"].to_list() == [90]


def test_waits_are_listed_once() -> None:
    """No listed request is for the larger part within a listed wait of the same process or thread, or its flush."""
    for seed in range(5):
        table = androstep.slow(random_capture(seed), top=30)
        durations = table["duration_ns"].to_list()
        assert durations == sorted(durations, reverse=True)
        calls, requests = (table.filter((pl.col("op") == "fsync") == is_call).to_dicts() for is_call in (True, False))
        for at, request in enumerate(requests):
            assert request["op"] != "discard"
            for wait in [*calls, *requests[:at]]:
                within = min(wait["end_ns"], request["end_ns"]) - max(wait["begin_ns"], request["begin_ns"])
                if within * 2 >= request["duration_ns"] and within >= 0:
                    assert request["pid"] is None or request["pid"] != wait["pid"]
                    assert request["tid"] is None or request["tid"] != wait["tid"]
                    assert wait["op"] != "fsync" or request["op"] != "flush" or request["dev"] == OTHER_DISK


def test_half_of_a_request_makes_it_part_of_a_wait() -> None:
    """By hand: of the process of a read from 0 to 100, one from 60 to 159 is a wait of its own, one from 40 is none."""
    reads = [(0, 100, 5), (60, 159, 5), (40, 139, 5), (40, 138, 6)]
    rows = [
        {"op": "read", "sector": 8 * at, "queue_ns": queue, "issue_ns": queue, "complete_ns": end, "submit_pid": pid}
        for at, (queue, end, pid) in enumerate(reads)
    ]
    assert androstep.slow(made.capture(rows))["request_id"].to_list() == [0, 1, 3]


def test_a_write_that_waits_for_its_flush_is_one_wait() -> None:
    flush = {"op": "flush", "nr_sectors": 0, "issue_ns": 5, "complete_ns": 85}
    write = {"op": "write", "sector": 0, "queue_ns": 0, "issue_ns": 90, "complete_ns": 100}
    for is_barrier in (True, False):
        table = androstep.slow(made.capture([write | {"preflush": is_barrier, "sync": True, "fua": False}, flush]))
        assert table["op"].to_list() == (["write"] if is_barrier else ["write", "flush"])
        assert table["flush_ns"][0] == 80


def one_call(**more: Any) -> Capture:
    """Return a call of fsync from 100 to 200 ns: its data until 120, a commit from 120 on, a flush from 130 to 180."""
    rows = [
        {"op": "write", "queue_ns": 102, "issue_ns": 105, "complete_ns": 120, "sector": 0, "submit_tid": 1},
        {"op": "flush", "nr_sectors": 0, "issue_ns": 130, "complete_ns": 180},
        {"op": "write", "queue_ns": 90, "issue_ns": 95, "complete_ns": 150, "sector": 80, "submit_tid": 2},
    ]
    owner = {"owner_comm": "game", "owner_pid": 2, "owner_via": "write_begin"}
    pieces = [{**row, "request_id": at, "bytes": row.get("nr_sectors", 8) * 512} for at, row in enumerate(rows)]
    keys = schema.table("io").polars
    pieces = [{name: value for name, value in row.items() if name in keys} for row in pieces]
    pieces[2] |= owner
    numbered = [{**row, "request_id": at, "dev": DISK, "part_dev": DISK} for at, row in enumerate(rows)]
    events = [
        {"ts_ns": 100, "event": "ext4_sync_file_enter", "tid": 1, "pid": 1, "comm": "mail", "dev": DISK, "ino": 11},
        {"ts_ns": 120, "event": "jbd2_start_commit", "tid": 3, "dev": DISK, "transaction": 7},
        {"ts_ns": 190, "event": "jbd2_end_commit", "tid": 3, "dev": DISK, "transaction": 7},
        {"ts_ns": 200, "event": "ext4_sync_file_exit", "tid": 1, "pid": 1, "comm": "mail", "dev": DISK, "ino": 11},
    ]
    tables = {name: schema.empty(name) for name in derivation.TABLES} | {
        "requests": made.table("requests", numbered),
        "io": made.table("io", pieces),
        "fs_events": made.table("fs_events", [event | {"error": 0} for event in events]),
        "files": made.table("files", [{"dev": DISK, "ino": 11, "incarnation": 0, **FILE}]),
    }
    return made.of_tables(tables | {name: made.table(name, rows) for name, rows in more.items()})


def test_a_call_by_hand() -> None:
    call, other = androstep.slow(one_call()).to_dicts()
    assert (call["op"], call["comm"], call["path"], call["role"]) == ("fsync", "mail", "/a/mail.db", "caller")
    assert (call["process_certainty"], call["file_certainty"], call["stages_certainty"]) == ("fact",) * 3
    told = dict(zip(call["stages"], call["stages_ns"], strict=True))
    assert call["stages"] == ["rest", "requests", "journal", "flush", "journal", "rest"]
    assert call["stages_ns"] == [2, 18, 10, 50, 10, 10]
    assert told["flush"] == 50
    assert (call["others_process"], call["others_op"], call["others_bytes"]) == (["game"], ["write"], [4096])
    assert (call["depth"], call["others"], call["peers"], call["faster"]) == (1, 1, 1, 0)
    assert (other["op"], other["comm"], other["duration_ns"]) == (
        "write",
        "game",
        60,
    )  # The flush is no wait of its own.


def test_an_earlier_file_with_the_inode_number_is_not_part_of_a_call() -> None:
    tables = {name: table.collect() for name, table in one_call().tables.items() if name in derivation.TABLES}
    tables["files"] = tables["files"].with_columns(incarnation=pl.lit(1, pl.Int32), valid_from_ns=pl.lit(50, pl.Int64))
    is_late = pl.col("request_id") == 2
    ino = pl.when(is_late).then(11).otherwise("ino").cast(pl.Int64)
    for incarnation, others in ((0, 1), (1, 0)):
        number = pl.when(is_late).then(incarnation).otherwise("incarnation").cast(pl.Int32)
        io = tables["io"].with_columns(ino=ino, incarnation=number)
        call = androstep.slow(made.of_tables(tables | {"io": io})).row(0, named=True)
        assert (call["op"], call["path"], call["others"]) == ("fsync", "/a/mail.db", others)


def test_the_line_of_a_call() -> None:
    call, _ = androstep.slow(one_call()).to_dicts()
    said = "".join(map(str, layout.line(call)))
    assert said == (
        "100 ns mail waited in fsync of mail.db: 50 ns device flush, 20 ns journal commit, 18 ns its requests, "
        "12 ns unaccounted for; game wrote 4 KiB in that time"
    )


def test_the_time_line_of_a_call() -> None:
    block, _ = layout.blocks(androstep.slow(one_call()))
    assert block.bar == "." + "=" * 11 + "+" * 6 + "#" * 30 + "+" * 6 + "." * 6


def test_a_system_call_and_the_event_in_it_are_one_call() -> None:
    call = {"ts_ns": 98, "duration_ns": 104, "line": 1, "tid": 1, "pid": 1, "call": "fdatasync", "fd": 3, "result": 0}
    table = androstep.slow(one_call(syscalls=[call | {"state": "whole"}]), "fsync")
    assert table.select("call", "duration_ns", "path", "file_certainty").rows() == [
        ("fdatasync", 104, "/a/mail.db", "fact")
    ]


def test_a_capture_of_system_calls_only(tmp_path: Path) -> None:
    log = tmp_path / "app.strace"
    log.write_text(
        '7 1700000000.000000 openat(AT_FDCWD, "/d/a.db", O_RDWR) = 3</d/a.db> <0.000010>\n'
        "7 1700000001.000000 fsync(3</d/a.db>) = 0 <0.250000>\n"
        "7 1700000002.000000 fdatasync(3</d/a.db>) = -1 EIO (Input/output error) <0.125000>\n"
    )
    table = androstep.slow(androstep.open(log))
    rows = table.select("call", "duration_ns", "path", "stages", "stages_certainty", "error").rows()
    assert rows == [
        ("fsync", 250_000_000, "/d/a.db", ["unknown"], "unknown", 0),
        ("fdatasync", 125_000_000, "/d/a.db", ["unknown"], "unknown", -5),
    ]


def test_the_disk_of_a_filesystem_without_requests_is_inferred_if_there_is_one() -> None:
    capture = one_call()
    elsewhere = pl.when(pl.col("dev") == DISK).then(PARTITION).otherwise("dev").cast(pl.UInt32)
    capture.tables["fs_events"] = capture.fs_events.with_columns(dev=elsewhere)
    call = androstep.slow(capture, "fsync").row(0, named=True)
    assert (call["stages_certainty"], dict(zip(call["stages"], call["stages_ns"], strict=True))["flush"]) == (
        "inferred",
        50,
    )
    more = capture.requests.with_columns(
        pl.col("dev", "part_dev").replace({DISK: OTHER_DISK}), request_id=pl.lit(99, pl.Int64)
    )
    capture.tables["requests"] = pl.concat([capture.requests, more.head(1)])
    call = androstep.slow(capture, "fsync").row(0, named=True)
    assert ("flush" in call["stages"], sum(call["stages_ns"])) == (False, 100)


@pytest.mark.parametrize(
    ("times", "names", "lengths"),
    [
        ((0, 2, 5, 9, 20), ["Q2G", "G2I", "I2D", "D2C"], [2, 3, 4, 11]),
        ((0, None, 5, 9, 20), ["Q2I", "I2D", "D2C"], [5, 4, 11]),
        ((0, 2, None, 9, 20), ["Q2G", "G2D", "D2C"], [2, 7, 11]),
        ((0, None, None, 9, 20), ["Q2D", "D2C"], [9, 11]),
        ((0, None, 12, 9, 20), ["Q2D", "D2C"], [9, 11]),  # The insert of another try.
        ((0, 2, 5, None, 20), ["Q2C"], [20]),
        ((None, None, None, 9, 20), ["D2C"], [11]),
    ],
)
def test_stages_of_a_request(times: Any, names: list[str], lengths: list[int]) -> None:
    assert stages.of_request(*times) == stages.Stages(names, lengths, "fact")


def test_nothing_to_list() -> None:
    empty = made.capture()
    assert androstep.slow(empty).is_empty()
    assert "a start and an end" in layout.nothing(empty, None)
    reads = made.capture([{"op": "read", "queue_ns": 1}])
    assert "a start and an end" in layout.nothing(reads, "read")
    assert layout.nothing(reads, "write") == "no write is among the requests of this recording"
    only_issued = made.capture([{"issue_ns": 5, "sector": 0}])
    assert androstep.slow(only_issued).is_empty()
    with pytest.raises(ValueError, match="unknown operation 'trim'"):
        androstep.slow(empty, "trim")


@pytest.mark.parametrize(
    ("lengths", "ranks"),
    [
        ((5,), ["the only read of the recording"]),
        ((9, 5), ["slower than the other read", "not slower than the other read"]),
        ((9, 9), ["not slower than the other read"] * 2),
        (
            (9, 7, 5),
            [
                "slower than all 2 other reads",
                "slower than all but 1 of 2 other reads",
                "not slower than any of 2 other reads",
            ],
        ),
    ],
)
def test_the_rank_among_operations_of_its_kind(lengths: tuple[int, ...], ranks: list[str]) -> None:
    rows = [{"op": "read", "sector": 80 * n, "queue_ns": 0, "complete_ns": end} for n, end in enumerate(lengths)]
    said = ["".join(map(str, block.sentences[1].parts)) for block in layout.blocks(androstep.slow(made.capture(rows)))]
    assert [words.partition("; ")[2].partition(" (median")[0] for words in said] == ranks


def test_what_nobody_waits_for_is_listed_where_there_is_nothing_else() -> None:
    flags = dict.fromkeys(("sync", "fua", "preflush"), False)
    row = {"op": "write", **flags, "queue_ns": 0, "issue_ns": 1, "complete_ns": 9, "sector": 0}
    read = {"op": "read", "queue_ns": 0, "issue_ns": 1, "complete_ns": 3, "sector": 80}
    assert androstep.slow(made.capture([row]))["op"].to_list() == ["write"]
    assert androstep.slow(made.capture([row, read]))["op"].to_list() == ["read"]
    assert androstep.slow(made.capture([row, read]), "write")["op"].to_list() == ["write"]


def test_a_notebook_and_a_terminal_show_the_same_blocks() -> None:
    shown = androstep.show(androstep.slow(one_call()))
    html = shown._repr_html_()
    for block in layout.blocks(androstep.slow(one_call())):
        for sentence in block.sentences:
            assert sentence.about in repr(shown) and f"<dt>{sentence.about}</dt>" in html
        assert block.bar in repr(shown) and f"<code>{block.bar}</code>" in html
    assert html.count("<dt>stages</dt>") == len(layout.blocks(androstep.slow(one_call())))
    assert repr(androstep.show(schema.empty("slow"))) == "No rows."


def test_a_hostile_name_is_text() -> None:
    path = "/a/<b>\x1b[2J\u202e.db"
    file = {"dev": DISK, "ino": 11, "incarnation": 0, **FILE, "path": path}
    shown = androstep.show(androstep.slow(one_call(files=[file])))
    assert "<b>" not in shown._repr_html_()
    for text in (shown._repr_html_(), repr(shown)):
        assert "\x1b" not in text and "\u202e" not in text


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    demo = str(ROOT / "datasets/demo")
    assert cli.main(["slow", demo, "--op", "read", "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed == repr(androstep.show(androstep.slow(androstep.open(demo), "read", 2))) + "\n"
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert cli.main(["slow", demo, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [list(row) for row in rows] == [schema.table("slow").polars.names()] * 5
    allowed = json.loads((ROOT / "schemas/answers/slow.json").read_text("utf-8"))
    jsonschema.validate(rows, allowed, jsonschema.Draft202012Validator)
    (tmp_path / "trace.csv").write_text(
        "process,device,rw_flag,sector,size,timestamp\napp-7,8388608,R,0,8,1.0\napp-7,8388608,W,8,8,2.0\n"
    )
    for arguments in (["--op", "fsync"], []):
        assert cli.main(["slow", str(tmp_path / "trace.csv"), *arguments]) == 1
        said = capsys.readouterr()
        assert said.out == "" and "both a start and an end in this recording" in said.err


def test_where_chooses_before_the_slowest_are_taken() -> None:
    capture = androstep.open(ROOT / "datasets/demo")
    whole = androstep.slow(capture, "discard", 1000)
    some = androstep.slow(capture, "discard", 1000, where=["process=kworker*1", "bytes>=16KiB", "time>=3s"])
    is_wanted = pl.col("comm").str.ends_with("1") & (pl.col("bytes") >= 16384) & (pl.col("at_ns") >= 3 * 10**9)
    assert some.equals(whole.filter(is_wanted))
    assert 0 < some.height < whole.height
    assert androstep.slow(one_call(), where=["op=fsync"])["comm"].to_list() == ["mail"]
    with pytest.raises(InputError, match="there is no column nope"):
        androstep.slow(capture, where=["nope=1"])
