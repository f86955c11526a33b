"""Record streams: Python reads what the C writer wrote, intact or damaged (format: probes/FORMAT.md)."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from support import built

from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import record
from androstep_analysis.ingest.source import Source

ROWS = 20_000
TEXT_BYTES = 16_384
HEAD = struct.Struct("<4sBBHIIII")


@dataclass(frozen=True)
class Frame:
    """A frame of an undamaged file, found by reading the file from its start."""

    start: int
    end: int
    type: int
    count: int


def frames_of(data: bytes) -> list[Frame]:
    found, place = [], 0
    while place < len(data):
        magic, version, reserved, kind, sequence, count, length, crc = HEAD.unpack_from(data, place)
        assert (magic, version, reserved, sequence) == (b"\xa7REC", 1, 0, len(found))
        end = place + HEAD.size + length
        assert end - place <= 65536 and end <= len(data)
        seed = 0 if kind == 0 else header_of(data)["seed"]
        assert zlib.crc32(data[place + 24 : end], zlib.crc32(data[place : place + 20], seed)) == crc
        found.append(Frame(place, end, kind, count))
        place = end
    return found


def header_of(data: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(data[HEAD.size : HEAD.size + HEAD.unpack_from(data)[6]])
    return header


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the output of probes/common/tests/test_record.c."""
    path = tmp_path_factory.mktemp("sample") / "sample.rec"
    built.run(built.program("test_record"), path)
    return path.read_bytes()


def expected_rows() -> list[dict[str, Any]]:
    """Return the rows of add_row in probes/common/tests/test_record.c."""
    rows: list[dict[str, Any]] = []
    for number in range(ROWS):
        note = "\\xff\n" + chr(number % 128)
        rows.append(
            {
                "wide": number * 1_000_003 - 5_000_000_000 if number % 7 else None,
                "large": (1 << 64) - 1 - number,
                "narrow": -number if number % 5 else None,
                "plain": number,
                "name": f"n{number}" if number % 3 else None,
                "note": note if number % 4 else "",
            }
        )
    last = {"wide": 0, "large": 0, "narrow": 0, "plain": 0, "name": "x" * TEXT_BYTES, "note": "x" * TEXT_BYTES}
    return [*rows, *([last] * 9), last | {"name": None}]


def expected() -> dict[str, pl.DataFrame]:
    """Return the tables of the undamaged sample."""
    schema = {"wide": pl.Int64, "large": pl.UInt64, "narrow": pl.Int32, "plain": pl.UInt32}
    mixed = pl.DataFrame(expected_rows(), schema=schema | {"name": pl.String, "note": pl.String})
    numbers = mixed.filter(pl.int_range(pl.len()) < ROWS, pl.int_range(pl.len()) % 2 == 1).select("wide", "large")
    return {"mixed": mixed, "numbers": numbers}


def kept(frames: list[Frame], sound: list[bool]) -> dict[str, pl.DataFrame]:
    """Return the rows of the intact frames."""
    tables = expected()
    answer = {}
    for kind, name in ((2, "mixed"), (3, "numbers")):
        place, parts = 0, [tables[name].clear()]
        for frame, good in zip(frames, sound, strict=True):
            if frame.type == kind:
                if good:
                    parts.append(tables[name].slice(place, frame.count))
                place += frame.count
        assert place == tables[name].height
        answer[name] = pl.concat(parts)
    return answer


def read(directory: Path, data: bytes) -> record.Records:
    path = directory / "damaged.rec"
    path.write_bytes(data)
    return record.read(path)


def assert_tables(found: record.Records, wanted: dict[str, pl.DataFrame]) -> None:
    assert found.tables.keys() == wanted.keys()
    for name, table in wanted.items():
        assert_frame_equal(found.tables[name], table)


def losses(records: record.Records) -> dict[str, int]:
    return {loss.kind: loss.count for loss in records.losses}


OF_THE_PROBE = {"long_text": 1, "seen": 5}
"""The losses that test_record.c reports."""


def test_what_was_written_is_read(sample: bytes, tmp_path: Path) -> None:
    frames = frames_of(sample)
    assert [frame.type for frame in frames[:1] + frames[-2:]] == [0, 0, 1]
    assert sample[frames[0].start + 24 : frames[0].end] == sample[frames[-2].start + 24 : frames[-2].end]
    records = read(tmp_path, sample)
    assert_tables(records, expected())
    assert losses(records) == OF_THE_PROBE and records.complete
    assert records.header["probe"] == "test" and records.header["clock"] == "boottime"
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f-]{27}", records.header["boot_id"])
    note = records.header["types"][0]["fields"][5]
    assert note["meaning"] == 'A "note" with \\ and \x01.'
    assert repr(records) == "<Records of test: 20010 mixed, 10000 numbers, 6 lost>"


