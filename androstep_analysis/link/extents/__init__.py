"""Requests to pieces: which extent each sector of a request belonged to at the time it was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence import filetype
from androstep_analysis.link.intervals import ALWAYS, FOREVER
from androstep_analysis.link.requests import Linked

CONFIDENCE = ("tracepoint", "context", "recorded", "image_before", "fiemap", "journal", "image_after", "inferred")
"""Sources of extents, most trusted first: a later one is asked only for what the earlier ones leave open."""


def pieces(
    linked: Linked,
    extents: pl.DataFrame,
    files: pl.DataFrame,
    marking: frozenset[int] = frozenset(),
    silent: frozenset[int] = frozenset(),
    with_events: frozenset[int] = frozenset(),
) -> pl.DataFrame:
    """Every request cut at the edges of its bios and of the extents that hold them.

    `extents` and `files` are in sectors of the filesystem's own device, so they are met by `part_dev` and
    `part_sector`. The extent asked for is the one at the time the bio was queued (issued or completed where no queue
    event was seen). On the devices in `marking` metadata, and no data, carries REQ_META: an extent of the other kind is
    of another time. On those that are `silent` no event tells which blocks are freed and become metadata, so that what
    events say of metadata is inferred. Where a filesystem has events of its own (`with_events`), what it discards is
    free. A piece of a file whose source is `inferred` is inferred too. An empty flush is one piece without sectors and
    without block type.

    The columns are those of table io but for the numbering of the pieces, their bytes and their owner; and part_dev,
    part_sector, meta, incarnation, submit_tid, submit_pid, submit_comm, `time`, that of the extent asked for, and
    `since_ns`, from when on that extent holds.
    """
    mapped = _typed(_map(placed(linked), extents, marking, silent), extents)
    cut = _name(_discarded(mapped, with_events), files)
    return pl.concat([_stated(cut), _placed_flushes(linked)], how="diagonal")


def table(pieces: pl.DataFrame) -> pl.DataFrame:
    """Table `io` of the pieces with their owner columns, numbered within their request."""
    io = _in_order(pieces)
    row = pl.int_range(pl.len())
    first = pl.when(pl.col("request_id") != pl.col("request_id").shift(fill_value=-1)).then(row).forward_fill()
    io = io.with_columns(piece=row - first, bytes=pl.col("nr_sectors") * units.SECTOR_BYTES)
    want = schema.table("io").polars
    return schema.conform(io.select(pl.col(name).cast(dtype) for name, dtype in want.items()), "io")


def _in_order(pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces by request and sector, which they are already if nothing cut them."""
    step, inside = pl.col("request_id").diff(), pl.col("sector").diff()
    is_next = ((step > 0) | ((step == 0) & (inside > 0))).all()
    if not pieces.select((step >= 0).all()).item():
        pieces = pieces.sort("request_id", maintain_order=True)
    return pieces if pieces.select(is_next).item() else pieces.sort("request_id", "sector")


def _request_columns(requests: pl.DataFrame) -> pl.DataFrame:
    """What every piece takes over from its request."""
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
    """The bios with their request's columns, and place and time as the filesystem saw them."""
    place = linked.bios["request_id"] - (linked.requests["request_id"].first() or 0)
    of_requests = _request_columns(linked.requests).drop("request_id")[place]
    return pl.concat([linked.bios, of_requests], how="horizontal").with_columns(
        part_sector=pl.col("sector") - pl.col("offset"),
        queue_ns=pl.coalesce("queue_ns", "request_queue_ns"),
        time=pl.coalesce("submit_ns", "queue_ns", "request_queue_ns", "issue_ns", "complete_ns"),
    )


def _placed_flushes(linked: Linked) -> pl.DataFrame:
    flushes = linked.requests.filter(pl.col("nr_sectors") == 0)
    nothing = pl.lit(None, pl.Int64)
    return _request_columns(flushes).with_columns(
        queue_ns=pl.col("request_queue_ns"), sector=nothing, nr_sectors=pl.lit(0, pl.Int64)
    )


