"""Split requests into pieces: find the extent that contained each sector when its bio was submitted."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence import filetype
from androstep_analysis.link.intervals import ALWAYS, FOREVER
from androstep_analysis.link.requests import Linked

_INFERRED = pl.lit("inferred").cast(schema.enum("io", "map_source"))

CONFIDENCE = ("tracepoint", "context", "recorded", "image_before", "fiemap", "journal", "image_after", "inferred")
"""Sources of extents, most trusted first: a later one maps only what the earlier ones leave unmapped."""


def pieces(
    linked: Linked,
    extents: pl.DataFrame,
    files: pl.DataFrame,
    marking: frozenset[int] = frozenset(),
    without_frees: frozenset[int] = frozenset(),
    with_events: frozenset[int] = frozenset(),
) -> pl.DataFrame:
    """Return the requests, split at the edges of their bios and of the extents that contain them.

    `extents` and `files` are in sectors of the filesystem's own device, and are joined by `part_dev` and `part_sector`.
    The time of a bio is that of its submission, or else of its issue or completion. An empty flush is one piece without
    sectors and block type. A piece of a file with source `inferred` is inferred, too. Three sets of devices
    restrict the extents:

    - `marking`: only metadata carries REQ_META there, so that an extent of data of a bio with it is of another time.
    - `without_frees`: no event shows which blocks are freed and become metadata. What events state of metadata is
      inferred.
    - `with_events`: the filesystem has events of its own. What it discards is free.

    The columns are those of table io except piece, bytes and the owner; and part_dev, part_sector, meta, incarnation,
    submit_tid, submit_pid, submit_comm, `time`, and `since_ns`, the begin of the extent.
    """
    mapped = _typed(_map(placed(linked), extents, marking, without_frees), extents)
    named = _name(_free_discarded(mapped, with_events), files)
    return pl.concat([_use_recorded(named), _flushes(linked)], how="diagonal")


def with_inferred_names(pieces: pl.DataFrame, renamed: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces, inferred where the file has a name and is one of `renamed` (dev, ino, incarnation)."""
    if renamed.is_empty():
        return pieces
    likely = renamed.rename({"dev": "part_dev"}).with_columns(is_likely=pl.lit(True))
    joined = pieces.join(likely, on=["part_dev", "ino", "incarnation"], how="left", maintain_order="left")
    is_likely = pl.col("is_likely").fill_null(False) & pl.col("path").is_not_null()
    return joined.with_columns(map_source=pl.when(is_likely).then(_INFERRED).otherwise("map_source")).drop("is_likely")


