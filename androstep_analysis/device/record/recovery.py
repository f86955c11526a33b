"""Recover recordings that are still on a device because the link, this program or a probe failed."""

from __future__ import annotations

from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.device.record import recording, stock
from androstep_analysis.device.session import Session
from androstep_analysis.device.session.left import is_at_work
from androstep_analysis.device.transport import DeviceError


def recover(device: Session, out: Path) -> list[Capture]:
    """Make captures of all recordings on the device: at `out`, and further ones at ``out-2``, ``out-3``, ….

    Running recordings are ended, except those of programs that still run on this machine. Raises `DeviceError` if there
    is no recording.
    """
    device.remove_left()
    kind = recording if device.has_root else stock
    found = kind.unfetched(device)
    left = [directory for directory in found if not is_at_work(recording.about(device, directory).get("recorder"))]
    if found and not left:
        raise DeviceError(f"{device.name}: a program on this computer is still recording; end it with Ctrl-C")
    if not left:
        raise DeviceError(
            f"{device.name}: no recording was found; a restart of the device deletes recordings in its memory"
        )
    places = [out if number == 1 else out.with_name(f"{out.name}-{number}") for number in range(1, len(left) + 1)]
    for place in places:
        capture.refuse_existing(place)
    return [kind.fetch(device, directory, place) for directory, place in zip(left, places, strict=True)]
