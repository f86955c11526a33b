"""The sync service: metadata of the phone's files, and copies both ways."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from adbd.faults import Break, Way
from adbd.messages import Lost
from adbd.streams import Stream

_REQUEST = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<3I")
_STAT_V2 = struct.Struct("<I2Q4IQ3q")
_CHUNK_BYTES = 64 << 10
_LONGEST_PATH = 1024


class Phone(Protocol):
    """What the service needs of the phone."""

    root_fd: int

    def breaks(self, way: Way, so_far: int, more: int) -> Break | None:
        """Return where in the next bytes the connection breaks, if it does."""

    def snap(self, broken: Break) -> None:
        """Break the connection."""

    def corrupted(self, way: Literal["push", "pull"], so_far: int, data: bytes) -> bytes:
        """Return the data as they arrive."""

    def is_reachable(self) -> bool:
        """Return whether the device still exists."""


def serve(phone: Phone, stream: Stream) -> None:
    """Answer requests until the host quits."""
    service = _Service(phone, stream)
    while True:
        kind, length = _REQUEST.unpack(stream.exactly(_REQUEST.size))
        if kind == b"QUIT":
            return
        if length > _LONGEST_PATH or kind not in _ANSWERS:
            service.fail(f"unknown command {kind.decode('latin-1')}" if length <= _LONGEST_PATH else "path too long")
            return
        _ANSWERS[kind](service, os.fsdecode(stream.exactly(length)))


@dataclass
class _Service:
    phone: Phone
    stream: Stream

    def fail(self, what: str) -> None:
        """Report that a request failed."""
        message = os.fsencode(what)
        self.stream.write(_REQUEST.pack(b"FAIL", len(message)) + message)

    def stat_v1(self, path: str) -> None:
        """Send mode, size and time modulo 2^32, of a link itself; zeros if the file is missing."""
        self.stream.write(b"STAT" + _v1(self._looked_at(path, follow=False)))

    def stat_v2(self, path: str) -> None:
        """Send all fields of stat, following links."""
        self.stream.write(b"STA2" + _v2(self._looked_at(path, follow=True)))

    def lstat_v2(self, path: str) -> None:
        """Send all fields of stat, of a link itself."""
        self.stream.write(b"LST2" + _v2(self._looked_at(path, follow=False)))

    def list_v1(self, path: str) -> None:
        """Send each entry of a directory, with `.` and `..`."""
        for name, looked_at in self._entries(path):
            self.stream.write(b"DENT" + _v1(looked_at) + struct.pack("<I", len(name)) + name)
        self.stream.write(b"DONE" + bytes(_STAT_V1.size + 4))

    def list_v2(self, path: str) -> None:
        """Send each entry of a directory with all fields of stat."""
        for name, looked_at in self._entries(path):
            self.stream.write(b"DNT2" + _v2(looked_at) + struct.pack("<I", len(name)) + name)
        self.stream.write(b"DONE" + bytes(_STAT_V2.size + 4))

    def receive(self, path: str) -> None:
        """Send a file to the host."""
        try:
            file = os.open(_inside(path), os.O_RDONLY, dir_fd=self.phone.root_fd)
        except OSError as error:
            self.fail(f"open failed: {error.strerror}")
            return
        try:
            so_far = 0
            while data := os.read(file, _CHUNK_BYTES):
                passing = self.phone.corrupted("pull", so_far, data)
                broken = self.phone.breaks("pull", so_far, len(data))
                if broken is not None:
                    self.stream.write(_REQUEST.pack(b"DATA", len(passing)) + passing[: broken.after])
                    self.phone.snap(broken)
                    return
                self.stream.write(_REQUEST.pack(b"DATA", len(passing)) + passing)
                so_far += len(data)
        except OSError as error:
            self.fail(f"read failed: {error.strerror}")
            return
        finally:
            os.close(file)
        self.stream.write(_REQUEST.pack(b"DONE", 0))

    def send(self, path_and_mode: str) -> None:
        """Store a file from the host. An existing file is removed first, and parent directories are made."""
        path, comma, mode = path_and_mode.rpartition(",")
        if not comma or not mode.isdigit():
            self.fail("missing , in ID_SEND")
            return
        error_text = self._link(path) if stat.S_ISLNK(int(mode)) else self._take(path, int(mode))
        if error_text is None:
            self.stream.write(_REQUEST.pack(b"OKAY", 0))
        else:
            self.fail(error_text)

    def _take(self, path: str, mode: int) -> str | None:
        """Write the data; return the error, if any, after all data has arrived."""
        inside, root = _inside(path), self.phone.root_fd
        error_text, file = None, None
        try:
            _remove(inside, root)
            _make_parents(inside, root)
            file = os.open(inside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=root)
        except OSError as error:
            error_text = f"couldn't create file: {error.strerror}"
        so_far = 0
        try:
            for data in self._data():
                passing = self.phone.corrupted("push", so_far, data)
                broken = self.phone.breaks("push", so_far, len(data))
                if error_text is None and file is not None:
                    error_text = _write(file, passing if broken is None else passing[: broken.after])
                if broken is not None:
                    self.phone.snap(broken)
                    raise Lost("cut")
                so_far += len(data)
            if file is not None:
                os.fchmod(file, mode & 0o777)
                os.utime(file, (self._modified, self._modified))
        except Lost:
            error_text = "lost"
            raise
        finally:
            if file is not None:
                os.close(file)
                if error_text is not None and self.phone.is_reachable():
                    _remove(inside, root)
        return error_text

    def _link(self, path: str) -> str | None:
        target = b"".join(self._data()).rstrip(b"\0")
        try:
            _remove(_inside(path), self.phone.root_fd)
            _make_parents(_inside(path), self.phone.root_fd)
            os.symlink(target, os.fsencode(_inside(path)), dir_fd=self.phone.root_fd)
        except OSError as error:
            return f"couldn't create symlink: {error.strerror}"
        return None

    def _data(self) -> Iterator[bytes]:
        while True:
            kind, number = _REQUEST.unpack(self.stream.exactly(_REQUEST.size))
            if kind == b"DONE":
                self._modified = number
                return
            if kind != b"DATA" or number > _CHUNK_BYTES:
                self.fail("invalid data message")
                raise Lost("no data")
            yield self.stream.exactly(number)

    def _looked_at(self, path: str, *, follow: bool) -> os.stat_result | OSError:
        try:
            return os.stat(_inside(path), dir_fd=self.phone.root_fd, follow_symlinks=follow)
        except OSError as error:
            return error

    def _entries(self, path: str) -> Iterator[tuple[bytes, os.stat_result | OSError]]:
        try:
            directory = os.open(_inside(path), os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.phone.root_fd)
        except OSError:
            return
        try:
            with os.scandir(directory) as entries:
                names = sorted(entry.name for entry in entries)
            for name in (".", "..", *names):
                yield os.fsencode(name), self._looked_at(posixpath.join(path, name), follow=False)
        finally:
            os.close(directory)


_ANSWERS: dict[bytes, Callable[[_Service, str], None]] = {
    b"STAT": _Service.stat_v1,
    b"STA2": _Service.stat_v2,
    b"LST2": _Service.lstat_v2,
    b"LIST": _Service.list_v1,
    b"LIS2": _Service.list_v2,
    b"RECV": _Service.receive,
    b"SEND": _Service.send,
}


def _inside(path: str) -> str:
    """Return the path relative to the phone's root, even if it contains `..`."""
    return posixpath.normpath(posixpath.join("/", path)).lstrip("/") or "."


