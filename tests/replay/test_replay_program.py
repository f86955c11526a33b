"""Replay programs as files: what Python writes, Python reads and ioreplay takes; damage and nonsense are refused."""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import built
from support.made import table
from support.replay_programs import opened, program

from androstep_analysis import cli
from androstep_analysis.errors import InputError
from androstep_analysis.ingest import record
from androstep_analysis.replay import program as programs
from androstep_analysis.replay.processes import descendants
from androstep_analysis.replay.program import TYPES, Program, read
from androstep_analysis.replay.record_writer import Field
from androstep_analysis.replay.record_writer import write as write_records

TABLES = ("operations", "files", "threads", "dependencies")
HEAD = struct.Struct("<4sBBHIIII")

FILES = [
    {"path": "data", "inode_type": "directory", "mode": 0o755, "file": 7},
    {"path": "data/a.db", "inode_type": "file", "file": 0, "size_bytes": 5000, "size_from": "stat"},
    {"path": "data/c.db", "inode_type": "file", "file": 0, "size_bytes": 5000, "size_from": "stat"},
    {"path": "link", "inode_type": "symlink", "target": "/abs/../é"},
]


def operations() -> list[dict[str, Any]]:
    """Operations with every column in use, and with the numbers that are allowed just so."""
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
    """Thousands of paths of all lengths, in many blocks."""
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


def refused(path: Path) -> str:
    """The one sentence with which ioreplay refuses the file."""
    done = built.run(built.program("ioreplay"), "--dry-run", path, "/nowhere", status=1)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"ioreplay: {path}: ")
    return line.removeprefix(f"ioreplay: {path}: ")


def dry_run(path: Path) -> str:
    return built.run(built.program("ioreplay"), "--dry-run", path, "/nowhere").stdout.decode()


# -- whole ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sample, large], ids=["sample", "large"])
def test_what_is_written_is_read_back_and_taken_by_ioreplay(make: Callable[[], Program], tmp_path: Path) -> None:
    made = make()
    made.write(tmp_path / "a.rec")
    same(read(tmp_path / "a.rec"), made)
    told = dry_run(tmp_path / "a.rec")
    assert hashlib.sha256((tmp_path / "a.rec").read_bytes()).hexdigest() in told
    assert f"{made.operations.height} operations, {made.operations['inserted'].sum()} of them inserted" in told
    assert f"{made.threads.height} threads" in told
    counts = dict(re.findall(r"^  (\w+) +(\d+)$", told, re.MULTILINE))
    expected = made.operations["call"].cast(pl.String).value_counts()
    assert {call: int(count) for call, count in counts.items()} == dict(expected.iter_rows())


def test_an_empty_program_is_one(tmp_path: Path) -> None:
    made = sample()
    made = replace(made, **{name: getattr(made, name).clear() for name in TABLES})
    made.write(tmp_path / "a.rec")
    same(read(tmp_path / "a.rec"), made)
    assert "0 operations" in dry_run(tmp_path / "a.rec")


def test_the_same_program_makes_the_same_bytes_that_tell_nothing_of_the_machine(tmp_path: Path) -> None:
    for name in ("a", "b"):
        sample().write(tmp_path / name)
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    header = record.read(tmp_path / "a").header
    fixed = {"format", "version", "probe", "probe_version", "types", "seed"}
    assert {name for name, value in header.items() if value is not None} == fixed
    replace(sample(), duration_ns=1001).write(tmp_path / "c")
    assert record.read(tmp_path / "c").header["seed"] != header["seed"]


def test_blocks_are_as_the_format_says(tmp_path: Path) -> None:
    large().write(tmp_path / "a.rec")
    data, place, kinds = (tmp_path / "a.rec").read_bytes(), 0, []
    while place < len(data):
        magic, version, reserved, kind, sequence, _, length, _ = HEAD.unpack_from(data, place)
        assert (magic, version, reserved, sequence) == (b"\xa7REC", 1, 0, len(kinds))
        assert HEAD.size + length <= 1 << 16
        kinds.append(kind)
        place += HEAD.size + length
    assert (kinds[0], kinds[-2], kinds[-1]) == (0, 0, 1)
    assert kinds[1:-2] == sorted(kinds[1:-2])
    assert kinds.count(3) > 50


def test_other_fields_and_types_do_no_harm(tmp_path: Path) -> None:
    """A later version may tell more, and in another order."""
    made = sample()
    made.write(tmp_path / "a.rec")
    tables = record.read(tmp_path / "a.rec").tables
    later = []
    for name, kind in reversed(TYPES.items()):
        fields = (Field("new", "string", "Something new.", nullable=True), *reversed(kind.fields))
        later.append((replace(kind, fields=fields), tables[name].with_columns(new=pl.lit("news", pl.String))))
    new = replace(TYPES["path"], name="new", fields=(Field("new", "uint64", "New."),))
    later.append((new, pl.DataFrame({"new": [1, 2]}, schema={"new": pl.UInt64})))
    write_records(tmp_path / "b.rec", programs.PROBE, "2", later)
    same(read(tmp_path / "b.rec"), made)
    assert dry_run(tmp_path / "b.rec").splitlines()[1:] == dry_run(tmp_path / "a.rec").splitlines()[1:]


