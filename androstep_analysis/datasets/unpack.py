"""Archives of datasets, unpacked as if anyone had made them: files and directories only, inside of one directory."""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from androstep_analysis.errors import InputError

_STEP = 1 << 20
_MOST_FILES = 1_000_000

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, RuntimeError)


def unpack(archive: Path, directory: Path, most_bytes: int) -> None:
    """Unpack a tar (plain, gzip, bzip2, xz) or zip archive into an empty directory.

    `InputError` for links and devices, for names that lead out of the directory or come twice, for more than
    `most_bytes`, and for a damaged archive. Owners, rights and times in the archive are not taken over.
    """
    left = most_bytes
    try:
        members = _zip(archive) if zipfile.is_zipfile(archive) else _tar(archive)
        for number, (name, content) in enumerate(members):
            target = directory.joinpath(*_safe(name, archive).parts)
            if number >= _MOST_FILES:
                raise InputError(f"{archive}: more than {_MOST_FILES} files; no dataset has as many")
            if content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                while piece := content.read(_STEP):
                    left -= len(piece)
                    if left < 0:
                        raise InputError(
                            f"{archive}: more than {most_bytes} bytes unpacked, which is what it should be"
                        )
                    file.write(piece)
    except FileExistsError as error:
        raise InputError(f"{archive}: {error.filename} is in it twice; fetch it again") from None
    except NotADirectoryError as error:
        raise InputError(f"{archive}: {error.filename} is in a file; fetch it again") from None
    except _DAMAGE as error:
        raise InputError(f"{archive}: no whole tar or zip archive ({error}); fetch it again") from None


def _safe(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not name.isprintable():
        raise InputError(f"{archive}: {name!r} would lie outside of the dataset or nowhere; do not use this archive")
    return path


def _tar(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and content of each member of a tar archive; None for a directory."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isreg() or member.isdir()):
                raise InputError(f"{archive}: {member.name!r} is a link or a device; do not use this archive")
            yield member.name, None if member.isdir() else tar.extractfile(member)


def _zip(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """The same of a zip archive."""
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise InputError(f"{archive}: {member.filename!r} is a link or a device; do not use this archive")
            if member.is_dir():
                yield member.filename, None
            else:
                with packed.open(member) as content:
                    yield member.filename, content
