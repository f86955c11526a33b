"""Split the pieces of write requests into shares, each of one process and file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.evidence import inodes
from androstep_analysis.link.extents import pagesize
from androstep_analysis.measures import write_causes, write_outcomes
from androstep_analysis.measures.tables import Table, counted, is_known, is_named, lazy
from androstep_analysis.measures.write_causes import FILE, OWNER

_DISCARDS: Final = ("discard", "secure_erase")
MOST_SHARES: Final = 2_000_000
"""The most shares in memory at once, as long as they are of different requests. A transaction has as many as blocks
times files."""
_OF_PAGES: Final = ("write_begin", "dirty_folio")


class WriteData(NamedTuple):
    """The data on writes: `pieces` (`_pieces`), the processes that changed files, and the inputs."""

    pieces: pl.DataFrame
    causes: write_causes.Causes
    fs_events: pl.LazyFrame
    lost: Losses


def write_data(
    tables: Mapping[str, Table], page_bytes: int | None, lost: Losses | None, recorded: Collection[str] | None
) -> WriteData:
    """Return the data on writes from `tables` and the further parameters of `write_cost`."""

    def table(name: str) -> pl.LazyFrame:
        return lazy(tables.get(name, schema.empty(name)), (name,))

    lost, fs_events, pieces = lost or Losses(), table("fs_events"), _pieces(tables["requests"], tables["io"])
    files = table("files")
    writebacks, unplaced = _writebacks(
        pieces, files.select(*inodes.FILE, "valid_from_ns", "valid_to_ns").collect(), fs_events
    )
    page_bytes = pagesize.proven(page_bytes, fs_events)
    paged = pagesize.counted(fs_events, page_bytes)
    writers, repeated = write_outcomes.follow(paged, writebacks, unplaced, page_bytes=page_bytes, lost=lost)
    pieces = pieces.join(writebacks.select("at", repeated=repeated), on="at", how="left", maintain_order="left")
    reused = tracepoints.without_lifetimes(fs_events, recorded or ())
    pieces = pieces.with_columns(is_of_one_file=~pl.col("part_dev").is_in(reused))
    return WriteData(pieces, write_causes.Causes(table("tasks").collect(), files, writers), fs_events, lost)


def _pieces(requests: Table, io: Table) -> pl.DataFrame:
    """Return the pieces of writes and discards, in order of requests, with their index (`at`).

    They have the device and the thread of the filesystem's request (part_dev, submit_tid), the time at which it was
    queued (`time`) and the type of the piece (`part`).
    """
    kind, subtype = pl.col("block_type").cast(pl.String), pl.col("subtype").cast(pl.String)
    # The guesses of link.inferred are nearly always right, but this is not enough to report data as rewritten.
    has_guesses = "map_percent" in lazy(io).collect_schema()  # captures of earlier releases lack this column
    is_guess = pl.col("map_percent").is_not_null() if has_guesses else pl.lit(False)
    part = (
        pl.when(pl.col("op") != "write")
        .then(pl.lit("discard"))
        .when(is_guess)
        .then(pl.lit("unknown"))
        .when((kind == "metadata") & (subtype == "node"))
        .then(pl.lit("node"))
        .when(kind.is_in(["data", "directory", "journal", "metadata"]))
        .then(kind)
        .otherwise(pl.lit("unknown"))
    )
    of_requests = lazy(requests).select("request_id", "part_dev", "submit_tid")
    written = counted(io).filter(pl.col("op").is_in(["write", *_DISCARDS]), pl.col("bytes") > 0)
    return (
        written.join(of_requests, on="request_id", how="left", maintain_order="left")
        .select(
            *("request_id", "dev", "sector", "nr_sectors", "bytes", "submit_tid", "file_offset_bytes"),
            *("owner_count", "owner_via", "map_source", *OWNER, "ino", "incarnation", "path", "package"),
            pl.col("file_type").cast(pl.String),
            part_dev=pl.coalesce("part_dev", "dev"),
            subtype=subtype,
            time=pl.coalesce("queue_ns", "issue_ns", "complete_ns"),
            part=part,
        )
        .collect()
        .with_row_index("at")
    )


def _writebacks(
    pieces: pl.DataFrame, files: pl.DataFrame, fs_events: pl.LazyFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the writebacks of data, and the times of writes of unknown files, as `write_outcomes.follow` takes both.

    - Data, with `at`, is identified by file, else by sector (inode -1). The sector is used for inferred pieces, and for
      pieces of a file that no longer has the inode number at that time.
    - Pieces that may be data and are not identified by file are unplaced.
    - A device with file writes but without pieces of its own gets the unplaced pieces of all devices.
    """
    now = inodes.at_time(pieces.select("at", "ino", dev="part_dev", ts_ns="time"), files)
    pieces = pieces.join(now.select("at", now="incarnation"), on="at", how="left", maintain_order="left")
    is_placed = pl.col("ino").is_not_null() & pl.col("file_offset_bytes").is_not_null()
    is_placed &= (pl.col("incarnation") == pl.col("now")).fill_null(True)
    is_inferred = (pl.col("map_source") == "inferred").fill_null(False)
    pieces = pieces.with_columns(is_placed=is_placed & ~is_inferred, ts_ns=pl.col("time").fill_null(0))
    begin = pl.when("is_placed").then("file_offset_bytes").otherwise(pl.col("sector") * SECTOR_BYTES)
    data = pieces.filter(part="data").sort("ts_ns", "at").select(
        "at",
        "ts_ns",
        dev=pl.when("is_placed").then("part_dev").otherwise("dev"),
        ino=pl.when("is_placed").then("ino").otherwise(-1),
        begin=begin,
        end=begin + pl.col("bytes"),
    )  # fmt: skip
    may_be_data = (pl.col("part") != "discard") & (pl.col("part").is_in(["data", "unknown"]) | is_inferred)
    unplaced = pieces.filter(may_be_data & ~pl.col("is_placed")).select("ts_ns", dev="part_dev").unique()
    written = tracepoints.devices(fs_events, pl.col("event").is_in(tracepoints.WRITES))
    unseen = pl.DataFrame({"dev": sorted({*written} - {*pieces["part_dev"].unique()})}, schema={"dev": pl.UInt32})
    everywhere = unplaced.select("ts_ns").unique().join(unseen, how="cross")
    return data, pl.concat([unplaced, everywhere]).sort("ts_ns")


