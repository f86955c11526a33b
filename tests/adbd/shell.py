"""Commands for the phone's shell: plain (``shell:``, ``exec:``), and with separate streams and exit status (v2)."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import struct
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Protocol

from adbd.faults import Break, Way
from adbd.messages import Lost
from adbd.streams import Stream

_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_PACKET = struct.Struct("<BI")
_READ_BYTES = 32 << 10


class Phone(Protocol):
    """What a shell needs of the phone."""

    def start(self, command: str, errors: int) -> subprocess.Popen[bytes]:
        """Start the command with pipes as standard input and output; `errors` as for Popen's stderr."""

    def breaks(self, way: Way, so_far: int, more: int) -> Break | None:
        """Return where in the next bytes the connection breaks, if it does."""

    def snap(self, broken: Break) -> None:
        """Break the connection."""

    def is_running(self, process: subprocess.Popen[bytes], written: Callable[[], int]) -> None:
        """Handle a command that has started; `written` returns how much it has written."""


def plain(phone: Phone, command: str, stream: Stream) -> None:
    """Run a command; the host gets output and errors mixed, and no status."""
    process = phone.start(command, subprocess.STDOUT)
    output = _Output(phone, stream)
    phone.is_running(process, output.written)
    assert process.stdin is not None and process.stdout is not None
    feeder = threading.Thread(target=_feed_plain, args=(stream, process.stdin), daemon=True)
    feeder.start()
    output.copy(process.stdout)
    _reap(process)


def apart(phone: Phone, command: str, stream: Stream) -> None:
    """Run a command; the host gets output and errors separately, and the exit status."""
    process = phone.start(command, subprocess.PIPE)
    output = _Output(phone, stream, is_packed=True)
    phone.is_running(process, output.written)
    assert process.stdout is not None and process.stderr is not None
    feeder = threading.Thread(target=_feed_packets, args=(stream, process), daemon=True)
    feeder.start()
    errors = threading.Thread(target=output.copy, args=(process.stderr, _STDERR), daemon=True)
    errors.start()
    output.copy(process.stdout, _STDOUT)
    errors.join()
    status = process.wait()
    stream.write(_PACKET.pack(_EXIT, 1) + bytes([status if status >= 0 else 128 - status]))


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end in a thread, because a command may continue after its reader is gone."""
    threading.Thread(target=process.wait, daemon=True).start()


class _Output:
    """The output of a command on its way to the host."""

    def __init__(self, phone: Phone, stream: Stream, *, is_packed: bool = False) -> None:
        self._phone, self._stream, self._is_packed = phone, stream, is_packed
        self._lock = threading.Lock()
        self._so_far = 0

    def written(self) -> int:
        """Return the bytes so far."""
        return self._so_far

    def copy(self, pipe: IO[bytes], kind: int = _STDOUT) -> None:
        """Send everything from the pipe; close it when the host is gone, so that the command notices."""
        with pipe, contextlib.suppress(Lost):
            while data := os.read(pipe.fileno(), _READ_BYTES):
                with self._lock:
                    broken = self._phone.breaks("shell", self._so_far, len(data))
                    passing = data if broken is None else data[: broken.after]
                    header = _PACKET.pack(kind, len(passing)) if self._is_packed else b""
                    self._stream.write(header + passing)
                    self._so_far += len(passing)
                    if broken is not None:
                        self._phone.snap(broken)


def _feed_plain(stream: Stream, pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError), pipe, contextlib.suppress(Lost, OSError):
        while True:
            os.write(pipe.fileno(), stream.read())


def _feed_packets(stream: Stream, process: subprocess.Popen[bytes]) -> None:
    """Pass the host's data to standard input. If the host disconnects, send SIGHUP to the command like adbd."""
    assert process.stdin is not None
    pipe = process.stdin
    try:
        for _ in itertools.count():
            kind, length = _PACKET.unpack(stream.exactly(_PACKET.size))
            data = stream.exactly(length)
            with contextlib.suppress(OSError, ValueError):
                if kind == _STDIN:
                    os.write(pipe.fileno(), data)
                elif kind == _CLOSE_STDIN:
                    pipe.close()
    except Lost:
        process.send_signal(signal.SIGHUP)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()
