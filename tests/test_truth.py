"""Attribution against a capture of which the truth about every block written is known (tests/truth.py)."""

from __future__ import annotations

import random
import re
import warnings
from functools import cache
from pathlib import Path

import corpus
import polars as pl
import pytest
import truth

import androstep_analysis
from androstep_analysis.capture import Capture


@pytest.fixture(scope="module")
def directory() -> Path:
    return corpus.path(truth.DIRECTORY)


@pytest.fixture(scope="module")
def opened(directory, tmp_path_factory):
    """A function that opens the recorded text, with or without the filesystem's events, with images or without."""
    scratch = tmp_path_factory.mktemp("truth")

    @cache
    def trace(with_filesystem_events: bool) -> Capture:
        path = scratch / f"{with_filesystem_events}.txt"
        path.write_bytes(truth.trace(directory, with_filesystem_events=with_filesystem_events))
        return androstep_analysis.open(path)

    @cache
    def run(name: str) -> Capture:
        events, before, after = truth.RUNS[name]
        return with_images(trace(events), directory, before, after)

    return run


def with_images(capture: Capture, directory: Path, before: bool, after: bool) -> Capture:
    return capture.with_filesystem(
        before=directory / "pre.img.zst" if before else None, after=directory / "final.img.zst" if after else None
    )


def wrong(outcomes: pl.DataFrame) -> int:
    return outcomes.filter(pl.col("outcome") == "wrong").height


def right(outcomes: pl.DataFrame) -> float:
    return truth.shares(outcomes)["right"]


@pytest.mark.parametrize("name", truth.RUNS)
def test_no_run_states_anything_wrong_as_a_fact(opened, directory, name):
    answers = truth.answered(opened(name), directory)
    assert wrong(truth.file(answers)) == 0
    assert wrong(truth.block_type(answers)) == 0


@pytest.mark.parametrize("name", truth.RUNS)
def test_pieces_add_up_to_their_requests(opened, name):
    capture = opened(name)
    pieces = capture.io.collect().sort("request_id", "sector")
    sums = pieces.group_by("request_id").agg(nr=pl.col("nr_sectors").sum(), first=pl.col("sector").min())
    joined = capture.requests.collect().join(sums, on="request_id", how="left", validate="1:1")
    assert joined.filter(pl.col("nr").ne_missing(pl.col("nr_sectors"))).is_empty()
    assert joined.filter(pl.col("nr") > 0, pl.col("first") != pl.col("sector")).is_empty()
    end = (pl.col("sector") + pl.col("nr_sectors")).shift().over("request_id")
    assert pieces.filter(end.is_not_null() & (end != pl.col("sector"))).is_empty()


@pytest.mark.parametrize("name", [name for name, (events, *_) in truth.RUNS.items() if events])
def test_events_tell_the_file_of_every_block_also_of_deleted_ones(opened, directory, name):
    answers = truth.answered(opened(name), directory)
    assert right(truth.file(answers)) >= 0.999
    deleted = answers.filter(~pl.col("in_final_image"))
    assert deleted.height > 1000
    assert right(truth.file(deleted)) >= 0.999
    assert right(truth.block_type(answers)) >= 0.995


@pytest.mark.parametrize("name", [name for name, (events, *_) in truth.RUNS.items() if events])
def test_events_tell_who_wrote_what_others_submit(opened, directory, name):
    owned = truth.owner(truth.answered(opened(name), directory))
    assert right(owned) >= 0.999
    named = owned.filter(pl.col("io_pid").is_not_null())
    assert named.filter(~pl.col("io_pid").is_in("writer_pids")).is_empty()
    for_others = owned.filter(~pl.col("submit_pid").is_in("writer_pids"))
    assert for_others.height > 1000
    assert right(for_others) == 1


def test_the_image_after_names_what_the_events_map(opened):
    named = opened("all").io.filter(pl.col("block_type") == "data", pl.col("op") == "write").collect()
    by_file = named.group_by("ino", "path").agg(pl.col("map_source").cast(pl.String).unique())
    assert by_file["path"].is_null().any()  # a deleted file has no name
    assert by_file["path"].drop_nulls().len() > 50
    assert set(named["map_source"].cast(pl.String)) <= {"tracepoint", "image_before", "image_after"}


def test_all_that_is_discarded_was_free(opened):
    discarded = opened("trace + image before").io.filter(pl.col("op") == "discard").collect()
    assert discarded.height > 100
    assert set(discarded["block_type"].cast(pl.String)) == {"free"}


def with_gaps(text: bytes, share: float, seed: int) -> bytes:
    """The trace without the filesystem events of some spans of it, and with the recorder's word that it lost them."""
    choose, kept, gap = random.Random(seed), [], 0
    for line in text.decode().splitlines(keepends=True):
        if gap == 0 and choose.random() < share / 200:
            gap = 200
            kept.append(f"CPU:0 [LOST {gap} EVENTS]\n")
        if gap == 0 or ": block_" in line or not re.match(r" .*\[\d", line):
            kept.append(line)
        gap = max(gap - 1, 0)
    return "".join(kept).encode()


@pytest.mark.parametrize("share", [0.02, 0.2])
@pytest.mark.parametrize("before, after", [(False, False), (True, True)])
def test_lost_events_cost_answers_and_never_make_one_wrong(directory, tmp_path, share, before, after):
    path = tmp_path / "trace.txt"
    path.write_bytes(with_gaps(truth.trace(directory, with_filesystem_events=True), share, seed=7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture = with_images(androstep_analysis.open(path), directory, before, after)
    assert capture.lost_events > 0
    answers = truth.answered(capture, directory)
    assert wrong(truth.file(answers)) == 0
    assert 0.5 < right(truth.file(answers)) < 0.999
    owned = truth.owner(answers)
    assert owned.filter(pl.col("io_pid").is_not_null() & ~pl.col("io_pid").is_in("writer_pids")).is_empty()


@pytest.mark.parametrize("begin, end", [(0, 0.3), (0.5, 0.8), (0.3, 1)])
def test_a_part_of_the_recording_tells_as_much_of_its_own_time(directory, tmp_path, begin, end):
    """Files from before it have no creation in it, and the image after is of a later time than its end."""
    lines = truth.trace(directory, with_filesystem_events=True).splitlines(keepends=True)
    path = tmp_path / "trace.txt"
    path.write_bytes(b"".join(lines[int(begin * len(lines)) : int(end * len(lines))]))
    capture = with_images(androstep_analysis.open(path), directory, before=False, after=True)
    answers = truth.answered(capture, directory)
    answers = answers.filter(pl.col("ts").is_between(capture.first_ns, capture.last_ns))
    assert answers.height > 1000
    assert wrong(truth.file(answers)) == 0
    assert wrong(truth.block_type(answers)) == 0
    assert right(truth.file(answers)) >= 0.999
    assert right(truth.owner(answers)) >= 0.999
