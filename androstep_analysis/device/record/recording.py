"""Record a device with iotrace while something runs, and make the capture here.

The recording is stored in a directory in the device's memory, and iotrace continues while the link is lost. The
directory stays until the capture is made, whatever fails here; `recovery.recover` can fetch it later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.device.record import knowledge, perfetto_session
from androstep_analysis.device.record.perfetto import config_with_root
from androstep_analysis.device.record.segments import Fetching
from androstep_analysis.device.session import Session, left
from androstep_analysis.device.session.facts import Facts, facts
from androstep_analysis.device.session.job import KILLED, SHOWN, Job
from androstep_analysis.device.session.shell import PREFIX
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.workloads import Ran
from androstep_analysis.ingest import record, recording
from androstep_analysis.ingest.ftrace import segments

ABOUT = "about.json"
"""File in a recording's directory on the device that describes the recording."""

IOTRACE, PROCMON = "iotrace", "procmon"

PERFETTO = "perfetto"
"""Key of that description: the directory of Perfetto's session on the device, if it records too."""

MEMORY = ("/dev/shm", "/dev")  # /dev is a tmpfs on every Android
"""Directories in memory to record into. On storage, a recording would record its own writes."""

_FILES = ("recording.json", "trace.dat", "before.rec", "after.rec", "names.rec", "samples.rec")
_OPTIONAL_FILES = ("after.rec", "names.rec", "samples.rec")
"""Optional files: a capture can be made without them."""

_WITHOUT_FILES = "block"
"""The preset that records nothing about files."""

_FEW_BYTES = 1 << 16
_BEGIN_S = 0.1
_FINISH_S = 600.0


