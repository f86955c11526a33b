"""The services of a device's adbd by name: shells, files, ports, and reboot."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from adbd import ports, shell, sync
from adbd.streams import Stream


class Device(shell.Phone, sync.Phone, Protocol):
    """What the services need of the device. `uid` is adbd's user."""

    features: Sequence[str]
    uid: int

    def take_rights(self) -> None:
        """Give the calling thread, and no other, the rights of this user."""

    def reboot(self) -> None:
        """Remove the device with everything that runs on it."""


def offered(device: Device, name: str, stream: Stream) -> Callable[[], None] | None:
    """Return the function of the service with this name; None if there is no such service."""
    head, _, command = name.partition(":")
    kind, *options = head.split(",")
    if kind == "shell" and "v2" in options:
        return functools.partial(shell.apart, device, command, stream) if "shell_v2" in device.features else None
    if kind in {"shell", "exec"}:
        return functools.partial(shell.plain, device, command, stream)
    if kind == "sync":
        return functools.partial(_sync, device, stream)
    if kind in {"tcp", "localabstract"}:
        link = ports.connected(kind, command)
        return None if link is None else ports.passing(link, stream)
    if kind == "reboot":
        return device.reboot
    if kind == "root":
        already = "adbd is already running as root\n"
        text = already if device.uid == 0 else "adbd cannot run as root in production builds\n"
        return functools.partial(stream.write, text.encode())
    return None


def _sync(device: Device, stream: Stream) -> None:
    device.take_rights()
    sync.serve(device, stream)
