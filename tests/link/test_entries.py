"""Compare names from fanotify with a model of a filesystem, including every ambiguous order of events."""

from __future__ import annotations

import random
from itertools import combinations

import named_files
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from named_files import DEV, ROOT, Model

from androstep_analysis import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.ingest import entries as told
from androstep_analysis.ingest.record import Records
from androstep_analysis.link.evidence import entries

ROOTS = pl.DataFrame({"dev": [DEV], "root": [ROOT]}, schema={"dev": pl.UInt32, "root": pl.Int64})
LIVES = {"dev": pl.UInt32, "ino": pl.Int64, "incarnation": pl.Int32, "created_ns": pl.Int64, "end_ns": pl.Int64,
         "block_type": pl.String, "subtype": pl.String}  # fmt: skip
BIT = {"made": told.CREATED, "removed": told.DELETED, "renamed": told.RENAMED}


def table(rows):
    """Return table files of rows with plain types in place of enums."""
    types = schema.table("files").polars
    frame = pl.DataFrame(rows)
    return schema.complete(frame.cast({name: types[name] for name in frame.columns}), "files")


def answers(events, lives, before=(), lost=()):
    snapshots = [table(before)] if before else []
    found = entries.files(events, lives, snapshots, ROOTS, Losses(lost))
    return {(row["ino"], row["incarnation"]): row for row in found.iter_rows(named=True)}


# -- against the model ------------------------------------------------------------------------------------------------

SEEDS = st.integers(0, 1 << 32)


@pytest.mark.prove
@settings(max_examples=60)
@given(SEEDS, st.booleans())
def test_each_path_is_one_that_the_file_had(seed, has_nameless):
    model = Model(seed, is_prompt=False, has_nameless=has_nameless)
    model.run(60)
    found = answers(model.entries(), model.trace(), model.before)
    lives = {(life.ino, life.incarnation): life for life in model.lives}
    for key, row in found.items():
        assert row["path"] == row["names"][-1]
        assert set(row["names"]) <= lives[key].paths, key


@pytest.mark.prove
@settings(max_examples=60)
@given(SEEDS, st.booleans())
def test_where_every_event_is_read_at_once_all_is_known(seed, has_nameless):
    model = Model(seed, is_prompt=True, has_nameless=has_nameless)
    model.run(60)
    found = answers(model.entries(), model.trace(), model.before)
    named = list(model.named())
    unknown = [life for life in named if (life.ino, life.incarnation) not in found]
    assert unknown == []
    for life in named:
        path = found[life.ino, life.incarnation]["path"]
        assert path in life.paths
        assert path == next(reversed(life.told.values()), path)


def test_the_model_has_what_it_is_for():
    """It must include reused inode numbers, merged events, names that return, and moved directories."""
    models = [Model(seed, is_prompt=False, has_nameless=True) for seed in range(40)]
    for model in models:
        model.run(60)
    rows = [row for model in models for row in model.rows]
    assert max(life.incarnation for model in models for life in model.lives) >= 5
    assert {row["kinds"] for row in rows} == {1, 2, 3, 4}
    assert any(row["kinds"] == 4 and row["is_dir"] for row in rows)
    known = total = 0
    for model in models:
        named = list(model.named())
        found = answers(model.entries(), model.trace(), model.before)
        total += len(named)
        known += sum((life.ino, life.incarnation) in found for life in named)
    assert 0.8 < known / total < 1


# -- generations and their lifetimes ----------------------------------------------------------------------------------


def assignments(seen, lives):
    """Yield every way to assign generations, in order, to ascending incarnations within their bounds."""
    for chosen in combinations(range(len(lives)), len(seen)):
        bounds = zip(seen, (lives[place] for place in chosen), strict=True)
        if all(born <= last and first <= gone for (first, last), (born, gone) in bounds):
            yield chosen