class Recording:
    """Records a device while a ``with`` block runs. Afterwards `capture` holds the recording.

    - `out` is the new capture directory.
    - `workload` is its name in table captures (default: the command).
    - `preset` and `trace` (paths or ``MAJ:MIN``) are iotrace's choice of events and of storage devices.
    - `seconds` ends the recording early.
    - `command` is run and traced on the device. The end of the block waits for it.
    - `monitor_hz` also samples counters of the kernel and of processes.
    - `readahead` also records which pages are requested (measure `readahead`).
    - `memory` is a directory of the device to record into, by default one in memory.
    - `segment_s` makes the recording available while it runs, in segments of that many seconds (`segments`).
    - `perfetto` records with the phone's own Perfetto too, if it has one: frames, slices and packages (role phone).
    - `switches` lets Perfetto also record when threads sleep (table `blocked`).
    - Without `keeps`, no capture is made at the end, and nothing is left on the device.

    An exception in the block is raised again after the capture was made.
    """

    def __init__(
        self,
        device: Session,
        *,
        out: str | PathLike[str],
        workload: str | None = None,
        preset: str = "block+fs",
        command: Sequence[str] = (),
        trace: Sequence[str] = (),
        seconds: int | None = None,
        memory: str | None = None,
        monitor_hz: int | None = None,
        segment_s: int | None = None,
        keeps: bool = True,
        readahead: bool = False,
        perfetto: bool = True,
        switches: bool = False,
    ) -> None:
        self.device = device
        self.out = Path(out)
        self.keeps = keeps
        self.capture: Capture | None = None
        """The recording, once the block has ended."""
        self._preset = preset
        self._about = {"workload": workload or " ".join(command) or None, "recorder": left.process(os.getpid())}
        self._options = [
            *("--preset", preset),
            *(("--readahead",) if readahead else ()),
            *(word for one in trace for word in ("--device", one)),
            *(() if seconds is None else ("--time", str(seconds))),
            *(() if segment_s is None else ("--segment", str(segment_s))),
        ]
        self._command = list(command)
        self._awaits_command = bool(command)
        self._memory = memory
        self._monitor_hz = monitor_hz
        self._perfetto_config = config_with_root(switches=switches) if perfetto else None
        self._directory = ""
        self._jobs: dict[str, Job] = {}

    def __enter__(self) -> Self:
        capture.refuse_existing(self.out)
        if self._preset != _WITHOUT_FILES:
            self._show_limits()
        for directory in unfetched(self.device):
            if not left.is_at_work(about(self.device, directory).get("recorder")):
                notify(fetch_later(self.device, directory))
        place = self._memory or _memory(self.device)
        self._directory = self.device.new_directory(place, root=True)
        try:
            self._begin()
        except BaseException:
            self._give_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.keeps:
            self._give_up()
            return
        iotrace = self._jobs[IOTRACE]
        for job in self._jobs.values():
            self.device.forget(job)  # keep the recording even if `close` follows
        try:
            if kind is None and self._awaits_command:
                self.wait()
            iotrace.end()
            iotrace.wait(notify)
        except BaseException:
            notify(fetch_later(self.device, self._directory))
            raise
        self.capture = fetch(self.device, self._directory, self.out)

    def wait(self) -> None:
        """Wait until iotrace ends, with its command or its time, or until Ctrl-C is pressed."""
        try:
            self._jobs[IOTRACE].wait(notify)
        except KeyboardInterrupt:
            self._awaits_command = False

    def segments(self) -> Fetching:
        """Return an object that fetches the new part of the recording at each call."""
        there = place_of(self.out, self._directory)
        return Fetching(self.device, self._jobs[IOTRACE], f"{self._directory}/recording", there)

    def add(self, ran: Ran) -> None:
        """Add what a workload did during the recording: its steps and snapshots become part of the capture."""
        there = place_of(self.out, self._directory)
        there.mkdir(parents=True, exist_ok=True)
        ran.files(there)

    def _begin(self) -> None:
        device, directory = self.device, self._directory
        if self._perfetto_config is not None and (begun := _begin_perfetto(device, self._perfetto_config)):
            self._about[PERFETTO] = begun
            self._options += ["--clock", "boot"]  # Perfetto's
        about, inside = quoted([json.dumps(self._about)]), quoted([f"{directory}/recording"])
        begin = f"printf %s {about} >{quoted([f'{directory}/{ABOUT}'])} && mkdir -p {inside}"
        device.ensure(begin, "begin a recording", root=True)
        if self._monitor_hz is not None:
            words = ["--hz", str(self._monitor_hz), "--record", f"{directory}/recording/samples.rec"]
            self._start(PROCMON, words)
        command = ["--", *self._command] if self._command else []
        self._start(IOTRACE, ["-o", f"{directory}/recording", *self._options, *command])
        self._until_recording()

    def _show_limits(self) -> None:
        """Print what the recording can and cannot report on this kernel, and why."""
        for finding in knowledge.examine(self.device):
            why = f" ({finding.advice})" if finding.advice else ""
            notify(f"{self.device.name}: {finding.what}{why}")

    def _give_up(self) -> None:
        """End what was started, and remove all of it from the device."""
        for name, job in self._jobs.items():
            self.device.end(job)
            self.device.forget(job)
            if name == IOTRACE and job.status == KILLED:
                self.device.sh([self.device.probe(IOTRACE), "--cleanup"], root=True)
        if begun := self._about.get(PERFETTO):
            perfetto_session.end(self.device, begun)
            perfetto_session.remove(self.device, begun)
        self.device.remove(self._directory, root=True)

    def _start(self, name: str, words: Sequence[str]) -> None:
        program = self.device.probe(name)
        # Write the program to storage first, so that its writeback is not recorded. Some devices lack fsync(1), and
        # some a sync with operands.
        word = quoted([program])
        written = f"fsync {word} 2>/dev/null || sync {word} 2>/dev/null || sync"
        self.device.ensure(written, f"write {name}", root=True, timeout_s=_FINISH_S)
        self._jobs[name] = self.device.start(
            [*SHOWN, program, *words], root=True, directory=f"{self._directory}/{name}"
        )

    def _until_recording(self) -> None:
        """Wait until iotrace records or has ended.

        It records once the initial listing is complete. The listing is made by a child process.
        """
        job = self._jobs[IOTRACE]
        listing = quoted([f"{self._directory}/recording/before.rec"])
        # A command starts after the listing and is also a child of iotrace.
        alone = "true" if self._command else f'! grep -qs "^PPid:[[:space:]]*{job.pid()}$" /proc/[0-9]*/status'
        messages: list[str] = []
        while True:
            messages += job.poll()
            is_listed = self.device.holds(f"[ -e {listing} ] && {alone}", root=True)
            if job.status and not is_listed:
                raise DeviceError(f"{self.device.name}: iotrace did not start: {'; '.join(messages) or job.status}")
            if job.status == 0 or is_listed:
                for line in messages:
                    notify(line)
                return
            time.sleep(_BEGIN_S)


