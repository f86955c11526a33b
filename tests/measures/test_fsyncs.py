"""Calls of fsync as the filesystems' events tell them, against a reading of the lines one by one."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pytest
from support import corpus

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.common.losses import Loss, Losses

LINES = {
    "ext4_sync_file_enter": "dev 253,0 ino {ino} parent 2 datasync 0 ",
    "ext4_sync_file_exit": "dev 253,0 ino {ino} ret {ret}",
    "f2fs_sync_file_enter": "dev = (253,0), ino = {ino}, pino = 3, i_mode = 0x81a4, i_size = 4096, i_nlink = 1,"
    " i_blocks = 9, i_advise = 0x0",
    "f2fs_sync_file_exit": "dev = (253,0), ino = {ino}, cp_reason: no needed, datasync = 0, ret = {ret}",
}


def written(path: Path, calls: list[tuple[float, int, str, int, int]]) -> Path:
    lines = (
        f"  app{tid}-{tid}   [000] .... {at:.6f}: {event}: {LINES[event].format(ino=ino, ret=ret)}\n"
        for at, tid, event, ino, ret in calls
    )
    path.write_text("".join(lines))
    return path


def found(path: Path, lost: Losses | None = None) -> dict[tuple[str, int], dict[str, float | None]]:
    told: dict[tuple[str, int], dict[str, float | None]] = defaultdict(dict)
    table = measures.fsyncs(androstep.open(path).tables, by=("owner_comm", "ino"), lost=lost)
    for comm, ino, metric, value in table.select("owner_comm", "ino", "metric", "value").iter_rows():
        told[comm, ino][metric] = value
    return dict(told)


@pytest.mark.parametrize("filesystem", ["ext4", "f2fs"])
def test_calls_of_several_threads_are_told_apart(filesystem: str, tmp_path: Path) -> None:
    draw = random.Random(filesystem)
    events, expected = [], defaultdict(list)
    for tid in (7, 8, 9):
        at = draw.random()
        for _ in range(40):
            ino, ret, long = draw.choice([12, 13]), draw.choice([0, 0, -5]), draw.randrange(1, 9000) / 1e6
            is_ended = draw.random() < 0.9
            events.append((at, tid, f"{filesystem}_sync_file_enter", ino, 0))
            if is_ended:
                events.append((at + long, tid, f"{filesystem}_sync_file_exit", ino, ret))
            expected[f"app{tid}", ino].append((round(long * 1e6) * 1000, ret) if is_ended else None)
            at += long + draw.randrange(1, 500) / 1e6
    told = found(written(tmp_path / "trace.txt", sorted(events)))
    assert told.keys() == expected.keys()
    for key, calls in expected.items():
        ended = sorted(call[0] for call in calls if call)
        assert told[key]["calls"] == len(calls)
        assert told[key]["failed"] == sum(call[1] < 0 for call in calls if call)
        assert told[key]["latency_max"] == pytest.approx(ended[-1], abs=1000)
        assert told[key]["latency_p50"] == pytest.approx(ended[-(-len(ended) // 2) - 1], abs=1000)


def test_an_end_that_may_belong_to_another_call_tells_no_latency(tmp_path: Path) -> None:
    calls = [(1.0, 7, "ext4_sync_file_enter", 12, 0), (1.5, 7, "ext4_sync_file_exit", 13, 0)]
    assert found(written(tmp_path / "other.txt", calls)) == {
        ("app7", 12): {"calls": 1, "failed": 0, "latency_p50": None, "latency_p99": None, "latency_max": None}
    }
    calls = [(1.0, 7, "ext4_sync_file_enter", 12, 0), (1.5, 7, "ext4_sync_file_exit", 12, 0)]
    path = written(tmp_path / "lost.txt", calls)
    gone = Losses([Loss("overwritten", 1, "", ("fs_events",), None, ((1_200_000_000, 1_300_000_000),))])
    assert found(path)["app7", 12]["latency_max"] == 5e8
    assert found(path, lost=gone)["app7", 12]["latency_max"] is None


def test_who_calls_fsync_in_a_recording_of_others() -> None:
    path = corpus.path("field/T19_fsync.txt")
    wanted = re.findall(r"(\w+)-\d+ .*ext4_sync_file_enter: .* ino (\d+)", path.read_text())
    assert {key: told["calls"] for key, told in found(path).items()} == {
        (comm, int(ino)): wanted.count((comm, ino)) for comm, ino in set(wanted)
    }