def table(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return table `io` of the pieces with owners, numbered within their request."""
    io = _in_order(pieces)
    row = pl.int_range(pl.len())
    first = pl.when(pl.col("request_id") != pl.col("request_id").shift(fill_value=-1)).then(row).forward_fill()
    io = io.with_columns(piece=row - first, bytes=pl.col("nr_sectors") * units.SECTOR_BYTES)
    want = schema.table("io").polars
    return schema.conform(io.select(pl.col(name).cast(dtype) for name, dtype in want.items()), "io")


def _in_order(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces sorted by request and sector. They are already sorted if no extent split them."""
    request, sector = pl.col("request_id").diff(), pl.col("sector").diff()
    is_next = ((request > 0) | ((request == 0) & (sector > 0))).all()
    if not pieces.select((request >= 0).all()).item():
        pieces = pieces.sort("request_id", maintain_order=True)
    return pieces if pieces.select(is_next).item() else pieces.sort("request_id", "sector")


def _request_columns(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that every piece takes from its request."""
    sync = (pl.col("op") == "write") & (pl.col("sync") | pl.col("fua") | pl.col("preflush"))
    return requests.select(
        "request_id",
        "dev",
        "part_dev",
        "op",
        "issue_ns",
        "complete_ns",
        "meta",
        sync=sync,
        request_queue_ns=pl.col("queue_ns"),
        offset=pl.col("sector") - pl.col("part_sector"),
    )


def placed(linked: Linked) -> pl.DataFrame:
    """Return the bios with columns of their request, and with sector and time on the filesystem's own device."""
    row = linked.bios["request_id"] - (linked.requests["request_id"].first() or 0)
    of_requests = _request_columns(linked.requests).drop("request_id")[row]
    return pl.concat([linked.bios, of_requests], how="horizontal").with_columns(
        part_sector=pl.col("sector") - pl.col("offset"),
        queue_ns=pl.coalesce("queue_ns", "request_queue_ns"),
        time=pl.coalesce("submit_ns", "queue_ns", "request_queue_ns", "issue_ns", "complete_ns"),
    )


def _flushes(linked: Linked) -> pl.DataFrame:
    flushes = linked.requests.filter(pl.col("nr_sectors") == 0)
    return _request_columns(flushes).with_columns(
        queue_ns=pl.col("request_queue_ns"), sector=pl.lit(None, pl.Int64), nr_sectors=pl.lit(0, pl.Int64)
    )


def _map(
    bios: pl.DataFrame, extents: pl.DataFrame, marking: frozenset[int], without_frees: frozenset[int]
) -> pl.DataFrame:
    """Split the bios at extents, by source in order of confidence. What no source maps has block type unknown."""
    mapped = [_extent_columns(schema.empty("extents"))]
    rest = bios
    for stated in _by_confidence(extents, without_frees):
        if not stated.height or not rest.height:
            continue
        pieces, row = _split(rest, stated)
        covered = pieces.filter(row >= 0)
        extent = stated[row.filter(row >= 0)]
        is_valid = _can_hold(covered["op"], extent) & ~_is_contradicted(covered, extent, marking)
        is_valid &= ~_is_unproven(covered, extent, without_frees)
        inside = (covered["part_sector"] - extent["sector"]) * units.SECTOR_BYTES
        columns = _extent_columns(_as_discarded(covered["op"], extent)).with_columns(
            file_offset_bytes=pl.col("file_offset_bytes") + inside
        )
        mapped.append(pl.concat([covered, columns], how="horizontal").filter(is_valid))
        rest = pl.concat([pieces.filter(row < 0), covered.filter(~is_valid)])
    unknown = pl.lit("unknown").cast(schema.enum("extents", "block_type"))
    return pl.concat([*mapped, rest.with_columns(block_type=unknown)], how="diagonal")


def _by_confidence(extents: pl.DataFrame, without_frees: frozenset[int]) -> Iterator[pl.DataFrame]:
    """Yield the extents of each source. Those that `_is_unproven` excluded precede the inferred ones."""
    for source in CONFIDENCE:
        if source == "inferred":
            unproven = extents.filter(pl.col("source") == "tracepoint", pl.col("dev").is_in(list(without_frees)))
            yield unproven.with_columns(source=pl.lit(source).cast(extents.schema["source"]))
        yield extents.filter(pl.col("source") == source)


def _split(bios: pl.DataFrame, extents: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return the bios split at the edges of extents, and for each piece the row of its extent (-1: none)."""
    found = intervals.stab(_queries(bios), _rows(extents))
    start = pl.Series(found.start)
    pieces = bios[found.query].with_columns(
        sector=start + pl.col("offset"), part_sector=start, nr_sectors=pl.Series(found.length)
    )
    return pieces, pl.Series(found.row)


def _typed(pieces: pl.DataFrame, extents: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces; if the type of a file is unknown, use that of another source for this inode and offset."""
    is_untyped = (pl.col("block_type") == "unknown") & pl.col("ino").is_not_null()
    is_untyped &= (pl.col("map_source") != "inferred").fill_null(False)
    rest, parts = pieces.filter(is_untyped), [pieces.filter(~is_untyped)]
    for source in CONFIDENCE[:-1]:
        stated = extents.filter(pl.col("source") == source, pl.col("block_type") != "unknown")
        if not stated.height or not rest.height:
            continue
        split, row = _split(rest.with_columns(unsplit="part_sector"), stated)
        before = (pl.col("part_sector") - pl.col("unsplit")) * units.SECTOR_BYTES
        split = split.with_columns(pl.col("file_offset_bytes") + before).drop("unsplit")
        covered, extent = split.filter(row >= 0), stated[row.filter(row >= 0)]
        inside = (covered["part_sector"] - extent["sector"]) * units.SECTOR_BYTES
        is_same = (extent["ino"] == covered["ino"]) & (
            extent["file_offset_bytes"] + inside == covered["file_offset_bytes"]
        )
        is_same = is_same.fill_null(False)
        parts.append(covered.with_columns(extent["block_type"], extent["subtype"]).filter(is_same))
        rest = pl.concat([split.filter(row < 0), covered.filter(~is_same)])
    return pl.concat([*parts, rest])


def _is_unproven(bios: pl.DataFrame, extent: pl.DataFrame, without_frees: frozenset[int]) -> pl.Series:
    """Return whether a bio carries metadata and its extent is from events that do not show which blocks are freed."""
    is_traced = extent["source"] == "tracepoint"
    return is_traced & bios["meta"].fill_null(False) & bios["part_dev"].is_in(list(without_frees)).fill_null(False)


def _free_discarded(pieces: pl.DataFrame, with_events: frozenset[int]) -> pl.DataFrame:
    """Return the pieces; those that a filesystem discards and no extent maps are free: it discards nothing else."""
    is_free = pl.col("map_source").is_null() & (pl.col("op") == "discard")
    is_free &= pl.col("part_dev").is_in(list(with_events)).fill_null(False)
    facts = {"block_type": ("extents", "free"), "map_source": ("io", "context")}
    return pieces.with_columns(
        pl.when(is_free).then(pl.lit(value).cast(schema.enum(table, name))).otherwise(name).alias(name)
        for name, (table, value) in facts.items()
    )


def _as_discarded(op: pl.Series, extent: pl.DataFrame) -> pl.DataFrame:
    """Return the extents, as free if they are discarded: F2FS has no event for the blocks that a deletion frees."""
    free = pl.lit("free").cast(extent.schema["block_type"])
    of_nothing = ("subtype", "ino", "incarnation", "file_offset_bytes")
    keeps_data = pl.lit(op) != "discard"
    return extent.with_columns(
        pl.when(keeps_data).then("block_type").otherwise(free), *(pl.when(keeps_data).then(name) for name in of_nothing)
    )


def _can_hold(op: pl.Series, extent: pl.DataFrame) -> pl.Series:
    """Return whether the extent can be valid for the operation.

    A free block that is read or written has been allocated since: no event shows the allocation of metadata. What is
    discarded has just been freed, so that an image in which it is used is of another time.
    """
    free = extent["block_type"] == "free"
    other_time = extent["source"].is_in(["image_before", "image_after", "inferred"])
    return pl.select(pl.when(op == "discard").then(free | ~other_time).otherwise(~free)).to_series()


def _is_contradicted(bios: pl.DataFrame, extent: pl.DataFrame, marking: frozenset[int]) -> pl.Series:
    """Return whether a bio with REQ_META has an extent of data; a symlink may be either."""
    is_data = (extent["block_type"] == "data") & (extent["subtype"].cast(pl.String) != "symlink").fill_null(True)
    return is_data & bios["meta"].fill_null(False) & bios["part_dev"].is_in(list(marking)).fill_null(False)


def _extent_columns(extents: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that a piece takes from its extent."""
    return extents.select(
        "block_type",
        "subtype",
        "ino",
        "incarnation",
        "file_offset_bytes",
        map_source="source",
        since_ns="valid_from_ns",
    )


def _queries(bios: pl.DataFrame) -> intervals.Queries:
    return intervals.Queries(
        space=bios["part_dev"].cast(pl.Int64).to_numpy(),
        start=bios["part_sector"].to_numpy(),
        length=bios["nr_sectors"].to_numpy(),
        time=bios["time"].to_numpy(),
    )


def _rows(extents: pl.DataFrame) -> intervals.Rows:
    return intervals.Rows(
        space=extents["dev"].cast(pl.Int64).to_numpy(),
        start=extents["sector"].to_numpy(),
        length=extents["nr_sectors"].to_numpy(),
        valid_from=extents["valid_from_ns"].fill_null(int(ALWAYS)).to_numpy(),
        valid_to=extents["valid_to_ns"].fill_null(int(FOREVER)).to_numpy(),
    )


def _name(pieces: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Add `path`, `file_type` and `package` of the inode of each piece."""
    names = files.select(
        *("path", "file_type", "package", "ino", "incarnation"),
        part_dev="dev",
        is_likely=pl.col("source") == "inferred",
    ).unique(["part_dev", "ino", "incarnation"], keep="first", maintain_order=True)
    named = pieces.join(names, on=["part_dev", "ino", "incarnation"], how="left", maintain_order="left")
    return named.with_columns(map_source=pl.when("is_likely").then(_INFERRED).otherwise("map_source")).drop("is_likely")


def _use_recorded(pieces: pl.DataFrame) -> pl.DataFrame:
    """Use the type and path that the recording states of a request if no extent maps it."""
    use = pl.col("map_source").is_null() & pl.col("stated_type").is_not_null()
    if not pieces.select(use.any()).item():
        return pieces.drop("stated_type", "stated_path")
    recorded = pl.lit("recorded").cast(schema.enum("io", "map_source"))
    stated = {"block_type": "type", "path": "path", "file_type": "file_type", "package": "package"}
    types = _types(pieces["stated_path"]).select(pl.all().name.prefix("stated_"))
    joined = pieces.join(types, on="stated_path", how="left", maintain_order="left")
    return joined.with_columns(
        *(pl.when(use).then(f"stated_{of}").otherwise(name).alias(name) for name, of in stated.items()),
        map_source=pl.when(use).then(recorded).otherwise("map_source"),
    ).drop("stated_type", *types.columns)


def _types(paths: pl.Series) -> pl.DataFrame:
    """Return path, file_type and package of each distinct path, by name alone."""
    files = pl.DataFrame({"path": paths.drop_nulls().unique()}).with_columns(
        dev=pl.lit(0),
        ino=pl.int_range(pl.len()),
        incarnation=pl.lit(0),
        names=pl.concat_list("path"),
        name_encrypted=pl.lit(False),
        file_type=pl.lit("unknown"),
        package=filetype.package(pl.col("path")),
        source=pl.lit("recorded"),
    )
    want = schema.table("files").polars
    files = files.with_columns(pl.lit(None).alias(name) for name in want if name not in files.columns)
    return filetype.classify(files.select(pl.col(name).cast(dtype) for name, dtype in want.items())).select(
        "path", "file_type", "package"
    )
