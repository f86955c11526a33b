"""A slow and strict reader of strace logs with a thread column only, to compare with the fast reader.

It matches whole calls with regular expressions, and leaves out what it does not know.
"""

from __future__ import annotations

import errno
import re
from typing import Any

Call = dict[str, Any]

_LINE = re.compile(rb"^(\d+) +(.*)$")
_UNFINISHED = re.compile(rb"^(.*?) ?<(?:unfinished|detached) \.\.\.>$")
_RESUMED = re.compile(rb"^<\.\.\. (\w+) resumed> ?(.*)$")
_WHOLE = re.compile(rb"^(\w+)\((.*)\)\s*= (\?|-?\d+|0x[0-9a-f]+)(?: (E\w+))?(?: \(.*\)| <unavailable>)?$")
_INTERNAL = {"ERESTARTSYS": 512, "ERESTARTNOINTR": 513, "ERESTARTNOHAND": 514, "ERESTART_RESTARTBLOCK": 516}
_STRING = rb'"((?:[^"\\]|\\.)*)"'


def calls(log: bytes) -> list[Call]:
    """Return all calls in the order in which they begin."""
    found: list[Call] = []
    pending: dict[int, Call] = {}
    for number, line in enumerate(log.splitlines(), 1):
        match = _LINE.match(line)
        if match is None or match[2].startswith((b"---", b"+++")):
            continue
        tid, text = int(match[1]), match[2]
        if unfinished := _UNFINISHED.match(text):
            call = {
                "line": number,
                "tid": tid,
                "text": unfinished[1],
                "state": "unfinished",
                "result": None,
                "error": None,
            }
            call["call"] = unfinished[1].split(b"(")[0].decode()
            found.append(call)
            pending[tid] = call
        elif resumed := _RESUMED.match(text):
            begun = pending.pop(tid, None)
            if begun is None:
                begun = {"line": number, "tid": tid, "text": resumed[1] + b"(", "state": "resumed"}
                found.append(begun)
                _finish(begun, resumed[2])
            elif b"<unfinished ...>)" not in resumed[2]:
                begun["state"] = "whole"
                _finish(begun, resumed[2])
        else:
            call = {"line": number, "tid": tid, "text": b"", "state": "whole"}
            _finish(call, text)
            found.append(call)
    return found


def _finish(call: Call, rest: bytes) -> None:
    call["text"] += rest
    match = _WHOLE.match(call["text"])
    assert match is not None, call
    call["call"] = match[1].decode()
    call["arguments"] = match[2]
    call["error"] = match[4].decode() if match[4] else None
    if call["error"]:
        call["result"] = -(_INTERNAL.get(call["error"]) or getattr(errno, call["error"]))
    else:
        call["result"] = None if match[3] == b"?" else int(match[3], 0)


def told(call: Call) -> dict[str, Any]:
    """Return the columns of table `syscalls` that this parser knows of a whole call."""
    if call["state"] != "whole":
        return {}
    name, arguments = call["call"], call["arguments"]
    if match := re.match(rb"^AT_FDCWD, " + _STRING + rb", ([A-Z_|]+)(?:, (0[0-7]*))?$", arguments):
        if name == "openat":
            mode = int(match[3], 8) if match[3] else None
            return {"fd": -100, "path": _text(match[1]), "flags": match[2].decode(), "mode": mode}
    elif name in ("access", "stat", "lstat", "mkdir", "unlink", "chdir", "readlink") and (
        match := re.match(rb"^" + _STRING, arguments)
    ):
        size = re.search(rb"\bst_size=(\d+)", arguments) if name in ("stat", "lstat") else None
        return {"path": _text(match[1]), "size": int(size[1]) if size else None}
    elif name in ("rename", "link", "symlink") and (
        match := re.match(rb"^" + _STRING + rb", " + _STRING + rb"$", arguments)
    ):
        return {"path": _text(match[1]), "path2": _text(match[2])}
    elif name in ("read", "write") and (match := re.match(rb"^(-?\d+), (?:.*), (\d+)$", arguments)):
        return {"fd": int(match[1]), "bytes": int(match[2])}
    elif name in ("pread64", "pwrite64") and (match := re.match(rb"^(-?\d+), (?:.*), (\d+), (\d+)$", arguments)):
        return {"fd": int(match[1]), "bytes": int(match[2]), "offset_bytes": int(match[3])}
    elif name in ("close", "fsync", "fdatasync", "dup", "fstat") and (match := re.match(rb"^(-?\d+)", arguments)):
        return {"fd": int(match[1])}
    elif name == "mmap" and (match := re.match(rb"^(\w+), (\d+), ([A-Z_|]+), ([A-Z_|]+), (-?\d+), (\w+)$", arguments)):
        fd = int(match[5])
        return {
            "address": None if match[1] == b"NULL" else int(match[1], 16),
            "bytes": int(match[2]),
            "request": match[3].decode(),
            "flags": match[4].decode(),
            "fd": None if fd < 0 else fd,
            "offset_bytes": int(match[6], 0),
        }
    elif name == "lseek" and (match := re.match(rb"^(\d+), (-?\d+), (SEEK_\w+)$", arguments)):
        return {"fd": int(match[1]), "offset_bytes": int(match[2]), "request": match[3].decode()}
    return {}


def _text(escaped: bytes) -> str:
    return (
        escaped.decode("latin-1")
        .encode("latin-1")
        .decode("unicode_escape")
        .encode("latin-1")
        .decode(errors="backslashreplace")
    )
