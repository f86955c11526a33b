"""What is different between two recordings: verdicts on sides that differ, or do not, in a known way."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support import made

from androstep_analysis import cli, compare
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare import words
from androstep_analysis.compare.emulated import is_emulated
from androstep_analysis.compare.observed import observe
from androstep_analysis.compare.overview import VERDICTS, of_observed
from androstep_analysis.compare.overview import overview as overview_of
from androstep_analysis.present import changes
from androstep_analysis.present.terminal import text
from androstep_analysis.stats.blocks import Scale
from androstep_analysis.stats.quantiles import Histogram, quantile

SHOWN = {"worse", "better", "different"}
MS = 1_000_000


def workload(
    seed: int, *, times: int = 1, sectors: int = 8, flushes: bool = False, slow: float = 1.0, count: int = 1200
) -> list[dict[str, Any]]:
    """Return requests of about ten seconds: reads and writes at random times, some of them sequential."""
    chosen = random.Random(seed)
    requests: list[dict[str, Any]] = []
    at, sector = 0, 0
    for _ in range(count):
        at += int(chosen.expovariate(1 / 8) * MS)
        op = "write" if chosen.random() < 0.7 else "read"
        for _ in range(times if op == "write" else 1):
            sector = sector + sectors if chosen.random() < 0.4 else chosen.randrange(1 << 30) * 8
            took = int(chosen.lognormvariate(0, 0.5) * slow * MS)
            requests.append(
                {
                    **{"op": op, "sector": sector, "nr_sectors": sectors},
                    **{"queue_ns": at, "issue_ns": at, "complete_ns": at + took},
                }
            )
        if flushes and chosen.random() < 0.5:
            requests.append(
                {"op": "flush", "sector": 0, "nr_sectors": 0, "queue_ns": at, "issue_ns": at, "complete_ns": at + MS}
            )
    return requests


def side(name: str, seeds: Sequence[int], **given: Any) -> list[compare.Recording]:
    captures = [made.named(f"{name}{seed}", workload(seed, **given)) for seed in seeds]
    found = [compare.Recording.of(capture) for capture in captures]
    return [replace(one, facts={**one.facts, "capture_id": one.title}) for one in found]


def shown(first: Sequence[compare.Recording], second: Sequence[compare.Recording]) -> dict[str, str]:
    table = overview_of(first, second).table
    assert set(table["verdict"]) <= set(VERDICTS)
    return dict(
        table.filter(pl.col("verdict").is_in([*SHOWN])).select("what", pl.col("verdict").cast(pl.String)).rows()
    )


def test_nothing_is_shown_where_nothing_differs() -> None:
    assert [shown(side("a", [n]), side("b", [n + 100])) for n in (1, 2)] == [{}, {}]


@pytest.mark.prove
def test_twenty_repetitions_show_nothing_where_nothing_differs() -> None:
    assert [shown(side("a", [n]), side("b", [n + 100])) for n in range(20)] == [{}] * 20
    assert [shown(side("a", range(n, n + 3)), side("b", range(n + 50, n + 53))) for n in (0, 10, 20)] == [{}] * 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"times": 2}, {"bytes written": "worse", "requests written": "worse"}),
        ({"sectors": 64}, {"size of a write": "different", "size of a read": "different", "bytes written": "worse"}),
        ({"slow": 20.0}, {"read latency p50": "worse", "write latency p50": "worse"}),
        ({"flushes": True}, {}),
    ],
)
def test_a_difference_that_was_made_is_shown(given: dict[str, Any], expected: dict[str, str]) -> None:
    first, second = side("a", [1]), side("b", [101], **given)
    found = shown(first, second)
    assert expected.items() <= found.items()
    back = shown(second, first)
    turned = {"worse": "better", "better": "worse", "different": "different"}
    assert {what: turned[verdict] for what, verdict in back.items()} == found


def test_what_is_nearest_to_a_verdict_comes_first_among_what_cannot_be_decided() -> None:
    table = overview_of(side("a", [1]), side("b", [101], slow=2.0, count=300)).table
    undecided = table.filter(pl.col("verdict") == "cannot be decided")
    halves = []
    for row in undecided.drop_nulls("lo").iter_rows(named=True):
        low, middle, high = (
            row[name] if row["unit"] == "1" else math.log(row[name]) for name in ("lo", "difference", "hi")
        )
        halves.append(abs(middle) / ((high - low) / 2))
    assert len(halves) > 2 and halves == sorted(halves, reverse=True)
    assert undecided["weight"].to_list() != undecided["weight"].sort(descending=True).to_list()
    assert undecided["lo"].is_null().to_list() == sorted(undecided["lo"].is_null())


def test_repeated_recordings_show_less_than_one_each_would() -> None:
    first, second = side("a", range(5), count=300), side("b", range(100, 105), count=300, slow=2.0)
    found = shown(first, second)
    assert found["write latency p50"] == "worse"
    one_each = overview_of(first[:1], second[:1]).table.filter(what="write latency p50").row(0, named=True)
    assert (one_each["verdict"], one_each["reason"]) == ("cannot be decided", "runs")


def test_the_same_work_in_twice_the_time_is_no_difference() -> None:
    """Whole runs on a machine that is slower have equal amounts in all, and parts of equal rate equal ones a second."""
    first, second = side("a", [1]), side("b", [101])
    requests = [
        {name: value * 3 if name.endswith("_ns") else value for name, value in row.items()} for row in workload(101)
    ]
    slower = [replace(one, title="slow") for one in [compare.Recording.of(made.named("slow", requests))]]
    found = overview_of(first, slower)
    amounts = found.table.filter(pl.col("what").str.starts_with("bytes written"))
    assert amounts["what"].to_list() == ["bytes written in all"]
    assert not SHOWN & set(amounts["verdict"])
    assert any("different lengths" in line for line in changes.last_lines(found))
    longer = side("b", [101], count=2400)
    assert overview_of(first, longer).table.filter(what="bytes written").height == 1
    assert overview_of(first, second).table.filter(what="bytes written").height == 1


def test_amounts_of_programs_that_always_wait_follow_the_speed_of_storage() -> None:
    """The same program that always waits does three times as much a second on a device that is three times as fast."""
    sides = []
    for name, seed, took in (("fast", 1, 8), ("slow", 101, 24)):
        rows = [
            {**row, "queue_ns": at * took * MS, "issue_ns": at * took * MS, "complete_ns": (at + 1) * took * MS - 1}
            for at, row in enumerate(workload(seed)[: 9600 // took])
        ]
        sides.append([compare.Recording.of(made.named(name, rows))])
    found = overview_of(*sides)
    assert found.are_busy
    assert found.table.filter(pl.col("what") == "bytes written")["verdict"].to_list() == ["cannot be decided"]
    assert any("waited for storage" in line for line in changes.last_lines(found))


def test_what_only_one_side_does_is_shown_if_it_does_it_often() -> None:
    reads = [row for row in workload(1) if row["op"] == "read"]
    first = [compare.Recording.of(made.named("reads", reads))]
    assert shown(first, side("b", [101]))["bytes written"] == "worse"
    burst = [*workload(101)[:30], *(row for row in workload(101)[30:] if row["op"] == "read")]
    found = overview_of(first, [compare.Recording.of(made.named("burst", burst))])
    rows = changes.sheet(found).rows
    one_sided = {"bytes written": "only in B", "requests written": "only in B"}
    assert dict(rows.head(2).select("what", "said_difference").iter_rows()) == one_sided
    assert rows.head(2)["verdict"].to_list() == ["cannot be decided"] * 2


def test_a_share_differs_by_at_most_all_of_it() -> None:
    table = overview_of(side("a", range(3), count=60), side("b", range(100, 103), count=60)).table
    assert table.filter(what="random writes").select("lo", "hi").row(0) == (-1, 1)


@pytest.mark.parametrize(("every", "is_shown"), [(2, True), (14, False)])
def test_a_small_part_on_one_side_needs_repeated_recordings(every: int, is_shown: bool) -> None:
    """Whether the kernel writes back the -shm file of a database, for example, differs between runs of one program."""

    def recording(name: str, other: str) -> compare.Recording:
        rows = [row for row in workload(1) if row["op"] == "write"]
        types = ["sqlite_db" if n % every else other for n in range(len(rows))]
        kinds = [{"block_type": "data", "file_type": kind, "request_id": n} for n, kind in enumerate(types)]
        io = [row | kind | {"bytes": 4096} for row, kind in zip(rows, kinds, strict=True)]
        found = compare.Recording.of(made.capture(rows, io))
        return replace(found, title=name, facts={**found.facts, "capture_id": name})

    found = shown([recording("with", "sqlite_shm")], [recording("without", "sqlite_db")])
    assert ("to sqlite_shm files" in found) is is_shown


def test_reads_on_one_side_need_repeated_recordings() -> None:
    """The page cache may have held the data in one run. Whole runs then differ, however long they are."""
    writes = [[row for row in workload(seed) if row["op"] == "write"] for seed in (1, 2, 3)]
    cached = [compare.Recording.of(made.named(f"cached{number}", rows)) for number, rows in enumerate(writes)]
    assert not {"bytes read", "requests read"} & shown(cached[:1], side("b", [101])).keys()
    assert shown(cached, side("b", [101, 102, 103]))["bytes read"] == "worse"


def test_sides_without_anything_in_common_are_an_error() -> None:
    observed = [observe(one) for one in (*side("a", [1]), *side("b", [2]))]
    empty = replace(observed[1], tables={}, latencies=observed[1].latencies.clear())
    with pytest.raises(InputError, match="b2: has no requests"):
        of_observed(observed[:1], [empty])
    with pytest.raises(InputError, match="the same recording"):
        of_observed(observed[:1], observed[:1])


def test_what_only_one_side_records_is_named() -> None:
    first, second = ([observe(one)] for one in (*side("a", [1]), *side("b", [2])))
    found = of_observed(first, [replace(second[0], records_fsyncs=True)])
    assert found.not_compared == ("calls of fsync: only recorded in b2",)


def test_the_words_and_rows_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    found = overview_of(side("a", [1]), side("b", [101], times=3))
    sheet = changes.sheet(found)
    printed = text.sheet(sheet, is_whole=True)
    assert sheet.rows.height == min(changes.MOST_ROWS, found.table.height)
    assert sheet.rows["verdict"].to_list()[0] in SHOWN
    assert "bytes written" in printed
    assert "worse" in printed
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, text.sheet(sheet, is_whole=True).splitlines())) <= 80
    first = list(changes.first_lines(found))
    assert first[0].startswith("A: a1, 1 recording, ")
    assert first[2].startswith("B compared with A: of ")
    lines = list(changes.last_lines(found))
    assert any("record 5 of each" in line for line in lines)
    assert any("50 % in times" in line for line in lines)


def write(path: Path, seed: int, **given: Any) -> str:
    rows = ["process,device,rw_flag,sector,size,timestamp"]
    for row in workload(seed, **given):
        letter = "W" if row["op"] == "write" else "R"
        rows.append(f"app-1,8388608,{letter},{row['sector']},{row['nr_sectors']},{1 + row['issue_ns'] / 1e9:.9f}")
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_the_command_answers_for_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(tmp_path / "old.csv", 1), write(tmp_path / "[red]new.csv", 101, times=3)]
    assert cli.main(["compare", *paths]) == 0
    printed = capsys.readouterr().out
    assert "B: [red]new.csv, 1 recording" in printed
    assert "worse" in printed
    assert cli.main(["compare", *paths, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["first"], told["recordings"]) == ("old.csv", [1, 1])
    assert {row["verdict"] for row in told["rows"]} <= set(VERDICTS)
    page = tmp_path / "page.html"
    assert cli.main(["compare", *paths, "--report", str(page)]) == 0
    assert "What cannot be decided?" in page.read_text()


@pytest.mark.parametrize(
    ("words_", "message"),
    [(["--by", "device"], "--by needs --measure"), (["third.csv"], "give two captures"), (["--rank"], "--rank needs")],
)
def test_the_command_says_what_it_needs(words_: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", "a.csv", "b.csv", *words_])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(1, 1), (2, 3), (2, 3)], "a is fastest; b and c cannot be distinguished"),
        ([(1, 3), (1, 3), (1, 3)], "a, b and c cannot be distinguished"),
        ([(1, 1), (2, 2), (3, 3)], "a is fastest; b is next; c is last"),
        ([(1, 2), (1, 3), (2, 3)], "a, b and c cannot all be distinguished"),
        ([(1, 1)], "a is fastest"),
    ],
)
def test_ranks_in_words(ranges: list[tuple[int, int]], said: str) -> None:
    rows = [
        {"metric": "iops", "device": name, "rank_from": first, "rank_to": last, "unit": "1/s"}
        for name, (first, last) in zip("abc", ranges, strict=False)
    ]
    assert words.ranks(pl.DataFrame(rows), ["device"], set(), "lower") == [f"operations: {said}"]


def test_an_emulated_device_is_marked_among_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, device in (("a", "Pixel 6a"), ("b", "emulator64_x86_64")):
        write(tmp_path / f"{name}.csv", ord(name), count=100)
        out = str(tmp_path / name)
        assert cli.main(["ingest", str(tmp_path / f"{name}.csv"), "--fact", f"device={device}", "-o", out]) == 0
    paths = [str(tmp_path / name) for name in "ab"]
    capsys.readouterr()
    assert cli.main(["compare", *paths, "--measure", "mix", "--by", "device", "--metric", "bytes", "--rank"]) == 0
    printed = capsys.readouterr().out
    assert "emulator64_x86_64 (emulated)" in printed
    assert "Pixel 6a (emulated)" not in printed
    assert "do not rank them with real devices" in printed


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"storage_model": "loop device"}, True),
        ({"storage_model": "QEMU HARDDISK"}, True),
        ({"build_fingerprint": "google/sdk_gphone64_x86_64/emu64x:14"}, True),
        ({"soc": "ranchu"}, True),
        ({"device": "Pixel 6a", "storage_model": "KLUDG4UHDC-B0E1"}, False),
        ({"device": "SM-G991B", "soc": "exynos2100"}, False),
        ({}, False),
    ],
)
def test_emulated_devices(facts: dict[str, Any], expected: bool) -> None:
    assert is_emulated(facts) is expected


def test_a_quantile_is_the_nearest_rank_and_lies_in_its_interval() -> None:
    chosen = np.random.default_rng(1)
    values = np.sort(chosen.lognormal(10, 1, 4000).round())
    windows = chosen.integers(0, 200, len(values))
    found = quantile([Histogram(values, windows, np.ones(len(values)), 200)], 0.99)
    assert found.value == values[math.ceil(0.99 * len(values)) - 1]
    low, high = found.bounds(2.0, 30.0, Scale.POSITIVE)
    assert low <= found.value <= high
    few = quantile([Histogram(values[:30], windows[:30], np.ones(30), 200)], 0.99)
    assert few.bounds(3.0, 10.0, Scale.POSITIVE)[1] == math.inf
