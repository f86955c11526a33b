"""Check with strace that a program stayed in its sandbox: each path must resolve inside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

STRACE = ("strace", "-f", "-y", "-s", "5000", "-e", "trace=%file,%desc,flock")
"""The command that makes such logs; `-o LOG PROGRAM…` follows."""

_LINE = re.compile(r"(?:\[pid +)?(?P<pid>\d+)\]? +(?:\d+\.\d+ +)?(?P<text>.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*)")
_TOKEN = re.compile(
    r""""(?:[^"\\]|\\.)*"(?:\.\.\.)?   # a text
    | <(?:[^>\\]|\\.)*>                # what a descriptor leads to
    | \{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}
    | \[[^\]]*\] | , | [^,"<{\[]+ | .""",
    re.VERBOSE,
)
_DESCRIPTOR = re.compile(r"(?P<number>AT_FDCWD|\d+)(?:<(?P<path>(?:[^>\\]|\\.)*)>)?(?:\(deleted\))?")
_NUMBERS = re.compile(r"/proc/\d+/fd")

_PLACES = {
    **dict.fromkeys(("mkdirat", "mknodat", "unlinkat", "readlinkat", "openat", "openat2"), (0,)),
    **dict.fromkeys(("newfstatat", "statx", "faccessat", "faccessat2", "name_to_handle_at"), (0,)),
    **dict.fromkeys(("fchmodat", "fchmodat2", "fchownat", "utimensat"), (0,)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (0, 2)),
    "symlinkat": (1,),
}
"""Calls with paths relative to a descriptor, and the index of that argument; the path follows it."""

_FOLLOWING = {
    "openat",
    "newfstatat",
    "statx",
    "faccessat",
    "faccessat2",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "utimensat",
}
"""Those of the calls that follow a link at the end of the path unless a flag forbids it."""

_PATHLESS = {"getcwd", "execve"}
_MOVING = {"read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2"}
"""Calls whose texts are no paths. Any other call with a text is assumed to name a file."""

_READING = {"openat", "readlink", "readlinkat", "newfstatat", "stat", "lstat", "access", "faccessat", "faccessat2"}
_CHANGING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"}
_FLAG = re.compile(r"O_[A-Z]+")
_BENEATH = ("RESOLVE_BENEATH", "RESOLVE_NO_SYMLINKS", "RESOLVE_NO_XDEV")


@dataclass
class _Traced:
    sandbox: str
    entered: bool = False
    opened: dict[str, str] = field(default_factory=dict)
    """Path of each descriptor, by its number."""

    def is_inside(self, path: str) -> bool:
        return path == self.sandbox or path.startswith(self.sandbox + "/")

    def is_found(self, call: str, descriptor: str, name: str, rest: str) -> bool:
        """Return whether `name`, relative to the descriptor, can only resolve inside the sandbox."""
        place = _DESCRIPTOR.match(descriptor)
        start = _plain(place["path"] or "") if place else ""
        if not name:
            return "AT_EMPTY_PATH" in rest or call == "readlinkat"
        if _NUMBERS.fullmatch(start) and name.isdigit():
            return self.is_inside(self.opened.get(name, ""))
        if call == "unlinkat" and "AT_REMOVEDIR" in rest and f"{start}/{name}" == self.sandbox:
            return True
        if not self.is_inside(start) or name.startswith("/") or ".." in name.split("/"):
            return False
        if call == "openat2":
            return all(flag in rest for flag in _BENEATH)
        if "/" in name or "AT_SYMLINK_FOLLOW" in rest:
            return False
        return name == "." or call not in _FOLLOWING or "NOFOLLOW" in rest

    def is_kept(self, call: str, arguments: list[str], result: str) -> bool:
        """Return whether the call stayed in the sandbox; calls without a path do."""
        if call in _PATHLESS or not any(argument.startswith('"') for argument in arguments):
            return True
        if self.asks_kernel(call, arguments):
            return True
        if call not in _PLACES:
            return call in _MOVING
        for index in _PLACES[call]:
            # The flag of linkat applies to the old name only.
            rest = ", ".join(arguments[index + 2 :]) if index < 2 else ""
            if not self.is_found(call, arguments[index], _text(arguments[index + 1]), rest):
                return False
        made = _DESCRIPTOR.match(result)
        return not made or made["path"] is None or self.is_inside(_plain(made["path"]))

    def asks_kernel(self, call: str, arguments: list[str]) -> bool:
        """Return whether the call only reads /proc and /sys, or permissions of a file opened in the sandbox."""
        name = _text(arguments[1] if call in _PLACES else arguments[0])
        if (
            call not in _READING
            or not name.startswith(("/proc/", "/sys/"))
            or _CHANGING & set(_FLAG.findall(arguments[-1]))
        ):
            return False
        if name.startswith("/proc/self/fd/"):
            return "readlink" in call or self.is_inside(self.opened.get(Path(name).name, ""))
        return not {"..", "fd", "root", "cwd"} & set(name.split("/"))

    def learn(self, call: str, arguments: list[str], result: str) -> None:
        """Record what the call opened, and whether the sandbox is now entered."""
        made = _DESCRIPTOR.match(result)
        if made and made["path"] is not None:
            self.opened[made["number"]] = _plain(made["path"])
        if call == "flock" and result.startswith("0"):
            place = _DESCRIPTOR.match(arguments[0])
            self.entered |= bool(place and _plain(place["path"] or "") == self.sandbox)


def outside(log: Path, sandbox: Path) -> list[str]:
    """Return the lines of a log of `STRACE` with a path outside the sandbox, after the sandbox was entered.

    The sandbox is entered when ioreplay has locked it. A path is inside if one of these is true:

    - It is a plain name in the sandbox or in a directory opened inside it, and no link of that name is followed.
    - openat2 was called with flags that confine it.
    - It is the number, in /proc/self/fd, of a descriptor opened inside.

    Removing the sandbox itself and reading from /proc and /sys are allowed. Raises ValueError if the sandbox was never
    entered.
    """
    traced = _Traced(str(sandbox.resolve()))
    offending = []
    for line in _whole_lines(log):
        match = _CALL.match(line)
        if match is None:
            continue
        arguments = _arguments(match["arguments"])
        if traced.entered and not traced.is_kept(match["name"], arguments, match["result"]):
            offending.append(line)
        traced.learn(match["name"], arguments, match["result"])
    if not traced.entered:
        raise ValueError(f"{log}: nobody entered {sandbox}")
    return offending


def _whole_lines(log: Path) -> Iterator[str]:
    """Yield the calls without the thread; join interrupted calls."""
    begun: dict[str, str] = {}
    with log.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                continue
            text = _RESUMED.sub("", match["text"]) if match["text"].startswith("<...") else match["text"]
            text = begun.pop(match["pid"], "") + text if match["text"].startswith("<...") else text
            if text.endswith("<unfinished ...>"):
                begun[match["pid"]] = text.removesuffix("<unfinished ...>")
            else:
                yield text


def _arguments(text: str) -> list[str]:
    arguments = [""]
    for token in _TOKEN.findall(text):
        if token == ",":
            arguments.append("")
        else:
            arguments[-1] += token
    return [argument.strip() for argument in arguments]


def _plain(text: str) -> str:
    """Decode strace's escapes."""
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in text else text


def _text(argument: str) -> str:
    return _plain(argument.removesuffix("...").strip('"'))
