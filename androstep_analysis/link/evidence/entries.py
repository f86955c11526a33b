"""Match the names that fanotify reported with the files of the trace, and follow each to its path.

fanotify identifies an inode by number and generation, the trace by number and incarnation. An event of an inode happens
between its creation and its end in the trace, and before all events of the next generation. What this leaves ambiguous
is unknown. A file that was created without a name uses a number too.

A path is the name in a directory, the name of that directory in its own, and so on up to the root, each at the time of
the statement. When a directory moves, all files below it get other paths. Files without events are where images and
listings have them, as long as no event was lost. If several events were merged into one (`ingest.entries`), only the
first has its position: the last place of a file that may have returned to an earlier one is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.ingest.entries import Entries
from androstep_analysis.link.evidence import names
from androstep_analysis.link.evidence.inodes import FILE, NUMBER

_DIRECTORY = ("dev", "up_ino", "up_incarnation")
_PLACE = (*_DIRECTORY, "name")
"""A directory entry."""

_NEVER, _ALWAYS = 2**63 - 1, -(2**63)

_SLACK_NS = 100_000
"""The maximum difference between the clocks of trace and programs, which is measured and read without locks."""

_DEEPEST = 2048
"""The maximum number of directories in a path: the kernel accepts no longer one."""

_BEFORE = -1
"""The order of the state before any event."""


def files(
    entries: Entries,
    lifetimes: pl.DataFrame,
    snapshot_files: Sequence[pl.DataFrame],
    roots: pl.DataFrame,
    lost: Losses | None = None,
    doubtful: Collection[int] = (),
) -> pl.DataFrame:
    """Return table `files` of the names that fanotify proves: source `tracepoint`, a row per inode and incarnation.

    `path` is the last path, if possible one that the file did not leave. `names` has all, in order. `lifetimes` are
    those of the trace (`tracepoints.lifetimes`). `snapshot_files` has table `files` of each image and listing, and
    `roots` the inode of each root directory. Nothing is proven if the trace may have `lost` an event between the end of
    the previous file of the number and the last event, and on `doubtful` devices without events of creation.
    """
    events = entries.events.filter(~pl.col("dev").is_in(list(doubtful)))
    events = _with_incarnations(events, incarnations(events, lifetimes, lost or Losses(), snapshot_files))
    moves = _moves(events)
    before = _places_before(snapshot_files, events)
    ups = pl.concat([_places(moves), before.filter("is_dir").drop("is_dir")], how="diagonal_relaxed")
    ups = ups.sort("order", maintain_order=True)
    tops = pl.concat([roots.select("dev", ino="root"), *map(_root, snapshot_files)], how="vertical_relaxed").unique()
    statements = _with_moved_directories(_statements(moves), moves, before).with_row_index("statement")
    paths = _paths(statements, ups, tops)
    statements = statements.join(paths, on="statement", how="left", maintain_order="left")
    statements = statements.sort("is_kept", "at", "moved", maintain_order=True)
    named = statements.group_by(FILE, maintain_order=True).agg(
        pl.col("path").last(),
        names=pl.col("path").drop_nulls().reverse().unique(maintain_order=True).reverse(),
        is_uncertain=pl.col("is_uncertain").filter(pl.col("enters")).last().fill_null(False),
    )
    has_one_name = pl.col("names").list.len() == 1
    named = named.filter(pl.col("path").is_not_null() & (~pl.col("is_uncertain") | has_one_name))
    return names.table(named, lifetimes)


def combined(entries: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """Combine tables `files` of fanotify (`entries`) and of the trace's events (`traced`).

    fanotify reports every rename and removal, an event only that a name was used:

    | last name in the events | `path` |
    |---|---|
    | known to fanotify | fanotify's last path |
    | unknown to fanotify, which shares another one with the events | the events' path, which is later |
    | unknown to fanotify, without a shared name | null (`contradicted`); `names` has all |
    """
    other = entries.select(*FILE, other="path", others="names")
    both = traced.join(other, on=FILE, how="left", maintain_order="left")
    is_reported = pl.col("other").is_not_null()
    shares_name = pl.col("others").list.set_intersection("names").list.len() > 0
    is_known = pl.col("path").is_in("others").fill_null(False)
    path = pl.when(is_reported & is_known).then("other").when(~is_reported | shares_name).then("path")
    all_names = pl.when(is_reported).then(pl.col("others").list.concat("names").list.unique(maintain_order=True))
    both = both.with_columns(path=path, names=all_names.otherwise("names"))
    return pl.concat([both.select(entries.columns), entries.join(traced, on=FILE, how="anti")])


def contradicted(files: pl.DataFrame) -> int:
    """Count the files in table `files` without a path because fanotify and events contradict each other."""
    has_names_only = pl.col("path").is_null() & (pl.col("names").list.len() > 0)
    return files.filter(has_names_only & (pl.col("source") == "tracepoint")).height


def incarnations(
    events: pl.DataFrame, lifetimes: pl.DataFrame, lost: Losses, snapshot_files: Sequence[pl.DataFrame] = ()
) -> pl.DataFrame:
    """Return dev, ino, generation and incarnation of the inodes in `Entries.events`, as far as these are certain.

    Each generation is a later lifetime of its number than the generation before. This and its times give its earliest
    and its latest possible lifetime. It is certain if the two are the same. A file that was there before the recording
    has its generation in `snapshot_files`.
    """
    bounds = _bounds(events, _generations_before(snapshot_files, lifetimes))
    known = _ranked(lifetimes, bounds)
    first_to_end = known.select(*NUMBER, "ends_ns", earliest="rank").sort("ends_ns", maintain_order=True)
    last_to_begin = known.select(*NUMBER, "begins_ns", latest="rank").sort("begins_ns", maintain_order=True)
    rows = bounds.sort("after_ns", maintain_order=True).join_asof(
        first_to_end, left_on="after_ns", right_on="ends_ns", by=NUMBER, strategy="forward", check_sortedness=False
    )
    rows = rows.sort("until_ns", maintain_order=True).join_asof(
        last_to_begin, left_on="until_ns", right_on="begins_ns", by=NUMBER, strategy="backward", check_sortedness=False
    )
    is_impossible = pl.col("earliest").is_null() | pl.col("latest").is_null()
    rows = rows.sort(*NUMBER, "order").with_columns(generation_rank=pl.int_range(pl.len()).over(NUMBER))
    generation_rank = pl.col("generation_rank")
    rows = rows.with_columns(
        rank=(pl.col("earliest") - generation_rank).cum_max().over(NUMBER) + generation_rank,
        latest=(pl.col("latest") - generation_rank).cum_min(reverse=True).over(NUMBER) + generation_rank,
        is_wrong=is_impossible.any().over(NUMBER),
    )
    is_wrong = (pl.col("is_wrong") | (pl.col("rank") > pl.col("latest"))).any().over(NUMBER)
    certain = rows.filter(~is_wrong & (pl.col("rank") == pl.col("latest")))
    found = certain.join(known, on=[*NUMBER, "rank"], maintain_order="left")
    is_lost = lost.between(found["previous_end_ns"], found["last_ns"], found["dev"], "fs_events")
    return found.filter(~is_lost).select(*NUMBER, "generation", "incarnation")


def _ranked(lifetimes: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """Return the lifetimes of each number with rank and limits; a number without any in the trace has one."""
    known = lifetimes.select(*FILE, "created_ns", "end_ns")
    absent = bounds.select(NUMBER).unique().join(known, on=NUMBER, how="anti")
    absent = absent.with_columns(incarnation=pl.lit(0, pl.Int32))
    known = pl.concat([known, absent], how="diagonal").sort(FILE)
    return known.select(
        *FILE,
        rank=pl.int_range(pl.len()).over(NUMBER),
        begins_ns=pl.col("created_ns").fill_null(_ALWAYS),
        ends_ns=pl.col("end_ns").fill_null(_NEVER),
        previous_end_ns=pl.col("end_ns").shift(1).over(NUMBER).fill_null(_ALWAYS),
    )


def _generations_before(snapshot_files: Sequence[pl.DataFrame], lifetimes: pl.DataFrame) -> pl.DataFrame:
    """Return dev, ino and generation of the files in the trace that are older than it, if all snapshots agree."""
    older = lifetimes.filter(pl.col("incarnation") == 0, pl.col("created_ns").is_null())
    files = pl.concat([schema.empty("files"), *snapshot_files]).join(older, on=FILE, how="semi")
    generations = files.select(*NUMBER, "generation").drop_nulls().unique()
    return generations.filter(pl.len().over(NUMBER) == 1)


def _bounds(events: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return dev, ino and generation of all inodes in the events and `before` them, and `order` of the first event.

    `after_ns` is before the last event, `until_ns` after the first, and `last_ns` after the last, as far as known.
    """
    parts = [
        events.select("dev", "order", "begin_ns", "end_ns", ino=f"{which}ino", generation=f"{which}generation")
        for which in ("", "parent_", "new_parent_")
    ]
    always = {"order": pl.lit(_BEFORE, pl.Int64), "begin_ns": pl.lit(None, pl.Int64), "end_ns": pl.lit(_ALWAYS)}
    parts.append(before.with_columns(**always).select(parts[0].columns))
    return (
        pl.concat(parts)
        .drop_nulls(["ino", "generation"])
        .group_by(*NUMBER, "generation")
        .agg(
            pl.col("order").min(),
            after_ns=pl.col("begin_ns").max().fill_null(_ALWAYS + _SLACK_NS) - _SLACK_NS,
            until_ns=pl.col("end_ns").min().fill_null(_NEVER - _SLACK_NS) + _SLACK_NS,
            last_ns=pl.col("end_ns").max(),
        )
    )


