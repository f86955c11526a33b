"""Describe a directory of a device as a place to measure: filesystem, disk, free space."""

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
"""Exit statuses of the query."""


@dataclass(frozen=True)
class Place:
    """A writable directory of a device.

    `free_bytes` is None if unknown. `device` is the device's own name, `kind` describes the storage in words, `model`
    is the disk's if it has one. `others` lists the mount points of the device's writable filesystems on disks.
    """

    device: str | None
    path: str
    mount: Mount
    free_bytes: int | None
    kind: str
    model: str | None
    others: tuple[str, ...]


def place(shell: Shell, facts: Facts, directory: str) -> Place:
    """Describe a directory, after creating and removing a subdirectory to check that it is writable.

    "" is the current directory on this machine, and the scratch directory on other devices. Raises `DeviceError` if it
    is no directory, is not writable, or is in memory.
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
        raise DeviceError(f"{shell.name}: {directory}: no such directory, or no permission to enter it")
    if answer.status:
        why = answer.errors.decode("utf-8", "replace").strip().rpartition(": ")[2] or f"status {answer.status}"
        raise DeviceError(f"{shell.name}: {directory}: no file can be created in it ({why}); choose another")
    path, *rest = answer.text.splitlines()
    mount = facts.mount_of(path)
    if mount is None:
        raise DeviceError(f"{shell.name}: {directory}: the device does not state its filesystem; choose another")
    if mount.fs_type in ("tmpfs", "ramfs"):
        raise DeviceError(f"{shell.name}: {directory}: is in memory ({mount.fs_type}), not on storage; choose another")
    disks = _disks(mount, facts)
    models = [disk.model for disk in disks if disk.model]
    kinds = list(dict.fromkeys(_kind(disk) for disk in disks))
    name = facts.manifest()["device"]
    kind, others = " and ".join(kinds) or "an unknown device", tuple(_on_disks(facts))
    return Place(name, path, mount, free_bytes(rest), kind, next(iter(models), None), others)


def _on_disks(facts: Facts) -> Iterator[str]:
    """Yield the mount points of writable filesystems on block devices, each once."""
    for path in dict.fromkeys(mount.path for mount in facts.mounts):
        mount = facts.mount_of(path)
        if mount is not None and _disks(mount, facts) and "ro" not in mount.options.split(","):
            yield path


def _disks(mount: Mount, facts: Facts) -> list[Block]:
    """Return a filesystem's disks by device number, or for Btrfs, whose number is anonymous, by its source."""
    source = facts.blocks.get(mount.source.removeprefix("/dev/"))
    return facts.disks_of(mount.dev) or (facts.disks_of(source.dev) if source is not None else [])


def _kind(disk: Block) -> str:
    """Return the kind of a disk from its driver's name and its sysfs attributes."""
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