@settings(max_examples=150)
@given(SEEDS)
def test_a_generation_is_an_incarnation_only_if_every_order_agrees(seed):
    chance = random.Random(seed)
    ms = 1_000_000
    times = sorted(chance.sample(range(1, 60), 2 * chance.randrange(1, 5)))
    spans = [(born * ms, gone * ms) for born, gone in zip(times[::2], times[1::2], strict=True)]
    has_old = chance.random() < 0.5
    rows = [
        (DEV, 12, at + (0 if has_old else 1), None if has_old and at == 0 else born, gone, "unknown", None)
        for at, (born, gone) in enumerate(spans)
    ]
    lives = pl.DataFrame(rows, schema=LIVES, orient="row")
    bounds = [(born if row[3] is not None else -1, gone) for (born, gone), row in zip(spans, rows, strict=True)]
    # Statements about some of the incarnations, in order, read in rounds.
    reads = sorted(chance.sample(range(0, 70), 4))
    told_rows = []
    for at, (born, gone) in enumerate(spans):
        happens = (born + gone) // 2
        after = max((read for read in (-1, *reads) if read * ms <= happens), default=-1)
        until = min((read for read in (*reads, 80) if read * ms >= happens), default=80)
        if chance.random() < 0.7:
            told_rows.append(row("made", "x", generation=100 + at, empty_ns=after * ms, read_ns=until * ms))
    assume(told_rows)
    events = told.entries(named_files.records(told_rows), "boot").events
    old = {"dev": DEV, "ino": 12, "incarnation": 0, "generation": 100, "names": ["/old"], "file_type": "other",
           "name_encrypted": False, "source": "fiemap"}  # fmt: skip
    listed = table([old]).head(has_old and chance.random() < 0.5)
    found = entries.incarnations(events, lives, Losses(), [listed]).filter(pl.col("ino") == 12)
    seen = {row["generation"]: (row["empty_ns"] - 100_000, row["read_ns"] + 100_000) for row in told_rows}
    if listed.height:
        seen = {100: (seen.get(100, (-1, -1))[0], -1)} | {one: times for one, times in seen.items() if one != 100}
    all_ways = list(assignments([*seen.values()], bounds))
    assert all_ways  # the truth is one of them
    expected = {
        generation: rows[ways.pop()][2]
        for at, generation in enumerate(seen)
        if len(ways := {chosen[at] for chosen in all_ways}) == 1
    }
    assert dict(found.select("generation", "incarnation").iter_rows()) == expected


def test_without_times_only_the_order_counts():
    lives = pl.DataFrame(
        [(DEV, 12, n, n * 10, n * 10 + 5, "unknown", None) for n in (1, 2)], schema=LIVES, orient="row"
    )
    rows = [{"ino": 12, "generation": g, "parent_ino": ROOT, "parent_generation": 0, "name": f"{g}", "kinds": 3}
            for g in (5, 6)]  # fmt: skip
    both = told.entries(named_files.records(rows), "unknown")
    assert {key: row["path"] for key, row in answers(both, lives).items()} == {(12, 1): "/5", (12, 2): "/6"}
    one = told.entries(named_files.records(rows[:1]), "unknown")
    assert answers(one, lives) == {}  # one of the two had no name; it is unknown which


# -- ambiguous cases --------------------------------------------------------------------------------------------------

LIFE = pl.DataFrame([(DEV, 12, 1, 0, None, "unknown", None)], schema=LIVES, orient="row")
DIRECTORIES = [
    {"dev": DEV, "ino": ino, "incarnation": 0, "path": path, "names": [path], "file_type": "directory",
     "name_encrypted": False, "source": "fiemap"}
    for ino, path in ((2, "/"), (20, "/up"), (21, "/up/in"))
]  # fmt: skip


def row(kind, name, new_name=None, *, ino=12, parent=ROOT, new_parent=None, generation=7, **more):
    def of(inode):
        return 0 if inode == ROOT else inode

    moved = {} if new_name is None else {"new_parent_ino": new_parent or parent, "new_name": new_name,
                                         "new_parent_generation": of(new_parent or parent)}  # fmt: skip
    return {"ino": ino, "generation": generation, "parent_ino": parent, "parent_generation": of(parent), "name": name,
            "kinds": BIT[kind], **moved, **more}  # fmt: skip


