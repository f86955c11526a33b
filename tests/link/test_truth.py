"""Compare attribution with recordings in which the truth about every block is known (tests/support/truth.py)."""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import dataclass, replace
from functools import cache

import polars as pl
import pytest
from support import corpus, truth
from support.tracing import FLAGS, trace_cmd

from androstep_analysis import fs, ingest, link
from androstep_analysis.common.errors import EVER, Loss
from androstep_analysis.fs import Filesystem, fiemap
from androstep_analysis.fs.ext4 import journal
from androstep_analysis.ingest.source import load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

TRACED = [name for name, (events, *_) in truth.RUNS.items() if events]
ENOUGH = {"ext4_host_6.18": 0.998, "ext4_guest_6.1": 0.999, "f2fs_guest_6.1": 0.999, "vfat_guest_6.1": 0.985}
"""Share of the data that events must map.

The recording of the host has no ext4_es_cache_extent, the probe of the vfat recording no offset in the page.
"""


@dataclass(frozen=True)
class Recording:
    """One of `truth.RECORDINGS` with its evidence and truth."""

    name: str
    staging: Staging
    truth: pl.DataFrame
    before: Filesystem | None
    after: Filesystem | None

    @property
    def fs_type(self) -> str:
        return self.name.split("_")[0]

    def answers(self, io: pl.DataFrame) -> pl.DataFrame:
        return truth.answered(io, self.truth, self.fs_type)


pytestmark = pytest.mark.xdist_group("truth")  # one process reads the recordings


@cache
def recording(name: str) -> Recording:
    directory = corpus.path(f"kernel/{name}")
    staging = truth.staging(directory)
    dev = truth.device(staging)
    images = [truth.image(directory, when, dev) for when in ("before", "after")]
    return Recording(name, staging, truth.writes(directory), *images)


@cache
def tables(name: str, run: str) -> dict[str, pl.DataFrame]:
    of, (events, before, after) = recording(name), truth.RUNS[run]
    if before and of.before is None:
        pytest.skip(f"{name} has no image from before")
    images = link.Images(of.before if before else None, of.after if after else None)
    return truth.tables(of.staging, images, with_filesystem_events=events)


def answers(name: str, run: str) -> pl.DataFrame:
    return recording(name).answers(tables(name, run)["io"])


def wrong(outcomes: pl.DataFrame) -> int:
    return outcomes.filter(pl.col("outcome") == "wrong").height


def right(outcomes: pl.DataFrame) -> float:
    return truth.shares(outcomes)["right"]


def assert_nothing_is_wrong(said: pl.DataFrame) -> None:
    assert said.height > 1000
    for question in (truth.file, truth.name, truth.block_type):
        assert wrong(question(said)) == 0, question.__name__


@pytest.mark.parametrize("run", truth.RUNS)
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_no_run_states_anything_wrong_as_a_fact(name, run):
    assert_nothing_is_wrong(answers(name, run))


@pytest.mark.parametrize("run", truth.RUNS)
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_pieces_add_up_to_their_requests(name, run):
    known = tables(name, run)
    pieces = known["io"].sort("request_id", "sector")
    sums = pieces.group_by("request_id").agg(nr=pl.col("nr_sectors").sum(), first=pl.col("sector").min())
    joined = known["requests"].join(sums, on="request_id", how="left", validate="1:1")
    assert joined.filter(pl.col("nr").ne_missing(pl.col("nr_sectors"))).is_empty()
    assert joined.filter(pl.col("nr") > 0, pl.col("first") != pl.col("sector")).is_empty()
    end = (pl.col("sector") + pl.col("nr_sectors")).shift().over("request_id")
    assert pieces.filter(end.is_not_null() & (end != pl.col("sector"))).is_empty()


@pytest.mark.parametrize("run", TRACED)
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_events_show_the_file_of_every_block_including_deleted_files(name, run):
    said = answers(name, run)
    assert right(truth.file(said)) >= ENOUGH[name]
    deleted = truth.deleted(said, recording(name).after)
    assert deleted.height > 1000
    assert right(truth.file(deleted)) >= ENOUGH[name]
    if recording(name).fs_type != "vfat":
        assert right(truth.block_type(said)) >= 0.994


def test_the_image_after_confirms_what_the_probe_left_open():
    said = answers("vfat_guest_6.1", "trace + image after")
    assert right(truth.file(said)) >= 0.99
    assert right(truth.block_type(said)) >= 0.99


