"""blktrace's binary traces, compared with blkparse, with the text reader, and with handwritten records."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import blktrace_files as records
from support import corpus, readers
from support.blktrace_files import Record, action, note

from androstep_analysis import ingest, units
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.ingest.block import blktrace

CORPUS = {
    "centos7/sda.blktrace.0": "centos7",
    "romeus_trace_x_0_y_0.bin": "romeus_trace_x_0_y_0",
    "takeoverjp_sample.blktrace.0": "takeoverjp_sample",
}
GUESTS = ("ext4_guest_6.1", "f2fs_guest_6.1", "vfat_guest_6.1")
ORDERS = ("<", ">")
SEQUENCED = ["ts_ns", "cpu", "event", "sector", "tid", "dev", "nr_sectors"]


def blkparse(directory: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Return the output of blkparse. Skip the test if blkparse is not installed."""
    if shutil.which("blkparse") is None:
        pytest.skip("blkparse is not installed")
    command = ["blkparse", *arguments]
    return subprocess.run(command, cwd=directory, input=stdin, capture_output=True, check=True).stdout


def parsed(directory: Path, *arguments: str, stdin: bytes | None = None) -> readers.Read:
    """Return blkparse's text as the text reader reads it."""
    text = directory / "blkparse.txt"
    text.write_bytes(blkparse(directory, *arguments, stdin=stdin))
    return readers.read(text)


def events(read: readers.Read, since: int) -> pl.DataFrame:
    """Return the block events that blkparse prints, too, sorted so that ties do not matter. Times count from
    `since`.
    """
    block = read.block.filter(pl.col("action") != "other").with_columns(pl.col("ts_ns") - since)
    return block.sort(SEQUENCED)


def assert_as_blkparse(read: readers.Read, text: readers.Read) -> None:
    """Assert that the block events are equal, except for the origin of times and unprinted values.

    blkparse does not print the sector of events without a length, nor the length of a passthrough request's completion.
    """
    assert read.first_ns is not None and text.first_ns is not None
    is_passthrough = pl.col("sector").is_null() & (pl.col("rwbs") == "R")
    is_done = pl.col("action").is_in(["complete", "requeue", "remap"])
    ours = read.block.with_columns(
        sector=pl.when((pl.col("nr_sectors") != 0) | is_done).then("sector"),
        nr_sectors=pl.when(~((pl.col("action") == "complete") & is_passthrough)).then("nr_sectors"),
    )
    ours = events(dataclasses.replace(read, block=ours), read.first_ns)
    assert ours.rows() == events(text, text.first_ns).rows()


def written(directory: Path, name: str, some: Iterable[Record], order: str = "<", version: int = 7) -> Path:
    """Write these records to a file."""
    path = directory / name
    path.write_bytes(b"".join(record.packed(order, version) for record in some))
    return path


def guest(directory: Path, name: str) -> Path:
    """Unpack a set of files from the corpus, and return its first file."""
    unpack(corpus.path(f"kernel/{name}/blktrace.tgz"), directory, 1 << 30)
    return directory / "bt" / "vda.blktrace.0"


# --- recordings of others, and of real kernels ---------------------------------------------------------------------


@pytest.mark.parametrize("name", CORPUS)
def test_clocks_of_the_corpus(name: str) -> None:
    read = readers.read(corpus.path(f"blktrace_bin/{name}"))
    expected: dict[str, Any] = json.loads(corpus.path(f"blktrace_bin/{CORPUS[name]}.expected.json").read_text())[
        "summary"
    ]
    assert read.losses == ()
    span = read.last_ns - read.first_ns
    if CORPUS[name].startswith("romeus"):
        # blkparse -d wrote this file with times from 0. blkparse treats that as a start it does not know yet, and
        # counts from another one after 512 events: it prints 0.013571983 for the last.
        assert (read.clock, span) == ("unknown", 19_182_850)
    else:
        assert (read.clock, span) == ("mono", readers.ns(expected["max_time"]))


