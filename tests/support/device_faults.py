"""Run each operation on a phone while a fault occurs; report the messages, results and remains on the phone.

``python -m support.device_faults`` in tests/ (as root, with the probes built) prints the table of docs/device.md.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import time
import urllib.parse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from adbd import LOCKED, PIXEL, FakePhone, Faults, Model, phone

from androstep_analysis import capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import Device, connect, probe
from androstep_analysis.device.record import recording
from androstep_analysis.device.session.job import Job
from androstep_analysis.ingest import record
from support import tracing
from support.devices import home
from support.loops import attached
from support.replay_programs import opened, program

SENT = os.urandom(5_000_000)
BLOCKS = 100
LONG_S = "3"
"""Run time of programs that must be running when the fault strikes, in seconds."""
DISK_BYTES = 128 << 20


@dataclass(frozen=True)
class Fault:
    """A fault. `strike` is called while the operation's program runs on the phone; `faults` apply from the start."""

    name: str
    faults: dict[str, Any] = field(default_factory=dict)
    model: Model = PIXEL
    strike: Callable[[FakePhone, str], None] | None = None
    patience_s: float = 60


def fill(fake: FakePhone) -> None:
    """Fill the phone's storage."""
    with (fake.tmp / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("link lost once", {"cut_push_after": 1_000_000}, strike=lambda fake, _: fake.disconnect()),
        Fault("device restarts", {"reboot_push_after": 1_000_000}, strike=lambda fake, _: fake.reboot(), patience_s=0),
        Fault("byte damaged", {"corrupt_push_at": 1_000_000}),
        Fault("slow link", {"bytes_per_s": 40e6}),
        Fault("disk too small", {"disk_bytes": 3 << 20}),
        Fault("disk gets full", strike=lambda fake, _: fill(fake)),
        Fault("no root", model=LOCKED),
        Fault("no tracefs", {"no_tracefs": True}),
        Fault("probe killed", strike=lambda fake, name: fake.kill(name)),
    )
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of an operation during a fault.

    - `said`: the messages to the user, with … for names that differ.
    - `kept`: the result on this machine.
    - `left`: what remains on the phone, if known.
    """

    said: str
    kept: str
    left: str


class Bench:
    """The operations, and the fault that strikes during them."""

    def __init__(self, device: Device, fake: FakePhone, place: Path, strike: Callable[[], None]) -> None:
        self.device, self.fake, self.place, self.strike = device, fake, place, strike

    def push(self) -> str:
        (self.place / "sent").write_bytes(SENT)
        self.device.push(self.place / "sent", "/data/local/tmp/sent")
        self.strike()
        return "copied" if (self.fake.tmp / "sent").read_bytes() == SENT else "damaged"

    def pull(self) -> str:
        (self.fake.tmp / "there").write_bytes(SENT[: 2 << 20])
        (self.fake.tmp / "there").chmod(0o644)
        self.strike()
        self.device.pull("/data/local/tmp/there", self.place / "back")
        return "copied" if (self.place / "back").read_bytes() == SENT[: 2 << 20] else "damaged"

    def bench(self) -> str:
        words = ["--rw", "write", "--size", "256k", "--cache", "any", "--runtime", LONG_S, "--repeats", "1"]
        with self.striking("iobench"):
            ran = self.device.bench(words, self.place / "capture")
        return f"status {ran.status}, {_runs(ran.capture, 'bench')}"

    def replay(self) -> str:
        write = {"call": "write", "descriptor": 1, "bytes": 4096, "result": 4096, "ts_ns": int(LONG_S) * 1_000_000_000}
        made = program(
            [opened(1, "file"), write, {"call": "close", "descriptor": 1, "ts_ns": int(LONG_S) * 1_000_000_000 + 1}]
        )
        made.write(self.place / "app.rec")
        with self.striking("ioreplay"):
            ran = self.device.replay(self.place / "app.rec", "/data/local/tmp/replay", self.place / "capture")
        return f"status {ran.status}, {_runs(ran.capture, 'replay')}"

    def record(self) -> str:
        (self.place / "image").write_bytes(bytes(4 << 20))
        with attached(self.place / "image") as loop:
            with self.device.record(out=self.place / "capture", preset="block", trace=[loop]) as recorded:
                self.strike()
                for block in range(0, BLOCKS, 2):
                    write_block(loop, block)
            assert recorded.capture is not None
            writes = recorded.capture.requests.filter(pl.col("op") == "write").collect()
        return f"{writes['sector'].n_unique()} of {BLOCKS // 2} requests"

    def monitor(self) -> str:
        with self.device.monitor(self.place / "capture", hz=50) as monitoring:
            self._wait_for_samples()
            self.strike()
        assert monitoring.capture is not None
        return "samples" if monitoring.capture.samples.collect().height else "no samples"

    def _wait_for_samples(self) -> None:
        """Wait until procmon has written text records, which it does once a second despite interrupts."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for path in self.fake.tmp.rglob("samples.rec"):
                with contextlib.suppress(InputError, KeyError):  # the first blocks are of other types
                    if record.read(path).tables["text"].height:
                        return
            time.sleep(0.1)
        raise AssertionError("procmon wrote no samples")

    @contextlib.contextmanager
    def striking(self, name: str) -> Iterator[None]:
        """Strike when the program first reports progress: by then all its files are in place."""
        poll, struck = Job.poll, []

        def polled(job: Job) -> list[str]:
            lines = poll(job)
            if not struck and any(probe.progress(name, line) for line in lines):
                struck.append(name)
                self.strike()
            return lines

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Job, "poll", polled)
            yield


