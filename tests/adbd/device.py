"""The device as a whole: it listens, authenticates hosts, offers services, and injects faults."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from support.needs import needs

from adbd import environment, services
from adbd.auth import Doorkeeper
from adbd.environment import Environment
from adbd.faults import Break, Faults, Way
from adbd.models import PIXEL, Model
from adbd.programs import ANSWERS
from adbd.streams import Connection

Auth = Literal["none", "accept", "refuse"]

_POLL_S = 0.01

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Action:
    """A program with its arguments, and when it ran, in ns of CLOCK_BOOTTIME."""

    line: str
    began_ns: int
    ended_ns: int


class FakePhone:
    """A phone at `address` that a test can talk to and inspect."""

    def __init__(
        self, directory: Path, model: Model, faults: Faults, auth: Auth, features: Sequence[str] | None
    ) -> None:
        self.model, self.faults = model, faults
        self._environment = Environment(directory, model, faults)
        self.root = self._environment.root
        self.root_fd = self._environment.root_fd
        self.features = model.features if features is None else tuple(features)
        self.uid = model.uid
        self._doorkeeper = None if auth == "none" else Doorkeeper(accepts=auth == "accept")
        self._connections: list[Connection] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def tmp(self) -> Path:
        """The phone's /data/local/tmp."""
        return self.root / "data/local/tmp"

    @property
    def commands(self) -> list[str]:
        """Every command line that the phone's shell received."""
        return self._environment.commands

    def processes(self) -> dict[int, str]:
        """Return process id and name of everything that runs inside."""
        return self._environment.processes()

    def install(self, name: str, script: str) -> None:
        """Install a shell script in /system/bin, replacing the program of that name."""
        environment.install(self.root, name, script)

    def delay(self, program: str, seconds: float) -> None:
        """Make one of `programs.TIMED` take longer by this time."""
        (self._answers / "delays" / program).write_text(f"{seconds}\n")

    def actions(self) -> list[Action]:
        """Return the runs of `programs.TIMED`, in the order of their ends."""
        boottime_less_realtime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.time_ns()
        lines = (self._answers / "actions").read_text().splitlines()
        found = [line.split("\t", 2) for line in lines]
        return [
            Action(line, int(began) + boottime_less_realtime_ns, int(ended) + boottime_less_realtime_ns)
            for began, ended, line in found
        ]

    @property
    def _answers(self) -> Path:
        return self.root / ANSWERS.lstrip("/")

    def kill(self, name: str) -> None:
        """Send SIGKILL to all processes of that name, once there is one."""
        environment.slay(self._environment.await_process(name))

    def refuse_new_keys(self) -> None:
        """Accept only known hosts from now on."""
        assert self._doorkeeper is not None
        self._doorkeeper.accepts = False

    def disconnect(self) -> None:
        """End all connections; new ones are accepted."""
        for connection in self._connections:
            connection.drop()

    def reboot(self) -> None:
        """Remove the device with everything that runs on it."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()
        self._environment.kill_all()

    def close(self) -> None:
        """End the device. Only its directory remains."""
        self.reboot()
        self._thread.join()
        self.disconnect()  # hosts that connected in the meantime
        for thread in [*self._threads, *(t for connection in self._connections for t in connection.threads)]:
            if thread is not threading.current_thread():
                thread.join()
        self._environment.close()

    # -- what services need of the phone --------------------------------------------------------------------------

    def start(self, command: str, errors: int) -> subprocess.Popen[bytes]:
        """Run a command in the phone's shell."""
        return self._environment.start(command, errors)

    def take_rights(self) -> None:
        """Give the calling thread, and no other, the rights of adbd's user."""
        _libc.setfsgid(self.uid)
        _libc.setfsuid(self.uid)

    def is_reachable(self) -> bool:
        """Return whether hosts can still connect."""
        return not self._over.is_set()

    def breaks(self, way: Way, so_far: int, more: int) -> Break | None:
        """Return where in the next bytes the connection breaks, if it does."""
        return self.faults.breaks(way, so_far, more)

    def snap(self, broken: Break) -> None:
        """Break the connection, and remove the device if the fault says so."""
        if broken.gone:
            self.reboot()
        else:
            self.disconnect()

    def corrupted(self, way: Literal["push", "pull"], so_far: int, data: bytes) -> bytes:
        """Return the data as they arrive."""
        return self.faults.corrupted(way, so_far, data)

    def is_running(self, process: subprocess.Popen[bytes], written: Callable[[], int]) -> None:
        """Handle a command that has started: kill its programs if a fault says so."""
        if self.faults.kill is not None:
            threading.Thread(target=self._kill_once, args=(process, written), daemon=True).start()

    def _kill_once(self, process: subprocess.Popen[bytes], written: Callable[[], int]) -> None:
        def is_over() -> bool:
            return process.poll() is not None or self._over.is_set()

        while written() < self.faults.kill_after_output and not is_over():
            time.sleep(_POLL_S)
        found = self._environment.await_process(self.faults.kill or "", is_over)
        if found and self.faults.strikes():
            environment.slay(found)

    # -- hosts ----------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            service = functools.partial(services.offered, self)
            connection = Connection(link, self._banner(), self.faults, self._doorkeeper, service)
            self._connections.append(connection)
            thread = threading.Thread(target=connection.serve, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _banner(self) -> bytes:
        names = ("ro.product.name", "ro.product.model", "ro.product.device")
        listed = [f"{name}={self.model.properties[name]}" for name in names]
        return f"device::{';'.join(listed)};features={','.join(self.features)}".encode()


@needs("root")
@contextlib.contextmanager
def phone(
    directory: Path,
    *,
    model: Model = PIXEL,
    faults: Faults | None = None,
    auth: Auth = "none",
    features: Sequence[str] | None = None,
) -> Iterator[FakePhone]:
    """Run a phone in a new directory below `directory`; skip the test if this machine cannot run one.

    `features` overrides the features that the model's adbd announces. At the end all its processes have ended.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a phone needs root, and unshare")
    fake = FakePhone(Path(tempfile.mkdtemp(dir=directory)) / "phone", model, faults or Faults(), auth, features)
    try:
        yield fake
    finally:
        fake.close()
