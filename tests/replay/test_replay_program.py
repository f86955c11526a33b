"""Replay programs as files: what Python writes, Python reads and ioreplay takes; damage and nonsense are refused."""

from __future__ import annotations

import errno
import hashlib
import random
import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal
from support import built
from support.made import table
from support.record_writer import write as write_records
from support.replay_programs import opened, program, replay

from androstep_analysis import cli, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay.processes import descendants
from androstep_analysis.replay.program import Program, read

TABLES = ("operations", "files", "threads", "dependencies")
HEADER = struct.Struct("<8sIIqII6I64s")
NUMBERS = (
    "duration",
    "is_device",
    "is_hashed",
    "operations",
    "dependencies",
    "files",
    "threads",
    "strings",
    "descriptors",
)
"""The numbers of the header behind its checksum."""

ROWS = {"operations": 104, "dependencies": 8, "files": 32, "threads": 12}
"""The tables behind the header, and what a row of each takes (probes/FORMAT.md)."""

FILES = [
    {"path": "data", "inode_type": "directory", "mode": 0o755, "file": 7},
    {"path": "data/a.db", "inode_type": "file", "file": 0, "size_bytes": 5000, "size_from": "stat"},
    {"path": "data/c.db", "inode_type": "file", "file": 0, "size_bytes": 5000, "size_from": "stat"},
    {"path": "link", "inode_type": "symlink", "target": "/abs/../é"},
]


def operations() -> list[dict[str, Any]]:
    """Return operations with every column in use, and with extreme allowed numbers."""
    rows = [
        opened(0, "data/a.db", file=0),
        {"call": "stat", "path": "data/none", "failed": True, "result": -2, "thread": 1},
        {
            "call": "write",
            "descriptor": 0,
            "bytes": 4096,
            "offset_bytes": 0,
            "result": 4096,
            "duration_ns": 7,
            "file": 0,
        },
        {
            "call": "dup",
            "descriptor": 0,
            "descriptor2": 1,
            "inserted": True,
            "thread": 1,
            "failed": None,
            "result": None,
        },
        {"call": "lseek", "descriptor": 1, "offset_bytes": -5, "request": 1, "thread": 1},
        {"call": "mmap", "descriptor": 0, "bytes": 4096, "offset_bytes": 0, "request": 3, "flags": 1},
        {"call": "close", "descriptor": 0},
        {"call": "mapped_write", "descriptor": 0, "bytes": 1 << 30, "offset_bytes": (1 << 63) - 1 - (1 << 30)},
        {"call": "rename", "path": "data/a.db", "path2": "data/b.db", "flags": 1, "file": 0, "file2": 3, "thread": 1},
        {"call": "symlink", "path": "data/l", "path2": "../../x", "thread": 1},
        {"call": "copy_file_range", "descriptor": 1, "bytes": (1 << 63) - 1, "offset2_bytes": 0},
        {"call": "sync"},
        {"call": "close", "descriptor": 1, "thread": 1},
    ]
    return [{"ts_ns": 10 * number, **row} for number, row in enumerate(rows)]


def sample() -> Program:
    made = program(operations(), FILES, after=[(3, 0), (3, 2), (8, 6)], duration_ns=1000, source_sha256="a" * 64)
    return replace(made, threads=table("replay_threads", [{"thread": 0, "pid": 5, "comm": "main"}, {"thread": 1}]))


def large(seed: int = 1, rows: int = 5000) -> Program:
    """Return thousands of paths of all lengths, in many blocks."""
    chance = random.Random(seed)
    letters = "abcdefghijklmnop é漢"
    names = [
        "/".join("".join(chance.choices(letters, k=40)) for _ in range(chance.randint(1, 60))) for _ in range(rows)
    ]
    stats = [
        {"call": "stat", "path": name, "ts_ns": number, "thread": chance.randrange(3)}
        for number, name in enumerate(names)
    ]
    return program([*stats, {"call": "sync", "ts_ns": rows, "thread": 2}], duration_ns=rows)


def same(one: Program, other: Program) -> None:
    for name in TABLES:
        assert_frame_equal(getattr(one, name), getattr(other, name))
    assert replace(one, **dict.fromkeys(TABLES)) == replace(other, **dict.fromkeys(TABLES))