def _map(bios: pl.DataFrame, extents: pl.DataFrame, marking: frozenset[int], silent: frozenset[int]) -> pl.DataFrame:
    """Cut the bios at extents, asking the sources in order of confidence; what none maps is left without."""
    mapped = [_answer(schema.empty("extents"))]
    rest = bios
    for stated in _by_confidence(extents, silent):
        if not stated.height or not rest.height:
            continue
        places, row = _cut_at(rest, stated)
        covered = places.filter(row >= 0)
        extent = stated[row.filter(row >= 0)]
        holds = _can_hold(covered["op"], extent) & ~_is_contradicted(covered, extent, marking)
        holds &= ~_is_doubted(covered, extent, silent)
        inside = (covered["part_sector"] - extent["sector"]) * units.SECTOR_BYTES
        answer = _answer(_as_discarded(covered["op"], extent)).with_columns(
            file_offset_bytes=pl.col("file_offset_bytes") + inside
        )
        mapped.append(pl.concat([covered, answer], how="horizontal").filter(holds))
        rest = pl.concat([places.filter(row < 0), covered.filter(~holds)])
    unknown = pl.lit("unknown").cast(schema.enum("extents", "block_type"))
    return pl.concat([*mapped, rest.with_columns(block_type=unknown)], how="diagonal")


def _by_confidence(extents: pl.DataFrame, silent: frozenset[int]) -> Iterator[pl.DataFrame]:
    """The extents of each source, and before those that are inferred what `_is_doubted` left out, as inferred."""
    for source in CONFIDENCE:
        if source == "inferred":
            doubted = extents.filter(pl.col("source") == "tracepoint", pl.col("dev").is_in(list(silent)))
            yield doubted.with_columns(source=pl.lit(source).cast(extents.schema["source"]))
        yield extents.filter(pl.col("source") == source)


