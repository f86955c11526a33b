"""ioshark workloads: the corpus, compared with a decoder based on struct, and all three layouts."""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus

from androstep_analysis import ingest, schema
from androstep_analysis.ingest import Staging, load
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.syscalls import ioshark

CALLS = ["lseek", "_llseek", "pread64", "pwrite64", "read", "write", "mmap", "mmap2", "open", "fsync", "fdatasync"]
CALLS += ["close", "mapped_pread", "mapped_pwrite"]

OPERATIONS: list[tuple[int, int, int, tuple[int, ...]]] = [
    (1_000, 8, 1, (0o2 | 0o100 | 0o1000, 0o640)),
    (2_000, 5, 1, (4096,)),
    (2_500, 0, 1, (100, 2)),
    (3_000, 1, 2, (1 << 33, 0)),
    (4_000, 2, 2, (8192, 512)),
    (5_000, 3, 1, (1 << 32, 1)),
    (6_000, 7, 2, (4096, 8192, 3)),
    (6_500, 12, 2, (4096, 4096)),
    (7_000, 9, 1, ()),
    (8_000, 11, 1, ()),
]
"""Time in us, operation, file, arguments."""


def read(source: Source) -> tuple[Staging, pl.DataFrame]:
    spool = Spool()
    staging = ioshark.read(source, spool)
    table = spool.table("syscalls").collect()
    schema.conform(table, "syscalls")
    assert sum(staging.events.values()) == table.height
    return staging, table


def host(operations: list[tuple[int, int, int, tuple[int, ...]]], with_names: bool) -> bytes:
    """Return operations in the layout of an x86-64 compiler."""
    file = struct.Struct("<i4xQi4x" if with_names else "<i4xQ")
    data = struct.pack("<ii", 2, len(operations))
    for number, size in ((2, 70_000), (1, 0)):
        data += file.pack(number, size, number - 1) if with_names else file.pack(number, size)
    shapes = {0: "<qi", 1: "<qi", 2: "<qQ", 3: "<qQ", 4: "<Q", 5: "<Q", 6: "<qQi", 7: "<qQi", 8: "<iI", 12: "<qQ"}
    for us, call, number, arguments in operations:
        union = struct.pack(shapes[call], *arguments) if call in shapes else b""
        data += struct.pack("<Qii", us, call, number) + union.ljust(24, b"\0")
    return data


def portable(operations: list[tuple[int, int, int, tuple[int, ...]]]) -> bytes:
    """Return operations in version 2: packed, in network byte order."""
    data = struct.pack(">QQQ", 2, 2, len(operations))
    for number, size in ((2, 70_000), (1, 0)):
        data += struct.pack(">QQQ", number, size, number - 1)
    shapes = {0: ">qI", 1: ">qI", 2: ">qQ", 3: ">qQ", 4: ">Q", 5: ">Q", 6: ">qQI", 7: ">qQI", 8: ">II", 12: ">qQ"}
    for us, call, number, arguments in operations:
        union = struct.pack(shapes[call], *arguments) if call in shapes else b""
        data += struct.pack(">QIQ", us, call, number) + union.ljust(20, b"\0")
    return data