def test_one_table_is_read_alone(sample: bytes, tmp_path: Path) -> None:
    source = Source.of(tmp_path / "sample.rec", sample)
    for name, table in expected().items():
        found = record.table(source, name)
        assert found is not None
        assert_frame_equal(found, table)
    assert record.table(source, "other") is None


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_strings_are_read_from_wherever_they_lie(seed: int) -> None:
    pick = random.Random(seed)
    data = pick.randbytes(1 << 15)
    jumps = pick.choice((0.05, 0.9))  # long runs, and hardly any
    places, at = [], 0
    for _ in range(pick.randrange(60)):
        length = pick.choice((0, 1, 7, 700, 1500))
        if at + length > len(data) or pick.random() < jumps:
            at = pick.randrange(len(data) - length)
        places.append((at, at + length))
        at += length
    start, stop = np.array(places, dtype=np.int64).reshape(-1, 2).T
    null = np.array([pick.random() < 0.2 for _ in places], np.bool_)
    texts = [data[begin:end].decode(errors="backslashreplace") for begin, end in places]
    found = record._strings("text", data, start, stop, null)
    assert found.to_list() == [None if is_null else text for text, is_null in zip(texts, null, strict=True)]


def test_a_compressed_file_is_read_alike(sample: bytes, tmp_path: Path) -> None:
    assert_tables(read(tmp_path, gzip.compress(sample, 1)), expected())


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_loses_what_is_not_complete(sample: bytes, tmp_path: Path, seed: int) -> None:
    frames = frames_of(sample)
    chosen = random.Random(seed)
    at = chosen.choice([chosen.randrange(frames[0].end, len(sample)), chosen.choice(frames[:-1]).end])
    records = read(tmp_path, sample[:at])
    assert_tables(records, kept(frames, [frame.end <= at for frame in frames]))
    told = losses(records)
    rest = at - max(frame.end for frame in frames if frame.end <= at)
    assert told == {"torn": 1} | ({"unreadable": rest} if rest else {}) and not records.complete


@pytest.mark.parametrize("seed", range(25))
def test_a_flipped_bit_loses_one_block(sample: bytes, tmp_path: Path, seed: int) -> None:
    frames = frames_of(sample)
    chosen = random.Random(seed)
    frame = frames[seed] if seed < 3 else chosen.choice(frames)
    # Damage the head as often as the payload, since a wrong length must not confuse the reader.
    place = chosen.randrange(frame.start, frame.start + HEAD.size if seed % 2 else frame.end)
    data = bytearray(sample)
    data[place] ^= 1 << chosen.randrange(8)
    records = read(tmp_path, bytes(data))
    assert_tables(records, kept(frames, [other != frame for other in frames]))
    told = losses(records)
    assert told.pop("unreadable") == frame.end - frame.start and not records.complete
    if frame.type == 1:
        assert told == {"torn": 1}
    else:
        assert told == OF_THE_PROBE | {"damaged": 1}
        (message,) = [loss.message for loss in records.losses if loss.kind == "damaged"]
        name = {0: "no records", 2: f"{frame.count} mixed", 3: f"{frame.count} numbers"}[frame.type]
        assert message.endswith(f"with {name}")


@pytest.mark.parametrize("seed", range(12))
def test_missing_and_extra_bytes_are_passed_over(sample: bytes, tmp_path: Path, seed: int) -> None:
    frames = frames_of(sample)
    chosen = random.Random(seed)
    first = chosen.randrange(frames[0].end, frames[-2].start - 70_000)
    last = first + chosen.randrange(1, 70_000)
    extra = chosen.randbytes(chosen.randrange(3000)) + record.MAGIC if seed % 2 else b""
    records = read(tmp_path, sample[:first] + extra + sample[last:])
    sound = [frame.end <= first or frame.start >= last for frame in frames]
    assert_tables(records, kept(frames, sound))
    assert losses(records)["damaged"] == sound.count(False)


def test_a_forged_block_inside_a_damaged_one_is_not_read(tmp_path: Path, sample: bytes) -> None:
    frames = frames_of(sample)
    forged = next(frame for frame in frames if frame.type == 3)
    payload = bytes(16)
    head = HEAD.pack(record.MAGIC, 1, 0, 3, 5, 1, len(payload), 0)[:20]
    crc = zlib.crc32(payload, zlib.crc32(head))
    data = bytearray(sample)
    data[forged.start + 100 : forged.start + 140] = head + struct.pack("<I", crc) + payload
    records = read(tmp_path, bytes(data))
    assert_tables(records, kept(frames, [frame != forged for frame in frames]))


