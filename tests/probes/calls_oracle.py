"""Compare one run recorded by iotrace and by strace: trace-cmd's output of the former, and the latter's log.

Calls of a thread are paired here from the printed events in order; `differences` compares them with the log.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.oracles import strace as strace_oracle
from support.tracing import FLAGS

_EVENT = re.compile(r"-(\d+)\s+\[\d+\]\s+" + FLAGS + r"\s*[\d.]+:\s+(sys_enter|sys_exit|call)_(\w+):\s*(.*)$")
_RAW = re.compile(
    r"-(\d+)\s+\[\d+\]\s+" + FLAGS + r"\s*[\d.]+:\s+(sys_enter|sys_exit):\s+NR (\d+) (?:\((.*)\)|= (-?\d+))$"
)
_NAMES = {"newstat": "stat", "newlstat": "lstat", "newfstat": "fstat", "sendfile64": "sendfile"}
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_OUTPUT = {"readlink", "readlinkat"}
"""Calls whose last string is a result."""
_PASSED = re.compile(rb"cmsg_data=\[(\d+)\]")
_NESTED = re.compile(rb"[\[{(][^\[\]{}()]*[\]})]")
_PAIR = re.compile(rb"\[(\d+), (\d+)\]")
_MAKERS = {
    *("open", "creat", "openat", "openat2", "dup", "socket", "accept", "accept4", "epoll_create1", "eventfd2"),
    *("signalfd4", "timerfd_create", "memfd_create", "inotify_init1"),
}
"""Calls that return a new descriptor, besides fcntl with F_DUPFD."""
_PATHS = {
    **dict.fromkeys(("open", "creat", "openat", "openat2", "truncate", "stat", "lstat", "newfstatat", "statx"), 1),
    **dict.fromkeys(("statfs", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "mkdir", "mkdirat"), 1),
    **dict.fromkeys(("rmdir", "unlink", "unlinkat", "chmod", "fchmodat", "utimensat", "chdir", "execve"), 1),
    **dict.fromkeys(("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"), 2),
}
"""Number of paths of a call."""


@dataclass
class Call:
    """A call. `numbers` are arguments below 2^32 by position; a path is None if it is unknown."""

    name: str
    numbers: dict[int, int]
    result: int | None = None
    paths: list[bytes | None] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)


def traced(trace: Path, numbers: dict[int, str]) -> dict[int, list[Call]]:
    """Return the calls of each thread, except those that began before the recording or the thread did.

    `numbers` maps system call numbers in events of raw_syscalls to names.
    """
    calls: dict[int, list[Call]] = {}
    strings: dict[int, dict[int, bytes | None]] = {}
    pending: dict[int, Call] = {}
    for tid, kind, name, text in _events(trace, numbers):
        if kind == "sys_enter":
            values = [int(word, 16) for word in text.split()]
            call = Call(_NAMES.get(name, name), {place: value & 0xFFFFFFFF for place, value in enumerate(values)})
            calls.setdefault(tid, []).append(call)
            strings[tid] = dict.fromkeys(values)
            pending[tid] = call
        elif tid in pending and kind == "sys_exit":
            call = pending.pop(tid)
            call.result = int(text)
            call.paths = [path for path in strings.pop(tid).values() if path is not None]
        elif tid in pending and name == "path":
            found = re.search(r'user=(0x[0-9a-f]+) path="(.*)"$', text)
            if found and int(found[1], 16) in strings[tid]:
                strings[tid][int(found[1], 16)] = found[2].encode("latin-1")
        elif tid in pending and name == "fd":
            found = re.search(r"\bfd=(\d+)", text)
            assert found is not None, text
            pending[tid].fds.append(int(found[1]))
    return calls


def _events(trace: Path, numbers: dict[int, str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield thread, kind (sys_enter, sys_exit, call), name and content (hexadecimal arguments, or result)."""
    printed = subprocess.run(["trace-cmd", "report", trace], capture_output=True, timeout=120, check=True).stdout
    for line in printed.decode("latin-1").splitlines():
        if raw := _RAW.search(line):
            text = raw[4].replace(",", " ") if raw[2] == "sys_enter" else raw[5]
            yield int(raw[1]), raw[2], numbers[int(raw[3])], text
        elif event := _EVENT.search(line):
            text = event[4]
            if event[2] == "sys_enter":
                text = " ".join(re.findall(r": 0x([0-9a-f]+)", text))
            elif event[2] == "sys_exit":
                value = int(text, 16)
                text = str(value - (1 << 64) if value >> 63 else value)
            yield int(event[1]), event[2], event[3], text


