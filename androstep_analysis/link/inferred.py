"""Infer which file a request moves, and for whom, where a recording lacks the events that prove it.

A phone without root permits no event that proves where F2FS puts a block, and none that lists the bios of a request. It
does permit the events of every write into the page cache, every fsync, every page that enters the cache, and the thread
that issues a request. One pass in order of time (native/infer) keeps the dirty pages of each file and attributes each
block of a request by the first of `RULES` that applies.

Results are marked as inferred and never replace a fact. They do replace an inferred result of linking that rests on a
mapping which may no longer be valid, unless the trace records where new blocks are placed: without that, less than half
of these were right.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

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


class Accuracy(NamedTuple):
    """How many of 100 results are right, as stated in table io, and the counts behind: `right` of `blocks`."""

    percent: int
    blocks: int | None = None
    right: int | None = None


class Rule(NamedTuple):
    """A rule of native/infer/rules.c: the page that it attributes a block to, and how often it is right."""

    name: str
    sentence: str
    file: Accuracy
    owner: Accuracy | None = None
    """None: as the file."""
    blind_file: Accuracy | None = None
    """On ext4 without look-ups."""
    blind_owner: Accuracy | None = None
    is_stated: bool = True
    """False: wrong too often, so that table io leaves file and owner unknown."""


RULES: Final = (
    Rule("place", "the dirty page that the block held before",
         Accuracy(99, 15317, 15295), blind_file=Accuracy(94, 2426, 2278)),
    Rule("converted", "on F2FS, the first page of a file that outgrows its inode by the issuing thread's next write",
         Accuracy(98, 446, 441)),
    Rule("allocated", "the page that writeback has just looked up",
         Accuracy(99, 176, 176), Accuracy(98, 176, 172)),
    Rule("sync", "dirty pages of the file whose fsync the issuing thread is in, by their index",
         Accuracy(99, 13315, 13260), Accuracy(98, 13315, 13114), blind_file=Accuracy(99, 3636, 3636)),
    Rule("sync_other", "the same if a worker of kblockd issues the request, or with pages of several others",
         Accuracy(50, 67, 34), is_stated=False, blind_file=Accuracy(59, 32, 19), blind_owner=Accuracy(61, 31, 19)),
    Rule("node", "without any dirty page, the node of that file",
         Accuracy(95, 286, 273)),
    Rule("writeback", "dirty pages in the order in which their files became dirty",
         Accuracy(99, 13122, 13045), blind_file=Accuracy(33, 223, 73), blind_owner=Accuracy(51, 222, 114)),
    Rule("writeback_during_sync", "the same on F2FS after files that the flusher skipped because of a fsync",
         Accuracy(91, 105, 96), Accuracy(97, 105, 103)),
    Rule("writeback_unordered", "the same on F2FS where the order of new files is uncertain",
         Accuracy(76, 712, 548), Accuracy(83, 712, 596), is_stated=False),
    Rule("writeback_misfit", "the same on F2FS where the requests do not fit the files",
         Accuracy(19, 224, 44), Accuracy(35, 224, 80), is_stated=False),
    Rule("self", "dirty pages of the file that the thread wrote last",
         Accuracy(98, 260, 260), blind_file=Accuracy(99, 186, 186)),
    Rule("direct", "direct I/O of the file that the thread touched last",
         Accuracy(98, 2418, 2378), Accuracy(98, 2366, 2319), Accuracy(17, 152, 26), Accuracy(84, 463, 391)),
    Rule("read", "for a read, the pages that the thread has just put into the cache",
         Accuracy(99, 1377, 1377), blind_file=Accuracy(99)),
    Rule("read_place", "the same where a mapping agrees",
         Accuracy(99, 2027, 2027), blind_file=Accuracy(99)),
    Rule("later", "a later look-up of the block corrects the result",
         Accuracy(99, 8577, 8565)),
)  # fmt: skip
"""The rules in their order, which is that of ``enum infer_rule``; read and read_place are for reads, the others for
writes. After the write, ext4 looks each new block up once more (``ext4_convert_unwritten_extents``), so that rule later
can correct the result; pages that were removed by mistake are then dirty again.

