"""A directory of a device as a place to measure: what filesystem it is in, on what, with how much room."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from androstep_analysis.device.session.facts import Block, Facts, Mount
from androstep_analysis.device.session.shell import PREFIX, Shell
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import free_bytes

_NO_DIRECTORY, _NOT_WRITABLE = 3, 4
"""Statuses of the query."""


@dataclass(frozen=True)
class Place:
    """A directory in which files can be made; `free_bytes` is None where the device does not tell.

    `device` is what the device calls itself; `kind` what the filesystem lies on, in words; `model` the disk's, where it
    has one. `others` is where filesystems of the device that lie on disks and may be written are mounted.
    """

    device: str | None
    path: str
    mount: Mount
    free_bytes: int | None
    kind: str
    model: str | None
    others: tuple[str, ...]


def place(shell: Shell, facts: Facts, directory: str) -> Place:
    """What a directory of the device is, in which a directory is made and removed again to prove that it can be.

    "" is the directory that this program runs in, and on another machine the one that any of its users may use. Raises
    `DeviceError` where it is none, where nothing can be made in it, and where it lies in memory.
    """
    directory = directory or ("." if shell.is_here else shell.scratch)
    inside = directory if directory.startswith("/") else f"./{directory}"
    made = quoted([f"{PREFIX}{secrets.token_hex(8)}"])
    text = (
        f"cd {quoted([inside])} || exit {_NO_DIRECTORY}; pwd -P; df -k .; "
        f"mkdir {made} && rmdir {made} || exit {_NOT_WRITABLE}"
    )
    answer = shell.query(text, root=shell.has_root)
    if answer.status == _NO_DIRECTORY:
        raise DeviceError(f"{shell.name}: {directory}: no such directory, or none that may be entered")
    if answer.status:
        why = answer.errors.decode("utf-8", "replace").strip().rpartition(": ")[2] or f"status {answer.status}"
        raise DeviceError(f"{shell.name}: {directory}: no file can be made there ({why}); choose another")
    path, *rest = answer.text.splitlines()
    mount = facts.mount_of(path)
    if mount is None:
        raise DeviceError(f"{shell.name}: {directory}: the device does not say what is mounted there; choose another")
    if mount.fs_type in ("tmpfs", "ramfs"):
        raise DeviceError(
            f"{shell.name}: {directory}: lies in memory ({mount.fs_type}), and on no storage; choose another"
        )
    disks = _disks(mount, facts)
    models = [disk.model for disk in disks if disk.model]
    kinds = list(dict.fromkeys(_kind(disk) for disk in disks))
    name = facts.manifest()["device"]
    kind, others = " and ".join(kinds) or "a device that is not told", tuple(_on_disks(facts))
    return Place(name, path, mount, free_bytes(rest), kind, next(iter(models), None), others)


def _on_disks(facts: Facts) -> Iterator[str]:
    """Where filesystems of block devices are mounted that may be written, each once."""
    for path in dict.fromkeys(mount.path for mount in facts.mounts):
        mount = facts.mount_of(path)
        if mount is not None and _disks(mount, facts) and "ro" not in mount.options.split(","):
            yield path


def _disks(mount: Mount, facts: Facts) -> list[Block]:
    """The disks of a filesystem: by its device's number, or where that is none (Btrfs), by the name of its source."""
    source = facts.blocks.get(mount.source.removeprefix("/dev/"))
    return facts.disks_of(mount.dev) or (facts.disks_of(source.dev) if source is not None else [])


def _kind(disk: Block) -> str:
    """What a disk is, by its driver's name and what sysfs says."""
    said = disk.attributes
    driver = re.match("[a-z]*", disk.name)
    name = driver[0] if driver else ""
    if name == "mmcblk":
        return {"SD": "SD card", "MMC": "eMMC"}.get(said.get("device/type", ""), "memory card or eMMC")
    if any(path.startswith("health_descriptor/") for path in said):
        return "UFS"
    known = {"nvme": "NVMe SSD", "vd": "virtual disk", "xvd": "virtual disk", "loop": "file, as a loop device"}
    if name.startswith(("zram", "ram", "pmem")):
        return "memory"
    by_driver = next((kind for start, kind in known.items() if name.startswith(start)), None)
    return by_driver or ("hard disk" if said.get("queue/rotational") == "1" else "SSD or flash")
