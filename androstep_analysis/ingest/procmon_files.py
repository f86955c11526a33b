"""Find the counters in the texts of the files that procmon reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from androstep_analysis.common import schema

_WORDS = r"[^ \n]+"

_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_DISK = (
    *("read_ios", "read_merges", "read_sectors", "read_ticks", "write_ios", "write_merges", "write_sectors"),
    *("write_ticks", "in_flight", "io_ticks", "time_in_queue"),
    *("discard_ios", "discard_merges", "discard_sectors", "discard_ticks", "flush_ios", "flush_ticks"),
)
"""Documentation/block/stat.rst"""
_NET = ("bytes", "packets", "errors", "dropped")
_NET_COLUMNS = 8
"""The number of columns for received data. The columns for sent data follow."""


def _disk_unit(name: str) -> str:
    return {"sectors": "512 B sectors", "ticks": "ms", "queue": "ms"}.get(name.rpartition("_")[2], "I/Os")


def _net() -> Iterator[tuple[int, str, str]]:
    for first, side in ((0, "rx"), (_NET_COLUMNS, "tx")):
        for column, name in enumerate(_NET, first):
            yield column, f"{side}_{name}", "B" if name == "bytes" else "packets"


_COLUMNS = pl.DataFrame(
    [
        *(("cpu", column, f".{name}", "ns") for column, name in enumerate(_CPU)),
        *(("disk", column, f".{name}", _disk_unit(name)) for column, name in enumerate(_DISK)),
        *(("interface", column, f".{name}", unit) for column, name, unit in _net()),
        *((unit, 0, "", unit) for unit in ("count", "kB", "B")),
    ],
    schema={"columns": pl.String, "column": pl.UInt32, "field": pl.String, "unit": pl.String},
    orient="row",
)
"""The numbers after the name in each kind of line. Lines with one number are listed by its unit."""

_LINES = {
    ("stat", "count"): "intr ctxt processes procs_running procs_blocked",
    ("meminfo", "kB"): (
        "MemTotal: MemFree: MemAvailable: Buffers: Cached: SwapCached: Active(file): Inactive(file): Active(anon): "
        "Inactive(anon): Mlocked: SwapTotal: SwapFree: Dirty: Writeback: AnonPages: Mapped: Shmem: KReclaimable: Slab: "
        "SReclaimable: WritebackTmp: ION_heap: KernelStack: PageTables: Zswap: Zswapped:"
    ),
    ("vmstat", "count"): (
        "nr_free_pages nr_dirty nr_writeback nr_dirtied nr_written nr_vmscan_write nr_throttled_written nr_file_pages "
        "nr_anon_pages pgpgin pgpgout pswpin pswpout pgfault pgmajfault pgfree pgsteal_kswapd pgsteal_direct "
        "pgscan_kswapd pgscan_direct allocstall_normal allocstall_movable workingset_refault_file "
        "workingset_refault_anon workingset_activate_file oom_kill kswapd_low_wmark_hit_quickly pageoutrun "
        "compact_stall drop_pagecache drop_slab"
    ),
    ("io", "B"): "rchar: wchar: read_bytes: write_bytes: cancelled_write_bytes:",
    ("io", "count"): "syscr: syscw:",
}
_KEYS = pl.DataFrame(
    [(file, key, unit) for (file, unit), keys in _LINES.items() for key in keys.split()],
    schema=["file", "key", "keyed"],
    orient="row",
)

_STAT = {
    **{12: ("majflt", "count"), 14: ("utime", "ns"), 15: ("stime", "ns"), 16: ("cutime", "ns"), 17: ("cstime", "ns")},
    **{20: ("num_threads", "count"), 24: ("rss", "B"), 42: ("delayacct_blkio_ticks", "ns")},
}
"""Fields of /proc/PID/stat, numbered as in proc_pid_stat(5)."""
_STATE, _STARTED = 3, 22
_STAT_FIELDS = pl.DataFrame(
    [(number - _STATE, f"stat.{name}", unit) for number, (name, unit) in _STAT.items()],
    schema={"column": pl.UInt32, "counter": pl.String, "unit": pl.String},
    orient="row",
)
LEVELS = ("stat.rss", "stat.num_threads")
"""Counters of processes that can decrease."""

_VALUES = (
    (r"/sys/devices/system/cpu/cpu(\d+)/cpufreq/(.+)", "cpufreq", "cpu", "kHz"),
    (r"/sys/class/thermal/([^/]+)/(temp)", "thermal", "system", "m°C"),
    (r"/sys/fs/f2fs/([^/]+)/(.+)", "f2fs", "device", "count"),
    (r"/sys/fs/ext4/([^/]+)/(.+)", "ext4", "device", "count"),
    (r"/sys/bus/platform/drivers/[^/]+/([^/]+)/[^/]+/(.+)", "ufs", "system", "code"),
    (r"/sys/bus/mmc/devices/([^/]+)/(.+)", "mmc", "system", "code"),
)
_UNITS = {
    **dict.fromkeys(("dirty_segments", "free_segments"), "segments"),
    **dict.fromkeys(("lifetime_write_kbytes", "session_write_kbytes"), "kB"),
    **dict.fromkeys(("moved_blocks_foreground", "moved_blocks_background", "avg_vblocks", "unusable"), "blocks"),
    "delayed_allocation_blocks": "blocks",
}
_SEVERAL = {"life_time": ("life_time_a", "life_time_b")}


@dataclass(frozen=True)
class Machine:
    """The units of some counters on the recorded machine, and the time at which procmon started."""

    page_bytes: int
    tick_ns: int
    opened_ns: int


COLUMNS = ("row", "word", "number", "factor", "scope", "dev", "pid", "instance", "counter", "unit")
_SCOPE = schema.enum("samples", "scope")


def number(text: pl.Expr) -> pl.Expr:
    """Return a word as an integer, decimal or hexadecimal after ``0x``; null if it is not a number or too large."""
    hexadecimal = text.str.extract(r"^0x([0-9A-Fa-f]+)$").str.to_integer(base=16, strict=False, dtype=pl.Int64)
    return pl.coalesce(text.cast(pl.Int64, strict=False), hexadecimal)


def of_system(texts: pl.DataFrame, machine: Machine) -> pl.DataFrame:
    """Return the counters (`COLUMNS`) in `texts` (row, path, text) of files that do not belong to a process.

    `word` is the index of the number among the words of the text. Other texts supply the devices of filesystems and the
    types of thermal zones.
    """
    lines = _lines(texts.with_columns(file=_file(pl.col("path"))).filter(pl.col("file").is_not_null()))
    return pl.concat([_tables(lines, machine.tick_ns), _pressure(lines), _values(texts)])


def of_io(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the counters in texts of /proc/PID/io."""
    lines = _lines(texts.with_columns(file=pl.lit("io")))
    pid = texts.select("row", pid=pl.col("path").str.extract(r"(\d+)").cast(pl.Int32))
    return _tables(lines, 0).drop("pid").join(pid, on="row").with_columns(scope=_scope("process")).select(COLUMNS)


