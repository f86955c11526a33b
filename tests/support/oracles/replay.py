"""The truth about a recorded workload, and a plain execution of a program's operations one by one.

`record` runs replay_workload.py under strace; `truths` pairs its notes with operations. `Emulator` executes operations
in order with Python's own functions in an empty directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

Operation = dict[str, Any]

WORKLOAD = Path(__file__).parents[1] / "replay_workload.py"


@dataclass(frozen=True)
class Truth:
    """The workload's note about its next call."""

    call: str
    identity: str | None
    offset: int | None


@dataclass(frozen=True)
class Recorded:
    """A log of strace, the truth about its calls by marker, and the final sizes of files."""

    log: Path
    top: Path
    truths: dict[str, Truth]
    tree: dict[str, int]


def record(directory: Path, seed: int, *options: str) -> Recorded:
    """Run the workload under strace with `options`."""
    log, top, truth = directory / "log", directory / "top", directory / "truth"
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    workload = [str(python), "-S", "-E", str(WORKLOAD), str(top), str(truth), str(seed)]
    subprocess.run(["strace", "-f", *options, "-o", str(log), *workload], check=True)
    truths = {}
    for file in directory.glob("truth.[0-9]"):
        for line in file.read_text().splitlines():
            number, *known = json.loads(line)
            truths[f"marker/{number}"] = Truth(*known)
    return Recorded(log, top, truths, json.loads((directory / "truth.tree").read_text()))


def truths(recorded: Recorded, operations: pl.DataFrame) -> Iterator[tuple[Truth, Operation]]:
    """Yield each truth with the next operation in the marker's thread (mmap: after fstat and dup)."""
    for _, rows in operations.filter(~pl.col("inserted")).group_by("thread", maintain_order=True):
        of_thread = rows.to_dicts()
        for at, row in enumerate(of_thread):
            truth = recorded.truths.get(row["path"] or "")
            if row["call"] != "access" or truth is None:
                continue
            found = next((after for after in of_thread[at + 1 : at + 4] if after["call"] == truth.call), None)
            if found is not None:
                yield truth, found


