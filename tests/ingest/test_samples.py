"""Table samples from procmon's records, alone or with a trace, and values derived from it.

They are compared with manual sums.
"""

from __future__ import annotations

import lzma
import random
import shutil
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import built, made, record_writer
from support.record_writer import Field, Type

import androstep_analysis as androstep
from androstep_analysis import capture, ingest, measures, plot, schema
from androstep_analysis.capture import derivation
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.ingest import record

pytestmark = pytest.mark.filterwarnings("ignore:.*the probe counted:androstep_analysis.common.errors.LossWarning")
"""Ignored warnings: processes that even root may not read, and ticks missed on a busy machine (see test_procmon.py)."""

MS, S = 1_000_000, 1_000_000_000
DATA = Path(__file__).parents[1] / "data"
TRACE = DATA / "perfetto_compact.dat.xz"


WRITER = "dd-of-samples"
"""The name of a program that is unique on this machine."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two seconds of this machine during writes."""
    directory = tmp_path_factory.mktemp("procmon")
    writer = shutil.copy(shutil.which("dd") or "dd", directory / WRITER)
    zeros = '"$1" if=/dev/zero of="$0" bs=64k'
    script = f"{zeros} count=64 conv=fsync; sleep 1.5; exec {zeros} count=16"
    path = directory / "samples.rec"
    built.run(
        built.program("procmon"), "-q", "-o", path, "--hz", "20", "--", "sh", "-c", script, directory / "data", writer
    )
    return path


TYPES = {
    "text": {
        **dict.fromkeys(("ts_ns", "before_ns"), "int64"),
        **dict.fromkeys(("file", "parts_left"), "uint32"),
        **dict.fromkeys(("path", "text", "numbers"), "string"),
    },
    "tick": {
        **dict.fromkeys(("ts_ns", "late_ns", "took_ns", "cpu_ns"), "int64"),
        **dict.fromkeys(("missed", "processes", "began", "ended"), "uint32"),
    },
    "task": {
        **dict.fromkeys(("started_ns", "listed_ns"), "int64"),
        **dict.fromkeys(("pid", "tid", "uid"), "int32"),
        **dict.fromkeys(("comm", "cmdline", "package"), "string"),
    },
}
POLARS = {"uint32": pl.UInt32, "int32": pl.Int32, "int64": pl.Int64, "string": pl.String}


def written(path: Path, types: dict[str, dict[str, str]] = TYPES) -> Path:
    """Return a file as written by procmon, without any record."""
    tables = []
    for name, fields in types.items():
        described = tuple(Field(field, dtype, "A field.", dtype[0] != "u") for field, dtype in fields.items())
        frame = pl.DataFrame(schema={field: POLARS[dtype] for field, dtype in fields.items()})
        tables.append((Type(name, "A record.", described), frame))
    record_writer.write(path, "procmon", "0", tables)
    return path


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_ticks_are_counters_of_procmon(recorded: Path) -> None:
    found = ingest.read(recorded).samples.collect()
    assert found["ts_ns"].is_sorted()
    assert (
        found.filter(counter="procmon.cpu")["value"].to_list()
        == record.read(recorded).tables["tick"]["cpu_ns"].to_list()
    )


def test_it_is_a_recording_of_its_own(recorded: Path, tmp_path: Path) -> None:
    opened = androstep.open(recorded)
    made_of_it = capture.create([recorded], tmp_path / "capture")
    again = androstep.open(tmp_path / "capture")
    for found in (opened, made_of_it, again):
        assert found.format == "procmon samples" and found.facts["clock"] == "boot" and found.facts["kernel"]
        assert found.about["rows"]["samples"] > 100 and WRITER in found.tasks.collect()["comm"]
    assert again.manifest.of_role("samples")[0].path == "raw/samples.rec"
    assert again.samples.collect().equals(opened.samples.collect())
    assert schema.conform(again.samples.collect(), "samples").height