def of_stat(texts: pl.DataFrame, machine: Machine) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the counters in texts of /proc/PID/stat, and the process of each text: `row`, `pid`, `name`, `started_ns`.

    The kernel appends the current work item to the name of a worker. It is removed, because it changes all the time.
    """
    parts = texts.select("row", pl.col("text").str.extract_groups(r"(?s)^((\d+) \((.*)\) )(.*)$").alias("part"))
    parts = parts.unnest("part").rename({"1": "head", "2": "pid", "3": "name", "4": "fields"}).drop_nulls("fields")
    parts = parts.with_columns(
        pl.col("pid").cast(pl.Int32), before=pl.col("head").str.count_matches(_WORDS), name=_trimmed(pl.col("name"))
    ).with_columns(word=pl.col("fields").str.extract_all(_WORDS))
    started = (
        pl.col("word").list.get(_STARTED - _STATE, null_on_oob=True).cast(pl.Int64, strict=False) * machine.tick_ns
    )
    processes = parts.select("row", "pid", "name", started_ns=started)
    words = parts.with_columns(column=pl.int_ranges(pl.col("word").list.len(), dtype=pl.UInt32)).explode(
        "word", "column"
    )
    factor = (
        pl.when(unit="ns")
        .then(machine.tick_ns)
        .when(unit="B")
        .then(machine.page_bytes)
        .otherwise(1)
        .cast(pl.Int64)
        .alias("factor")
    )
    counters = words.join(_STAT_FIELDS, on="column").select(
        "row",
        (pl.col("before") + pl.col("column")).alias("word"),
        number(pl.col("word")).alias("number"),
        factor,
        _scope("process").alias("scope"),
        pl.lit(None, pl.UInt32).alias("dev"),
        "pid",
        pl.col("name").alias("instance"),
        *("counter", "unit"),
    )
    return counters, processes


def _trimmed(name: pl.Expr) -> pl.Expr:
    is_worker = name.str.starts_with("kworker/") & ~name.str.starts_with("kworker/R-")
    return pl.when(is_worker).then(name.str.extract("^([^+-]*)")).otherwise(name)


def _scope(name: str) -> pl.Expr:
    return pl.lit(name, _SCOPE)


def _file(path: pl.Expr) -> pl.Expr:
    """Return the prefix of the counters in a file of /proc; null for other files."""
    name = path.str.extract(r"^/proc/(stat|meminfo|vmstat|diskstats|net|pressure/\w+)(?:/dev)?$")
    return name.str.replace("/", ".", literal=True)


# -- files of one line per thing --------------------------------------------------------------------------------------


def _lines(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of texts, each with its first word and the number of words of the text before it."""
    lines = texts.select("row", "file", line=pl.col("text").str.split("\n")).explode("line")
    words = pl.col("line").str.count_matches(_WORDS)
    return lines.with_columns(
        before=words.cum_sum().over("row") - words, key=pl.col("line").str.extract(f"^ *({_WORDS})")
    )


