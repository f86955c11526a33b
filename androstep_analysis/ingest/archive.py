"""Read the files in a tar archive, or in a zip archive with several files, each as an input of its own."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath
from typing import Final

from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.tar import Tar
from androstep_analysis.ingest import source as sources
from androstep_analysis.ingest.compression import Readable, ZipMember, zip_members, zipped
from androstep_analysis.ingest.source import Source

ZIP = b"PK\x03\x04"

MOST_MEMBERS: Final = 1 << 16
"""Maximum number of members of a tar archive. Recordings have tens; listing 300,000 takes some seconds."""


def _inside(name: str) -> str:
    """Return the name of a member relative to the root of the archive."""
    is_plain = (
        not name.startswith(("/", "./")) and "//" not in name and "/./" not in name and not name.endswith(("/", "/."))
    )
    return name if is_plain else str(PurePosixPath(name)).lstrip("/")


class Archive:
    """An archive. Each file in it is a `Source`, and is decompressed if it is compressed itself.

    `losses` lists the damage of the archive. `taken` holds the names of the members that were loaded.
    """

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.taken: set[str] = set()
        self._source = source
        self._members: dict[str, tuple[int, int] | ZipMember] = {}
        self.losses = source.losses
        if source.head.startswith(ZIP):
            members = zip_members(source) or {}
            self._members = {_inside(name): member for name, member in members.items()}
            return
        try:
            for number, member in enumerate(Tar(Readable(source)), 1):
                if number > MOST_MEMBERS:
                    raise InputError(
                        f"{printable(str(source.path))}: the tar archive has more than {MOST_MEMBERS:,} files, as no "
                        "recording has; unpack it, and open the files of one recording"
                    )
                if member.isreg() and not member.issparse():
                    self._members[_inside(member.name)] = (member.offset_data, member.size)
        except InputError:
            raise
        except Exception as error:  # tarfile may raise any exception for a damaged archive
            message = f"the tar archive is damaged ({printable(str(error))}); the files after the damage are lost"
            self.losses += (Loss("torn", 1, message),)

    @staticmethod
    def is_one(source: Source) -> bool:
        """Return whether the source is a zip archive, or begins with a tar header with a correct checksum."""
        if source.head.startswith(ZIP):
            return bool(zip_members(source))
        try:
            tarfile.TarInfo.frombuf(source.head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            return False
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files in the archive, in order."""
        return tuple(self._members)

    def head(self, name: str) -> bytes:
        """Return the same bytes as ``load(name).head``."""
        member = self._members[name]
        if not isinstance(member, ZipMember) and not member[1]:
            return b""
        try:
            if isinstance(member, ZipMember):
                first = sources.first_of(zipped(self._source, member).open_stream)
                return sources.head_of(Source.of(self.path / name, first))
            return sources.head_of(self._raw(name))
        except InputError:
            return b""

    def load(self, name: str) -> Source:
        """Return the file `name`."""
        self.taken.add(name)
        return sources.plain(self._raw(name))

    def siblings(self, path: Path) -> tuple[str, ...]:
        """Return the names of the files in the directory of `path` inside the archive."""
        folder = PurePosixPath(path.relative_to(self.path)).parent
        return tuple(sorted(PurePosixPath(name).name for name in self._members if PurePosixPath(name).parent == folder))

    def load_sibling(self, path: Path, name: str) -> Source:
        """Return the file `name` in that directory."""
        wanted = str(PurePosixPath(path.relative_to(self.path)).with_name(name))
        if wanted not in self._members:
            raise InputError(f"{printable(str(self.path))}: has no {printable(wanted)}; was it packed completely?")
        return self.load(wanted)

    def _raw(self, name: str) -> Source:
        member = self._members[name]
        if isinstance(member, ZipMember):
            return self._unzipped(name, member)
        start, size = member
        raw = self._source.part(start, start + size)
        raw.path = self.path / name
        raw.losses = ()
        raw.archive = self
        if raw.size < size:
            raw.losses = (
                Loss("torn", 1, f"the archive ends within {printable(name)}: {size - raw.size} bytes are lost"),
            )
        return raw

    def _unzipped(self, name: str, member: ZipMember) -> Source:
        whole = self._source.part(0)
        whole.path, whole.losses, whole.archive = self.path / name, (), self
        return sources.checked(whole, zipped(self._source, member))