def test_corpus_is_as_blkparse_prints_it(tmp_path: Path) -> None:
    for member in ("sda.blktrace.0", "sda.blktrace.1"):
        shutil.copy(corpus.path(f"blktrace_bin/centos7/{member}"), tmp_path)
    assert_as_blkparse(readers.read(tmp_path / "sda.blktrace.1"), parsed(tmp_path, "-i", "sda"))
    # The name of the file has CPU 0, its events have CPU 1. blkparse accepts that only from its standard input.
    sample = corpus.path("blktrace_bin/takeoverjp_sample.blktrace.0")
    assert_as_blkparse(readers.read(sample), parsed(tmp_path, "-i", "-", stdin=sample.read_bytes()))


def test_merged_file_whose_times_blkparse_takes_wrong(tmp_path: Path) -> None:
    merged = corpus.path("blktrace_bin/romeus_trace_x_0_y_0.bin")
    data, place, cpus = merged.read_bytes(), 0, {}
    while place < len(data):
        cpu, length = struct.unpack_from("<I2xH", data, place + 40)
        cpus[cpu] = cpus.get(cpu, b"") + data[place : place + 48 + length]
        place += 48 + length
    for cpu, part in cpus.items():
        (tmp_path / f"x.blktrace.{cpu}").write_bytes(part)
    assert_as_blkparse(readers.read(merged), parsed(tmp_path, "-i", "x"))


@pytest.mark.parametrize("name", GUESTS)
def test_every_form_of_a_recording(tmp_path: Path, name: str) -> None:
    first = guest(tmp_path, name)
    folder = first.parent
    read = readers.read(first)
    assert read.losses == () and read.clock == "mono"
    text = parsed(folder, "-i", "vda")
    assert_as_blkparse(read, text)
    assert read.events == text.events
    # Any file of the set selects the whole set; so do the archive and the common name that blktrace and blkparse use.
    for other in (folder / "vda.blktrace.1", folder / "vda", folder, corpus.path(f"kernel/{name}/blktrace.tgz")):
        assert readers.read(other).block.equals(read.block)
    # blktrace -o - writes the CPUs' buffers as they come.
    dump = tmp_path / "dump"
    dump.write_bytes((folder / "vda.blktrace.1").read_bytes() + first.read_bytes())
    unsorted = readers.read(dump)
    assert unsorted.losses == ()
    assert events(unsorted, 0).rows() == events(read, 0).rows()
    assert unsorted.tasks.equals(read.tasks)
    # blkparse -d merges them, with times relative to the first event.
    blkparse(folder, "-q", "-O", "-i", "vda", "-d", "merged")
    merged = readers.read(folder / "merged")
    assert events(merged, 0).rows() == events(read, read.first_ns).rows()
    assert (merged.first_ns, merged.clock, merged.realtime_offset_ns) == (0, "unknown", None)


@pytest.mark.parametrize("name", GUESTS)
def test_clock_and_names_of_a_recording(tmp_path: Path, name: str) -> None:
    first = guest(tmp_path, name)
    read = readers.read(first)
    trace = readers.read(corpus.path(f"kernel/{name}/trace.dat.zst"))
    named = {tid: comm for tid, comm in read.tasks.select("tid", "comm").rows() if comm is not None}
    known = {tid for tid, comm in trace.tasks.select("tid", "comm").rows() if comm is not None}
    assert len(named) >= 19
    assert set(read.block.filter(pl.col("comm").is_not_null())["tid"]) <= named.keys()
    assert len(known & named.keys()) >= 0.9 * len(named)
    # The guest ran in November 2026.
    assert 1_793_000_000 < (read.realtime_offset_ns + read.first_ns) / 1e9 < 1_797_000_000


# --- sets ----------------------------------------------------------------------------------------------------------


