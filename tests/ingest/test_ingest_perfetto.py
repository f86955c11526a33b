"""Perfetto traces: real ones, compared with another recorder, and synthetic ones, compared with Google's library."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus
from support import perfetto_messages as messages
from support.perfetto_messages import bundle, generic, trace, userland

from androstep_analysis import ingest, schema
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.ingest.ftrace import fs_events
from androstep_analysis.ingest.perfetto import decoder
from androstep_analysis.ingest.perfetto import fields as perfetto_fields
from androstep_analysis.ingest.perfetto import trace as perfetto
from androstep_analysis.ingest.source import Source, load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

DATA = Path(__file__).parents[1] / "data"
COMPACT, GENERIC = DATA / "perfetto_compact.pftrace.xz", DATA / "perfetto_generic.pftrace"
"""Perfetto 56 on Linux 6.18: one trace with compact_sched and described generic events, the other without, and
compressed. iotrace recorded the same work on the same disk at the same time (perfetto_*.dat.xz).
"""

DISK = 8 << 20 | 3
TABLES = ("block_events", "fs_events", "commands", "samples")


class Read:
    """A trace that was read, with its tables."""

    def __init__(self, source: Source) -> None:
        spool = Spool()
        self.staging: Staging = perfetto.read(source, spool)
        self.tables = {name: spool.table(name).collect() for name in TABLES if spool.rows(name)}

    def table(self, name: str) -> pl.DataFrame:
        return self.tables.get(name, schema.empty(name))

    @property
    def losses(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for loss in self.staging.losses:
            counts[loss.kind] += loss.count
        return dict(counts)


def read(data: bytes) -> Read:
    return Read(Source.of(Path("a.pftrace"), data))


def event(ts_ns: int, pid: int, **body: Any) -> dict[str, Any]:
    return {"timestamp": ts_ns, "pid": pid, **body}


ISSUE = {"dev": userland(8, 3), "sector": 800, "nr_sector": 16, "bytes": 8192, "rwbs": "WS", "comm": "app"}
DONE = {"dev": userland(8, 3), "sector": 800, "nr_sector": 16, "rwbs": "WS", "error": 0}

# --- real recordings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["compact", "generic"])
def test_tells_the_same_as_iotrace_of_the_same_work(name: str) -> None:
    """Both recorders saw the same kernel events. All columns agree, and times agree up to the order on two CPUs."""
    ours = Read(load(DATA / f"perfetto_{name}.pftrace{'.xz' if name == 'compact' else ''}"))
    theirs = ingest.read(DATA / f"perfetto_{name}.dat.xz")
    assert ours.staging.clock == theirs.clock == "boot"
    dev = theirs.block.collect()["dev"].mode()[0]
    # Perfetto's messages for these events have no order and no priority. iotrace records only handles that dirtied
    # something.
    unlike = {"fs_events": ["page_order"], "block_events": ["ioprio"]}
    for table, expected in (("block_events", theirs.block.collect()), ("fs_events", theirs.fs_events.collect())):
        on_disk = [
            rows.filter(pl.col("dev") == dev, pl.col("event") != "jbd2_handle_stats")
            for rows in (ours.table(table), expected)
        ]
        both = set(on_disk[0]["event"].unique()) & set(on_disk[1]["event"].unique())
        assert len(both) >= 4
        begin = max(rows["ts_ns"].min() for rows in on_disk) - 10_000_000
        end = min(rows["ts_ns"].max() for rows in on_disk) + 10_000_000
        left, right = (
            rows.filter(pl.col("event").is_in(list(both)), pl.col("ts_ns").is_between(begin, end))
            .drop(*unlike[table])
            .with_row_index()
            for rows in on_disk
        )
        assert left.height == right.height > 100
        assert (left["ts_ns"] - right["ts_ns"]).abs().max() < 10_000
        assert left.drop("ts_ns").equals(right.drop("ts_ns"))


def _decoded(data: bytes) -> list[Any]:
    """Return all packets of this trace, including compressed ones, decoded by Google's library."""
    packets = []
    for packet in messages.Trace.FromString(data).packet:
        if packet.compressed_packets:
            packets += messages.Trace.FromString(zlib.decompress(packet.compressed_packets)).packet
        else:
            packets.append(packet)
    return packets


@pytest.mark.parametrize("path", [COMPACT, GENERIC], ids=["compact", "generic"])
def test_rows_are_what_google_protobuf_reads(path: Path) -> None:
    source = load(path)
    ours = Read(source)
    counts: Counter[str] = Counter()
    rows = []
    names: dict[int, str] = {}
    for packet in _decoded(source.data):
        bundle_ = packet.ftrace_events
        for descriptor in bundle_.generic_event_descriptors:
            names[descriptor.field_id] = descriptor.event_descriptor[2:].split(b"\x12")[0].decode()
        counts["sched_switch"] += len(bundle_.compact_sched.switch_timestamp)
        counts["sched_waking"] += len(bundle_.compact_sched.waking_timestamp)
        for one in bundle_.event:
            known = [field for field, _ in one.ListFields() if field.number > 2]
            for field in known:
                body = getattr(one, field.name)
                name = field.name if field.name != "generic" else body.event_name
                counts[names[field.number] if name.startswith("described") else name] += 1
                if name.startswith("block_"):
                    rows.append(_expected_block(name, one, body, bundle_.cpu))
            if not known:
                counts["unknown to the test"] += 1
    events = {name: count for name, count in ours.staging.events.items() if name in counts}
    missing = counts.pop("unknown to the test", 0)
    assert events == {name: count for name, count in counts.items() if count}
    others = set(decoder.PACKETS.values()) | set(events)
    assert sum(count for name, count in ours.staging.events.items() if name not in others) == missing
    block = ours.table("block_events")
    assert block.height == len(rows) > 300
    wanted = pl.DataFrame(rows, schema={name: block.schema[name] for name in rows[0]}, infer_schema_length=None)
    order = ["ts_ns", "cpu", "event", "sector"]
    assert block.select(wanted.columns).sort(order).equals(wanted.sort(order))


