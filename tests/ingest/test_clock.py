"""A clock that jumps or is set back, or two clocks in one file, are detected, and durations do not include the gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support import corpus

from androstep_analysis import capture, compare, measures
from androstep_analysis.common.errors import Loss, LossWarning
from androstep_analysis.ingest import clock
from androstep_analysis.present.report import requests as sections

S = 10**9
JUMP_S = 5_231_455


def line(cpu: int, second: float, action: str, sector: int) -> str:
    end = "[0]" if action == "C" else "[app]"
    return f"  8,0   {cpu:2} {1:8} {second:15.9f}  10  {action}   W {sector} + 8 {end}\n"


def life(first_s: float, count: int, cpu: int = 0) -> list[str]:
    """Return the lines of complete requests that take 3 ms, ten per second."""
    return [
        line(cpu, first_s + n / 10 + step / 1000, action, 8 * n)
        for n in range(count)
        for step, action in enumerate("QDC")
    ]


def opened(path: Path, lines: list[str]) -> capture.Capture:
    path.write_text("".join(lines))
    return capture.open(path)


def clocks(found: capture.Capture) -> list[int]:
    return [loss.count for loss in found.losses if loss.kind in ("clock", "clocks")]


def slowest(found: capture.Capture) -> float:
    return float(measures.latency(found.requests).filter(quantile="max")["value"].max())  # type: ignore[arg-type]


def test_a_jump_is_left_out_of_every_axis(tmp_path: Path) -> None:
    """A write that is in progress when the clock jumps remains a completed write with unknown latency."""
    lines = [*life(100, 50), line(0, 106, "Q", 4000), line(0, 106.001, "D", 4000)]
    lines += [line(0, 106.002 + JUMP_S, "C", 4000), *life(107 + JUMP_S, 50)]
    with pytest.warns(LossWarning, match="the clock jumps by"):
        found = opened(tmp_path / "trace.txt", lines)
    assert clocks(found) == [1] and "in 2 parts" in repr(found)
    assert found.population["completed"] == found.population["count"] == 101
    assert slowest(found) <= 3e6
    _, tables = sections.results(found)
    last_ns = int(tables["points"].lazy().select(pl.col("complete_ns").max()).collect().item())
    assert last_ns - found.first_ns < 20 * S
    windows = compare.measure_all([found], "rate", window_ns=S)
    assert 11 <= windows["repeat"].n_unique() <= 14


def test_a_pause_stays_as_it_is(tmp_path: Path) -> None:
    """Pauses are not jumps.

    Cases: a night without I/O in two days of recording, and just under an hour in a short recording.
    """
    short = opened(tmp_path / "short.txt", [*life(0, 20), *life(3598, 20)])
    assert not clocks(short) and "parts" not in repr(short)
    long = [text for hour in range(48) if not 20 <= hour < 28 for text in life(hour * 1200.0 * 3, 2)]
    assert not clocks(opened(tmp_path / "long.txt", long))


@pytest.mark.parametrize("back_s", [90.0, 1e6, JUMP_S * 1.0])
def test_what_follows_a_setback_is_behind_what_was_before(tmp_path: Path, back_s: float) -> None:
    """After a reset to nearly zero, or to a time within the recording, events stay in file order."""
    before = life(2e6 * (back_s > 100) + JUMP_S * 2.0 * (back_s > 2e6) + 200, 50)
    after = [text.replace("[app]", "[two]") for text in life(2e6 * (back_s > 100) + JUMP_S * 2.0 * (back_s > 2e6)
                                                              + 200 - back_s, 50)]  # fmt: skip
    with pytest.warns(LossWarning, match="the clock was set back 1 time"):
        found = opened(tmp_path / "trace.txt", [*before, *after])
    assert clocks(found) == [1]
    assert (
        found.block_events.filter(pl.col("comm").is_not_null()).collect()["comm"].to_list()
        == ["app"] * 100 + ["two"] * 100
    )
    assert found.population["completed"] == 100 and slowest(found) <= 3e6
    assert len(found.jumps) == 1


def test_silence_counts_from_an_hour_on() -> None:
    """Silence is detected between rows, after the last row, and where two tables are silent at the same time."""
    hour = clock.LEAST_JUMP_NS
    rows = pl.LazyFrame({"ts_ns": [0, hour - 1, 2 * hour - 1, 3 * hour - 2]})
    assert clock._silences(rows, 0, 4 * hour - 2) == ([(hour - 1, 2 * hour - 1), (3 * hour - 2, 4 * hour - 2)], 4)
    assert clock._intersection([(0, hour), (2 * hour, 4 * hour)], [(0, hour), (3 * hour + 1, 5 * hour)]) == [(0, hour)]


def test_cpus_printed_in_turn_are_no_setback(tmp_path: Path) -> None:
    found = opened(tmp_path / "trace.txt", [*life(0, 2000, cpu=0), *life(0.05, 2000, cpu=1)])
    assert not clocks(found)
    assert found.last_ns == pytest.approx(200 * S, rel=0.01)


def test_two_clocks_prove_no_order(tmp_path: Path) -> None:
    """Every second line has another clock: requests are counted, and no latency is known."""
    lines = [
        line(0, n / 10 + step / 1000 + JUMP_S * ((3 * n + step) % 2), action, 8 * n)
        for n in range(50)
        for step, action in enumerate("QDC")
    ]
    with pytest.warns(LossWarning, match="several clocks"):
        found = opened(tmp_path / "trace.txt", lines)
    assert clocks(found)[0] > 8
    assert measures.latency(found.requests).is_empty()


def test_the_words_of_a_loss_state_no_clock() -> None:
    (mixed,) = clock.mixed(9)
    assert clock.is_mixed([replace(mixed, message="")])
    assert not clock.is_mixed([replace(mixed, kind="clock"), Loss("torn", 1, mixed.message)])


def test_rows_of_a_table_may_be_in_any_order(tmp_path: Path) -> None:
    """Rows are sorted, and a loss reports that they were not in order."""
    path = tmp_path / "trace.csv"
    path.write_text("".join(f"{(n * 7919) % 10000}.0,W,{n * 4096},4096\n" for n in range(100)))
    with pytest.warns(LossWarning, match="earlier than the previous one of its device"):
        made = capture.open(path, csv_columns="time:s,op,offset:B,size:B")
    assert made.last_ns is not None and made.last_ns < 10_000 * S


def test_a_real_table_whose_clock_jumps() -> None:
    """Pixel 6a: there are six days minus eight minutes between two rows."""
    with pytest.warns(LossWarning):
        found = capture.open(corpus.path("block_csv/pixel6a_pubg_exec.csv.gz"))
    assert clocks(found) == [1]
    ((before, after),) = found.jumps
    assert (after - before) // S == 522_108
    words, _ = sections.results(found)
    assert words["bin"] == "20 s"


def of_kernel(path: Path, *moments: tuple[float, str]) -> Path:
    """Return lines of ftrace for one request of the same location."""
    lines = [f"  app-7 [000] .... {second:.6f}: block_rq_{event}: 8,0 W" for second, event in moments]
    rest = {"issue": "4096 () 8 + 8 none,0,0 [app]", "complete": "() 8 + 8 none,0,0 [0]"}
    path.write_text("".join(f"{text} {rest[event]}\n" for text, (_, event) in zip(lines, moments, strict=True)))
    return path


def test_between_two_recordings_of_a_machine_anything_may_have_happened(tmp_path: Path) -> None:
    """A request issued in one recording and one completed in the next are not joined: they need not be the same."""
    one = of_kernel(tmp_path / "one.txt", (100, "issue"), (100.001, "complete"), (101, "issue"))
    other = of_kernel(tmp_path / "other.txt", (105, "complete"), (106, "issue"), (106.001, "complete"))
    with pytest.warns(LossWarning, match="nothing was recorded between the files for 4.000000 s after 101"):
        found = capture.create([other, one], tmp_path / "both")
    (lost,) = [loss for loss in found.losses if loss.kind == "gap"]
    assert lost.spans == ((101 * S, 105 * S),) and "in 2 parts" in repr(found)
    assert slowest(found) <= 1e6
    alone = capture.open(one)
    assert not [loss for loss in alone.losses if loss.kind == "gap"] and "parts" not in repr(alone)


def test_recordings_of_devices_or_processes_follow_each_other_as_they_like(tmp_path: Path) -> None:
    sources = [tmp_path / "sda.txt", tmp_path / "sdb.txt"]
    for number, path in enumerate(sources):
        path.write_text("".join(life(100 + 50 * number, 20)))
    assert not capture.create(sources, tmp_path / "both").losses
