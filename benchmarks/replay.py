"""ioreplay beside MobiGen's own replay, `mobibench -g`: the same script on the same filesystem, one after the other.

``python benchmarks/replay.py SCRIPT [--mobibench REPOSITORY] [--rounds N] [--seconds S]``. Needs root, loop devices and
`make probes`. SCRIPT is a script of MobiGen; of it the first S seconds are replayed. The original runs where a clone of
its repository (https://github.com/ESOS-Lab/Mobibench), or the git directory of one, is given: it is compiled for the
run, with the system's libsqlite3.

mobibench opens and unlinks the paths of a script as they stand there. So it runs as nobody in a root directory of its
own, which holds the program, the script and a file at every path that the script unlinks, and nothing else: what is
missing of these in the end is what the replay would have deleted. There is no /proc in it, so that mobibench drops no
caches. ioreplay replays the script twice over: without the descriptors of unknown files, pipes and sockets among them
(`known`), and with a file for each of them, as mobibench does it (`all`).

Time and CPU time of ioreplay are those of the replay, without making the files that were there before; mobibench makes
none. Two rounds or more tell whether a replay does the same each time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from iobench import output

import androstep_analysis as androstep
from androstep_analysis.errors import LossWarning
from androstep_analysis.replay import clean, read
from androstep_analysis.replay.tables import READS, WRITES

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import loops

IOREPLAY = Path(__file__).resolve().parents[1] / "build" / "probes" / "native" / "ioreplay"
IMAGE_MIB = 1000
NOBODY = 65534


@dataclass(frozen=True)
class Done:
    """What one replay came to."""

    recorded_s: float
    elapsed_s: float
    user_s: float
    system_s: float
    io_s: float
    calls: int
    written: int
    read: int
    left: int
    """Files that it left behind."""
    deleted: int
    """Files that are none of its own and that it deleted."""
    late_p99_ms: float | None

    @property
    def work(self) -> tuple[int, int, int]:
        """What must be the same each time."""
        return self.calls, self.written, self.read


Replay = Callable[[Path], Done]
"""Replays on the filesystem of which this is the top."""


@dataclass(frozen=True)
class Script:
    """A script: its lines, and how long it takes."""

    lines: list[str]

    @property
    def seconds(self) -> float:
        return max(int(line.split()[1]) for line in self.lines) / 1e6

    @property
    def unlinked(self) -> set[str]:
        """The paths that it unlinks."""
        found = (re.fullmatch(r'\d+ \d+ unlink "(/[^"]+)" -?\d+\n', line) for line in self.lines)
        return {path[1] for path in found if path is not None}


def cut(path: Path, seconds: float) -> Script:
    """The first seconds of a script."""
    lines = path.read_text().splitlines(keepends=True)
    return Script([line for line in lines if int(line.split()[1]) <= seconds * 1e6])


def timed(command: Sequence[str | Path], printed: Path) -> tuple[float, os.struct_rusage_t]:
    """Seconds and resources of a program that ends well; what it prints goes to a file."""
    began = time.monotonic()
    with printed.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]}: status {process.returncode}: {printed.read_text(errors='replace')[-500:]}")
    return time.monotonic() - began, used


def number(pattern: str, text: str) -> int:
    """The number that a program printed."""
    found = re.search(pattern, text)
    if found is None:
        sys.exit(f"mobibench has not printed {pattern}: {text[-500:]}")
    return int(found[1])


# -- the original -----------------------------------------------------------------------------------------------------


def compiled(repository: Path, directory: Path) -> Path:
    """The original as a program that needs no other file."""
    source = output("git", "-C", repository, "show", "HEAD:shell/mobibench.c")
    program = directory / "mobibench"
    libraries = ("-lsqlite3", "-lm", "-lz", "-lpthread", "-ldl")
    command = ("gcc", "-O2", "-w", "-static", "-x", "c", "-", "-o", program, *libraries)
    subprocess.run(command, input=source, text=True, check=True, stderr=subprocess.DEVNULL)
    return program


def original(program: Path, script: Script, scratch: Path) -> Replay:
    def replay(top: Path) -> Done:
        room = top / "original"
        (room / "run").mkdir(parents=True)
        shutil.copy(program, room / "mobibench")
        (room / "script").write_text("".join(script.lines))
        strangers = [room / path.removeprefix("/") for path in sorted(script.unlinked)]
        for stranger in strangers:
            stranger.parent.mkdir(parents=True, exist_ok=True)
            stranger.touch()
        for directory, _, _ in os.walk(room):
            os.chown(directory, NOBODY, NOBODY)
        printed = scratch / "mobibench.printed"
        command = ("chroot", f"--userspec={NOBODY}:{NOBODY}", room, "/mobibench", "-q", "-p", "/run", "-g", "/script")
        elapsed, used = timed(command, printed)
        text = printed.read_text(errors="replace")
        patterns = (r"IO count : (\d+)", r"Write: (\d+)", r"Read: (\d+)", r"\((\d+) usec\)")
        calls, written, read_bytes, io_us = (number(pattern, text) for pattern in patterns)
        left = sum(len(files) for _, _, files in os.walk(room / "run"))
        deleted = sum(not stranger.exists() for stranger in strangers)
        shutil.rmtree(room)
        return Done(
            recorded_s=script.seconds,
            elapsed_s=elapsed,
            user_s=used.ru_utime,
            system_s=used.ru_stime,
            io_s=io_us / 1e6,
            calls=calls,
            written=written,
            read=read_bytes,
            left=left,
            deleted=deleted,
            late_p99_ms=None,
        )

    return replay


# -- ours -------------------------------------------------------------------------------------------------------------


def ours(script: Path, unknown: str, scratch: Path) -> Replay:
    """A replay of the program that is made of the script."""
    with warnings.catch_warnings(action="ignore", category=LossWarning):
        recording = androstep.open(script)
    program = scratch / f"{unknown.replace(' ', '-')}.rec"
    clean(recording.syscalls, recording.tables["tasks"], unknown=unknown).program.write(program)

    def replay(top: Path) -> Done:
        results = scratch / "results.rec"
        timed((IOREPLAY, "-o", results, program, top / "ours"), scratch / "ioreplay.printed")
        tables = read(results).tables
        operations, run = tables["replay_ops"], tables["replay_runs"].row(0, named=True)
        late = (operations["start_ns"] - operations["due_ns"]).quantile(0.99)
        moved = {
            what: int(operations.filter(operations["call"].cast(str).is_in(calls))["bytes"].sum())
            for what, calls in (("written", WRITES), ("read", READS))
        }
        left = sum(len(files) for _, _, files in os.walk(top / "ours"))
        results.unlink()
        return Done(
            recorded_s=run["recorded_ns"] / 1e9,
            elapsed_s=run["duration_ns"] / 1e9,
            user_s=run["cpu_user_ns"] / 1e9,
            system_s=run["cpu_system_ns"] / 1e9,
            io_s=operations["latency_ns"].sum() / 1e9,
            calls=run["done"],
            **moved,
            left=left,
            deleted=0,
            late_p99_ms=None if late is None else late / 1e6,
        )

    return replay


# -- rounds -----------------------------------------------------------------------------------------------------------


def show(name: str, rounds: Sequence[Done]) -> None:
    """Medians of all rounds, and what else there is to say."""
    print(f"\n{name}")
    for number, field in enumerate(fields(Done)):
        values = [value for value in (astuple(done)[number] for done in rounds) if value is not None]
        if values:
            print(f"  {field.name:12}{statistics.median(values):16.3f}  ({min(values):.3f} .. {max(values):.3f})")
    core = statistics.median((done.user_s + done.system_s) / done.elapsed_s for done in rounds)
    longer = statistics.median(done.elapsed_s / done.recorded_s for done in rounds)
    print(f"  of one core {core:16.2%}")
    print(f"  elapsed by recorded {longer:8.4f}")
    if len(rounds) > 1:
        print(f"  the same each time: {'yes' if len({done.work for done in rounds}) == 1 else 'no'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("script", type=Path, help="script of MobiGen")
    parser.add_argument("--mobibench", type=Path, metavar="REPOSITORY")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="androstep-replay-") as directory:
        scratch = Path(directory)
        script = cut(arguments.script, arguments.seconds)
        part = scratch / "script"
        part.write_text("".join(script.lines))
        contenders = {
            "ioreplay, known": ours(part, "leave out", scratch),
            "ioreplay, all": ours(part, "files", scratch),
        }
        if arguments.mobibench:
            contenders["mobibench -g"] = original(compiled(arguments.mobibench, scratch), script, scratch)
        print(f"{len(script.lines)} lines in {script.seconds:.3f} s")
        image = scratch / "ext4"
        loops.make_ext4(image, nr_mib=IMAGE_MIB)
        rounds: dict[str, list[Done]] = {name: [] for name in contenders}
        with loops.mounted(image) as filesystem:
            for _ in range(arguments.rounds):
                for name, replay in contenders.items():
                    os.sync()
                    rounds[name].append(replay(filesystem.top))
        for name, done in rounds.items():
            show(name, done)


if __name__ == "__main__":
    main()
