"""The environment of the phone's commands: a root directory with the model's programs and files.

It runs on the host's kernel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support import machine

from adbd.faults import Faults
from adbd.models import SHELL_UID, Model, Mount
from adbd.programs import ANSWERS, ROOT_HELPER, programs

_VARIABLES = {
    "PATH": "/system/bin:/system/xbin:/vendor/bin",
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
    "EXTERNAL_STORAGE": "/sdcard",
    "HOME": "/",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "TERM": "dumb",
}

_HOST = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Directories of the host's root that the programs need."""

_OWN_SYS = ("block", "class", "devices", "fs", "kernel")
"""Directories of /sys that are not simply the host's."""

_TRACING = ("tracing", "debug")

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
_NSENTER = shutil.which("nsenter", path=_PATH) or "nsenter"

_WAIT_S = 60
_POLL_S = 0.01
_COMM_BYTES = 15

# A new namespace copies all mounts of the machine and would keep alive what another test unmounts. Therefore it drops
# the old root with everything mounted there, and uses nothing below /dev/shm.
_PREPARE = """
set -e
root=$1; disk_bytes=$2; traced=$3
mount --bind "$root" "$root"
mount -o remount,bind,suid,dev,exec "$root"
cd "$root"
for name in usr bin sbin lib lib32 lib64 libx32; do
    if [ -d "$name" ] && ! [ -L "$name" ]; then mount --bind "/$name" "$name"; fi
done
mount --rbind /proc proc
mount --bind /dev dev
for name in shm pts; do
    if [ -d "/dev/$name" ]; then mount --bind "/dev/$name" "dev/$name"; fi
done
mount --rbind /sys system/host/sys
if [ "$traced" = 1 ]; then
    mount --rbind /sys/kernel sys/kernel
    mountpoint -q sys/kernel/tracing || mount -t tracefs nodev sys/kernel/tracing || true
fi
if [ "$disk_bytes" -gt 0 ]; then
    mount -t tmpfs -o "size=$disk_bytes,mode=0771,uid=2000,gid=2000" /dev/block/userdata data/local/tmp
fi
mkdir system/host/before
pivot_root . system/host/before
cd /
umount -l system/host/before
exec /usr/bin/cat
"""