@pytest.mark.parametrize("run", TRACED)
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_events_show_the_writers_of_data_that_other_threads_submit(name, run):
    owned = truth.owner(answers(name, run))
    assert right(owned) >= min(ENOUGH[name], 0.999)
    named = owned.filter(pl.col("io_pid").is_not_null())
    assert named.filter(~pl.col("io_pid").is_in("writer_pids")).is_empty()
    for_others = owned.filter(~pl.col("submit_pid").is_in("writer_pids"))
    assert for_others.height > 500
    assert right(for_others) == 1


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_events_and_the_image_after_name_deleted_files_too(name):
    said = answers(name, "trace + image after")
    deleted = truth.deleted(said, recording(name).after)
    assert right(truth.name(said)) >= (1 if name != "ext4_host_6.18" else ENOUGH[name])
    assert right(truth.name(deleted)) == 1
    assert right(truth.name(answers(name, "trace"))) > 0.9


@pytest.mark.parametrize("name", ["ext4_host_6.18", "ext4_guest_6.1"])
def test_journal_blocks_belong_to_those_with_handles_in_their_transaction(name):
    """The result is compared with a replay of the events one by one."""
    rows = recording(name).staging.fs_events.filter(pl.col("event").cast(pl.String).str.starts_with("jbd2_")).collect()
    committing: dict[int, tuple[int, int]] = {}
    spans: list[tuple[int, int, int]] = []
    handles: dict[int, list[int]] = {}
    for row in rows.iter_rows(named=True):
        if (
            row["event"] == "jbd2_handle_stats"
            and row["nr_blocks"] > 0
            and not row["comm"].startswith(("kworker", "jbd2"))
        ):
            handles.setdefault(row["transaction"], []).append(row["pid"])
        elif row["event"] == "jbd2_start_commit":
            committing[row["tid"]] = row["transaction"], row["ts_ns"]
        elif row["event"] == "jbd2_end_commit":
            transaction, begin = committing.pop(row["tid"])
            spans.append((begin, row["ts_ns"], transaction))
    io = tables(name, "trace + image after")["io"]
    log = io.filter(pl.col("op") == "write", pl.col("block_type") == "journal")
    first = rows.filter(pl.col("event") == "jbd2_handle_stats")["transaction"].min()
    attributed = 0
    for row in log.iter_rows(named=True):
        found = [t for begin, end, t in spans if begin <= row["queue_ns"] <= end]
        pids = handles.get(found[0], []) if found and found[0] > first else []
        assert (row["owner_via"] == "handle") == bool(pids)
        if pids:
            assert (row["owner_pid"], row["owner_count"]) == (pids[-1], len(set(pids)))
            attributed += row["bytes"]
    assert attributed > 0.95 * log["bytes"].sum()


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_all_that_is_discarded_was_free(name):
    discarded = tables(name, "trace")["io"].filter(pl.col("op") == "discard")
    assert set(discarded["block_type"].cast(pl.String)) <= {"free", "unknown"}


# ------------------------------------------------------------------------------------------------- kinds of evidence


def listed(image: Filesystem) -> fiemap.Listing:
    """Return the listing that extmap would have made of the filesystem in an image."""
    extents = image.extents.filter(pl.col("block_type").is_in(["data", "directory"]), pl.col("ino") >= 11)
    tables = [
        table.with_columns(pl.lit("fiemap").cast(table["source"].dtype).alias("source"))
        for table in (extents, image.files)
    ]
    dev = int(image.extents["dev"][0])
    return fiemap.Listing(
        dev, image.fs_type, image.block_bytes, image.nr_sectors, ("/",), 0, 0, 0, 0, *tables, image.times
    )


@cache
def witnesses(name: str) -> tuple[Staging, link.Images]:
    """Return the recording with the clock offset from its journal, and all evidence about its filesystem."""
    of = recording(name)
    assert of.after is not None
    with fs.opened(corpus.path(f"kernel/{name}/final.img.zst")) as image:
        log = journal.read(image, of.after)
    assert log is not None
    commits = of.staging.fs_events.filter(pl.col("event") == "jbd2_end_commit").collect()
    commits = commits.join(log.commits, on="transaction")
    offset = commits.select((pl.col("epoch_ns") - pl.col("ts_ns")).max()).item()
    images = link.Images(of.before, of.after, None if of.before is None else listed(of.before), listed(of.after), log)
    return replace(of.staging, realtime_offset_ns=offset), images