def _tables(lines: pl.DataFrame, tick_ns: int) -> pl.DataFrame:
    """Return the counters in lines that consist of a name and numbers."""
    lines = lines.join(_KEYS, on=["file", "key"], how="left", maintain_order="left")
    disk = pl.col("line").str.extract_groups(rf"^ *(\d+) +(\d+) +({_WORDS})")
    major, minor = (disk.struct[position].cast(pl.UInt32, strict=False) for position in (0, 1))
    is_cpu = (pl.col("file") == "stat") & pl.col("key").str.starts_with("cpu")
    is_disk = (pl.col("file") == "diskstats") & (major < 1 << 12) & (minor < 1 << 20)
    is_net = (pl.col("file") == "net") & pl.col("key").str.contains(".:$")
    is_one_cpu = is_cpu & (pl.col("key") != "cpu")
    scope = pl.when(is_one_cpu).then(pl.lit("cpu")).when(is_disk).then(pl.lit("device"))
    instance = pl.when(is_one_cpu).then(pl.col("key").str.slice(3)).when(is_disk).then(disk.struct[2])
    lines = lines.with_columns(
        columns=pl.when(is_cpu)
        .then(pl.lit("cpu"))
        .when(is_disk)
        .then(pl.lit("disk"))
        .when(is_net)
        .then(pl.lit("interface"))
        .otherwise("keyed"),
        scope=scope.when(is_net).then(pl.lit("interface")).otherwise(pl.lit("system")).cast(_SCOPE),
        dev=pl.when(is_disk).then(major * (1 << 20) + minor),
        instance=instance.when(is_net).then(pl.col("key").str.strip_suffix(":")),
        name_words=pl.when(is_disk).then(pl.lit(3)).otherwise(pl.lit(1)),
    )
    words = (
        lines.drop_nulls("columns")
        .with_columns(word=pl.col("line").str.extract_all(_WORDS))
        .with_columns(position=pl.int_ranges(pl.col("word").list.len()))
        .explode("word", "position")
        .filter(pl.col("position") >= pl.col("name_words"))
        .with_columns(column=(pl.col("position") - pl.col("name_words")).cast(pl.UInt32))
    )
    # The name of a line is part of the counter, unless it names an instance such as a CPU or a disk.
    named = pl.when(pl.col("keyed").is_not_null()).then("." + pl.col("key").str.strip_suffix(":")).otherwise(pl.lit(""))
    return words.join(_COLUMNS, on=["columns", "column"]).select(
        "row",
        (pl.col("before") + pl.col("position")).cast(pl.UInt32).alias("word"),
        number(pl.col("word")).alias("number"),
        pl.when(columns="cpu").then(tick_ns).otherwise(1).cast(pl.Int64).alias("factor"),
        *("scope", "dev"),
        pl.lit(None, pl.Int32).alias("pid"),
        "instance",
        (pl.col("file") + named + pl.col("field")).alias("counter"),
        "unit",
    )