# -- damaged ----------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> list[int]:
    """Where the blocks begin, and the end."""
    places = [0]
    while places[-1] < len(data):
        places.append(places[-1] + HEAD.size + HEAD.unpack_from(data, places[-1])[6])
    return places


def damages(data: bytes) -> dict[str, bytes]:
    places = frames(data)
    chance = random.Random(5)
    found = {f"cut at {place}": data[:place] for place in [*places[:-1], *(place + 30 for place in places[:-1])]}
    found |= {
        f"without block {number}": data[:start] + data[end:] for number, (start, end) in enumerate(pairwise(places))
    }
    for place in [*range(24), *chance.sample(range(len(data)), 40)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << chance.randrange(8)
        found[f"bit of {place}"] = bytes(flipped)
    found["two blocks exchanged"] = b"".join(
        data[start:end]
        for start, end in [(0, places[1]), (places[2], places[3]), (places[1], places[2]), (places[3], places[-1])]
    )
    return found | {"twice": data + data, "empty": b"", "text": b"some text\n" * 9}


def test_damage_is_refused_in_one_sentence(tmp_path: Path) -> None:
    sample().write(tmp_path / "whole.rec")
    path = tmp_path / "damaged.rec"
    for what, data in damages((tmp_path / "whole.rec").read_bytes()).items():
        path.write_bytes(data)
        assert re.search("was expected|no record stream", refused(path)), what
        if what in ("twice", "two blocks exchanged"):  # the reader for people takes what is sound in any order
            continue
        with pytest.raises(InputError, match=re.escape(str(path))):
            read(path)


def test_another_record_stream_is_no_program(tmp_path: Path) -> None:
    write_records(tmp_path / "a.rec", "extmap", "1", [])
    assert "no replay program" in refused(tmp_path / "a.rec")
    with pytest.raises(InputError, match="a record stream of extmap"):
        read(tmp_path / "a.rec")


# -- nonsense ---------------------------------------------------------------------------------------------------------


def changed(number: int, **columns: Any) -> list[dict[str, Any]]:
    rows = operations()
    rows[number] |= columns
    return rows


def placed(**columns: Any) -> list[dict[str, Any]]:
    return [*FILES, {"path": "data/new", "inode_type": "file"} | columns]


WRONG_OPERATIONS: list[tuple[list[dict[str, Any]], str]] = [
    (changed(1, path="../etc/passwd"), "operation 1: a path from the root"),
    (changed(1, path="data/../../etc"), "operation 1: a path from the root"),
    (changed(1, path="/etc/passwd"), "operation 1: a path from the root"),
    (changed(1, path="data//x"), "operation 1: a path from the root"),
    (changed(1, path="data/./x"), "operation 1: a path from the root"),
    (changed(1, path="data/"), "operation 1: a path from the root"),
    (changed(1, path=""), r"path \d+: 1 to 4095 bytes without NUL"),
    (changed(8, path2="../b"), "operation 8: a second path from the root"),
    (changed(8, path2=None), "operation 8: a second path of rename"),
    (changed(9, path2=None), "operation 9: what the link says"),
    (changed(1, path=None), "operation 1: a path of stat"),
    (changed(0, descriptor=None), "operation 0: the descriptor it makes"),
    (changed(0, failed=True), "operation 0: no descriptor of what failed"),
    (changed(3, descriptor2=0), "operation 3: a new descriptor in place of 0"),
    (changed(2, descriptor=1), "operation 2: an open descriptor in place of 1, which is not yet made"),
    (changed(11, call="fsync", descriptor=0), "operation 11: an open descriptor in place of 0, which is closed"),
    (changed(12, descriptor=0), "operation 12: an open descriptor in place of 0, which is closed"),
    (changed(7, descriptor=1), "operation 7: mmap of descriptor 1"),
    (changed(11, call="fsync"), "operation 11: a descriptor of fsync"),
    (changed(10, descriptor=None), "operation 10: a file of copy_file_range"),
    (changed(2, descriptor=-7), "operation 2: the number of a descriptor"),
    (changed(2, thread=9), "operation 2: the number of a thread"),
    (changed(2, ts_ns=1000), "operation 3: a time from 1000 ns"),
    (changed(0, ts_ns=-1), "operation 0: a time from 0 ns"),
    (changed(12, ts_ns=1001), "operation 12: a time from 110 ns to the end at 1000 ns"),
    (changed(2, bytes=-1), "operation 2: bytes from 0 to 1073741824"),
    (changed(2, bytes=(1 << 30) + 1), "operation 2: bytes from 0 to 1073741824"),
    (changed(2, bytes=None), "operation 2: bytes of write"),
    (changed(2, offset_bytes=-1), "operation 2: an offset of 0 or more"),
    (changed(7, offset_bytes=(1 << 63) - (1 << 30)), "operation 7: an offset of 0 or more that ends before"),
    (changed(10, offset2_bytes=1), "operation 10: an offset of 0 or more that ends before"),
    (changed(5, offset_bytes=None), "operation 5: an offset of mmap"),
    (changed(0, flags=1 << 40), "operation 0: no flags of open but 0x7fffc3"),
    (changed(0, flags=-1), "operation 0: no flags of open but"),
    (changed(4, request=5), "operation 4: a request of lseek from 0 to 4"),
    (changed(4, request=None), "operation 4: a request of lseek from 0 to 4"),
    (changed(0, mode=0o10000), "operation 0: a mode from 0 to 07777"),
]


@pytest.mark.parametrize(("rows", "sentence"), WRONG_OPERATIONS, ids=[sentence for _, sentence in WRONG_OPERATIONS])
def test_operations_that_cannot_be_are_refused(rows: list[dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    known = {row["thread"] if row.get("thread", 0) < 2 else 1 for row in rows if "thread" in row}
    made = program(rows, FILES, duration_ns=1000)
    replace(made, threads=made.threads.head(len(known | {0}))).write(tmp_path / "a.rec")
    assert re.match(sentence, refused(tmp_path / "a.rec"))


WRONG_FILES: list[tuple[list[dict[str, Any]], str]] = [
    (placed(path="../new"), "file 4: a path from the root"),
    (placed(path="data/a.db"), "file 4: a path that no other has|file 1: a path that no other has"),
    (placed(path="none/new"), "file 4: its directory before it"),
    (placed(path="data/a.db/new"), "file 4: its directory before it"),
    (placed(path="link/new"), "file 4: its directory before it"),
    (FILES[::-1], "file [12]: its directory before it"),
    (placed(target="x"), "file 4: a target of each link"),
    (placed(inode_type="symlink"), "file 4: a target of each link"),
    (placed(size_bytes=-1), "file 4: a size of 0 or more"),
    (placed(inode_type="directory", size_bytes=1), "file 4: a size of 0 or more, and of files only"),
    (placed(mode=0o10000), "file 4: a mode from 0 to 07777"),
    (placed(file=0, size_bytes=1), r"file \d: the size that it has under other names"),
    (placed(path=".", inode_type="file"), "file 4: a directory as the root"),
]


@pytest.mark.parametrize(("rows", "sentence"), WRONG_FILES, ids=[str(number) for number in range(len(WRONG_FILES))])
def test_files_that_cannot_be_are_refused(rows: list[dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    program(operations(), rows, duration_ns=1000).write(tmp_path / "a.rec")
    assert re.match(sentence, refused(tmp_path / "a.rec"))


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ([(2, 0)], "dependency 0: operations of two threads"),
        ([(3, 3)], "dependency 0: the number of an operation and that of one before it"),
        ([(0, 3)], "dependency 0: the number of an operation and that of one before it"),
        ([(99, 3)], "dependency 0: the number of an operation and that of one before it"),
        ([(3, 0), (3, 0)], "dependency 1: a place behind the dependency before it"),
    ],
)
def test_orders_that_cannot_be_are_refused(after: list[tuple[int, int]], sentence: str, tmp_path: Path) -> None:
    program(operations(), FILES, after, duration_ns=1000).write(tmp_path / "a.rec")
    assert refused(tmp_path / "a.rec").startswith(sentence)


def test_a_program_of_a_device_touches_nothing_else(tmp_path: Path) -> None:
    device = [{"path": "device", "inode_type": "file", "size_bytes": 8192}]
    rows = [opened(0, "device", 2), {"call": "pread", "descriptor": 0, "bytes": 4096, "offset_bytes": 0}]
    for changed_rows, files, sentence in [
        ([*rows, {"call": "unlink", "path": "device"}], device, "operation 2: what a block device can do in place of"),
        ([opened(0, "other", 2), rows[1]], device, "operation 0: no file but “device”"),
        (rows, FILES, "the one file “device” was expected"),
    ]:
        program(changed_rows, files, is_device=True).write(tmp_path / "a.rec")
        assert refused(tmp_path / "a.rec").startswith(sentence)
    program(rows, device, is_device=True).write(tmp_path / "a.rec")
    target = tmp_path / "target"
    built.run(built.program("ioreplay"), "--dry-run", "--target", target, tmp_path / "a.rec")
    assert not target.exists()


def told(path: Path, name: str, columns: dict[str, Any]) -> None:
    """Writes the sample with other values in the first record of one type."""
    sample().write(path)
    tables = record.read(path).tables
    first = [
        pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit(value))
        .otherwise(pl.col(column))
        .cast(tables[name].schema[column])
        .alias(column)
        for column, value in columns.items()
    ]
    tables[name] = tables[name].with_columns(first)
    write_records(path, programs.PROBE, "1", [(kind, tables[kind.name]) for kind in TYPES.values()])


@pytest.mark.parametrize(
    ("name", "columns", "sentence"),
    [
        ("program", {"operations": 5}, "13 records of type operation, where the program tells of 5"),
        ("program", {"inserted": 5}, "program 0: the number of inserted operations was expected"),
        ("program", {"descriptors": 1 << 40}, "program 0: no more descriptors than operations"),
        ("program", {"descriptors": 1}, "operation 3: the number of a descriptor"),
        ("program", {"kind": "magic"}, "program 0: kind files or device"),
        ("path", {"path": 5}, "path 0: its number"),
        ("thread", {"thread": 5}, "thread 0: its number"),
        ("operation", {"operation": 5}, "operation 0: its number"),
        ("operation", {"call": "magic"}, "operation 0: a known call"),
        ("operation", {"path_number": 99}, "operation 0: the number of a path"),
        ("operation", {"inserted": 2}, "operation 0: 0 or 1 for inserted and failed"),
        ("file", {"path_number": -1}, "file 0: the number of a path"),
        ("file", {"inode_type": "magic"}, "file 0: inode_type file, directory or symlink"),
    ],
)
def test_records_that_cannot_be_are_refused(name: str, columns: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    told(tmp_path / "a.rec", name, columns)
    assert refused(tmp_path / "a.rec").startswith(sentence)


@pytest.mark.parametrize("name", list(TYPES))
def test_a_missing_type_is_refused(name: str, tmp_path: Path) -> None:
    sample().write(tmp_path / "a.rec")
    tables = record.read(tmp_path / "a.rec").tables
    write_records(
        tmp_path / "a.rec",
        programs.PROBE,
        "1",
        [(kind, tables[kind.name]) for kind in TYPES.values() if kind.name != name],
    )
    assert "was expected" in refused(tmp_path / "a.rec") or "where the program tells of" in refused(tmp_path / "a.rec")
    with pytest.raises(InputError, match=f"records of type {name} with"):
        read(tmp_path / "a.rec")


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
        (["--process", "7"], "no file operation of process 7 is recorded"),
    ]:
        assert command(tmp_path / "app.strace", "-o", out, *words) == 1
        assert sentence in capsys.readouterr().err
        assert not out.exists()
    assert command(tmp_path / "app.strace", "-o", tmp_path / "app.strace") == 1
    assert "is the recording itself" in capsys.readouterr().err
    assert (tmp_path / "app.strace").read_text() == LOG
    with pytest.raises(SystemExit):
        command(tmp_path / "app.strace", "-o", out, "--device", "8:0", "--process", "100")


def test_nothing_done_to_files_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.strace").write_text('100 1.000000 write(3<socket:[1]>, "x", 1) = 1 <0.000010>\n')
    assert command(tmp_path / "app.strace", "-o", tmp_path / "app.rec") == 1
    told = capsys.readouterr()
    assert re.search(r"^socket +write +1 ", told.out, re.MULTILINE) and "nothing that was done to files" in told.err
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
    tasks = table("tasks", [{"tid": tid, "pid": 10, "kind": "other"} for tid in (10, 11)])
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


# -- JSON and SHA-256 in C --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["test_jsonread", "test_recordread", "test_sha256"])
def test_the_readers_in_c(name: str) -> None:
    lines = built.run(built.program(name)).stdout.decode(errors="replace").splitlines()
    assert lines[-1] == f"1..{len(lines) - 1}" and all(line.startswith("ok ") for line in lines[:-1])


def value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON that the reader in C takes."""
    kind = chance.randrange(8 if depth < 5 else 6)
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(5))]
    if kind == 7:
        return {text(chance): value(chance, depth + 1) for _ in range(chance.randrange(5))}
    return [None, True, False, chance.randint(-(1 << 63), (1 << 63) - 1), text(chance), text(chance)][kind]


def text(chance: random.Random) -> str:
    return "".join(chance.choice('aé漢💾"\\/\n\t\x01\x7f\udc80\udcff') for _ in range(chance.randrange(8)))


def test_json_is_read_as_python_reads_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "a.json"
    for _ in range(60):
        given = value(chance)
        path.write_bytes(json.dumps(given, indent=chance.choice([None, 1])).encode())
        printed = built.run(built.program("test_jsonread"), path).stdout
        assert json.loads(printed) == given
