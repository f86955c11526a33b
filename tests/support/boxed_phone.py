"""A phone in a box: Debian's adbd, perfetto, traced and traced_probes, in separate namespaces.

The box has its own mounts, processes and network, so that this machine's ports and processes are not touched. Without
root, an instance replaces the whole tracefs, which traced_probes would otherwise claim. With root, it does so only for
traced_probes, and iotrace makes an instance as usual. The shell is mksh with the tools of toybox, as on Android. /data
is an ext4 on a loop device. Android's own programs (pm, dumpsys, getprop, SELinux) are missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from adbd.messages import CNXN, VERSION, Lost, Message, receive
from harness import build

from support import loops, tracing
from support.needs import needs

SUITE = "sid"
"""Debian release: adbd is in trixie and later, perfetto only in sid."""

PACKAGES = ("adbd", "perfetto", "mksh", "toybox")
PROGRAMS = ("debootstrap", "unshare", "setpriv", "mke2fs")
MIRROR = "http://deb.debian.org/debian"
PORT = 5555
SHELL_UID = 2000
"""AID_SHELL, the user of adb's shell on a phone without root."""
REFUSED = "ext4/ext4_load_inode"
"""An event that is missing in the box without root, as on other kernels."""

_DEBOOTSTRAP = """
debootstrap --variant=minbase --include=ca-certificates "$2" "$1" "$3"
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
shift_root=$1; shift 3
chroot "$shift_root" apt-get install --yes --no-install-recommends "$@"
chroot "$shift_root" apt-get clean
mkdir -p "$shift_root/system/bin"
for tool in $(chroot "$shift_root" toybox); do ln -s /usr/bin/toybox "$shift_root/system/bin/$tool"; done
ln -s /usr/bin/mksh "$shift_root/system/bin/sh"
ln -sf mksh "$shift_root/usr/bin/sh"
ln -s /usr/bin/perfetto "$shift_root/system/bin/perfetto"
chroot "$shift_root" useradd --uid 2000 --no-create-home --shell /bin/sh shell
"""
"""Fills a directory. It runs in a mount namespace, so that debootstrap's mounts end with it."""

_INIT = """
base=$2; data=$3; instance=$4; user=$5  # and $6: an event
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=$base,upperdir=upper,workdir=work" root
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
mkdir -p run/instance
if [ "$user" = 0 ]; then
    mount -t tracefs nodev sys/kernel/tracing
    mount --bind "$instance" run/instance
else
    mount --bind "$instance" sys/kernel/tracing
    mount -t tmpfs tmpfs "sys/kernel/tracing/events/$6"
fi
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero random urandom tty; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir -p dev/pts dev/shm old data run/perfetto
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
mount --bind "$data" data
mkdir -p data/local/tmp data/misc/perfetto-traces data/app data/system
chown 2000:2000 data/local/tmp data/misc/perfetto-traces
pivot_root . old
exec >/run/box.log 2>&1
umount --lazy /old
ip link set lo up 2>/dev/null || /system/bin/ifconfig lo up
export PATH=/system/bin:/usr/bin:/usr/sbin HOME=/
umask 0
traced &
if [ "$user" = 0 ]; then
    unshare --mount sh -c 'mount --bind /run/instance /sys/kernel/tracing && exec traced_probes' &
    umask 022
    exec adbd
fi
traced_probes &
umask 022
setpriv --reuid="$user" --regid="$user" --clear-groups adbd
exit 1
"""
"""First process of the box, whose end kills all others.

It keeps its user id, because a process that changes it loses the signal requested by unshare --kill-child
(PR_SET_PDEATHSIG in prctl(2)).
"""


@dataclass
class Box:
    """A phone at `address`. `data` is its /data as seen from here, on loop device `device`, and `root` its root.

    `processes` is its PID namespace, in the form of links in /proc/PID/ns.
    """

    address: str
    processes: str
    data: Path
    root: Path
    device: str
    cable: Cable


