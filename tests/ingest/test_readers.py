"""Guarantees of every reader, for any format and any damage of the file.

A new format adds one line to `INPUTS`.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import corpus, readers

from androstep_analysis import capture, ingest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.ingest.staging import TABLES

Make = Callable[[Path], Path]
"""Writes an input into an empty directory, and returns the file to open."""


def of_corpus(*names: str) -> Make:
    """Return an input of these files of the corpus. The first one is opened."""

    def make(directory: Path) -> Path:
        copies = [Path(shutil.copyfile(corpus.path(name), directory / Path(name).name)) for name in names]
        return copies[0]

    return make


def head_of(name: str, lines: int) -> Make:
    """Return an input of the first lines of a text of the corpus."""

    def make(directory: Path) -> Path:
        path = directory / Path(name).name
        path.write_bytes(b"".join(corpus.path(name).read_bytes().splitlines(keepends=True)[:lines]))
        return path

    return make


def written(text: str) -> Make:
    """Return an input of one file with this text."""

    def make(directory: Path) -> Path:
        path = directory / "trace.txt"
        path.write_text(text)
        return path

    return make


INPUTS: dict[str, Make] = {
    "trace.dat 6": of_corpus("trace_dat/lisa_sched_load_trace.dat"),
    "trace.dat in zstd": of_corpus("kernel/ext4_host_6.18/trace.dat.zst"),
    "blktrace, one CPU": of_corpus("blktrace_bin/takeoverjp_sample.blktrace.0"),
    "blktrace, two CPUs": of_corpus("blktrace_bin/centos7/sda.blktrace.0", "blktrace_bin/centos7/sda.blktrace.1"),
    "blktrace in tar": of_corpus("kernel/ext4_guest_6.1/blktrace.tgz"),
    "Perfetto": of_corpus("perfetto/difftest_f2fs_iostat.pb"),
    "Open-CAS in tar": of_corpus("block_csv/opencas_sample_trace.tar.xz"),
    "ioshark in tar": of_corpus("ioshark/wl.tar"),
    "MobiGen script": of_corpus("androstep/mobigen.out.twitter"),
    "systrace HTML in zip": of_corpus("ftrace_text/systrace_wangzherongyao.html.zip"),
    "atrace": of_corpus("ftrace_text/catapult_atrace_data"),
    "atrace, compressed": of_corpus("ftrace_text/catapult_compressed_atrace_data.txt"),
    "block CSV": of_corpus("block_csv/pixel6a_telegram_precond.csv.gz"),
    "MOST .po": head_of("androstep/result.po", 900),
    "blkparse text": head_of("blkparse_text/android_swapcache_2.txt", 900),
    "ftrace text": of_corpus("androstep/ftrace_sqlite.txt"),
    "ftrace text with filesystem events": of_corpus("ftrace_text/novelinux_ext4-jbd2-open-write-fsync_traces.md"),
    "strace": of_corpus("strace/17461-com.android.settings.txt"),
    "fio iolog": written(
        "fio version 3 iolog\n0 /dev/sdb add\n"
        + "".join(f"{n} {name} write {n * 4096} 4096\n" for n in range(300) for name in ("/dev/sdb", "/data/a"))
    ),
    "ext4slower list": written(
        "TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n"
        + "".join(f"06:{n // 60:02}:{n % 60:02} cron 16464  R 1249    0          16.05 file{n}\n" for n in range(600))
    ),
}

SETS = frozenset({"blktrace, two CPUs"})
"""Inputs of several files, which are recognised by their names."""

CUTS = {100_000: 20, 1_000_000: 10, 1 << 40: 4}
"""The number of positions at which inputs below this size are damaged. Each takes a whole reading."""


@pytest.fixture(params=INPUTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    """Write the input into a directory of its own."""
    directory = tmp_path / "input"
    directory.mkdir()
    return INPUTS[name](directory)


def places(path: Path, seed: int) -> list[int]:
    """Return the positions of damage: random, but the same each time."""
    size = path.stat().st_size
    choose = random.Random(seed)
    return sorted(choose.randrange(size) for _ in range(next(n for limit, n in CUTS.items() if size < limit)))


def read_damaged(path: Path, data: bytes) -> readers.Read | None:
    """Return the readable part of damaged contents; None if they are refused with a message."""
    path.write_bytes(data)
    try:
        return readers.read(path)
    except InputError as refusal:
        assert str(refusal).isprintable() and path.name in str(refusal)
        return None


def tables(staging: readers.Read) -> dict[str, pl.DataFrame]:
    return {name: getattr(staging, name) for name in ("block", *TABLES[1:], "tasks")}


# --- whole ---------------------------------------------------------------------------------------------------------


def test_rows_make_sense(path: Path) -> None:
    """Check more than `readers.read` checks for every recording."""
    staging = readers.read(path)
    assert sum(staging.events.values()) > 0
    block = staging.block
    assert block.filter(pl.col("nr_sectors") < 0).is_empty()
    assert block.filter(pl.col("sector") < 0).is_empty()
    assert block.filter((pl.col("error").is_not_null()) & (pl.col("action") != "complete")).is_empty()
    is_list = staging.format in ("block_csv", "biosnoop")  # all events of a row share its number
    of_others = block.filter(pl.col("action") != "remap")["old_sector"]
    assert of_others.null_count() == (0 if is_list else of_others.len())
    assert block.filter(pl.col("comm") == "").is_empty()
    assert staging.lost_events >= 0
    if staging.lost_events:
        assert sum(loss.count for loss in staging.losses) >= staging.lost_events


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_a_capture_of_it_is_opened_without_reading_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = capture.create([path], tmp_path / "capture")
    kept = {table: frame.collect() for table, frame in made.tables.items()}
    monkeypatch.setattr(ingest, "read", None)
    opened = capture.open(tmp_path / "capture")
    assert opened.about == made.about
    for table, frame in opened.tables.items():
        assert_frame_equal(frame.collect(), kept[table])
    monkeypatch.undo()
    directly = capture.open(path)
    for table, frame in directly.tables.items():
        assert_frame_equal(frame.collect(), kept[table])
    assert repr(directly).isprintable() and directly._repr_html_()


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_windows_divide_a_recording(path: Path) -> None:
    whole = capture.open(path)
    if whole.first_ns is None or whole.last_ns is None:
        return
    middle = (whole.first_ns + whole.last_ns) // 2
    parts = whole.window(whole.first_ns, middle), whole.window(middle, whole.last_ns + 1)
    for table in (*TABLES, "requests", "io"):
        halves = [part.tables[table].select(pl.len()).collect().item() for part in parts]
        if table == "samples":  # counters have a value at the edge of a window even without a reading
            recorded = whole.samples.collect()
            halves = [
                part.samples.collect().join(recorded, on=recorded.columns, how="semi", nulls_equal=True).height
                for part in parts
            ]
        if table == "importance":  # each part has the earlier rows, which state the importance at its begin
            halves[1] -= halves[0]
        timed = whole.tables[table].filter(pl.col("ts_ns").is_not_null()) if table in TABLES else whole.tables[table]
        assert sum(halves) == timed.select(pl.len()).collect().item(), table
        rows = parts[0].tables[table].collect()
        assert_frame_equal(rows, whole.tables[table].collect()[: rows.height]) if table in TABLES[:2] else None


@pytest.mark.prove
def test_the_name_does_not_matter(name: str, path: Path) -> None:
    if name in SETS:
        return
    good = readers.read(path)
    other = readers.read(path.rename(path.with_name("picture.png")))
    for table, frame in tables(good).items():
        assert_frame_equal(frame, tables(other)[table])


def test_a_directory_and_an_empty_file_are_no_recording(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        ingest.read(tmp_path)
    for name in ("trace.dat", "sda.blktrace.0", "trace.pb", "wl.tar", "a.tgz", "a.zip", "a.csv.gz", "a.zst", "a.txt"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputError, match="the file is empty"):
            ingest.read(tmp_path / name)


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_threads_may_read_at_once(path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ingest.read, [path] * 2)
    assert first.events == second.events
    for table in TABLES:
        assert_frame_equal(first.table(table).collect(), second.table(table).collect())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_what_was_taken_is_given_back(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, threads and temporary files are released; memory as far as it can be measured."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))

    def times(n: int) -> tuple[int, int, int]:
        for _ in range(n):
            ingest.read(path)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return open_files(), threading.active_count(), pages * os.sysconf("SC_PAGE_SIZE")

    before = times(1)
    after = times(3)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert after[2] - before[2] < 64 << 20
    assert list(scratch.iterdir()) == []


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_two_processes_make_the_tables_of_one_capture(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    path = INPUTS["blktrace in tar"](tmp_path / "input")
    made = capture.create([path], tmp_path / "capture")
    kept = {table: frame.collect() for table, frame in made.tables.items()}
    shutil.rmtree(tmp_path / "capture/tables")
    code = "import sys, warnings, androstep_analysis as a; warnings.simplefilter('ignore'); a.open(sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "capture"]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    before = sorted((file.name, file.stat().st_mtime_ns) for file in (tmp_path / "capture/tables").iterdir())
    for table, frame in capture.open(tmp_path / "capture").tables.items():
        assert_frame_equal(frame.collect(), kept[table])
    after = sorted((file.name, file.stat().st_mtime_ns) for file in (tmp_path / "capture/tables").iterdir())
    assert after == before


# --- damaged -------------------------------------------------------------------------------------------------------


@pytest.mark.sanitized
@pytest.mark.prove
def test_truncated(path: Path) -> None:
    """Data before the truncation is read, and there are never more rows than in the whole file."""
    whole = readers.read(path)
    data = path.read_bytes()
    rows = {table: frame.height for table, frame in tables(whole).items()}
    seen = 0
    for place in places(path, 1):
        cut = read_damaged(path, data[:place])
        if cut is not None:
            seen += 1
            for table in ("block", "fs_events", "syscalls"):
                assert getattr(cut, table).height <= rows[table], (place, table)
    assert seen or len(data) < 2000


@pytest.mark.sanitized
@pytest.mark.prove
def test_garbage_after_the_head(path: Path) -> None:
    data = path.read_bytes()
    choose = random.Random(2)
    for place in places(path, 3)[::2]:
        read_damaged(path, data[:place] + choose.randbytes(min(len(data) - place, 1 << 16)))
    read_damaged(path, data[: min(len(data) // 2, 4096)] + choose.randbytes(1 << 16))


@pytest.mark.sanitized
@pytest.mark.prove
def test_flipped_bytes(path: Path) -> None:
    data = path.read_bytes()
    choose = random.Random(4)
    for rounds in (1, 1, 4, 16, 256):
        damaged = bytearray(data)
        for _ in range(rounds):
            damaged[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        read_damaged(path, bytes(damaged))


@pytest.mark.sanitized
def test_zeros_in_the_middle(path: Path) -> None:
    """A file that was being written during a power loss contains zeros."""
    data = path.read_bytes()
    third = len(data) // 3
    read_damaged(path, data[:third] + bytes(third) + data[2 * third :])
    read_damaged(path, data[: 2 * third] + bytes(len(data) - 2 * third))


def test_losses_are_told_once(path: Path) -> None:
    """Truncation in the middle of most formats is a loss, with one warning."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3 - 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            staging = ingest.read(path)
        except InputError:
            return
    assert [warning.category for warning in caught] == [LossWarning] * bool(staging.losses)
