"""Infer which file a request moves, and for whom, where a recording lacks the events that prove it.

A phone without root permits no event that proves where F2FS puts a block, and none that says which bio a request is
made of. It does report every write into the page cache, every fsync, every page that comes into the cache, and which
thread issues a request. One pass in order of time (native/infer) keeps the dirty pages of each file and gives each
block of a request to the first rule that applies:

=============  =======================================================================================================
``place``      The block held a page before, of a file that still lives, and that page is dirty. ext4 writes in place.
``allocated``  The issuing thread, or the flusher, has just looked up that page to give it a place (ext4).
``sync``       The thread is in a fsync: dirty pages of that file by their index.
``sync_other`` The same, issued for that thread by a worker of kblockd.
``node``       The thread is in a fsync, and no dirty page is left: metadata of that file (F2FS).
``writeback``  A flusher issues it: dirty pages, by the order in which their files became dirty, then by their index.
``self``       Another thread issues it: dirty pages of the file that it wrote last (rename, close after truncation).
``direct``     The same without a dirty page: direct I/O of the file that the thread touched last.
``read``       A read: the next page that the thread put into the cache. ``read_place`` where a mapping agrees.
=============  =======================================================================================================

A later mapping of a block that was written corrects the answer (``later``), and pages that were taken by mistake are
dirty again. ext4 looks every new block up once more when its write is complete (``ext4_convert_unwritten_extents``).

Answers are marked as inferred and never replace a fact. A guess of linking that rests on a mapping which may be over is
replaced, as such guesses were right in less than half of the cases.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema, units
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.ingest import tasks as kinds
from androstep_analysis.link import intervals
from androstep_analysis.link.owner.processes import Processes

RULES: Final = (
    *("none", "sync", "sync_other", "node", "place", "allocated", "writeback", "self", "direct", "later"),
    *("read", "read_place"),
)
"""``enum infer_rule`` of infer.h."""

FILE_PERCENT: Final = {
    **{"sync": 99, "sync_other": 94, "node": 95, "place": 99, "allocated": 80, "writeback": 95, "self": 95},
    **{"direct": 95, "later": 99, "read": 99, "read_place": 99},
    **{"blind_sync": 99, "blind_sync_other": 59, "blind_place": 94, "blind_writeback": 33, "blind_self": 99},
    **{"blind_direct": 17, "blind_read": 99, "blind_read_place": 99},
}
"""How many of 100 answers name the right file, by rule.

