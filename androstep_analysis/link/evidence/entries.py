"""Names of files as fanotify tells them, deleted ones included: which file of the trace had them, and on which path.

fanotify names an inode by number and generation, the trace by number and incarnation. Which generation is which
incarnation follows from time and order: an event of an inode comes after its birth and before its end in the trace,
and those of one generation all come before those of the next. What that leaves open is unknown: a file that was made
without a name also takes a number.

A path is the name in a directory, the directory's name in its own, and so on up to the root, each as it was at that
place in the order of events; where a directory moves, all below it get another. What fanotify does not speak of has
lain where images and listings say for as long as no names are lost. Of events that may be several in one
(`ingest.entries`) only the first is in its place: where a file may have gone back to a place that it had left, its last
place is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.ingest.entries import Entries
from androstep_analysis.link.evidence import names

_KEY = ["dev", "ino", "incarnation"]
_NEVER, _ALWAYS = 2**63 - 1, -(2**63)

_SLACK_NS = 100_000
"""How far the clocks of trace and programs may be apart: one is read without locks, and the offset is measured."""

_DEEPEST = 2048
"""Directories on a path: more do not fit in what the kernel takes for one."""

_FROM_BEFORE = -1
"""The order of what was so before any event."""


def files(
    entries: Entries,
    lives: pl.DataFrame,
    snapshot_files: Sequence[pl.DataFrame],
    roots: pl.DataFrame,
    lost: Losses | None = None,
    doubtful: Collection[int] = (),
) -> pl.DataFrame:
    """Table `files` of the names that fanotify proves, source `tracepoint`: a row per inode and incarnation.

    The last path is the canonical one, of those that the file kept where it kept any; `names` has all, in order.
    `lives` is that of the trace (`tracepoints.lives`), `snapshot_files` has table files of each image and listing, by
    which directories are found, `roots` dev and root (inode of the root directory). Where the trace may have `lost` an
    event between the file before it of the same number and a name, and on the `doubtful` devices, of which it tells no
    births, nothing is proven.
    """
    events = entries.events.filter(~pl.col("dev").is_in(list(doubtful)))
    numbers = incarnations(events, lives, lost or Losses())
    events = _numbered(events, numbers)
    moves = _moves(events)
    before = _places_before(snapshot_files, events)
    ups = pl.concat([_places(moves), before.filter("is_dir").drop("is_dir")], how="diagonal_relaxed")
    ups = ups.sort("order", maintain_order=True)
    tops = pl.concat([roots.select("dev", ino="root"), *map(_tops, snapshot_files)], how="vertical_relaxed").unique()
    stated = _taken_along(_statements(moves), moves, before).with_row_index("statement")
    paths = _paths(stated, ups, tops)
    stated = stated.join(paths, on="statement", how="left", maintain_order="left")
    stated = stated.sort("is_kept", "at", "moved", maintain_order=True)
    named = stated.group_by(_KEY, maintain_order=True).agg(
        pl.col("path").last(),
        names=pl.col("path").drop_nulls().reverse().unique(maintain_order=True).reverse(),
        is_open=pl.col("is_open").filter(pl.col("enters")).last().fill_null(False),
    )
    named = named.filter(pl.col("path").is_not_null() & (~pl.col("is_open") | (pl.col("names").list.len() == 1)))
    return names.table(named, lives)


def incarnations(events: pl.DataFrame, lives: pl.DataFrame, lost: Losses) -> pl.DataFrame:
    """dev, ino, generation and incarnation of every inode in `Entries.events` of which it is certain."""
    seen = _seen(events)
    known = lives.select(*_KEY, "created_ns", "end_ns").sort(_KEY)
    absent = seen.select("dev", "ino").unique().join(known, on=["dev", "ino"], how="anti")
    first = absent.with_columns(incarnation=pl.lit(0, pl.Int32))
    known = pl.concat([known, first], how="diagonal").sort(_KEY)
    by = ["dev", "ino"]
    known = known.with_columns(
        place=pl.int_range(pl.len()).over(by),
        born_ns=pl.col("created_ns").fill_null(_ALWAYS),
        gone_ns=pl.col("end_ns").fill_null(_NEVER),
        before_ns=pl.col("end_ns").shift(1).over(by).fill_null(_ALWAYS),
    )
    least = known.select(*by, "gone_ns", least="place").sort("gone_ns", maintain_order=True)
    most = known.select(*by, "born_ns", most="place").sort("born_ns", maintain_order=True)
    asked = seen.sort("after_ns", maintain_order=True).join_asof(
        least, left_on="after_ns", right_on="gone_ns", by=by, strategy="forward", check_sortedness=False
    )
    asked = asked.sort("until_ns", maintain_order=True).join_asof(
        most, left_on="until_ns", right_on="born_ns", by=by, strategy="backward", check_sortedness=False
    )
    # Each generation is a later life than the one before it: its earliest and its latest place, by that.
    turn = pl.int_range(pl.len()).over(by)
    ordered = asked.sort(*by, "order").with_columns(turn=turn)
    impossible = pl.col("least").is_null() | pl.col("most").is_null()
    ordered = ordered.with_columns(
        earliest=(pl.col("least") - pl.col("turn")).cum_max().over(by) + pl.col("turn"),
        latest=(pl.col("most") - pl.col("turn")).cum_min(reverse=True).over(by) + pl.col("turn"),
        is_wrong=impossible.any().over(by),
    )
    is_wrong = (pl.col("is_wrong") | (pl.col("earliest") > pl.col("latest"))).any().over(by)
    certain = ordered.filter(~is_wrong & (pl.col("earliest") == pl.col("latest")))
    found = certain.join(
        known, left_on=[*by, "earliest"], right_on=[*by, "place"], how="inner", maintain_order="left", suffix="_life"
    )
    is_lost = lost.between(found["before_ns"], found["last_ns"], found["dev"], "fs_events")
    return found.filter(~is_lost).select(*by, "generation", "incarnation")


def _seen(events: pl.DataFrame) -> pl.DataFrame:
    """dev, ino and generation of all inodes that events speak of, and the bounds of when each was there.

    Columns order (of the first event), after_ns (a time before the last event), until_ns (one behind the first) and
    last_ns (one behind the last); without limit where times are not known.
    """
    parts = [
        events.select("dev", "order", "begin_ns", "end_ns", ino=f"{which}ino", generation=f"{which}generation")
        for which in ("", "parent_", "new_parent_")
    ]
    return (
        pl.concat(parts)
        .drop_nulls(["ino", "generation"])
        .group_by("dev", "ino", "generation")
        .agg(
            pl.col("order").min(),
            after_ns=pl.col("begin_ns").max().fill_null(_ALWAYS + _SLACK_NS) - _SLACK_NS,
            until_ns=pl.col("end_ns").min().fill_null(_NEVER - _SLACK_NS) + _SLACK_NS,
            last_ns=pl.col("end_ns").max(),
        )
    )


def _numbered(events: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """The events with `incarnation`, `parent_incarnation` and `new_parent_incarnation`, null where not certain."""
    for which in ("", "parent_", "new_parent_"):
        of = numbers.select("dev", pl.col("ino", "generation", "incarnation").name.prefix(which))
        on = ["dev", f"{which}ino", f"{which}generation"]
        events = events.join(of, on=on, how="left", maintain_order="left")
    return events


def _moves(events: pl.DataFrame) -> pl.DataFrame:
    """What came to a place (`enters`) and what left one, in order of `at`: a row for each.

    The place is up_ino, up_incarnation and name; `is_kept` where the file did not leave it afterwards. `is_open`: the
    file had been at the place before, in the same round, so that it may have gone on from there to where it was then.
    """
    old = {"up_ino": "parent_ino", "up_incarnation": "parent_incarnation", "name": "name"}
    new = {"up_ino": "new_parent_ino", "up_incarnation": "new_parent_incarnation", "name": "new_name"}
    common = [*_KEY, "order", "segment", "round", "is_dir"]
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
    place = [*_KEY, "up_ino", "up_incarnation", "name"]
    first = pl.col("at").min().over(*place, "round")
    return moves.with_columns(
        is_open=pl.col("enters") & (pl.col("at") > first), is_kept=pl.col("enters").last().over(place)
    )


def _statements(moves: pl.DataFrame) -> pl.DataFrame:
    """The moves that tell a name which the file had: where it came to, and what it left.

    On a filesystem that ignores case, what leaves is called as the program called it: only what a file came by counts,
    or else where it was from before.
    """
    came = pl.col("enters").any().over(*_KEY, "up_ino", "up_incarnation", "name")
    came_ever = pl.col("enters").any().over(_KEY)
    is_first = pl.col("at") == pl.col("at").min().over(_KEY)
    return moves.filter(pl.col("enters") | came | ~came_ever | is_first)


def _taken_along(stated: pl.DataFrame, moves: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return the statements, and one more for each time that a directory above `moved` while its content was there.

    `before` has the places (`_places_before`) of what only directories above it moved.
    """
    place = ["dev", "up_ino", "up_incarnation"]
    moves = moves.sort("at", maintain_order=True)
    there = moves.with_columns(left=pl.col("at").shift(-1).over(*_KEY, *place, "name")).filter("enters")
    # What another file is renamed over has no event of its own.
    replaced = pl.col("at").shift(-1).over(*place, "name")
    there = there.with_columns(left=pl.min_horizontal("left", replaced)).filter(~pl.col("is_open"))
    flags = {"enters": True, "is_open": False, "is_kept": True}
    older = before.with_columns(*(pl.lit(value).alias(name) for name, value in flags.items()), at=pl.col("order"))
    first = moves.filter("enters").unique([*place, "name"], keep="first", maintain_order=True)
    older = older.join(first.select(*place, "name", left="at"), on=[*place, "name"], how="left")
    there = pl.concat([there, older], how="diagonal_relaxed")
    # A file of which no event tells that it was deleted is gone where another has its number.
    begins = moves.group_by(_KEY).agg(gone=pl.col("at").min()).sort(_KEY)
    gone = begins.with_columns(pl.col("gone").shift(-1).over("dev", "ino"))
    there = there.join(gone, on=_KEY, how="left", maintain_order="left")
    there = there.with_columns(left=pl.min_horizontal("left", "gone")).drop("gone")
    above = moves.filter("is_dir", "enters", pl.col("at") > pl.col("at").min().over(_KEY))
    parts = [stated.with_columns(moved="at")]
    for _ in range(_DEEPEST):
        above = above.select("order", "segment", moved="at", dev="dev", up_ino="ino", up_incarnation="incarnation")
        taken = there.drop("order", "segment").join(above, on=place, maintain_order="left")
        taken = taken.filter((pl.col("at") < pl.col("moved")) & (pl.col("moved") < pl.col("left").fill_null(_NEVER)))
        if taken.is_empty():
            break
        parts.append(taken.select(*stated.columns, "moved"))
        above = taken.filter("is_dir").with_columns(at="moved")
    return pl.concat(parts)