The accuracy is counted in the written blocks of 35 recordings that tests/support/stock.py reduced: those of
corpus/kernel (ext4 on Linux 6.18 and 6.1, F2FS on 6.1), and 32 of tests/harness and of programs that write as apps do
(one and two CPUs, ext4 and F2FS on 6.1). That of the rules allocated, node, read and read_place is counted in 40
earlier ones. A result that a later mapping corrects counts as rule later. The blind accuracy is for ext4 without
look-ups (tests/harness, seeds 5 and 6); without a number it is not different.
"""


ISSUED: Final = {
    "read": Accuracy(99, 12145, 12140),
    "write": Accuracy(95, 26668, 25416),
    "discard": Accuracy(99, 1971, 1971),
}
"""By operation, the process whose thread issues the request, where no event names the submitter.

The accuracy is counted in blocks of the three recordings of ext4 and F2FS in corpus/kernel, and of 18 of tests/harness.
"""


def _percents(of: Literal["file", "owner"]) -> dict[str, int]:
    """Return the accuracy of files or owners by rule; the names of rules without look-ups begin with blind_."""
    pairs = [(rule.name, rule.file, rule.owner) for rule in RULES if rule.is_stated]
    pairs += [(f"blind_{rule.name}", rule.blind_file, rule.blind_owner) for rule in RULES if rule.blind_file]
    return {name: (owner if of == "owner" and owner else file).percent for name, file, owner in pairs if file}


_FILE_PERCENT: Final = _percents("file")
_OWNER_PERCENT: Final = _percents("owner")

_MIN_PERCENT: Final = 50
"""A file or owner that is more likely wrong than right is not stated."""

_ALMOST_CERTAIN_PERCENT: Final = 95
"""An owner that is so often right, by look-ups, replaces an inferred submitter, which was right for 85 of 100 blocks
(ext4, Linux 6.18)."""

_KINDS: Final = (
    tracepoints.WRITES,
    tracepoints.SYNC_BEGINS,
    tracepoints.SYNC_ENDS,
    (tracepoints.CACHED,),
    (tracepoints.UNCACHED,),
)
"""Events of the first values of ``enum infer_kind``. The other values follow."""
_MAPPED, _ALLOCATING, _LOOKED_UP, _GONE, _WRITES, _READS = range(5, 11)

_FLUSHER, _KBLOCKD, _KERNEL, _SYNC, _F2FS, _WRITTEN = (1 << bit for bit in range(6))
"""``enum infer_flags``."""

_COLUMNS: Final = {
    **dict.fromkeys(("ts_ns", "ino", "first", "count", "block"), np.int64),
    **{"dev": np.uint32, "tid": np.int32, "kind": np.uint8, "flags": np.uint8},
}
"""Columns of ``struct infer_events``."""

_RESULT: Final = ("event", "block", "ino", "file_block", "author", "rule")
"""Fields of ``struct inference``, all of 64 bits."""

_USUAL_BYTES: Final = 4096
"""Assumed size of a page and of a block if it is unknown: that of nearly all phones."""

_MAX_BLOCKS: Final = 1 << 13
"""Only so many blocks of an event or request are examined, so that damaged input cannot take all memory."""
_LARGEST_BLOCK: Final = 1 << 48
_LARGEST_ORDER: Final = 16

_OWNER: Final = ("owner_pid", "owner_tid", "owner_comm", "owner_package")
_THREAD: Final = ("ts_ns", "tid", "pid", "comm")


def homes(
    kinds: pl.DataFrame, requests: pl.LazyFrame, recorded: Collection[str], fs_types: Mapping[int, str]
) -> dict[int, int]:
    """Return for each device of requests its filesystem, if the events do not prove every file of it.

    A phone's filesystem lies on device-mapper, whose remaps a user build does not permit: the only filesystem without
    requests of its own is on the device without events to which most was written.
    """
    own = tracepoints.devices(kinds, tracepoints.is_own())
    if not own:
        return {}
    unproven = {dev for dev in own if not tracepoints.maps_completely(kinds, dev, recorded, fs_types.get(dev))}
    written = pl.col("nr_sectors").filter(op="write").sum()
    sizes = requests.group_by("part_dev").agg(written).sort("nr_sectors", "part_dev", descending=True)
    disks = sizes.collect(engine="streaming")["part_dev"].drop_nulls().to_list()
    found = {dev: dev for dev in disks if dev in unproven}
    without = sorted(unproven.difference(disks))
    others = [dev for dev in disks if dev not in own]
    return found | ({others[0]: without[0]} if len(without) == 1 and others else {})


_RUNS = {
    **{"request_id": pl.Int64, "fs_dev": pl.UInt32, "issue_ns": pl.Int64, "ino": pl.Int64, "incarnation": pl.Int32},
    **{"rule": pl.String, "owner_pid": pl.Int32, "owner_tid": pl.Int32, "owner_comm": pl.String},
    **{"owner_package": pl.String, "part_sector": pl.Int64, "nr_sectors": pl.Int64, "file_offset_bytes": pl.Int64},
}


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
    """Return the results that are inferred for requests to the devices of filesystems (`homes`).

    `fs_events` is the table with all events (`pagesize.counted`), `numbers` has their incarnations, `requests` and
    `block` are the tables requests and block_events. There is a row for each run of sectors of a request with one
    result: request_id, part_sector, nr_sectors, fs_dev, issue_ns, ino, incarnation, file_offset_bytes, rule, and the
    owner (`_OWNER`). Events and results of these filesystems are in memory at once.
    """
    if not homes:  # avoid reading all events for nothing
        return pl.DataFrame(schema=_RUNS)
    sizes = {dev: block_bytes.get(dev, _USUAL_BYTES) for dev in homes.values()}
    placed = [dev for dev, fs_dev in homes.items() if dev == fs_dev]
    f2fs = tracepoints.devices(fs_events, tracepoints.is_own("f2fs"))
    events = _events(fs_events, sizes, placed, page_bytes or _USUAL_BYTES, f2fs)
    issues = _issues(requests, block, homes, sizes, f2fs)
    rows = pl.concat([events, issues], how="diagonal").sort("ts_ns", maintain_order=True)
    results = _results(rows)
    issue = rows.select("request_id", "part_sector", "nr_sectors", fs_dev="dev", issue_ns="ts_ns")[results["event"]]
    author = pl.Series(results["author"].fill_null(results["event"]))
    owner = pl.when(results["author"].is_not_null())
    owners = tasks.of_threads(rows.select(_THREAD)[author]).select(
        "ts_ns", *(owner.then(name).alias(name) for name in _OWNER)
    )
    table = pl.concat([issue, owners, results.drop("event", "author")], how="horizontal")
    looking_up = tracepoints.devices(fs_events, pl.col("event") == tracepoints_ext4.LOOKUP)
    is_blind = (~pl.col("fs_dev").is_in([*looking_up, *f2fs])).fill_null(False)
    blind = pl.format("blind_{}", "rule")
    table = table.with_columns(rule=pl.when(is_blind).then(blind).otherwise("rule"))
    is_lost = lost.between(table["ts_ns"], table["issue_ns"], table["fs_dev"], "fs_events", "block_events")
    return _joined(_numbered(table.filter(~is_lost), numbers), sizes)


def _numbered(table: pl.DataFrame, numbers: pl.LazyFrame) -> pl.DataFrame:
    """Return the results with the incarnation that the inode had when its page was written."""
    dated = numbers.select("ts_ns", "ino", "incarnation", fs_dev="dev").drop_nulls("ino").collect().sort("ts_ns")
    return table.sort("ts_ns").join_asof(dated, on="ts_ns", by=["fs_dev", "ino"], check_sortedness=False)


def _events(
    fs_events: pl.LazyFrame, sizes: Mapping[int, int], placed: Collection[int], page_bytes: int, f2fs: Collection[int]
) -> pl.DataFrame:
    """Return the events for the pass, with their ranges in blocks of the filesystem.

    Mappings are used only of the filesystems in `placed`, whose requests are on their own device.
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
    is_f2fs = pl.col("dev").is_in(list(f2fs)).fill_null(False)
    is_valid = pl.col("kind").is_not_null() & size.is_not_null() & first.is_between(0, _LARGEST_BLOCK).fill_null(True)
    # The page cache of the device itself has the number of the device as its inode.
    is_file = pl.col("ino") != pl.col("dev")
    rows = fs_events.with_columns(kind=kind.cast(pl.UInt8)).filter(is_valid, is_file)
    return rows.select(
        *("dev", "ino", "kind", *_THREAD),
        first=first,
        count=count.clip(0, _MAX_BLOCKS),
        block=pl.when(is_write).then(end).otherwise("block"),
        flags=_thread_flags() + is_written.cast(pl.UInt8) * _WRITTEN + is_f2fs.cast(pl.UInt8) * _F2FS,
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
    wanted = wanted.filter(pl.col("part_sector").is_between(0, _LARGEST_BLOCK))
    is_sync = pl.col("sync").fill_null(False).cast(pl.UInt8)
    first = pl.col("part_sector") // sectors
    of_filesystem = pl.col("fs_dev").is_in(list(f2fs)).fill_null(False).cast(pl.UInt8) * _F2FS
    return wanted.select(
        *("request_id", "part_sector", "nr_sectors", "tid", "pid", "comm"),
        ts_ns="issue_ns",
        dev="fs_dev",
        first=first,
        count=((pl.col("part_sector") + pl.col("nr_sectors") - 1) // sectors + 1 - first).clip(0, _MAX_BLOCKS),
        kind=pl.when(pl.col("op") == "write").then(_WRITES).otherwise(_READS).cast(pl.UInt8),
        flags=_thread_flags() + is_sync * _SYNC + of_filesystem,
    ).collect()


def _size(dev: str, sizes: Mapping[int, int]) -> pl.Expr:
    return pl.col(dev).replace_strict(sizes, default=None, return_dtype=pl.Int64)


def _thread_flags() -> pl.Expr:
    """Return the flags that the name of a thread implies."""
    comm = pl.col("comm").fill_null("")
    is_worker, is_flusher = comm.str.starts_with("kworker/"), comm.str.starts_with("kworker/u")
    is_kernel = kinds.kind(comm).cast(pl.String).is_in(["writeback", "journal", "gc", "kernel"])
    flags = {_FLUSHER: is_flusher, _KBLOCKD: is_worker & ~is_flusher, _KERNEL: is_kernel | is_worker}
    return pl.sum_horizontal(condition.cast(pl.UInt8) * flag for flag, condition in flags.items()).cast(pl.UInt8)


def _results(rows: pl.DataFrame) -> pl.DataFrame:
    """Run the pass. Return the columns of ``struct inference`` with null for missing values, and the rule's name."""
    library = native.library()
    arrays = [
        np.ascontiguousarray(rows[name].fill_null(0).to_numpy().astype(dtype)) for name, dtype in _COLUMNS.items()
    ]
    state = library.infer_run(native.columns(rows.height, arrays))
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
    none, names = native.none("int64"), [None, *(rule.name for rule in RULES)]
    return table.with_columns(
        *(pl.when(pl.col(name) != none).then(name).alias(name) for name in ("ino", "file_block", "author")),
        rule=pl.col("rule").replace_strict(dict(enumerate(names)), return_dtype=pl.String),
    ).filter(pl.col("rule").is_not_null())


def _joined(table: pl.DataFrame, sizes: Mapping[int, int]) -> pl.DataFrame:
    """Return runs of consecutive blocks with the same result, in sectors and within their request."""
    size = _size("fs_dev", sizes)
    sectors = size // units.SECTOR_BYTES
    result = ("request_id", "fs_dev", "issue_ns", "ino", "incarnation", "rule", *_OWNER)
    table = table.sort("request_id", "block").with_columns(inside=pl.col("file_block") - pl.col("block"))
    follows = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift()) for name in (*result, "inside"))
    follows &= pl.col("block") == pl.col("block").shift() + 1
    begin = pl.max_horizontal(pl.col("block") * sectors, "part_sector")
    end = pl.min_horizontal((pl.col("block") + 1) * sectors, pl.col("part_sector") + pl.col("nr_sectors"))
    cut_off = (begin - pl.col("block") * sectors) * units.SECTOR_BYTES
    return (
        table.with_columns(begin=begin, end=end, offset=pl.col("file_block") * size + cut_off)
        .group_by((~follows.fill_null(False)).cum_sum().alias("run"), maintain_order=True)
        .agg(pl.col(result).first(), pl.col("begin", "offset").first(), pl.col("end").last())
        .select(
            *result,
            part_sector="begin",
            nr_sectors=pl.col("end") - pl.col("begin"),
            file_offset_bytes="offset",
        )
    )