def paths(*rows, lives=LIFE, before=DIRECTORIES, lost=()):
    found = answers(told.entries(named_files.records(list(rows)), "boot"), lives, before, lost)
    return {key: row["path"] for key, row in found.items()}


def test_a_rename_that_may_have_come_again_leaves_the_last_place_open():
    together = {"empty_ns": 5, "read_ns": 9}
    there, back = row("renamed", "a", "b", **together), row("renamed", "b", "a", **together)
    assert paths(row("made", "a", **together), there, back) == {}
    apart = {"empty_ns": 10, "read_ns": 11}
    assert paths(row("made", "a", **together), there, {**back, **apart}) == {(12, 1): "/a"}
    assert paths(row("made", "a", **together), there, back, row("renamed", "a", "c", **apart)) == {(12, 1): "/c"}


def test_a_moved_directory_moves_later_entries():
    up = row("renamed", "up", "on", ino=20, generation=20, is_dir=1)
    assert paths(row("made", "f", parent=21), up) == {(12, 1): "/on/in/f", (20, 0): "/on", (21, 0): "/on/in"}
    assert paths(up, row("made", "f", parent=21)) == {(12, 1): "/on/in/f", (20, 0): "/on", (21, 0): "/on/in"}
    assert paths(row("made", "f", parent=21), before=DIRECTORIES[:2]) == {}  # the name of 21 is unknown


def test_a_file_has_the_path_of_its_directory_also_when_another_takes_that_directorys_name():
    up = row("renamed", "up", "on", ino=20, generation=20, is_dir=1)
    other = row("made", "up", ino=30, generation=30, is_dir=1)
    lives = pl.concat([LIFE, LIFE.with_columns(ino=pl.lit(30, pl.Int64))])
    rows = row("made", "f", parent=20), up, other
    assert paths(*rows, lives=lives)[12, 1] == "/on/f"
    assert paths(*rows, row("removed", "f", parent=20), lives=lives)[12, 1] == "/on/f"
    assert paths(rows[0], row("removed", "f", parent=20), up, other, lives=lives)[12, 1] == "/up/f"


def test_exchanged_directories_move_their_entries():
    outer = [{**DIRECTORIES[0]}, *({**DIRECTORIES[1], "ino": ino, "path": path} for ino, path in
             ((20, "/up"), (21, "/up/a"), (22, "/up/b")))]  # fmt: skip
    exchanged = (
        row("renamed", "a", "b", ino=21, generation=21, parent=20, is_dir=1),
        row("renamed", "b", "a", ino=22, generation=22, parent=20, is_dir=1),
    )
    up = row("renamed", "up", "on", ino=20, generation=20, is_dir=1)
    found = paths(row("made", "f", parent=21), *exchanged, up, before=outer)
    assert found == {(12, 1): "/on/b/f", (20, 0): "/on", (21, 0): "/on/b", (22, 0): "/on/a"}


def test_a_directory_that_may_have_gone_back_names_nothing_from_then_on():
    together = {"empty_ns": 5, "read_ns": 9, "ino": 20, "generation": 20, "is_dir": 1}
    there, back = row("renamed", "up", "on", **together), row("renamed", "on", "up", **together)
    assert paths(there, row("made", "f", parent=20), back) == {}
    assert paths(there, back, row("made", "f", parent=20)) == {}
    again = row("renamed", "up", "off", **{**together, "empty_ns": 10, "read_ns": 11})
    assert paths(there, back, again, row("made", "f", parent=20)) == {
        (12, 1): "/off/f",
        (20, 0): "/off",
        (21, 0): "/off/in",
    }