Counted in blocks on the recordings of corpus/kernel (ext4 on Linux 6.18 and 6.1, F2FS on 6.1) after
``tests/support/stock.py`` reduced them: sync 2,011 of 2,033, node 273 of 286, place 1,437 of 1,445, writeback 841 of
841 (40 of them by a rule that was made for them, so that 95 is stated), self 43 of 43, direct 760 of 760 (of one
program each), later 6,275 of 6,285, read 1,377 of 1,377, read_place 2,027 of 2,027. Where no later mapping corrects
them, allocated 81 % of 5,800; sync_other 46 of 49. Rules are blind on ext4 without look-ups: two recordings of
tests/harness (seeds 5 and 6) without them have sync 3,636 of 3,636, sync_other 19 of 32, place 2,278 of 2,426,
writeback 73 of 223, self 186 of 186, direct 26 of 152.
"""

LEAST_PERCENT: Final = 50
"""A file that is more likely wrong than right is not stated."""

OWNER_PERCENT: Final = FILE_PERCENT | {
    **{"allocated": 94, "sync_other": 95, "direct": 99},
    **{"blind_sync_other": 61, "blind_writeback": 51, "blind_direct": 84},
}
"""The same for the owner: allocated 94 % of 5,600, direct and sync_other all; of the blind ones sync_other 19 of 31,
writeback 114 of 222, direct 391 of 463; the others as their files.
"""

_KINDS: Final = (
    tracepoints.WRITES,
    tracepoints.SYNC_BEGINS,
    tracepoints.SYNC_ENDS,
    (tracepoints.CACHED,),
    (tracepoints.UNCACHED,),
)
"""The first ones of ``enum infer_kind``; the others are these."""
_MAPPED, _ALLOCATING, _LOOKED_UP, _GONE, _WRITES, _READS = range(5, 11)

_FLUSHER, _KBLOCKD, _KERNEL, _SYNC, _REWRITES, _INLINE, _WRITTEN = (1 << bit for bit in range(7))
"""``enum infer_flags``."""

_COLUMNS: Final = {
    **{"dev": np.uint32, "ino": np.int64, "tid": np.int32, "first": np.int64, "count": np.int64, "block": np.int64},
    **{"kind": np.uint8, "flags": np.uint8},
}
"""Columns of ``struct infer_events``."""

_RESULT: Final = ("event", "block", "ino", "file_block", "author", "rule")
"""Fields of ``struct inference``, all of 64 bits."""

_USUAL_BYTES: Final = 4096
"""Size of a page and of a block of a filesystem where nothing says it: that of nearly all phones."""

_MOST_BLOCKS: Final = 1 << 13
"""Blocks of one event or request at most: what damaged input says beyond is left out, and the rest of large extents."""
_LARGEST_BLOCK: Final = 1 << 48
_LARGEST_ORDER: Final = 16

_OWNER: Final = ("owner_pid", "owner_comm", "owner_package")
_THREAD: Final = ("ts_ns", "tid", "pid", "comm")


class _CEvents(ctypes.Structure):
    """``struct infer_events`` of infer.h."""

    _fields_ = (("rows", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in _COLUMNS))


def homes(
    fs_events: pl.LazyFrame, requests: pl.LazyFrame, recorded: Collection[str], fs_types: Mapping[int, str]
) -> dict[int, int]:
    """Return the filesystem that each device of requests holds, of those whose events do not prove every file.

    A phone's filesystem lies on device-mapper, whose remaps a user build does not permit: the only filesystem without
    requests of its own is on the device without events to which most was written.
    """
    own = tracepoints.devices(fs_events, tracepoints.is_own())
    unproven = {dev for dev in own if not tracepoints.maps_completely(fs_events, dev, recorded, fs_types.get(dev))}
    written = pl.col("nr_sectors").filter(op="write").sum()
    sizes = requests.group_by("part_dev").agg(written).sort("nr_sectors", "part_dev", descending=True)
    disks = sizes.collect(engine="streaming")["part_dev"].drop_nulls().to_list()
    found = {dev: dev for dev in disks if dev in unproven}
    without = sorted(unproven.difference(disks))
    others = [dev for dev in disks if dev not in own]
    return found | ({others[0]: without[0]} if len(without) == 1 and others else {})


def runs(
    fs_events: pl.LazyFrame,
    numbers: pl.LazyFrame,
    requests: pl.LazyFrame,
    block: pl.LazyFrame,
    homes: Mapping[int, int],
    block_bytes: Mapping[int, int],
    page_bytes: int | None,
    tasks: Processes,
    lost: Losses,
) -> pl.DataFrame:
    """Return what is inferred of the requests to the devices that hold a filesystem (`homes`).

    `fs_events` is the table with all events (`pagesize.counted`), `numbers` has their incarnations, `requests` and
    `block` are the tables requests and block_events. A row for each run of sectors of a request that has one answer:
    request_id, part_sector, nr_sectors, fs_dev, issue_ns, ino, incarnation, file_offset_bytes, rule, and the owner
    (owner_pid, owner_comm, owner_package). Events and answers of these filesystems are in memory at once.
    """
    sizes = {dev: block_bytes.get(dev, _USUAL_BYTES) for dev in homes.values()}
    placed = [dev for dev, fs_dev in homes.items() if dev == fs_dev]
    events = _events(fs_events, sizes, placed, page_bytes or _USUAL_BYTES)
    f2fs = tracepoints.devices(fs_events, tracepoints.is_own("f2fs"))
    issues = _issues(requests, block, homes, sizes, f2fs)
    rows = pl.concat([events, issues], how="diagonal").sort("ts_ns", maintain_order=True)
    answers = _answers(rows)
    issue = rows.select("request_id", "part_sector", "nr_sectors", fs_dev="dev", issue_ns="ts_ns")[answers["event"]]
    author = pl.Series(answers["author"].fill_null(answers["event"]))
    owner = pl.when(answers["author"].is_not_null())
    owners = tasks.of_threads(rows.select(_THREAD)[author]).select(
        "ts_ns", *(owner.then(name).alias(name) for name in _OWNER)
    )
    table = pl.concat([issue, owners, answers.drop("event", "author")], how="horizontal")
    looking_up = tracepoints.devices(fs_events, pl.col("event") == tracepoints_ext4.LOOKUP)
    is_blind = (~pl.col("fs_dev").is_in([*looking_up, *f2fs])).fill_null(False)
    blind = pl.format("blind_{}", "rule")
    table = table.with_columns(rule=pl.when(is_blind).then(blind).otherwise("rule"))
    is_lost = lost.between(table["ts_ns"], table["issue_ns"], table["fs_dev"], "fs_events", "block_events")
    return _joined(_numbered(table.filter(~is_lost), numbers), sizes)


def _numbered(table: pl.DataFrame, numbers: pl.LazyFrame) -> pl.DataFrame:
    """Return the answers with the incarnation that the inode had when its page was written."""
    dated = numbers.select("ts_ns", "ino", "incarnation", fs_dev="dev").drop_nulls("ino").collect().sort("ts_ns")
    return table.sort("ts_ns").join_asof(dated, on="ts_ns", by=["fs_dev", "ino"], check_sortedness=False)


def _events(
    fs_events: pl.LazyFrame, sizes: Mapping[int, int], placed: Collection[int], page_bytes: int
) -> pl.DataFrame:
    """Return the events that the pass takes, with what they are about in blocks of their filesystem.

    Only filesystems that are `placed` have requests on their own device, so that a mapping says where they are.
    """
    event, size = pl.col("event"), _size("dev", sizes)
    kind = pl.lit(None, pl.UInt8)
    for number, names in enumerate(_KINDS):
        kind = pl.when(event.is_in(names)).then(pl.lit(number, pl.UInt8)).otherwise(kind)
    is_lookup, is_delayed = event == tracepoints_ext4.LOOKUP, pl.col("status").str.contains("D")
    kind = (
        pl.when(tracepoints_ext4.states_block() & pl.col("dev").is_in(list(placed)))
        .then(_MAPPED)
        .when(is_lookup & is_delayed)
        .then(_ALLOCATING)
        .when(is_lookup)
        .then(_LOOKED_UP)
        .when(tracepoints.deletions())
        .then(_GONE)
        .otherwise(kind)
    )
    is_write, is_page = event.is_in(tracepoints.WRITES), event.is_in([tracepoints.CACHED, tracepoints.UNCACHED])
    end = pl.col("offset_bytes") + pl.max_horizontal("nr_bytes", 1)
    pages = pl.lit(2, pl.Int64).pow(pl.col("page_order").fill_null(0).clip(0, _LARGEST_ORDER))
    first = (
        pl.when(is_write)
        .then(pl.col("offset_bytes") // size)
        .when(is_page)
        .then(pl.col("page") * page_bytes // size)
        .otherwise("file_block")
    )
    count = (
        pl.when(is_write)
        .then((end - 1) // size + 1 - first)
        .when(is_page)
        .then(pl.max_horizontal(pages * page_bytes // size, 1))
        .otherwise("nr_blocks")
    )
    is_written = pl.col("status").str.contains("W").fill_null(False)
    is_told = pl.col("kind").is_not_null() & size.is_not_null() & first.is_between(0, _LARGEST_BLOCK).fill_null(True)
    # The page cache of the device itself has the number of the device as its inode.
    is_file = pl.col("ino") != pl.col("dev")
    rows = fs_events.with_columns(kind=kind.cast(pl.UInt8)).filter(is_told, is_file)
    return rows.select(
        *("dev", "ino", "kind", *_THREAD),
        first=first,
        count=count.clip(0, _MOST_BLOCKS),
        block=pl.when(is_write).then(end).otherwise("block"),
        flags=_thread_flags() + is_written.cast(pl.UInt8) * _WRITTEN,
    ).collect()


def _issues(
    requests: pl.LazyFrame,
    block: pl.LazyFrame,
    homes: Mapping[int, int],
    sizes: Mapping[int, int],
    f2fs: Collection[int],
) -> pl.DataFrame:
    """Return the requests for data as events of the threads that issued them."""
    place = ("dev", "sector", "issue_ns")
    issued = block.filter(pl.col("action") == "issue").rename({"ts_ns": "issue_ns"})
    issued = issued.select(*place, "tid", "pid", "comm").unique(place)
    is_data = pl.col("op").is_in(["read", "write"]) & ~pl.col("meta").fill_null(False) & (pl.col("nr_sectors") > 0)
    fs_dev = pl.col("part_dev").replace_strict(homes, default=None, return_dtype=pl.UInt32)
    sectors = _size("fs_dev", sizes) // units.SECTOR_BYTES
    wanted = requests.with_columns(fs_dev=fs_dev).filter(is_data, sectors.is_not_null()).join(issued, on=place)
    is_sync = pl.col("sync").fill_null(False).cast(pl.UInt8)
    first = pl.col("part_sector") // sectors
    of_filesystem = pl.when(pl.col("fs_dev").is_in(list(f2fs))).then(_INLINE).otherwise(_REWRITES).cast(pl.UInt8)
    return wanted.select(
        *("request_id", "part_sector", "nr_sectors", "tid", "pid", "comm"),
        ts_ns="issue_ns",
        dev="fs_dev",
        first=first,
        count=((pl.col("part_sector") + pl.col("nr_sectors") - 1) // sectors + 1 - first).clip(0, _MOST_BLOCKS),
        kind=pl.when(pl.col("op") == "write").then(_WRITES).otherwise(_READS).cast(pl.UInt8),
        flags=_thread_flags() + is_sync * _SYNC + of_filesystem,
    ).collect()


def _size(dev: str, sizes: Mapping[int, int]) -> pl.Expr:
    return pl.col(dev).replace_strict(sizes, default=None, return_dtype=pl.Int64)


def _thread_flags() -> pl.Expr:
    """Return what the name of a thread says about on whose behalf it issues requests."""
    comm = pl.col("comm").fill_null("")
    is_worker, is_flusher = comm.str.starts_with("kworker/"), comm.str.starts_with("kworker/u")
    is_kernel = kinds.kind(comm).cast(pl.String).is_in(["writeback", "journal", "gc", "kernel"])
    flags = {_FLUSHER: is_flusher, _KBLOCKD: is_worker & ~is_flusher, _KERNEL: is_kernel | is_worker}
    return pl.sum_horizontal(condition.cast(pl.UInt8) * flag for flag, condition in flags.items()).cast(pl.UInt8)


def _answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of ``struct inference``, null for what there is not, and the rule as a word."""
    handle = ctypes.c_void_p
    library = native.declared(
        ("infer_run", handle, (ctypes.POINTER(_CEvents),)),
        ("infer_result", handle, (handle, ctypes.POINTER(ctypes.c_size_t))),
        ("infer_free", None, (handle,)),
    )
    arrays = [
        np.ascontiguousarray(rows[name].fill_null(0).to_numpy().astype(dtype)) for name, dtype in _COLUMNS.items()
    ]
    state = library.infer_run(ctypes.byref(_CEvents(rows.height, *(array.ctypes.data for array in arrays))))
    if not state:
        raise MemoryError
    count = ctypes.c_size_t()
    address = library.infer_result(state, ctypes.byref(count))
    fields = np.zeros((0, len(_RESULT)), np.int64)
    if count.value:
        of_c = (ctypes.c_int64 * (count.value * len(_RESULT))).from_address(address)
        fields = np.ctypeslib.as_array(of_c).reshape(-1, len(_RESULT)).copy()
    library.infer_free(state)
    table = native.frame({name: fields[:, at] for at, name in enumerate(_RESULT)})
    none = native.none("int64")
    return table.with_columns(
        *(pl.when(pl.col(name) != none).then(name).alias(name) for name in ("ino", "file_block", "author")),
        rule=pl.col("rule").replace_strict(dict(enumerate(RULES)), return_dtype=pl.String),
    ).filter(pl.col("rule") != "none")


