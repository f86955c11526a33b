"""A recording on a phone without root: its own Perfetto records, and its capture is made here.

The recording goes on when the link is lost. What is known of it is in a directory of the device until its capture is
made, the trace where Android lets Perfetto write it. Perfetto's SELinux domain may not read the files of adb's shell
(AOSP, system/sepolicy, private/perfetto.te), so that it gets its configuration, and gives its output, through pipes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.device.record import perfetto
from androstep_analysis.device.record.recording import ABOUT, about, capture_of, fetch_later, kept_on_failure, place_of
from androstep_analysis.device.session import Session, left
from androstep_analysis.device.session.facts import Block, Facts, facts
from androstep_analysis.device.session.job import Job
from androstep_analysis.device.session.queries import query_all
from androstep_analysis.device.session.shell import PREFIX
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.transport.parse import count
from androstep_analysis.device.workloads import Ran
from androstep_analysis.ingest.recording import FILE_NAME

TRACES: Final = "/data/misc/perfetto-traces"
"""Where Perfetto may write on Android, and adb's shell may read and remove."""

_NO_PERFETTO: Final = "and no perfetto that would record without"

_POLL_S: Final = 0.5
_START_S: Final = 90.0
"""Perfetto itself waits for its data sources for 30 s."""
_END_S: Final = 600.0

_SAID: Final = {
    "packages": "pm list packages -f -U",
    "properties": "getprop | grep -E '^.ro[.](build|product|soc|board|hardware|crypto|boot[.]hardware)[.]'",
    "mounts": "cat /proc/self/mountinfo",
    "diskstats": "cat /proc/diskstats",
    "storage of applications": "dumpsys diskstats",
    "bytes by user": "dumpsys storaged",
}
"""What adb's shell may ask a phone. Properties that identify a phone, such as its serial number, are left out."""


class StockRecording:
    """Records a phone without root while a ``with`` block runs; afterwards `capture` has what was recorded.

    `out` is the capture directory to make, `workload` its name in table captures (by default the command). `command` is
    run on the device, and the block's end waits for it. `seconds` ends the recording early; it ends by itself after
    `perfetto.LONGEST_S`. `needing_root` are options of `Recording` that nothing but root can meet.
    """

    def __init__(
        self,
        device: Session,
        *,
        out: str | PathLike[str],
        workload: str | None = None,
        command: Sequence[str] = (),
        seconds: int | None = None,
        **needing_root: Any,
    ) -> None:
        self.device = device
        self.out = Path(out)
        self.capture: Capture | None = None
        """What was recorded, when the block has ended."""
        self._about = {"workload": workload or " ".join(command) or None, "recorder": left.process(os.getpid())}
        self._command = list(command)
        self._seconds = perfetto.LONGEST_S if seconds is None else seconds
        self._needs_root = bool(needing_root)
        self._directory = ""
        self._job: Job | None = None

    def __enter__(self) -> Self:
        capture.refuse_existing(self.out)
        device = self.device
        if self._needs_root or not device.holds("command -v perfetto"):
            why = (
                "which a preset, read-ahead, a choice of devices and samples need" if self._needs_root else _NO_PERFETTO
            )
            raise DeviceError(f"{device.name}: no root there, {why}; root the device, or allow adb's shell to use su")
        notify(f"{device.name}: no root there: its own perfetto records what Android permits (docs/stock_phone.md)")
        for directory in unfetched(device):
            if not left.is_at_work(about(device, directory).get("recorder")):
                notify(fetch_later(device, directory))
        self._directory = device.new_directory(device.scratch)
        try:
            self._begin()
        except LinkLost:
            notify(fetch_later(device, self._directory))
            raise
        except BaseException:
            _end(device, self._directory)
            _remove(device, self._directory)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._command:
                self.wait()
        except BaseException:
            notify(fetch_later(self.device, self._directory))
            raise
        self.capture = fetch(self.device, self._directory, self.out)

    def wait(self) -> None:
        """Return when the command or the time has ended, or Ctrl-C is pressed."""
        with contextlib.suppress(KeyboardInterrupt):
            if self._job is not None:
                if status := self._job.wait(notify):
                    notify(f"{self.device.name}: the command ended with status {status}")
            else:
                while _is_running(self.device, self._directory):
                    time.sleep(_POLL_S)

    def add(self, ran: Ran) -> None:
        """Take in what a workload did meanwhile: its steps and snapshots become part of the capture."""
        there = place_of(self.out, self._directory)
        there.mkdir(parents=True, exist_ok=True)
        ran.files(there)

    def _begin(self) -> None:
        device, directory = self.device, self._directory
        known = facts(device)
        before = _said(device)
        with TemporaryDirectory() as here:
            path = Path(here, ABOUT)
            path.write_text(json.dumps(self._about | {"before": before}), encoding="utf-8")
            device.push(path, f"{directory}/{ABOUT}")
        absent = [name for name, lines in before.items() if not lines]
        if absent:
            notify(f"{device.name}: the phone does not say: {', '.join(absent)}")
        fs_types = {mount.fs_type for mount in known.mounts}.intersection(perfetto.FILESYSTEMS)
        _start(device, directory, perfetto.config(fs_types, self._seconds))
        if self._command:
            self._job = device.start(self._command)


