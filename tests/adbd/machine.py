"""The same adbd on a real machine, without faults: ``python3 -m adbd.machine PORT`` in a guest, as root.

It needs only the modules that it imports, and ends when a host requests a reboot.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Literal

from adbd.faults import Break, Faults, Way
from adbd.models import FEATURES
from adbd.services import offered
from adbd.streams import Connection


class Machine:
    """`services.Device`: the kernel, the files and the programs of this machine."""

    features = FEATURES
    uid = 0

    def __init__(self) -> None:
        self.root_fd = os.open("/", os.O_PATH)

    def start(self, command: str, errors: int) -> subprocess.Popen[bytes]:
        """Run a command in the shell, or a shell."""
        words = ["/bin/sh", *(["-c", os.fsencode(command)] if command else [])]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True, bufsize=0)

    def take_rights(self) -> None:
        """Do nothing: root has all rights."""

    def reboot(self) -> None:
        """End adbd; its starter does the rest."""
        os._exit(0)

    def breaks(self, way: Way, so_far: int, more: int) -> Break | None:
        """Return None: no connection breaks."""
        return None

    def snap(self, broken: Break) -> None:
        """Do nothing."""

    def corrupted(self, way: Literal["push", "pull"], so_far: int, data: bytes) -> bytes:
        """Return the data unchanged."""
        return data

    def is_running(self, process: subprocess.Popen[bytes], written: Callable[[], int]) -> None:
        """Do nothing."""

    def is_reachable(self) -> bool:
        """Return True."""
        return True


def main(port: int) -> None:
    """Serve every host that connects."""
    banner = f"device::ro.product.name=guest;features={','.join(FEATURES)}".encode()
    service = functools.partial(offered, Machine())
    listener = socket.create_server(("", port))
    while True:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(link, banner, Faults(), None, service)
        threading.Thread(target=connection.serve, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
