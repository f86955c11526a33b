"""Read the output of a local process within limits of size and time."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from androstep_analysis.device.transport import MOST_ANSWER_BYTES, too_long

_READ_BYTES = 1 << 16


def communicate(process: subprocess.Popen[bytes], name: str, timeout_s: float) -> tuple[bytes, bytes]:
    """Read the pipes of a process until it ends; return standard output and standard error.

    Raises `subprocess.TimeoutExpired`, and `DeviceError` for the device `name` after more than `MOST_ANSWER_BYTES`. The
    caller must then kill the process.
    """
    deadline = time.monotonic() + timeout_s
    left_bytes = MOST_ANSWER_BYTES
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, into in ((process.stdout, output), (process.stderr, errors)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, into)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            for key, _ in ready:
                read = os.read(key.fd, _READ_BYTES)
                key.data.extend(read)
                left_bytes -= len(read)
                if left_bytes < 0:
                    raise too_long(name)
                if not read:
                    selector.unregister(key.fileobj)
    process.wait(max(0.0, deadline - time.monotonic()))
    return bytes(output), bytes(errors)