def _places(moves: pl.DataFrame) -> pl.DataFrame:
    """Where directories were, from event to event: of which, segment, order, up_ino, up_incarnation, name.

    What a segment first tells to have left a place was there from the start of the segment on. Names are null where
    the place is open.
    """
    own = moves.filter("is_dir")
    came = own.filter("enters").with_columns(name=pl.when(~pl.col("is_open")).then("name"))
    first = own.unique([*_KEY, "segment"], keep="first", maintain_order=True).filter(~pl.col("enters"))
    first = first.with_columns(order=pl.lit(_FROM_BEFORE, pl.Int64))
    columns = [*_KEY, "segment", "order", "up_ino", "up_incarnation", "name"]
    return pl.concat([first, came]).select(columns)


def _places_before(snapshot_files: Sequence[pl.DataFrame], events: pl.DataFrame) -> pl.DataFrame:
    """As `_places`, of files and directories (`is_dir`) of which no event speaks: where all snapshots have them."""
    moved = events.select(_KEY).drop_nulls().unique()
    parts = [_places_in(rows) for rows in snapshot_files]
    if not parts:
        return pl.DataFrame(schema=dict(_places_in(schema.empty("files")).schema))
    places = pl.concat(parts).unique().filter(pl.len().over(_KEY) == 1)
    return places.join(moved, on=_KEY, how="anti")