def _joined(table: pl.DataFrame, sizes: Mapping[int, int]) -> pl.DataFrame:
    """Return blocks that follow each other and have one answer as one run, in sectors and within their request."""
    size = _size("fs_dev", sizes)
    sectors = size // units.SECTOR_BYTES
    answer = ("request_id", "fs_dev", "issue_ns", "ino", "incarnation", "rule", *_OWNER)
    table = table.sort("request_id", "block").with_columns(inside=pl.col("file_block") - pl.col("block"))
    follows = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift()) for name in (*answer, "inside"))
    follows &= pl.col("block") == pl.col("block").shift() + 1
    begin = pl.max_horizontal(pl.col("block") * sectors, "part_sector")
    end = pl.min_horizontal((pl.col("block") + 1) * sectors, pl.col("part_sector") + pl.col("nr_sectors"))
    cut_off = (begin - pl.col("block") * sectors) * units.SECTOR_BYTES
    return (
        table.with_columns(begin=begin, end=end, offset=pl.col("file_block") * size + cut_off)
        .group_by((~follows.fill_null(False)).cum_sum().alias("run"), maintain_order=True)
        .agg(pl.col(answer).first(), pl.col("begin", "offset").first(), pl.col("end").last())
        .select(
            *answer,
            part_sector="begin",
            nr_sectors=pl.col("end") - pl.col("begin"),
            file_offset_bytes="offset",
        )
    )


