"""Hold what names files or processes against the logs of a workload that reuses the numbers of both.

A user's view of the recordings: the output of iotrace, without images.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from harness import measured, oplog, recordings

import androstep_analysis as androstep
from androstep_analysis import compare
from androstep_analysis.datasets import export

pytestmark = pytest.mark.prove

REUSED = 10
"""The most used inode number, and process id, must have had so many files and processes."""


def test_every_measure_and_export_has_a_judge_or_a_reason() -> None:
    assert set(compare.measures()) == set(measured.JUDGES) | set(measured.UNJUDGED)
    assert not set(measured.JUDGES) & set(measured.UNJUDGED)
    assert set(export.TARGETS) == set(measured.EXPORTS)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=pytest.mark.root if recordings.ALL[name].on_host else pytest.mark.qemu)
        for name, seed in (("ext4", 1), ("ext4", 2), ("ext4-android", 3), ("f2fs", 1), ("vfat", 1), ("exfat", 1))
    ],
)
def test_what_measures_say_is_what_the_workload_did(name: str, seed: int, tmp_path: Path) -> None:
    if lacking := recordings.missing(name):
        pytest.skip(lacking)
    recording = recordings.make(name, tmp_path, seed, preset="block+fs+syscalls")
    files = {op.key for op in recording.operations if op.op == oplog.OPEN}
    processes = Counter(op.pid for op in recording.operations if op.op == oplog.PROCESS)
    assert processes.most_common(1)[0][1] > REUSED
    if recording.fs_type == "ext4":  # F2FS counts on for a while, FAT gives each entry another number
        assert Counter(key.ino for key in files).most_common(1)[0][1] > REUSED
    found = measured.problems(measured.Known(recording), androstep.open(tmp_path / "recording"))
    assert not found, "\n".join(problem for problems in found.values() for problem in problems)