def _readable(files: pl.DataFrame) -> pl.DataFrame:
    """dev, ino, incarnation, is_dir and path (without a slash at its end; empty: the root) of a snapshot's files."""
    rows = files.filter(pl.col("path").is_not_null() & ~pl.col("name_encrypted"))
    is_dir = (pl.col("file_type") == "directory").fill_null(False)
    return rows.select(*_KEY, is_dir=is_dir, path=pl.col("path").str.strip_chars_end("/")).drop_nulls()


def _directories(files: pl.DataFrame) -> pl.DataFrame:
    """As `_readable`, of the directories."""
    return _readable(files).filter("is_dir")


def _places_in(files: pl.DataFrame) -> pl.DataFrame:
    directories = _directories(files)
    above = directories.select(
        "dev", up_ino="ino", up_incarnation="incarnation", above=pl.col("path")
    ).unique(["dev", "above"], keep="none")  # fmt: skip
    below = (
        _readable(files)
        .filter(pl.col("path") != "")
        .with_columns(above=pl.col("path").str.replace(r"/[^/]*$", ""), name=pl.col("path").str.split("/").list.last())
    )
    placed = below.join(above, on=["dev", "above"], maintain_order="left")
    return placed.select(
        *_KEY,
        "is_dir",
        segment=pl.lit(0, pl.UInt32),
        order=pl.lit(_FROM_BEFORE, pl.Int64),
        up_ino="up_ino",
        up_incarnation="up_incarnation",
        name="name",
    )