@pytest.mark.prove
@pytest.mark.parametrize(
    ("trace", "clock", "header"),
    [
        (TRACE, "boot", None),
        (DATA / "syscalls" / "pages.tar.zst", "mono", "monotonic_offset_ns"),
        (DATA / "syscalls" / "strace.log.zst", "realtime", "realtime_offset_ns"),
    ],
)
def test_beside_a_trace_it_is_in_its_clock(
    recorded: Path, tmp_path: Path, trace: Path, clock: str, header: str | None
) -> None:
    alone = androstep.open(trace)
    together = capture.create([trace, recorded], tmp_path / "capture")
    assert alone.facts["clock"] == clock
    offset = record.read(recorded).header[header] if header else 0
    own = androstep.open(recorded).samples.collect()
    assert together.samples.collect().equals(own.with_columns(pl.col("ts_ns") + offset))
    assert (together.first_ns, together.last_ns, together.format) == (alone.first_ns, alone.last_ns, alone.format)
    assert together.requests.collect().equals(alone.requests.collect())
    assert set(alone.tasks.collect()["comm"]) < set(together.tasks.collect()["comm"])


def test_in_the_directory_of_iotrace_it_is_found(recorded: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "trace.dat").write_bytes(lzma.decompress(TRACE.read_bytes()))
    shutil.copy(recorded, directory / "samples.rec")
    about = {"facts": {}, "realtime_offset_ns": None, "devices": [], "mounts": [], "lost_events": 0}
    (directory / "recording.json").write_text(str(about).replace("'", '"').replace("None", "null"))
    found = capture.create([directory], tmp_path / "capture")
    assert found.about["rows"]["samples"] and found.about["rows"]["block_events"]
    assert {source.role for source in found.manifest.sources} == {"trace", "samples", "recording"}


def test_a_clock_that_nothing_tells_of_is_refused(recorded: Path, tmp_path: Path) -> None:
    trace = tmp_path / "blk.txt"
    trace.write_text("  8,0    1        1     0.000001000   100  Q   W 1000 + 8 [one]\n")
    with pytest.raises(InputError, match="the samples use the clock boot, the recording uses"):
        capture.create([trace, recorded], tmp_path / "capture")
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize("part", [0.01, 0.5, 0.9])
def test_of_a_cut_file_the_rest_is_read(recorded: Path, tmp_path: Path, part: float) -> None:
    data = recorded.read_bytes()
    first_readings = data.index(record.MAGIC + b"\1\0\2\0")
    behind = data.index(record.MAGIC, first_readings + 1)
    path = tmp_path / "cut.rec"
    path.write_bytes(data[: behind + int((len(data) - behind) * part)])
    whole = ingest.read(recorded).samples.collect()
    with pytest.warns(LossWarning, match="the file has no trailer"):
        found = ingest.read(path)
    assert {"torn"} <= {loss.kind for loss in found.losses}
    counter = [name for name in whole.columns if name not in ("ts_ns", "value")]
    rest = found.samples.collect()
    assert 0 < rest.height <= whole.height
    # Except the last one of each counter, which may equal the previous reading.
    last = rest.group_by(counter).agg(pl.col("ts_ns").max())
    rest = rest.join(last, on=[*counter, "ts_ns"], how="anti", nulls_equal=True)
    assert rest.join(whole, on=whole.columns, how="anti", nulls_equal=True).is_empty()


def test_changes_without_the_text_before_them_are_counted(recorded: Path, tmp_path: Path) -> None:
    data = bytearray(recorded.read_bytes())
    first_texts = data.index(record.MAGIC + b"\1\0\2\0")
    data[first_texts + 5000] ^= 1
    path = tmp_path / "x.rec"
    path.write_bytes(data)
    with pytest.warns(
        LossWarning, match="readings cannot be decoded: the texts that they depend on are lost or damaged"
    ):
        found = ingest.read(path)
    assert {loss.kind for loss in found.losses} >= {"damaged", "baseless"}


def test_what_another_probe_wrote_under_this_name_is_refused(tmp_path: Path) -> None:
    for name in TYPES:
        wrong = {key: fields for key, fields in TYPES.items() if key != name}
        with pytest.raises(InputError, match=f"its {name} records lack fields"):
            ingest.read(written(tmp_path / "x.rec", wrong))
    with pytest.raises(InputError, match="its header lacks page_bytes, clock_hz and opened_ns"):
        ingest.read(written(tmp_path / "x.rec"))


# --- analysis --------------------------------------------------------------------------------------------------------