def _begin_perfetto(device: Session, config: str) -> str | None:
    """Start the phone's own Perfetto and return the directory of its session; None if that is not possible."""
    if not device.holds(f"command -v perfetto && [ -d {quoted([perfetto_session.TRACES])} ]"):
        return None
    directory = device.new_directory(device.scratch)
    try:
        perfetto_session.start(device, directory, config)
    except LinkLost:
        raise
    except DeviceError as error:
        notify(f"{error}; there will be no frames, slices and packages")
        perfetto_session.remove(device, directory)
        return None
    return directory


def fetch(device: Session, directory: str, out: Path) -> Capture:
    """End what still runs for the recording in `directory` of the device, and make its capture at `out`.

    The files are first copied to a directory next to `out`, and then removed from the device. If no capture can be
    made, they remain there. Warns (`LossWarning`) if iotrace was killed or ran out of space.
    """
    try:
        known, stated = facts(device), about(device, directory)
        there = _copied(device, directory, out, stated.get(PERFETTO))
    except BaseException:
        notify(fetch_later(device, directory))
        raise
    with kept_on_failure(there):
        made = capture_of(there, out, stated.get("workload"), known.stated(_traced(known, there)))
    shutil.rmtree(there)
    return made


def capture_of(there: Path, out: Path, workload: object, facts: Mapping[str, Any]) -> Capture:
    """Make the capture `out` of the recording in directory `there`."""
    stated = {**facts, **({"workload": workload} if isinstance(workload, str) else {})}
    return capture.create([there], out, capture.Description(facts=stated))


@contextlib.contextmanager
def kept_on_failure(there: Path) -> Iterator[None]:
    """Print the directory of a recording if making its capture fails."""
    try:
        yield
    except BaseException:
        notify(f"the recording is kept in {there}; `androstep ingest` makes a capture of it")
        raise


def unfetched(device: Session) -> list[str]:
    """Return the directories of the device that hold recordings, running or ended."""
    places = dict.fromkeys((*MEMORY, device.scratch))
    names = " ".join(f"{quoted([place])}/{PREFIX}*/{ABOUT}" for place in places)
    # Any user can create directories in /dev/shm. Ignore those of other users: their files could name a process to end.
    kept = '[ -e "$d/recording/trace.dat" ] || [ -e "$d/recording/unfinished" ]'
    began = f'd=${{f%/*}}; [ -O "$d" ] && [ ! -L "$d" ] && {{ {kept}; }} && echo "$d"'
    text = f"for f in {names}; do {began}; done; true"
    return device.ensure(text, "look for recordings", root=True).decode("utf-8", "replace").splitlines()


def _traced(known: Facts, there: Path) -> str | None:
    """Return the mount point of a recorded filesystem: /data if it was recorded."""
    described = recording.known(there)
    traced = {row["dev"] for row in described.devices if row.get("traced") is not False}
    if known.data is not None and known.data.dev in traced:
        return known.data.path
    return next((str(mount["path"]) for mount in described.mounts if mount["dev"] in traced), None)