def with_placements(kinds: pl.DataFrame) -> list[int]:
    """Return the devices with events that state where a filesystem places new blocks."""
    of_ext4 = (tracepoints_ext4.INSERTS[0], tracepoints_ext4.MAPS, tracepoints_ext4.ALLOCATES)
    of_f2fs = (*tracepoints_f2fs.SUBMITS, *tracepoints_f2fs.EXTENT_TREE)
    return tracepoints.devices(kinds, pl.col("event").is_in([*of_ext4, *of_f2fs]))


def with_pages(kinds: pl.DataFrame, homes: Mapping[int, int]) -> list[int]:
    """Return the devices of requests to F2FS, of which the pass knows the pages that each fsync writes."""
    f2fs = tracepoints.devices(kinds, tracepoints.is_own("f2fs"))
    return [dev for dev, fs_dev in homes.items() if fs_dev in f2fs]


def issuers(requests: pl.LazyFrame, block: pl.LazyFrame, tasks: Processes, examined: Collection[int]) -> pl.DataFrame:
    """Return the processes that issue requests without a known submitter: request_id, op and the owner.

    A request is often issued by the thread that waits for it. Kernel threads issue those of others. Data that the pass
    leaves open on the devices `examined` (`with_pages`) are those of another process as often as not.
    """
    place = ["dev", "sector", "issue_ns"]
    is_examined = (pl.col("op") == "write") & pl.col("part_dev").is_in(list(examined)) & ~pl.col("meta")
    unsubmitted = requests.filter(pl.col("submit_tid").is_null(), pl.col("op").is_in(list(ISSUED)))
    unsubmitted = unsubmitted.filter(~is_examined.fill_null(False))
    wanted = unsubmitted.select("request_id", "op", *place).drop_nulls().collect(engine="streaming")
    issued = block.filter(pl.col("action") == "issue").rename({"ts_ns": "issue_ns"}).select(*place, *_THREAD[1:])
    if wanted.is_empty():
        issued = issued.clear()
    threads = wanted.join(issued.unique(place, keep="none").collect(), on=place).rename({"issue_ns": "ts_ns"})
    return tasks.of_threads(threads).filter("is_process").select("request_id", "op", *_OWNER)