@pytest.mark.parametrize("name", ["ext4_host_6.18", "ext4_guest_6.1"])
@pytest.mark.parametrize(
    ("sources", "least"),
    [
        ({"journal"}, 0.99), ({"image"}, 0), ({"fiemap"}, 0), ({"image", "journal"}, 0.99), ({"tracepoint"}, 0.999),
        ({"tracepoint", "fiemap"}, 0.999), (link.SOURCES, 0.999), (set(), 0),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, (set, frozenset)) else None,
)  # fmt: skip
def test_no_kind_of_evidence_is_wrong_and_each_contributes(name, sources, least):
    staging, images = witnesses(name)
    tables = link.tables(staging, requests.link(staging.block), images, Spool(), sources=frozenset(sources))
    io = tables["io"].collect()
    said = recording(name).answers(io)
    assert_nothing_is_wrong(said)
    assert right(truth.file(said)) >= min(least, ENOUGH[name])
    used = set(io["map_source"].cast(pl.String).drop_nulls())
    kinds = {"tracepoint": {"tracepoint", "context"}, "image": {"image_before", "image_after"}}
    allowed = {"inferred"}.union(*(kinds.get(source, {source}) for source in sources))
    assert used <= allowed


# ------------------------------------------------------------------------------------------------------------- losses


def with_gaps(staging: Staging, share: float, seed: int) -> Staging:
    """Return the recording without the filesystem events of some spans, which are reported as losses."""
    choose, kept, lost, gap = random.Random(seed), [], 0, 0
    events = staging.fs_events.collect()
    for _ in range(events.height):
        if gap == 0 and choose.random() < share / 200:
            gap = 200
        kept.append(gap == 0)
        lost += gap > 0
        gap = max(gap - 1, 0)
    return replace(staging.with_tables(fs_events=events.filter(pl.Series(kept))), lost_events=lost)


@pytest.mark.parametrize("share", [0.02, 0.2])
@pytest.mark.parametrize("with_images", [False, True])
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_lost_events_cost_answers_and_never_make_one_wrong(name, share, with_images):
    of = recording(name)
    staging = with_gaps(of.staging, share, seed=7)
    assert staging.lost_events > 0
    images = link.Images(of.before, of.after) if with_images else link.Images()
    said = of.answers(truth.tables(staging, images)["io"])
    assert_nothing_is_wrong(said)
    assert 0.4 < right(truth.file(said)) < 0.999
    assert wrong(truth.owner(said)) == 0