def test_more_generations_than_lives_are_none_of_them():
    both = row("made", "f"), row("made", "g", generation=8)
    assert paths(*both) == {}
    ended = pl.DataFrame([(DEV, 12, 1, 0, 10_000_000, "unknown", None)], schema=LIVES, orient="row")
    later = row("made", "g", generation=8, empty_ns=50_000_000, read_ns=60_000_000)
    assert paths(both[0], lives=ended) == {(12, 1): "/f"}
    assert paths(both[0], later, lives=ended) == {}  # the trace is incomplete for inodes without an incarnation
    two = pl.DataFrame([(DEV, 12, n, n, None, "unknown", None) for n in (1, 2)], schema=LIVES, orient="row")
    assert paths(*both, lives=two) == {(12, 1): "/f", (12, 2): "/g"}


def test_links_that_are_kept_are_the_name():
    made, link = row("made", "a"), row("made", "b", parent=20)
    assert paths(made, link, row("removed", "a")) == {(12, 1): "/up/b"}
    assert paths(made, link, row("removed", "b", parent=20)) == {(12, 1): "/a"}


def test_names_of_another_case_are_not_what_a_file_was_called():
    assert paths(row("made", "Name"), row("removed", "nAME")) == {(12, 1): "/Name"}


def test_after_an_overflow_only_new_events_count():
    overflow = {"kinds": told.OVERFLOWN}
    made = row("made", "f", parent=21)
    assert paths(overflow, made) == {}
    assert paths(made, overflow) == {(12, 1): "/up/in/f"}
    assert paths(overflow, row("made", "f")) == {(12, 1): "/f"}
    assert paths(overflow, row("renamed", "x", "on", ino=21, generation=21, is_dir=1), made) == {
        (12, 1): "/on/f",
        (21, 0): "/on",
    }


def test_an_overflow_is_a_loss_at_its_time_and_place():
    rows = [{"kinds": told.OVERFLOWN, "empty_ns": 40, "read_ns": 50}, row("made", "f")]
    counted = Loss("names_overflow", 3, "the probe counted 3 …")
    read = named_files.records(rows)
    losses = told.entries(Records({}, read.tables, (counted, Loss("torn", 1, "cut")), False), "boot").losses
    assert [(loss.kind, loss.count, loss.tables, loss.dev, loss.spans) for loss in losses] == [
        ("torn", 1, ("files",), None, ((None, None),)),
        ("names_overflow", 1, ("files",), DEV, ((40, 50),)),
    ]


def test_events_that_the_trace_may_have_lost_make_lives_doubtful():
    lives = pl.DataFrame([(DEV, 12, 1, 0, 500, "unknown", None)], schema=LIVES, orient="row")
    made = row("made", "f", empty_ns=300, read_ns=400)
    assert paths(made, lives=lives) == {(12, 1): "/f"}
    assert paths(made, lives=lives, lost=[Loss("overwritten", 1, "", ("fs_events",), DEV, ((350, 360),))]) == {}
    assert paths(made, lives=lives, lost=[Loss("overwritten", 1, "", ("fs_events",), DEV, ((1000, 2000),))]) != {}


def test_contradicting_names_are_not_used():
    def named(path, *names):
        return table([{"dev": DEV, "ino": 12, "incarnation": 1, "path": path, "names": [*names, path], "file_type":
                       "unknown", "name_encrypted": False, "source": "tracepoint"}])  # fmt: skip

    same = entries.combined(named("/b", "/a"), named("/a"))
    assert same["path"].to_list() == ["/b"] and entries.contradicted(same) == 0
    later = entries.combined(named("/b", "/a"), named("/c", "/a"))
    assert later["path"].to_list() == ["/c"] and later["names"].to_list() == [["/a", "/b", "/c"]]
    other = entries.combined(named("/b"), named("/a"))
    assert other["path"].to_list() == [None] and entries.contradicted(other) == 1
    nothing = named("/b").clear()
    assert entries.combined(named("/b"), nothing)["path"].to_list() == ["/b"]
    assert entries.combined(nothing, named("/a"))["path"].to_list() == ["/a"]


def test_unknown_handles_are_no_names():
    nameless = {**row("made", "f"), "ino": None, "generation": None}
    lost_parent = {**row("made", "f"), "parent_ino": None, "parent_generation": None}
    assert paths(nameless) == {} and paths(lost_parent) == {}