def with_issuers(pieces: pl.DataFrame, issuers: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces; those without an owner take that of `issuers`."""
    if issuers.is_empty():
        return pieces
    percent = pl.col("issue_op").cast(pl.String).replace_strict({op: one.percent for op, one in ISSUED.items()})
    named = issuers.select("request_id", pl.col("op", *_OWNER).name.prefix("issue_"))
    rows = pieces.join(named, on="request_id", how="left", maintain_order="left")
    is_issued = (pl.col("owner_via") == "unknown") & pl.col("issue_op").is_not_null() & (pl.col("nr_sectors") > 0)
    owner = {
        **{name: pl.col(f"issue_{name}") for name in _OWNER},
        "owner_count": pl.lit(None),
        "owner_via": pl.lit("inferred"),
        "owner_percent": percent,
    }
    return rows.with_columns(
        pl.when(is_issued).then(value.cast(pieces.schema[name])).otherwise(name).alias(name)
        for name, value in owner.items()
    ).select(pieces.columns)


def applied(
    pieces: pl.DataFrame, runs: pl.DataFrame, files: pl.DataFrame, placing: Collection[int] = ()
) -> pl.DataFrame:
    """Return the pieces; those without file or owner are split at the edges of `runs` and take their results.

    `files` is the table of that name. Inferred files on devices in `placing` (`with_placements`) remain. The
    columns map_percent and owner_percent are null except for these results.
    """
    pieces = pieces.with_columns(pl.lit(None, pl.Int32).alias(name) for name in ("map_percent", "owner_percent"))
    if runs.is_empty():
        return pieces
    is_guess = (pl.col("map_source") == "inferred") & pl.col("path").is_null()
    is_guess &= ~pl.col("part_dev").is_in(list(placing))
    is_unmapped = (pl.col("map_source").is_null() | is_guess) & (pl.col("nr_sectors") > 0)
    is_unowned = (pl.col("owner_via") == "unknown") & (pl.col("nr_sectors") > 0)
    pieces = pieces.with_columns(is_unmapped=is_unmapped.fill_null(False), is_unowned=is_unowned)
    is_open = pl.col("is_unmapped") | pl.col("is_unowned")
    filled = _filled(_split(pieces.filter(is_open), runs), files)
    return pl.concat([pieces.filter(~is_open), filled], how="diagonal").drop("is_unmapped", "is_unowned")


def _split(pieces: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces split at the edges of runs, with the columns of their run (inferred_…) or null."""
    places, spans = (
        (rows["request_id"].to_numpy(), rows["part_sector"].to_numpy(), rows["nr_sectors"].to_numpy())
        for rows in (pieces, runs)
    )
    always = np.full(runs.height, intervals.ALWAYS), np.full(runs.height, intervals.FOREVER)
    found = intervals.stab(
        intervals.Queries(*places, time=np.zeros(pieces.height, np.int64)), intervals.Rows(*spans, *always)
    )
    split = pieces[found.query].with_columns(start=pl.Series(found.start), length=pl.Series(found.length))
    inside = pl.col("start") - pl.col("part_sector")
    split = split.with_columns(
        pl.col("sector") + inside,
        pl.col("file_offset_bytes") + inside * units.SECTOR_BYTES,
        part_sector="start",
        nr_sectors="length",
    ).drop("start", "length")
    run = pl.Series(found.row)
    of_runs = runs.rename({name: f"inferred_{name}" for name in runs.columns})
    results = of_runs[run.clip(0)] if runs.height else of_runs.clear(split.height)
    results = results.select(pl.when(run >= 0).then(name).alias(name) for name in results.columns)
    inside = (pl.col("part_sector") - pl.col("inferred_part_sector")) * units.SECTOR_BYTES
    both = pl.concat([split, results], how="horizontal")
    return both.with_columns(pl.col("inferred_file_offset_bytes") + inside)


def _filled(split: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces with file and owner of their runs where they have none."""
    named = ("path", "file_type", "package")
    of_files = files.select("ino", "incarnation", *named, fs_dev="dev").rename(lambda name: f"inferred_{name}")
    key = ["inferred_fs_dev", "inferred_ino", "inferred_incarnation"]
    split = split.join(of_files.unique(key, keep="none"), on=key, how="left", maintain_order="left")
    rule = pl.col("inferred_rule")
    # F2FS keeps nodes and its other metadata in the cache as pages of inodes of their own.
    has_file = (pl.col("inferred_ino") > tracepoints_f2fs.META_INODE).fill_null(False)
    is_node = (rule == "node") | (pl.col("inferred_ino") == tracepoints_f2fs.NODE_INODE)
    percent = rule.replace_strict(_FILE_PERCENT, default=None, return_dtype=pl.Int32)
    is_known = has_file | is_node | (pl.col("inferred_ino") == tracepoints_f2fs.META_INODE)
    results = {
        "block_type": pl.when(has_file).then(pl.lit("data")).otherwise(pl.lit("metadata")),
        "subtype": pl.when(is_node).then(pl.lit("node")),
        "map_source": pl.lit("inferred"),
        **{
            name: pl.when(has_file).then(f"inferred_{name}")
            for name in ("ino", "incarnation", "file_offset_bytes", *named)
        },
        "map_percent": percent,
    }
    owner_percent = rule.replace_strict(_OWNER_PERCENT, default=None, return_dtype=pl.Int32)
    owner = {
        **{name: pl.col(f"inferred_{name}") for name in _OWNER},
        "owner_count": pl.lit(None, pl.Int32),
        "owner_via": pl.lit("inferred"),
        "owner_percent": owner_percent,
    }
    maps = pl.col("is_unmapped") & (is_known & (percent >= _MIN_PERCENT)).fill_null(False)
    has_owner = pl.any_horizontal(pl.col("inferred_owner_pid", "inferred_owner_comm").is_not_null())
    # The submitter of a write may write back data of others: an almost certain writer of the page is right more often.
    is_submitted = (pl.col("owner_via") == "inferred") & pl.col("is_unmapped") & (pl.col("op") == "write")
    is_submitted &= ~rule.str.starts_with("blind_")
    least = pl.when("is_unowned").then(_MIN_PERCENT).when(is_submitted).then(_ALMOST_CERTAIN_PERCENT)
    owns = has_owner & (owner_percent >= least).fill_null(False)
    dtypes = schema.table("io").polars
    return split.with_columns(
        pl.when(condition).then(value.cast(dtypes[name])).otherwise(name).alias(name)
        for condition, values in ((maps, results), (owns, owner))
        for name, value in values.items()
    ).drop(name for name in split.columns if name.startswith("inferred_"))