def test_sets_of_several_devices(tmp_path: Path) -> None:
    parts = {
        ("sda", 0): [Record(action(records.Q), 10), Record(action(records.D), 30)],
        ("sda", 1): [Record(action(records.C), 20, cpu=1)],
        ("sdb", 0): [Record(action(records.Q), 15, device=8 << 20 | 16)],
    }
    for (base, cpu), some in parts.items():
        written(tmp_path, f"{base}.blktrace.{cpu}", some)
    (tmp_path / "notes.txt").write_text("of that day")
    assert readers.read(tmp_path / "sda.blktrace.1").block["ts_ns"].to_list() == [10, 20, 30]
    assert readers.read(tmp_path / "sdb").block["ts_ns"].to_list() == [15]
    assert readers.read(tmp_path).block["ts_ns"].to_list() == [10, 15, 20, 30]


def test_missing_and_empty_files(tmp_path: Path) -> None:
    written(tmp_path, "sda.blktrace.0", [])
    written(tmp_path, "sda.blktrace.1", [Record(action(records.Q), 10, cpu=1)])
    written(tmp_path, "sda.blktrace.4", [Record(action(records.Q), 5, cpu=4)])
    for path in ("sda", "sda.blktrace.0", "sda.blktrace.4"):
        read = readers.read(tmp_path / path)
        assert read.block["cpu"].to_list() == [4, 1]
        assert readers.losses(read) == {"missing": 2}
        assert "CPU 2, 3" in read.losses[0].message


def test_equal_times_keep_the_order_of_cpus(tmp_path: Path) -> None:
    for cpu in (2, 0, 10, 1):
        some = [Record(action(records.Q), 7, n, sector=n, cpu=cpu) for n in range(3)]
        written(tmp_path, f"sda.blktrace.{cpu}", some)
    with pytest.warns(LossWarning):  # CPUs 3 to 9
        block = ingest.read(tmp_path / "sda").block.collect()
    assert block["cpu"].to_list() == [cpu for cpu in (0, 1, 2, 10) for _ in range(3)]
    assert block["sector"].to_list() == [0, 1, 2] * 4