def samples(rows: list[tuple[int, str, int]], **of: Any) -> pl.DataFrame:
    """Return readings (ts_ns, counter, value) as rows, by default of counters of the system."""
    about = {"scope": "system", "unit": "ns"} | of
    return made.table("samples", [dict(ts_ns=ts, counter=name, value=value, **about) for ts, name, value in rows])


def walk(seed: int, counter: str, **of: Any) -> pl.DataFrame:
    """Return a counter that grows, stays, and restarts once, read at irregular times."""
    chosen = random.Random(seed)
    ts_ns, value, rows = chosen.randrange(S), chosen.randrange(S), []
    for step in range(60):
        rows.append((ts_ns, counter, value))
        ts_ns += chosen.randrange(1, 300 * MS)
        value = 0 if step == 30 else value + chosen.choice([0, 0, 10 * MS, chosen.randrange(200 * MS)])
    return samples(rows, **of)


def grown(rows: list[tuple[int, int]], start_ns: float, end_ns: float) -> float:
    """Return the growth of a counter, with every step spread evenly over its time."""
    total = 0.0
    for (t0, v0), (t1, v1) in pairwise(rows):
        overlap = min(t1, end_ns) - max(t0, start_ns)
        if v1 > v0 and overlap > 0:
            total += (v1 - v0) * overlap / (t1 - t0)
    return total


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bin_ns", [70 * MS, S, 100 * S])
def test_rates_are_sums_of_straight_lines(seed: int, bin_ns: int) -> None:
    table = pl.concat([walk(seed, "x", instance="a"), walk(seed + 50, "x", instance="b"), walk(seed, "y")])
    found = measures.counter_rate(table.sample(fraction=1, shuffle=True, seed=seed), ["x"], bin_ns=bin_ns)
    assert set(found["unit"]) == {"ns/s"} and set(found["instance"]) == {"a", "b"}
    for instance in ("a", "b"):
        rows = table.filter(instance=instance).select("ts_ns", "value").rows()
        bins = found.filter(instance=instance).sort("ts_ns")
        first, last = rows[0][0], rows[-1][0]
        assert bins["ts_ns"].to_list() == list(range(first // bin_ns * bin_ns, last, bin_ns))
        assert bins["n"].sum() == len(rows)
        for ts_ns, value in bins.select("ts_ns", "value").iter_rows():
            start, end = max(ts_ns, first), min(ts_ns + bin_ns, last)
            assert value * (end - start) / S == pytest.approx(grown(rows, start, end), abs=1)


def test_readings_that_are_left_out_change_nothing() -> None:
    values = [0, 0, 0, 5, 5, 5, 5, 9, 9, 20]
    every = samples([(number * 100 * MS, "x", value) for number, value in enumerate(values)])
    kept = every.filter(
        pl.Series([not (0 < n < 9 and values[n - 1] == v == values[n + 1]) for n, v in enumerate(values)])
    )
    assert kept.height == 7
    for bin_ns in (30 * MS, 100 * MS, 250 * MS):
        one, other = (measures.counter_rate(table, ["x"], bin_ns=bin_ns) for table in (every, kept))
        assert one["value"].to_list() == pytest.approx(other["value"].to_list())
    assert measures.levels(every, ["x"])["value"].to_list() == measures.levels(kept, ["x"])["value"].to_list()


def test_cpu_time_by_state() -> None:
    names = {
        "user": 30,
        "nice": 1,
        "system": 9,
        "irq": 2,
        "softirq": 3,
        "steal": 5,
        "guest": 7,
        "idle": 40,
        "iowait": 10,
    }
    begin = [(0, f"stat.{name}", 1000) for name in names]
    table = samples([*begin, *((S, f"stat.{name}", 1000 + value * MS) for name, value in names.items())])
    found = measures.cpu(table)
    times, shares = (
        dict(found.filter(metric=name).select("state", "value").rows()) for name in ("cpu_time", "cpu_share")
    )
    assert times == pytest.approx({"active": 0.050, "idle": 0.040, "iowait": 0.010})
    assert shares == pytest.approx({"active": 0.5, "idle": 0.4, "iowait": 0.1})
    # Perfetto has counters of each CPU and no total. If there are both, the total is used.
    halves = pl.concat(
        table.with_columns(
            scope=pl.lit("cpu", schema.enum("samples", "scope")), instance=pl.lit(cpu), value=pl.col("value") // 2
        )
        for cpu in ("0", "1")
    )
    assert measures.cpu(halves).drop("n").equals(found.drop("n"))
    assert measures.cpu(pl.concat([table, halves])).equals(found)
    binned = measures.cpu(table, bin_ns=250 * MS).filter(metric="cpu_time")
    assert binned.height == 12 and binned.filter(state="active")["value"].to_list() == pytest.approx([0.0125] * 4)
    assert measures.cpu(table.clear()).is_empty() and measures.cpu(table.clear(), bin_ns=S).is_empty()


def test_cpu_and_bytes_by_process() -> None:
    def process(pid: int, comm: str, **counters: int) -> pl.DataFrame:
        rows = [(ts, name.replace("__", "."), value * ts // S) for name, value in counters.items() for ts in (0, S)]
        return samples(rows, scope="process", pid=pid, instance=comm)

    parts = [
        process(1, "a", stat__utime=100 * MS, stat__stime=50 * MS, io__read_bytes=4096),
        process(2, "a", stat__utime=30 * MS, io__wchar=7),
        process(3, "b", stat__stime=20 * MS, io__write_bytes=10, io__cancelled_write_bytes=3),
        samples([(0, "stat.user", 0), (S, "stat.user", 250 * MS), (0, "stat.idle", 0), (S, "stat.idle", 750 * MS)]),
    ]
    table = pl.concat(parts)
    found = measures.cpu_by_process(table)
    assert dict(found.select("comm", "value").rows()) == pytest.approx({"a": 0.180, "b": 0.020, None: 0.050})
    assert set(found["coverage"]) == {0.8}
    by_pid = dict(measures.cpu_by_process(table, by=("pid",)).select("pid", "value").rows())
    assert by_pid == pytest.approx({1: 0.150, 2: 0.030, 3: 0.020, None: 0.050})
    moved = measures.process_io(table).filter(pl.col("value") > 0).select("metric", "comm", "value").rows()
    assert set(moved) == {
        ("read_bytes", "a", 4096),
        ("wchar", "a", 7),
        ("write_bytes", "b", 10),
        ("cancelled_write_bytes", "b", 3),
    }


def test_busyness_and_pressure() -> None:
    disk = samples(
        [(0, "diskstats.io_ticks", 5), (S, "diskstats.io_ticks", 255), (2 * S, "diskstats.io_ticks", 255)],
        scope="device",
        dev=9,
        instance="sda",
        unit="ms",
    )
    assert measures.busyness(disk).select("dev", "disk", "value").rows() == [(9, "sda", 0.125)]
    assert measures.busyness(disk, bin_ns=S)["value"].to_list() == [0.25, 0.0]
    waits = samples(
        [
            (0, "pressure.io.some", 0),
            (S, "pressure.io.some", 300 * MS),
            (0, "pressure.io.full", 1),
            (S, "pressure.io.full", 1),
        ]
    )
    found = measures.pressure(waits).select("resource", "tasks", "value").rows()
    assert sorted(found) == [("io", "full", 0.0), ("io", "some", 0.3)]


def test_levels_are_means_over_time() -> None:
    table = samples([(0, "meminfo.Dirty", 10), (3 * S, "meminfo.Dirty", 10), (4 * S, "meminfo.Dirty", 30)], unit="kB")
    found = dict(measures.levels(table, ["meminfo.Dirty"]).select("metric", "value").rows())
    assert found == {"mean": 12.5, "least": 10.0, "greatest": 30.0}
    one = samples([(0, "x", 3)])
    assert measures.levels(one, ["x"])["value"].to_list() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("function", [measures.cpu, measures.busyness, measures.pressure])
def test_a_bin_has_a_length(function: Any) -> None:
    with pytest.raises(ValueError, match="at least 1 ns long"):
        function(samples([(0, "stat.idle", 0)]), bin_ns=0)


@pytest.mark.parametrize("seed", range(4))
def test_windows_add_up_to_the_whole(seed: int) -> None:
    table = pl.concat([walk(seed + number, "stat.user" if number % 2 else "stat.idle") for number in range(2)])
    whole = made.of_tables({name: schema.empty(name) for name in derivation.TABLES} | {"samples": table.sort("ts_ns")})
    first, last = (int(table["ts_ns"].to_numpy().min()), int(table["ts_ns"].to_numpy().max()) + 1)
    edges = sorted({first, last, *(random.Random(seed).randrange(first, last) for _ in range(5))})
    sums: dict[str, float] = defaultdict(float)
    for start, end in pairwise(edges):
        part = whole.window(start, end).samples.collect()
        assert part["ts_ns"].is_sorted() and part["ts_ns"].is_between(start, end - 1).all()
        for state, value in measures.cpu(part).filter(metric="cpu_time").select("state", "value").iter_rows():
            sums[state] += value
    expected = dict(measures.cpu(table).filter(metric="cpu_time").select("state", "value").rows())
    assert {state: sums[state] for state in expected} == pytest.approx(expected, abs=0.02)


def test_of_this_machine_time_is_conserved(recorded: Path) -> None:
    found = androstep.open(recorded)
    table = found.samples.collect()
    spans = (
        table.filter(counter="stat.idle", scope="cpu")
        .group_by("instance")
        .agg(pl.col("ts_ns").max() - pl.col("ts_ns").min())
    )
    seconds = spans["ts_ns"].sum() / S
    states = measures.cpu(table).filter(metric="cpu_time")["value"].sum()
    assert states == pytest.approx(seconds, rel=0.1, abs=0.2)
    by_dd = measures.process_io(table).filter(metric="wchar", comm=WRITER)["value"].sum()
    assert 16 << 16 <= by_dd < (80 << 16) + 10_000  # the first of the two may have come and gone between readings


# --- figures ---------------------------------------------------------------------------------------------------------


def states(active: float, idle: float, iowait: float, **of: str) -> pl.DataFrame:
    rows = [("active", active), ("idle", idle), ("iowait", iowait)]
    return pl.DataFrame(
        [
            {"metric": "cpu_time", "state": name, "value": value, "unit": "s", "n": 1, "coverage": 1.0, **of}
            for name, value in rows
        ]
    )


def test_bars_of_cpu_time_are_stacked_by_workload_and_storage() -> None:
    parts = [
        states(3, 1, 2, storage="Internal", workload="WebBench"),
        states(1, 1, 1, storage="Internal", workload="AppInstall"),
        states(4, 2, 3, storage="$Kingston$", workload="WebBench"),
    ]
    ax = plot.cpu(pl.concat(parts), group="workload", unit="ticks")
    drawn = {
        str(container.get_label()): [(bar.get_y(), bar.get_height()) for bar in container.patches]
        for container in ax.containers
    }
    assert drawn == {
        "active": [(0, 300), (0, 400), (0, 100)],
        "iowait": [(300, 200), (400, 300), (100, 100)],
        "idle": [(500, 100), (700, 200), (200, 100)],
    }
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert len(labels) == 3 and "Kingston" in labels[1] and ax.get_ylabel() == "CPU ticks of 10 ms"
    assert {text.get_text() for text in ax.texts} == {"WebBench", "AppInstall"}
    assert plot.png(ax)
    with pytest.raises(ValueError, match="the figure does not show workload"):
        plot.cpu(pl.concat(parts))


def test_lines_over_time_are_the_bins() -> None:
    disks = [
        samples(
            [(0, "diskstats.io_ticks", 0), (S, "diskstats.io_ticks", 10 * number), (2 * S, "diskstats.io_ticks", 0)],
            scope="device",
            dev=number,
            instance=f"d{number}",
            unit="ms",
        )
        for number in range(10)
    ]
    table = measures.busyness(pl.concat(disks), bin_ns=S).drop("dev")
    ax = plot.samples_over_time(table, metric="busy_ratio", line="disk")
    assert [str(line.get_label()) for line in ax.lines] == [f"d{number}" for number in range(2, 10)]
    assert [float(y) for y in ax.lines[-1].get_ydata()] == pytest.approx([9.0, 0.0, 0.0])
    assert [float(x) for x in ax.lines[-1].get_xdata()] == [0.0, 1.0, 2.0]
    legend = ax.get_legend()
    assert legend is not None and legend.get_title().get_text() == "2 more are not drawn."
    assert "no data" in {
        text.get_text() for text in plot.samples_over_time(table.clear(), metric="busy_ratio", line="disk").texts
    }
