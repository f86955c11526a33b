"""The local machine as a device."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from androstep_analysis.device.transport import DeviceError, LinkLost
from androstep_analysis.device.transport.process import communicate


class Local:
    """`Transport` to this machine: commands run as the current user in the current directory."""

    name = "local"
    is_here = True

    def __init__(self) -> None:
        self.scratch = tempfile.gettempdir()

    def run(self, line: str, *, timeout_s: float) -> bytes:
        with subprocess.Popen(
            ["/bin/sh", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # no terminal: su cannot prompt, and Ctrl-C reaches only this program
        ) as process:
            try:
                return communicate(process, self.name, timeout_s)[0]
            except subprocess.TimeoutExpired:
                raise LinkLost(f"local: a command did not end in {timeout_s:.0f} s, and was killed") from None
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)

    def push(self, source: Path, target: str) -> None:
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            raise DeviceError(f"local: {target}: cannot be written ({error.strerror}); make room there") from None

    def close(self) -> None:
        """Do nothing: there is no connection."""
