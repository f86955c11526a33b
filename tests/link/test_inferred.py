"""Compare results inferred from the events available without root with the known truth of recordings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support import corpus, stock, truth

from androstep_analysis import ingest, link, native
from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import inferred, requests

RECORDINGS = ("ext4_host_6.18", "ext4_guest_6.1", "f2fs_guest_6.1")

AIMS = {"file": (0.93, 0.015), "owner": (0.99, 0.007)}
"""Minimum share of correct and maximum share of wrong results for written blocks."""

CLASS_ERROR = 0.05
"""Maximum difference between the stated confidence of results and their share of correct ones."""


def io_of(recorded: Staging) -> pl.DataFrame:
    """Return table io of a recording without images."""
    tables = link.tables(recorded, requests.link(recorded.block), link.Images(), Spool())
    return tables["io"].collect()


@pytest.mark.parametrize("name", RECORDINGS)
def test_files_and_owners_of_what_was_written(name: str) -> None:
    directory = corpus.path(f"kernel/{name}")
    io = io_of(stock.reduced(truth.staging(directory)))
    answers = stock.judged(io, truth.writes(directory))
    for question, (right, wrong) in AIMS.items():
        shares = stock.shares(answers[question])
        assert shares["fact wrong"] == 0
        assert shares["fact right"] + shares["inferred right"] >= right, (question, shares)
        assert shares["inferred wrong"] <= wrong, (question, shares)
    for question, percent in (("file", "map_percent"), ("owner", "owner_percent")):
        known = answers.filter(pl.col(question).str.starts_with("inferred"))
        classes = known.group_by(percent).agg(n=pl.len(), right=(pl.col(question) == "inferred right").mean())
        for stated, n, right in classes.iter_rows():
            assert n < 100 or right >= stated / 100 - CLASS_ERROR, (question, stated, right)


@pytest.mark.parametrize("name", RECORDINGS)
def test_files_and_owners_of_what_was_read(name: str) -> None:
    """The truth about reads comes from the recording with all of its events."""
    recorded = truth.staging(corpus.path(f"kernel/{name}"))
    proven = io_of(recorded).filter(pl.col("op") == "read", pl.col("block_type") == "data")
    proven = proven.filter(pl.col("map_source") != "inferred").drop_nulls("ino")
    place = ["issue_ns", "sector"]
    found = io_of(stock.reduced(recorded)).select(*place, "ino", "owner_pid")
    both = proven.join(found, on=place, how="left", suffix="_found")
    assert both.height > 50
    for question in ("ino", "owner_pid"):
        is_right = pl.col(question) == pl.col(f"{question}_found")
        share = both.select(pl.col("bytes").filter(is_right).sum() / pl.col("bytes").sum()).item()
        assert share >= 0.95, (question, share)


@pytest.mark.parametrize("name", ["ext4_host_6.18", "ext4_guest_6.1"])
def test_the_writer_of_a_page_is_right_more_often_than_the_submitter(name: str) -> None:
    """Without events of new mappings, one in eight blocks on Linux 6.18 was submitted by another process."""
    directory = corpus.path(f"kernel/{name}")
    recorded = truth.staging(directory)
    kept = recorded.fs_events.filter(pl.col("event").cast(pl.String) != "ext4_es_insert_extent")
    answers = stock.judged(io_of(recorded.with_tables(fs_events=kept)), truth.writes(directory))
    shares = stock.shares(answers["owner"])
    assert shares["fact wrong"] == 0
    assert shares["inferred wrong"] <= 0.001 and shares["unknown"] <= 0.001, shares


def test_a_recording_with_all_events_has_nothing_inferred_from_few() -> None:
    io = io_of(truth.staging(corpus.path("kernel/f2fs_guest_6.1")))
    assert io["map_percent"].null_count() == io["owner_percent"].null_count() == io.height


ISSUED = """\
 app-77 [000] 1.000001: block_rq_issue: 7,0 {rwbs} 4096 () 816 + 8 [app]
 kworker/0:1-5 [000] 1.000002: block_rq_issue: 7,0 {rwbs} 4096 () 916 + 8 [kworker/0:1]
 <idle>-0 [000] 1.000003: block_rq_complete: 7,0 {rwbs} () 816 + 8 [0]
 <idle>-0 [000] 1.000004: block_rq_complete: 7,0 {rwbs} () 916 + 8 [0]