def rewritten(sample: bytes, change: dict[str, Any]) -> bytes:
    """Return a file with only a changed header and a correct checksum."""
    payload = json.dumps(header_of(sample) | change).encode()
    head = HEAD.pack(record.MAGIC, 1, 0, 0, 0, 0, len(payload), 0)[:20]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


FIELD = {"name": "a", "dtype": "int64", "null": None, "unit": None, "meaning": "A."}
TYPE = {"id": 2, "name": "t", "table": None, "meaning": "T.", "record_bytes": 8, "fields": [FIELD]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "of version 1"),
        ({"format": "other"}, "format “androstep record”"),
        ({"seed": -1}, "a seed of 32 bits"),
        ({"probe_version": []}, "a text for probe_version"),
        ({"opened_ns": True}, "a number of 64 bits for opened_ns"),
        ({"monotonic_offset_ns": 1 << 63}, "a number of 64 bits for monotonic_offset_ns"),
        ({"types": None}, "a list of record types"),
        ({"types": [TYPE | {"record_bytes": 9}]}, "the fields do not make 9 bytes"),
        ({"types": [TYPE | {"fields": [FIELD | {"dtype": "float"}]}]}, "a list of record types"),
        ({"types": [TYPE, TYPE]}, "with unique names and numbers"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    sample: bytes, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        read(tmp_path, rewritten(sample, change))
    assert str(caught.value).startswith(str(tmp_path / "damaged.rec"))


def test_a_header_alone_has_empty_tables(sample: bytes, tmp_path: Path) -> None:
    records = read(tmp_path, rewritten(sample, {"types": [TYPE]}))
    assert records.tables["t"].schema == {"a": pl.Int64} and records.tables["t"].is_empty()
    assert losses(records) == {"torn": 1}


@pytest.mark.parametrize(
    "trailer",
    [b"", b"[]", b"{}", b"[" * 60_000, b'{"records": [], "losses": []}', b'{"records": {}, "losses": [{"kind": "x"}]}'],
)
def test_a_trailer_that_makes_no_sense_is_none(sample: bytes, tmp_path: Path, trailer: bytes) -> None:
    header = rewritten(sample, {"types": [TYPE], "seed": 7})
    head = HEAD.pack(record.MAGIC, 1, 0, record.TRAILER, 1, 0, len(trailer), 0)[:20]
    crc = zlib.crc32(trailer, zlib.crc32(head, 7))
    records = read(tmp_path, header + head + struct.pack("<I", crc) + trailer)
    assert losses(records) == {"torn": 1} and not records.complete


@pytest.mark.parametrize("data", [b"", b"\xa7REC", b"\x7fELF" + bytes(100), record.MAGIC * 1000])
def test_what_is_no_record_stream_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="no header of a record stream"):
        read(tmp_path, data)


def test_sniff() -> None:
    assert record.sniff(b"\xa7REC\x01")
    assert not record.sniff(b"\xa7RE") and not record.sniff(b"")


# -- several runs of a probe ------------------------------------------------------------------------------------------


def test_streams_are_joined(sample: bytes, tmp_path: Path) -> None:
    """The joined file has all frames in order with the seed of the first file, and all rows, totals and losses."""
    parts = [tmp_path / "first.rec", tmp_path / "second.rec"]
    for part in parts:
        built.run(built.program("test_record"), part)
    record.join(parts, tmp_path / "both.rec")
    data = (tmp_path / "both.rec").read_bytes()
    kinds = [frame.type for frame in frames_of(data)]
    assert (kinds[0], kinds[-2:], kinds.count(0), kinds.count(1)) == (0, [0, 1], 2, 1)
    assert len(kinds) == 2 * len(frames_of(sample)) - 3
    found = record.read(tmp_path / "both.rec")
    assert found.complete
    assert_tables(found, {name: pl.concat([table, table]) for name, table in expected().items()})
    assert losses(found) == {kind: 2 * count for kind, count in OF_THE_PROBE.items()}


def test_a_stream_without_an_end_makes_none(sample: bytes, tmp_path: Path) -> None:
    parts = [tmp_path / "first.rec", tmp_path / "second.rec"]
    parts[0].write_bytes(sample)
    parts[1].write_bytes(sample[: frames_of(sample)[-3].end])
    record.join(parts, tmp_path / "both.rec")
    assert not record.read(tmp_path / "both.rec").complete


def test_damaged_streams_are_not_joined(sample: bytes, tmp_path: Path) -> None:
    parts = [tmp_path / "first.rec", tmp_path / "second.rec"]
    parts[0].write_bytes(sample)
    damaged = bytearray(sample)
    damaged[frames_of(sample)[3].start + 100] ^= 1
    parts[1].write_bytes(damaged)
    with pytest.raises(InputError, match=r"second\.rec: it is damaged"):
        record.join(parts, tmp_path / "both.rec")
