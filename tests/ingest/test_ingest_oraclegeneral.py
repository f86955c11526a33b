"""oracleGeneral files of this package and of another writer, and files that only resemble them."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import polars as pl
import pytest
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets.export import oraclegeneral
from androstep_analysis.ingest.block.oraclegeneral import sniff

pytestmark = pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")

UNKNOWN = ("dev", "tid", "pid", "comm", "rwbs", "error", "path")


def packed(uses: list[tuple[int, int, int]], first: int = 0, never: int = -1) -> bytes:
    """Return records of (time, object, size). The next use of each is found by looking ahead."""
    records = []
    for number, (time, used, size) in enumerate(uses):
        later = (n for n in range(number + 1, len(uses)) if uses[n][1] == used)
        following = next(later, None)
        records.append(struct.pack("<IQIq", time, used, size, never if following is None else following + first))
    return b"".join(records)


def drawn(seed: int, size: int | None) -> list[tuple[int, int, int]]:
    choose = random.Random(seed)
    times = sorted(choose.randrange(100) for _ in range(500))
    return [(time, choose.randrange(1 << 30), size or choose.randrange(1, 99_999)) for time in times] + [
        (100, choose.randrange(50), size or 7) for _ in range(200)
    ]


def opened(path: Path, data: bytes) -> Capture:
    path.write_bytes(data)
    return androstep.open(path)


@pytest.mark.parametrize("size", [512, 4096, None, 1000])
@pytest.mark.parametrize(("first", "never"), [(0, -1), (1, -1), (0, (1 << 63) - 1)])
def test_records_of_another_writer(size: int | None, first: int, never: int, tmp_path: Path) -> None:
    uses = drawn(1, size)
    capture = opened(tmp_path / "trace", packed(uses, first, never))
    events = capture.tables["block_events"].collect()
    assert events["ts_ns"].to_list() == [time * 10**9 for time, _, _ in uses]
    assert events["nr_sectors"].to_list() == [-(-size // 512) for _, _, size in uses]
    is_block = size in (512, 4096)
    assert events["sector"].to_list() == [used * size // 512 if is_block else None for _, used, size in uses]
    assert [name for name in UNKNOWN if events[name].null_count() < len(uses)] == []
    requests = capture.requests.collect()
    assert requests.height == (len(uses) if is_block else 0)
    assert (requests["op"].cast(pl.String) == "other").all()
    for name in ("sync", "meta", "issue_ns", "complete_ns", "submit_tid"):
        assert requests[name].null_count() == requests.height, name


def test_what_the_export_wrote_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "demo.oracleGeneral"
    recorded = androstep.open(ROOT / "datasets/demo")
    with path.open("w+b") as file:
        oraclegeneral.write(recorded, file)
    records = list(struct.iter_unpack("<IQIq", path.read_bytes()))
    events = androstep.open(path).tables["block_events"].collect()
    assert events["ts_ns"].to_list() == [time * 10**9 for time, *_ in records]
    assert events["sector"].to_list() == [used * 8 for _, used, *_ in records]
    subprocess.run(["zstd", "-q", path], check=True)
    assert androstep.open(path.with_name(path.name + ".zst")).tables["block_events"].collect().equals(events)


def test_a_record_that_is_cut(tmp_path: Path) -> None:
    capture = opened(tmp_path / "trace", packed(drawn(2, 4096))[:-5])
    assert capture.about["events"] == {"use": 699}
    assert [loss["kind"] for loss in capture.about["losses"]] == ["torn", "objects"]


def test_numbers_that_are_no_places(tmp_path: Path) -> None:
    capture = opened(tmp_path / "trace", packed([(0, (1 << 64) - 1, 4096), (1, 3, 4096)]))
    assert capture.tables["block_events"].select(pl.col("sector").null_count()).collect().item() == 2


@pytest.mark.parametrize("following", [-2, 0, 1, 1 << 40, (1 << 63) - 2])
def test_only_two_numbers_say_that_an_object_is_never_used_again(following: int) -> None:
    uses = [(0, used, 4096) for used in range(9)]
    assert sniff(packed(uses)) and sniff(packed(uses, never=(1 << 63) - 1))
    assert not sniff(packed(uses, never=following))


@pytest.mark.parametrize("seed", range(20))
def test_other_bytes_are_not_taken_for_it(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    data = packed(drawn(seed, 4096))
    assert not sniff(bytes(len(data)))
    assert not sniff(choose.randbytes(len(data)))
    assert not sniff(data[choose.randrange(1, 24) :])
    place = 24 * choose.randrange(10, 500)
    assert not sniff(
        data[:place] + struct.pack("<IQIq", 50, 7, 4096, choose.randrange(place // 24)) + data[place + 24 :]
    )
    with pytest.raises(InputError, match="no known recording"):
        opened(tmp_path / "trace", bytes(9999))
