"""ioreplay's replay of the requests of a capture beside fio's, of the iolog that `androstep export` writes of them.

``python benchmarks/replay_device.py [CAPTURE] [--device MAJ:MIN] [--rounds N]``. Needs root, fio 3.31 or newer, loop
devices and `make probes`. CAPTURE is the demo unless it is named.

Both replay to the same loop device over a file in memory, at the recorded times, in turn. fio has as many requests on
their way as the program has threads. What they do is what the kernel says: iotrace records the requests that the device
gets, and the device counts them. How late a request is is how long after the earliest one it is queued, less the same
in the capture; it is known again by its operation, place and length. CPU time is what each says of itself. Discards are
left out: fio before 3.34 does not do them, and those of a program are punched holes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import polars as pl
from iobench import output

import androstep_analysis as androstep
from androstep_analysis import export, measures, units
from androstep_analysis.capture import Capture
from androstep_analysis.replay import device, read

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import loops

ROOT = Path(__file__).resolve().parents[1]
PROBES = ROOT / "build" / "probes" / "native"

KINDS = ("read", "write", "flush")
"""Operations of requests that both do."""

_READ_SECTORS, _WRITTEN_SECTORS = 2, 6
"""Where /sys/block/*/stat has them (Documentation/block/stat.rst)."""


@dataclass(frozen=True)
class Done:
    """What one replay came to."""

    elapsed_s: float
    """From the first request that was queued until the last one was completed."""
    reads: int
    writes: int
    flushes: int
    read_bytes: int
    written_bytes: int
    known: int
    """Requests that the capture has, too: of those that are alike as many."""
    late_p50_ms: float
    late_p99_ms: float
    late_most_ms: float
    cpu_s: float


Command = tuple[Sequence[str | Path], Callable[[], float]]
"""A command that replays, and what tells its CPU time (s) afterwards."""


# -- what is to be done -----------------------------------------------------------------------------------------------


def of_device(opened: Capture, dev: int) -> Capture:
    """The capture with those requests of a device that both do."""
    wanted = opened.requests.filter(pl.col("dev") == dev, pl.col("op").cast(pl.String).is_in(KINDS))
    return Capture(opened.title, opened.manifest, opened.tables | {"requests": wanted}, opened.about)


def numbered(requests: pl.LazyFrame, time: pl.Expr) -> pl.DataFrame:
    """Columns op, sector, nr_sectors (flushes have no place), ts_ns, and of those that are alike number and count."""
    is_flush = pl.col("op").cast(pl.String) == "flush"
    alike = ("op", "sector", "nr_sectors")
    rows = requests.select(
        pl.col("op").cast(pl.String),
        sector=pl.when(~is_flush).then("sector").otherwise(0),
        nr_sectors=pl.when(~is_flush).then("nr_sectors").otherwise(0),
        ts_ns=time,
    ).sort("ts_ns")
    return rows.with_columns(number=pl.int_range(pl.len()).over(alike), count=pl.len().over(alike)).collect()


# -- replays ----------------------------------------------------------------------------------------------------------


def ours(program: Path, target: str, scratch: Path) -> Command:
    """The program, by ioreplay."""
    results = scratch / "results.rec"

    def cpu_s() -> float:
        run = read(results).tables["replay_runs"].row(0, named=True)
        return float(run["cpu_user_ns"] + run["cpu_system_ns"]) / 1e9

    return (PROBES / "ioreplay", "-o", results, "--target", target, "--allow-device", target, program), cpu_s


def fios(log: Path, target: str, engine: str, depth: int, scratch: Path) -> Command:
    """The iolog, by fio."""
    results = scratch / "results.json"

    def cpu_s() -> float:
        text = results.read_text()
        job = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["jobs"][0]
        return float(job["usr_cpu"] + job["sys_cpu"]) / 100 * float(job["job_runtime"]) / 1000

    options = (f"--ioengine={engine}", f"--iodepth={depth}", "--direct=1", f"--replay_redirect={target}")
    outputs = ("--output-format=json", f"--output={results}")
    return ("fio", "--name=replay", f"--read_iolog={log}", *options, *outputs), cpu_s


def moved(target: str) -> tuple[int, int]:
    """Bytes that a device has read and written."""
    sectors = Path("/sys/block", Path(target).name, "stat").read_text().split()
    return int(sectors[_READ_SECTORS]) * units.SECTOR_BYTES, int(sectors[_WRITTEN_SECTORS]) * units.SECTOR_BYTES


def measured(command: Command, target: str, due: pl.DataFrame, scratch: Path) -> Done:
    """What a command does to a device, of which `due` has the requests and when they should be queued."""
    words, cpu_s = command
    recording = scratch / "recording"
    before = moved(target)
    iotrace = (PROBES / "iotrace", "-o", recording, "--preset", "block", "--device", target, "--")
    subprocess.run((*iotrace, *words), check=True, capture_output=True)
    read_bytes, written_bytes = (now - then for now, then in zip(moved(target), before, strict=True))
    number = Path(target).stat().st_rdev
    requests = of_device(androstep.open(recording), units.dev(os.major(number), os.minor(number))).requests
    elapsed_ns = requests.select(pl.col("complete_ns").max() - pl.col("queue_ns").min()).collect().item()
    done = numbered(requests, pl.coalesce("queue_ns", "issue_ns"))
    shutil.rmtree(recording)
    known = done.join(due, on=("op", "sector", "nr_sectors", "number", "count"), suffix="_due")
    late_ms = (known["ts_ns"] - known["ts_ns_due"]) / 1e6
    late_ms -= late_ms.min()
    return Done(
        elapsed_s=elapsed_ns / 1e9,
        reads=done.filter(op="read").height,
        writes=done.filter(op="write").height,
        flushes=done.filter(op="flush").height,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        known=known.height,
        late_p50_ms=float(late_ms.quantile(0.5) or 0),
        late_p99_ms=float(late_ms.quantile(0.99) or 0),
        late_most_ms=float(late_ms.quantile(1.0) or 0),
        cpu_s=cpu_s(),
    )


# -- rounds -----------------------------------------------------------------------------------------------------------


def show(name: str, rounds: Sequence[Done]) -> None:
    """Medians of all rounds, with the least and the greatest."""
    print(f"\n{name}")
    for number, field in enumerate(fields(Done)):
        values = [astuple(done)[number] for done in rounds]
        print(f"  {field.name:14}{statistics.median(values):16.3f}  ({min(values):.3f} .. {max(values):.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture", type=Path, nargs="?", default=ROOT / "datasets" / "demo")
    parser.add_argument("--device", metavar="MAJ:MIN")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    opened = androstep.open(arguments.capture)
    devices = opened.requests.select(pl.col("dev").unique()).collect()["dev"].to_list()
    dev = units.parse_dev(arguments.device) if arguments.device else devices[0]
    part = of_device(opened, dev)
    program = device.program(part.requests, dev=dev)
    reach = program.operations.select((pl.col("offset_bytes") + pl.col("bytes")).max()).item()
    queued = numbered(part.requests, pl.coalesce("queue_ns", "insert_ns", "issue_ns"))
    issued = numbered(part.requests, measures.order_ns())
    print(f"{queued.height} requests in {(queued['ts_ns'].max() - queued['ts_ns'].min()) / 1e9:.3f} s, ", end="")
    print(f"up to {program.threads.height} at a time; {output('fio', '--version').strip()}")
    with tempfile.TemporaryDirectory(prefix="androstep-replay-device-", dir="/dev/shm") as directory:
        scratch = Path(directory)
        program.write(scratch / "program.rec")
        with (scratch / "log").open("wb") as file:
            export.write(part, "fio3", file)
        with (scratch / "image").open("wb") as image:
            image.truncate((reach >> 20 << 20) + (1 << 20))
        with loops.attached(scratch / "image") as target:
            depth = program.threads.height
            contenders = {
                "ioreplay": (ours(scratch / "program.rec", target, scratch), queued),
                **{
                    f"fio, {engine}": (fios(scratch / "log", target, engine, depth, scratch), issued)
                    for engine in ("psync", "libaio", "io_uring")
                },
            }
            rounds: dict[str, list[Done]] = {name: [] for name in contenders}
            for _ in range(arguments.rounds):
                for name, (command, due) in contenders.items():
                    rounds[name].append(measured(command, target, due, scratch))
        for name, done in rounds.items():
            show(name, done)


if __name__ == "__main__":
    main()
