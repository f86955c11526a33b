"""Streams to the phone's TCP ports and abstract sockets, for `adb forward`."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from adbd.messages import Lost
from adbd.streams import Stream


def connected(kind: str, name: str) -> socket.socket | None:
    """Connect to a listening service (the phone shares the host's network); return None if there is none."""
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.connect(("127.0.0.1", int(name)) if kind == "tcp" else f"\0{name}")
    except (OSError, ValueError, OverflowError):
        link.close()
        return None
    return link


def passing(link: socket.socket, stream: Stream) -> Callable[[], None]:
    """Return a function that copies everything both ways until one side ends."""

    def work() -> None:
        with link:
            feeder = threading.Thread(target=_feed, args=(stream, link), daemon=True)
            feeder.start()
            with contextlib.suppress(OSError, Lost):
                while data := link.recv(1 << 16):
                    stream.write(data)
            stream.close()
            feeder.join()

    return work


def _feed(stream: Stream, link: socket.socket) -> None:
    with contextlib.suppress(OSError, Lost):
        while True:
            link.sendall(stream.read())
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
