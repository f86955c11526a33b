"""Copy files to and from a device, verified by hash and resumed after the link was lost.

Both sides hash the data with sha256. Devices without sha256sum (before Android 8) use md5, which detects accidental
damage as well. Files are read in pieces by dd, because adb's sync service has no offsets and no sizes of 4 GiB or more.
A piece is stored if its hash matches. An incomplete file is called ``.part`` on either side, and is renamed when the
hash of the whole file matches.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm.auto import tqdm

from androstep_analysis.device.session.shell import Shell
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.parse import count, free_bytes

PIECE_BYTES = 4 << 20

_BLOCK_BYTES = 1 << 20
_TRIES = 3
_PIECE_S = 120.0
_HASHED_BYTES_PER_S = 10e6
"""A lower bound of the speed at which devices hash."""

_SUMS = [(f"{box}{algorithm}sum", algorithm) for algorithm in ("sha256", "md5") for box in ("", "toybox ", "busybox ")]


@dataclass(frozen=True)
class Hasher:
    """The command that hashes its input on a device, and the algorithm's name in hashlib."""

    command: str
    algorithm: str

    def of(self, path: Path) -> Any:
        """Return the hash object of a local file."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, self.algorithm)


def hasher(shell: Shell) -> Hasher:
    """Return the best hash command that works correctly on the device; `DeviceError` if there is none."""
    trials = "; ".join(f"echo $(printf abc | {command} 2>/dev/null)" for command, _ in _SUMS)
    answers = shell.query(trials).text.splitlines()
    for (command, algorithm), answer in zip(_SUMS, answers, strict=False):
        if answer.split()[:1] == [hashlib.new(algorithm, b"abc").hexdigest()]:
            return Hasher(command, algorithm)
    raise DeviceError(f"{shell.name}: has neither sha256sum nor md5sum, so copies cannot be verified")


@dataclass(frozen=True)
class Transfer:
    """Copies files to and from a device; `root` accesses the device's files as root."""

    shell: Shell
    hasher: Hasher
    root: bool

    def push(self, source: Path, target: str, mode: int) -> None:
        """Copy a file to the absolute path `target` on the device, unless the same file is there already.

        Raises `DeviceError` if it cannot be written, or is damaged in three attempts.
        """
        if not source.is_file():
            raise DeviceError(f"{source}: no such file; nothing was copied to {self.shell.name}")
        wanted = self.hasher.of(source).hexdigest()
        size = source.stat().st_size
        if self._hash(target, size) == wanted:
            self._permit(target, mode)
            return
        self._refuse_without_room(size)
        part = f"{target}.part"
        stage = f"{self.shell.directory}/pushed"
        try:
            for _ in range(_TRIES):
                self.shell.patiently(lambda: self.shell.copy_in(source, stage))
                self._move(stage, part)
                if self._hash(part, size) == wanted:
                    self._move(part, target)
                    self._permit(target, mode)
                    return
        except BaseException:
            self._discard(stage, part)
            raise
        self._discard(stage, part)
        raise DeviceError(
            f"{self.shell.name}: {target} arrived damaged {_TRIES} times; is the device full, the cable broken?"
        )

    def pull(self, source: str, target: Path) -> None:
        """Copy a file of the device to `target`, which is replaced once the copy is complete.

        An earlier ``target.part`` is continued. Raises `DeviceError` if the source is not a readable file, does not fit
        here, or changes during the copy.
        """
        name = self.shell.name
        size = self._size(source)
        part = target.with_name(f"{target.name}.part")
        free = shutil.disk_usage(part.parent).free + (part.stat().st_size if part.is_file() else 0)
        if size > free:
            raise DeviceError(f"{name}: {source} has {size:,} bytes, but only {free:,} are free in {part.parent}")
        digest = hashlib.new(self.hasher.algorithm)
        with part.open("a+b") as file, _bar(source, size) as bar:
            done = self._kept(source, file, size)
            file.seek(0)
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
            bar.update(done)
            while done < size:
                piece = self._piece(source, done, min(PIECE_BYTES, size - done))
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                bar.update(len(piece))
            file.flush()
            os.fsync(file.fileno())  # the caller may now delete the device's copy
        if self._hash(source, size) != digest.hexdigest():
            part.unlink()
            raise DeviceError(
                f"{name}: {source} changed while it was copied; end the program that writes it, and try again"
            )
        part.replace(target)

    def _kept(self, source: str, file: IO[bytes], size: int) -> int:
        """Truncate a partial copy to the pieces that match the device's file, and return their length."""
        held = min(file.seek(0, os.SEEK_END), size) // PIECE_BYTES * PIECE_BYTES
        if held:
            file.seek(0)
            here = hashlib.new(self.hasher.algorithm)
            for _ in range(held // _BLOCK_BYTES):
                here.update(file.read(_BLOCK_BYTES))
            there = self._hash_of_output(f"{_dd(source, 0, held)} | {self.hasher.command}", held)
            held = held if there == here.hexdigest() else 0
        file.truncate(held)
        return held

    def _piece(self, source: str, offset: int, length: int) -> bytes:
        """Read a piece that starts and ends at a dd block, or ends at the end of the file."""
        dd = _dd(source, offset, length)
        text = f"{dd}; {dd} | {self.hasher.command} >&2"
        for _ in range(_TRIES):
            answer = self.shell.query(text, root=self.root, timeout_s=_PIECE_S)
            there = answer.errors.decode("ascii", "replace").split()[:1]
            here = hashlib.new(self.hasher.algorithm, answer.output).hexdigest()
            if len(answer.output) == length and there == [here]:
                return answer.output
        raise DeviceError(
            f"{self.shell.name}: {source} arrived damaged {_TRIES} times at byte {offset:,}, or became shorter; copy "
            "it again"
        )

    def _size(self, path: str) -> int:
        word = quoted([path])
        answer = self.shell.query(f"[ -f {word} ] && wc -c <{word}", root=self.root)
        size = count(answer.output)
        if answer.status or size is None:
            raise DeviceError(f"{self.shell.name}: {path}: no such file, or it cannot be read ({answer.complaint})")
        return size

    def _hash(self, path: str, size: int) -> str | None:
        """Return the hash of a file on the device; None if it cannot be read."""
        word = quoted([path])
        return self._hash_of_output(f"[ -f {word} ] && {self.hasher.command} <{word}", size)

    def _hash_of_output(self, text: str, size: int) -> str | None:
        """Return the hash that a shell text computes of `size` bytes."""
        timeout_s = 60 + size / _HASHED_BYTES_PER_S
        words = self.shell.query(text, root=self.root, timeout_s=timeout_s).text.split()
        return words[0] if words else None

    def _permit(self, target: str, mode: int) -> None:
        self.shell.ensure(f"chmod {mode:o} {quoted([target])}", f"set the rights of {target}", root=self.root)

    def _refuse_without_room(self, size: int) -> None:
        """Raise `DeviceError` if the file does not fit: adb-shell would wait forever on a full device."""
        place = self.shell.directory
        free = free_bytes(self.shell.query(f"df -k {quoted([place])}").text.splitlines())
        if free is not None and free < size:
            raise DeviceError(
                f"{self.shell.name}: {size / 1e6:,.1f} MB do not fit into {place}, where {free / 1e6:,.1f} MB are "
                "free; make room on the device"
            )

    def _move(self, source: str, target: str) -> None:
        """Move a file on the device. If the source is gone, an earlier attempt succeeded and its answer was lost."""
        text = f"[ ! -e {quoted([source])} ] || mv -f {quoted([source, target])}"
        self.shell.ensure(text, f"write {target}", root=self.root, timeout_s=_PIECE_S)

    def _discard(self, stage: str, part: str) -> None:
        """Remove partial copies; ignore a lost link, so that the original error is reported."""
        with contextlib.suppress(LinkLost):
            self.shell.script(f"rm -f {quoted([stage])}")
            self.shell.script(f"rm -f {quoted([part])}", root=self.root)


def _bar(source: str, size: int) -> tqdm[Any]:
    name = source.rpartition("/")[2]
    return tqdm(total=size, unit="B", unit_scale=True, desc=name, disable=None, delay=2, leave=False)


def _dd(source: str, offset: int, length: int) -> str:
    blocks = -(-length // _BLOCK_BYTES)
    return f"dd {quoted([f'if={source}'])} bs={_BLOCK_BYTES} skip={offset // _BLOCK_BYTES} count={blocks} 2>/dev/null"
