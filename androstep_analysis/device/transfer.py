"""Files to and from a device, proved to be the same there and here; a lost link is taken up where it broke.

Both sides hash what they have: with sha256, or on devices without a sha256sum (before Android 8) with md5, which finds
every accident as well. A file is read from the device in pieces by dd, not by adb's sync service, which knows no
offsets and no sizes of 4 GiB; each piece is kept when its hash is right. What is not yet whole is called ``.part``, on
either side, and is renamed when the hash of the whole is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tqdm.auto import tqdm

from androstep_analysis.device.numbers import count, free_bytes
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted

if TYPE_CHECKING:
    from androstep_analysis.device.device import Device

PIECE_BYTES = 4 << 20

_BLOCK_BYTES = 1 << 20
_TRIES = 3
_PIECE_S = 120.0
_HASHED_BYTES_PER_S = 10e6
"""No device hashes slower than this."""

_SUMS = [(f"{box}{algorithm}sum", algorithm) for algorithm in ("sha256", "md5") for box in ("", "toybox ", "busybox ")]


@dataclass(frozen=True)
class Hasher:
    """The command that hashes its input on a device, and the name of its algorithm in hashlib."""

    command: str
    algorithm: str

    def of(self, path: Path) -> Any:
        """The hash, as of hashlib, of a file here."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, self.algorithm)


def hasher(device: Device) -> Hasher:
    """The best that the device has and that gives the right answer there; `DeviceError` where it has none."""
    tried = "; ".join(f"echo $(printf abc | {command} 2>/dev/null)" for command, _ in _SUMS)
    answers = device.patiently(lambda: device.script(tried)).text.splitlines()
    for (command, algorithm), said in zip(_SUMS, answers, strict=False):
        if said.split()[:1] == [hashlib.new(algorithm, b"abc").hexdigest()]:
            return Hasher(command, algorithm)
    raise DeviceError(f"{device.name}: has neither sha256sum nor md5sum, so that no copy can be verified")


def push(device: Device, source: Path, target: str, *, mode: int, root: bool) -> None:
    """Copies a file to absolute path `target` on the device, unless the same is there already.

    Raises `DeviceError` where it cannot be written, or arrives otherwise than it was sent three times.
    """
    if not source.is_file():
        raise DeviceError(f"{source}: no such file; nothing was copied to {device.name}")
    wanted = device.hasher.of(source).hexdigest()
    size = source.stat().st_size
    permit = f"chmod {mode:o} {quoted([target])}"
    if _hash(device, target, size, root=root) == wanted:
        device.patiently(lambda: device.checked(permit, f"set the rights of {target}", root=root))
        return
    _refuse_without_room(device, size)
    part = f"{target}.part"
    stage = f"{device.directory}/pushed"
    try:
        for _ in range(_TRIES):
            device.patiently(lambda: device.copy_in(source, stage))
            _move(device, stage, part, root=root)
            if _hash(device, part, size, root=root) == wanted:
                _move(device, part, target, root=root)
                device.patiently(lambda: device.checked(permit, f"set the rights of {target}", root=root))
                return
    except BaseException:
        _discard(device, stage, part, root=root)
        raise
    _discard(device, stage, part, root=root)
    raise DeviceError(f"{device.name}: {target} arrived damaged {_TRIES} times; is the device full, the cable broken?")


def pull(device: Device, source: str, target: Path, *, root: bool) -> None:
    """Copies a file of the device to `target`, which it replaces when it is whole.

    Goes on with ``target.part`` where a call before was broken off. Raises `DeviceError` for what is no file on the
    device, cannot be read, does not fit here, or changes meanwhile.
    """
    size = _size(device, source, root=root)
    part = target.with_name(f"{target.name}.part")
    free = shutil.disk_usage(part.parent).free + (part.stat().st_size if part.is_file() else 0)
    if size > free:
        raise DeviceError(f"{device.name}: {source} has {size:,} bytes, and {part.parent} has room for {free:,}")
    digest = hashlib.new(device.hasher.algorithm)
    with part.open("a+b") as file, _bar(source, size) as bar:
        done = _kept(device, source, file, size, root=root)
        file.seek(0)
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
        bar.update(done)
        while done < size:
            piece = _piece(device, source, done, min(PIECE_BYTES, size - done), root=root)
            file.write(piece)
            digest.update(piece)
            done += len(piece)
            bar.update(len(piece))
        file.flush()
        os.fsync(file.fileno())  # the device's own may be removed when this is here
    if _hash(device, source, size, root=root) != digest.hexdigest():
        part.unlink()
        raise DeviceError(f"{device.name}: {source} changed while it was copied; end what writes it, and try again")
    part.replace(target)