def sentences(stderr: bytes) -> list[str]:
    """Return the output of ioreplay without its progress."""
    return [line for line in stderr.decode().splitlines() if not re.match(r"ioreplay: \d+ % ", line)]


def refused(path: Path) -> str:
    """Return the message with which ioreplay refuses the file."""
    done = built.run(built.program("ioreplay"), "--dry-run", path, "/nowhere", status=1)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"ioreplay: {path}: ")
    return line.removeprefix(f"ioreplay: {path}: ")


def dry_run(path: Path) -> str:
    return built.run(built.program("ioreplay"), "--dry-run", path, "/nowhere").stdout.decode()


# -- whole ------------------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("make", [sample, large], ids=["sample", "large"])
def test_what_is_written_is_read_back_and_taken_by_ioreplay(make: Callable[[], Program], tmp_path: Path) -> None:
    made = make()
    made.write(tmp_path / "a.rec")
    same(read(tmp_path / "a.rec"), made)
    told = dry_run(tmp_path / "a.rec")
    assert hashlib.sha256((tmp_path / "a.rec").read_bytes()).hexdigest() in told
    assert f"{made.operations.height} operations, {made.operations['inserted'].sum()} of them inserted" in told
    assert f"{made.threads.height} threads" in told


def test_an_empty_program_is_one(tmp_path: Path) -> None:
    made = sample()
    made = replace(made, **{name: getattr(made, name).clear() for name in TABLES})
    made.write(tmp_path / "a.rec")
    same(read(tmp_path / "a.rec"), made)
    assert "0 operations" in dry_run(tmp_path / "a.rec")


def test_the_same_program_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        sample().write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_as_the_format_says(tmp_path: Path) -> None:
    made = sample()
    made.write(tmp_path / "a.rec")
    data = (tmp_path / "a.rec").read_bytes()
    magic, version, crc, *numbers, source = HEADER.unpack_from(data)
    assert (magic, version, crc, source) == (b"\xa7PROGRAM", 1, zlib.crc32(data[16:]), b"a" * 64)
    assert numbers == [1000, 0, 0, 13, 3, 4, 2, 10, 2]
    tables, strings = parts(data)
    assert strings.decode().split("\0")[:4] == ["data", "data/a.db", "data/c.db", "link"]
    write = tables["operations"][2 * 104 :]
    assert struct.unpack_from("<7q", write) == (20, 7, 0, -(1 << 63), 4096, 4096, -(1 << 63))
    none = -(1 << 31)
    assert struct.unpack_from("<iI8i", write, 56) == (0, 1, 0, none, 0, none, none, none, none, none)
    assert struct.unpack_from("<BBb", write, 96) == (5, 0, 0)
    assert struct.unpack("<6I", tables["dependencies"]) == (3, 0, 3, 2, 8, 6)
    assert struct.unpack_from("<q5iBB", tables["files"], 2 * 32) == (5000, 2, none, 0, 1, none, 0, 0)
    assert struct.unpack_from("<3i", tables["threads"]) == (5, none, 9)


def test_calls_have_the_numbers_of_their_schema(tmp_path: Path) -> None:
    """Every call, as far as it comes without a descriptor that is open."""
    (column,) = (column for column in schema.table("operations").columns if column.name == "call")
    usual = {"descriptor": 0, "path": "a", "path2": "b", "offset_bytes": 0, "bytes": 1, "request": 0}
    made = program([{"call": call, **usual} for call in column.values])
    assert replay(tmp_path, made, "--mode", "as-fast").operations["call"].to_list() == list(column.values)


@pytest.mark.parametrize("rest", [0, 1, 54, 55, 56, 57, 63])
def test_the_sha256_is_that_of_the_file(rest: int, tmp_path: Path) -> None:
    """Whatever is left of its last block of 64 bytes."""
    path = tmp_path / "a.rec"
    program([{"call": "stat", "path": "a"}]).write(path)
    program([{"call": "stat", "path": "a" * (1 + (rest - path.stat().st_size) % 64)}]).write(path)
    assert path.stat().st_size % 64 == rest
    assert hashlib.sha256(path.read_bytes()).hexdigest() in dry_run(path)


def test_rows_are_numbered_from_0_on(tmp_path: Path) -> None:
    made = sample()
    for name in ("operations", "threads"):
        with pytest.raises(InputError, match=f"{name} of a program are numbered from 0 on"):
            replace(made, **{name: getattr(made, name)[1:]}).write(tmp_path / "a.rec")


