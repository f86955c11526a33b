"""Run a guest as an adb device that is reachable through a port of this machine. Needs no root.

The adbd is that of the fake phone (adbd/), run by Debian's Python in the guest, so that commands use the processor,
kernel and disk of the guest.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from adbd.messages import CNXN, OPEN, VERSION, Lost, Message, receive
from support.needs import needs

from harness import archive, guest, kernel
from harness.kernel import Wanted

ADBD = Path(__file__).parents[1] / "adbd"
MODULES = ("auth", "faults", "machine", "messages", "models", "ports", "services", "shell", "streams", "sync")
"""Modules of adbd/ that run in the guest."""

LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libz.so.1", "libexpat.so.1")
"""Libraries of Debian's Python for arm64."""

SUITE = "trixie"
"""Suite of the guest's Python, for kernels of all suites."""

PORT = 5555

SCRIPT = f"""
hostname guest
umount /sys/kernel/tracing
mkdir /data && mount -t ext4 -o noatime /dev/vda /data && mkdir -p -m 771 /data/local/tmp || return
ifconfig lo 127.0.0.1 && ifconfig eth0 10.0.2.15 || return
cd /peer && /usr/bin/python3 -BSs -m adbd.machine {PORT} && cd / && umount /data
"""
"""The script leaves tracefs unmounted, so that the recorder must mount it. QEMU forwards to the address."""

ANSWER_S = 2.0
"""Timeout of one attempt to connect to a booting guest."""


def missing(wanted: Wanted) -> str | None:
    """Return why the device cannot run here, or None. Fetches the packages that it needs."""
    if lacking := guest.missing(wanted.architecture):
        return lacking
    try:
        kernel.debian(wanted)
        _packages(wanted.architecture)
    except OSError as error:
        return f"needs what cannot be fetched: {error}"
    return None


@needs("qemu")
@contextlib.contextmanager
def device(directory: Path, wanted: Wanted) -> Iterator[str]:
    """Boot an arm64 device and yield its address. It has an ext4 on /data, in disk.img of `directory`.

    `directory` must be empty. Raises `RuntimeError` if the guest does not boot.
    """
    further = directory / "further"
    _furnish(further, wanted.architecture)
    guest.disk(directory, "ext4")
    booted = kernel.debian(wanted, ("virtio_net",))
    guest.initramfs(directory, booted, [], SCRIPT, further)
    shutil.rmtree(further)
    command = [
        *guest.qemu(directory, guest.MACHINES[wanted.architecture], booted, 2, log_writes=False),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:{PORT}"),
        *("-device", "virtio-net-pci,netdev=net", "-monitor", "stdio"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as qemu:
        try:
            port = _forwarded(qemu)
            _until_up(qemu, port, directory)
            yield f"127.0.0.1:{port}"
            _power_off(port)
            qemu.communicate(timeout=guest.PATIENCE_S)
        finally:
            qemu.kill()
    guest.collect(directory)


def _furnish(root: Path, architecture: str) -> None:
    """Copy Python with its library, and the adbd in /peer."""
    for name in ("usr/bin", "usr/lib", "lib", "peer/adbd"):
        (root / name).mkdir(parents=True)
    for package in _packages(architecture):
        for path in package.glob("usr/lib/python3.*"):
            # adbd does not use these modules, which need further libraries.
            ignored = shutil.ignore_patterns("lib-dynload")
            shutil.copytree(path, root / "usr/lib" / path.name, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        for path in package.glob("usr/bin/python3.*"):
            shutil.copy(path, root / "usr/bin/python3")
        for name in LIBRARIES:
            for path in package.glob(f"usr/lib/*/{name}"):
                shutil.copy(path, root / "lib")
    for name in MODULES:
        shutil.copy(ADBD / f"{name}.py", root / "peer/adbd")


def _packages(architecture: str) -> list[Path]:
    (python,) = archive.depended_on(SUITE, architecture, "python3", "python3.")
    names = (f"{python}-minimal", f"lib{python}-minimal", f"lib{python}-stdlib", "libc6", "libexpat1", "zlib1g")
    return [archive.package(SUITE, architecture, name) for name in names]


def _forwarded(qemu: subprocess.Popen[str]) -> int:
    """Return the port that QEMU selected."""
    assert qemu.stdin is not None and qemu.stdout is not None
    qemu.stdin.write("info usernet\n")
    for line in qemu.stdout:
        if found := re.search(r"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", line):
            return int(found[1])
    raise RuntimeError("QEMU does not say which port it forwards")


def _until_up(qemu: subprocess.Popen[str], port: int, directory: Path) -> None:
    """Wait until the adbd accepts a connection."""
    deadline = time.monotonic() + guest.PATIENCE_S
    while qemu.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, Lost), _greeted(port, ANSWER_S):
            return
        time.sleep(0.2)
    if qemu.returncode is not None:
        guest.collect(directory)
    raise RuntimeError(f"the guest did not come up within {guest.PATIENCE_S} s:\n{guest.console(directory)}")


@contextlib.contextmanager
def _greeted(port: int, patience_s: float) -> Iterator[socket.socket]:
    """Connect to the adbd and yield the accepted connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as link:
        link.sendall(Message(CNXN, VERSION, 4096, b"host::").packed(VERSION))
        receive(link)
        yield link


def _power_off(port: int) -> None:
    with _greeted(port, guest.PATIENCE_S) as link:
        link.sendall(Message(OPEN, 1, 0, b"reboot:\0").packed(VERSION))