def _make_parents(inside: str, root: int) -> None:
    """Make the missing directories above a file."""
    parts = inside.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        try:
            os.mkdir("/".join(parts[:depth]), 0o775, dir_fd=root)
        except FileExistsError:
            continue


def _remove(inside: str, root: int) -> None:
    """Remove a file or link, if it exists."""
    try:
        os.unlink(inside, dir_fd=root)
    except FileNotFoundError:
        return


def _write(file: int, data: bytes) -> str | None:
    """Write all data, or return the error."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(file, view) :]
    except OSError as error:
        return f"write failed: {error.strerror}"
    return None


def _v1(looked_at: os.stat_result | OSError) -> bytes:
    if isinstance(looked_at, OSError):
        return bytes(_STAT_V1.size)
    return _STAT_V1.pack(looked_at.st_mode, looked_at.st_size & 0xFFFFFFFF, int(looked_at.st_mtime) & 0xFFFFFFFF)


def _v2(looked_at: os.stat_result | OSError) -> bytes:
    if isinstance(looked_at, OSError):
        return _STAT_V2.pack(looked_at.errno or errno.EIO, *[0] * 10)
    s = looked_at
    times = (int(s.st_atime), int(s.st_mtime), int(s.st_ctime))
    return _STAT_V2.pack(
        0, s.st_dev, s.st_ino, s.st_mode, s.st_nlink, s.st_uid, s.st_gid, s.st_size & 0xFFFFFFFFFFFFFFFF, *times
    )