# -- damaged ----------------------------------------------------------------------------------------------------------


def parts(data: bytes) -> tuple[dict[str, bytes], bytes]:
    """Return the tables of a file, and its strings."""
    counts = dict(zip(NUMBERS, HEADER.unpack_from(data)[3:], strict=False))
    tables, place = {}, HEADER.size
    for name, row_bytes in ROWS.items():
        tables[name] = data[place : place + counts[name] * row_bytes]
        place += len(tables[name])
    return tables, data[place:]


def signed(data: bytes) -> bytes:
    """Return the data with a correct checksum, as an attacker would."""
    return data[:12] + struct.pack("<I", zlib.crc32(data[16:])) + data[16:]


def damages(data: bytes) -> dict[str, bytes]:
    chance = random.Random(5)
    cuts = [*range(0, HEADER.size + 8, 8), *chance.sample(range(len(data)), 30), len(data) - 1]
    made = {f"cut at {place}": data[:place] for place in cuts}
    for place in [*range(16), *chance.sample(range(16, len(data)), 40)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << chance.randrange(8)
        made[f"bit of {place}"] = bytes(flipped)
    return made | {"twice": data + data, "longer": data + b"\0", "empty": b"", "text": b"some text\n" * 9}


@pytest.mark.prove
def test_damage_is_refused_in_one_sentence(tmp_path: Path) -> None:
    sample().write(tmp_path / "whole.rec")
    path = tmp_path / "damaged.rec"
    for what, data in damages((tmp_path / "whole.rec").read_bytes()).items():
        path.write_bytes(data)
        assert re.search("was expected|not a replay program", refused(path)), what
        with pytest.raises(InputError, match=re.escape(str(path))):
            read(path)


def test_another_file_is_no_program(tmp_path: Path) -> None:
    write_records(tmp_path / "a.rec", "extmap", "1", [])
    assert "is not a replay program" in refused(tmp_path / "a.rec")
    with pytest.raises(InputError, match="not a replay program"):
        read(tmp_path / "a.rec")
    built.run(built.program("ioreplay"), "--dry-run", "/dev/null", status=1)
    built.run(built.program("ioreplay"), "--dry-run", tmp_path / "none", status=1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"is_device": 2}, "a valid kind, a valid duration"),
        ({"duration": -1}, "a valid kind, a valid duration"),
        ({"descriptors": 14}, "a valid kind, a valid duration and at most as many descriptors as operations"),
        ({"descriptors": 1}, "operation 3: the numbers of the descriptors and paths"),
        *(({name: 1 << 31}, "as many rows as in the header") for name in (*ROWS, "strings")),
        ({"operations": 12}, ""),
        ({"threads": 1}, ""),
        ({"strings": 9}, "the end of the file after the last string"),
        ({"strings": 11}, "a string that ends"),
    ],
)
def test_headers_that_cannot_be_are_refused(changes: dict[str, int], sentence: str, tmp_path: Path) -> None:
    sample().write(tmp_path / "a.rec")
    data = (tmp_path / "a.rec").read_bytes()
    magic, version, crc, *numbers, source = HEADER.unpack_from(data)
    named = dict(zip(NUMBERS, numbers, strict=True)) | changes
    (tmp_path / "a.rec").write_bytes(signed(HEADER.pack(magic, version, crc, *named.values(), source) + data[120:]))
    assert sentence in refused(tmp_path / "a.rec")


