"""Block CSV files, against counts made by awk and a plain loop."""

from __future__ import annotations

import gzip
import json
import random
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import corpus
import polars as pl
import pytest
import readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from androstep_analysis import ingest, units
from androstep_analysis.errors import InputError

FILES = ["pixel6a_cod_exec", "pixel6a_pubg_exec", "pixel6a_slideshow_exec", "pixel6a_telegram_precond"]
HEADER = "proces,device,rw_flag,sector,size,timestamp\r\n"


def nearest_ns(seconds: str) -> int:
    return int((Decimal(seconds) * 10**9).to_integral_value(ROUND_HALF_UP))


@pytest.mark.parametrize("name", FILES)
def test_corpus(name: str) -> None:
    path = corpus.path(f"block_csv/{name}.csv.gz")
    block = readers.read(path).block
    expected: dict[str, Any] = json.loads(corpus.path(f"block_csv/{name}.csv.gz.expected.json").read_text())
    counts, sectors = readers.tally(block, "rwbs"), readers.total(block, "nr_sectors", "rwbs")
    first, last = block["ts_ns"][0] / 1e9, block["ts_ns"][-1] / 1e9
    assert sorted(expected["output"]) == sorted(
        [
            *(f"{rw} {counts[rw]} {sectors[rw]}" for rw in counts),
            *(f"dev {dev} {n}" for dev, n in readers.tally(block, "dev").items()),
            f"t {first:.6f} {last:.6f}",
            f"maxsector {(block['sector'] + block['nr_sectors']).max()}",
        ]
    )
    assert set(block["dev"]) == {units.dev(8, 0)}


@pytest.mark.parametrize("name", FILES)
def test_rows_and_repeats(name: str) -> None:
    path = corpus.path(f"block_csv/{name}.csv.gz")
    staging = readers.read(path)
    rows = [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().split("\r\n")[1:-1]]
    rows.sort(key=lambda row: nearest_ns(row[5]))
    assert staging.block["ts_ns"].to_list() == [nearest_ns(row[5]) for row in rows]
    tasks = [row[0].rpartition("-") for row in rows]
    # Some processes are a name only ("PoolThread", "AsyncTask"), none of which has a dash in it.
    assert staging.block["tid"].to_list() == [int(tid) if dash else None for _, dash, tid in tasks]
    comms = [comm if dash else name for comm, dash, name in tasks]
    assert staging.block["comm"].to_list() == [None if comm == "<...>" else comm for comm in comms]
    last: dict[tuple[str, ...], int] = {}
    repeats = 0
    for _, dev, rw, sector, size, time in rows:
        now = nearest_ns(time)
        repeats += now - last.get((dev, rw, sector, size), -(10**18)) <= 50_000_000
        last[dev, rw, sector, size] = now
    assert readers.losses(staging) == {"repeated": repeats}
    assert f"{repeats} of {len(rows)} rows ({repeats / len(rows):.1%})" in staging.losses[0].message
    assert staging.lost_events == 0


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        ("159273.83748699998", 159_273_837_487_000),
        ("49680.645025000005", 49_680_645_025_000),
        ("7", 7_000_000_000),
        ("7.5", 7_500_000_000),
        ("0.9999999996", 1_000_000_000),
    ],
)
def test_time_is_rounded_to_the_nearest_ns(tmp_path: Path, time: str, ns: int) -> None:
    staging = readers.read_bytes(tmp_path, f"{HEADER}a-1,8388608,R,8,16,{time}\r\n".encode())
    assert staging.first_ns == ns


def test_other_header(tmp_path: Path) -> None:
    text = "timestamp,process,device,rw_flag,sector,size\n1.5,a-b-7,1048577,W,8,16\n2.5,no thread,1048577,R,8,16\n"
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.block.select("ts_ns", "tid", "comm", "dev", "event", "action").rows() == [
        (1_500_000_000, 7, "a-b", units.dev(1, 1), "W", "queue"),
        (2_500_000_000, None, "no thread", units.dev(1, 1), "R", "queue"),
    ]


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    text = (
        HEADER + "a-1,8388608,R,8,16,1.0\r\n\r\na-1,8388608,R,x,16,1.0\r\na-1,8388608,R,8\r\nb-2,8388608,W,9,8,1.5\r\n"
    )
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.events == {"R": 1, "W": 1}
    assert readers.losses(staging) == {"unreadable": 2}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_truncation(tmp_path: Path, packed: bool) -> None:
    raw = corpus.path("block_csv/pixel6a_telegram_precond.csv.gz").read_bytes()
    raw = raw if packed else gzip.decompress(raw)
    pick = random.Random(packed)
    path = tmp_path / "cut"
    for cut in [pick.randrange(1, len(raw)) for _ in range(50)]:
        path.write_bytes(raw[:cut])
        left = readers.gunzip_what_is_there(raw[:cut]) if packed else raw[:cut]
        rows = left.count(b"\n") - 1
        if rows < 1:
            with pytest.raises(InputError):
                ingest.read(path)
            continue
        staging = readers.read(path)
        assert staging.block.height == rows
        assert sum(loss.kind == "torn" for loss in staging.losses) == packed + (not left.endswith(b"\n"))


COMM = st.text(st.characters(exclude_characters='\n\0"', exclude_categories=["Cs"]), max_size=15)


@given(st.lists(st.tuples(COMM, st.integers(0, 2**22), st.integers(0, 2**40)), min_size=1, max_size=8))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_names_may_hold_anything(tmp_path: Path, rows: list[tuple[str, int, int]]) -> None:
    text = HEADER + "".join(
        f"{comm}-{tid},8388608,R,{sector},8,{1000 + i}.25\r\n" for i, (comm, tid, sector) in enumerate(rows)
    )
    block = readers.read_bytes(tmp_path, text.encode()).block
    expected = [(None if comm == "<...>" else comm, tid, sector) for comm, tid, sector in rows]
    assert block.select("comm", "tid", "sector").rows() == expected
    assert block.filter(pl.col("ts_ns") % 10**9 != 250_000_000).is_empty()