def _tops(files: pl.DataFrame) -> pl.DataFrame:
    """dev and ino of the root directory in a snapshot."""
    return _directories(files).filter(pl.col("path") == "").select("dev", "ino")


def _paths(stated: pl.DataFrame, ups: pl.DataFrame, tops: pl.DataFrame) -> pl.DataFrame:
    """statement and path of those statements whose directories are known up to the root."""
    by = ["dev", "up_ino", "up_incarnation", "segment"]
    ups = ups.select(
        "dev", "segment", "order", above_ino="up_ino", above_incarnation="up_incarnation", above_name="name",
        up_ino="ino", up_incarnation="incarnation",
    )  # fmt: skip
    roots = tops.select("dev", up_ino="ino", is_root=pl.lit(True)).cast({"up_ino": pl.Int64})
    open_rows = stated.select(
        "statement", "order", *by, path=pl.lit("/") + pl.col("name")
    ).sort("order", maintain_order=True)  # fmt: skip
    found = [open_rows.select("statement", "path").clear()]
    for _ in range(_DEEPEST):
        open_rows = open_rows.drop_nulls(["up_ino", "up_incarnation", "path"])
        at_root = open_rows.join(roots, on=["dev", "up_ino"], how="left", maintain_order="left")
        is_root = pl.col("is_root").fill_null(False) & (pl.col("up_incarnation") == 0)
        found.append(at_root.filter(is_root).select("statement", "path"))
        open_rows = at_root.filter(~is_root).drop("is_root")
        if open_rows.is_empty():
            break
        above = open_rows.join_asof(ups, on="order", by=by, strategy="backward", check_sortedness=False)
        open_rows = above.select(
            "statement", "order", "dev", "segment",
            up_ino="above_ino", up_incarnation="above_incarnation",
            path=pl.lit("/") + pl.col("above_name") + pl.col("path"),
        )  # fmt: skip
    return pl.concat(found)


def agreeing(told: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """Tables `files` of fanotify and of the trace's events as one.

    fanotify tells every rename and removal, an event only which name was used: of a file whose last name in the events
    fanotify knows, fanotify tells which name came last. A name that it does not know is later than all it knows. Where
    the two have no path in common, there is none: `path` is null, and `names` has all.
    """
    other = told.select(*_KEY, other="path", others="names")
    both = traced.join(other, on=_KEY, how="left", maintain_order="left")
    is_told = pl.col("other").is_not_null()
    is_same = pl.col("others").list.set_intersection("names").list.len() > 0
    is_known = pl.col("path").is_in("others").fill_null(False)
    path = pl.when(is_told & is_known).then("other").when(~is_told | is_same).then("path")
    names = pl.when(is_told).then(pl.col("others").list.concat("names").list.unique(maintain_order=True))
    checked = both.with_columns(path=path, names=names.otherwise("names"))
    alone = told.join(traced, on=_KEY, how="anti")
    return pl.concat([checked.select(told.columns), alone])


def contradicted(files: pl.DataFrame) -> int:
    """How many files of table `files` have no path because fanotify and events contradict each other."""
    is_contrary = pl.col("path").is_null() & (pl.col("names").list.len() > 0) & (pl.col("source") == "tracepoint")
    return files.filter(is_contrary).height