@pytest.mark.prove
def test_any_byte_is_taken_or_refused(tmp_path: Path) -> None:
    """Bytes changed by chance, under the right checksum: a program, or one sentence; from both readers."""
    sample().write(tmp_path / "whole.rec")
    data, chance = (tmp_path / "whole.rec").read_bytes(), random.Random(11)
    path, taken = tmp_path / "changed.rec", 0
    for _ in range(200):
        changed = bytearray(data)
        for place in chance.sample(range(16, len(data)), chance.randint(1, 3)):
            changed[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        path.write_bytes(signed(bytes(changed)))
        command = [built.program("ioreplay"), "--mode", "as-fast", path, tmp_path / "box"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode in (0, 1) and b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
        assert done.returncode == 0 or len(sentences(done.stderr)) == 1, done.stderr
        assert not (tmp_path / "box").exists()
        taken += done.returncode == 0
        with suppress(InputError):
            read(path)
    assert 25 < taken < 175


# -- nonsense ---------------------------------------------------------------------------------------------------------


def changed(number: int, **columns: Any) -> list[dict[str, Any]]:
    rows = operations()
    rows[number] |= columns
    return rows


def placed(**columns: Any) -> list[dict[str, Any]]:
    return [*FILES, {"path": "data/new", "inode_type": "file"} | columns]


WRONG_OPERATIONS: list[tuple[list[dict[str, Any]], str]] = [
    (changed(8, path2=None), "operation 8: the numbers of the descriptors and paths"),
    (changed(9, path2=None), "operation 9: the numbers of the descriptors and paths"),
    (changed(1, path=None), "operation 1: the numbers of the descriptors and paths"),
    (changed(11, call="fsync"), "operation 11: the numbers of the descriptors and paths"),
    (changed(10, descriptor=None), "operation 10: the numbers of the descriptors and paths"),
    (changed(2, descriptor=-7), "operation 2: the numbers of the descriptors and paths"),
    (changed(2, thread=9), "operation 2: the number of a thread"),
    (changed(2, ts_ns=1000), "operation 3: a time from"),
    (changed(0, ts_ns=-1), "operation 0: a time from"),
    (changed(12, ts_ns=1001), "operation 12: a time from"),
    (changed(2, bytes=-1), "operation 2: 0 or more bytes, at most 1 GiB"),
    (changed(2, bytes=(1 << 30) + 1), "operation 2: 0 or more bytes, at most 1 GiB"),
    (changed(2, bytes=None), "operation 2: 0 or more bytes, at most 1 GiB"),
    (changed(2, offset_bytes=-1), "operation 2: 0 or more bytes"),
    (changed(7, offset_bytes=(1 << 63) - (1 << 30)), "operation 7: 0 or more bytes"),
    (changed(10, offset2_bytes=1), "operation 10: 0 or more bytes"),
    (changed(5, offset_bytes=None), "operation 5: 0 or more bytes"),
    (changed(0, flags=1 << 40), "operation 0: the flags and request of such a call"),
    (changed(0, flags=-1), "operation 0: the flags and request of such a call"),
    (changed(4, request=5), "operation 4: the flags and request of such a call"),
    (changed(4, request=None), "operation 4: the flags and request of such a call"),
    (changed(0, mode=0o10000), "operation 0: the flags and request of such a call"),
]


@pytest.mark.prove
@pytest.mark.parametrize(("rows", "sentence"), WRONG_OPERATIONS, ids=[sentence for _, sentence in WRONG_OPERATIONS])
def test_operations_that_cannot_be_are_refused(rows: list[dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    known = {row["thread"] if row.get("thread", 0) < 2 else 1 for row in rows if "thread" in row}
    made = program(rows, FILES, duration_ns=1000)
    replace(made, threads=made.threads.head(len(known | {0}))).write(tmp_path / "a.rec")
    assert re.match(sentence, refused(tmp_path / "a.rec"))


WRONG_FILES: list[tuple[list[dict[str, Any]], str]] = [
    (placed(target="x"), "file 4: a file, a directory or a link"),
    (placed(inode_type="symlink"), "file 4: a file, a directory or a link"),
    (placed(size_bytes=-1), "file 4: a size of 0 or more"),
    (placed(inode_type="directory", size_bytes=1), "file 4: a size of 0 or more, and of files only"),
    (placed(mode=0o10000), "file 4: a size of 0 or more"),
    (placed(file=0, size_bytes=1), "file 4: an earlier row with the first name"),
]


@pytest.mark.parametrize(("rows", "sentence"), WRONG_FILES, ids=[str(number) for number in range(len(WRONG_FILES))])
def test_files_that_cannot_be_are_refused(rows: list[dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    program(operations(), rows, duration_ns=1000).write(tmp_path / "a.rec")
    assert re.match(sentence, refused(tmp_path / "a.rec"))


@pytest.mark.parametrize(
    "rows",
    [
        placed(path="data/a.db"),
        placed(path="none/new"),
        placed(path="data/a.db/new"),
        placed(path="link/new"),
        placed(path="."),
        placed(path="../new"),
        FILES[::-1],
    ],
)
def test_files_that_cannot_be_made_are_refused_before_anything_is_done(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    program(operations(), rows, duration_ns=1000).write(tmp_path / "a.rec")
    done = built.run(built.program("ioreplay"), tmp_path / "a.rec", tmp_path / "box", status=1)
    (line,) = sentences(done.stderr)
    assert line.endswith("; it cannot be made") and done.stdout == b"" and not (tmp_path / "box").exists()


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ([(3, 3)], "dependency 0: the number of an operation and that of one before it"),
        ([(0, 3)], "dependency 0: the number of an operation and that of one before it"),
        ([(99, 3)], "dependency 0: the number of an operation and that of one before it"),
    ],
)
def test_orders_that_cannot_be_are_refused(after: list[tuple[int, int]], sentence: str, tmp_path: Path) -> None:
    program(operations(), FILES, after, duration_ns=1000).write(tmp_path / "a.rec")
    assert refused(tmp_path / "a.rec").startswith(sentence)


def test_a_program_of_a_device_touches_nothing_else(tmp_path: Path) -> None:
    device = [{"path": "device", "inode_type": "file", "size_bytes": 8192}]
    rows = [opened(0, "device", 2), {"call": "pread", "descriptor": 0, "bytes": 4096, "offset_bytes": 0}]
    program([*rows, {"call": "unlink", "path": "device"}], device, is_device=True).write(tmp_path / "a.rec")
    assert refused(tmp_path / "a.rec").startswith("operation 2: an operation that a block device supports")
    program(rows, device, is_device=True).write(tmp_path / "a.rec")
    target = tmp_path / "target"
    built.run(built.program("ioreplay"), "--dry-run", "--target", target, tmp_path / "a.rec")
    assert not target.exists()


ROW_CHANGES = [
    ("operations", 0, 60, "<I", 5, "operation 0: the number of a thread and its number among"),
    ("operations", 0, 56, "<i", -1, "operation 0: the number of a thread"),
    ("operations", 0, 80, "<i", 99, "operation 0: the numbers of the descriptors and paths"),
    ("operations", 0, 96, "<B", 47, "operation 0: a known call"),
    ("operations", 0, 97, "<B", 2, "operation 0: a known call, and 0 or 1"),
    ("operations", 0, 98, "<b", 2, "operation 0: a known call, and 0 or 1"),
    ("files", 0, 8, "<i", -1, "file 0: a file, a directory or a link"),
    ("files", 3, 12, "<i", 99, "file 3: a file, a directory or a link"),
    ("files", 0, 28, "<B", 3, "file 0: a file, a directory or a link"),
    ("files", 2, 20, "<i", 2, "file 2: an earlier row with the first name"),
    ("files", 2, 20, "<i", 0, "file 2: an earlier row with the first name"),
    ("files", 2, 20, "<i", -5, "file 2: an earlier row with the first name"),
    ("dependencies", 0, 0, "<I", 13, "dependency 0: the number of an operation and that of one before it"),
    ("dependencies", 2, 4, "<I", 1, "dependency 2: the number of an operation"),
]


@pytest.mark.parametrize(("table", "row", "place", "form", "value", "sentence"), ROW_CHANGES)
def test_rows_that_cannot_be_are_refused(
    table: str, row: int, place: int, form: str, value: int, sentence: str, tmp_path: Path
) -> None:
    sample().write(tmp_path / "a.rec")
    data = bytearray((tmp_path / "a.rec").read_bytes())
    tables, _ = parts(bytes(data))
    start = HEADER.size + sum(len(tables[name]) for name in list(ROWS)[: list(ROWS).index(table)])
    struct.pack_into(form, data, start + row * ROWS[table] + place, value)
    (tmp_path / "a.rec").write_bytes(signed(bytes(data)))
    assert refused(tmp_path / "a.rec").startswith(sentence)


def test_operations_on_what_is_not_open_fail(tmp_path: Path) -> None:
    """No program from a recording has these; one that does is harmless."""
    read, mapped = {"call": "read", "bytes": 1}, {"call": "mapped_read", "offset_bytes": 0, "bytes": 1}
    rows = [
        read | {"descriptor": 0},
        mapped | {"descriptor": 0},
        opened(0, "f"),
        opened(0, "g"),
        {"call": "dup", "descriptor": 0, "descriptor2": 0},
        {"call": "dup", "descriptor": 0},
        {"call": "close", "descriptor": 0},
        read | {"descriptor": 0},
        {"call": "close", "descriptor": 0},
        {"call": "munmap", "descriptor": 0, "offset_bytes": 0, "bytes": 1},
        {"call": "open", "path": "f", "flags": 2},
    ]
    results = [-errno.EBADF, -errno.EINVAL, 0, -errno.EBUSY, -errno.EBUSY, 0, 0]
    results += [-errno.EBADF, -errno.EBADF, -errno.EINVAL, 0]
    assert replay(tmp_path, program(rows)).results == results


def test_paths_that_linux_has_not_are_not_written(tmp_path: Path) -> None:
    for path in ("a" * 4096, "a\0b"):
        with pytest.raises(InputError, match="Linux has none longer than 4095 bytes"):
            program([{"call": "stat", "path": path}]).write(tmp_path / "a.rec")


# -- names ------------------------------------------------------------------------------------------------------------

SECRET = ("com.secret.app", "Kraken", "Walrus", "Ocelot", "Lemur", "Gibbon.private")


def secret_program() -> Program:
    made = program(
        [
            opened(0, "com.secret.app/Kraken.db"),
            opened(1, "com.secret.app/Kraken.db-journal"),
            {"call": "stat", "path": "com.secret.app/Gibbon.private/.Lemur", "failed": True, "result": -2},
            {"call": "symlink", "path": "Walrus", "path2": "../com.secret.app/./Kraken.db-wal"},
            {"call": "stat", "path": "."},
        ],
        [
            {"path": "com.secret.app", "inode_type": "directory"},
            {"path": "Ocelot", "inode_type": "symlink", "target": "/com.secret.app/Kraken.DB"},
        ],
        source_sha256="b" * 64,
    )
    return replace(made, threads=table("replay_threads", [{"thread": 0, "pid": 31337, "tid": 31338, "comm": "Lemur"}]))


def test_hashed_names_tell_no_name_and_keep_what_files_are(tmp_path: Path) -> None:
    made = secret_program()
    hashed = made.hashed(b"salt")
    hashed.write(tmp_path / "a.rec")
    data = (tmp_path / "a.rec").read_bytes()
    assert [word for word in SECRET if word.encode() in data] == []
    assert struct.pack("<i", 31337) not in data and struct.pack("<i", 31338) not in data
    assert (hashed.names, hashed.source_sha256) == ("hashed", None)
    paths = hashed.operations["path"].to_list()
    one = "[0-9a-f]{16}"
    assert re.fullmatch(rf"{one}/{one}\.db", paths[0])
    assert paths[1] == f"{paths[0]}-journal"
    assert re.fullmatch(rf"{one}/{one}/{one}", paths[2])
    directory, _, base = paths[0].partition("/")
    assert hashed.operations["path2"][3] == f"../{directory}/./{base}-wal"
    assert hashed.files["target"][1] == f"/{directory}/{base.removesuffix('.db')}.DB"
    assert hashed.files["path"][0] == directory
    assert paths[4] == "."
    assert "2 inserted" not in dry_run(tmp_path / "a.rec")
    rest = [column for column in made.operations.columns if column not in ("path", "path2")]
    assert_frame_equal(hashed.operations.select(rest), made.operations.select(rest))


def test_the_salt_makes_the_names() -> None:
    made = secret_program()
    same(made.hashed(b"salt"), made.hashed(b"salt"))
    one, other = (set(made.hashed(salt).operations["path"]) - {"."} for salt in (b"salt", b"other"))
    assert not one & other
    with pytest.raises(InputError, match="salt for names is empty"):
        made.hashed(b"")


# -- command line -----------------------------------------------------------------------------------------------------

LOG = """\
100 1000.000100 openat(AT_FDCWD, "/data/Kraken.db", O_RDWR|O_CREAT, 0600) = 3</data/Kraken.db> <0.000010>
100 1000.000200 pwrite64(3</data/Kraken.db>, "x"..., 4096, 0) = 4096 <0.000020>
100 1000.000300 write(4<socket:[55]>, "x"..., 10) = 10 <0.000020>
100 1000.000400 close(3</data/Kraken.db>) = 0 <0.000010>
"""


STARTED = """\
100 999.000000 execve("/bin/app", ["app"], 0x7ffc00000000 /* 9 vars */) = 0 <0.000100>
100 999.000200 vfork() = 200 <0.000010>
"""


def command(*words: str | Path) -> int:
    return cli.main(["program", *map(str, words)])


def test_the_command_makes_a_program_and_tells_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "app.strace").write_text(LOG)
    assert command(tmp_path / "app.strace", "-o", tmp_path / "app.rec") == 0
    printed = capsys.readouterr().out
    assert re.search(r"^socket +write +1 ", printed, re.MULTILINE)
    assert re.search(r"^lines +4 +3$", printed, re.MULTILINE)
    made = read(tmp_path / "app.rec")
    assert made.operations["call"].to_list() == ["open", "pwrite", "close"]
    assert made.source_sha256 == hashlib.sha256(LOG.encode()).hexdigest()
    assert "3 operations" in dry_run(tmp_path / "app.rec")
    (tmp_path / "salt").write_bytes(b"salt")
    assert command(tmp_path / "app.strace", "-o", tmp_path / "b.rec", "--hash-names", tmp_path / "salt") == 0
    assert b"Kraken" not in (tmp_path / "b.rec").read_bytes()
    same(read(tmp_path / "b.rec"), made.hashed(b"salt"))


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.strace").write_text(LOG)
    (tmp_path / "salt").write_bytes(b"")
    out = tmp_path / "a.rec"
    for words, sentence in [
        (["--hash-names", tmp_path / "salt"], "salt for names is empty"),
        (["--device", "8:0"], "the capture has no requests of block devices"),
        (["--process", "7"], "no file operation of process 7 was recorded"),
    ]:
        assert command(tmp_path / "app.strace", "-o", out, *words) == 1
        assert sentence in capsys.readouterr().err
        assert not out.exists()
    assert command(tmp_path / "app.strace", "-o", tmp_path / "app.strace") == 1
    assert "is the input" in capsys.readouterr().err
    assert (tmp_path / "app.strace").read_text() == LOG
    with pytest.raises(SystemExit):
        command(tmp_path / "app.strace", "-o", out, "--device", "8:0", "--process", "100")


def test_nothing_done_to_files_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.strace").write_text('100 1.000000 write(3<socket:[1]>, "x", 1) = 1 <0.000010>\n')
    assert command(tmp_path / "app.strace", "-o", tmp_path / "app.rec") == 1
    told = capsys.readouterr()
    assert re.search(r"^socket +write +1 ", told.out, re.MULTILINE) and "contains no operations on files" in told.err
    assert not (tmp_path / "app.rec").exists()


def test_a_process_and_all_that_it_started() -> None:
    """A thread's child belongs to the process; a child of a stranger does not, nor one that was not made."""
    rows = [
        {"tid": 10, "call": "clone3", "result": 11},  # a thread
        {"tid": 11, "call": "vfork", "result": 20},
        {"tid": 20, "pid": 20, "call": "fork", "result": 30},
        {"tid": 20, "call": "clone", "result": -11},
        {"tid": 90, "call": "fork", "result": 91},
        {"tid": 30, "call": "openat", "result": 92},
    ]
    usual = {"state": "whole", "ts_ns": 0}
    named = [(10, "app"), (11, "old name"), (11, "new name")]
    tasks = table("tasks", [{"tid": tid, "pid": 10, "comm": comm, "kind": "other"} for tid, comm in named])
    made = table("syscalls", [usual | row for row in rows])
    assert descendants(made.lazy(), tasks.lazy(), 10) == [10, 20, 30]
    assert descendants(made.lazy(), tasks.lazy(), 91) == [91]


def test_processes_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = LOG.replace("100 1000.", "200 1001.").replace("Kraken", "Walrus")
    (tmp_path / "app.strace").write_text(STARTED + LOG + other)
    for words, paths in [
        ([], ["data/Kraken.db", "data/Walrus.db"]),
        (["--process", "200"], ["data/Walrus.db"]),
        (["--process", "200", "--process", "100"], ["data/Kraken.db", "data/Walrus.db"]),
        (["--process", "all"], ["data/Kraken.db", "data/Walrus.db"]),
    ]:
        assert command(tmp_path / "app.strace", "-o", tmp_path / "a.rec", *words) == 0
        assert read(tmp_path / "a.rec").operations["path"].drop_nulls().to_list() == paths
        assert ("Kept: process" in capsys.readouterr().out) == (len(words) > 0 and "all" not in words)
    with pytest.raises(SystemExit):
        command(tmp_path / "app.strace", "-o", tmp_path / "a.rec", "--process", "-1")
