"""On whose behalf the bytes moved (definitions.toml, owner).

The thread that queues a write is often not the one that made the data: writeback writes for everyone, and an fsync
writes what other processes left in the file. The filesystem's events tell who put data into a page
(``ext4_da_write_begin``, ``ext4_write_begin``) and who made it dirty (``writeback_dirty_folio``, which also sees
stores through a memory map but only the first after each time the page was written out).
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.spool import batches
from androstep_analysis.link.extents import bio_pages
from androstep_analysis.link.owner import authorship, direct_writes, handles, processes, turns

_OWNER = ("owner_pid", "owner_comm", "owner_package", "owner_count", "owner_via")

_MINORS = 1 << 20

_MET = -1
"""Minus the number of a piece: the number that it has when the device below gets it."""

BATCH = 1 << 17
"""Events of one step."""


class Owners:
    """On whose behalf the pieces of a recording (`extents.pieces`) moved bytes.

    A block of data that was written belongs to the processes that wrote to it since it was last written out; to the
    one that dirtied its page since then, where no write is recorded; else, as all other pieces, to the submitter,
    as far as `_not_written_for_others` believes it. Several processes share a block: the last of them is named,
    `owner_count` says how many they are (null: at least that one).

    Pieces come in parts three times: `prepared` says what they write out, `turns` takes that in order of time beside
    the events, and `owned` cuts the pieces where their owner changes.

    `fs_events` and `tasks` are the tables of those names, the first perhaps without repetitions
    (`tracepoints.without_repetitions`); `block_bytes` is the block size of the filesystem on each device, where it is
    known; `devices` are those whose trace tells who put data into pages (`telling`); `recorded` names the events that
    were recorded, as far as the recorder says; on those `sharing` a disk it is not told of which of them a page becomes
    dirty. Where events may be `lost`, see `_doubted`, `authorship.authors` and `handles.owned`. Where it is unknown how
    large a page is (`page_bytes`), so is what an event about pages is about.
    """

    def __init__(
        self,
        fs_events: pl.LazyFrame,
        tasks: pl.DataFrame,
        block_bytes: Mapping[int, int],
        lost: Losses | None = None,
        recorded: Collection[str] = (),
        *,
        page_bytes: int | None,
        devices: pl.Series,
        sharing: Collection[int] = (),
    ) -> None:
        self._fs_events = fs_events
        self._processes = processes.Processes(tasks)
        self._lost = lost or Losses()
        self._devices = devices
        self._page_bytes = page_bytes
        self._telling = tracepoints.devices(fs_events, tracepoints.is_own())
        self._marking = tracepoints.devices(fs_events, tracepoints.is_own("ext4"))
        # Filesystems that write whole blocks: FAT and exFAT write single sectors of a page.
        whole = {dev: size for dev, size in block_bytes.items() if dev in self._telling}
        self._sizes = {dev: min(size, page_bytes or size) for dev, size in whole.items()}
        self._transactions = handles.transactions(fs_events, self._processes)
        self._shown = bio_pages.Shown(fs_events)
        self._callers = direct_writes.callers(fs_events)
        observed = _observed(fs_events, devices, recorded, page_bytes, self._sizes)
        dirtied = [dev for dev in observed.dirtied if dev not in sharing]
        self._observed = observed._replace(dirtied=dirtied, shown=self._shown.devices.drop_nulls().to_list())
        self._unplaced_parts: list[pl.DataFrame] = []
        self._accesses: list[pl.DataFrame] = []
        self._touched: list[pl.DataFrame] = []
        self._later: list[pl.DataFrame] = []
        self._pieces = 0

    def prepared(self, pieces: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The pieces in order of requests with a number (`at`) and their submitters, and what they write: table outs.

        There stand also the reads of threads that read past the page cache, and as reads of pieces with numbers below
        zero (`_MET`) what was handed on from a device above, at the time at which the device below got it.
        """
        pieces = pieces.sort("request_id", maintain_order=True)
        pieces = pl.concat([pieces, _submitters(pieces, self._processes)], how="horizontal")
        number = pl.int_range(self._pieces, self._pieces + pieces.height, dtype=pl.Int64, eager=True)
        pieces = pieces.with_columns(at=number)
        self._pieces += pieces.height
        self._shown.look(pieces)
        self._unplaced_parts.append(_unplaced(pieces))
        written = _spans(pieces.filter(self._is_decided()), is_read=False)
        read = _spans(pieces.filter((pl.col("op") == "read") & _is_of_file()), is_read=True)
        handed_on = pieces.filter(self._is_decided() & _is_handed_on())
        met = handed_on.with_columns(time="queue_ns", at=_MET - pl.col("at"))
        outs = pl.concat([written, direct_writes.of_callers(read, self._callers)])
        self._accesses.append(direct_writes.of_callers(outs, self._callers))
        return pieces, pl.concat([outs, _spans(met, is_read=True)])

    def turns(self, fs_events: pl.LazyFrame, outs: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """What happened in each turn of a block (`turns.Turns.follow`), in parts.

        `fs_events` is the table with all its rows, `outs` what `prepared` said, in order of time.
        """
        taking = turns.Turns(self._told_of_devices(), self._page_bytes, self._processes)
        told = batches(taking.told(fs_events), BATCH)
        nothing = taking.told(schema.empty("fs_events").lazy()).collect()
        for events, written in _in_step(told, nothing, outs):
            yield self._without_reads(taking.follow(events, written))
        yield self._without_reads(taking.finish())

    @property
    def asks_events(self) -> bool:
        """Whether any owner is decided by events."""
        return not self._devices.is_empty()

    def owned(self, pieces: pl.DataFrame, decided: pl.DataFrame | None) -> pl.DataFrame:
        """The pieces (`prepared`), cut where their owner changes, with the owner columns of table io.

        `decided` are their rows of `turns`, when all are there; None where there are none.
        """
        pieces = pieces.with_columns(is_pageless=self._shown.pageless(pieces))
        pieces = _not_written_for_others(pieces, self._is_observed(), self._is_decided())
        if decided is not None:
            is_decided = self._is_decided().fill_null(False)
            written = pieces.filter(is_decided)
            blocks = _blocks(written, decided, self._sizes)
            blocks = blocks.with_columns(self._is_direct(blocks), self._is_late(blocks))
            authors = authorship.authors(blocks, self._unplaced, self._observed, self._lost)
            others = pieces.filter(~is_decided)
            pieces = pl.concat([others, _cut(written, self._processes.of_threads(authors))], how="diagonal")
        else:
            pieces = pieces.with_columns(is_changed=False)
        pieces = pieces.drop("at", "is_pageless")
        if self._lost.touching("fs_events"):
            pieces = _doubted(pieces, self._devices, self._lost)
        pieces = pieces.drop("is_changed")
        return handles.owned(pieces, self._transactions, self._lost)

    def _is_decided(self) -> pl.Expr:
        """Whether events decide who made what a piece writes."""
        return _is_written(self._marking) & self._is_observed()

    def _is_observed(self) -> pl.Expr:
        return pl.col("part_dev").is_in(self._devices.implode())

    def _told_of_devices(self) -> dict[int, tuple[int, int]]:
        """For each device the size of its blocks and what its trace tells, as `turns.Turns` takes it."""
        observed = self._observed
        flags = {
            turns.TELLS_DIRTY: observed.dirtied,
            turns.HAS_FOLIOS: observed.folios,
            turns.STORES_DIRTY: observed.redirty,
        }
        return {
            dev: (self._sizes.get(dev, units.SECTOR_BYTES), sum(flag for flag, of in flags.items() if dev in of))
            for dev in {*self._sizes, *self._devices, *(dev for of in flags.values() for dev in of)}
        }

    def _without_reads(self, decided: pl.DataFrame) -> pl.DataFrame:
        """The turns of what was written out.

        Kept is when the blocks were touched that direct calls are about, and who changed blocks that were on their way
        to the device below.
        """
        touched = decided.select("piece", "file_block", "touched_ns", "absent_ns")
        self._touched.append(touched.join(self._called_for, on="piece", how="semi"))
        changed = decided.filter(pl.col("piece") <= _MET, pl.col("via").is_not_null())
        by = {"later_process": pl.col("process"), "later_count": pl.col("count")}
        self._later.append(changed.select("file_block", at=_MET - pl.col("piece"), **by))
        return decided.filter(~pl.col("is_read"))

    @functools.cached_property
    def _unplaced(self) -> pl.DataFrame:
        return pl.concat(self._unplaced_parts).sort("ts_ns")

    @functools.cached_property
    def _called_for(self) -> pl.DataFrame:
        """All that `prepared` said of threads that called for direct I/O on the file."""
        return pl.concat(self._accesses)

    @functools.cached_property
    def _of_calls(self) -> pl.Series:
        """The files that any thread called for direct I/O on."""
        return self._callers.select(pl.struct("dev", "ino").unique()).to_series()

    @functools.cached_property
    def _changed_later(self) -> pl.DataFrame:
        """Who changed blocks that were on their way to the device below, of all."""
        return pl.concat(self._later)

    @functools.cached_property
    def _called(self) -> pl.DataFrame:
        """Whether each block was written by a call of direct I/O (`direct_writes.decided`), of all."""
        touched = pl.concat(self._touched).join(self._called_for, on="piece", maintain_order="left")
        return direct_writes.decided(touched.with_columns(size=_size(self._sizes)), self._fs_events)

    def _is_late(self, blocks: pl.DataFrame) -> pl.Series:
        """For each block whether another process than its author changed it before the device below got it.

        What encrypts it on its way may have seen the one or the other.
        """
        joined = blocks.join(self._changed_later, on=["at", "file_block"], how="left", maintain_order="left")
        is_same = (pl.col("later_process") == pl.col("process")) & (pl.col("later_count") <= 1)
        is_late = pl.col("later_count").is_not_null() & ~is_same.fill_null(False)
        return joined.select(is_late=is_late).to_series()

    def _is_direct(self, blocks: pl.DataFrame) -> pl.Series:
        """For each block (`_blocks`) whether it came past the page cache; null where the trace does not tell.

        By the events of direct I/O where the trace has them, and those of pages that became dirty; by the probe on
        submit_bio, where that sees every page: not those that a filesystem with events of its own has encrypted. What
        a thread of the kernel submits comes from the cache, if it is the thread that called (`_is_of_caller`).
        """
        observed = self._observed
        probed = pl.col("dev").is_in(self._shown.devices.implode())
        is_called = pl.col("dev").is_in(list(observed.direct)) & pl.col("dev").is_in(list(observed.dirtied))
        is_called &= ~pl.col("dev").is_in(list(observed.unsized))
        has_page = probed & ~pl.col("is_pageless")
        rule = (
            pl.when(has_page)
            .then(False)
            .when(probed & ~pl.col("dev").is_in(self._telling))
            .then("is_pageless")
            .when(is_called)
            .then("is_direct")
            .when(~pl.col("by_process") & pl.col("is_caller"))
            .then(False)
        )
        joined = blocks.join(self._called, on=["at", "file_block"], how="left", maintain_order="left")
        is_other = pl.col("is_caller") | ~pl.struct("dev", "ino").is_in(self._of_calls.implode())
        is_direct = pl.when("is_decided").then("is_direct").when(is_other).then(False)
        return joined.with_columns(is_direct=is_direct).select(is_direct=rule).to_series()


def telling(devices: pl.Series, fs_events: pl.LazyFrame, recorded: Collection[str]) -> pl.Series:
    """Those of the `devices` with requests whose trace tells who put data into pages, also where nobody did."""
    is_everywhere = not set(tracepoints.DIRTIED).isdisjoint(recorded)
    is_touch = pl.col("event").is_in([*tracepoints.WRITES, *tracepoints.STORES, *tracepoints.DIRTIED])
    told = devices if is_everywhere else pl.Series(tracepoints.devices(fs_events, is_touch), dtype=pl.UInt32)
    return told.drop_nulls().unique()


def _observed(
    fs_events: pl.LazyFrame,
    devices: pl.Series,
    recorded: Collection[str],
    page_bytes: int | None,
    block_bytes: Mapping[int, int],
) -> authorship.Observed:
    """Which devices' traces hold the events of each class, but for those that were lost.

    Events about pages of unknown size tell nothing. `block_bytes` has the devices whose blocks are no single sectors.
    """

    def having(*names: str) -> list[int]:
        if page_bytes is None:
            return []
        if not set(names).isdisjoint(recorded):
            return devices.to_list()
        return tracepoints.devices(fs_events, pl.col("event").is_in(names))

    absent = having(tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.INVALIDATED_PLAINLY)
    is_unsized = tracepoints.is_own("ext4") & ~pl.col("dev").is_in(having(tracepoints.CACHED))
    in_folios = (pl.col("page_order") > 0) | is_unsized
    return authorship.Observed(
        dirtied=having(*tracepoints.DIRTIED),
        absent=absent,
        dropped=having(tracepoints.UNCACHED, *tracepoints.INVALIDATED_PLAINLY),
        cut=having(*tracepoints.INVALIDATED_PLAINLY),
        direct=direct_writes.observed(fs_events, recorded),
        stored=having(*tracepoints.STORES),
        forgetful=_forgetful(fs_events, recorded),
        unwritten=_unwritten(fs_events, recorded),
        redirty=tracepoints.devices(fs_events, tracepoints.is_own("f2fs")),
        unsized=tracepoints.devices(fs_events, is_unsized),
        folios=tracepoints.devices(fs_events, in_folios),
        parted=[dev for dev in devices if block_bytes.get(dev, units.SECTOR_BYTES) < (page_bytes or 0)],
        shown=[],
    )


def _doubted(pieces: pl.DataFrame, devices: pl.Series, lost: Losses) -> pl.DataFrame:
    """The pieces as far as they can be trusted where filesystem events were lost.

    That a block was freed and mapped anew may be among what was lost since an event said where it belongs. That is
    still a fact where another event tells that this page of that file changed, and the request does not say that
    it carries metadata; else it is inferred. And on `devices`, where writers are recorded, data of no recorded writer
    need not be a direct write of its submitter once events were lost: pages may be written out long after they changed.
    """
    ever = pl.Series([None] * pieces.height, dtype=pl.Int64)
    is_old, is_late = (
        pl.lit(lost.between(since, pieces["time"], pieces["part_dev"], "fs_events"))
        for since in (pieces["since_ns"], ever)
    )
    is_changed = pl.col("is_changed").fill_null(False)
    is_alone = is_old & (pl.col("map_source") == "tracepoint") & ~is_changed & (pl.col("block_type") != "journal")
    is_alone |= is_old & (pl.col("block_type") == "data") & pl.col("meta").fill_null(False)
    is_data = pl.col("block_type").is_in(["data", "unknown"]) & (pl.col("op") == "write")
    is_guess = is_late & is_data & (pl.col("owner_via") == "submitter") & pl.col("part_dev").is_in(devices.implode())
    in_map, in_owner = (pl.lit("inferred").cast(schema.enum("io", name)) for name in ("map_source", "owner_via"))
    return pieces.with_columns(
        map_source=pl.when(is_alone).then(in_map).otherwise("map_source"),
        owner_via=pl.when(is_guess.fill_null(False)).then(in_owner).otherwise("owner_via"),
    )


def _not_written_for_others(pieces: pl.DataFrame, is_observed: pl.Expr, is_decided: pl.Expr) -> pl.DataFrame:
    """Return the pieces, with the submitter as inferred where data may be what others wrote.

    An fsync also submits what others wrote. Left out are the pieces for which `authorship` finds the owner
    (`is_decided`), and where events tell who wrote (`is_observed`), those that a probe saw to carry no page of a file.
    What is only guessed to be metadata may be data.
    """
    is_guess = (pl.col("map_source") == "inferred").fill_null(False)
    is_data = pl.col("block_type").is_in(["data", "directory", "unknown"]) | is_guess
    is_submitted = (is_data & (pl.col("op") == "write") & (pl.col("owner_via") == "submitter")).fill_null(False)
    is_inferred = is_submitted & ~(is_decided | (is_observed & pl.col("is_pageless"))).fill_null(False)
    inferred = pl.lit("inferred").cast(schema.enum("io", "owner_via"))
    return pieces.with_columns(owner_via=pl.when(is_inferred).then(inferred).otherwise("owner_via"))


def _forgetful(fs_events: pl.LazyFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose trace tells when an inode's pages are new; without own events numbers are not reused."""
    has_events = tracepoints.is_own().any()
    begins = tracepoints.creations() | pl.col("event").is_in(tracepoints.EVICTIONS)
    begins = (begins | tracepoints.is_recorded([*tracepoints.CREATIONS, *tracepoints.EVICTIONS], recorded)).any()
    by_device = fs_events.drop_nulls("dev").group_by("dev").agg(forgets=begins | ~has_events)
    return by_device.filter("forgets").collect()["dev"].to_list()


def _unwritten(fs_events: pl.LazyFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose filesystem has events of writes that the trace does not hold."""
    is_told = pl.col("event").is_in(tracepoints.WRITES)
    for filesystem in tracepoints.FILESYSTEMS:
        names = {name for name in tracepoints.WRITES if name.startswith(filesystem)}
        if names <= set(recorded):
            is_told |= tracepoints.is_own(filesystem)
    told = tracepoints.devices(fs_events, is_told)
    return [dev for dev in tracepoints.devices(fs_events, tracepoints.is_own()) if dev not in told]


def _is_of_file() -> pl.Expr:
    """Whether it is known which bytes of which file a piece is about, and when it was asked for."""
    return (pl.col("nr_sectors") > 0) & pl.all_horizontal(pl.col("ino", "file_offset_bytes", "time").is_not_null())


def _is_written(marking: Collection[int]) -> pl.Expr:
    """Whether a piece writes bytes of a file that others may have put there.

    On the devices in `marking` metadata carry REQ_META, and are no pages of their inode: ext4 keeps directories in the
    cache of the device.
    """
    is_data = (pl.col("op") == "write") & pl.col("block_type").is_in(["data", "directory", "unknown"])
    is_marked = pl.col("meta").fill_null(False) | (pl.col("block_type") == "directory")
    is_data &= ~(is_marked & pl.col("part_dev").is_in(list(marking)).fill_null(False))
    # The right writer of a guessed file is still a guess.
    return (is_data & (pl.col("map_source") != "inferred") & _is_of_file()).fill_null(False)


def _unplaced(pieces: pl.DataFrame) -> pl.DataFrame:
    """When data was written of which no event says where it belongs: dev and ts_ns, in order of time.

    What is of an inode belongs there also where nothing says what that inode is, as of the files of F2FS' quotas.
    """
    is_placed = (pl.col("block_type") != "unknown") | pl.col("ino").is_not_null()
    is_placed &= (pl.col("map_source") != "inferred").fill_null(False)
    may_be_data = (pl.col("op") == "write") & ~pl.col("meta").fill_null(False) & (pl.col("nr_sectors") > 0)
    rows = pieces.filter(may_be_data & ~is_placed.fill_null(False))
    return rows.select(dev="part_dev", ts_ns="time").drop_nulls().sort("ts_ns")


def _submitters(pieces: pl.DataFrame, tasks: processes.Processes) -> pl.DataFrame:
    """Owner columns by the thread that queued each piece, in the order of `pieces`; without submitter no owner."""
    threads = pieces.select(ts_ns="time", tid="submit_tid", pid="submit_pid", comm="submit_comm")
    identified = tasks.of_threads(threads)
    own = pl.col("is_filesystem")
    return identified.select(
        "owner_pid",
        owner_comm=pl.when(own).then("comm").otherwise("owner_comm"),
        owner_package="owner_package",
        owner_count=pl.col("is_process").cast(pl.Int32),
        owner_via=pl.when("is_process")
        .then(pl.lit("submitter"))
        .when(own)
        .then(pl.lit("filesystem"))
        .otherwise(pl.lit("unknown"))
        .cast(schema.enum("io", "owner_via")),
    )


def _is_of_caller() -> pl.Expr:
    """Whether a piece's submitter is certainly the thread that queued its bio on the filesystem's own device.

    Device-mapper hands bios on to the device below from threads of the kernel, and later: where the trace shows them
    above, both are told from there. Partitions do not, which have the major number of their disk.
    """
    is_of_disk = pl.col("part_dev") // _MINORS == pl.col("dev") // _MINORS
    is_told = (pl.col("owner_via") == "submitter") | is_of_disk | _is_handed_on()
    return (pl.col("submit_tid").is_not_null() & is_told).fill_null(False)


def _is_handed_on() -> pl.Expr:
    """Whether the trace shows that a piece's bio was queued on a device above, before it was on this one."""
    return (pl.col("time") < pl.col("queue_ns")).fill_null(False)


def _spans(pieces: pl.DataFrame, *, is_read: bool) -> pl.DataFrame:
    """The bytes of files that the pieces are about: table outs."""
    end = pl.col("file_offset_bytes") + pl.col("nr_sectors") * units.SECTOR_BYTES
    return pieces.select(
        ts_ns="time", piece="at", dev="part_dev", ino="ino", begin="file_offset_bytes", end=end, tid="submit_tid",
        is_read=pl.lit(is_read),
    )  # fmt: skip


def _in_step(
    told: Iterator[pl.DataFrame], nothing: pl.DataFrame, outs: Iterable[pl.DataFrame]
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Each part of the events with what is written out before its last one; at last `nothing` with the rest."""
    following = iter(outs)
    waiting = schema.empty("outs")
    for events in told:
        last = events["ts_ns"][-1] if events.height else None
        while last is not None and (waiting.is_empty() or waiting["ts_ns"][-1] < last):
            more = next(following, None)
            if more is None:
                break
            waiting = pl.concat([waiting, more])
        end = 0 if last is None else int(waiting["ts_ns"].search_sorted(last, "left"))
        yield events, waiting[:end]
        waiting = waiting[end:]
    for rest in (waiting, *following):
        yield nothing, rest


def _size(block_bytes: Mapping[int, int]) -> pl.Expr:
    """In units of how many bytes the files of a device are written out."""
    return pl.col("dev").replace_strict(block_bytes, default=units.SECTOR_BYTES, return_dtype=pl.Int64)


def _blocks(written: pl.DataFrame, decided: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Each block that the pieces write out, in order, with what happened in its turn and what is told of its bio."""
    turn = decided.rename({"piece": "at"}).sort("at", "file_block")
    bios = written.select(
        "is_pageless",
        "ino",
        dev="part_dev",
        ts_ns="time",
        begin="file_offset_bytes",
        end=pl.col("file_offset_bytes") + pl.col("nr_sectors") * units.SECTOR_BYTES,
        submit_tid="submit_tid",
        submit_pid="submit_pid",
        by_process=pl.col("owner_via") == "submitter",
        is_caller=_is_of_caller(),
    )[written["at"].search_sorted(turn["at"])]
    return pl.concat([turn, bios], how="horizontal").with_columns(size=_size(block_bytes))


def _cut(written: pl.DataFrame, authors: pl.DataFrame) -> pl.DataFrame:
    """The pieces cut where their authors change, with the author as owner where there is one."""
    authors = authors.rename({name: f"author{name[5:]}" for name in _OWNER[:3]})
    # A page that was never written out before, and changed.
    is_changed = (pl.col("is_first") & pl.col("touched_ns").is_not_null()).fill_null(False)
    authors = authors.with_columns(is_changed=is_changed)
    same = ("at", "via", "who", "tid", "author_pid", "author_comm", "author_package", "is_changed")
    changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in same)
    of_runs = ("via", "count", "is_process", "is_changed", "author_pid", "author_comm", "author_package")
    size = pl.col("size")
    runs = (
        authors.with_columns(run=changes.cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col(*same, "count", "is_process").first(),
            start=pl.max_horizontal("begin", pl.col("file_block") * size).first(),
            stop=pl.min_horizontal("end", (pl.col("file_block") + 1) * size).last(),
        )
        .select("at", "start", "stop", *of_runs)
    )
    rows = written["at"].search_sorted(runs["at"])
    cut = pl.concat([written[rows], runs.drop("at")], how="horizontal")
    inside = (pl.col("start") - pl.col("file_offset_bytes")) // units.SECTOR_BYTES
    # Without an author the submitter is the best guess.
    vias = schema.enum("io", "owner_via")
    is_guess = (pl.col("via") == "unknown") & (pl.col("owner_via") == "submitter")
    cut = cut.with_columns(
        via=pl.when(~is_guess).then("via"),
        owner_via=pl.when(is_guess).then(pl.lit("inferred").cast(vias)).otherwise("owner_via"),
    )
    has_author = pl.col("via").is_not_null()
    via = pl.when("is_process").then("via").otherwise(pl.lit("unknown")).cast(vias)
    count = pl.when("is_process").then("count").otherwise(0).cast(pl.Int32)
    return cut.with_columns(
        pl.col("sector") + inside,
        pl.col("part_sector") + inside,
        nr_sectors=(pl.col("stop") - pl.col("start")) // units.SECTOR_BYTES,
        is_changed=pl.col("is_changed") | (has_author & (pl.col("via") != "unknown") & pl.col("is_process")),
        file_offset_bytes=pl.col("start"),
        owner_via=pl.when(has_author).then(via).otherwise("owner_via"),
        owner_count=pl.when(has_author).then(count).otherwise("owner_count"),
        **{
            f"owner_{name}": pl.when(has_author).then(f"author_{name}").otherwise(f"owner_{name}")
            for name in ("pid", "comm", "package")
        },
    ).drop("start", "stop", *(name for name in of_runs if name != "is_changed"))
