"""What a program writes that speaks for a device: no more than an answer may have, and no longer than it may take."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from androstep_analysis.device.transport import MOST_ANSWER_BYTES, too_long

_READ_BYTES = 1 << 16


def communicate(process: subprocess.Popen[bytes], name: str, timeout_s: float) -> tuple[bytes, bytes]:
    """Standard output and standard error, where each is a pipe, of a process that has ended then.

    Raises `subprocess.TimeoutExpired`, and `DeviceError` for the device `name` where it writes more than
    `MOST_ANSWER_BYTES`; it is the caller's to end it then.
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
