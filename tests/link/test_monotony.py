"""Without some kinds of events, facts become inferred or unknown, but never other facts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import monotony
import polars as pl
import pytest
from support import stock

from androstep_analysis import measures

RECORDINGS = (*monotony.KERNEL, *monotony.OTHERS, "demo")
SUBSETS = 16
"""Pairs of sets of kinds for each recording, more than 200 in total."""


def found(name: str, nr_pairs: int) -> Counter[str]:
    of = monotony.recording(name)
    total: Counter[str] = Counter()
    by_all = of.only(of.kinds)
    for seed, (many, few) in enumerate(itertools.islice(monotony.pairs(of, 7), nr_pairs)):
        answers, fewer = by_all if many == of.kinds else of.only(many), of.only(few)
        counts = monotony.violations(
            fewer, answers, has_whole_pages=name not in monotony.SMALL_BLOCKS
        ) + monotony.wrong(of, fewer)
        total += Counter({f"{seed}: {what}; {sorted(set(many) - set(few))} of {many}": n for what, n in counts.items()})
    return total


@pytest.mark.prove
@pytest.mark.parametrize("name", RECORDINGS)
def test_fewer_kinds_of_events_state_nothing_else(name: str) -> None:
    assert not found(name, SUBSETS)


@pytest.mark.parametrize(
    "name", ["wrong_facts/es-insert-only/corecache.txt", "wrong_facts/more-events-less-known/lookup.txt.gz"]
)
def test_fewer_kinds_of_events_state_nothing_else_of_a_short_recording(name: str) -> None:
    assert not found(name, 3)


LACKING = {
    "inode creation and deletion": ("allocate_inode", "new_inode", "evict_inode", "free_inode"),
    "maps": ("_es_", "map_blocks", "get_data_block"),
    "handles": ("jbd2_handle_stats",),
    "commits": ("jbd2_start_commit",),
    "writers": ("write_begin",),
    "pages": ("mm_filemap",),
}


@pytest.mark.prove
@pytest.mark.parametrize("name", ["demo", "kernel/ext4_guest_6.1", "kernel/f2fs_guest_6.1"])
def test_fewer_kinds_of_events_raise_no_certain_cost(name: str) -> None:
    """For each part except the first writebacks, fewer kinds give at most the same cost or unknown cost."""
    of = monotony.recording(name)
    all_costs = dict(_costs(of, of.kinds))
    for what, words in LACKING.items():
        for by, few in _costs(of, [kind for kind in of.kinds if not any(word in kind for word in words)]):
            most = all_costs[by]
            rows = few.join(most, on=["metric", *by, "part"], how="left", nulls_equal=True, suffix="_most")
            unknown = most.filter(part="unknown").select("metric", *by, unknown="most")
            rows = rows.join(unknown, on=["metric", *by], how="left", nulls_equal=True)
            allowed = pl.col("most_most").fill_null(0) + pl.col("unknown").fill_null(0) + ROUNDED
            more = rows.filter(pl.col("part") != "unknown", pl.col("fact") > allowed).drop_nulls(by)
            assert more.is_empty(), (what, by, more)


ROUNDED = 64
"""Bytes, because shares are rounded separately."""


def _costs(of: monotony.Recording, kinds: list[str]) -> Iterator[tuple[tuple[str, ...], pl.DataFrame]]:
    """Yield the bytes of each part (directories are metadata): `most`, and those that are facts."""
    tables = of.only(kinds, "requests", "fs_events", "tasks")
    part = pl.col("part").cast(pl.String).replace("directory", "metadata")
    is_bounded = (pl.col("metric") != "cost_per_byte") & ~pl.col("part").is_in(["data", "out"])
    fact = pl.col("value") * (1 - pl.col("inferred").fill_null(0))
    for by in ((), ("owner_comm",), ("path",)):
        found = measures.write_cost(tables, by=by, page_bytes=4096, recorded=kinds).filter(is_bounded)
        yield by, found.group_by("metric", *by, part=part).agg(most=pl.sum("value"), fact=fact.sum())


MAPS = ["ext4_es_cache_extent", "ext4_es_insert_extent"]
OF_DEMO = {
    "a discard of what a deleted file had": ([*MAPS, "ext4_allocate_inode", "ext4_free_inode"], ["ext4_free_inode"]),
    "a block of a file that became metadata": (
        [*MAPS, "ext4_evict_inode", "ext4_free_blocks", "ext4_free_inode", "jbd2_start_commit"],
        ["ext4_free_blocks"],
    ),
    "a number of a file that became a directory's": (
        ["ext4_es_insert_extent", "ext4_free_blocks", "mm_filemap_add_to_page_cache", "writeback_dirty_folio"],
        ["ext4_free_blocks"],
    ),
}
"""Former wrong statements: the kinds of events, and the kinds that were missing."""


@pytest.mark.parametrize("what", OF_DEMO)
def test_fewer_kinds_of_events_state_nothing_else_of_the_demo(what: str) -> None:
    many, without = OF_DEMO[what]
    of = monotony.recording("demo")
    assert not monotony.violations(of.only(set(many).difference(without)), of.only(many), has_whole_pages=True)


# ----------------------------------------------------------------------------------------- what was once stated wrongly


def data(io: pl.DataFrame) -> pl.DataFrame:
    return io.filter(pl.col("op").cast(pl.String).is_in(["read", "write"]), pl.col("nr_sectors") > 0)


def facts(io: pl.DataFrame) -> pl.DataFrame:
    return data(io).filter(pl.col("map_source").cast(pl.String) != "inferred", pl.col("ino").is_not_null())


def test_what_moved_within_its_file_is_no_fact_where_reading_the_map_is_not_recorded() -> None:
    """`fallocate -c` emits no insertion: sector 21552 is at file offset 131072, but was inserted at 196608."""
    for name, is_fact in (("core.txt", False), ("corecache.txt", True)):
        of = monotony.recording(f"wrong_facts/es-insert-only/{name}")
        io = of.only(of.kinds)["io"]
        is_there = (pl.col("sector") <= 21552) & (pl.col("sector") + pl.col("nr_sectors") > 21552)
        read = facts(io).filter((pl.col("op") == "read") & is_there)
        offsets = read.select(pl.col("file_offset_bytes") + (21552 - pl.col("sector")) * 512).to_series()
        assert offsets.to_list() == ([131072] if is_fact else [])


def test_look_ups_beside_the_insertions_make_no_file_less_known() -> None:
    known = {}
    for name in ("core.txt", "lookup.txt.gz"):
        of = monotony.recording(f"wrong_facts/more-events-less-known/{name}")
        known[name] = data(of.only(of.kinds)["io"]).filter(pl.col("ino").is_not_null())["bytes"].sum()
    assert 0 < known["core.txt"] <= known["lookup.txt.gz"]


def test_a_recording_with_lost_events_opens_with_its_proven_facts() -> None:
    of = monotony.recording("wrong_facts/lossy-refused/rec")
    io = of.only(of.kinds)["io"]
    assert io.filter(pl.col("path").is_not_null(), pl.col("map_source").cast(pl.String) == "tracepoint").is_empty()
    assert facts(io).height > 100


def test_a_file_is_called_as_its_directory_was_called_last() -> None:
    of = monotony.recording("wrong_facts/dir-renamed/rec")
    tables = of.only(of.kinds)
    names = dict(tables["files"].select("ino", "names").rows())
    assert names[13] == ["/a/f1", "/b/f1"] and names[17] == ["/a/f1"]
    paths = facts(tables["io"]).group_by("ino").agg(pl.col("path").unique().sort())
    assert dict(paths.rows())[13] == ["/b/f1"] and dict(paths.rows())[17] == ["/a/f1"]


GROWING = {
    "kernel/ext4_guest_6.1": [
        ("ext4_allocate_blocks",), ("ext4_ext_map_blocks_exit",), ("ext4_es_insert_extent",),
        ("ext4_es_lookup_extent_exit",),
    ],
    "kernel/f2fs_guest_6.1": [
        ("f2fs_lookup_read_extent_tree_end", "f2fs_update_read_extent_tree_range"), ("f2fs_map_blocks",),
        ("f2fs_submit_page_write",),
    ],
}  # fmt: skip
"""Kinds of events that state the blocks of files, added one after the other."""


@pytest.mark.parametrize("name", GROWING)
def test_each_kind_of_event_about_blocks_makes_more_files_known(name: str) -> None:
    of = monotony.recording(name)
    assert of.truth is not None
    kinds: list[str] = []
    known = proven = 0
    for added in GROWING[name]:
        kinds = [*kinds, *added]
        tables = of.only(kinds)
        assert not monotony.wrong(of, tables)
        written = tables["io"].filter(pl.col("op") == "write", pl.col("ino").is_not_null())
        assert written["bytes"].sum() >= known
        assert facts(written)["bytes"].sum() >= proven
        known, proven = written["bytes"].sum(), facts(written)["bytes"].sum()
        answers = stock.judged(tables["io"], of.truth)
        assert (answers["file"] == "unknown").mean() < 0.02
        assert (answers["file"] == "inferred wrong").mean() < 0.002