class Emulator:
    """Executes operations below `root`; `divergences` are those with other results than recorded."""

    def __init__(self, root: Path, files: pl.DataFrame) -> None:
        self.root = root
        self.descriptors: dict[int, int] = {}
        self.divergences: list[tuple[Operation, object]] = []
        first: dict[int, Path] = {}
        for file in files.to_dicts():
            place = self.place(file["path"])
            if file["inode_type"] == "directory":
                place.mkdir()
            elif file["inode_type"] == "symlink":
                place.symlink_to(file["target"])
            elif file["file"] in first:
                place.hardlink_to(first[file["file"]])
            else:
                place.touch()
                os.truncate(place, file["size_bytes"])
                first[file["file"]] = place

    def place(self, path: str) -> Path:
        """Return where a recorded path is."""
        return self.root / path

    def run(self, operations: pl.DataFrame) -> None:
        """Execute all operations in order."""
        for operation in operations.to_dicts():
            try:
                result = self.do(operation)
            except OSError as error:
                result = -(error.errno or 0)
            self.compare(operation, result)
        for fd in self.descriptors.values():
            with contextlib.suppress(OSError):
                os.close(fd)

    def compare(self, operation: Operation, result: int | None) -> None:
        """Record a divergence. Contents of directories and addresses are not compared."""
        recorded = operation["result"]
        if result is None or recorded is None or operation["call"] == "getdents":
            return
        if result != recorded:
            self.divergences.append((operation, result))

    def do(self, operation: Operation) -> int | None:
        """Execute an operation and return its result; None if it is not compared."""
        done: Callable[[Operation], int | None] | None = getattr(self, f"do_{operation['call']}", None)
        if done is None:
            raise AssertionError(f"the oracle does not know {operation['call']}")
        return done(operation)

    def fd(self, operation: Operation, name: str = "descriptor") -> int:
        """Return the open descriptor of the operation."""
        return self.descriptors[operation[name]]

    def do_open(self, operation: Operation) -> int:
        flags = operation["flags"] & ~os.O_NOFOLLOW
        fd = os.open(self.place(operation["path"]), flags, operation["mode"] or 0o600)
        if operation["descriptor"] is None:
            os.close(fd)
        else:
            assert operation["descriptor"] not in self.descriptors
            self.descriptors[operation["descriptor"]] = fd
        return 0

    def do_close(self, operation: Operation) -> int:
        os.close(self.descriptors.pop(operation["descriptor"]))
        return 0

    def do_dup(self, operation: Operation) -> int:
        assert operation["descriptor2"] not in self.descriptors
        self.descriptors[operation["descriptor2"]] = os.dup(self.fd(operation))
        return 0

    def do_lseek(self, operation: Operation) -> int:
        return os.lseek(self.fd(operation), operation["offset_bytes"], operation["request"])

    def do_read(self, operation: Operation) -> int:
        return len(os.read(self.fd(operation), operation["bytes"]))

    def do_write(self, operation: Operation) -> int:
        return os.write(self.fd(operation), bytes(operation["bytes"]))

    do_readv, do_writev = do_read, do_write

    def do_pread(self, operation: Operation) -> int:
        return len(os.pread(self.fd(operation), operation["bytes"], operation["offset_bytes"]))

    def do_pwrite(self, operation: Operation) -> int:
        return os.pwrite(self.fd(operation), bytes(operation["bytes"]), operation["offset_bytes"])

    def do_sendfile(self, operation: Operation) -> int:
        return os.sendfile(self.fd(operation, "descriptor2"), self.fd(operation), None, operation["bytes"])

    def do_copy_file_range(self, operation: Operation) -> int:
        places = operation["offset_bytes"], operation["offset2_bytes"]
        return os.copy_file_range(self.fd(operation), self.fd(operation, "descriptor2"), operation["bytes"], *places)

    def do_fsync(self, operation: Operation) -> int:
        os.fsync(self.fd(operation))
        return 0

    do_fdatasync = do_fsync

    def do_ftruncate(self, operation: Operation) -> int:
        os.ftruncate(self.fd(operation), operation["bytes"])
        return 0

    def do_truncate(self, operation: Operation) -> int:
        os.truncate(self.place(operation["path"]), operation["bytes"])
        return 0

    def do_fallocate(self, operation: Operation) -> int:
        os.posix_fallocate(self.fd(operation), operation["offset_bytes"], operation["bytes"])
        return 0

    def do_mmap(self, operation: Operation) -> None:
        os.fstat(self.fd(operation))

    def do_munmap(self, operation: Operation) -> None:
        assert operation["descriptor"] is not None

    def do_stat(self, operation: Operation) -> int:
        os.lstat(self.place(operation["path"]))
        return 0

    do_lstat = do_stat

    def do_fstat(self, operation: Operation) -> int:
        os.fstat(self.fd(operation))
        return 0

    def do_access(self, operation: Operation) -> int:
        os.lstat(self.place(operation["path"]))
        return 0

    def do_readlink(self, operation: Operation) -> int:
        return len(os.fsencode(self.place(operation["path"]).readlink()))

    def do_getdents(self, operation: Operation) -> None:
        assert stat.S_ISDIR(os.fstat(self.fd(operation)).st_mode)

    def do_mkdir(self, operation: Operation) -> int:
        self.place(operation["path"]).mkdir()
        return 0

    def do_rmdir(self, operation: Operation) -> int:
        self.place(operation["path"]).rmdir()
        return 0

    def do_unlink(self, operation: Operation) -> int:
        self.place(operation["path"]).unlink()
        return 0

    def do_rename(self, operation: Operation) -> int:
        self.place(operation["path"]).rename(self.place(operation["path2"]))
        return 0

    def do_link(self, operation: Operation) -> int:
        self.place(operation["path2"]).hardlink_to(self.place(operation["path"]))
        return 0

    def do_symlink(self, operation: Operation) -> int:
        self.place(operation["path"]).symlink_to(operation["path2"])
        return 0

    def tree(self, top: Path) -> dict[str, int]:
        """Return the sizes of the files below what was `top` in the recording."""
        place = self.place(str(top).removeprefix("/"))
        files = [path for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(place)): path.stat().st_size for path in files}