def _cut_at(bios: pl.DataFrame, extents: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The bios cut at the edges of the extents, and for each part the row of the extent that holds it (-1: none)."""
    cut = intervals.stab(_queries(bios), _rows(extents))
    places = bios[cut.query].with_columns(
        sector=pl.Series(cut.start) + pl.col("offset"),
        part_sector=pl.Series(cut.start),
        nr_sectors=pl.Series(cut.length),
    )
    return places, pl.Series(cut.row)


def _typed(pieces: pl.DataFrame, extents: pl.DataFrame) -> pl.DataFrame:
    """The pieces of a file of unknown type with the type that another source tells of that number at that place."""
    is_untyped = (pl.col("block_type") == "unknown") & pl.col("ino").is_not_null()
    is_untyped &= (pl.col("map_source") != "inferred").fill_null(False)
    rest, parts = pieces.filter(is_untyped), [pieces.filter(~is_untyped)]
    for source in CONFIDENCE[:-1]:
        stated = extents.filter(pl.col("source") == source, pl.col("block_type") != "unknown")
        if not stated.height or not rest.height:
            continue
        places, row = _cut_at(rest.with_columns(uncut="part_sector"), stated)
        cut_off = (pl.col("part_sector") - pl.col("uncut")) * units.SECTOR_BYTES
        places = places.with_columns(pl.col("file_offset_bytes") + cut_off).drop("uncut")
        covered, extent = places.filter(row >= 0), stated[row.filter(row >= 0)]
        inside = (covered["part_sector"] - extent["sector"]) * units.SECTOR_BYTES
        is_same = (extent["ino"] == covered["ino"]) & (
            extent["file_offset_bytes"] + inside == covered["file_offset_bytes"]
        )
        is_same = is_same.fill_null(False)
        parts.append(covered.with_columns(extent["block_type"], extent["subtype"]).filter(is_same))
        rest = pl.concat([places.filter(row < 0), covered.filter(~is_same)])
    return pl.concat([*parts, rest])


def _is_doubted(bios: pl.DataFrame, extent: pl.DataFrame, silent: frozenset[int]) -> pl.Series:
    """Whether the bio carries metadata, and events that do not tell which blocks are freed say of what."""
    is_traced = extent["source"] == "tracepoint"
    return is_traced & bios["meta"].fill_null(False) & bios["part_dev"].is_in(list(silent)).fill_null(False)


def _discarded(pieces: pl.DataFrame, with_events: frozenset[int]) -> pl.DataFrame:
    """The pieces, those that no extent maps as free where a filesystem discards them: it does so with nothing else."""
    is_free = pl.col("map_source").is_null() & (pl.col("op") == "discard")
    is_free &= pl.col("part_dev").is_in(list(with_events)).fill_null(False)
    facts = {"block_type": ("extents", "free"), "map_source": ("io", "context")}
    return pieces.with_columns(
        pl.when(is_free).then(pl.lit(value).cast(schema.enum(table, name))).otherwise(name).alias(name)
        for name, (table, value) in facts.items()
    )


def _as_discarded(op: pl.Series, extent: pl.DataFrame) -> pl.DataFrame:
    """The extents, those that were discarded as free: F2FS has no event for the blocks that a deletion frees."""
    free = pl.lit("free").cast(extent.schema["block_type"])
    of_nothing = ("subtype", "ino", "incarnation", "file_offset_bytes")
    keeps_data = pl.lit(op) != "discard"
    return extent.with_columns(
        pl.when(keeps_data).then("block_type").otherwise(free), *(pl.when(keeps_data).then(name) for name in of_nothing)
    )


def _can_hold(op: pl.Series, extent: pl.DataFrame) -> pl.Series:
    """Whether the extent can be what the operation touched.

    Whatever says that a block is free speaks of another time if the block is read or written: no event tells that
    metadata got a block. What is discarded has just been freed, so that an image which says otherwise is of another
    time too.
    """
    free = extent["block_type"] == "free"
    other_time = extent["source"].is_in(["image_before", "image_after", "inferred"])
    return pl.select(pl.when(op == "discard").then(free | ~other_time).otherwise(~free)).to_series()


def _is_contradicted(bios: pl.DataFrame, extent: pl.DataFrame, marking: frozenset[int]) -> pl.Series:
    """Whether the bio says that it carries metadata and the extent that it is data; a symlink may be either."""
    is_data = (extent["block_type"] == "data") & (extent["subtype"].cast(pl.String) != "symlink").fill_null(True)
    return is_data & bios["meta"].fill_null(False) & bios["part_dev"].is_in(list(marking)).fill_null(False)


def _answer(extents: pl.DataFrame) -> pl.DataFrame:
    """What a piece takes over from the extent it falls in."""
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
    """Add `path`, `file_type` and `package` of the inode that the piece belongs to."""
    names = files.select(
        *("path", "file_type", "package", "ino", "incarnation"),
        part_dev="dev",
        is_likely=pl.col("source") == "inferred",
    ).unique(["part_dev", "ino", "incarnation"], keep="first", maintain_order=True)
    named = pieces.join(names, on=["part_dev", "ino", "incarnation"], how="left", maintain_order="left")
    inferred = pl.lit("inferred").cast(schema.enum("io", "map_source"))
    return named.with_columns(map_source=pl.when("is_likely").then(inferred).otherwise("map_source")).drop("is_likely")


def _stated(pieces: pl.DataFrame) -> pl.DataFrame:
    """Use what the recording states of a request itself where nothing better maps it."""
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
    """path, file_type and package of each distinct path, by name alone."""
    distinct = paths.drop_nulls().unique()
    files = pl.DataFrame({"path": distinct}).select(
        dev=pl.lit(0),
        ino=pl.int_range(pl.len()),
        incarnation=pl.lit(0),
        generation=pl.lit(None),
        path="path",
        names=pl.concat_list("path"),
        name_encrypted=pl.lit(False),
        file_type=pl.lit("unknown"),
        file_type_rule=pl.lit(None),
        package=filetype.package(pl.col("path")),
        size_bytes=pl.lit(None),
        created_ns=pl.lit(None),
        deleted_ns=pl.lit(None),
        valid_from_ns=pl.lit(None),
        valid_to_ns=pl.lit(None),
        source=pl.lit("recorded"),
    )
    return filetype.classify(files.cast(schema.table("files").polars)).select("path", "file_type", "package")