def _pressure(lines: pl.DataFrame) -> pl.DataFrame:
    """Return the total time in microseconds that some or all tasks waited, from files of /proc/pressure."""
    is_pressure = pl.col("file").str.starts_with("pressure.") & pl.col("key").is_in(["some", "full"])
    return lines.filter(is_pressure).select(
        "row",
        pl.col("before").cast(pl.UInt32).alias("word"),
        pl.col("line").str.extract(r"total=(\d+)").cast(pl.Int64, strict=False).alias("number"),
        pl.lit(1000, pl.Int64).alias("factor"),
        _scope("system").alias("scope"),
        pl.lit(None, pl.UInt32).alias("dev"),
        pl.lit(None, pl.Int32).alias("pid"),
        pl.lit(None, pl.String).alias("instance"),
        (pl.col("file") + "." + pl.col("key")).alias("counter"),
        pl.lit("ns").alias("unit"),
    )


# -- files of one value -----------------------------------------------------------------------------------------------


def _values(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the counters in files of /sys that hold one or two values."""
    devices, types = _first_lines(texts, "block", "dev"), _first_lines(texts, "thermal", "type")
    rows = [row for path in texts["path"].unique() for row in _counters_of(path)]
    counters = pl.DataFrame(
        rows,
        schema=["path", "word", "scope", "instance", "counter", "unit"],
        orient="row",
        schema_overrides={
            "word": pl.UInt32,
            "scope": _SCOPE,
            **dict.fromkeys(("path", "instance", "counter", "unit"), pl.String),
        },
    )
    parts = pl.col("text_of_block").str.extract_groups(r"^(\d+):(\d+)")
    dev = parts.struct[0].cast(pl.UInt32, strict=False) * (1 << 20) + parts.struct[1].cast(pl.UInt32, strict=False)
    return (
        texts.join(counters, on="path")
        .join(devices, on="instance", how="left")
        .join(types, on="instance", how="left")
        .select(
            *("row", "word"),
            number(pl.col("text").str.extract_all(_WORDS).list.get(pl.col("word"), null_on_oob=True)).alias("number"),
            pl.lit(1, pl.Int64).alias("factor"),
            "scope",
            pl.when(scope="device").then(dev).alias("dev"),
            pl.lit(None, pl.Int32).alias("pid"),
            pl.concat_str("instance", "text_of_thermal", separator=" ", ignore_nulls=True).alias("instance"),
            *("counter", "unit"),
        )
    )


def _first_lines(texts: pl.DataFrame, kind: str, name: str) -> pl.DataFrame:
    """Return the first line of /sys/class/KIND/INSTANCE/NAME for each instance."""
    lines = texts.select(
        pl.col("path").str.extract(rf"^/sys/class/{kind}/([^/]+)/{name}$").alias("instance"),
        pl.col("text").str.extract("^(.*)").alias(f"text_of_{kind}"),
    )
    return lines.drop_nulls().unique("instance", keep="first", maintain_order=True)


def _counters_of(path: str) -> Iterator[tuple[str, int, str, str, str, str]]:
    """Yield the counters in a file of /sys."""
    for pattern, name, scope, unit in _VALUES:
        if match := re.fullmatch(pattern, path):
            instance, file = match.groups()
            for word, field in enumerate(_SEVERAL.get(file, (file,))):
                yield path, word, scope, instance, f"{name}.{field}", _UNITS.get(file, unit)