"""


def read(path: Path, text: str) -> Staging:
    path.write_text(text)
    return ingest.read(path)


@pytest.mark.parametrize(("rwbs", "percent"), [("R", 99), ("WS", 95), ("D", 99)])
def test_a_request_without_bios_belongs_to_the_process_that_issues_it(rwbs: str, percent: int, tmp_path: Path) -> None:
    queued = f" other-78 [000] 1.000000: block_bio_queue: 7,0 {rwbs} 816 + 8 [other]\n"
    answer = ("owner_comm", "owner_via", "owner_percent", "owner_count")
    text = ISSUED.format(rwbs=rwbs)
    io = io_of(read(tmp_path / "issued", text))
    assert io.select(answer).rows() == [("app", "inferred", percent, None), (None, "unknown", None, 0)]
    io = io_of(read(tmp_path / "queued", queued + text))
    assert io.select(answer).row(0)[0] == "other"


@pytest.mark.parametrize("name", RECORDINGS)
def test_issuers_are_right_as_often_as_stated(name: str) -> None:
    """The recording lacks the events of bios and pages."""
    directory = corpus.path(f"kernel/{name}")
    recorded = truth.staging(directory)
    block = recorded.block.filter(pl.col("action") != "queue")
    io = io_of(recorded.with_tables(fs_events=recorded.fs_events.clear(), block_events=block))
    answers = stock.judged(io, truth.writes(directory))
    named = answers.filter(pl.col("owner").str.starts_with("inferred"), owner_percent=inferred.ISSUED["write"].percent)
    assert named.height > 1000
    assert (named["owner"] == "inferred right").mean() > 0.8
    assert answers.filter(pl.col("owner") == "fact wrong").is_empty()


def test_no_result_depends_on_events_with_losses_between_them() -> None:
    recorded = stock.reduced(truth.staging(corpus.path("kernel/ext4_guest_6.1")))
    lost = Loss("overwritten", 1, "an event is missing", ("fs_events",))
    assert io_of(recorded)["map_percent"].count() > 500
    assert io_of(replace(recorded, losses=(lost,)))["map_percent"].count() == 0


def test_a_filesystem_on_device_mapper_is_that_of_the_disk_it_is_written_to() -> None:
    """A user build permits no remap events. Requests have the disk's number, events the filesystem's own device."""
    recorded = stock.reduced(truth.staging(corpus.path("kernel/f2fs_guest_6.1")))
    disk = pl.lit(units.dev(8, 0), pl.UInt32)
    moved = recorded.with_tables(block_events=recorded.block.with_columns(dev=disk, sector=pl.col("sector") + 4096))
    same = ["issue_ns", "ino", "owner_pid", "map_percent"]
    assert io_of(moved).select(same).equals(io_of(recorded).select(same))


def test_rules_are_those_of_the_native_pass_and_of_the_definition() -> None:
    header = (native.LIBRARY.parent / "infer/infer.h").read_text()
    enum = re.search(r"enum infer_rule \{(.*?)\}", header, re.DOTALL)
    assert enum is not None
    names = [rule.name for rule in inferred.RULES]
    assert re.findall(r"\w+", enum[1]) == ["RULE_NONE", *(f"RULE_{name.upper()}" for name in names)]
    text = schema.definitions()["inferred"]["text"]
    assert [rule.name for rule in inferred.RULES if f"{rule.name}: {rule.sentence}" not in text] == []


@pytest.mark.parametrize("rule", inferred.RULES, ids=lambda rule: rule.name)
def test_no_stated_percentage_is_above_the_measured_one(rule: inferred.Rule) -> None:
    for accuracy in (rule.file, rule.owner, rule.blind_file, rule.blind_owner):
        if accuracy is not None and accuracy.blocks is not None and accuracy.right is not None:
            assert accuracy.percent <= round(100 * accuracy.right / accuracy.blocks)
