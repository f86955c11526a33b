"""The explorer of five million requests: how long from the wheel to the new picture, and how much memory.

``python benchmarks/explorer.py DIR [--millions 5]``. Makes tables of so many requests of 100,000 files in DIR, unless
they are there, shows them in JupyterLab in Chromium without a window, turns the wheel 50 times and waits each time
until the picture of the new window is drawn. Then the same with a brush on one process, and for the lists.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import Page

from androstep_analysis import schema

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.lab import browser_page, lab, run_cell

FILES, PROCESSES, TURNS = 100_000, 300, 50

CELL = """
import resource, time
import polars as pl
from androstep_analysis.explore import Explorer

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

tables = {{name: pl.scan_parquet("{directory}/" + name + ".parquet") for name in ("requests", "io", "fs_events")}}
before, began = resident(), time.perf_counter()
explorer = Explorer(tables, "{millions} million requests")
took, pieces = time.perf_counter() - began, explorer._pieces
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(f"opened in {{took:.1f}} s; {{pieces.nr_bytes / len(pieces):.0f}} bytes a piece, {{pieces.nr_bytes >> 20}} MiB;"
      f" the process had {{before}} MiB before, {{resident()}} MiB after, {{peak}} MiB at most")
explorer
"""

TURN = """
async ([at, by]) => {
  const canvas = document.querySelector(".androstep-explorer canvas");
  const box = canvas.getBoundingClientRect();
  const shown = canvas.dataset.shown;
  const began = performance.now();
  canvas.dispatchEvent(new WheelEvent("wheel", {
    deltaY: by, clientX: box.left + at * box.width, clientY: box.top + 100, bubbles: true, cancelable: true,
  }));
  while (!canvas.dataset.shown || canvas.dataset.shown === shown) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}
"""


def tables(directory: Path, count: int) -> None:
    """Writes tables requests, io and fs_events (of which there are none) of `count` requests of one piece each."""
    directory.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(19)
    issue = np.cumsum(draw.exponential(100_000, count)).astype(np.int64)
    file = (draw.zipf(1.3, count) % FILES).astype(np.uint32)
    process = ((file + draw.integers(0, 3, count)) % PROCESSES).astype(np.int32)
    sectors = 8 << draw.integers(0, 6, count)
    of_file = pl.DataFrame({"file": np.arange(FILES, dtype=np.uint32)}).select(
        "file", path=pl.format("/data/app{}/files/{}/file{}", pl.col("file") % 200, pl.col("file") % 7, "file")
    )
    known = pl.DataFrame(
        {
            "request_id": np.arange(count),
            "dev": np.full(count, 8 << 20, np.uint32),
            "sector": file.astype(np.int64) * 4096 + draw.integers(0, 4096, count),
            "nr_sectors": sectors,
            "bytes": sectors * 512,
            "op": draw.choice(["read", "write", "flush"], count, p=[0.45, 0.5, 0.05]),
            "queue_ns": issue - 5_000,
            "issue_ns": issue,
            "complete_ns": issue + draw.lognormal(12, 1.2, count).astype(np.int64),
            "block_type": draw.choice(["data", "directory", "journal", "metadata"], count, p=[0.8, 0.05, 0.1, 0.05]),
            "ino": file.astype(np.int64) + 12,
            "file": file,
            "owner_pid": process + 1000,
        }
    ).with_columns(
        piece=0,
        part_dev="dev",
        part_sector="sector",
        owner_comm=pl.format("process{}", "owner_pid"),
        owner_package=pl.format("com.example.app{}", pl.col("owner_pid") % 20),
        owner_via=pl.lit("submitter"),
        nr_bios=1,
        matched=pl.lit("full"),
    )
    known = known.join(of_file, on="file", how="left", maintain_order="left")
    for name in ("requests", "io"):
        columns = schema.table(name).columns
        rows = known.select(
            (pl.col(one.name) if one.name in known.columns else pl.lit(None)).cast(one.polars).alias(one.name)
            for one in columns
        )
        rows.write_parquet(directory / f"{name}.parquet")
    schema.empty("fs_events").write_parquet(directory / "fs_events.parquet")


def turned(page: Page, label: str) -> None:
    """Turns the wheel in and out and prints how long the pictures took."""
    draw = np.random.default_rng(50)
    times = []
    for turn in range(TURNS):
        by = float(draw.uniform(60, 400)) * (-1 if turn % 5 < 3 else 1)
        times.append(page.evaluate(TURN, [float(draw.uniform(0.2, 0.9)), by]))
    print(f"{label}: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms of {TURNS}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--millions", type=int, default=5)
    options = parser.parse_args()
    place = options.directory.resolve() / f"explorer-{options.millions}"
    if not (place / "fs_events.parquet").exists():
        tables(place, options.millions * 1_000_000)
    cell = CELL.format(directory=place, millions=options.millions)
    with tempfile.TemporaryDirectory() as home, lab(Path(home), cell) as address, browser_page() as page:
        run_cell(page, address)
        explorer = page.locator(".androstep-explorer")
        explorer.wait_for(timeout=600_000)
        is_drawn = "document.querySelector('.androstep-explorer canvas').dataset.shown"
        page.wait_for_function(is_drawn)
        print(page.locator(".jp-OutputArea-output", has_text="opened in").first.inner_text().strip())
        explorer.locator(".entry", has_text="process").first.wait_for()
        turned(page, "wheel to picture")
        explorer.get_by_role("button", name="Whole recording").click()
        explorer.locator(".entry", has_text="process").first.click()
        explorer.locator(".entry[aria-pressed=true]").first.wait_for()
        page.wait_for_function(is_drawn)
        turned(page, "the same, one process brushed")


if __name__ == "__main__":
    main()