def without(staging: Staging, table: str, nr_gaps: int, nr_events: int) -> tuple[Staging, tuple[tuple[int, int], ...]]:
    """Return the recording without the events of a table in some spans, and these spans."""
    events, choose, spans = staging.table(table).collect(), random.Random(table), []
    for _ in range(nr_gaps):
        begin = choose.randrange(events.height // 4, events.height - nr_events)
        spans.append((int(events["ts_ns"][begin]), int(events["ts_ns"][begin + nr_events])))
    is_lost = pl.any_horizontal(pl.col("ts_ns").is_between(*span) for span in spans)
    return staging.with_tables(**{table: events.filter(~is_lost)}), tuple(spans)


@pytest.mark.prove
@pytest.mark.parametrize("table", ["fs_events", "block_events"])
@pytest.mark.parametrize("nr_gaps, nr_events", [(1, 500), (5, 300)])
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_a_loss_at_a_known_time_affects_nothing_before_it(name, table, nr_gaps, nr_events):
    of = recording(name)
    staging, spans = without(of.staging, table, nr_gaps, nr_events)
    images = link.Images(of.before, of.after)
    said, right_files = {}, {}
    for when in (spans, EVER):
        loss = Loss("overwritten", nr_gaps * nr_events, "some were overwritten", (table,), spans=when)
        tables = truth.tables(replace(staging, losses=(loss,)), images)
        said[when] = of.answers(tables["io"])
        assert_nothing_is_wrong(said[when])
        owners = truth.owner(said[when]).filter(pl.col("io_via") != "inferred", pl.col("io_pid").is_not_null())
        assert owners.filter(~pl.col("io_pid").is_in("writer_pids")).is_empty()
        right_files[when] = right(truth.file(said[when])), right(truth.owner(said[when]))
    assert all(known >= unknown for known, unknown in zip(*right_files.values(), strict=True))
    assert right_files[spans][1] > right_files[EVER][1]
    first = min(begin for begin, _ in spans)
    before = pl.col("ts") < first
    whole = answers(name, "all" if of.before else "trace + image after").filter(before)
    facts = ("io_block_type", "io_ino", "io_offset", "io_pid", "io_count", "io_via")
    assert said[spans].filter(before).select(facts).equals(whole.select(facts))


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_calls_without_ends_and_lost_samples_change_no_result(name):
    of = recording(name)
    lost = tuple(Loss("missing", 87_944, "calls have no result", (table,)) for table in ("syscalls", "samples"))
    noisy = truth.tables(replace(of.staging, losses=lost), link.Images(of.before, of.after))
    quiet = tables(name, "all" if of.before else "trace + image after")
    for table in ("io", "extents", "files"):
        assert noisy[table].equals(quiet[table])


ENTRIES = (
    "sys_enter_read: fd: 0x{n:08x}, buf: 0x7ff1cbf29fc0, count: 0x00001000",
    "sys_enter_write: fd: 0x{n:08x}, buf: 0x7ff1cbf29fc0, count: 0x00001000",
    "sys_enter_close: fd: 0x{n:08x}",
    "sys_enter_ioctl: fd: 0x{n:08x}, cmd: 0x00005401, arg: 0x7ffc00000000",
    "sys_enter_fsync: fd: 0x{n:08x}",
)


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_entries_of_calls_without_exits_change_no_result(tmp_path, name):
    """Events of ``trace-cmd record -e 'syscalls:sys_enter_*'`` are added to the lines of the same recording."""
    of = recording(name)
    container = tmp_path / "trace.dat"
    container.write_bytes(load(corpus.path(f"kernel/{name}/trace.dat.zst")).data)
    lines, choose, noisy, added = trace_cmd("report", "-t", "-i", container).splitlines(), random.Random(name), [], 0
    for line in lines:
        noisy.append(line)
        if ": " in line and choose.random() < 0.5:
            head = re.match(r" *.*-\d+ +\[\d+\] +" + FLAGS + r" *[\d.]+: ", line)
            noisy.append(head[0] + choose.choice(ENTRIES).format(n=choose.randrange(64)) if head else "")
            added += head is not None
    assert added > 20_000
    found = []
    for text in (lines, noisy):
        path = tmp_path / "report.txt"
        path.write_text("\n".join(text) + "\n")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            read = ingest.read(path)
        losses = [str(warning.message) for warning in said]
        found.append((truth.tables(replace(read, facts=of.staging.facts), link.Images(of.before, of.after)), losses))
    (quiet, _), (tables, losses) = found
    assert quiet["io"].filter(pl.col("ino").is_not_null()).height > 500
    for table in ("requests", "io", "extents", "files"):
        assert tables[table].equals(quiet[table])
    assert any("sys_enter" in line or "calls" in line for line in losses), losses


@pytest.mark.parametrize("begin, end", [(0, 0.3), (0.5, 0.8), (0.3, 1)])
@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_a_part_of_the_recording_gives_the_same_results_for_its_time(name, begin, end):
    """Older files have no creation in the part, and the image after is from a later time than its end."""
    of = recording(name)
    times = of.staging.block.select("ts_ns").collect()["ts_ns"]
    first, last = (int(times[int(share * (len(times) - 1))]) for share in (begin, end))
    span = pl.col("ts_ns").is_between(first, last)
    tables = {name: table.filter(span) for name, table in of.staging.tables.items()}
    staging = replace(of.staging, tables=tables, first_ns=first, last_ns=last)
    said = of.answers(truth.tables(staging, link.Images(after=of.after))["io"])
    said = said.filter(pl.col("ts").is_between(first, last))
    assert said.height > 300
    assert wrong(truth.file(said)) == 0
    assert wrong(truth.name(said)) == 0
    assert wrong(truth.block_type(said)) == 0
    assert right(truth.file(said)) >= 0.85
    owned = truth.owner(said)
    assert right(owned) >= 0.95
    assert owned.filter(pl.col("io_pid").is_not_null() & ~pl.col("io_pid").is_in("writer_pids")).is_empty()
