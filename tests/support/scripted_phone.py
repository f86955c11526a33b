"""A phone without root: this machine with short scripts for Android's programs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from androstep_analysis.device import Device, LinkLost
from androstep_analysis.device.record import perfetto_session, shell_listing
from androstep_analysis.device.transport.local import Local
from support.perfetto_messages import bundle, trace

SECTORS = [4096, 8192, 12288]
APP, UID = "org.example.app", 10123

PERFETTO = """
case "$*" in *--help*) echo "--background-wait" >&2; exit 1;; esac
out=; while [ $# -gt 0 ]; do case $1 in -o) out=$2;; esac; shift; done
cat >"$PHONE/config"
echo start >>"$PHONE/starts"
[ ! -e "$PHONE/refusal" ] || { cat "$PHONE/refusal"; exit 1; }
cp "$PHONE/recorded" "$out"
setsid sh -c 'trap "exit 0" TERM; while [ ! -e "$PHONE/time_is_over" ]; do sleep 0.05; done' perfetto "$out" \
    >/dev/null 2>&1 &
echo $!
"""
"""Read the configuration from standard input, print the process id, and run until terminated."""

RUN_AS = """
[ "$1" = org.example.app ] || { echo "run-as: package not debuggable: $1" >&2; exit 1; }
shift; cd "$PHONE/data/data" && exec "$@"
"""

PROGRAMS = {
    "id": "echo 2000",
    "su": "exit 1",
    "run-as": RUN_AS,
    "perfetto": PERFETTO,
    "pm": f"echo package:/data/app/a/base.apk={APP} uid:{UID}",
    "getprop": 'echo "[ro.product.model]: [Stock]"; echo "[ro.serialno]: [SECRET]"; '
    'echo "[ro.build.version.release]: [14]"',
}


class Scripted(Local):
    """Commands run here, with the phone's programs first in PATH; `lost` selects the answers that do not arrive."""

    name = "stock"
    is_here = False

    def __init__(self, top: Path) -> None:
        self.top = top
        self.scratch = str(top / "tmp")
        self.lost: list[str] = []

    def install(self, name: str, text: str) -> None:
        """Install a shell script as a program."""
        (self.top / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.top / "bin" / name).chmod(0o755)

    def run(self, line: str, *, timeout_s: float) -> bytes:
        path = f'export PHONE="{self.top}" PATH="{self.top}/bin:$PATH"\n'
        answer = super().run(path + line, timeout_s=timeout_s)
        if self.lost and self.lost[0] in line:
            self.lost.pop(0)
            raise LinkLost("stock: the cable was pulled")
        return answer


@contextmanager
def scripted(top: Path, patch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Yield a phone without root in directory `top`."""
    for name in ("bin", "tmp", "traces", "data/app", "data/data"):
        (top / name).mkdir(parents=True)
    phone = Scripted(top)
    for name, text in PROGRAMS.items():
        phone.install(name, text)
    (top / "recorded").write_bytes(recorded())
    patch.setattr(perfetto_session, "TRACES", str(top / "traces"))
    patch.setattr(shell_listing, "DATA", str(top / "data"))
    patch.setattr(shell_listing, "ROOTS", (str(top / "data/app"), str(top / "absent"), "/proc"))
    yield phone
    (top / "time_is_over").touch()


def recorded(*more: dict[str, Any], packets: Sequence[dict[str, Any]] = ()) -> bytes:
    """Return a trace of three writes, of more events and packets, and of an event that the kernel did not have."""
    fields = {"dev": 8 << 20, "nr_sector": 8, "rwbs": "WS"}
    events, begin = [], boottime_ns()
    for number, sector in enumerate(SECTORS):
        issued = begin + 1_000_000 * (number + 1)
        events.append({"timestamp": issued, "pid": 7, "block_rq_issue": {**fields, "sector": sector, "comm": "mail"}})
        events.append({"timestamp": issued + 50_000, "pid": 0, "block_rq_complete": {**fields, "sector": sector}})
    processes = {"processes": [{"pid": 7, "ppid": 1, "cmdline": ["mail"], "uid": UID}]}
    return trace(
        bundle(*events, *more),
        {"clock_snapshot": {"clocks": clocks(), "primary_trace_clock": 6}},
        {"process_tree": processes},
        {"packages_list": {"packages": [{"name": APP, "uid": UID}]}},
        {"ftrace_stats": {"phase": 2, "unknown_ftrace_events": ["ext4/ext4_load_inode"]}},
        *packets,
    )


def clocks() -> list[dict[str, int]]:
    """Return CLOCK_REALTIME and CLOCK_BOOTTIME by their numbers in Perfetto."""
    return [{"clock_id": 1, "timestamp": time.time_ns()}, {"clock_id": 6, "timestamp": boottime_ns()}]


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@contextmanager
def connected(phone: Scripted, patience_s: float = 60) -> Iterator[Device]:
    with Device(phone, patience_s=patience_s) as device:
        yield device


def nothing_left(phone: Scripted) -> bool:
    return not [*(phone.top / "tmp").iterdir(), *(phone.top / "traces").iterdir()]