def _expected_block(name: str, event: Any, body: Any, cpu: int) -> dict[str, Any]:
    has = {field.name for field, _ in body.ListFields()} | {field.name for field in body.DESCRIPTOR.fields}
    dev = getattr(body, "dev", None)
    major, minor = ((dev or 0) >> 8 & 0xFFF, (dev or 0) & 0xFF | (dev or 0) >> 12 & 0xFFF00)
    sector = getattr(body, "sector", None)
    return {
        "ts_ns": event.timestamp,
        "cpu": cpu,
        "tid": event.pid,
        "event": name,
        "dev": None if dev is None else major << 20 | minor,
        "sector": None if sector is None or sector >> 63 else sector,
        "nr_sectors": body.nr_sector if "nr_sector" in has else None,
        "rwbs": getattr(body, "rwbs", None),
        "error": body.error if name == "block_rq_complete" else None,
        "old_dev": None,
    }


@pytest.mark.parametrize("path", [COMPACT, GENERIC], ids=["compact", "generic"])
def test_small_tables_and_pieces_change_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same if small tables are emptied often and the input arrives in small pieces."""
    source = load(path)
    whole = Read(source)
    monkeypatch.setattr(decoder, "_ROWS", 64)
    monkeypatch.setattr(decoder, "_NOTES", 3)
    monkeypatch.setattr(decoder, "_INFLATED_BYTES", 1000)
    monkeypatch.setattr(
        Source, "pieces", lambda source: iter([source.data[i : i + 977] for i in range(0, source.size, 977)])
    )
    parts = Read(source)
    assert parts.staging.events == whole.staging.events
    assert parts.staging.losses == whole.staging.losses
    for name, table in whole.tables.items():
        assert parts.table(name).equals(table), name


@pytest.mark.prove
@pytest.mark.parametrize("path", [COMPACT, GENERIC], ids=["compact", "generic"])
def test_a_truncated_trace_gives_everything_before(path: Path) -> None:
    data = load(path).data
    whole = {
        name: set(map(str, table.drop("pid", "comm", strict=False).rows())) for name, table in read(data).tables.items()
    }
    sizes = []
    for size in sorted(random.Random(5).sample(range(1, len(data)), 20)):
        part = read(data[:size])
        for name, table in part.tables.items():
            assert set(map(str, table.drop("pid", "comm", strict=False).rows())) <= whole[name]
        assert not part.losses.keys() - {"torn", "missing", "unreadable"}
        assert sum(part.losses.get(kind, 0) for kind in ("torn", "unreadable")) <= 1
        sizes.append(sum(part.staging.events.values()))
    assert sizes == sorted(sizes)


def test_a_cut_bundle_gives_its_events_before_the_cut() -> None:
    data = trace(bundle(*(event(1000 + n, 7, block_rq_issue=ISSUE) for n in range(100))))
    each = len(messages.message("FtraceEvent")(**event(1000, 7, block_rq_issue=ISSUE)).SerializeToString()) + 2
    end = len(data) - 2  # the number of the sequence comes last
    for size in (end, end - 1, end - each, end - each - 1, end - 70 * each + 5):
        assert read(data[:size]).table("block_events").height == 100 - -((size - end) // each)


def test_damage_costs_what_it_hits() -> None:
    """Bytes that are not packets are inserted between packets. The packets after them are found."""
    packets = [trace(bundle(event(1000 + n, 7, block_rq_issue=ISSUE)) | {"timestamp": n}) for n in range(50)]
    data = b"".join(packets[:20]) + bytes(random.Random(3).randbytes(333)) + b"".join(packets[20:])
    found = read(data)
    assert found.table("block_events").height == 50
    assert found.losses["unreadable"] >= 1


@pytest.mark.prove
@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=30), st.randoms())
def test_no_bytes_are_too_wrong(changes: list[tuple[int, int]], chance: random.Random) -> None:
    """Random changes and random bytes yield a result without an exception."""
    data = bytearray(load(COMPACT).data[:12_000])
    for place, value in changes:
        data[place % len(data)] = value
    found = read(bytes(data))
    assert found.table("block_events")["ts_ns"].is_sorted()
    read(b"\x0a" + chance.randbytes(300))


def test_deep_and_endless_messages_are_no_danger() -> None:
    inner = trace(bundle(event(5, 1, block_plug={"comm": "x"})))
    for _ in range(50):
        inner = trace({"compressed_packets": zlib.compress(inner)})
    found = read(inner)
    assert found.staging.events == {} and found.losses == {"unreadable": 1}
    bomb = trace({"compressed_packets": zlib.compress(bytes(50_000_000))})
    assert read(bomb).losses["unreadable"] >= 1
    endless = b"\x0a\xff\xff\xff\xff\x0f" + b"\xff" * 1000
    assert read(endless).losses["unreadable"] == 1


# --- the corpus ------------------------------------------------------------------------------------------------------

FIELDS_OF_IOSTAT = {
    **{
        f"write_app_{name}": f"app_{letter}io"
        for name, letter in (("total", "w"), ("direct", "d"), ("buffered", "b"), ("mapped", "m"))
    },
    **{
        f"read_app_{name}": f"app_{letter}rio" for name, letter in (("direct", "d"), ("buffered", "b"), ("mapped", "m"))
    },
    "read_app_total": "app_rio",
    **{
        f"write_{part}_{name}": f"fs_{prefix}{letter}io"
        for part, prefix in (("fs", ""), ("gc", "gc_"), ("cp", "cp_"))
        for name, letter in (("data", "d"), ("node", "n"), ("meta", "m"))
    },
    **{
        f"read_fs_{name}": f"fs_{letters}rio"
        for name, letters in (("data", "d"), ("gdata", "gd"), ("cdata", "cd"), ("node", "n"), ("meta", "m"))
    },
    "other_fs_discard": "fs_discard",
}
"""The names of counters in the trace processor and in the kernel (include/trace/events/f2fs.h)."""


@pytest.mark.parametrize(
    "name",
    [
        "difftest_block_io_slice.pb",
        "difftest_f2fs_iostat.pb",
        "difftest_ufshcd_command.pb",
        "pixel4a5g_scrolling_with_blocked_nonblocked_frames.pftrace",
    ],
)
def test_counts_of_the_corpus(name: str) -> None:
    """The .textproto next to a .pb is its source in a form that no recorder writes, and is not read."""
    path = corpus.path(f"perfetto/{name}")
    beside = [path.with_suffix(".expected.json"), path.with_name(f"{path.name}.expected.json")]
    expected = json.loads(next(file for file in beside if file.exists()).read_text())
    decoded = expected.get("protobuf_decode", expected)
    found = Read(load(path))
    packets = {kind: count for kind, count in decoded["packets"].items() if kind != "ftrace_events"}
    assert found.staging.events == {**packets, **decoded["ftrace_events"]}
    assert (found.staging.first_ns, found.staging.last_ns) == (decoded["first_ts_ns"], decoded["last_ts_ns"])
    rows = [table for key, table in found.tables.items() if key != "samples"]
    per_cpu = Counter(str(cpu) for table in rows for cpu in table["cpu"])
    assert not rows or per_cpu == decoded["ftrace_events_per_cpu"]
    if fingerprint := decoded["system_info"].get("fingerprint"):
        assert found.staging.facts["build_fingerprint"] == fingerprint
        assert decoded["system_info"]["utsname"].startswith(str(found.staging.facts["kernel"]))


def test_counters_of_the_corpus() -> None:
    path = corpus.path("perfetto/difftest_f2fs_iostat.expected.json")
    _, *lines = json.loads(path.read_text())["expected_csv"]
    expected = set()
    for line in lines:
        title, ts_ns, value = line.split(",")
        _, dev, counter = title.strip('"').split(".")
        major, minor = map(int, dev.strip("[]").split(":"))
        name = f"f2fs_iostat.{FIELDS_OF_IOSTAT[counter]}"
        expected.add((int(ts_ns), major << 20 | minor, name, int(float(value))))
    samples = Read(load(path.with_name("difftest_f2fs_iostat.pb"))).table("samples")
    assert set(samples.select("ts_ns", "dev", "counter", "value").rows()) == expected
    assert set(samples["unit"]) == {"B"} and set(samples["scope"]) == {"device"}


def test_start_and_end_of_accounting_stand_for_issue_and_completion_where_there_is_nothing_else() -> None:
    block = Read(load(corpus.path("perfetto/difftest_block_io_slice.pb"))).table("block_events")
    dev = 179 << 20
    assert block.select("ts_ns", "action", "dev", "sector", "nr_sectors").rows() == [
        (1000, "issue", dev, 44920176, 56),
        (2400, "complete", dev, 44920176, None),
    ]
    start, done = {**ISSUE, "ioprio": 16388}, {**ISSUE, "ioprio": 0, "nr_sector": 0}
    more = read(
        trace(
            bundle(
                event(1, 1, block_io_start=start),
                event(2, 1, block_rq_issue=ISSUE),
                event(3, 1, block_rq_complete=DONE),
                event(4, 1, block_io_done=done),
            )
        )
    )
    assert more.table("block_events").select("action", "nr_sectors", "ioprio").rows() == [
        ("other", 16, 16388),
        ("issue", 16, None),
        ("complete", 16, None),
        ("other", 0, 0),
    ]


def test_commands_of_the_corpus() -> None:
    commands = Read(load(corpus.path("perfetto/difftest_ufshcd_command.pb"))).table("commands")
    assert commands.select("ts_ns", "cpu", "tid", "event", "step", "device", "tag", "opcode").rows() == [
        (10000, 0, 200, "ufshcd_command", "send", "cat", 1, 40),
        (10008, 1, 300, "ufshcd_command", "send", "cat", 2, 40),
        (10010, 2, 400, "ufshcd_command", "send", "dd", 3, 40),
        (10011, 1, 500, "ufshcd_command", "send", "dd", 4, 40),
    ]


# --- made traces -----------------------------------------------------------------------------------------------------

DEV = userland(259, 300)

ALIKE: dict[str, dict[str, int | str]] = {
    "block_rq_issue": {**ISSUE, "cmd": ""},
    "block_bio_remap": {
        "dev": DEV,
        "sector": 9,
        "nr_sector": 8,
        "old_dev": userland(253, 0),
        "old_sector": 1,
        "rwbs": "R",
    },
    "block_split": {"dev": DEV, "sector": 100, "new_sector": 164, "rwbs": "R", "comm": "a"},
    "block_unplug": {"nr_rq": 3, "comm": "b"},
    "ext4_da_write_begin": {"dev": DEV, "ino": 12, "pos": 8192, "len": 100, "flags": 0},
    "ext4_allocate_inode": {"dev": DEV, "ino": 12, "dir": 2, "mode": 0o100644},
    "ext4_es_insert_extent": {"dev": DEV, "ino": 12, "lblk": 1, "len": 2, "pblk": 77, "status": 0x25},
    "ext4_es_lookup_extent_exit": {"dev": DEV, "ino": 12, "lblk": 1, "len": 2, "pblk": 77, "status": 2, "found": 0},
    "ext4_free_blocks": {"dev": DEV, "ino": 12, "block": 5, "count": 6, "flags": 1, "mode": 0o100600},
    "ext4_evict_inode": {"dev": DEV, "ino": 12, "nlink": 0},
    "ext4_unlink_enter": {"dev": DEV, "ino": 12, "parent": 2, "size": 9},
    "mm_filemap_add_to_page_cache": {"pfn": 1, "i_ino": 12, "index": 3, "s_dev": DEV, "page": 0},
    "f2fs_iget": {"dev": DEV, "ino": 4, "pino": 3, "mode": 0o100644, "size": 1, "nlink": 1, "blocks": 1},
    "f2fs_unlink_enter": {"dev": DEV, "ino": 3, "size": 1, "blocks": 1, "name": "fil\u00e9"},
    "android_fs_datawrite_start": {
        "bytes": 4096,
        "cmdline": "c",
        "i_size": 1,
        "ino": 4,
        "offset": 4096,
        "pathbuf": "/data/x",
        "pid": 7,
    },
    "ufshcd_command": {
        "dev_name": "1d84000.ufshc",
        "lba": 99,
        "opcode": 42,
        "str": "complete_rsp",
        "tag": 5,
        "transfer_len": 4096,
    },
}
"""Events with a message in Perfetto, with all fields of their tracepoints."""


def _rows(events: list[dict[str, Any]], **more: Any) -> dict[str, list[Any]]:
    found = read(trace(bundle(*events, **more)))
    assert not found.staging.losses
    return {name: table.rows() for name, table in found.tables.items()}


def test_an_event_says_the_same_as_a_message_by_name_and_by_description() -> None:
    known = [event(n + 1, 7, **{name: fields}) for n, (name, fields) in enumerate(ALIKE.items())]
    named = [event(n + 1, 7, **generic(name, **fields)) for n, (name, fields) in enumerate(ALIKE.items())]
    rows = _rows(known)
    assert sum(map(len, rows.values())) == len(ALIKE)
    assert _rows(named) == rows
    for n, (name, fields) in enumerate(ALIKE.items()):
        descriptor, body = messages.described(name, 65536, **fields)
        one = read(trace(bundle(event(n + 1, 7, described_a=body), generic_event_descriptors=[descriptor])))
        assert one.staging.events == {name: 1}
        assert [row for table in one.tables.values() for row in table.rows()] == [
            row for table in rows.values() for row in table if row[0] == n + 1
        ]


def test_columns_of_filesystem_events() -> None:
    fs = read(
        trace(bundle(*(event(n + 1, 7, **{name: fields}) for n, (name, fields) in enumerate(ALIKE.items()))))
    ).table("fs_events")
    told = {row["event"]: {k: v for k, v in row.items() if v is not None} for row in fs.iter_rows(named=True)}
    of = {name: {k: v for k, v in row.items() if k not in ("ts_ns", "tid", "event")} for name, row in told.items()}
    dev = 259 << 20 | 300
    inode = {"dev": dev, "ino": 12}
    assert of["ext4_da_write_begin"] == {**inode, "offset_bytes": 8192, "nr_bytes": 100}
    assert of["ext4_allocate_inode"] == {**inode, "parent": 2, "mode": 0o100644}
    assert of["ext4_es_insert_extent"] == {**inode, "file_block": 1, "nr_blocks": 2, "block": 77, "status": "WD0x20"}
    assert of["ext4_es_lookup_extent_exit"] == {**inode, "file_block": 1, "nr_blocks": 2, "block": 0, "status": ""}
    assert of["ext4_free_blocks"] == {**inode, "block": 5, "nr_blocks": 6, "mode": 0o100600}
    assert of["ext4_evict_inode"] == {**inode, "nlink": 0}
    assert of["ext4_unlink_enter"] == {**inode, "parent": 2}
    assert of["mm_filemap_add_to_page_cache"] == {**inode, "page": 3}
    assert of["f2fs_iget"] == {"dev": dev, "ino": 4, "parent": 3, "mode": 0o100644, "nlink": 1}
    assert of["f2fs_unlink_enter"] == {"dev": dev, "parent": 3, "name": "filé"}
    assert of["android_fs_datawrite_start"] == {"ino": 4, "offset_bytes": 4096, "nr_bytes": 4096, "name": "/data/x"}


def test_of_every_filesystem_event_that_perfetto_has_the_fields_are_known() -> None:
    """Fields of one event have other names in other kernels.

    `order` is missing in Perfetto's messages. They have `mflags` as a number without the letters of its bits.
    """
    lacking = {
        (event, names)
        for event, fields in fs_events.FIELDS.items()
        if event in perfetto_fields.EVENTS.values()
        for names in fields.values()
        if not {*names.split()} & {*perfetto_fields.event_fields(event).split()}
    }
    assert {names for _, names in lacking} == {"order", "mflags"}


def test_events_that_only_come_by_name() -> None:
    """jbd2, writeback, iomap, newer F2FS, mmc and dynamic probes have no message of their own."""
    probe = {
        "dev": 8 << 20 | 3,
        "ino": 5,
        "parent": 4,
        "d0": "f",
        "d1": "dir",
        "d2": "/",
        **{f"d{n}": "" for n in range(3, 8)},
    }
    made = [
        generic("jbd2_start_commit", dev=DEV, sync_commit=0, transaction=44, head=45),
        generic("writeback_dirty_folio", name="8:3", ino=12, index=9),
        generic("writeback_dirty_folio", name="fuse", ino=12, index=9),
        generic("f2fs_submit_folio_write", dev=DEV, ino=4, index=2, old_blkaddr=10, new_blkaddr=11, type=1),
        generic("f2fs_lookup_end", dev=DEV, ino=3, name="x", cino=8, err=0),
        generic("f2fs_lookup_end", dev=DEV, ino=3, name="x", cino=0xFFFFFFFF, err=-2),
        generic("name_found", **probe),
        generic("name_open", name=""),
    ]
    columns = (
        "event",
        "dev",
        "ino",
        "parent",
        "page",
        "block",
        "old_block",
        "nr_blocks",
        "status",
        "transaction",
        "error",
        "name",
    )
    fs = read(trace(bundle(*(event(n, 7, **body) for n, body in enumerate(made))))).table("fs_events").select(columns)
    dev = 259 << 20 | 300
    assert fs.rows() == [
        ("jbd2_start_commit", dev, None, None, None, None, None, None, None, 44, None, None),
        ("writeback_dirty_folio", DISK, 12, None, 9, None, None, None, None, None, None, None),
        ("writeback_dirty_folio", None, 12, None, 9, None, None, None, None, None, None, None),
        ("f2fs_submit_folio_write", dev, 4, None, None, 11, 10, 1, "NODE", None, None, None),
        ("f2fs_lookup_end", dev, 8, 3, None, None, None, None, None, None, 0, "x"),
        ("f2fs_lookup_end", dev, None, 3, None, None, None, None, None, None, -2, "x"),
        ("name_found", DISK, 5, 4, None, None, None, None, None, None, None, "/dir/f"),
        ("name_open", None, None, None, None, None, None, None, None, None, None, None),
    ]


def test_commands() -> None:
    scsi = {"host_no": 0, "channel": 0, "id": 1, "lun": 2, "result": -5, "opcode": 0x2A, "driver_tag": 9}
    mmc = {
        "cmd_opcode": 25,
        "cmd_err": 0,
        "data_err": -84,
        "stop_err": 0,
        "bytes_xfered": 512,
        "tag": 3,
        "name": "mmc0",
    }
    made = [
        {"scsi_dispatch_cmd_timeout": {**scsi, "cmnd": bytes.fromhex("2a000000001000000800")}},
        generic("mmc_request_start", cmd_opcode=25, blocks=8, blksz=512, blk_addr=4096, tag=3, name="mmc0"),
        generic("mmc_request_done", **mmc),
        {
            "ufshcd_command": {
                "dev_name": "u",
                "str_t": 1,
                "lba": (1 << 64) - 1,
                "transfer_len": -1,
                "opcode": 53,
                "tag": 1,
            }
        },
        {"ufshcd_command": {"dev_name": "u", "str": "query_send", "opcode": 53, "tag": 1}},
        {"ufshcd_command": {"dev_name": "u", "str_t": 0, "lba": 0, "transfer_len": -1, "opcode": 138, "tag": 1}},
        {"ufshcd_command": {"dev_name": "u", "str_t": 0, "lba": 0, "transfer_len": 4096, "opcode": 40, "tag": 1}},
    ]
    columns = ("event", "step", "device", "tag", "opcode", "lba", "nr_blocks", "nr_bytes", "result")
    found = read(trace(bundle(*(event(n, 7, **body) for n, body in enumerate(made))))).table("commands").select(columns)
    assert found.rows() == [
        ("scsi_dispatch_cmd_timeout", "other", "0:0:1:2", 9, 42, 16, 8, None, -5),
        ("mmc_request_start", "send", "mmc0", 3, 25, 4096, 8, 4096, None),
        ("mmc_request_done", "complete", "mmc0", 3, 25, None, None, 512, -84),
        ("ufshcd_command", "complete", "u", 1, 53, None, None, None, None),
        ("ufshcd_command", "other", "u", 1, 53, None, None, None, None),
        ("ufshcd_command", "send", "u", 1, 138, None, None, None, None),
        ("ufshcd_command", "send", "u", 1, 40, 0, None, 4096, None),
    ]


@given(st.integers(0, 4095), st.integers(0, (1 << 20) - 1))
@settings(max_examples=25)
def test_devices(major: int, minor: int) -> None:
    rows = read(trace(bundle(event(1, 1, block_rq_issue={**ISSUE, "dev": userland(major, minor)})))).table(
        "block_events"
    )
    dev = major << 20 | minor
    assert rows["dev"].to_list() == [dev if dev < (1 << 32) - 1 else None]


def test_an_empty_flush_has_no_sector_and_a_positive_error_is_none() -> None:
    flush = {"dev": userland(8, 0), "sector": (1 << 64) - 1, "nr_sector": 0, "rwbs": "FF", "comm": "j"}
    rows = read(
        trace(
            bundle(
                event(1, 1, block_rq_issue=flush),
                event(2, 1, block_rq_complete={**DONE, "error": -5}),
                event(3, 1, block_rq_complete={**DONE, "error": 7}),
                event(4, 1, block_rq_requeue={**DONE, "errors": -5}),
            )
        )
    ).table("block_events")
    assert rows.select("sector", "nr_sectors", "error").rows() == [
        (None, 0, None),
        (800, 16, -5),
        (800, 16, None),
        (800, 16, None),
    ]


# --- threads ---------------------------------------------------------------------------------------------------------


def test_names_come_from_the_scheduler_and_from_task_events() -> None:
    compact = {
        "intern_table": ["first", "swapper/0"],
        "switch_timestamp": [100, 50],
        "switch_next_pid": [70, 0],
        "switch_next_comm_index": [0, 1],
        "waking_timestamp": [90],
        "waking_pid": [80],
        "waking_comm_index": [0],
    }
    rows = [
        bundle(event(110, 70, ext4_evict_inode={"dev": DEV, "ino": 1, "nlink": 0}), compact_sched=compact),
        bundle(
            event(200, 70, task_rename={"pid": 70, "oldcomm": "first", "newcomm": "second"}),
            event(210, 70, ext4_evict_inode={"dev": DEV, "ino": 1, "nlink": 0}),
            event(220, 70, task_newtask={"pid": 71, "comm": "second", "clone_flags": 0x10000}),
            event(230, 71, ext4_evict_inode={"dev": DEV, "ino": 1, "nlink": 0}),
            event(240, 80, block_rq_complete=DONE),
            cpu=1,
        ),
        {"process_tree": {"processes": [{"pid": 70, "ppid": 1, "cmdline": ["/bin/app", "-x"], "uid": 10123}]}},
        {"packages_list": {"packages": [{"name": "com.example", "uid": 10123}]}},
    ]
    found = read(trace(*rows))
    assert found.staging.events["sched_switch"] == 2 and found.staging.events["sched_waking"] == 1
    names = found.table("fs_events").select("tid", "pid", "comm").rows()
    assert names == [(70, 70, "first"), (70, 70, "second"), (71, 70, "second")]
    assert found.table("block_events").select("comm").rows() == [("first",)]
    tasks = found.staging.tasks
    assert tasks is not None
    columns = ("tid", "pid", "comm", "cmdline", "uid", "package", "kind", "valid_from_ns", "valid_to_ns")
    assert tasks.filter(pl.col("pid") == 70).select(columns).rows() == [
        (70, 70, "first", "/bin/app -x", 10123, "com.example", "app", None, 200),
        (70, 70, "second", "/bin/app -x", 10123, "com.example", "app", 200, None),
        (71, 70, "second", "/bin/app -x", 10123, "com.example", "app", 220, None),
    ]


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_thread_has_no_name_between_sightings_of_two_names(is_renamed: bool) -> None:
    """An old name is known until it was last seen, or until an event notes the new one."""
    done = event(200, 70, task_rename={"pid": 70, "oldcomm": "first", "newcomm": "second"})
    seen = [event(at, 1, sched_waking={"pid": 70, "comm": name}) for at, name in SIGHTINGS]
    work = [event(at, 70, ext4_evict_inode=WORK) for at in (90, 105, 115, 150, 195, 250)]
    events = sorted([*seen, *work, *([done] if is_renamed else [])], key=lambda one: one["timestamp"])
    for halves in ([events], [events[::2], events[1::2]]):
        found = read(trace(*(bundle(*half, cpu=cpu) for cpu, half in enumerate(halves))))
        names = found.table("fs_events").select("ts_ns", "comm").sort("ts_ns").rows()
        between = "first" if is_renamed else None
        assert [name for _, name in names] == ["first", "first", "first", between, between, "second"]
        assert found.staging.tasks is not None
        spans = found.staging.tasks.filter(tid=70).select("comm", "valid_from_ns", "valid_to_ns").rows()
        assert spans == (
            [("first", None, 200), ("second", 200, None)]
            if is_renamed
            else [("first", None, 121), ("second", 210, None)]
        )


SIGHTINGS = ((100, "first"), (110, "first"), (120, "first"), (210, "second"))


def test_processes_of_threads() -> None:
    work = bundle(
        *(event(n, tid, ext4_evict_inode={"dev": DEV, "ino": 1, "nlink": 0}) for n, tid in enumerate((5, 6, 7, 9)))
    )
    tree = {
        "processes": [
            {"pid": 9, "ppid": 2, "cmdline": ["kworker/0:1"]},
            {"pid": 5, "cmdline": ["a"], "cmdline_is_comm": True},
        ],
        "threads": [{"tid": 6, "tgid": 5, "name": "worker"}],
    }
    statistics = {"processes": [{"pid": 5, "threads": [{"tid": 7}]}]}
    found = read(trace(work, {"process_tree": tree}, {"process_stats": statistics}))
    assert found.table("fs_events").select("tid", "pid", "comm").rows() == [
        (5, 5, "a"),
        (6, 5, "worker"),
        (7, 5, None),
        (9, 9, "kworker/0:1"),
    ]
    assert found.staging.tasks is not None
    kinds = dict(found.staging.tasks.select("tid", "kind").rows())
    assert kinds[9] == "kernel"


WORK = {"dev": DEV, "ino": 1, "nlink": 0}
REUSED = [
    event(110, 70, task_rename={"pid": 70, "oldcomm": "zygote", "newcomm": "first"}),
    event(220, 1, task_newtask={"pid": 70, "comm": "zygote", "clone_flags": 0}),
    event(230, 70, task_rename={"pid": 70, "oldcomm": "zygote", "newcomm": "second"}),
    event(240, 70, ext4_evict_inode=WORK),
]


def read_at(ts_ns: int | None, name: str, uid: int, **more: Any) -> dict[str, Any]:
    tree = {"processes": [{"pid": 70, "ppid": 1, "cmdline": [name], "uid": uid}], **more}
    return {"process_tree": tree} | ({} if ts_ns is None else {"timestamp": ts_ns})


@pytest.mark.parametrize(
    ("readings", "first", "second"),
    [
        ([(50, "a", 10123)], ("a", 10123, "com.a"), (None, None, None)),
        ([(300, "b", 10124)], (None, None, None), ("b", 10124, "com.b")),
        ([(50, "a", 10123), (300, "b", 10124)], ("a", 10123, "com.a"), ("b", 10124, "com.b")),
        ([(None, "a", 10123)], (None, None, None), (None, None, None)),
    ],
)
def test_a_process_does_not_inherit_from_the_earlier_one_with_its_id(
    readings: list[tuple[int | None, str, int]],
    first: tuple[str | None, int | None, str | None],
    second: tuple[str | None, int | None, str | None],
) -> None:
    packages = [{"name": "com.a", "uid": 10123}, {"name": "com.b", "uid": 10124}]
    trees = [read_at(*reading) for reading in readings]
    found = read(trace(*trees, bundle(*REUSED), {"packages_list": {"packages": packages}}))
    assert found.staging.tasks is not None
    rows = found.staging.tasks.filter(pl.col("tid") == 70).select("comm", "cmdline", "uid", "package").rows()
    assert [rows[0][1:], rows[-1][1:]] == [first, second]
    assert rows[-1][0] == "second"


def test_a_thread_belongs_to_the_process_that_created_it_last() -> None:
    """Thread 80 of process 70 ends, and process 90 creates another thread of this id."""
    tree = {"threads": [{"tid": 80, "tgid": 70, "name": "old"}, {"tid": 91, "tgid": 90, "name": "maker"}]}
    events = [
        event(100, 80, task_rename={"pid": 80, "oldcomm": "x", "newcomm": "old"}),
        event(110, 80, ext4_evict_inode=WORK),
        event(220, 91, task_newtask={"pid": 80, "comm": "new", "clone_flags": 0x10000}),
        event(240, 80, ext4_evict_inode=WORK),
    ]
    found = read(trace({"process_tree": tree, "timestamp": 50}, bundle(*events)))
    assert found.table("fs_events").select("tid", "pid").rows() == [(80, 70), (80, 90)]


# --- clocks, counters and losses -------------------------------------------------------------------------------------


def test_clocks() -> None:
    clocks = [
        {"clock_id": 6, "timestamp": 1_000},
        {"clock_id": 1, "timestamp": 5_000_000},
        {"clock_id": 3, "timestamp": 900},
    ]
    counters = {"meminfo": [{"key": 1, "value": 42}], "cpu_stat": [{"cpu_id": 3, "io_wait_ns": 7}]}
    packets = [
        {"clock_snapshot": {"clocks": clocks}},
        {"sys_stats": counters, "timestamp": 2_000, "trusted_packet_sequence_id": 1},
        {"sys_stats": counters, "timestamp": 2_000, "timestamp_clock_id": 3, "trusted_packet_sequence_id": 1},
        {
            "trusted_packet_sequence_id": 2,
            "sequence_flags": 1,
            "trace_packet_defaults": {"timestamp_clock_id": 3},
        },
        {"sys_stats": counters, "timestamp": 3_000, "trusted_packet_sequence_id": 2, "sequence_flags": 2},
        {"sys_stats": counters, "timestamp": 3_000, "timestamp_clock_id": 64, "trusted_packet_sequence_id": 1},
    ]
    work = [event(2_500, 1, block_plug={"comm": "x"})]
    boot = read(trace(*packets, bundle(*work)))
    assert (boot.staging.clock, boot.staging.realtime_offset_ns) == ("boot", 4_999_000)
    assert boot.table("samples").select("ts_ns", "scope", "instance", "counter", "value", "unit").rows()[:4] == [
        (2_000, "system", None, "meminfo.MemTotal", 42, "kB"),
        (2_000, "cpu", "3", "stat.iowait", 7, "ns"),
        (2_100, "system", None, "meminfo.MemTotal", 42, "kB"),
        (2_100, "cpu", "3", "stat.iowait", 7, "ns"),
    ]
    assert boot.table("samples")["ts_ns"].to_list()[4:] == [3_100, 3_100]
    assert boot.losses == {"clock": 1}
    pair = {"ftrace_clock": 4, "ftrace_timestamp": 500, "boot_timestamp": 1_500}
    raw = read(trace(*packets[:2], bundle(*work, **pair)))
    assert (raw.staging.clock, raw.staging.realtime_offset_ns) == ("mono_raw", 5_000_000)
    assert raw.table("samples")["ts_ns"].to_list() == [1_000, 1_000]
    mixed = read(trace(bundle(*work, **pair), bundle(*work)))
    assert mixed.losses == {"clocks": 1}


def test_losses_of_the_recorder() -> None:
    work = bundle(event(1, 1, block_plug={"comm": "x"}), lost_events=True)
    before = {"phase": 1, "cpu_stats": [{"cpu": 0, "overrun": 10}, {"cpu": 1, "overrun": 1}]}
    after = {
        "phase": 2,
        "cpu_stats": [{"cpu": 0, "overrun": 15, "dropped_events": 2}, {"cpu": 1, "overrun": 1, "commit_overrun": 1}],
        "failed_ftrace_events": ["f2fs/f2fs_iget"],
    }
    statistics = {"buffer_stats": [{"chunks_overwritten": 3}, {"trace_writer_packet_loss": 4, "chunks_discarded": 1}]}
    found = read(
        trace(
            {"ftrace_stats": before},
            work,
            {**work, "previous_packet_dropped": 1},
            {**work, "machine_id": 5},
            {"ftrace_stats": after},
            {"trace_stats": statistics},
        )
    )
    assert found.staging.lost_events == 8
    assert found.staging.events["block_plug"] == 2
    kinds = [(loss.kind, loss.count) for loss in found.staging.losses]
    assert kinds == [
        *(("overwritten", 5), ("dropped", 3), ("wrapped", 3), ("dropped", 5), ("missing", 1)),
        *(("overwritten", 2), ("dropped", 1), ("unread", 1)),
    ]
    assert read(trace(work)).staging.lost_events == 1


def test_packets_that_need_lost_state_are_counted() -> None:
    tree = {"process_tree": {"processes": [{"pid": 5}]}, "trusted_packet_sequence_id": 9, "sequence_flags": 2}
    cleared = {**tree, "sequence_flags": 3}
    assert read(trace(cleared, tree)).losses == {}
    assert read(trace(cleared, {**tree, "previous_packet_dropped": 1}, tree)).losses == {"dropped": 1, "missing": 2}


@pytest.mark.parametrize("method", ["compressed_packets", "zstd_compressed_packets"])
def test_compressed_packets(method: str) -> None:
    inner = trace(bundle(event(1, 1, block_plug={"comm": "x"})), bundle(event(2, 1, block_plug={"comm": "x"})))
    packed = zlib.compress(inner) if method == "compressed_packets" else pa.compress(inner, "zstd", asbytes=True)
    found = read(trace({method: packed}, bundle(event(3, 1, block_plug={"comm": "x"}))))
    assert found.staging.events == {"block_plug": 3} and not found.staging.losses
    torn = read(trace({method: packed[:-9]}, bundle(event(3, 1, block_plug={"comm": "x"}))))
    assert torn.staging.events["block_plug"] >= 1 and torn.losses


def test_damaged_events_are_counted() -> None:
    good = event(1, 1, block_plug={"comm": "x"})
    data = trace(bundle(good, {"timestamp": 2, "pid": 1, "described_b": b"\xff\xff"}, {"pid": 5, "block_plug": {}}))
    found = read(data)
    assert found.staging.events == {"block_plug": 1, "event 65537": 1}
    assert found.losses == {"unreadable": 1}


# --- recognising them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"\n\n\n\n",
        b"\n# tracer: nop\n",
        b"\x0a\x05hello",
        bytes(100),
        b"\n  8,0    1     1     0.0 Q",
        b"\x89PNG\r\n",
    ],
)
def test_other_files_are_none(head: bytes) -> None:
    assert not perfetto.sniff(head)


def test_every_head_of_a_trace_is_known() -> None:
    data = load(COMPACT).data
    assert all(perfetto.sniff(data[:size]) for size in (100, 1000, 1 << 16))
    assert perfetto.sniff(load(GENERIC).head)
    assert perfetto.sniff(trace(bundle(*(event(n, 1, block_rq_issue=ISSUE) for n in range(5000))))[: 1 << 16])
    with pytest.warns(LossWarning, match="could not be recorded: such_event"):
        assert ingest.read(GENERIC).format == "perfetto"