class Cable:
    """Forwards connections from a port of this machine to the adbd in another network; it can be unplugged.

    One thread enters that network and connects there. The listening socket is in this network.
    """

    def __init__(self, namespace: Path) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_pulled = False
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, args=(namespace,))]
        self._threads[0].start()

    @contextlib.contextmanager
    def pulled(self) -> Iterator[None]:
        """Cut all connections, and refuse new ones while the block runs."""
        with self._lock:
            self._is_pulled = True
            self._cut()
        try:
            yield
        finally:
            self._is_pulled = False

    def end(self) -> None:
        """Close everything."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self._cut()
        for thread in self._threads:
            thread.join()
        for end in (end for link in self._links for end in link):
            end.close()

    def _accept(self, namespace: Path) -> None:
        _enter_network(namespace)
        with contextlib.suppress(OSError):  # after the listener was shut down
            while True:
                outer, _ = self._listener.accept()
                with self._lock:
                    self._connect(outer)

    def _connect(self, outer: socket.socket) -> None:
        inner = socket.socket()
        self._links.append((outer, inner))
        try:
            if self._is_pulled:
                raise ConnectionRefusedError
            inner.connect(("127.0.0.1", PORT))
        except OSError:
            outer.close()
            return
        for ends in ((outer, inner), (inner, outer)):
            self._threads.append(threading.Thread(target=_pass_on, args=ends))
            self._threads[-1].start()

    def _cut(self) -> None:
        for end in (end for link in self._links for end in link):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until either end closes."""
    with contextlib.suppress(OSError):
        while received := source.recv(1 << 16):
            target.sendall(received)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _enter_network(namespace: Path) -> None:
    """Move this thread into a network namespace (setns(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open("rb") as file:
        if libc.setns(file.fileno(), os.CLONE_NEWNET if hasattr(os, "CLONE_NEWNET") else 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


def root_filesystem() -> Path:
    """Return the directory with the packages, made at first use; skip the test if that is impossible."""
    if lacking := [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]:
        pytest.skip(f"needs {', '.join(lacking)}")
    made = build.OUT / f"phone-{SUITE}"
    with build.exclusive():
        if not made.is_dir():
            part = made.with_name(f"{made.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            command = ["unshare", "--mount", "sh", "-euc", _DEBOOTSTRAP, "box", part, SUITE, MIRROR, *PACKAGES]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no root filesystem of Debian {SUITE}: {(done.stderr or done.stdout)[-300:]}")
            part.rename(made)
    return made


@needs("root")
@contextlib.contextmanager
def box(place: Path, *, is_rooted: bool = False) -> Iterator[Box]:
    """Run a phone whose adbd has the shell's user or root; everything ends and is removed with the block."""
    base, inside = root_filesystem(), place / "box"
    inside.mkdir(parents=True)
    loops.make_ext4(place / "data.img", nr_mib=256)
    with loops.mounted(place / "data.img") as data, tracing.instance(place) as instance:
        words = [inside, base, data.top, instance, 0 if is_rooted else SHELL_UID, REFUSED]
        apart = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ]
        with subprocess.Popen([*apart, "sh", "-euc", _INIT, "box", *map(str, words)]) as process:
            try:
                cable = Cable(_network(process))
                try:
                    _until_up(cable.address, process)
                    processes = str(Path(f"/proc/{process.pid}/ns/pid_for_children").readlink())
                    root = Path(f"/proc/{_first_process(process)}/root")
                    yield Box(cable.address, processes, data.top, root, data.device, cable)
                finally:
                    cable.end()
            finally:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the first process of the box. unshare returns after it and all other processes have ended."""
    if process.poll() is None:
        os.kill(_first_process(process) or process.pid, signal.SIGKILL)
        process.wait()


def _first_process(process: subprocess.Popen[bytes]) -> int | None:
    """Return the first process of the box, which is the only child of unshare, or None if there is none."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else None


def _network(process: subprocess.Popen[bytes]) -> Path:
    """Return the network namespace of the process that unshare started."""
    own = Path("/proc/self/ns/net").readlink()
    namespace = Path(f"/proc/{process.pid}/ns/net")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if namespace.readlink() != own:
            return namespace
        time.sleep(0.02)
    raise RuntimeError("unshare made no network namespace")


def _until_up(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the adbd answers."""
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 60
    greeting = Message(CNXN, VERSION, 4096, b"host::").packed(VERSION)
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, Lost), socket.create_connection((host, int(port)), timeout=2) as link:
            link.sendall(greeting)
            receive(link)
            return
        time.sleep(0.1)
    raise RuntimeError("the adbd in the box did not answer")