def applied(pieces: pl.DataFrame, runs: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces, those with an open answer cut at the edges of `runs` and filled in from them.

    `files` is the table of that name. The columns map_percent and owner_percent are null but for what is inferred here.
    """
    is_guess = (pl.col("map_source") == "inferred") & pl.col("path").is_null()
    is_unmapped = (pl.col("map_source").is_null() | is_guess) & (pl.col("nr_sectors") > 0)
    is_unowned = (pl.col("owner_via") == "unknown") & (pl.col("nr_sectors") > 0)
    pieces = pieces.with_columns(is_unmapped=is_unmapped.fill_null(False), is_unowned=is_unowned)
    is_open = pl.col("is_unmapped") | pl.col("is_unowned")
    filled = _filled(_cut(pieces.filter(is_open), runs), files)
    return pl.concat([pieces.filter(~is_open), filled], how="diagonal").drop("is_unmapped", "is_unowned")


def _cut(pieces: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces cut at the edges of runs, with the columns of their run (inferred_…), null outside of any."""
    places, spans = (
        (rows["request_id"].to_numpy(), rows["part_sector"].to_numpy(), rows["nr_sectors"].to_numpy())
        for rows in (pieces, runs)
    )
    always = np.full(runs.height, intervals.ALWAYS), np.full(runs.height, intervals.FOREVER)
    found = intervals.stab(
        intervals.Queries(*places, time=np.zeros(pieces.height, np.int64)), intervals.Rows(*spans, *always)
    )
    cut = pieces[found.query].with_columns(start=pl.Series(found.start), length=pl.Series(found.length))
    inside = pl.col("start") - pl.col("part_sector")
    cut = cut.with_columns(
        pl.col("sector") + inside,
        pl.col("file_offset_bytes") + inside * units.SECTOR_BYTES,
        part_sector="start",
        nr_sectors="length",
    ).drop("start", "length")
    run = pl.Series(found.row)
    of_runs = runs.rename({name: f"inferred_{name}" for name in runs.columns})
    answers = of_runs[run.clip(0)] if runs.height else of_runs.clear(cut.height)
    answers = answers.select(pl.when(run >= 0).then(name).alias(name) for name in answers.columns)
    inside = (pl.col("part_sector") - pl.col("inferred_part_sector")) * units.SECTOR_BYTES
    both = pl.concat([cut, answers], how="horizontal")
    return both.with_columns(pl.col("inferred_file_offset_bytes") + inside)


def _filled(cut: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces with the answers of their runs in place of what is open."""
    named = ("path", "file_type", "package")
    of_files = files.select("ino", "incarnation", *named, fs_dev="dev").rename(lambda name: f"inferred_{name}")
    key = ["inferred_fs_dev", "inferred_ino", "inferred_incarnation"]
    cut = cut.join(of_files.unique(key, keep="none"), on=key, how="left", maintain_order="left")
    rule = pl.col("inferred_rule")
    # F2FS keeps nodes and its other metadata in the cache as pages of inodes of their own.
    has_file = (pl.col("inferred_ino") > tracepoints_f2fs.META_INODE).fill_null(False)
    is_node = (rule == "node") | (pl.col("inferred_ino") == tracepoints_f2fs.NODE_INODE)
    percent = rule.replace_strict(FILE_PERCENT, default=None, return_dtype=pl.Int32)
    is_known = has_file | is_node | (pl.col("inferred_ino") == tracepoints_f2fs.META_INODE)
    answers = {
        "block_type": pl.when(has_file).then(pl.lit("data")).otherwise(pl.lit("metadata")),
        "subtype": pl.when(is_node).then(pl.lit("node")),
        "map_source": pl.lit("inferred"),
        **{
            name: pl.when(has_file).then(f"inferred_{name}")
            for name in ("ino", "incarnation", "file_offset_bytes", *named)
        },
        "map_percent": percent,
    }
    owner = {
        **{name: pl.col(f"inferred_{name}") for name in _OWNER},
        "owner_count": pl.lit(None, pl.Int32),
        "owner_via": pl.lit("inferred"),
        "owner_percent": rule.replace_strict(OWNER_PERCENT, default=None, return_dtype=pl.Int32),
    }
    maps = pl.col("is_unmapped") & (is_known & (percent >= LEAST_PERCENT)).fill_null(False)
    owns = pl.col("is_unowned") & pl.any_horizontal(pl.col("inferred_owner_pid", "inferred_owner_comm").is_not_null())
    dtypes = schema.table("io").polars
    cut = cut.with_columns(map_percent=pl.lit(None, pl.Int32), owner_percent=pl.lit(None, pl.Int32))
    return cut.with_columns(
        pl.when(condition).then(value.cast(dtypes[name])).otherwise(name).alias(name)
        for condition, values in ((maps, answers), (owns, owner))
        for name, value in values.items()
    ).drop(name for name in cut.columns if name.startswith("inferred_"))
