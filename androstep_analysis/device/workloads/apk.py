"""Read the package name from the binary manifest of an Android package file.

The manifest is a tree of chunks (ResourceTypes.h of Android's androidfw): a pool of strings, then elements, of which
the first is ``manifest``.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from pathlib import Path

from androstep_analysis.common.errors import InputError, printable

_MANIFEST = "AndroidManifest.xml"
_MAX_BYTES = 16 << 20
_STRING_POOL, _XML, _START_ELEMENT = 0x0001, 0x0003, 0x0102
_UTF8 = 1 << 8
_NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*", re.ASCII)


def package(path: Path) -> str:
    """Return the package's name; `InputError` if the file is no Android package."""
    shown = printable(str(path))
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_MANIFEST) as member:
            manifest = member.read(_MAX_BYTES + 1)
        name = _package(manifest)
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{shown}: cannot be read as an Android package ({printable(str(error))})") from None
    except (KeyError, ValueError, struct.error, IndexError) as error:
        raise InputError(f"{shown}: has no {_MANIFEST} that names its package ({printable(str(error))})") from None
    if _NAME.fullmatch(name) is None:
        raise InputError(f"{shown}: its package is called {printable(name)}, which is not a valid name")
    return name


def _package(data: bytes) -> str:
    """Return the attribute ``package`` of the first element."""
    kind, header, size = struct.unpack_from("<HHI", data)
    if kind != _XML or len(data) > _MAX_BYTES:
        raise ValueError("no binary XML")
    texts: list[str] = []
    place = header
    while place + 8 <= min(size, len(data)):
        kind, header, length = struct.unpack_from("<HHI", data, place)
        if length < 8:
            raise ValueError(f"a chunk of {length} bytes at {place}")
        if kind == _STRING_POOL:
            texts = _strings(data[place : place + length])
        elif kind == _START_ELEMENT:
            return _attribute(data[place : place + length], header, texts)
        place += length
    raise ValueError("no element")


def _attribute(chunk: bytes, header: int, texts: list[str]) -> str:
    name, start, size, count = struct.unpack_from("<4xIHHH", chunk, header)
    if texts[name] != "manifest":
        raise ValueError(f"begins with {texts[name][:40]!r}")
    for number in range(count):
        entry: tuple[int, int] = struct.unpack_from("<4xIi", chunk, header + start + number * size)
        key, raw = entry
        if texts[key] == "package" and raw >= 0:
            return texts[raw]
    raise ValueError("no attribute package")


def _strings(chunk: bytes) -> list[str]:
    count, _, flags, start = struct.unpack_from("<IIII", chunk, 8)
    if count > len(chunk):
        raise ValueError(f"{count} strings in {len(chunk)} bytes")
    (header,) = struct.unpack_from("<H", chunk, 2)
    offsets = struct.unpack_from(f"<{count}I", chunk, header)
    read = _utf8 if flags & _UTF8 else _utf16
    return [read(chunk, start + offset) for offset in offsets]


def _utf8(chunk: bytes, place: int) -> str:
    """Read a string that is preceded by its length in characters and in bytes, each of one byte or two."""
    place += 2 if chunk[place] & 0x80 else 1
    length = chunk[place]
    place += 1
    if length & 0x80:
        length = (length & 0x7F) << 8 | chunk[place]
        place += 1
    return chunk[place : place + length].decode("utf-8", "replace")


def _utf16(chunk: bytes, place: int) -> str:
    length = struct.unpack_from("<H", chunk, place)[0]
    place += 2
    if length & 0x8000:
        length = (length & 0x7FFF) << 16 | struct.unpack_from("<H", chunk, place)[0]
        place += 2
    return chunk[place : place + 2 * length].decode("utf-16-le", "replace")