class Environment:
    """The inside of a running phone. `directory` must be new; it holds the phone's files."""

    def __init__(self, directory: Path, model: Model, faults: Faults) -> None:
        self.model = model
        _furnish(directory, model, faults)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _PREPARE, "phone"]
        operands = [str(directory), str(faults.disk_bytes or 0), "0" if faults.no_tracefs else "1"]
        self._started: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._ended = False
        # Without CAP_SYS_ADMIN, tracefs cannot be mounted again.
        self._without = ["--bounding-set=-sys_admin"] if faults.no_tracefs else []
        self.commands: list[str] = []
        with machine.alone(machine.MOUNTS):
            self._holder = subprocess.Popen(
                [*command, *operands], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            is_ready = self._is_ready()
        if not is_ready:
            error_text = self._holder.communicate()[1].decode()
            pytest.skip(f"no mount namespace for a phone: {error_text.strip()}")
        self.root = Path(f"/proc/{self._holder.pid}/root")
        self.root_fd = os.open(self.root, os.O_PATH)
        self._namespace = _namespace(self._holder.pid)

    def _is_ready(self) -> bool:
        """Wait until the holder process, which is the phone's cat, echoes a line."""
        assert self._holder.stdin is not None and self._holder.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._holder.stdin.write(b"ready\n")
            self._holder.stdin.flush()
        return self._holder.stdout.readline() == b"ready\n"

    def start(self, command: str, errors: int) -> subprocess.Popen[bytes]:
        """Run a command in the phone's shell as adbd's user."""
        uid = str(self.model.uid)
        enter = [_NSENTER, "--target", str(self._holder.pid), "--mount", "--root", "--wd"]
        user = ["/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", *self._without]
        with self._lock:
            self.commands.append(command)
            process = subprocess.Popen(
                [*enter, *user, "/system/bin/sh", "-c", os.fsencode(command)]
                if command
                else [*enter, *user, "/system/bin/sh"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_VARIABLES | {"USER": "root" if self.model.uid == 0 else "shell"},
                start_new_session=True,
                bufsize=0,
            )
            self._started.append(process)
        return process

    def processes(self) -> dict[int, str]:
        """Return process id and name of everything that runs inside."""
        inside = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit() and int(directory.name) != self._holder.pid:
                with contextlib.suppress(OSError):
                    if _namespace(int(directory.name)) == self._namespace:
                        inside[int(directory.name)] = (directory / "comm").read_text().rstrip("\n")
        return inside

    def await_process(self, name: str, is_over: Callable[[], bool] = lambda: False) -> list[int]:
        """Return the ids of all processes of that name, once there is one; empty if `is_over` before.

        Raises `TimeoutError` after a minute.
        """
        deadline = time.monotonic() + _WAIT_S
        while not is_over():
            found = [pid for pid, comm in self.processes().items() if comm.startswith(name[:_COMM_BYTES])]
            if found:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"no process {name} came up inside the phone")
            time.sleep(_POLL_S)
        return []

    def kill_all(self) -> None:
        """End everything inside."""
        deadline = time.monotonic() + _WAIT_S
        while running := self.processes():
            slay(running)
            if time.monotonic() > deadline:
                raise TimeoutError(f"inside the phone there is still {running}")
            time.sleep(_POLL_S)
            for process in self._started:
                process.poll()

    def close(self) -> None:
        """End everything inside, and the phone's mounts."""
        if self._ended:
            return
        self._ended = True
        self.kill_all()
        for process in self._started:
            process.wait()
        os.close(self.root_fd)
        self._holder.communicate()


def slay(processes: Iterable[int]) -> None:
    """Send SIGKILL to each process that still exists."""
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _namespace(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/mnt").stat().st_ino


# -- what is in the root directory ------------------------------------------------------------------------------------


def _furnish(root: Path, model: Model, faults: Faults) -> None:
    root.mkdir(mode=0o755)
    for name in ("proc", "dev", "sys", "system/bin", "system/xbin", "system/etc", "system/host/sys", "vendor/bin"):
        (root / name).mkdir(parents=True)
    for name in ("data/app", "data/data", "data/media/0", "data/system", "data/local/tmp"):
        (root / name).mkdir(parents=True, mode=0o771)
    for name in _HOST:
        _like_host(root / name, Path("/") / name)
    (root / "sdcard").symlink_to("data/media/0")
    (root / "etc").symlink_to("system/etc")
    _users(root)
    _programs(root, model, faults)
    _answers(root, model)
    _sysfs(root, model, is_traced=not faults.no_tracefs)
    for name in ("data/local/tmp", "data/media/0"):
        os.chown(root / name, SHELL_UID, SHELL_UID)
    for path in (root, *(root / name for name in ("system", "system/bin", "system/xbin", "system/etc", "data/local"))):
        path.chmod(0o755)
    for name in ("data", "data/app", "data/data", "data/local/tmp"):
        (root / name).chmod(0o771)


def _like_host(path: Path, on_host: Path) -> None:
    if on_host.is_symlink():
        path.symlink_to(on_host.readlink())
    elif on_host.is_dir():
        path.mkdir()


def _users(root: Path) -> None:
    lines = ("root:x:0:0", "system:x:1000:1000", f"shell:x:{SHELL_UID}:{SHELL_UID}")
    (root / "system/etc/passwd").write_text("".join(f"{line}::/:/system/bin/sh\n" for line in lines))
    (root / "system/etc/group").write_text("".join(f"{line.rpartition(':')[0]}:\n" for line in lines))


def _programs(root: Path, model: Model, faults: Faults) -> None:
    bin_ = root / "system/bin"
    (bin_ / "sh").symlink_to("/bin/sh")
    for tool in model.tools:
        if tool not in faults.missing_tools and (found := shutil.which(tool, path=_PATH)):
            (bin_ / tool).symlink_to(Path(found).resolve())
    for name, text in programs(model).items():
        if name not in faults.missing_tools:
            install(root, name, text)
    helper = root / ROOT_HELPER.lstrip("/")
    shutil.copyfile("/usr/bin/setpriv", helper)
    helper.chmod(0o4755)


def install(root: Path, name: str, script: str) -> None:
    """Install a shell script in the phone's /system/bin, replacing the program of that name."""
    path = root / "system/bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!/system/bin/sh\n{script.lstrip()}\n", encoding="utf-8")
    path.chmod(0o755)


def _answers(root: Path, model: Model) -> None:
    properties = {**model.properties, "ro.product.cpu.abi": model.abi, "ro.product.cpu.abilist": model.abi}
    if model.enforcing == "Permissive":
        properties["ro.boot.selinux"] = "permissive"
    users = "".join(f"\tUserInfo{{{number}:{name}:4c13}} running\n" for number, name in model.users)
    texts = {
        "getprop": "".join(f"[{name}]: [{value}]\n" for name, value in sorted(properties.items())),
        "packages": "".join(f"{package.uid}\t{package.apk}\t{package.name}\n" for package in model.packages),
        "users": f"Users:\n{users}",
        "proc/self/mountinfo": "".join(_mountinfo(number, mount) for number, mount in enumerate(model.mounts, 20)),
        "proc/mounts": "".join(
            f"{m.source} {m.path} {m.fs_type} {m.options},{m.of_filesystem} 0 0\n" for m in model.mounts
        ),
        "proc/version": f"Linux version {model.kernel} (build@host) {model.kernel_version}\n",
        **{name if "/" in name else f"dumpsys/{name}": text for name, text in model.answers.items()},
    }
    for name, text in texts.items():
        _write(root / ANSWERS.lstrip("/") / name, text)
    for name in ("settings", "delays"):
        (root / ANSWERS.lstrip("/") / name).mkdir()
    for name in ("actions", "taps"):
        _write(root / ANSWERS.lstrip("/") / name, "")
        (root / ANSWERS.lstrip("/") / name).chmod(0o666)
    listed = root / "data/system/packages.list"
    _write(
        listed,
        "".join(
            f"{p.name} {p.uid} 0 /data/user/0/{p.name} default:targetSdkVersion=34 none 0 {p.version} 1 @null\n"
            for p in model.packages
        ),
    )
    listed.chmod(0o640)


def _mountinfo(number: int, mount: Mount) -> str:
    return (
        f"{number} 1 {mount.dev} / {mount.path} {mount.options} shared:{number} - "
        f"{mount.fs_type} {mount.source} {mount.of_filesystem}\n"
    )


def _sysfs(root: Path, model: Model, *, is_traced: bool) -> None:
    """Link the host's /sys, except what the model replaces."""
    top, host = root / "sys", Path("/sys")
    for name in _OWN_SYS:
        (top / name).mkdir()
    for path in host.iterdir():
        if path.name not in _OWN_SYS:
            (top / path.name).symlink_to(f"/system/host/sys/{path.name}")
    own = {Path(name).parts[:2] for name in (*model.sys, *model.links)}
    for name in ("class", "devices", "fs", *(() if is_traced else ("kernel",))):
        for path in (host / name).iterdir():
            if (name, path.name) not in own and not (name == "kernel" and path.name in _TRACING):
                (top / name / path.name).symlink_to(f"/system/host/sys/{name}/{path.name}")
    for name, text in model.sys.items():
        _write(top / name, text)
    for name, target in model.links.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).symlink_to(target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