def logged(log: bytes) -> dict[int, list[Call]]:
    """Return the calls of each thread in a log of `strace -f` without times and paths of descriptors."""
    calls: dict[int, list[Call]] = {}
    for row in strace_oracle.calls(log):
        arguments = row["arguments"]
        strings = [_unescaped(text) for text in _STRING.findall(arguments)]
        call = Call(row["call"], dict(_numbers(arguments)), row["result"], list(strings))
        if call.name in _OUTPUT and row["error"] is None:
            call.paths.pop()
        if row["error"] is None and row["result"] is not None:
            call.fds = _made(call.name, arguments, row["result"])
        calls.setdefault(row["tid"], []).append(call)
    return calls


def _numbers(arguments: bytes) -> Iterator[tuple[int, int]]:
    """Yield arguments that strace prints as numbers, by position."""
    flat, nested = _STRING.sub(b"S", arguments), 1
    while nested:
        flat, nested = _NESTED.subn(b"S", flat)
    for place, word in enumerate(flat.split(b", ")):
        if re.fullmatch(rb"-?[1-9][0-9]*|0|0x[0-9a-f]+", word):
            yield place, int(word, 0) & 0xFFFFFFFF


def _made(name: str, arguments: bytes, result: int) -> list[int]:
    """Return new descriptors in the order of creation, without those that dup2 and dup3 name."""
    if name in ("pipe", "pipe2", "socketpair"):
        pair = _PAIR.search(arguments)
        return [int(fd) for fd in pair.groups()] if pair else []
    if name == "recvmsg":
        return [int(fd) for fd in _PASSED.findall(arguments)]
    return [result] if name in _MAKERS or (name == "fcntl" and b"F_DUPFD" in arguments) else []


def _unescaped(text: bytes) -> bytes:
    return text.decode("latin-1").encode().decode("unicode_escape").encode("latin-1")


def differences(
    seen: dict[int, list[Call]], expected: dict[int, list[Call]], recorded: Iterable[str], paths: bool
) -> list[str]:
    """Describe the differences for the threads in strace's log; empty if there are none.

    `recorded` are the names of the recorded calls in the kernel's events. With `paths`, the paths and the new
    descriptors must be recorded too.
    """
    names = {_NAMES.get(name, name) for name in recorded}
    found = []
    for tid, whole in expected.items():
        theirs = [call for call in whole if call.name in names]
        ours = seen.get(tid, [])
        if theirs and theirs[0].name == "execve":
            begin = next((place for place, call in enumerate(ours) if call.name == "execve"), 0)
            ours = ours[begin:]  # strace's own calls in its child
        for one, other in itertools.zip_longest(ours, theirs):
            if one is None or other is None or not _same(one, other, paths):
                found.append(f"thread {tid}: iotrace {one}, strace {other}")
                break
    return found


def _same(one: Call, other: Call, paths: bool) -> bool:
    if (one.name, one.result) != (other.name, other.result):
        return False
    if any(one.numbers.get(place) != number for place, number in other.numbers.items()):
        return False
    if not paths:
        return True
    # Most calls refuse an empty path before it is read as a name.
    named = [path for path in other.paths[: _PATHS.get(one.name, 0)] if path != b"" or b"" in one.paths]
    return one.paths == named and one.fds == other.fds
