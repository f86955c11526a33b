"""Record a phone without root with its own Perfetto, and make the capture here.

The recording continues while the link is lost. Its description is in a directory of the device until the capture is
made; the trace is where Android lets Perfetto write it. Perfetto's SELinux domain may not read the files of adb's shell
(AOSP, system/sepolicy, private/perfetto.te). Therefore its configuration and its output go through pipes.
"""

from __future__ import annotations

import json
import os
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
from androstep_analysis.device.record import perfetto, perfetto_session, shell_listing
from androstep_analysis.device.record.recording import ABOUT, about, capture_of, fetch_later, kept_on_failure, place_of
from androstep_analysis.device.session import Session, left
from androstep_analysis.device.session.facts import Block, Facts, facts
from androstep_analysis.device.session.job import SHOWN, Job
from androstep_analysis.device.session.queries import query_all
from androstep_analysis.device.session.shell import PREFIX
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.workloads import Ran
from androstep_analysis.ingest.recording import FILE_NAME

_LISTINGS: Final = ("before.list", "after.list")

_NO_PERFETTO: Final = "and no perfetto that would record without"

_SAID: Final = {
    "packages": "pm list packages -f -U",
    "properties": "getprop | grep -E '^.ro[.](build|product|soc|board|hardware|crypto|boot[.]hardware)[.]'",
    "mounts": "cat /proc/self/mountinfo",
    "diskstats": "cat /proc/diskstats",
    "storage of applications": "dumpsys diskstats",
    "bytes by user": "dumpsys storaged",
}
"""Queries that adb's shell may run. Properties that identify a phone, such as its serial number, are left out."""


class StockRecording:
    """Records a phone without root while a ``with`` block runs. Afterwards `capture` holds the recording.

    `out` is the new capture directory, `workload` its name in table captures (default: the command). `command` is run
    on the device, and the end of the block waits for it. `seconds` ends the recording early; it ends by itself after
    `perfetto.LONGEST_S`. `packages` are debuggable packages whose files are listed too, in addition to those that
    adb's shell may see. `switches` records when threads sleep (table `blocked`). `needing_root` are options of
    `Recording` that are impossible without root.
    """

    def __init__(
        self,
        device: Session,
        *,
        out: str | PathLike[str],
        workload: str | None = None,
        command: Sequence[str] = (),
        seconds: int | None = None,
        packages: Sequence[str] = (),
        switches: bool = False,
        **needing_root: Any,
    ) -> None:
        self.device = device
        self.out = Path(out)
        self.capture: Capture | None = None
        """The recording, once the block has ended."""
        self._about = {"workload": workload or " ".join(command) or None, "recorder": left.process(os.getpid())}
        self._command = list(command)
        self._awaits_command = bool(command)
        self._packages = list(packages)
        self._seconds = perfetto.LONGEST_S if seconds is None else seconds
        self._switches = switches
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
            raise DeviceError(f"{device.name}: no root access, {why}; root the device, or allow adb's shell to use su")
        notify(f"{device.name}: no root access: its own perfetto records what Android permits (docs/stock_phone.md)")
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
            perfetto_session.end(device, self._directory)
            perfetto_session.remove(device, self._directory)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._awaits_command:
                self.wait()
        except BaseException:
            notify(fetch_later(self.device, self._directory))
            raise
        self.capture = fetch(self.device, self._directory, self.out)

    def wait(self) -> None:
        """Wait until the command or the time has ended, or until Ctrl-C is pressed."""
        try:
            if self._job is not None:
                if status := self._job.wait(notify):
                    notify(f"{self.device.name}: the command ended with status {status}")
            else:
                while perfetto_session.is_running(self.device, self._directory):
                    time.sleep(perfetto_session.POLL_S)
        except KeyboardInterrupt:
            self._awaits_command = False

    def add(self, ran: Ran) -> None:
        """Add what a workload did during the recording: its steps and snapshots become part of the capture."""
        there = place_of(self.out, self._directory)
        there.mkdir(parents=True, exist_ok=True)
        ran.files(there)

    def _begin(self) -> None:
        device, directory = self.device, self._directory
        known = facts(device)
        before, packages = _said(device), shell_listing.permitted(device, self._packages)
        with TemporaryDirectory() as here:
            path = Path(here, ABOUT)
            stated = self._about | {"before": before, "packages": packages}
            path.write_text(json.dumps(stated), encoding="utf-8")
            device.push(path, f"{directory}/{ABOUT}")
        shell_listing.write(device, packages, f"{directory}/{_LISTINGS[0]}")
        absent = [name for name, lines in before.items() if not lines]
        if absent:
            notify(f"{device.name}: the phone does not say: {', '.join(absent)}")
        fs_types = {mount.fs_type for mount in known.mounts}.intersection(perfetto.FILESYSTEMS)
        perfetto_session.start(device, directory, perfetto.config(fs_types, self._seconds, switches=self._switches))
        if self._command:
            self._job = device.start([*SHOWN, *self._command])


def fetch(device: Session, directory: str, out: Path) -> Capture:
    """End the recording in `directory` of the device if it still runs, and make its capture at `out`.

    The files are first copied to a directory next to `out`, and then removed from the device. If no capture can be
    made, they remain there.
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
    """Return the directories of the device that belong to recordings, running or ended."""
    own = f'd=${{f%/*}}; [ -O "$d" ] && [ ! -L "$d" ] && [ -e "{perfetto_session.TRACES}/${{d##*/}}" ] && echo "$d"'
    text = f"for f in {quoted([device.scratch])}/{PREFIX}*/{ABOUT}; do {own}; done; true"
    return device.ensure(text, "look for recordings").decode("utf-8", "replace").splitlines()


def _said(device: Session) -> dict[str, list[str]]:
    return query_all(device, _SAID, root=False)


def _copied(device: Session, directory: str, out: Path) -> tuple[Path, object]:
    """Copy the recording to a local directory, and remove it from the device; return directory and workload."""
    stated = about(device, directory)
    perfetto_session.end(device, directory)
    after = _said(device)
    known = facts(device)
    there = place_of(out, directory)
    there.mkdir(parents=True, exist_ok=True)
    packages = stated.get("packages")
    shell_listing.write(device, packages if isinstance(packages, list) else [], f"{directory}/{_LISTINGS[1]}")
    for name in _LISTINGS:
        if device.holds(f"[ -f {quoted([f'{directory}/{name}'])} ]"):
            device.pull(f"{directory}/{name}", there / name)
    device.pull(perfetto_session.trace_of(directory), there / "trace.pftrace")
    described = _described(known) | {"shell": {"before": stated.get("before"), "after": after}}
    (there / FILE_NAME).write_text(json.dumps(described, indent=1), encoding="utf-8")
    perfetto_session.remove(device, directory)
    return there, stated.get("workload")


def _described(known: Facts) -> dict[str, Any]:
    """Return the facts of the device in the form of the recording.json that iotrace writes."""
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
    """Yield the block devices whose sizes are readable without root."""
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
