"""Make random file calls in several processes and threads, and note the truth about each of them.

``python replay_workload.py DIRECTORY TRUTH SEED`` runs under strace. An access to ``/marker/N``, which fails, precedes
each call of interest; TRUTH gets a line ``N call identity offset`` for it. A file's identity is an extended attribute,
because inode numbers are reused. Threads of a process share only what the lock guards.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import mmap
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

IDENTITY = "user.identity"


class Truth:
    """The truth about the calls of one process."""

    def __init__(self, path: str, process: int) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = process
        self._numbers = itertools.count()

    def mark(self, call: str, identity: str | None, offset: int | None) -> None:
        """Note the file and offset of the next call of this thread, `call`."""
        number = f"{self._process}-{next(self._numbers)}"
        os.write(self._out, json.dumps([number, call, identity, offset]).encode() + b"\n")
        os.access(f"/marker/{number}", os.F_OK)


class Worker:
    """One thread with a separate directory, files and descriptors."""

    def __init__(self, truth: Truth, directory: str, seed: int) -> None:
        self.truth = truth
        self.random = random.Random(seed)
        self.directory = directory
        self.names = [f"{directory}/{name}" for name in ("a", "b", "c", "sub/d", "sub/e")]
        self.open: list[int] = []
        self.made = 0

    def identity(self, fd: int) -> str:
        """Return the file's identity; assign one to a new file."""
        try:
            return os.getxattr(fd, IDENTITY).decode()
        except OSError:
            self.made += 1
            name = f"{self.directory}#{self.made}"
            os.setxattr(fd, IDENTITY, name.encode())
            return name

    def position(self, fd: int) -> int:
        """Return the descriptor's position."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def path(self) -> str:
        """Return one of the names, sometimes in another spelling."""
        path = self.random.choice(self.names)
        winding = f"{self.directory}/./sub/../{path[len(self.directory) + 1 :]}"
        return self.random.choice((path, path, path.replace("/", "//"), winding))

    def fd(self) -> int | None:
        """Return one of the open descriptors."""
        return self.random.choice(self.open) if self.open else None

    def step(self) -> None:
        """Make one random call, with the preparation needed to know its truth."""
        actions = (
            *(self.open_file, self.open_file, self.close, self.read, self.read, self.write, self.write, self.pread),
            *(self.pwrite, self.seek, self.dup, self.dup2, self.rename, self.unlink, self.link, self.truncate),
            *(self.ftruncate, self.stat, self.map, self.move_directory, self.sendfile, self.vector, self.sync),
            *(self.symlink, self.missing, self.change_directory, self.pipe, self.through_link),
        )
        with contextlib.suppress(OSError):  # many fail, and failures must be followed too
            self.random.choice(actions)()

    def open_file(self) -> None:
        ways = (0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_APPEND)
        extra = self.random.choice(ways)
        fd = os.open(self.path(), os.O_RDWR | extra, 0o644)
        self.open.append(fd)
        self.identity(fd)
        if len(self.open) > 12:
            self.close()

    def close(self) -> None:
        if self.open:
            fd = self.open.pop(self.random.randrange(len(self.open)))
            self.truth.mark("close", self.identity(fd), None)
            os.close(fd)

    def at_position(self, call: str, size: int) -> None:
        fd = self.fd()
        if fd is None:
            return
        appends = call == "write" and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        place = os.fstat(fd).st_size if appends else self.position(fd)
        self.truth.mark(call, self.identity(fd), place)
        if call == "read":
            os.read(fd, size)
        else:
            os.write(fd, b"w" * size)

    def read(self) -> None:
        self.at_position("read", self.random.randrange(1, 9000))

    def write(self) -> None:
        self.at_position("write", self.random.randrange(1, 9000))

    def pread(self) -> None:
        if (fd := self.fd()) is not None:
            place = self.random.randrange(9000)
            self.truth.mark("pread", self.identity(fd), place)
            os.pread(fd, 100, place)

    def pwrite(self) -> None:
        if (fd := self.fd()) is not None and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
            place = self.random.randrange(9000)
            self.truth.mark("pwrite", self.identity(fd), place)
            os.pwrite(fd, b"p" * 50, place)

    def vector(self) -> None:
        if (fd := self.fd()) is not None and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
            self.truth.mark("writev", self.identity(fd), self.position(fd))
            os.writev(fd, [b"1" * 10, b"2" * 20])
            self.truth.mark("readv", self.identity(fd), self.position(fd))
            os.readv(fd, [bytearray(10), bytearray(7)])

    def seek(self) -> None:
        if (fd := self.fd()) is not None:
            whence = self.random.choice((os.SEEK_SET, os.SEEK_CUR, os.SEEK_END))
            os.lseek(fd, self.random.randrange(500), whence)

    def dup(self) -> None:
        if (fd := self.fd()) is not None:
            self.open.append(os.dup(fd))

    def dup2(self) -> None:
        if len(self.open) > 1:
            source, target = self.random.sample(self.open, 2)
            self.truth.mark("dup", self.identity(source), None)
            os.dup2(source, target)

    def rename(self) -> None:
        one, other = self.path(), self.path()
        identity = os.getxattr(one, IDENTITY).decode()
        self.truth.mark("rename", identity, None)
        Path(one).rename(other)

    def unlink(self) -> None:
        path = self.path()
        self.truth.mark("unlink", os.getxattr(path, IDENTITY).decode(), None)
        Path(path).unlink()

    def link(self) -> None:
        one, other = self.path(), self.path()
        self.truth.mark("link", os.getxattr(one, IDENTITY).decode(), None)
        os.link(one, other)

    def truncate(self) -> None:
        path = self.path()
        self.truth.mark("truncate", os.getxattr(path, IDENTITY).decode(), None)
        os.truncate(path, self.random.randrange(5000))

    def ftruncate(self) -> None:
        if (fd := self.fd()) is not None:
            self.truth.mark("ftruncate", self.identity(fd), None)
            os.ftruncate(fd, self.random.randrange(5000))

    def stat(self) -> None:
        path = self.path()
        identity = os.getxattr(path, IDENTITY).decode()
        self.truth.mark("stat", identity, None)
        Path(path).stat()

    def map(self) -> None:
        if (fd := self.fd()) is not None and os.fstat(fd).st_size:
            self.truth.mark("mmap", self.identity(fd), 0)
            mapping = mmap.mmap(fd, 1)
            mapping[0] = 1
            mapping.close()

    def move_directory(self) -> None:
        self.truth.mark("rename", None, None)
        Path(f"{self.directory}/sub").rename(f"{self.directory}/moved")
        self.truth.mark("rename", None, None)
        Path(f"{self.directory}/moved").rename(f"{self.directory}/sub")

    def sendfile(self) -> None:
        if len(self.open) > 1:
            source, target = self.random.sample(self.open, 2)
            if not fcntl.fcntl(target, fcntl.F_GETFL) & os.O_APPEND and not os.path.sameopenfile(source, target):
                self.truth.mark("sendfile", self.identity(source), self.position(source))
                os.sendfile(target, source, None, 300)
                self.truth.mark("copy_file_range", self.identity(source), 3)
                os.copy_file_range(source, target, 200, 3, None)

    def sync(self) -> None:
        if (fd := self.fd()) is not None:
            self.truth.mark("fsync", self.identity(fd), None)
            os.fsync(fd)
            self.truth.mark("fallocate", self.identity(fd), 100)
            os.posix_fallocate(fd, 100, 1000)

    def symlink(self) -> None:
        target = self.random.choice(("a", "sub/d", "../nowhere", f"{self.directory}/b"))
        Path(f"{self.directory}/link").symlink_to(target)

    def through_link(self) -> None:
        path = f"{self.directory}/link"
        self.truth.mark("stat", os.getxattr(path, IDENTITY).decode(), None)
        Path(path).stat()
        if self.random.random() < 0.5:
            Path(path).unlink()

    def missing(self) -> None:
        Path(f"{self.directory}/nothing/{self.random.randrange(5)}").stat()

    def change_directory(self) -> None:
        at = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            identity = os.getxattr(f"{self.directory}/sub/d", IDENTITY).decode()
            self.truth.mark("stat", identity, None)
            os.stat("sub/d", dir_fd=at)
        finally:
            os.close(at)

    def pipe(self) -> None:
        out, into = os.pipe()
        os.write(into, b"x")
        os.read(out, 1)
        os.close(out)
        os.close(into)


def process(top: str, truth_path: str, number: int, seed: int, inherited: list[int]) -> None:
    """Run threads in separate directories, one of which also uses the parent's open descriptors."""
    truth = Truth(f"{truth_path}.{number}", number)

    def work(thread: int) -> None:
        directory = f"{top}/p{number}t{thread}"
        Path(f"{directory}/sub").mkdir(parents=True)
        worker = Worker(truth, directory, seed * 100 + number * 10 + thread)
        if not thread:
            worker.open.extend(inherited)
        for _ in range(600):
            worker.step()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(arguments: list[str]) -> None:
    """Run three processes: a parent, and two children that it forks and that run at the same time."""
    top, truth_path, seed = arguments[0], arguments[1], int(arguments[2])
    Path(top).mkdir()
    first = Worker(Truth(f"{truth_path}.9", 9), f"{top}/first", seed)
    Path(f"{top}/first/sub").mkdir(parents=True)
    for _ in range(300):
        first.step()
    children: list[int] = []
    for number in range(2):
        child = os.fork()
        if not child:
            share: list[Any] = first.open if not number else []
            process(top, truth_path, number, seed, list(share))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    for _ in range(100):
        first.step()
    files = [path for path in Path(top).rglob("*") if path.is_file() and not path.is_symlink()]
    sizes = {str(path.relative_to(top)): path.stat().st_size for path in files}
    Path(f"{truth_path}.tree").write_text(json.dumps(sizes))


if __name__ == "__main__":
    main(sys.argv[1:])
