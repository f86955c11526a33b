"""Execute a replay program in one thread with Python's os: the expected outcome of ioreplay.

This code is independent of ioreplay. Links are not followed, as in its sandbox, and every descriptor gets a number.
"""

from __future__ import annotations

import errno
import os
import random
import stat
from pathlib import Path
from typing import Any

from support.oracles import replay
from support.replay_programs import APPEND, CREATE, EXCLUSIVE, READ_WRITE, TRUNCATE, WRITE_ONLY

PATHS = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "l"]
BY_PATH = {
    **{"open": ["path", "flags", "mode"], "stat": ["path"], "lstat": ["path"], "readlink": ["path"]},
    **{"mkdir": ["path", "mode"], "rmdir": ["path"], "unlink": ["path"], "truncate": ["path", "bytes"]},
    **{"rename": ["path", "path2"], "link": ["path", "path2"], "symlink": ["path", "path2"]},
}
BY_DESCRIPTOR = {
    **{"close": ["descriptor"], "dup": ["descriptor"], "lseek": ["descriptor", "offset_bytes", "request"]},
    **{"read": ["descriptor", "bytes"], "write": ["descriptor", "bytes"], "readv": ["descriptor", "bytes"]},
    **{call: ["descriptor", "bytes", "offset_bytes"] for call in ("pread", "pwrite")},
    "pwritev": ["descriptor", "bytes", "offset_bytes", "flags"],
    "sendfile": ["descriptor", "descriptor2", "bytes", "offset_bytes"],
    **{"fsync": ["descriptor"], "fstat": ["descriptor"], "ftruncate": ["descriptor", "bytes"]},
}
"""For each call that the emulator knows, the columns that it needs."""

SIZES = [0, 1, 100, 4096, 5000, 70_000, 300_000]


class Emulator(replay.Emulator):
    """Executes operations in a directory and returns their results."""

    def __init__(self, top: Path) -> None:
        self.root = top
        self.descriptors: dict[int, int] = {}
        self.made = 0

    def attempt(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Return the operation with `failed`, `result`, and the index of the descriptor that it made."""
        column = {"open": "descriptor", "dup": "descriptor2"}.get(operation["call"])
        made = operation | ({} if column is None else {column: self.made})
        try:
            result = self.do(made) or 0
        except OSError as failure:
            assert failure.errno is not None
            return operation | {"failed": True, "result": -failure.errno}
        self.made += column is not None
        return made | {"failed": False, "result": result}

    def end(self) -> None:
        for file in self.descriptors.values():
            os.close(file)

    def place(self, path: str) -> Path:
        """Resolve a path; fail for obstacles in the order in which a kernel finds them."""
        for parent in list(Path(path).parents)[-2::-1]:
            mode = (self.root / parent).lstat().st_mode
            if stat.S_ISLNK(mode):
                raise OSError(errno.ELOOP, "a link on the way")
            if not stat.S_ISDIR(mode):
                raise OSError(errno.ENOTDIR, "a file on the way")
        return self.root / path

    def _unlinked(self, path: str) -> Path:
        place = self.place(path)
        if place.is_symlink():
            raise OSError(errno.ELOOP, "a link")
        return place

    def do_open(self, operation: dict[str, Any]) -> int:
        file = os.open(self.place(operation["path"]), operation["flags"] | os.O_NOFOLLOW, operation["mode"])
        self.descriptors[operation["descriptor"]] = file
        return 0

    def do_pwritev(self, operation: dict[str, Any]) -> int:
        data = [bytes(operation["bytes"])]
        return os.pwritev(self.fd(operation), data, operation["offset_bytes"], operation["flags"])

    def do_sendfile(self, operation: dict[str, Any]) -> int:
        source, to = self.fd(operation), self.fd(operation, "descriptor2")
        return os.sendfile(to, source, operation["offset_bytes"], operation["bytes"])

    def do_truncate(self, operation: dict[str, Any]) -> int:
        os.truncate(self._unlinked(operation["path"]), operation["bytes"])
        return 0

    def do_stat(self, operation: dict[str, Any]) -> int:
        self.place(operation["path"]).lstat()
        self._unlinked(operation["path"])
        return 0

    def do_mkdir(self, operation: dict[str, Any]) -> int:
        self.place(operation["path"]).mkdir(operation["mode"])
        return 0

    def do_link(self, operation: dict[str, Any]) -> int:
        place = self.place(operation["path"])
        place.lstat()
        os.link(place, self.place(operation["path2"]), follow_symlinks=False)
        return 0


def random_operation(rng: random.Random, open_now: list[int], threads: int) -> dict[str, Any]:
    """Draw an operation that may fail, of a random thread, on one of the open descriptors."""
    calls = list(BY_PATH) if not open_now or rng.random() < 0.4 else list(BY_DESCRIPTOR)
    call = rng.choice(calls)
    row: dict[str, Any] = {"call": call, "thread": rng.randrange(threads)}
    for column in (BY_PATH | BY_DESCRIPTOR)[call]:
        row[column] = _argument(rng, call, column, open_now)
    return row


def _argument(rng: random.Random, call: str, column: str, open_now: list[int]) -> int | str:
    if column in ("path", "path2"):
        return rng.choice(PATHS)
    if column.startswith("descriptor"):
        return rng.choice(open_now)
    if column == "flags":
        return _flags(rng) if call == "open" else 0
    if column == "offset_bytes":
        return rng.choice([0, 1, 4096, 65_536])
    return {"bytes": rng.choice(SIZES), "mode": 0o700 if call == "mkdir" else 0o600, "request": rng.randrange(3)}[
        column
    ]


def _flags(rng: random.Random) -> int:
    chosen = [flag for flag in (CREATE, CREATE, EXCLUSIVE, TRUNCATE, APPEND) if rng.random() < 0.4]
    return sum({READ_WRITE if rng.random() < 0.8 else WRITE_ONLY, *chosen})


def tree(top: Path) -> dict[str, tuple[str, int | str, int]]:
    """Return the contents of a directory: kind, size or target of a link, and number of names."""
    found: dict[str, tuple[str, int | str, int]] = {}
    for path in sorted(top.rglob("*")):
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            entry: tuple[str, int | str, int] = ("link", str(path.readlink()), about.st_nlink)
        elif stat.S_ISDIR(about.st_mode):
            entry = ("directory", 0, 0)
        else:
            entry = ("file", about.st_size, about.st_nlink)
        found[str(path.relative_to(top))] = entry
    return found
