"""Files of GUI snapshots: a zip or tar archive, or a directory, of dumps with their times as names.

A name is ``TS.xml`` or ``TS-END.xml``, in nanoseconds of the device's clock. Any prefix is allowed if it ends in a
letter or a dash. Archives are not unpacked to the disk.
"""

from __future__ import annotations

import itertools
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.tar import PIECE_BYTES, Tar, plain
from androstep_analysis.perceived.gui import MAX_BYTES, Snapshot

_NAME = re.compile(r"(?:.*[^0-9])?(?P<ts>[0-9]{1,18})(?:-(?P<end>[0-9]{1,18}))?\.xml", re.ASCII | re.DOTALL)
_TWO = re.compile(r"(?:.*[^0-9])?(?P<ts>[0-9]{1,18})-(?P<end>[0-9]{1,18})\.xml", re.ASCII | re.DOTALL)
_MAX_TOTAL = 4 << 30
"""The most that is read. All dumps are held in memory."""
_MAX_RATIO, _ALWAYS = 64, 64 << 20
"""Dumps of an archive may be this many times its size, but always `_ALWAYS`. Text like theirs packs to a tenth."""

_ZIP_MAGIC, _ZIP_HEADER = b"PK\x03\x04", 30
"""The begin of the header of a file in a zip archive, and its length up to the name (APPNOTE.TXT, 4.3.7)."""
_OFFSET = "realtime_offset_ns="
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(snapshots: Iterable[Snapshot], path: Path, realtime_offset_ns: int | None = None) -> None:
    """Write a zip archive of snapshots. Raises `FileExistsError` if it exists.

    Equal snapshots give equal bytes. `realtime_offset_ns` is CLOCK_REALTIME minus the clock of the snapshots. It is
    stored as the archive's comment.
    """
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        if realtime_offset_ns is not None:
            archive.comment = f"{_OFFSET}{realtime_offset_ns}".encode()
        for number, one in enumerate(snapshots):
            info = zipfile.ZipInfo(f"{number:06}-{one.ts_ns}-{one.end_ns}.xml", _EPOCH)
            archive.writestr(info, one.xml, zipfile.ZIP_DEFLATED)


def realtime_offset(path: Path) -> int | None:
    """Return CLOCK_REALTIME minus the clock of the snapshots, if the archive has it from `write`."""
    try:
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment.decode("ascii", "replace")
    except Exception:  # for a damaged archive, zipfile may raise any exception
        return None
    found = re.fullmatch(f"{_OFFSET}(-?[0-9]{{1,19}})", comment, re.ASCII)
    return int(found[1]) if found is not None and abs(int(found[1])) < 1 << 63 else None


def is_one(start: bytes) -> bool:
    """Return whether a file that begins with `start` is a zip archive whose first file is named TS-END.xml."""
    if not start.startswith(_ZIP_MAGIC) or len(start) < _ZIP_HEADER:
        return False
    length = int.from_bytes(start[26:28], "little")
    return _TWO.fullmatch(start[_ZIP_HEADER : _ZIP_HEADER + length].decode("utf-8", "replace")) is not None


def times(name: str) -> tuple[int, int] | None:
    """Return begin and end, in ns, from the name of a dump; None for other names."""
    found = _TWO.fullmatch(name) or _NAME.fullmatch(name)
    if found is None:
        return None
    begin, end = int(found["ts"]), int(found["end"] or found["ts"])
    return (begin, end) if begin <= end else None


def read(path: Path) -> tuple[list[Snapshot], tuple[Loss, ...]]:
    """Return the snapshots in a directory or an archive, in order of time, and the losses of reading it.

    Raises `InputError` if the path is neither, or has no file that is named as a dump.
    """
    shown = printable(str(path))
    losses: list[Loss] = []
    most = _MAX_TOTAL if path.is_dir() else min(_MAX_TOTAL, max(_ALWAYS, _MAX_RATIO * path.stat().st_size))
    found = list(_within_limits(_members(path, shown, losses), losses, most))
    if not found:
        why = f" ({losses[0].message})" if losses else ""
        raise InputError(
            f"{shown}: contains no GUI dump named TS-END.xml{why}; docs/perceived.md describes how to make one"
        )
    return sorted(found, key=lambda one: (one.ts_ns, one.end_ns)), tuple(losses)


def _within_limits(members: Iterator[tuple[str, bytes]], losses: list[Loss], most: int) -> Iterator[Snapshot]:
    total = oversized = 0
    for name, xml in members:
        span = times(PurePosixPath(name).name)
        if span is None:
            continue
        total += len(xml)
        if total > most:
            losses.append(Loss("unread", 1, f"more than {most >> 20} MiB of dumps: the rest was not read"))
            break
        if len(xml) > MAX_BYTES:
            oversized += 1
            continue
        yield Snapshot(*span, xml)
    if oversized:
        losses.append(Loss("unread", oversized, f"{oversized} dumps are longer than {MAX_BYTES >> 20} MiB"))


def _members(path: Path, shown: str, losses: list[Loss]) -> Iterator[tuple[str, bytes]]:
    """Yield name and contents of each file.

    The contents of a long file are truncated to one byte more than the limit.
    """
    try:
        if path.is_dir():
            yield from _of_directory(path)
        elif zipfile.is_zipfile(path):
            yield from _of_zip(path, losses)
        elif path.is_file() and _is_tar(path):
            yield from _of_tar(path)
        else:
            raise InputError(f"{shown}: is neither a directory nor a zip or tar archive; give one with GUI dumps")
    except InputError:
        raise
    except Exception as error:  # for a damaged archive, tarfile and zipfile may raise any exception
        losses.append(Loss("torn", 1, f"the rest of the archive could not be read: {printable(str(error))}"))


def _of_directory(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.iterdir()):
        if file.suffix == ".xml" and file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                yield file.name, opened.read(MAX_BYTES + 1)


def _of_zip(path: Path, losses: list[Loss]) -> Iterator[tuple[str, bytes]]:
    damaged = 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # For other methods, zipfile does not limit the size of an unpacked piece.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                damaged += 1
                continue
            try:
                with archive.open(info) as member:
                    xml = member.read(MAX_BYTES + 1)
            except Exception:  # for a damaged archive, zipfile may raise any exception
                damaged += 1
            else:
                yield info.filename, xml
    if damaged:
        message = f"{damaged} files in the archive are damaged, encrypted or not deflated"
        losses.append(Loss("unreadable", damaged, message))


def _is_tar(path: Path) -> bool:
    try:
        with path.open("rb") as packed, plain(packed) as file:
            return next(iter(Tar(file)), None) is not None
    except Exception:  # for other files, tarfile may raise any exception
        return False


def _of_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as packed, plain(packed) as file:
        archive = Tar(file)
        for info in archive:
            if info.isreg():
                content = archive.content(info)
                pieces = iter(partial(content.read, PIECE_BYTES), b"")
                yield info.name, b"".join(itertools.islice(pieces, MAX_BYTES // PIECE_BYTES + 1))