def _with_incarnations(events: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """Add `incarnation`, `parent_incarnation` and `new_parent_incarnation`, null if uncertain."""
    for which in ("", "parent_", "new_parent_"):
        of = numbers.select("dev", pl.col("ino", "generation", "incarnation").name.prefix(which))
        on = ["dev", f"{which}ino", f"{which}generation"]
        events = events.join(of, on=on, how="left", maintain_order="left")
    return events


def _moves(events: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each file that enters (`enters`) or leaves a place (`_PLACE`), in the order of `at`.

    `is_kept`: it did not leave afterwards. `is_uncertain`: it had been there before in the same round, so that it may
    have returned in between.
    """
    old = {"up_ino": "parent_ino", "up_incarnation": "parent_incarnation", "name": "name"}
    new = {"up_ino": "new_parent_ino", "up_incarnation": "new_parent_incarnation", "name": "new_name"}
    common = [*FILE, "order", "segment", "round", "is_dir"]
    parts = [
        events.filter(condition).select(*common, enters=pl.lit(enters), at=pl.col("order") * 2 + second, **place)
        for condition, place, enters, second in (
            (pl.col("is_created"), old, True, 0),
            (pl.col("is_deleted"), old, False, 1),
            (pl.col("is_renamed"), old, False, 0),
            (pl.col("is_renamed"), new, True, 1),
        )
    ]
    moves = pl.concat(parts).drop_nulls("incarnation").sort("dev", "at", maintain_order=True)
    place = [*FILE, *_PLACE[1:]]
    first = pl.col("at").min().over(*place, "round")
    return moves.with_columns(
        is_uncertain=pl.col("enters") & (pl.col("at") > first), is_kept=pl.col("enters").last().over(place)
    )


def _statements(moves: pl.DataFrame) -> pl.DataFrame:
    """Return the moves that prove a name of the file: the places that it entered, and those that it left.

    On a filesystem that ignores case, the name at which a file leaves is as the program spelled it. It counts only if
    the file entered by this name, or never entered, or if it is the file's first event.
    """
    entered_here = pl.col("enters").any().over(*FILE, *_PLACE[1:])
    entered = pl.col("enters").any().over(FILE)
    is_first = pl.col("at") == pl.col("at").min().over(FILE)
    return moves.filter(pl.col("enters") | entered_here | ~entered | is_first)


def _with_moved_directories(statements: pl.DataFrame, moves: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Add a statement for each time (`moved`) that a directory above a file moved; `before` is `_places_before`."""
    stays = _stays(moves, before)
    above = moves.filter("is_dir", "enters", pl.col("at") > pl.col("at").min().over(FILE))
    parts = [statements.with_columns(moved="at")]
    for _ in range(_DEEPEST):
        above = above.select("order", "segment", moved="at", dev="dev", up_ino="ino", up_incarnation="incarnation")
        below = stays.drop("order", "segment").join(above, on=_DIRECTORY, maintain_order="left")
        below = below.filter((pl.col("at") < pl.col("moved")) & (pl.col("moved") < pl.col("left").fill_null(_NEVER)))
        if below.is_empty():
            break
        parts.append(below.select(*statements.columns, "moved"))
        above = below.filter("is_dir").with_columns(at="moved")
    return pl.concat(parts)


def _stays(moves: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return the stay of each file at each place: the columns of `moves`, and `left` (null: until the end).

    Without an event of its own, a stay ends when another file enters the place (by a rename), or has the inode number.
    """
    moves = moves.sort("at", maintain_order=True)
    left, replaced = (pl.col("at").shift(-1).over(*key) for key in ((*FILE, *_PLACE), _PLACE))
    stays = moves.with_columns(left=left).filter("enters").with_columns(left=pl.min_horizontal("left", replaced))
    stays = stays.filter(~pl.col("is_uncertain"))
    flags = {"enters": True, "is_uncertain": False, "is_kept": True}
    older = before.with_columns(*(pl.lit(value).alias(name) for name, value in flags.items()), at=pl.col("order"))
    first = moves.filter("enters").unique(_PLACE, keep="first", maintain_order=True)
    older = older.join(first.select(*_PLACE, left="at"), on=_PLACE, how="left")
    stays = pl.concat([stays, older], how="diagonal_relaxed")
    begins = moves.group_by(FILE).agg(reused=pl.col("at").min()).sort(FILE)
    reused = begins.with_columns(pl.col("reused").shift(-1).over(NUMBER))
    stays = stays.join(reused, on=FILE, how="left", maintain_order="left")
    return stays.with_columns(left=pl.min_horizontal("left", "reused")).drop("reused")


def _places(moves: pl.DataFrame) -> pl.DataFrame:
    """Return the places of directories by segment and order. Names are null if the place is uncertain.

    A place that a directory leaves first in a segment was its place from the start of the segment.
    """
    own = moves.filter("is_dir")
    entered = own.filter("enters").with_columns(name=pl.when(~pl.col("is_uncertain")).then("name"))
    first = own.unique([*FILE, "segment"], keep="first", maintain_order=True).filter(~pl.col("enters"))
    first = first.with_columns(order=pl.lit(_BEFORE, pl.Int64))
    return pl.concat([first, entered]).select(*FILE, "segment", "order", *_PLACE[1:])


def _places_before(snapshot_files: Sequence[pl.DataFrame], events: pl.DataFrame) -> pl.DataFrame:
    """Return `_places` and `is_dir` of files and directories without events, if all snapshots have the same place."""
    moved = events.select(FILE).drop_nulls().unique()
    parts = [_places_in(rows) for rows in snapshot_files]
    if not parts:
        return _places_in(schema.empty("files"))
    places = pl.concat(parts).unique().filter(pl.len().over(FILE) == 1)
    return places.join(moved, on=FILE, how="anti")


def _places_in(files: pl.DataFrame) -> pl.DataFrame:
    """Return `_places` and `is_dir` in one snapshot."""
    directories = names.readable_directories(files).select(
        "dev", up_ino="ino", up_incarnation="incarnation", above="path"
    )
    rows = files.filter(pl.col("path").is_not_null() & ~pl.col("name_encrypted"))
    path = pl.col("path").str.strip_chars_end("/")
    rows = rows.select(
        *FILE,
        is_dir=(pl.col("file_type") == "directory").fill_null(False),
        path=path,
        above=names.parent_path(path),
        name=path.str.split("/").list.last(),
    )
    rows = rows.drop_nulls().filter(pl.col("path") != "")
    placed = rows.join(directories.unique(["dev", "above"], keep="none"), on=["dev", "above"], maintain_order="left")
    segment, order = pl.lit(0, pl.UInt32), pl.lit(_BEFORE, pl.Int64)
    return placed.select(*FILE, "is_dir", *_PLACE[1:], segment=segment, order=order)


def _root(files: pl.DataFrame) -> pl.DataFrame:
    """Return dev and ino of the root directory in a snapshot."""
    return names.readable_directories(files).filter(pl.col("path") == "").select("dev", "ino")


def _paths(statements: pl.DataFrame, ups: pl.DataFrame, tops: pl.DataFrame) -> pl.DataFrame:
    """Return statement and path of the statements with known directories up to the root."""
    by = [*_DIRECTORY, "segment"]
    ups = ups.select(
        "dev", "segment", "order", above_ino="up_ino", above_incarnation="up_incarnation", above_name="name",
        up_ino="ino", up_incarnation="incarnation",
    )  # fmt: skip
    roots = tops.select("dev", up_ino="ino", is_root=pl.lit(True)).cast({"up_ino": pl.Int64})
    rest = statements.select("statement", "order", *by, path=pl.lit("/") + pl.col("name"))
    rest = rest.sort("order", maintain_order=True)
    found = [rest.select("statement", "path").clear()]
    for _ in range(_DEEPEST):
        rest = rest.drop_nulls(["up_ino", "up_incarnation", "path"])
        rest = rest.join(roots, on=["dev", "up_ino"], how="left", maintain_order="left")
        is_root = pl.col("is_root").fill_null(False) & (pl.col("up_incarnation") == 0)
        found.append(rest.filter(is_root).select("statement", "path"))
        rest = rest.filter(~is_root).drop("is_root")
        if rest.is_empty():
            break
        above = rest.join_asof(ups, on="order", by=by, strategy="backward", check_sortedness=False)
        rest = above.select(
            "statement", "order", "dev", "segment",
            up_ino="above_ino", up_incarnation="above_incarnation",
            path=pl.lit("/") + pl.col("above_name") + pl.col("path"),
        )  # fmt: skip
    return pl.concat(found)