@pytest.mark.parametrize("name", ["nothing", "sda.blktrace.0"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        ingest.read(tmp_path / name)
    written(tmp_path, name, [records.name(1, b"x")])
    with pytest.raises(InputError):
        ingest.read(tmp_path / name)


# --- records -------------------------------------------------------------------------------------------------------

PLACE = (800, 8)
FORMS: list[tuple[Record, tuple[object, ...]]] = [
    (Record(action(records.Q, records.WRITE)), ("Q", "queue", *PLACE, "W")),
    (Record(action(records.Q)), ("Q", "queue", *PLACE, "R")),
    (Record(action(records.Q, records.WRITE, records.SYNC, records.META)), ("Q", "queue", *PLACE, "WSM")),
    (Record(action(records.Q, records.AHEAD)), ("Q", "queue", *PLACE, "RA")),
    (Record(action(records.Q, records.DISCARD, records.WRITE)), ("Q", "queue", *PLACE, "D")),
    (Record(action(records.Q, records.WRITE, records.FUA, records.SYNC)), ("Q", "queue", *PLACE, "WFS")),
    (
        Record(action(records.Q, records.WRITE, records.FLUSH, records.SYNC), bytes=0),
        ("Q", "queue", 800, 0, "FWS"),
    ),
    (Record(action(records.D, records.FLUSH), bytes=0, sector=0), ("D", "issue", 0, 0, "FN")),
    (Record(action(records.C, records.FLUSH), bytes=0, sector=2**64 - 1), ("C", "complete", None, 0, "FN")),
    (Record(action(records.C, records.WRITE), bytes=0), ("C", "complete", 800, 0, "W")),
    (Record(action(records.C, records.WRITE), error=-5), ("C", "complete", *PLACE, "W")),
    (Record(action(records.R, records.WRITE)), ("R", "requeue", *PLACE, "W")),
    (Record(action(records.M, records.WRITE)), ("M", "backmerge", *PLACE, "W")),
    (Record(action(records.F, records.WRITE)), ("F", "frontmerge", *PLACE, "W")),
    (Record(action(records.G)), ("G", "getrq", *PLACE, "R")),
    (Record(action(records.S)), ("S", "sleep", *PLACE, "R")),
    (Record(action(records.INSERT)), ("I", "insert", *PLACE, "R")),
    (Record(action(records.B, records.READ)), ("B", "bounce", *PLACE, "R")),
    (Record(action(records.P), bytes=0), ("P", "plug", None, None, "N")),
    (Record(action(records.U), bytes=0, pdu=records.number(3)), ("U", "unplug", None, None, "N")),
    (Record(action(records.UT), bytes=0, pdu=records.number(3)), ("UT", "unplug", None, None, "N")),
    (Record(action(records.X, records.WRITE), pdu=records.number(804)), ("X", "split", 800, 4, "W")),
    (
        Record(action(records.A, records.WRITE), pdu=records.remap(8 << 20 | 1, 8 << 20, 500)),
        ("A", "remap", *PLACE, "W"),
    ),
    (
        Record(action(records.D, records.PC), sector=0, bytes=36, pdu=bytes.fromhex("12 00 00 00 24 00")),
        ("D", "issue", None, 0, "R"),
    ),
    (
        Record(action(records.D, records.PC), sector=0, pdu=bytes.fromhex("28 00 00 00 24 00")),
        ("D", "issue", None, 8, "R"),
    ),
    (
        Record(action(records.C, records.PC), sector=0, bytes=36, pdu=bytes.fromhex("12 00 00 00 24 00")),
        ("C", "complete", None, 0, "R"),
    ),
]
UNPRINTED: list[tuple[Record, tuple[object, ...]]] = [
    (Record(action(records.ABORT)), ("abort", "other", *PLACE, "R")),
    (Record(action(records.DRIVER), pdu=b"scsi"), ("driver data", "other", *PLACE, "R")),
    (Record(action(records.Q | records.CGROUP), pdu=bytes(8)), ("Q", "queue", *PLACE, "R")),
    (
        Record(
            action(records.A | records.CGROUP, records.WRITE),
            pdu=bytes(8) + records.remap(8 << 20 | 1, 8 << 20, 500),
        ),
        ("A", "remap", *PLACE, "W"),
    ),
    (Record(action(records.X), pdu=b""), ("X", "split", 800, None, "R")),
    (Record(action(records.X), pdu=records.number(2)), ("X", "split", 800, None, "R")),
]
WIDE = [
    (Record(action(records.D, records.WRITE, bit)), ("D", "issue", *PLACE, letters))
    for bit, letters in (
        (records.ZONE_APPEND, "ZA"),
        (records.ZONE_RESET, "ZR"),
        (records.ZONE_RESET_ALL, "ZRA"),
        (records.ZONE_FINISH, "ZF"),
        (records.ZONE_OPEN, "ZO"),
        (records.ZONE_CLOSE, "ZC"),
        (records.WRITE_ZEROES, "WZ"),
    )
] + [
    (Record(action(records.ZP)), ("ZP", "other", *PLACE, "R")),
    (Record(action(records.ZU), pdu=records.number(1)), ("ZU", "other", *PLACE, "R")),
    # The location of a zone append, which is not a second completion.
    (Record(records.C | 1 << 16 + records.ZONE_APPEND | 1 << 17), ("ZA", "other", *PLACE, "ZA")),
]


@pytest.mark.sanitized
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("version", [7, 8])
def test_every_action(tmp_path: Path, order: str, version: int) -> None:
    forms = FORMS + UNPRINTED + (WIDE if version == 8 else [])
    some = [record.later(n) for n, (record, _) in enumerate(forms, 1)]
    path = written(tmp_path, "sda.blktrace.0", [records.name(77, b"proc"), *some], order, version)
    read = readers.read(path)
    assert read.losses == ()
    rows = read.block.select("event", "action", "sector", "nr_sectors", "rwbs").rows()
    assert rows == [expected for _, expected in forms]
    for row in read.block.iter_rows(named=True):
        assert (row["dev"], row["cpu"], row["tid"], row["pid"]) == (units.dev(8, 0), 0, 77, None)
        remapped = (units.dev(8, 1), 500) if row["event"] == "A" else (None, None)
        assert (row["old_dev"], row["old_sector"]) == remapped
        assert row["comm"] == (None if row["event"] in ("A", "C", "R") else "proc")
        assert (row["error"] is None) == (row["event"] != "C")
    assert sorted(read.block["error"].drop_nulls()) == [-5, 0, 0, 0]
    assert read.block["ts_ns"].to_list() == list(range(1, len(forms) + 1))


@pytest.mark.sanitized
@pytest.mark.parametrize("order", ORDERS)
def test_every_action_is_as_blkparse_prints_it(tmp_path: Path, order: str) -> None:
    some = [record.later(1000 + n) for n, (record, _) in enumerate(FORMS)]
    path = written(tmp_path, "sda.blktrace.0", [records.name(77, b"proc"), *some], order)
    assert_as_blkparse(readers.read(path), parsed(tmp_path, "-i", "sda"))


@pytest.mark.parametrize("order", ORDERS)
def test_notes(tmp_path: Path, order: str) -> None:
    some = [
        records.clock(1_700_000_000, 5, 1_000, order),
        records.name(77, b"first", 1_100),
        Record(action(records.Q), 1_200),
        Record(note(records.MESSAGE), 1_250, pdu=b"hello", bytes=0, sector=0),
        records.name(77, b"second", 1_300),
        Record(action(records.Q), 1_400, pid=77),
        Record(action(records.Q), 1_500, pid=78),
        Record(note(records.PROCESS | records.CGROUP), 1_600, pid=79, pdu=bytes(8) + b"grouped".ljust(16, b"\0")),
        Record(action(records.Q), 1_700, pid=79),
    ]
    read = readers.read(written(tmp_path, "x", some, order))
    assert read.block["comm"].to_list() == ["first", "second", None, "grouped"]
    assert read.events == {"Q": 4, "m": 1}
    assert read.realtime_offset_ns == 1_700_000_000 * 10**9 + 5 - 1_000
    assert (read.first_ns, read.last_ns) == (1_200, 1_700)
    assert read.tasks.select("tid", "comm", "valid_from_ns", "valid_to_ns").rows() == [
        (77, "first", None, 1_300),
        (77, "second", 1_300, None),
        (78, None, None, None),
        (79, "grouped", None, None),
    ]


@pytest.mark.sanitized
def test_cut_names_and_strange_bytes(tmp_path: Path) -> None:
    some = [
        records.name(1, b"0123456789abcdef"),
        records.name(2, b"\xff\n"),
        *(Record(action(records.Q), 5, pid=n) for n in (1, 2)),
    ]
    assert readers.read(written(tmp_path, "x", some)).block["comm"].to_list() == ["0123456789abcdef", "\\xff\n"]


@pytest.mark.sanitized
def test_numbers_that_are_too_large(tmp_path: Path) -> None:
    huge = Record(action(records.A), 2**63, sector=2**63, bytes=2**32 - 1, pid=2**32 - 1, cpu=2**31, device=2**32 - 1)
    (row,) = readers.read(written(tmp_path, "x", [huge])).block.iter_rows(named=True)
    nothing = ("sector", "tid", "cpu", "dev", "comm", "old_dev", "old_sector")
    assert [row[column] for column in nothing] == [None] * len(nothing)
    assert (row["ts_ns"], row["nr_sectors"]) == (1 - 2**63, 2**23 - 1)


SOME = st.builds(
    lambda record, categories, changes: Record(
        record.action | sum(1 << 16 + bit for bit in categories),
        bytes=0 if record.bytes == 0 else changes["bytes"],
        sector=changes["sector"],
        pid=changes["pid"],
        error=changes["error"],
        pdu=record.pdu,
    ),
    st.sampled_from([record for record, _ in FORMS if record.pdu == b"" or len(record.pdu) in (8, 16)]),
    st.sets(
        st.sampled_from(
            [records.WRITE, records.FLUSH, records.SYNC, records.AHEAD, records.META, records.DISCARD, records.FUA]
        )
    ),
    st.fixed_dictionaries(
        {
            "bytes": st.integers(0, 2**24),
            "sector": st.integers(0, 800),
            "pid": st.sampled_from([1, 2, 3]),
            "error": st.sampled_from([0, -5, -121]),
        }
    ),
)


@pytest.mark.prove
@given(
    st.lists(st.tuples(SOME, st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=30), st.sampled_from(ORDERS)
)
@settings(max_examples=30)
def test_whatever_blkparse_reads(tmp_path: Path, some: Sequence[tuple[Record, int, int]], order: str) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    time, numbers = 10**9, [0, 0, 0, 0]
    cpus: list[list[Record]] = [[records.name(1, b"one"), records.name(2, b"two [x]")], [], [], []]
    for record, cpu, step in some:
        time += step
        numbers[cpu] += 1
        values = {**vars(record), "cpu": cpu, "time": time, "sequence": numbers[cpu]}
        cpus[cpu].append(Record(**values))
    for cpu, part in enumerate(cpus):
        written(tmp_path, f"sda.blktrace.{cpu}", part, order)
    read = readers.read(tmp_path / "sda")
    assert read.losses == ()
    assert_as_blkparse(read, parsed(tmp_path, "-i", "sda"))


# --- losses and damage ---------------------------------------------------------------------------------------------


def numbered(count: int, *, cpu: int = 0) -> list[Record]:
    """Return events that all differ."""
    return [Record(action(records.Q), 10**9 + 1000 * n, n + 1, sector=8 * n, cpu=cpu) for n in range(count)]


def test_lost_events_are_gaps_in_the_numbers(tmp_path: Path) -> None:
    pick = random.Random(1)
    some = [record for record in numbered(400) if pick.random() < 0.9]
    path = written(tmp_path, "x", some)
    read = readers.read(path)
    assert read.lost_events == readers.losses(read)["dropped"] > 0
    assert read.lost_events == parsed(tmp_path, "-i", "-", stdin=path.read_bytes()).lost_events


def test_each_device_and_cpu_numbers_for_itself(tmp_path: Path) -> None:
    some = [
        Record(action(records.Q), 100 * n + cpu, n + 1, cpu=cpu, device=dev)
        for n in range(20)
        for cpu in range(3)
        for dev in (8 << 20, 9 << 20)
    ]
    assert readers.read(written(tmp_path, "x", some)).losses == ()
    # Sequence numbers restart in a second recording.
    again = [Record(**{**vars(record), "time": record.time + 10**6}) for record in some]
    assert readers.read(written(tmp_path, "x", some + again)).losses == ()


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(4))
def test_garbage_between_records(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    data, gaps, bytes_lost = b"", 0, 0
    some = numbered(300)
    for record in some:
        if pick.random() < 0.1:
            garbage = pick.choice([bytes(pick.randrange(1, 5000)), pick.randbytes(pick.randrange(1, 400)), b"tae" * 5])
            gaps, bytes_lost = gaps + 1, bytes_lost + len(garbage)
            data += garbage
        data += record.packed(pick.choice(ORDERS), pick.choice([7, 8]))
    path = tmp_path / "x"
    path.write_bytes(data)
    read = readers.read(path)
    assert read.block["sector"].to_list() == [record.sector for record in some]
    assert readers.losses(read) == {"unreadable": gaps}
    assert f"({bytes_lost} bytes" in read.losses[0].message


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(4))
def test_torn_records(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    some = numbered(300)
    torn = sorted(pick.sample(range(1, 299), 20))
    data = b""
    for number, record in enumerate(some):
        whole = record.packed()
        data += whole[: pick.randrange(4, 48)] if number in torn else whole
    path = tmp_path / "x"
    path.write_bytes(data)
    read = readers.read(path)
    kept = [record.sector for number, record in enumerate(some) if number not in torn]
    assert read.block["sector"].to_list() == kept
    assert readers.losses(read) == {"torn": 20, "dropped": 20}


@pytest.mark.sanitized
def test_cut_anywhere(tmp_path: Path) -> None:
    data = guest(tmp_path, "ext4_guest_6.1").read_bytes()
    ends, place = [0], 0
    while place < len(data):
        place += 48 + int.from_bytes(data[place + 46 : place + 48], "little")
        ends.append(place)
    whole = readers.read_bytes(tmp_path, data).block
    pick = random.Random(7)
    for cut in [pick.randrange(48 * 20, len(data)) for _ in range(40)]:
        read = readers.read_bytes(tmp_path, data[:cut])
        assert read.block.equals(whole.head(read.block.height))
        assert readers.losses(read) == ({} if cut in ends else {"torn": 1})


@pytest.mark.sanitized
def test_beginning_lost(tmp_path: Path) -> None:
    data = b"".join(record.packed() for record in numbered(100))
    for start in (1, 17, 47, 49, 100):
        read = readers.read_bytes(tmp_path, data[start:])
        assert read.block.height == 100 - -(-start // 48)
        assert readers.losses(read) == {"unreadable": 1}


def test_zeros_that_a_killed_blktrace_leaves(tmp_path: Path) -> None:
    data = b"".join(record.packed() for record in numbered(100))
    read = readers.read_bytes(tmp_path, data + bytes(1 << 20))
    assert read.block.height == 100
    assert readers.losses(read) == {"unreadable": 1}


@pytest.mark.sanitized
@pytest.mark.parametrize("seed", range(3))
def test_damaged_bytes(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    data = bytearray(guest(tmp_path, "f2fs_guest_6.1").read_bytes())
    for _ in range(300):
        data[pick.randrange(len(data))] = pick.randrange(256)
    read = readers.read_bytes(tmp_path, bytes(data))
    assert read.block.height > 2200


def test_members_of_two_machines(tmp_path: Path) -> None:
    written(tmp_path, "x.blktrace.0", numbered(50), "<")
    written(tmp_path, "x.blktrace.1", numbered(50, cpu=1), ">", 8)
    read = readers.read(tmp_path / "x.blktrace.0")
    assert read.losses == ()
    assert read.block["sector"].to_list() == [8 * n for n in range(50) for _ in range(2)]


@pytest.mark.sanitized
def test_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = guest(tmp_path, "vfat_guest_6.1")
    read = readers.read(first)
    monkeypatch.setattr(blktrace, "_TABLE_ROWS", 100)
    monkeypatch.setattr(blktrace, "_LEAST_PIECE_BYTES", 1 << 17)
    monkeypatch.setattr(blktrace, "_PIECE_BYTES", 1 << 17)
    pieces = readers.read(first)
    assert pieces.block.equals(read.block) and pieces.tasks.equals(read.tasks)


# --- recognising ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("version", [7, 8])
def test_sniff(order: str, version: int) -> None:
    one = Record(action(records.Q), pdu=b"12345678").packed(order, version)
    assert blktrace.sniff(one)
    assert blktrace.sniff(b"?" + one + one)
    assert not blktrace.sniff(b"?" + one)
    assert not blktrace.sniff(b"\x07tae"[1:] + one[:20])
    assert not blktrace.sniff(Record(action(records.Q)).packed("<", 6))
    assert not blktrace.sniff(b"")
