"""AndroBench's results: its database, what sqlite3 prints of it, and the text of its screen."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
from pathlib import Path

import polars as pl
import pytest

import androstep_analysis as androstep
from androstep_analysis import bench
from androstep_analysis.common.errors import InputError, LossWarning

OLD = (
    "_id INTEGER PRIMARY KEY AUTOINCREMENT, date TEXT, target TEXT, filesize_read INTEGER, filesize_write INTEGER, "
    "buffersize_seq INTEGER, buffersize_rnd INTEGER, use_buffer TEXT, avg_mbps_sr DOUBLE, avg_mbps_sw DOUBLE, "
    "avg_mbps_rr DOUBLE, avg_iops_rr DOUBLE, avg_mbps_rw DOUBLE, avg_iops_rw DOUBLE, perf_sqlite_insert DOUBLE, "
    "perf_sqlite_update DOUBLE, perf_sqlite_delete DOUBLE, macro_browser_time DOUBLE, macro_market_time DOUBLE, "
    "macro_camera_time DOUBLE, macro_camcorder_time DOUBLE"
)
COLUMNS = {"old": OLD, "new": OLD + ", one_filesize INTEGER, num_thread INTEGER"}

ROW = (1, "2026-11-28 10:00:00", "/data (f2fs, mq-deadline)", 64, 32, 32_768, 4, "No")
RATES = (512.0, 256.5, 100.5, 25_728.25, 50, 12_800.75, 2345.67, 0, 3000.5)
WANT = [
    ("seq_read", "bandwidth", 512.0 * (1 << 20)),
    ("seq_write", "bandwidth", 256.5 * (1 << 20)),
    ("rand_read", "bandwidth", 100.5 * (1 << 20)),
    ("rand_write", "bandwidth", 50.0 * (1 << 20)),
    ("seq_read", "iops", 16.0),
    ("seq_write", "iops", 8.016),
    ("rand_read", "iops", 25_728.25),
    ("rand_write", "iops", 12_800.75),
    ("sqlite_insert", "tps", 2345.67),
    ("sqlite_delete", "tps", 3000.5),
]


def database(path: Path, columns: str, *, is_wal: bool = False) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as made, made:
        if is_wal:
            made.execute("PRAGMA journal_mode = WAL")
        made.execute(f"CREATE TABLE history ({COLUMNS[columns]})")
        row = [*ROW, *RATES, 0, 0, 0, 0, *([16, 8] if columns == "new" else [])]
        made.execute(f"INSERT INTO history VALUES ({', '.join('?' * len(row))})", row)
    return path


def found(path: Path) -> pl.DataFrame:
    return bench.measures(bench.read(path).tables).with_columns(pl.col("test").cast(pl.String))


def check(measured: pl.DataFrame, threads: int, file_mb: dict[str, int]) -> None:
    assert sorted(measured.select("test", "metric", "value").rows()) == sorted(WANT)
    files = measured.filter(workload="file")
    assert files["threads"].unique().to_list() == [threads]
    assert {*files.select("test", "file_bytes").rows()} == {(test, mb << 20) for test, mb in file_mb.items()}
    assert {*measured.select("directory", "fs_type", "tool").rows()} == {("/data", "f2fs", "androbench")}


MB = {"old": {"seq_read": 64, "seq_write": 32, "rand_read": 64, "rand_write": 32}}
MB["new"] = dict.fromkeys(MB["old"], 16)


@pytest.mark.parametrize("is_wal", [False, True])
@pytest.mark.parametrize("columns", COLUMNS)
def test_the_database(columns: str, is_wal: bool, tmp_path: Path) -> None:
    path = database(tmp_path / "history.db", columns, is_wal=is_wal)
    check(found(path), 8 if columns == "new" else 1, MB[columns])
    assert androstep.open(path).about["bench"]["runs"] == 6


@pytest.mark.parametrize("options", [[], ["-csv"], ["-header"], ["-header", "-csv"]])
@pytest.mark.parametrize("columns", COLUMNS)
def test_what_sqlite3_prints(columns: str, options: list[str], tmp_path: Path) -> None:
    path = database(tmp_path / "history.db", columns)
    done = subprocess.run(["sqlite3", *options, path, "select * from history"], capture_output=True, check=True)
    (tmp_path / "rows.txt").write_bytes(done.stdout.replace(b"\n", b"\r\n"))
    check(found(tmp_path / "rows.txt"), 8 if columns == "new" else 1, MB[columns])


SCREEN = """\
AndroBench 5.0.1, Pixel 6a
Sequential Read: 1511.5 MB/s
Sequential Write  {write}
Random Read 120.25 MB/s, 30784.5 IOPS (4KB)
Random Write\t- n/a
SQLite Insert 2345.6 TPS, 0.3 sec
"""


def test_the_text_of_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "screen.txt"
    path.write_text(SCREEN.format(write="256 MB/s"))
    assert sorted(found(path).select("test", "metric", "value", "block_bytes").rows()) == [
        ("rand_read", "bandwidth", 120.25 * (1 << 20), 4096),
        ("rand_read", "iops", 30_784.5, 4096),
        ("seq_read", "bandwidth", 1511.5 * (1 << 20), None),
        ("seq_write", "bandwidth", 256.0 * (1 << 20), None),
        ("sqlite_insert", "tps", 2345.6, None),
    ]


@pytest.mark.parametrize("write", ["256,5 MB/s", "1.256,5 MB/s", "1,256.5 MB/s", "2.5.6 MB/s"])
def test_a_number_in_other_writing_is_a_loss(write: str, tmp_path: Path) -> None:
    path = tmp_path / "screen.txt"
    path.write_text(SCREEN.format(write=write))
    with pytest.warns(LossWarning, match="1 lines of AndroBench are unknown: “Sequential Write"):
        assert "seq_write" not in found(path)["test"].to_list()


@pytest.mark.parametrize(
    "text",
    [
        "CrystalDiskMark 3.0\nSequential Read : 503.2 MB/s\nSequential Write : 403.2 MB/s\n",
        "Sequential read 12 MB/s\n",
        "AndroBench measures storage.\n",
    ],
)
def test_other_programs_are_not_taken_for_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="not results of a known benchmark"):
        bench.read(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE history; CREATE VIEW history AS "
        "WITH RECURSIVE n(avg_mbps_sr) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT * FROM n",
        "UPDATE history SET avg_mbps_sr = 1e99",
        "UPDATE history SET num_thread = 'many'",
        "UPDATE history SET target = hex(zeroblob(8000))",
    ],
)
def test_a_database_that_means_harm_is_refused(statement: str, tmp_path: Path) -> None:
    path = database(tmp_path / "history.db", "new")
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(statement)
    with pytest.raises(InputError, match=r"history\.db"):
        bench.read(path)


def test_a_damaged_database_is_read_or_refused(tmp_path: Path) -> None:
    data = database(tmp_path / "history.db", "new").read_bytes()
    for place in range(0, len(data), 97):
        path = tmp_path / f"{place}.db"
        path.write_bytes(data[:place] + b"\xff\x7f" + data[place + 2 :])
        with contextlib.suppress(InputError):
            bench.read(path)
        path.write_bytes(data[:place])
        with contextlib.suppress(InputError):
            bench.read(path)
