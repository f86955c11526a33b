"""Linking block events to requests beside btt, which does the same to report Q2D, D2C and their like.

``python benchmarks/linking.py`` prints the table; ``pytest benchmarks/linking.py --benchmark-only`` times each
contender with pytest-benchmark. The recording is that of formats_blktrace.py: the corpus' ext4 guest, repeated until it
has 5 M events. The contenders:

- requests: table block_events, which lies ready as Parquet, to table requests with its bios (`link.requests.link`);
- requests and io: the same to all derived tables, with owner and coverage (`derivation.derive`);
- btt: its tables of latencies, from one file that ``blkparse -d`` merged before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
import formats
import formats_blktrace
from formats import Contender

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

EVENTS = 5_000_000
LENGTHS = (1_250_000, 5_000_000, 20_000_000)


def main() -> None:
    """Print what all take, and the memory of linking for three lengths."""
    results = formats.paired(contenders(EVENTS))
    formats.table("linking", EVENTS, block_events(EVENTS).stat().st_size, results)
    for contender in (_ours("derive", block_events(events)) for events in LENGTHS):
        once = formats.run(contender)
        print(f"{contender.command[-1]}: {once.inner:.2f} s, {once.peak_bytes / (1 << 20):.0f} MiB")


def block_events(events: int) -> Path:
    """Table block_events of the recording, as Parquet."""
    made = formats.prepared(f"linking-{events}", functools.partial(_block_events, events=events))
    return made / "block_events.parquet"


def contenders(events: int) -> list[Contender]:
    """All that link the recording."""
    made = block_events(events)
    btt = next(c for c in formats_blktrace.contenders(formats_blktrace.recording(events)) if c.name == "btt")
    return [_ours("requests", made), _ours("derive", made), btt]


def _ours(what: str, path: Path) -> Contender:
    name = {"requests": "requests", "derive": "requests and io"}[what]
    return Contender(name, (sys.executable, Path(__file__), what, path))


def _block_events(directory: Path, events: int) -> None:
    from androstep_analysis import ingest

    recorded = ingest.read(formats_blktrace.recording(events) / "t.blktrace.0")
    recorded.block.sink_parquet(directory / "block_events.parquet", row_group_size=1 << 19)


# --- what runs in the processes ------------------------------------------------------------------------------------


def _requests(path: Path) -> None:
    import polars as pl

    from androstep_analysis.link import requests

    with formats.timed():
        requests.link(pl.scan_parquet(path))


def _derive(path: Path) -> None:
    import polars as pl

    from androstep_analysis.capture.derivation import Witnesses, derive
    from androstep_analysis.ingest import Spool
    from androstep_analysis.ingest.staging import Staging

    recorded = Staging("blktrace", {}, None, None, {"block_events": pl.scan_parquet(path)})
    with formats.timed():
        derive(recorded, Witnesses(), Spool())


# --- for pytest-benchmark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready() -> Sequence[Contender]:
    return contenders(EVENTS)


@pytest.mark.parametrize("number", range(3), ids=["requests", "requests and io", "btt"])
def test_seconds(benchmark: BenchmarkFixture, ready: Sequence[Contender], number: int) -> None:
    once = benchmark.pedantic(formats.run, (ready[number],), rounds=formats.ROUNDS)
    benchmark.extra_info["peak_mib"] = once.peak_bytes >> 20
    benchmark.extra_info["events"] = EVENTS


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        {"requests": _requests, "derive": _derive}[sys.argv[1]](Path(sys.argv[2]))
