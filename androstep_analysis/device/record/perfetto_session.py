"""Run the phone's own Perfetto: start it detached from the link, end it, and find its trace.

Perfetto's SELinux domain may not read the files of adb's shell (AOSP, system/sepolicy, private/perfetto.te). Therefore
its configuration and its output go through pipes. Each session has a directory of the device, whose name is that of the
trace too.
"""

from __future__ import annotations

import re
import time
from typing import Final

from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import count

TRACES: Final = "/data/misc/perfetto-traces"
"""Directory on Android in which Perfetto may write, and adb's shell may read and delete."""

POLL_S: Final = 0.5
_START_S: Final = 90.0
"""Perfetto itself waits 30 s for its data sources."""
_END_S: Final = 600.0


def start(device: Session, directory: str, config: str) -> None:
    """Start Perfetto. A retry after a lost answer does not start it again."""
    trace = quoted([trace_of(directory)])
    # Since Android 12 perfetto can wait for all data sources before it returns.
    waits = 'case "$(perfetto --help 2>&1)" in *--background-wait*) b=--background-wait;; *) b=--background;; esac'
    run = f'printf %s {quoted([config])} | perfetto "$b" --txt -c - -o {trace} 2>&1 | cat >"$D/said.new"'
    once = f'if mkdir "$D/begun" 2>/dev/null; then {waits}; {run}; mv "$D/said.new" "$D/said"; fi'
    until = f'n=0; until [ -e "$D/said" ] || [ $n -ge {int(_START_S * 10)} ]; do sleep 0.1; n=$((n + 1)); done'
    text = f'trap "" HUP; D={quoted([directory])}; {once}; {until}; cat "$D/said"'
    said = device.ensure(text, "start perfetto", timeout_s=2 * _START_S).decode("utf-8", "replace")
    if _pid(said) is None or not device.holds(f"[ -s {trace} ] || {_running(directory)}"):
        raise DeviceError(f"{device.name}: perfetto did not start: {' '.join(said.split()) or 'it said nothing'}")


def _pid(said: str) -> int | None:
    """Return the process id that Perfetto printed on a line of its own."""
    found = re.search(r"^\d{1,9}\s*$", said, re.MULTILINE | re.ASCII)
    return None if found is None else count(found[0].strip().encode())


def _running(directory: str) -> str:
    """Return a shell condition: Perfetto's process id still belongs to the Perfetto that writes this trace."""
    pid = f'p=$(grep -xE "[0-9]+" {quoted([f"{directory}/said"])} | head -n 1)'
    name = quoted([directory.rpartition("/")[2]])
    return f'{{ {pid}; [ -n "$p" ] && grep -q {name} "/proc/$p/cmdline" 2>/dev/null; }}'


def is_running(device: Session, directory: str) -> bool:
    return device.holds(_running(directory))


def end(device: Session, directory: str) -> None:
    """End Perfetto and wait until its trace is complete."""
    device.query(f'{_running(directory)} && kill -TERM "$p"')
    deadline = time.monotonic() + _END_S
    while is_running(device, directory):
        if time.monotonic() > deadline:
            raise DeviceError(f"{device.name}: perfetto does not stop; its trace is {trace_of(directory)}")
        time.sleep(POLL_S)


def remove(device: Session, directory: str) -> None:
    device.ensure(f"rm -f {quoted([trace_of(directory)])}", "remove the trace")
    device.remove(directory)


def trace_of(directory: str) -> str:
    return f"{TRACES}/{directory.rpartition('/')[2]}"
