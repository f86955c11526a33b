"""A recording that holds its events twice says so, and none that holds them once does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from support import corpus
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis.common.errors import Loss, LossWarning


def losses(path: Path) -> tuple[Loss, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        return androstep.open(path).losses


TEXTS = {
    "blkparse_text/android_swapcache_2.txt": 300,
    "androstep/ftrace_sqlite.txt": 300,
    "field/F8_dm_min.txt": 300,
    "field/T01_blk_tracer.txt": 300,
    "field/T12b_mtk.txt": 300,
    "tests/data/perfetto_generic.pftrace": 0,
}
"""Files, and how many of their first lines are read (0: the whole file)."""

COPIES: dict[str, Callable[[bytes], bytes]] = {
    "once": lambda data: data,
    "each line twice": lambda data: b"".join(line * 2 for line in data.splitlines(keepends=True)),
    "twice": lambda data: data * 2,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", TEXTS)
def test_copies_of_events_are_stated(name: str, how: str, tmp_path: Path) -> None:
    data = (ROOT / name if name.startswith("tests/") else corpus.path(name)).read_bytes()
    if TEXTS[name]:
        data = b"".join(data.splitlines(keepends=True)[: TEXTS[name]])
    elif how == "each line twice":
        pytest.skip("it has no lines")
    (tmp_path / "trace").write_bytes(COPIES[how](data))
    capture_losses = losses(tmp_path / "trace")
    found = {loss.kind for loss in capture_losses} & {"repeated", "clock"}
    assert bool(found) == (how != "once"), capture_losses


def test_two_recordings_one_after_the_other_do_not_overlap(tmp_path: Path) -> None:
    """blkparse counts the time from the start of each."""
    lines = [f"  8,0    0 {n:8} {n / 100:14.9f}    10  {'DC'[n % 2]}   R {n // 2 * 8} + 8 [dd]\n" for n in range(100)]
    (tmp_path / "one").write_text("".join(lines))
    (tmp_path / "both").write_text("".join(lines * 2))
    with pytest.warns(LossWarning, match="the clock was set back 1 time"):
        both = androstep.open(tmp_path / "both")
    one = androstep.open(tmp_path / "one")
    took = [capture.requests.select("complete_ns", "issue_ns").collect() for capture in (one, both)]
    assert took[1].height == 2 * took[0].height
    times = [(table["complete_ns"] - table["issue_ns"]).to_list() for table in took]
    assert times[1] == times[0] * 2 and took[1]["issue_ns"].is_sorted()


def test_devices_that_were_printed_one_after_the_other_are_one_recording(tmp_path: Path) -> None:
    def line(dev: str, n: int) -> str:
        return f"  {dev}    0 {n:8} {n / 100:14.9f}    10  {'DC'[n % 2]}   R {n // 2 * 8} + 8 [dd]\n"

    text = "".join(line(dev, n) for dev in ("8,0", "8,16", "253,0") for n in range(1000))
    (tmp_path / "trace").write_text(text)
    capture = androstep.open(tmp_path / "trace")
    assert not capture.losses and capture.last_ns == 9_990_000_000


def test_events_from_before_the_start_are_no_other_recording(tmp_path: Path) -> None:
    """blkparse prints their times modulo 2^64 ns, and therefore last."""
    lines = [f"  8,0    0 {n:8} {n:5}.000000000    10  Q   R {n * 8} + 8 [dd]\n" for n in range(1, 100)]
    lines.append("  8,0    0      200 1266874889.709541876    10  Q   R 0 + 8 [dd]\n")
    (tmp_path / "trace").write_text("".join(lines))
    with pytest.warns(LossWarning, match="from before the start"):
        capture = androstep.open(tmp_path / "trace")
    assert [loss.kind for loss in capture.losses] == ["wrapped"]
    assert capture.first_ns == -9_740 and capture.last_ns == 99 * 10**9