def _copied(device: Session, directory: str, out: Path, perfetto: object) -> Path:
    """Finish the recording, copy all of its files to a local directory, and remove it from the device."""
    for name in (IOTRACE, PROCMON):
        if _has(device, f"{directory}/{name}", "-d"):
            job = Job(device, f"{directory}/{name}", root=True)
            job.end()
            if job.wait() and name == PROCMON:
                reason = job.errors() or job.status
                warnings.warn(LossWarning(f"{device.name}: procmon failed: {reason}"), stacklevel=3)
    if _has(device, f"{directory}/recording/unfinished", "-d"):
        warnings.warn(LossWarning(f"{device.name}: iotrace did not finish; its last events may be lost"), stacklevel=3)
        finish = quoted([device.probe(IOTRACE), "--finish", f"{directory}/recording"])
        text = f"[ ! -d {quoted([f'{directory}/recording/unfinished'])} ] || {finish}"
        device.ensure(text, "assemble the files that iotrace left", root=True, timeout_s=_FINISH_S)
    there = place_of(out, directory)
    there.mkdir(parents=True, exist_ok=True)
    records_too = isinstance(perfetto, str) and re.fullmatch(rf".*/{PREFIX}[0-9a-f]{{16}}", perfetto, re.ASCII)
    if records_too:
        _copy_perfetto(device, str(perfetto), there)
    listed = device.query(f"ls {quoted([f'{directory}/recording'])}", root=True).text.split()
    for name in (name for name in listed if name in _FILES or segments.is_one(name)):
        device.pull(f"{directory}/recording/{name}", there / name, root=True)
    _join_segments(there)
    for name in _OPTIONAL_FILES:
        _drop_if_empty(there / name)
    if records_too:
        perfetto_session.remove(device, str(perfetto))
    device.remove(directory, root=True)
    return there


def _copy_perfetto(device: Session, directory: str, there: Path) -> None:
    """End the session of Perfetto and copy its trace, if there is one."""
    perfetto_session.end(device, directory)
    if device.holds(f"[ -s {quoted([perfetto_session.trace_of(directory)])} ]"):
        device.pull(perfetto_session.trace_of(directory), there / "phone.pftrace")


def _join_segments(there: Path) -> None:
    """Join the segments fetched earlier and the rest into trace.dat."""
    earlier = sorted(path for path in there.iterdir() if segments.is_one(path.name))
    if earlier:
        segments.join([*earlier, there / "trace.dat"], there / "joined", is_whole=True)
        (there / "joined").replace(there / "trace.dat")
    for path in earlier:
        path.unlink()


def _drop_if_empty(path: Path) -> None:
    """Remove a file without records, as left by a full disk. No capture could be made with it."""
    if not path.exists() or path.stat().st_size > _FEW_BYTES:
        return
    try:
        record.read(path)
    except InputError as error:
        warnings.warn(LossWarning(f"{error}; the capture does not include it"), stacklevel=4)
        path.unlink()


def _has(device: Session, path: str, kind: str) -> bool:
    """Return whether the device has a file (``-f``) or directory (``-d``)."""
    return device.holds(f"[ {kind} {quoted([path])} ]", root=True)


def about(device: Session, directory: str) -> dict[str, Any]:
    """Return the description of a recording: its workload, and the process that records (`process`)."""
    text = device.query(f"cat {quoted([f'{directory}/{ABOUT}'])}", root=device.has_root).text
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return stated if isinstance(stated, dict) else {}


def fetch_later(device: Session, directory: str) -> str:
    """Return a message on how to fetch a recording later."""
    until = " until it restarts" if directory.startswith(MEMORY) else ""
    return (
        f"the recording is kept in {directory} on the device{until}; fetch it with "
        f"`androstep record --on {device.name} --recover -o CAPTURE`"
    )


def place_of(out: Path, directory: str) -> Path:
    """Return the local directory of a recording's files until its capture is made.

    Each recording has its own, so that remains of another recording cannot get into the capture.
    """
    return out.with_name(f"{out.name}.{directory.rpartition('/')[2]}")


def _memory(device: Session) -> str:
    for place in MEMORY:
        if device.holds(f"[ -d {place} ] && [ -w {place} ]", root=True):
            return place
    raise DeviceError(f"{device.name}: none of {', '.join(MEMORY)} can be written to; name a directory to record into")