LAYOUTS = {
    "host": host(OPERATIONS, False),
    "host with names": host(OPERATIONS, True),
    "portable": portable(OPERATIONS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.77.wl"
    path.write_bytes(LAYOUTS[layout])
    staging, table = read(load(path))
    assert ioshark.sniff(LAYOUTS[layout])
    assert (staging.first_ns, staging.last_ns) == (1_000_000, 8_000_000)
    columns = ("line", "tid", "ts_ns", "call", "path", "size", "offset_bytes", "bytes", "request", "flags", "mode")
    one, two = ("trace.77/ioshark.1", 0), ("trace.77/ioshark.2", 70_000)
    assert table.select(columns).rows() == [
        (1, 77, 1_000_000, "open", *one, None, None, None, "O_RDWR|O_CREAT|O_TRUNC", 0o640),
        (2, 77, 2_000_000, "write", *one, None, 4096, None, None, None),
        (3, 77, 2_500_000, "lseek", *one, 100, None, "SEEK_END", None, None),
        (4, 77, 3_000_000, "_llseek", *two, 1 << 33, None, "SEEK_SET", None, None),
        (5, 77, 4_000_000, "pread64", *two, 8192, 512, None, None, None),
        (6, 77, 5_000_000, "pwrite64", *one, 1 << 32, 1, None, None, None),
        (7, 77, 6_000_000, "mmap2", *two, 4096, 8192, "PROT_READ|PROT_WRITE", None, None),
        (8, 77, 6_500_000, "mapped_pread", *two, 4096, 4096, None, None, None),
        (9, 77, 7_000_000, "fsync", *one, None, None, None, None, None),
        (10, 77, 8_000_000, "close", *one, None, None, None, None, None),
    ]


def test_names_beside(tmp_path: Path) -> None:
    path = tmp_path / "trace.5.wl"
    path.write_bytes(LAYOUTS["portable"])
    (tmp_path / "ioshark_filenames").write_bytes(b"/data/a b".ljust(512, b"\0") + b"/data/\xff".ljust(512, b"\0"))
    _, table = read(load(path))
    assert set(table["path"]) == {"/data/a b", "/data/\\xff"}


def decoded(data: bytes, thread: int) -> list[tuple[Any, ...]]:
    """Return the operations of a workload of the corpus, decoded one by one."""
    files, operations = struct.unpack_from("<ii", data)
    sizes = dict(struct.iter_unpack("<i4xQ", data[8 : 8 + 16 * files]))
    rows = []
    for at in range(operations):
        us, call, file, first, second = struct.unpack_from("<QiiqQ", data, 8 + 16 * files + 40 * at)
        offset = first if call in (0, 1, 2, 3, 6, 7) else None
        size = second if call in (2, 3, 6, 7) else first if call in (4, 5) else None
        rows.append((us * 1000, thread, CALLS[call], f"trace.{thread}/ioshark.{file}", sizes[file], offset, size))
    return rows


def test_corpus() -> None:
    """All workloads of the archive are read.

    They are 100 of the 203 that expected.json counted in the original archive.
    """
    expected = json.loads(corpus.path("ioshark/wl.tar.expected.json").read_text())
    staging = ingest.read(corpus.path("ioshark/wl.tar"))
    table = staging.syscalls.collect()
    assert not staging.losses
    rows: list[tuple[Any, ...]] = []
    with tarfile.open(corpus.path("ioshark/wl.tar")) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            rows += decoded(file.read(), int(member.name.split(".")[1]))
    columns = ("ts_ns", "tid", "call", "path", "size", "offset_bytes", "bytes")
    assert sorted(table.select(columns).rows(), key=str) == sorted(rows, key=str)
    assert table["ts_ns"].is_sorted()
    counts = dict(table.group_by("tid").len().rows())
    assert {f"trace.{tid}.wl": count for tid, count in counts.items()} == {
        name: numbers[1] for name, numbers in expected["per_file"].items()
    }


@pytest.mark.prove
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut_anywhere(layout: str, tmp_path: Path) -> None:
    data = LAYOUTS[layout]
    path = tmp_path / "trace.77.wl"
    path.write_bytes(data)
    whole = read(load(path))[1]
    for place in range(len(data) - 400, len(data), 13):
        path.write_bytes(data[:place])
        staging, table = read(load(path))
        assert table.equals(whole.head(table.height))
        missing = sum(loss.count for loss in staging.losses if loss.kind == "torn")
        assert table.height + missing == len(OPERATIONS)


@pytest.mark.prove
@given(st.binary(max_size=200), st.integers(0, 600), st.sampled_from(sorted(LAYOUTS)))
@settings(max_examples=60)
def test_garbage(tmp_path_factory: pytest.TempPathFactory, garbage: bytes, place: int, layout: str) -> None:
    data = bytearray(LAYOUTS[layout])
    data[place : place + len(garbage)] = garbage
    if not ioshark.sniff(bytes(data)):
        return
    path = tmp_path_factory.mktemp("garbage") / "trace.1.wl"
    path.write_bytes(data)
    _, table = read(load(path))
    assert set(table["call"]) <= set(CALLS)


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\1\0\0\0\0\0\0\0" * 20, b"#!/bin/sh\n" * 20])
def test_other_data_is_no_workload(data: bytes) -> None:
    assert not ioshark.sniff(data)
