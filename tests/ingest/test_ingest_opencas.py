"""Open-CAS traces, intact and damaged, compared with google.protobuf and the messages of trace.proto."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus

from androstep_analysis import schema
from androstep_analysis.ingest import Staging, load
from androstep_analysis.ingest.archive import Archive
from androstep_analysis.ingest.block import opencas
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool

SAMPLE = "block_csv/opencas_sample_trace.tar.xz"

U64, U32, BOOL, TEXT, MESSAGE = 4, 13, 8, 9, 11
"""google.protobuf.FieldDescriptorProto.Type"""

MESSAGES: dict[str, dict[str, tuple[int, int, str]]] = {
    "Header": {"sid": (1, U64, ""), "timestamp": (2, U64, "")},
    "Device": {"id": (1, U64, ""), "name": (2, TEXT, ""), "size": (3, U64, ""), "model": (4, TEXT, "")},
    "Time": {"seconds": (1, U64, ""), "nanos": (2, U32, "")},
    "FileId": {"partition": (1, U64, ""), "id": (2, U64, ""), "created": (3, MESSAGE, "Time")},
    "Io": {
        "lba": (1, U64, ""),
        "len": (2, U32, ""),
        "io_class": (3, U32, ""),
        "device": (4, U64, ""),
        "operation": (5, U32, ""),
        "flush": (6, BOOL, ""),
        "fua": (7, BOOL, ""),
        "hint": (8, U32, ""),
        "id": (9, U64, ""),
        "metadata": (10, BOOL, ""),
        "direct": (11, BOOL, ""),
        "readahead": (12, BOOL, ""),
    },
    "Completion": {
        "lba": (1, U64, ""),
        "len": (2, U32, ""),
        "error": (3, BOOL, ""),
        "device": (4, U64, ""),
        "ref": (5, U64, ""),
    },
    "Meta": {
        "old_ref": (1, U64, ""),
        "file": (2, MESSAGE, "FileId"),
        "offset": (3, U64, ""),
        "size": (4, U64, ""),
        "ref": (5, U64, ""),
    },
    "Name": {"file": (1, MESSAGE, "FileId"), "parent": (2, MESSAGE, "FileId"), "name": (3, TEXT, "")},
    "FileEvent": {"file": (1, MESSAGE, "FileId"), "kind": (2, U32, "")},
    "Event": {
        "header": (1, MESSAGE, "Header"),
        "io": (2, MESSAGE, "Io"),
        "device": (3, MESSAGE, "Device"),
        "meta": (4, MESSAGE, "Meta"),
        "completion": (5, MESSAGE, "Completion"),
        "name": (6, MESSAGE, "Name"),
        "file_event": (7, MESSAGE, "FileEvent"),
    },
}
"""Fields of trace.proto by number, type and message. The names are chosen here."""


def event_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="octf", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, of) in fields.items():
            added = message.field.add(name=field, number=number, label="LABEL_OPTIONAL", type=kind)
            if of:
                added.type_name = f".octf.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("octf.Event"))


EVENT = event_class()


def messages(data: bytes) -> Iterator[Any]:
    """Return the events of a queue as google.protobuf reads them."""
    place = 0
    while place < len(data):
        length, shift = 0, 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield EVENT.FromString(data[place : place + length])
        place += length


def packed(*events: Any) -> bytes:
    """Return a queue of events, none longer than 127 bytes."""
    return b"".join(bytes([len(raw)]) + raw for raw in (event.SerializeToString() for event in events))


def read(source: Source) -> tuple[Staging, pl.DataFrame]:
    spool = Spool()
    staging = opencas.read(source, spool)
    table = spool.table("block_events").collect()
    schema.conform(table, "block_events")
    return staging, table


def sample(name: str = "octf.trace.0") -> Source:
    archive = Archive(load(corpus.path(SAMPLE)))
    return archive.load(next(member for member in archive.names if member.endswith(f"/{name}")))


def trace(tmp_path: Path, queues: list[bytes], summary: dict[str, Any] | None = None) -> Source:
    """Write a trace, and return its first queue."""
    for number, queue in enumerate(queues):
        (tmp_path / f"octf.trace.{number}").write_bytes(queue)
    if summary is not None:
        (tmp_path / "octf.summary").write_text(json.dumps(summary))
    return load(tmp_path / "octf.trace.0")


def test_sample_equals_google_protobuf() -> None:
    """Every event of the corpus trace is compared: counts, rows, and the path of each file by its last name."""
    staging, table = read(sample())
    with tarfile.open(corpus.path(SAMPLE)) as archive:
        members = [member for member in archive.getmembers() if "octf.trace." in member.name]
        queues = {int(member.name.rsplit(".", 1)[1]): archive.extractfile(member) for member in members}
        events = [(cpu, event) for cpu, file in sorted(queues.items()) if file for event in messages(file.read())]
    summary = json.loads(json.loads(corpus.path(f"{SAMPLE}.expected.json").read_text())["summary"])
    assert sum(staging.events.values()) == len(events) == int(summary["tracedEvents"])
    assert staging.lost_events == int(summary["droppedEvents"]) and not staging.losses
    assert len(queues) == int(summary["queueCount"])
    assert staging.first_ns is not None and staging.last_ns is not None
    assert abs((staging.last_ns - staging.first_ns) / 1e9 - int(summary["traceDuration"])) < 1

    names = {key(event.name.file): event.name for _, event in events if event.HasField("name")}
    expected: list[list[Any]] = []
    io_of: dict[tuple[int, int], list[Any]] = {}  # the last io of a queue with that id, since ids are reused
    for cpu, event in events:
        io, done, ts_ns = event.io, event.completion, event.header.timestamp
        if event.HasField("io"):
            expected.append([ts_ns, cpu, "queue", io.device, io.lba, io.len, "?RWD"[io.operation], None, None])
            io_of[cpu, io.id] = expected[-1]
        elif event.HasField("completion"):
            error = -5 if done.error else 0
            expected.append([ts_ns, cpu, "complete", done.device, done.lba, done.len, None, error, None])
        elif event.HasField("meta"):
            io_of[cpu, event.meta.old_ref][-1] = path(names, key(event.meta.file))
    columns = ("ts_ns", "cpu", "action", "dev", "sector", "nr_sectors", "rwbs", "error", "path")
    assert table.select(columns).rows() == [tuple(row) for row in sorted(expected, key=lambda row: row[0])]
    assert table["path"].n_unique() > 50


def key(file: Any) -> tuple[int, ...]:
    return (file.partition, file.id, file.created.seconds, file.created.nanos)


def path(names: dict[tuple[int, ...], Any], file: tuple[int, ...]) -> str | None:
    parts: list[str] = []
    while file in names:
        entry = names[file]
        if key(entry.file) == key(entry.parent):
            return "/" + "/".join(reversed(parts))
        parts.append(entry.name)
        file = key(entry.parent)
    return None


@pytest.mark.parametrize("name", ["octf.trace.0", "octf.trace.71", "octf.summary"])
def test_any_file_opens_the_trace(name: str) -> None:
    source = sample(name)
    assert opencas.sniff(source.head)
    staging, _ = read(source)
    assert sum(staging.events.values()) == 193_615


def io(sid: int, ts_ns: int, **fields: Any) -> Any:
    return EVENT(header={"sid": sid, "timestamp": ts_ns}, io={"device": 8 << 20, **fields})


def test_flags_are_letters(tmp_path: Path) -> None:
    events = [
        io(1, 1, operation=2, flush=True, fua=True),
        io(2, 2, operation=1, readahead=True),
        io(3, 3, operation=2, metadata=True),
        io(4, 4, operation=3),
        io(5, 5, operation=9),
    ]
    _, table = read(trace(tmp_path, [packed(*events)]))
    assert table["rwbs"].to_list() == ["FWF", "RA", "WM", "D", "N"]
    assert table["block_type"].to_list() == [None, None, "metadata", None, None]


def test_old_operations_begin_with_read(tmp_path: Path) -> None:
    """Before March 2020 a read was 0. The summary then has no version."""
    _, table = read(trace(tmp_path, [packed(io(1, 1, lba=8), io(2, 2, operation=1))], {"tracedEvents": "2"}))
    assert table["rwbs"].to_list() == ["R", "W"]


def test_files_of_both_versions(tmp_path: Path) -> None:
    root, file = {"partition": 1, "id": 64}, {"partition": 1, "id": 65, "created": {"seconds": 5}}
    other = {"partition": 1, "id": 65, "created": {"seconds": 6}}
    names = [
        EVENT(header={"sid": 1}, name={"file": root, "parent": root, "name": "/"}),
        EVENT(header={"sid": 2}, name={"file": file, "parent": root, "name": "old"}),
        EVENT(header={"sid": 3}, name={"file": file, "parent": root, "name": "new"}),
    ]
    events = [
        io(10, 1, id=100),
        EVENT(header={"sid": 11, "timestamp": 1}, meta={"ref": 100, "file": file}),
        io(12, 2),
        EVENT(header={"sid": 13, "timestamp": 2}, meta={"old_ref": 12, "file": file}),
        io(14, 3, id=101),
        EVENT(header={"sid": 15, "timestamp": 3}, meta={"ref": 101, "file": other}),
        io(16, 4, id=102),
        EVENT(header={"sid": 17, "timestamp": 4}, meta={"ref": 999, "file": file}),
    ]
    _, table = read(trace(tmp_path, [packed(*events), packed(*names)]))
    assert table["path"].to_list() == ["/new", "/new", None, None]


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = read(sample())
    monkeypatch.setattr(opencas, "PIECE_BYTES", 3000)
    monkeypatch.setattr(opencas, "ROWS", 77)
    _, pieces = read(sample())
    assert pieces.equals(table)


def test_losses_are_counted(tmp_path: Path) -> None:
    data = packed(io(1, 1), io(2, 2)) + b"\x02\xff\xff" + packed(io(3, 3))
    summary = {"tracedEvents": "9", "droppedEvents": "4", "version": 1}
    staging, table = read(trace(tmp_path, [data + b"\x30torn"], summary))
    assert table.height == 3
    assert staging.lost_events == 4
    assert {loss.kind: loss.count for loss in staging.losses} == {
        "torn": 5,
        "unreadable": 1,
        "dropped": 4,
        "missing": 6,
    }


def test_cut_anywhere(tmp_path: Path) -> None:
    data = sample("octf.trace.1").data
    whole = read(trace(tmp_path, [data]))[1].drop("path")  # whose name may come later
    for place in range(0, 456, 7):
        cut = read(trace(tmp_path, [data[:place]]))[1].drop("path")
        assert cut.equals(whole.head(cut.height)), place


@given(st.binary(max_size=400), st.integers(0, 255))
@settings(max_examples=60)
def test_garbage(tmp_path_factory: pytest.TempPathFactory, garbage: bytes, place: int) -> None:
    good = packed(*(io(n, n, lba=n, operation=1) for n in range(1, 6)))
    data = good[: place % len(good)] + garbage
    staging, table = read(trace(tmp_path_factory.mktemp("garbage"), [data]))
    assert table.height == staging.events.get("io", 0) + staging.events.get("ioCompletion", 0)


def test_a_file_in_itself_ends(tmp_path: Path) -> None:
    """Two directories contain each other."""
    one, two = {"partition": 1, "id": 1}, {"partition": 1, "id": 2}
    names = [
        EVENT(header={"sid": 1}, name={"file": one, "parent": two, "name": "a"}),
        EVENT(header={"sid": 2}, name={"file": two, "parent": one, "name": "b"}),
    ]
    meta = EVENT(header={"sid": 4, "timestamp": 1}, meta={"ref": 7, "file": one})
    _, table = read(trace(tmp_path, [packed(*names, io(3, 1, id=7), meta)]))
    assert table["path"].to_list() == [None]