def shares(known: WriteData, by: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the shares of the pieces.

    Columns are request_id, dev, part_dev, at, time, part, bytes, those of `OWNER` and `FILE` in `by`, and inferred:
    whether these are only inferred. The shares of a piece add up to its bytes. There is at least one frame, and each
    request is in only one of them.
    """
    named = [name for name in (*OWNER, *FILE) if name in by]
    columns = ["request_id", "dev", "part_dev", "at", "time", "part", "bytes", *named, "inferred"]
    found = [*_of_transactions(known), _freed(known), _of_checkpoints(known)]
    cut_by = [*named, "inferred"]
    together = [
        (pieces, write_causes.weights(_with_certainty(known.causes.named(changes), named), cut_by))
        for pieces, changes in found
    ]
    done = pl.concat([pieces.select("at") for pieces, _ in together])
    own = known.pieces.join(done, on="at", how="anti", maintain_order="left")
    sizes = [own.select("request_id", shares=pl.lit(1, pl.Int64))]
    for pieces, weights in together:
        rows = write_causes.within(pieces, weights)
        sizes.append(pieces.select("request_id", shares=(rows["behind"] - rows["begin"]).clip(1)))
    of_requests = pl.concat(sizes).group_by("request_id").agg(pl.col("shares").sum()).sort("request_id")
    numbered = of_requests.select("request_id", number=pl.col("shares").cum_sum() // MOST_SHARES)
    for number in numbered["number"].unique().sort().to_list() or [0]:
        requests = numbered.filter(number=number).select("request_id")
        own_there, *there = (
            pieces.join(requests, on="request_id", how="semi", maintain_order="left")
            for pieces in (own, *(pieces for pieces, _ in together))
        )
        cut = [write_causes.shared(pieces, of, cut_by) for pieces, (_, of) in zip(there, together, strict=True)]
        own_rows = _own(own_there)
        is_inferred = is_named(named) & ~is_known(named, own_rows.columns)
        yield pl.concat([part.select(columns) for part in (own_rows.with_columns(inferred=is_inferred), *cut)])


def _with_certainty(changes: pl.DataFrame, named: Sequence[str]) -> pl.DataFrame:
    """Return the changes with column inferred: whether the process or the file in `named` is only inferred."""
    of_owner, of_file = (pl.lit(not set(names).isdisjoint(named)) for names in (OWNER, FILE))
    is_inferred = (of_owner & pl.col("owner_inferred")) | (of_file & pl.col("file_inferred"))
    return changes.with_columns(inferred=is_named(named) & is_inferred)


def _own(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces that belong to their owner in table io.

    If several processes modified one, the named owner gets an equal share.

    Threads of the filesystem are no owners. Bytes that had been written back before become part rewritten, or unknown
    if the inode number may have been reused.
    """
    is_own = pl.col("owner_via") != "filesystem"
    pieces = pieces.with_columns(pl.when(is_own).then(name).alias(name) for name in OWNER)
    repeated = pl.col("repeated").fill_null(0)
    first = pl.col("bytes") - repeated
    again = pl.when("is_of_one_file").then(pl.lit("rewritten")).otherwise(pl.lit("unknown"))
    rows = pl.concat([pieces.with_columns(bytes=first), pieces.with_columns(bytes=repeated, part=again)])
    own = pl.col("bytes") // pl.col("owner_count").fill_null(1).clip(lower_bound=1)
    others = rows.with_columns(
        *(pl.lit(None, rows.schema[name]).alias(name) for name in OWNER), bytes=pl.col("bytes") - own
    )
    return pl.concat([rows.with_columns(bytes=own), others]).filter(pl.col("bytes") > 0)


# -- what is written together -----------------------------------------------------------------------------------------

Together = tuple[pl.DataFrame, pl.DataFrame]
"""Pieces with the periods (first, last) whose changes they carry, and the changes (dev, period, weight, …)."""


def _of_transactions(known: WriteData) -> list[Together]:
    """Return the blocks of ext4's journal, and the metadata of transactions that is written in place."""
    committed = write_causes.commits(known.fs_events)
    changes = write_causes.handle_changes(known.fs_events).join(
        committed.select("dev", "transaction", "period"), on=["dev", "transaction"]
    )
    journal = known.pieces.filter(part="journal", owner_via="handle").drop_nulls("time").sort("time")
    journal = journal.join_asof(
        committed.select(part_dev="dev", time="start_ns", first="period").sort("time"),
        on="time", by="part_dev", check_sortedness=False,
    ).with_columns(last="first")  # fmt: skip
    in_place = known.pieces.filter(
        pl.col("part").is_in(["metadata", "directory"]),
        ~pl.col("owner_via").is_in(_OF_PAGES),
        pl.col("part_dev").is_in(tracepoints.devices(known.fs_events, tracepoints.is_own("ext4"))),
    )
    in_place = write_causes.periods_between(_since_before(in_place), committed, known.lost).drop("before_ns")
    return [(journal, changes), (in_place, changes)]


def _since_before(pieces: pl.DataFrame) -> pl.DataFrame:
    """Split the pieces where the time of the previous write of their sectors (`before_ns`) changes."""
    sectors = pl.int_ranges(pl.col("sector"), pl.col("sector") + pl.col("nr_sectors"))
    sector_writes = (
        pieces.select("at", "dev", "time", sector=sectors).explode("sector").sort("time", maintain_order=True)
    )
    before = sector_writes.select("at", before_ns=pl.col("time").shift().over("dev", "sector"))
    cut = before.group_by("at", "before_ns").agg(bytes=pl.len().cast(pl.Int64) * SECTOR_BYTES)
    return pieces.drop("bytes").join(cut, on="at", maintain_order="left").select(*pieces.columns, "before_ns")


def _freed(known: WriteData) -> Together:
    """Return the discards that ext4 issues after the commit of a transaction, and the blocks that were freed in it."""
    committed = write_causes.commits(known.fs_events).sort("start_ns").select("dev", "start_ns", "period")
    changes = write_causes.frees(known.fs_events).sort("ts_ns").join_asof(
        committed, left_on="ts_ns", right_on="start_ns", by="dev", strategy="forward", check_sortedness=False
    ).drop_nulls("period")  # fmt: skip
    freeing = changes.select(part_dev="dev", time="start_ns", first="period").unique().sort("time")
    discards = known.pieces.filter(
        pl.col("part") == "discard",
        pl.col("owner_via") != "submitter",
        pl.col("part_dev").is_in(changes["dev"].implode()),
    )
    discards = discards.drop_nulls("time").sort("time")
    discards = discards.join_asof(freeing, on="time", by="part_dev", check_sortedness=False)
    return discards.with_columns(last="first"), changes.drop("start_ns")


def _of_checkpoints(known: WriteData) -> Together:
    """Return what F2FS writes in checkpoints. Node blocks that a process writes by fsync are not included.

    Not all changes before the first checkpoint of the recording, period 0, are known.
    """
    changes = write_causes.file_changes(known.fs_events).sort("ts_ns")
    metadata = known.pieces.filter(
        pl.col("part").is_in(["node", "metadata"]), pl.col("part_dev").is_in(changes["dev"].implode())
    )
    metadata = metadata.drop_nulls("time").sort("part_dev", "time", maintain_order=True)
    is_pack = pl.col("subtype") == "checkpoint"
    ends_pack = is_pack & ~is_pack.shift(-1).over("part_dev").fill_null(False)
    ends = metadata.filter(ends_pack).select("part_dev", "time", period=pl.int_range(pl.len()).over("part_dev"))
    ends = ends.sort("time")
    after = ends.select(dev="part_dev", ts_ns="time", period=pl.col("period") + 1)
    changes = changes.join_asof(after, on="ts_ns", by="dev", check_sortedness=False)
    changes = changes.with_columns(pl.col("period").fill_null(0))
    is_own = (pl.col("part") == "node") & ~pl.col("owner_via").is_in(["unknown", "filesystem"])
    rows = metadata.filter(~is_own).sort("time")
    rows = rows.join_asof(ends.rename({"period": "first"}), on="time", by="part_dev", strategy="forward",
                          check_sortedness=False)  # fmt: skip
    of_last = ends.group_by("part_dev").agg(behind=pl.col("period").max() + 1)
    rows = rows.join(of_last, on="part_dev", how="left", maintain_order="left")
    period = pl.coalesce("first", "behind")
    rows = rows.with_columns(first=pl.when(period > 0).then(period))
    return rows.drop("behind").with_columns(last="first"), changes
