"""The places that iobench visits, and what it writes there.

With --compat-rng they are those of the original Mobibench 1.0.9, of which the corpus has sequences. For several
threads there is nothing to compare with: the original's threads seed one generator anew and draw from it without a
lock, so that it gives them other numbers in every run. Here each worker gets what the original gives to a thread that
is alone.
"""

from __future__ import annotations

import json
import lzma
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from support import benched, corpus

RECORD_BYTES = 4096


def visited(directory: Path, *words: str, records: int, call: str) -> list[int]:
    """Return records in the order of the measured part: the last `records` calls `call` on the file."""
    options = ("-p", directory, "--size", str(records * RECORD_BYTES), "--bs", str(RECORD_BYTES), "--cache", "any")
    calls = benched.calls(directory / "calls", call, *options, *words)
    offsets = [int(found.arguments.rsplit(", ", 1)[1]) for found in calls if found.path.endswith("/test.dat0")]
    return [offset // RECORD_BYTES for offset in offsets][-records:]


def compat(directory: Path, number: int, records: int, overlap: int) -> list[int]:
    """Return the records that Mobibench's -a `number` visits: 1 writes, 3 reads."""
    words = ("-a", str(number), "-v", str(overlap), "--compat-rng")
    return visited(directory, *words, records=records, call={1: "pwrite64", 3: "pread64"}[number])


def originals() -> dict[tuple[int, int], list[int]]:
    """Return the original's sequences, by number of records and overlap."""
    found = json.loads(corpus.path("androstep/oracle_random_offsets.json").read_text("utf-8"))
    keys = {name: re.fullmatch(r"numrecs=(\d+),v=(\d+)", name) for name in found}
    return {(int(key[1]), int(key[2])): found[name] for name, key in keys.items() if key}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("records", [16, 64, 256])
@pytest.mark.parametrize("overlap", [0, 25, 50, 75])
def test_the_original_is_reproduced(tmp_path: Path, records: int, overlap: int, number: int) -> None:
    assert compat(tmp_path, number, records, overlap) == originals()[records, overlap]


def test_all_of_the_original_is_compared() -> None:
    assert set(originals()) == {(records, overlap) for records in (16, 64, 256) for overlap in (0, 25, 50, 75)}


def test_reads_and_writes_do_not_share_an_order(tmp_path: Path) -> None:
    written = visited(tmp_path, "--rw", "randwrite", records=256, call="pwrite64")
    read = visited(tmp_path, "--rw", "randread", records=256, call="pread64")
    assert sorted(written) == sorted(read) == list(range(256))
    assert written != read
    assert sum(one == other for one, other in zip(written, read, strict=True)) < 10


def test_every_worker_has_the_order_of_one_that_is_alone(tmp_path: Path) -> None:
    assert visited(tmp_path, "-a", "1", "--compat-rng", "-t", "3", records=64, call="pwrite64") == originals()[64, 0]


def test_a_seed_decides(tmp_path: Path) -> None:
    first, again, other = (
        visited(tmp_path, "--rw", "randread", "--randseed", seed, records=64, call="pread64")
        for seed in ("1", "1", "2")
    )
    assert first == again != other


WORD = (1 << 64) - 1


def scrambled(number: int) -> int:
    """Return the output of splitmix64 for a state (Steele, Lea, Flood, OOPSLA 2014)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & WORD
    return number ^ number >> 31


class Random:
    """xoshiro256** of Blackman and Vigna."""

    def __init__(self, *state: int) -> None:
        self.state = list(state)

    @classmethod
    def seeded(cls, seed: int, stream: int) -> Random:
        first = seed ^ scrambled(stream)
        return cls(*(scrambled(first + 0x9E3779B97F4A7C15 * word & WORD) for word in range(1, 5)))

    def next(self) -> int:
        a, b, c, d = self.state
        five = b * 5 & WORD
        result = ((five << 7 | five >> 57) & WORD) * 9 & WORD
        c, d = c ^ a, d ^ b
        self.state = [a ^ d, b ^ c, c ^ (b << 17 & WORD), (d << 45 | d >> 19) & WORD]
        return result

    def below(self, bound: int) -> int:
        mask = (1 << (bound - 1).bit_length()) - 1
        while (drawn := self.next() & mask) >= bound:
            pass
        return drawn

    def shuffle(self, items: list[int]) -> None:
        """Shuffle by Fisher and Yates (Durstenfeld 1964): all orders are equally likely."""
        for left in range(len(items), 1, -1):
            other = self.below(left)
            items[left - 1], items[other] = items[other], items[left - 1]


def test_the_oracle_draws_the_published_numbers() -> None:
    """Of the authors' xoshiro256starstar.c from the state 1, 2, 3, 4, and of splitmix64.c from 1234567."""
    random = Random(1, 2, 3, 4)
    assert [random.next() for _ in range(5)] == [11520, 0, 1509978240, 1215971899390074240, 1216172134540287360]
    assert [random.next() for _ in range(3)] == [607988272756665600, 16172922978634559625, 8476171486693032832]
    assert Random.seeded(1234567, 0).state[:2] == [6457827717110365317, 3203168211198807973]
    assert Random.seeded(1234567, 0).state[2:] == [9817491932198370423, 4593380528125082431]


@pytest.mark.parametrize(("access", "stream"), [("read", 0), ("write", 1 << 32)])
@pytest.mark.parametrize(
    ("records", "overlap", "distinct"),
    [(1, 0, 1), (2, 0, 2), (3, 0, 3), (1000, 0, 1000), (256, 25, 192), (16, 99, 1), (10, 5, 10), (150, 33, 101)],
)
def test_an_order_is_a_shuffle(
    tmp_path: Path, records: int, overlap: int, distinct: int, access: str, stream: int
) -> None:
    """Of the records, and with overlap once more after the last of them were replaced by any of the others."""
    words = ("--rw", f"rand{access}", "--overlap", str(overlap), "--randseed", "42")
    found = visited(tmp_path, *words, records=records, call={"read": "pread64", "write": "pwrite64"}[access])
    random, expected = Random.seeded(42, stream), list(range(records))
    random.shuffle(expected)
    if distinct < records:
        expected = expected[:distinct] + [expected[random.below(distinct)] for _ in range(records - distinct)]
        random.shuffle(expected)
    assert found == expected and len(set(found)) == distinct


def written(directory: Path, *words: str, size: int, record: int) -> list[bytes]:
    """Return the records of a file that was written once, in file order."""
    options = ("--rw", "write", "--size", str(size), "--bs", str(record), "--cache", "any", "--keep")
    benched.run("-p", directory, *options, *words)
    (path,) = directory.rglob("test.dat0")
    content = path.read_bytes()
    assert len(content) == size
    return [content[start : start + record] for start in range(0, size, record)]


@pytest.mark.prove
@pytest.mark.parametrize("percent", [0, 20, 50, 80, 100])
@pytest.mark.parametrize("record", [512, 4096, 65536])
def test_data_compress_as_far_as_asked(tmp_path: Path, percent: int, record: int) -> None:
    """By zlib, and by one that looks back over all of the file; what makes blocks differ remains of 100 %."""
    content = b"".join(written(tmp_path, "--buffer_compress_percentage", str(percent), size=1 << 20, record=record))
    for compressed in (zlib.compress(content, 6), lzma.compress(content, preset=1)):
        assert abs(len(compressed) / len(content) - (100 - percent) / 100) < 0.03


@pytest.mark.parametrize("percent", [0, 10, 33, 50, 100])
def test_records_repeat_as_often_as_asked(tmp_path: Path, percent: int) -> None:
    records = written(tmp_path, "--dedupe_percentage", str(percent), size=1000 * 4096, record=4096)
    assert len(set(records)) == max(1000 - 1000 * percent // 100, 1)


def test_no_eight_bytes_occur_twice(tmp_path: Path) -> None:
    """A compressor looks for earlier occurrences at any offset."""
    content = np.frombuffer(b"".join(written(tmp_path, size=1 << 20, record=65536)), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(content, 8).copy().view(np.uint64)
    assert np.unique(windows).size == content.size - 7


@pytest.mark.parametrize("record", [8, 9, 15, 100, 511, 4095, 4097, 5000])
def test_short_records_differ(tmp_path: Path, record: int) -> None:
    records = written(tmp_path, "--buffer_compress_percentage", "50", size=300 * record, record=record)
    assert len(set(records)) == 300


def test_what_is_overwritten_differs_from_what_was_there(tmp_path: Path) -> None:
    words = ("--rw", "randwrite", "--number_ios", "32", "--size", "256k", "--bs", "4k", "--cache", "any", "--keep")
    benched.run("-p", tmp_path, *words, "--buffer_compress_percentage", "100")
    (path,) = tmp_path.rglob("test.dat0")
    content = path.read_bytes()
    assert len({content[start : start + 4096] for start in range(0, len(content), 4096)}) == 64


def test_workers_write_different_data(tmp_path: Path) -> None:
    benched.run("-p", tmp_path, "--rw", "write", "--size", "256k", "--cache", "any", "--keep", "-t", "4")
    contents = [path.read_bytes() for path in tmp_path.rglob("test.dat*")]
    blocks = {content[start : start + 4096] for content in contents for start in range(0, len(content), 4096)}
    assert len(contents) == 4 and len(blocks) == 4 * 64