def fetch(device: Session, directory: str, out: Path) -> Capture:
    """End the recording of `directory` of the device where it still runs, and make its capture at `out`.

    The files are first copied beside `out`, and then removed from the device. They stay there where no capture can be
    made of them.
    """
    try:
        there, workload = _copied(device, directory, out)
    except BaseException:
        notify(fetch_later(device, directory))
        raise
    with kept_on_failure(there):
        made = capture_of(there, out, workload, {})
    shutil.rmtree(there)
    return made


def unfetched(device: Session) -> list[str]:
    """Return the directories of the device that belong to recordings, whether or not they have ended."""
    own = f'd=${{f%/*}}; [ -O "$d" ] && [ ! -L "$d" ] && [ -e "{TRACES}/${{d##*/}}" ] && echo "$d"'
    text = f"for f in {quoted([device.scratch])}/{PREFIX}*/{ABOUT}; do {own}; done; true"
    return device.ensure(text, "look for recordings").decode("utf-8", "replace").splitlines()


def _trace(directory: str) -> str:
    return f"{TRACES}/{directory.rpartition('/')[2]}"


def _said(device: Session) -> dict[str, list[str]]:
    return query_all(device, _SAID, root=False)


def _start(device: Session, directory: str, config: str) -> None:
    """Start Perfetto; once, also where this is done again because the answer was lost."""
    trace = quoted([_trace(directory)])
    # Since Android 12 it can return when all data sources have begun.
    waits = 'case "$(perfetto --help 2>&1)" in *--background-wait*) b=--background-wait;; *) b=--background;; esac'
    run = f'printf %s {quoted([config])} | perfetto "$b" --txt -c - -o {trace} 2>&1 | cat >"$D/said.new"'
    once = f'if mkdir "$D/begun" 2>/dev/null; then {waits}; {run}; mv "$D/said.new" "$D/said"; fi'
    until = f'n=0; until [ -e "$D/said" ] || [ $n -ge {int(_START_S * 10)} ]; do sleep 0.1; n=$((n + 1)); done'
    text = f'trap "" HUP; D={quoted([directory])}; {once}; {until}; cat "$D/said"'
    said = device.ensure(text, "start perfetto", timeout_s=2 * _START_S).decode("utf-8", "replace")
    if _pid(said) is None or not device.holds(f"[ -s {trace} ] || {_running(directory)}"):
        raise DeviceError(f"{device.name}: perfetto did not begin: {' '.join(said.split()) or 'it said nothing'}")


def _pid(said: str) -> int | None:
    """Return the process that Perfetto printed, on a line of its own."""
    found = re.search(r"^\d{1,9}\s*$", said, re.MULTILINE | re.ASCII)
    return None if found is None else count(found[0].strip().encode())


def _running(directory: str) -> str:
    """Return a condition for the shell: the process of this number is still the Perfetto that writes the trace."""
    pid = f'p=$(grep -xE "[0-9]+" {quoted([f"{directory}/said"])} | head -n 1)'
    name = quoted([directory.rpartition("/")[2]])
    return f'{{ {pid}; [ -n "$p" ] && grep -q {name} "/proc/$p/cmdline" 2>/dev/null; }}'


def _is_running(device: Session, directory: str) -> bool:
    return device.holds(_running(directory))


def _end(device: Session, directory: str) -> None:
    """End Perfetto and return when its trace is whole."""
    device.query(f'{_running(directory)} && kill -TERM "$p"')
    deadline = time.monotonic() + _END_S
    while _is_running(device, directory):
        if time.monotonic() > deadline:
            raise DeviceError(f"{device.name}: perfetto does not end; its trace is {_trace(directory)}")
        time.sleep(_POLL_S)


def _remove(device: Session, directory: str) -> None:
    device.ensure(f"rm -f {quoted([_trace(directory)])}", "remove the trace")
    device.remove(directory)


def _copied(device: Session, directory: str, out: Path) -> tuple[Path, object]:
    """Return the directory here with the recording, which is no more on the device, and its workload."""
    stated = about(device, directory)
    _end(device, directory)
    after = _said(device)
    known = facts(device)
    there = place_of(out, directory)
    there.mkdir(parents=True, exist_ok=True)
    device.pull(_trace(directory), there / "trace.pftrace")
    described = _described(known) | {"shell": {"before": stated.get("before"), "after": after}}
    (there / FILE_NAME).write_text(json.dumps(described, indent=1), encoding="utf-8")
    _remove(device, directory)
    return there, stated.get("workload")


def _described(known: Facts) -> dict[str, Any]:
    """Return what is known of the device, in the form of the recording.json that iotrace writes."""
    devices = list(_devices(known.blocks))
    block_devices = {row["dev"] for row in devices}
    mounts = [
        {"dev": mount.dev, "path": mount.path, "fs_type": mount.fs_type, "options": mount.options}
        for mount in known.mounts
        if mount.dev in block_devices or mount.source.startswith("/dev/")
    ]
    return {
        "facts": known.stated() | {"rooted": False},
        "realtime_offset_ns": None,
        "devices": devices,
        "mounts": mounts,
        "lost_events": 0,
    }


def _devices(blocks: Mapping[str, Block]) -> Iterator[dict[str, Any]]:
    """The block devices whose sizes the phone states to its shell."""
    for block in blocks.values():
        parent = blocks.get(block.parent or "")
        if block.nr_sectors:
            yield {
                "dev": block.dev,
                "name": block.name,
                "parent": None if parent is None else parent.dev,
                "start_sector": block.start_sector or 0,
                "nr_sectors": block.nr_sectors,
                "lies_on": [blocks[name].dev for name in block.slaves if name in blocks],
            }
