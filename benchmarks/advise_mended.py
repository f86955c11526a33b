"""Two findings of `androstep advise` carried out: what was said that mending saves, and what it did save.

``python benchmarks/advise_mended.py --model MODEL [--repeats N]`` as root, with what `androstep model build` kept of a
loop device. The workloads are those of ``tests/advice/traits.py``: 30 transactions of SQLite with a rollback journal,
then with a WAL that is synced by each; 1 MiB read by 4 KiB past read-ahead, then as it comes. Of each number the median
over the repetitions is told with the smallest and the largest. The model is of iobench's calls, so its time is held
against that of the calls that read the file; what lies between issue and completion of their requests is told beside.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import advise
import polars as pl

import androstep_analysis as androstep
from androstep_analysis.commands.whatif import device_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, nargs="+", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    model = device_model(chosen.model)
    lines = ["| finding | of | before | said to save | saved |", "|---|---|---:|---:|---:|"]
    cases: dict[str, tuple[str, dict[str, tuple[str, Callable[[androstep.Capture], float]]]]] = {
        "rollback": ("journals", {"syncs": ("saved_times", syncs)}),
        "pieces": (
            "pieces",
            {
                "requests": ("saved_requests", reads),
                "ms of the calls": ("saved_ns", call_ms),
                "ms of the device": ("saved_ns", read_ms),
            },
        ),
    }
    place = tempfile.TemporaryDirectory()
    for trigger, (mended, numbers) in cases.items():
        # The WAL of `journals`, synced by each transaction, is what `rollback` is mended to.
        rounds = [one_round(trigger, mended, model, Path(place.name)) for _ in range(chosen.repeats)]
        for what, (column, measure) in numbers.items():
            scale = 1e-6 if column == "saved_ns" else 1
            before = [measure(first) for first, _, _ in rounds]
            said = [found[column] * scale for _, _, found in rounds]
            saved = [measure(first) - measure(second) for first, second, _ in rounds]
            lines.append(f"| {trigger} | {what} | {told(before)} | {told(said)} | {told(saved)} |")
            if column == "saved_ns":
                bounds = [
                    median(found[name] for _, _, found in rounds) * 1e-6 for name in ("saved_lo_ns", "saved_hi_ns")
                ]
                lines.append(f"| {trigger} | bounds of what is said | | {bounds[0]:.2f} to {bounds[1]:.2f} | |")
    place.cleanup()
    print("\n".join(lines))


def one_round(
    trigger: str, mended: str, model: pl.DataFrame, place: Path
) -> tuple[androstep.Capture, androstep.Capture, dict[str, Any]]:
    """The workload as it was, mended, and the finding of the first."""
    captures = []
    for name, bad in ((trigger, True), (mended, mended != trigger)):
        kept = Path(tempfile.mkdtemp(dir=place))
        captures.append(advise.recorded(kept, name, bad=bad))
    found = androstep.advise(captures[0], model).filter(trigger=trigger, status="found")
    return captures[0], captures[1], found.row(0, named=True)


def syncs(capture: androstep.Capture) -> float:
    """Calls of fsync and fdatasync of the workload."""
    calls = capture.syscalls.filter(pl.col("call").is_in(["fsync", "fdatasync"]), pl.col("comm").str.contains("python"))
    return float(calls.select(pl.len()).collect().item())


def reads(capture: androstep.Capture) -> float:
    return float(_of_file(capture).height)


def read_ms(capture: androstep.Capture) -> float:
    took = _of_file(capture).select((pl.col("complete_ns") - pl.col("issue_ns")).sum()).item()
    return float(took) / 1e6


def call_ms(capture: androstep.Capture) -> float:
    """What the workload's reads of a page each took."""
    is_page = (pl.col("call") == "read") & (pl.col("result") == advise.traits.PAGE)
    calls = capture.syscalls.filter(is_page, pl.col("comm").str.contains("python"))
    return float(calls.select(pl.col("duration_ns").sum()).collect().item()) / 1e6


def _of_file(capture: androstep.Capture) -> pl.DataFrame:
    """The requests that read the file of workload `pieces`."""
    rows = capture.io.filter(pl.col("path") == "/large", pl.col("op") == "read")
    return rows.unique("request_id").collect()


def told(values: list[float]) -> str:
    return f"{median(values):,.4g} ({min(values):,.4g}–{max(values):,.4g})"


if __name__ == "__main__":
    main()
