"""Find the process on whose behalf bytes moved (definitions.toml, owner).

The thread that queues a write is often not the one that modified the data: writeback writes the data of all processes,
and so does fsync. Filesystem events state which process wrote to a page (``ext4_da_write_begin``) and which dirtied it
(``writeback_dirty_folio``, which also covers the first store through a memory map after each writeback).
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
from androstep_analysis.link.owner import (
    coverage,
    direct_writes,
    dirty_intervals,
    handles,
    processes,
    rules,
    segments,
    submitters,
    writebacks,
)

BATCH = 1 << 17
"""Number of events that are processed at once."""

_PASSED_ON = -1
"""Minus the number of a piece identifies its blocks at the time when the device below gets them."""


class Owners:
    """Find the owners of the pieces of a recording (`extents.pieces`), in three passes over batches of pieces.

    1. `prepare` lists their writebacks.
    2. `attribute` merges the writebacks with the events of pages by time.
    3. `split` splits the pieces where their owner changes.

    A written block of data belongs to the last process that modified it since its previous writeback (`rules`), and a
    journal block to the processes with handles (`handles`). All other pieces belong to their submitter, as far as that
    is certain (`submitters`). `owner_count` is the number of processes that share a block; null: one or more.
    """

    def __init__(
        self,
        fs_events: pl.LazyFrame,
        kinds: pl.DataFrame,
        threads: processes.Processes,
        block_bytes: Mapping[int, int],
        lost: Losses | None = None,
        recorded: Collection[str] = (),
        *,
        page_bytes: int | None,
        devices: pl.Series,
        sharing: Collection[int] = (),
        page_events: pl.LazyFrame | None = None,
    ) -> None:
        """Find out what the trace covers.

        `fs_events` is the table of that name, which may lack repetitions (`tracepoints.without_repetitions`), and
        `kinds` are its `tracepoints.kinds`. `block_bytes` is the block size of the filesystem on each device, if known.
        `recorded` are the events that the recorder reports as enabled. `devices` are those with recorded modifications
        (`coverage.with_modifications`). On those `sharing` a disk, dirtying events do not identify the filesystem, and
        are only in `page_events`, on each of them (`tracepoints.on_each_filesystem`).
        """
        self._fs_events = fs_events
        self._processes = threads
        self._lost = lost or Losses()
        self._devices = devices
        self._page_bytes = page_bytes
        self._with_own_events = tracepoints.devices(kinds, tracepoints.is_own())
        self._marking = tracepoints.devices(kinds, tracepoints.is_own("ext4"))
        # FAT and exFAT, which have no events of their own, write single sectors of a page.
        whole = {dev: size for dev, size in block_bytes.items() if dev in self._with_own_events}
        self._sizes = {dev: min(size, page_bytes or size) for dev, size in whole.items()}
        self.transactions = handles.transactions(fs_events, self._processes)
        self._bio_pages = bio_pages.Shown(fs_events)
        self._callers = direct_writes.callers(fs_events)
        self._coverage = coverage.coverage(
            *(kinds, devices, recorded), page_bytes=page_bytes, block_bytes=self._sizes,
            bio_pages=self._bio_pages.devices.drop_nulls().to_list(), sharing=sharing,
            page_events=fs_events if page_events is None else page_events,
        )  # fmt: skip
        self._servers: list[pl.DataFrame] = []
        self._unplaced_parts: list[pl.DataFrame] = []
        self._accesses: list[pl.DataFrame] = []
        self._touched: list[pl.DataFrame] = []
        self._modified_later_parts: list[pl.DataFrame] = []
        self._pieces = 0

    @property
    def needs_events(self) -> bool:
        """Whether events decide any owner."""
        return not self._devices.is_empty()

    @property
    def servers(self) -> pl.DataFrame:
        """The submitters of all pieces that serve other processes (`tasks.serves_others`): tid, pid, comm."""
        return pl.concat(self._servers).drop_nulls("tid").unique()

    def prepare(self, pieces: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the pieces by request, with a number (`at`) and the owner by submitter, and their writebacks.

        The second table (schemas/writebacks.json) includes reads by threads with calls of direct I/O. A bio that was
        passed on from a device above also has a row at the time when the device below got it, as a read with a negative
        number (`_PASSED_ON`).
        """
        pieces = pieces.sort("request_id", maintain_order=True)
        named = submitters.submitters(pieces, self._processes)
        threads = pieces.filter(named["is_server"]).select(tid="submit_tid", pid="submit_pid", comm="submit_comm")
        self._servers.append(threads.unique())
        pieces = pl.concat([pieces, named.drop("is_server")], how="horizontal")
        number = pl.int_range(self._pieces, self._pieces + pieces.height, dtype=pl.Int64, eager=True)
        pieces = pieces.with_columns(at=number)
        self._pieces += pieces.height
        self._bio_pages.add(pieces)
        self._unplaced_parts.append(writebacks.unplaced(pieces))
        decided = pieces.filter(self._is_decided())
        read = pieces.filter((pl.col("op") == "read") & writebacks.is_of_file())
        passed_on = decided.filter(submitters.is_passed_on())
        passed_on = passed_on.with_columns(time="queue_ns", at=_PASSED_ON - pl.col("at"))
        read_directly = direct_writes.of_callers(writebacks.spans(read, is_read=True), self._callers)
        rows = pl.concat([writebacks.spans(decided, is_read=False), read_directly])
        self._accesses.append(direct_writes.of_callers(rows, self._callers))
        return pieces, pl.concat([rows, writebacks.spans(passed_on, is_read=True)])

    def attribute(self, fs_events: pl.LazyFrame, written_back: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the dirty intervals of written blocks (`DirtyIntervals.process`) in batches.

        `fs_events` is the complete table; `written_back` are the rows from `prepare`, sorted by time.
        """
        intervals = dirty_intervals.DirtyIntervals(self._flags_of_devices(), self._page_bytes, self._processes)
        events = batches(intervals.page_events(fs_events), BATCH)
        no_events = intervals.page_events(schema.empty("fs_events").lazy()).collect()
        for page_events, written in writebacks.in_step(events, no_events, written_back):
            yield self._of_writebacks(intervals.process(page_events, written))
        yield self._of_writebacks(intervals.finish())

    def split(self, pieces: pl.DataFrame, decided: pl.DataFrame | None) -> pl.DataFrame:
        """Return the pieces from `prepare`, split where their owner changes, with the owner columns of table io.

        `decided` are their rows from `attribute`, once all are there, or None.
        """
        pieces = pieces.with_columns(is_pageless=self._bio_pages.pageless(pieces))
        pieces = submitters.infer_for_others(pieces, self._is_covered(), self._is_decided())
        if decided is not None:
            is_decided = self._is_decided().fill_null(False)
            written = pieces.filter(is_decided)
            others = pieces.filter(~is_decided)
            pieces = pl.concat([others, segments.split(written, self._modified(written, decided))], how="diagonal")
        else:
            pieces = pieces.with_columns(is_changed=False)
        if self._lost.touching("fs_events"):
            pieces = submitters.infer_after_losses(pieces, self._devices, self._lost)
        pieces = handles.without_uninvolved_owners(pieces, self.transactions, self._lost)
        return handles.owned(pieces.drop("at", "is_pageless", "is_changed"), self.transactions, self._lost)

    def _modified(self, written: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
        """Return the blocks of the written pieces with their last modifiers."""
        blocks = segments.blocks(written, intervals, self._sizes)
        is_direct = direct_writes.is_direct(
            *(blocks, self._direct_blocks, self._callers, self._coverage, self._with_own_events)
        )
        blocks = blocks.with_columns(is_direct, self._is_modified_later(blocks))
        return self._processes.of_threads(rules.name_modifiers(blocks, self._unplaced, self._coverage, self._lost))

    def _is_decided(self) -> pl.Expr:
        """Return whether `rules` decide the owner of a piece."""
        return writebacks.may_be_of_others(self._marking) & self._is_covered()

    def _is_covered(self) -> pl.Expr:
        return pl.col("part_dev").is_in(self._devices.implode())

    def _flags_of_devices(self) -> dict[int, tuple[int, int]]:
        """Return the block size and the flags of each device for `DirtyIntervals`."""
        flags = {
            dirty_intervals.RECORDS_DIRTY: self._coverage.dirtying,
            dirty_intervals.HAS_LARGE_FOLIOS: self._coverage.large_folios,
            dirty_intervals.DIRTIES_BEFORE_STORE: self._coverage.redirties,
        }
        return {
            dev: (self._sizes.get(dev, units.SECTOR_BYTES), sum(flag for flag, of in flags.items() if dev in of))
            for dev in {*self._sizes, *self._devices, *(dev for of in flags.values() for dev in of)}
        }

    def _of_writebacks(self, intervals: pl.DataFrame) -> pl.DataFrame:
        """Return the intervals that end in a writeback, and retain what the others show.

        These are the times of events of blocks with direct I/O, and the processes that modified blocks before the
        device below got them.
        """
        touched = intervals.select("piece", "file_block", "touched_ns", "absent_ns")
        self._touched.append(touched.join(self._direct_accesses, on="piece", how="semi"))
        modified = intervals.filter(pl.col("piece") <= _PASSED_ON, pl.col("via").is_not_null())
        later = {"later_process": pl.col("process"), "later_count": pl.col("count")}
        self._modified_later_parts.append(modified.select("file_block", at=_PASSED_ON - pl.col("piece"), **later))
        return intervals.filter(~pl.col("is_read"))

    @functools.cached_property
    def _unplaced(self) -> pl.DataFrame:
        return pl.concat(self._unplaced_parts).sort("ts_ns")

    @functools.cached_property
    def _direct_accesses(self) -> pl.DataFrame:
        """The rows from `prepare` of threads with calls of direct I/O on the file."""
        return pl.concat(self._accesses)

    @functools.cached_property
    def _direct_blocks(self) -> pl.DataFrame:
        touched = pl.concat(self._touched).join(self._direct_accesses, on="piece", maintain_order="left")
        return direct_writes.decided(touched.with_columns(size=segments.block_size(self._sizes)), self._fs_events)

    @functools.cached_property
    def _modified_later(self) -> pl.DataFrame:
        return pl.concat(self._modified_later_parts)

    def _is_modified_later(self, blocks: pl.DataFrame) -> pl.Series:
        """Return whether another process modified the block before the device below, such as dm-crypt, got it."""
        joined = blocks.join(self._modified_later, on=["at", "file_block"], how="left", maintain_order="left")
        is_same = (pl.col("later_process") == pl.col("process")) & (pl.col("later_count") <= 1)
        is_later = pl.col("later_count").is_not_null() & ~is_same.fill_null(False)
        return joined.select(is_modified_later=is_later).to_series()
