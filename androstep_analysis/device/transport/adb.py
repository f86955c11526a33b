"""Reach devices through the program adb, if it is installed: USB shared with other programs, encrypted Wi-Fi."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from androstep_analysis.device.transport import DeviceError, LinkLost
from androstep_analysis.device.transport.process import communicate

_CONNECT_S = 20.0
_SERVER_PORT = 5037
_SERVER_S = 1.0
_LINE_BYTES = 60_000
"""adb's server refuses a command of 64 KiB or more."""

_PUSH_BYTES_PER_S = 1e6
"""The speed of a copy in bytes per second, below which the link counts as lost."""

_FINAL = ("unauthorized", "more than one device", "no permissions", "No space left", "unknown host service")
"""Messages of adb about failures that a retry cannot fix."""


class Adb:
    """`Transport` through the program adb."""

    scratch = "/data/local/tmp"
    is_here = False

    def __init__(self, serial: str | None = None) -> None:
        self.name = "adb" if serial is None else f"adb:{serial}"
        self._serial = serial
        self._lost = False

    def run(self, line: str, *, timeout_s: float) -> bytes:
        if len(line.encode()) <= _LINE_BYTES:
            return self._adb("exec-out", line, timeout_s=timeout_s)
        script = f"{self.scratch}/androstep-{secrets.token_hex(8)}.sh"
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            self.push(Path(file.name), script)
        return self._adb("exec-out", f"sh {script}; rm {script}", timeout_s=timeout_s)

    def push(self, source: Path, target: str) -> None:
        self._adb("push", str(source.absolute()), target, timeout_s=60 + source.stat().st_size / _PUSH_BYTES_PER_S)

    def close(self) -> None:
        """Do nothing: the connection belongs to adb's server, which other programs share."""

    def _adb(self, *words: str, timeout_s: float) -> bytes:
        """Run adb for this device and return its output. Words reach adb as they are, without a shell."""
        if self._lost and self._serial is not None and ":" in self._serial:
            called("connect", self._serial, timeout_s=_CONNECT_S)  # adb reconnects by itself only on USB
        which = [] if self._serial is None else ["-s", self._serial]
        self._lost = True
        done = called(*which, *words, timeout_s=timeout_s)
        if done is None:
            raise LinkLost(f"{self.name}: no answer for {timeout_s:.0f} s; check cable or network")
        if done.returncode:
            error = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
            kind = DeviceError if any(sign in error for sign in _FINAL) else LinkLost
            raise kind(f"{self.name}: adb failed ({error[:200]}); see `adb devices`")
        self._lost = False
        return done.stdout


def serials() -> list[str]:
    """Return the serial numbers of the devices connected to adb's server; none if no server runs.

    No server is started.
    """
    done = called("devices", timeout_s=_CONNECT_S) if shutil.which("adb") and _server_runs() else None
    lines = done.stdout.decode("utf-8", "replace").splitlines()[1:] if done else []
    return sorted(line.split("\t")[0] for line in lines if line.endswith("\tdevice"))


def _server_runs() -> bool:
    """Return whether adb's server runs.

    Any adb command would start the server, which then claims the devices on USB.
    """
    named = os.environ.get("ADB_SERVER_SOCKET", f"tcp:{os.environ.get('ANDROID_ADB_SERVER_PORT', _SERVER_PORT)}")
    kind, _, place = named.partition(":")
    host, _, port = place.rpartition(":")
    try:
        if kind == "localfilesystem":
            with socket.socket(socket.AF_UNIX) as server:
                server.settimeout(_SERVER_S)
                server.connect(place)
        else:
            socket.create_connection((host or "127.0.0.1", int(port)), timeout=_SERVER_S).close()
    except (OSError, ValueError):
        return False
    return True


def called(*words: str, timeout_s: float) -> subprocess.CompletedProcess[bytes] | None:
    """Run adb to its end; return None if it did not end in time."""
    adb = shutil.which("adb")
    if adb is None:
        raise DeviceError("the program adb is missing; install it (apt-get install adb), or name the device HOST:PORT")
    with subprocess.Popen(
        [adb, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            streams = communicate(process, "adb", timeout_s)
            return subprocess.CompletedProcess(process.args, process.returncode, *streams)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()