def _bar(source: str, size: int) -> tqdm[Any]:
    name = source.rpartition("/")[2]
    return tqdm(total=size, unit="B", unit_scale=True, desc=name, disable=None, delay=2, leave=False)


def _kept(device: Device, source: str, file: IO[bytes], size: int, *, root: bool) -> int:
    """How many bytes of a part are those of the device's file; the rest of it is cut off."""
    held = min(file.seek(0, os.SEEK_END), size) // PIECE_BYTES * PIECE_BYTES
    if held:
        file.seek(0)
        here = hashlib.new(device.hasher.algorithm)
        for _ in range(held // _BLOCK_BYTES):
            here.update(file.read(_BLOCK_BYTES))
        there = _asked_hash(device, f"{_dd(source, 0, held)} | {device.hasher.command}", held, root=root)
        held = held if there == here.hexdigest() else 0
    file.truncate(held)
    return held


def _piece(device: Device, source: str, offset: int, length: int, *, root: bool) -> bytes:
    """A piece of a file, from the start of a block of dd to the end of one or of the file."""
    dd = _dd(source, offset, length)
    for _ in range(_TRIES):
        answer = device.patiently(
            lambda: device.script(f"{dd}; {dd} | {device.hasher.command} >&2", root=root, timeout_s=_PIECE_S)
        )
        said = answer.errors.decode("ascii", "replace").split()[:1]
        if len(answer.output) == length and said == [hashlib.new(device.hasher.algorithm, answer.output).hexdigest()]:
            return answer.output
    raise DeviceError(
        f"{device.name}: {source} arrived damaged {_TRIES} times at byte {offset:,}, or became shorter; copy it again"
    )


def _dd(source: str, offset: int, length: int) -> str:
    blocks = -(-length // _BLOCK_BYTES)
    return f"dd {quoted([f'if={source}'])} bs={_BLOCK_BYTES} skip={offset // _BLOCK_BYTES} count={blocks} 2>/dev/null"


def _size(device: Device, path: str, *, root: bool) -> int:
    word = quoted([path])
    answer = device.patiently(lambda: device.script(f"[ -f {word} ] && wc -c <{word}", root=root))
    size = count(answer.output)
    if answer.status or size is None:
        raise DeviceError(f"{device.name}: {path}: no such file, or it cannot be read ({answer.complaint})")
    return size


def _hash(device: Device, path: str, size: int, *, root: bool) -> str | None:
    """The hash of a file on the device; None where there is none that can be read."""
    word = quoted([path])
    return _asked_hash(device, f"[ -f {word} ] && {device.hasher.command} <{word}", size, root=root)


def _asked_hash(device: Device, line: str, size: int, *, root: bool) -> str | None:
    timeout_s = 60 + size / _HASHED_BYTES_PER_S
    words = device.patiently(lambda: device.script(line, root=root, timeout_s=timeout_s)).text.split()
    return words[0] if words else None


def _refuse_without_room(device: Device, size: int) -> None:
    """Raises `DeviceError` where the device says that it has no room: adb-shell waits for ever for what it refuses."""
    free = free_bytes(device.patiently(lambda: device.script(f"df -k {quoted([device.directory])}")).text.splitlines())
    if free is not None and free < size:
        raise DeviceError(
            f"{device.name}: {size / 1e6:,.1f} MB do not fit into {device.directory}, where {free / 1e6:,.1f} MB are "
            "free; make room on the device"
        )


def _move(device: Device, source: str, target: str, *, root: bool) -> None:
    """Moves a file there. It may be asked for twice, when the answer was lost: then the file is no more at `source`."""
    line = f"[ ! -e {quoted([source])} ] || mv -f {quoted([source, target])}"
    device.patiently(lambda: device.checked(line, f"write {target}", root=root, timeout_s=_PIECE_S))


def _discard(device: Device, stage: str, part: str, *, root: bool) -> None:
    """Removes what is half copied, where the device still answers: the sentence of what went wrong stands."""
    with contextlib.suppress(LinkLost):
        device.script(f"rm -f {quoted([stage])}")
        device.script(f"rm -f {quoted([part])}", root=root)
