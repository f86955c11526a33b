"""What `androstep top` keeps up with, how right its rates are, and what it costs.

``python benchmarks/top.py DIR [--writes N] [--seconds S]``, as root; DIR is on a tmpfs, for an image of 512 MiB. A
process writes N pages a second through the page cache of an ext4 there, and syncs every 8,192 of them. Told are the
events per second, the greatest difference from the bytes that the kernel counted of the device, what was lost, how far
back the joins looked, and the CPU that recorder and joins took. Then the same writes go on without it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from androstep_analysis.device import connect
from androstep_analysis.live import Live, Moment, totals

WORKLOAD = """
import os, sys, time
top, seconds, rate = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
file, page, n = os.open(top + "/busy", os.O_CREAT | os.O_WRONLY), bytes(4096), 0
begin = time.monotonic()
while (now := time.monotonic() - begin) < seconds:
    while n < now * rate:
        os.pwrite(file, page, n % 32768 * 4096)
        n += 1
        if n % 8192 == 0:
            os.fdatasync(file)
    time.sleep(0.005)
used = os.times()
os.sync()
print(n / (time.monotonic() - begin), (used.user + used.system) / n * 1e6)
"""


def main() -> None:
    """Print the two rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--writes", type=int, default=50_000)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    image, top = options.directory / "image", options.directory / "mounted"
    top.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image, "512M"], check=True)
    subprocess.run(["mount", "-o", "loop,noatime", image, top], check=True)
    try:
        told, moments, counted = watched(top, options.seconds, options.writes)
        alone = run(top, options.seconds, options.writes).communicate()[0]
    finally:
        subprocess.run(["umount", top], check=True)
        top.rmdir()
        image.unlink()
    shown = sum((totals(one)["written_bytes_per_s"] or 0) * one.seconds for one in moments)
    seconds = sum(one.seconds for one in moments)
    print(f"{seconds:.1f} s, {sum(one.events for one in moments) / seconds:,.0f} events/s, lost", end=" ")
    print(f"{sum(one.lost_events for one in moments)}; shown {shown:,.0f} B written, counted {counted:,} B")
    print(f"longest moment {max(one.seconds for one in moments):.2f} s; history", end=" ")
    print(f"{statistics.median(one.history_s for one in moments):.1f} s; owner known of", end=" ")
    print(f"{statistics.median(totals(one)['owned_ratio'] or 0 for one in moments):.1%}; CPU: recorder", end=" ")
    print(f"{statistics.mean(one.recorder_ratio for one in moments):.1%}, joins", end=" ")
    print(f"{statistics.mean(one.analysis_ratio for one in moments):.1%}")
    print(f"writes/s and µs of CPU for each: watched {told.strip()}, alone {alone.strip()}")


def run(top: Path, seconds: int, writes: int) -> subprocess.Popen[str]:
    """The workload; what it prints is its writes per second and their CPU."""
    command = [sys.executable, "-c", WORKLOAD, top, str(seconds), str(writes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def watched(top: Path, seconds: int, writes: int) -> tuple[str, list[Moment], int]:
    """What the workload prints, the moments from before it until the device is quiet, and the bytes counted."""
    moments: list[Moment] = []
    with connect("local") as device, Live(device, trace=[str(top)]) as live:
        every = iter(live)
        next(every)
        before = written(top)
        working = run(top, seconds, writes)
        for moment in every:
            moments.append(moment)
            if working.poll() is not None and moment.requests.is_empty():
                break
        return working.communicate()[0], moments, written(top) - before


def written(top: Path) -> int:
    """Bytes that the kernel counted as written to the device that is mounted there."""
    number = top.stat().st_dev
    words = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()
    return int(words[6]) * 512


if __name__ == "__main__":
    main()
