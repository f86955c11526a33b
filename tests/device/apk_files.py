"""Android packages with only a binary manifest, for tests."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path


def manifest(package: str, element: str = "manifest", *, utf8: bool = False) -> bytes:
    """Return a binary AndroidManifest.xml (ResourceTypes.h) of one element with two attributes."""
    texts = ["android", "versionCode", "package", element, package]
    pool = _pool(texts, utf8)
    attributes = [(1, -1), (2, 4)]
    body = b"".join(struct.pack("<iIiHBBI", -1, key, raw, 8, 0, 3, max(raw, 0)) for key, raw in attributes)
    node = struct.pack("<II", 1, 0xFFFFFFFF)
    extended = struct.pack("<iIHHHHHH", -1, 3, 20, 20, len(attributes), 0, 0, 0)
    start = struct.pack("<HHI", 0x0102, 16, 16 + len(extended) + len(body)) + node + extended + body
    # A resource map comes between strings and elements; readers must skip it.
    resources = struct.pack("<HHII", 0x0180, 8, 12, 0x0101021B)
    inside = pool + resources + start
    return struct.pack("<HHI", 0x0003, 8, 8 + len(inside)) + inside


def _pool(texts: list[str], utf8: bool) -> bytes:
    packed = []
    for text in texts:
        if utf8:
            raw = text.encode()
            packed.append(_length(len(text)) + _length(len(raw)) + raw + b"\0")
        else:
            packed.append(struct.pack("<H", len(text)) + text.encode("utf-16-le") + b"\0\0")
    offsets, place = [], 0
    for one in packed:
        offsets.append(place)
        place += len(one)
    data = b"".join(packed)
    data += b"\0" * (-len(data) % 4)
    start = 28 + 4 * len(texts)
    head = struct.pack("<IIIII", len(texts), 0, 256 if utf8 else 0, start, 0)
    return struct.pack("<HHI", 0x0001, 28, start + len(data)) + head + struct.pack(f"<{len(texts)}I", *offsets) + data


def _length(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value >> 8 | 0x80, value & 0xFF])


def write(path: Path, package: str, *, size: int = 1000, utf8: bool = False) -> Path:
    """Write a package file with this package name, and `size` bytes besides the manifest."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("AndroidManifest.xml", manifest(package, utf8=utf8))
        archive.writestr("classes.dex", bytes(size))
    return path
