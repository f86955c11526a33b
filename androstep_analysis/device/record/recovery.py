"""Recordings that are still on a device: the link was lost for long, this program was killed, or a probe was."""

from __future__ import annotations

import os
from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.device.record import recording
from androstep_analysis.device.session import Session
from androstep_analysis.device.session.shell import PREFIX
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import integer


def recover(device: Session, out: Path) -> list[Capture]:
    """Captures of all recordings in the device's memory: at `out`, and where there are more at ``out-2``, ``out-3``, ….

    Recordings that still run are ended, but for those of programs that are at work on this machine. Raises
    `DeviceError` where there is none.
    """
    found = _unfetched(device)
    left = [directory for directory in found if not _is_at_work(recording.about(device, directory).get("recorder"))]
    if found and not left:
        raise DeviceError(f"{device.name}: whoever records there is still at work; end that with Ctrl-C")
    if not left:
        raise DeviceError(f"{device.name}: no recording is left there; what was in memory is gone when it restarts")
    places = [out if number == 1 else out.with_name(f"{out.name}-{number}") for number in range(1, len(left) + 1)]
    for place in places:
        capture.refuse_existing(place)
    return [recording.fetch(device, directory, place) for directory, place in zip(left, places, strict=True)]


def _unfetched(device: Session) -> list[str]:
    places = dict.fromkeys((*recording.MEMORY, device.scratch))
    names = " ".join(f"{quoted([place])}/{PREFIX}*/{recording.ABOUT}" for place in places)
    # Others may make directories in /dev/shm, too: what they say in one, such as which process to end, does not count.
    kept = '[ -e "$d/recording/trace.dat" ] || [ -e "$d/recording/unfinished" ]'
    began = f'd=${{f%/*}}; [ -O "$d" ] && [ ! -L "$d" ] && {{ {kept}; }} && echo "$d"'
    text = f"for f in {names}; do {began}; done; true"
    return device.ensure(text, "look for recordings", root=True).decode("utf-8", "replace").splitlines()


def _is_at_work(recorder: object) -> bool:
    """Return whether another process that records (`recording.process`) is alive on this machine."""
    words = recorder.split() if isinstance(recorder, str) else []
    pid = integer(words[1]) if len(words) == 3 else None
    return pid is not None and pid != os.getpid() and recording.process(pid) == recorder