_PROGRAMS = {"bench": "iobench", "replay": "ioreplay", "record": "iotrace", "monitor": "procmon"}


def outcome(fault: Fault, operation: str, place: Path) -> Outcome:
    """Run an operation during a fault and return the outcome."""
    faults = Faults(**({"disk_bytes": DISK_BYTES} | fault.faults))
    if operation != "push":
        faults.cut_push_after = faults.reboot_push_after = None
    said, sentences = io.StringIO(), []
    with (
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(record=True) as warned,
        home(place) as patch,
        phone(place, model=fault.model, faults=faults) as fake,
    ):
        warnings.simplefilter("always")
        patch.setattr(recording, "MEMORY", ("/data/local/tmp",))

        def strike() -> None:
            if fault.strike is not None and (fault.name != "disk gets full" or operation in _PROGRAMS):
                fault.strike(fake, _PROGRAMS.get(operation, ""))

        kept = "nothing"
        with connect(fake.address, patience_s=fault.patience_s) as device:
            try:
                kept = getattr(Bench(device, fake, place, strike), operation)()
            except InputError as error:
                sentences.append(str(error))
                assert not (place / "back").exists() and not (place / "capture").exists()
        left = _left(fake) if fake.is_reachable() else "gone"
    _forget_instance(said.getvalue(), place)
    notices = [line.removeprefix("androstep: ") for line in said.getvalue().splitlines() if line.strip()]
    sentences = [*notices, *(str(warning.message) for warning in warned), *sentences]
    shown = [_without_places(one, fake.address, place) for one in sentences if not re.search(_ASIDE, one)]
    return Outcome("; ".join(shown), kept, left)


_ASIDE = "^iotrace: removed trace instance|the probe counted"
"""Messages that depend on other programs of this machine."""


def _forget_instance(said: str, place: Path) -> None:
    """Remove the trace instance of a recording whose device "restarted": its kernel is this one, which did not."""
    kept = re.search(r"the recording is kept in (\S+) on", said)
    if kept is None:
        return
    with tracing.mounted(place) as top:
        for instance in (top / "instances").glob("androstep.*"):
            if kept[1] in urllib.parse.unquote(instance.name):
                with contextlib.suppress(OSError):
                    instance.rmdir()


def _left(fake: FakePhone) -> str:
    names = sorted(path.name for path in fake.tmp.iterdir() if path.name not in {"sent", "there", "filler"})
    running = sorted(set(fake.processes().values()))
    return ", ".join([*names, *running]) or "nothing"


def _without_places(sentence: str, address: str, place: Path) -> str:
    """Replace what differs from run to run in a message."""
    sentence = sentence.replace(address, "PHONE").replace(str(place), "HERE")
    sentence = re.sub(r"androstep-\w{16}", "androstep-…", sentence)
    return re.sub(r"\s+", " ", sentence)


def _runs(made: capture.Capture | None, kind: str) -> str:
    if made is None:
        return "no capture"
    runs = getattr(made, kind)[f"{kind}_runs"].height
    return f"{runs} run" if runs == 1 else f"{runs} runs"


def write_block(loop: str, block: int) -> None:
    """Make one request."""
    fd = os.open(loop, os.O_WRONLY | os.O_SYNC)
    try:
        os.pwrite(fd, bytes([block + 1]) * 4096, block * 8192)
    finally:
        os.close(fd)


CELLS = (
    *(
        (name, operation)
        for name in ("link lost once", "device restarts")
        for operation in ("push", "pull", *_PROGRAMS)
    ),
    *(("byte damaged", "push"), ("slow link", "push"), ("slow link", "pull"), ("disk too small", "push")),
    *(("disk gets full", "bench"), ("disk gets full", "record")),
    *(("no root", "bench"), ("no root", "record"), ("no root", "monitor"), ("no tracefs", "record")),
    # A killed iotrace leaves a trace instance in the kernel. The iotrace of a concurrent test may remove it, because it
    # cannot see this phone's files. test_device_record.py tests this case in isolation.
    *(("probe killed", "bench"), ("probe killed", "replay"), ("probe killed", "monitor")),
)


def main() -> None:
    """Print the table."""
    print("| fault | operation | what is said | kept here | left on the device |\n|---|---|---|---|---|")
    for fault, operation in CELLS:
        with tempfile.TemporaryDirectory() as place:
            found = outcome(FAULTS[fault], operation, Path(place))
        print(f"| {fault} | {operation} | {found.said} | {found.kept} | {found.left} |", flush=True)


if __name__ == "__main__":
    main()
