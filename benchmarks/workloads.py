"""How well workloads tell time: steps on a fake phone, and page loads in a real browser, against what happened.

``python benchmarks/workloads.py [--steps N]``; needs root, cc and chromium. The phone (tests/adbd) shares the clocks of
this machine, and its program `input` notes when it began and ended: a step should hold that, and be little longer.
The pages come from this process, which notes when each was asked for and when its last byte was sent.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from androstep_analysis.device import connect
from androstep_analysis.device.workloads import Pages, clock
from androstep_analysis.device.workloads.script import Script, Step

sys.path += [str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "device")]
from adbd import phone
from test_workloads import Site, browser

DELAYS_MS = (0, 20, 200)
EXCHANGES = 20


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="inputs for each delay, and page loads")
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        print("| what | n | least | median | 95 % | greatest |\n|---|---|---|---|---|---|")
        on_phone(directory, steps)
        in_browser(directory, steps)


def row(what: str, values_ns: Sequence[int]) -> None:
    """A line of a distribution, in ms."""
    ms = sorted(value / 1e6 for value in values_ns)
    told = (ms[0], ms[len(ms) // 2], ms[min(len(ms) - 1, int(len(ms) * 0.95))], ms[-1])
    print(f"| {what} | {len(ms)} | {' | '.join(f'{value:.3f}' for value in told)} |")


def on_phone(directory: Path, steps: int) -> None:
    """Inputs that take a known time."""
    program = directory / "program"
    source = Path(__file__).with_name("workloads_program.c")
    subprocess.run(["cc", "-O2", "-static", "-o", program, source], check=True)
    with phone(directory) as fake, connect(fake.address) as device:
        target = fake.root / "system/bin/input"
        target.unlink()
        target.write_bytes(program.read_bytes())
        target.chmod(0o755)
        errors, stated = [], []
        for _ in range(EXCHANGES):
            found = clock.relation(device)
            offset = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_REALTIME)
            errors.append(abs(found.offset_ns - offset))
            stated.append(found.error_ns)
        row("clock relation: true error [ms]", errors)
        row("clock relation: stated error [ms]", stated)
        for delay in DELAYS_MS:
            (fake.tmp / "delay").write_text(str(delay * 1_000_000))
            (fake.tmp / "log").unlink(missing_ok=True)
            ran = Script("taps", tuple(Step("tap", [1, 2], str(n)) for n in range(steps))).run(device)
            noted = [[int(word) for word in line.split()[1:]] for line in (fake.tmp / "log").read_text().splitlines()]
            told = ran.steps.select("ts_ns", "end_ns", "error_ns").rows()
            pairs = list(zip(told, noted, strict=True))
            row(f"input of {delay} ms: began after the step [ms]", [one[0] - step[0] for step, one in pairs])
            row(f"input of {delay} ms: ended before the step [ms]", [step[1] - one[1] for step, one in pairs])
            outside = sum(one[0] < step[0] - step[2] or one[1] > step[1] + step[2] for step, one in pairs)
            print(f"| input of {delay} ms: outside of the step and its error | {outside} of {len(pairs)} | | | | |")


def in_browser(directory: Path, steps: int) -> None:
    """Pages that this process serves."""
    site = Site()
    try:
        with browser(directory / "profile") as port, connect("local") as device:
            urls = tuple(f"{site.address}/page{number}" for number in range(steps))
            ran = Pages(urls, browser=None, service=f"tcp:{port}").run(device)
    finally:
        site.close()
    asked = {path: begin for path, begin, _ in site.served if path.startswith("/page")}
    sent = {path.partition("?")[2]: end for path, _, end in site.served if path.startswith("/picture")}
    loads = ran.steps.filter(pl.col("outcome") == "completed").with_columns(
        pl.col("label").str.strip_prefix(site.address)
    )
    rows = list(loads.iter_rows(named=True))
    row("page: asked for after the step began [ms]", [asked[one["label"]] - one["ts_ns"] for one in rows])
    row("page: last byte sent before the step ended [ms]", [one["end_ns"] - sent[one["label"]] for one in rows])
    row("page: stated error of the clock [ms]", loads["error_ns"].to_list())


if __name__ == "__main__":
    main()
