"""Unpack archives of datasets safely: only files and directories, only inside the target directory."""

from __future__ import annotations

import contextlib
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from androstep_analysis.common import tar
from androstep_analysis.common.errors import InputError, printable

_MOST_FILES = 1_000_000
_MOST_PARTS, _MOST_PART_BYTES = 100, 255
"""Limits that every filesystem supports: nested directories, and bytes of a name."""


def unpack(archive: Path, directory: Path, most_bytes: int) -> None:
    """Unpack a tar (plain, gzip, bzip2, xz) or zip archive into an empty directory.

    Raises `InputError` for links and devices, for names that leave the directory or occur twice, for more than
    `most_bytes`, and for a damaged archive. Owners, modes and times in the archive are ignored.
    """
    left = most_bytes
    try:
        for number, (name, content) in enumerate(_members(archive, most_bytes)):
            target = directory.joinpath(*_safe(name, archive).parts)
            if number >= _MOST_FILES:
                raise InputError(
                    f"{archive}: more than {_MOST_FILES} files, the limit for a dataset; do not use this archive"
                )
            if content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                for piece in content:
                    left -= len(piece)
                    if left < 0:
                        raise InputError(
                            f"{archive}: more than {most_bytes} bytes when unpacked, the size in the registry; "
                            "do not use this archive"
                        )
                    file.write(piece)
    except FileExistsError as error:
        raise InputError(f"{archive}: {error.filename} is contained twice; fetch it again") from None
    except NotADirectoryError as error:
        raise InputError(f"{archive}: {error.filename} is below a file; fetch it again") from None


def _safe(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not name.isprintable():
        raise InputError(f"{archive}: {name!r} is not a path inside the dataset; do not use this archive")
    if len(path.parts) > _MOST_PARTS or any(len(part.encode()) > _MOST_PART_BYTES for part in path.parts):
        raise InputError(f"{archive}: {name[:80]!r}… is too long for a file name; do not use this archive")
    return path


Content = Iterator[bytes] | None
"""The contents of a file in pieces; None for a directory."""


def _members(archive: Path, most_bytes: int) -> Iterator[tuple[str, Content]]:
    """Yield name and content of each member."""
    with _readable(archive):
        yield from _zip(archive) if zipfile.is_zipfile(archive) else _tar(archive, most_bytes)


@contextlib.contextmanager
def _readable(archive: Path) -> Iterator[None]:
    """Convert any exception of Python's archive readers to `InputError`: a damaged archive may raise any of them.

    Exceptions of the consumer, which writes the member, do not pass through here, because they do not reach a
    generator.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = printable(str(error).partition("\n")[0] or type(error).__name__)
        raise InputError(f"{archive}: the tar or zip archive is damaged ({why}); fetch it again") from None


def _pieces(content: IO[bytes], archive: Path) -> Iterator[bytes]:
    with _readable(archive):
        while piece := content.read(tar.PIECE_BYTES):
            yield piece


def _tar(archive: Path, most_bytes: int) -> Iterator[tuple[str, Content]]:
    # Headers and padding may be half of an archive of small files.
    with archive.open("rb") as packed, tar.plain(packed) as opened:
        members = tar.Tar(opened, 2 * most_bytes + (1 << 24))
        for member in members:
            if not (member.isreg() or member.isdir()):
                raise InputError(f"{archive}: {member.name!r} is a link or a device; do not use this archive")
            yield member.name, None if member.isdir() else _pieces(members.content(member), archive)


def _zip(archive: Path) -> Iterator[tuple[str, Content]]:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise InputError(f"{archive}: {member.filename!r} is a link or a device; do not use this archive")
            if member.is_dir():
                yield member.filename, None
            elif member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # For other methods zipfile decompresses without a limit, whatever the piece size.
                raise InputError(f"{archive}: {member.filename!r} is not deflated; pack it as zip does by default")
            else:
                with packed.open(member) as content:
                    yield member.filename, _pieces(content, archive)
