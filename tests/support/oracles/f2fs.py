"""The contents of an F2FS image, from two sources that are independent of the reader under test.

`Walk` follows the on-disk structures like the kernel for one file at a time: from the root down, name by name, address
by address, with struct and recursion. The functions below it use f2fs-tools (dump.f2fs, on a copy: it may write).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BLOCK = 4096
NO_BLOCK = (0, 0xFFFFFFFF, 0xFFFFFFFE)


def require(*programs: str) -> None:
    """Skip the calling test if a program of f2fs-tools is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} (f2fs-tools) is not installed")


@dataclass
class File:
    """An inode found by the walk, and its paths."""

    ino: int
    mode: int
    size: int
    links: int
    generation: int
    changed_ns: int
    created_ns: int | None
    paths: set[str] = field(default_factory=set)


class Walk:
    """The image walked from its root.

    `blocks` maps a block to (what, ino, block of the file), `files` maps ino to `File`.
    """

    def __init__(self, image: Path) -> None:
        self._raw = image.read_bytes()
        at = 1024
        self._count = int.from_bytes(self._raw[at + 36 : at + 44], "little")
        self._nr_segments, _, self._cp, self._sit, self._nat, self._ssa, self._main, self._root = struct.unpack_from(
            "<8I", self._raw, at + 68
        )
        (self._payload,) = struct.unpack_from("<I", self._raw, at + 1664)
        (self._features,) = struct.unpack_from("<I", self._raw, at + 2180)
        self.quota_inodes = {ino for ino in struct.unpack_from("<3I", self._raw, at + 2745) if ino}
        self._pack = max((self._cp, self._cp + 512), key=self._pack_version)
        self._journal()
        self.blocks: dict[int, tuple[str, int, int | None]] = {}
        self.files: dict[int, File] = {}
        self._visit(self._root, "/")
        for ino in self.quota_inodes:
            self._visit(ino, "")

    @property
    def nr_blocks(self) -> int:
        """Size of the filesystem."""
        return self._count

    def _block(self, number: int) -> bytes:
        return self._raw[number * BLOCK : (number + 1) * BLOCK].ljust(BLOCK, b"\0")

    def _pack_version(self, pack: int) -> int:
        head = self._block(pack)
        version = int.from_bytes(head[:8], "little")
        (length,) = struct.unpack_from("<I", head, 136)
        return version if length and self._block(pack + length - 1)[:8] == head[:8] else -1

    def _journal(self) -> None:
        head = self._block(self._pack)
        flags, total, start = struct.unpack_from("<3I", head, 132)
        if flags & 4:
            compact = self._block(self._pack + start)
            nat, sit = compact[:507], compact[507:1014]
        else:
            back = 7 if flags & (1 | 0x20) else 4
            nat = self._block(self._pack + total - back)[3584:]
            sit = self._block(self._pack + total - back + 2)[3584:]
        self._nat_journal = {
            nid: (ino, address)
            for nid, _, ino, address in (
                struct.unpack_from("<IBII", nat, 2 + 13 * i) for i in range(struct.unpack_from("<H", nat)[0])
            )
        }
        self._sit_journal = {
            struct.unpack_from("<I", sit, 2 + 78 * i)[0]: sit[8 + 78 * i : 72 + 78 * i]
            for i in range(struct.unpack_from("<H", sit)[0])
        }
        sit_bytes, nat_bytes = struct.unpack_from("<2I", head, 156)
        if flags & 0x400:
            self._nat_bits, self._sit_bits = head[196 : 196 + nat_bytes], head[196 + nat_bytes :]
        elif self._payload:
            self._nat_bits, self._sit_bits = head[192:], self._block(self._pack + 1)
        else:
            self._sit_bits, self._nat_bits = head[192 : 192 + sit_bytes], head[192 + sit_bytes :]

    def node(self, nid: int) -> tuple[int, int] | None:
        """Return (inode, block) of a node."""
        if nid in self._nat_journal:
            found = self._nat_journal[nid]
        else:
            index, entry = divmod(nid, 455)
            second = self._nat_bits[index // 8] >> (7 - index % 8) & 1
            place = self._nat + (index // 512) * 1024 + index % 512 + 512 * second
            _, ino, address = struct.unpack_from("<BII", self._block(place), 9 * entry)
            found = ino, address
        return found if found[1] not in NO_BLOCK else None

    def in_use(self, block: int) -> bool:
        """Return whether the segment information table marks a block of the main area as used."""
        segment, bit = divmod(block - self._main, 512)
        if segment in self._sit_journal:
            bitmap = self._sit_journal[segment]
        else:
            index, entry = divmod(segment, 55)
            second = self._sit_bits[index // 8] >> (7 - index % 8) & 1
            raw = self._block(self._sit + index + second * (self._nat - self._sit) // 2)
            bitmap = raw[74 * entry + 2 : 74 * entry + 66]
        return bool(bitmap[bit // 8] & 0x80 >> bit % 8)

    def expected(self, block: int) -> tuple[str, str | None, int | None, int | None]:
        """Return (block_type, subtype, ino, block of the file) of any block."""
        areas = ((2, "superblock"), (self._cp, None), (self._sit, "checkpoint"), (self._nat, "sit"))
        for end, subtype in (*areas, (self._ssa, "nat"), (self._main, "ssa")):
            if block < end:
                return ("metadata", subtype, None, None) if subtype else ("free", None, None, None)
        if block in self.blocks:
            what, ino, number = self.blocks[block]
            if what == "node":
                return "metadata", "node", ino, None
            mode = self.files[ino].mode
            if ino in self.quota_inodes:
                return "metadata", "quota", ino, number
            if stat.S_ISDIR(mode):
                return "directory", None, ino, number
            return "data", "symlink" if stat.S_ISLNK(mode) else None, ino, number
        if block >= self._main + self._nr_segments * 512 or not self.in_use(block):
            return "free", None, None, None
        return "unknown", None, None, None

    def _visit(self, ino: int, path: str) -> None:
        if ino in self.files:
            self.files[ino].paths.add(path)
            return
        place = self.node(ino)
        assert place is not None
        raw = self._block(place[1])
        self.blocks[place[1]] = ("node", ino, None)
        mode, _, inline, _, _, links, size = struct.unpack_from("<HBBIIIQ", raw)
        (ctime,) = struct.unpack_from("<q", raw, 40)
        (ctime_nsec,) = struct.unpack_from("<I", raw, 60)
        generation, _, xattr, flags = struct.unpack_from("<4I", raw, 68)
        extra = struct.unpack_from("<H", raw, 360)[0] if inline & 0x20 else 0
        created = None
        if extra >= 24 and self._features & 0x100:
            seconds, nanoseconds = struct.unpack_from("<qI", raw, 372)
            created = seconds * 10**9 + nanoseconds
        self.files[ino] = File(ino, mode, size, links, generation, ctime * 10**9 + ctime_nsec, created, {path})
        if xattr:
            found = self.node(xattr)
            assert found is not None
            self.blocks[found[1]] = ("node", ino, None)
        tail = 0
        if self._features & 0x40:
            tail = 4 * int(struct.unpack_from("<H", raw, 362)[0])
        elif inline & 5:
            tail = 200
        area = raw[360 + extra : 360 + 923 * 4 - tail]
        compressed = stat.S_ISREG(mode) and flags & 4 and self._features & 0x2000 and inline & 0x20
        cluster = 1 << raw[393] if compressed else 1
        content: list[bytes] = []
        if inline & 4:
            content.append(area[4:])
        elif not inline & 2 and (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            for number, address in self._addresses(ino, raw, area, cluster):
                if address not in NO_BLOCK:
                    self.blocks[address] = ("content", ino, number)
                    content.append(self._block(address) if stat.S_ISDIR(mode) else b"")
        if stat.S_ISDIR(mode):
            for part in content:
                for child, name in self._names(part):
                    self._visit(child, f"{path.rstrip('/')}/{name}")

    def _addresses(self, ino: int, raw: bytes, area: bytes, cluster: int) -> Iterator[tuple[int, int]]:
        """Yield (block of the file, address) in file order."""
        slots = len(area) // 4 // cluster * cluster
        yield from enumerate(struct.unpack_from(f"<{slots}I", area))
        per_node = 1018 // cluster * cluster
        number = slots
        for nid, depth in zip(struct.unpack_from("<5I", raw, 4052), (0, 0, 1, 1, 2), strict=True):
            yield from self._below(ino, nid, depth, per_node, number)
            number += per_node * 1018**depth

    def _below(self, ino: int, nid: int, depth: int, per_node: int, number: int) -> Iterator[tuple[int, int]]:
        place = self.node(nid) if nid else None
        if place is None:
            return
        assert place[0] == ino
        self.blocks[place[1]] = ("node", ino, None)
        values = struct.unpack_from("<1018I", self._block(place[1]))
        if depth == 0:
            yield from enumerate(values[:per_node], number)
            return
        reach = per_node * 1018 ** (depth - 1)
        for child, value in enumerate(values):
            yield from self._below(ino, value, depth - 1, per_node, number + child * reach)

    @staticmethod
    def _names(part: bytes) -> Iterator[tuple[int, str]]:
        slots = len(part) * 8 // (19 * 8 + 1)
        names = len(part) - 8 * slots
        table = names - 11 * slots
        slot = 0
        while slot < slots:
            _, child, length, _ = struct.unpack_from("<IIHB", part, table + 11 * slot)
            if not part[slot // 8] >> slot % 8 & 1 or not length:
                slot += 1
                continue
            name = part[names + 8 * slot : names + 8 * slot + length]
            if name not in (b".", b".."):
                yield child, name.decode("utf-8", "backslashreplace")
            slot += (length + 7) // 8


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def tool_owner(image: Path, block: int) -> tuple[int, int] | None:
    """Return (inode, block of the file) of a used data block, None for other blocks (dump.f2fs -b)."""
    text = _run(["dump.f2fs", "-b", f"{block:#x}", str(image)], image.parent)
    inode = re.search(r"Inode block +: id = 0x([0-9a-f]+)", text)
    offset = re.search(r"Data offset +: 0x([0-9a-f]+)", text)
    return (int(inode[1], 16), int(offset[1], 16)) if inode and offset else None


def tool_summaries(image: Path, nr_segments: int, nr_nodes: int) -> dict[int, tuple[bool, int]]:
    """Return (is a node, inode) for every used block, counted from the main area (dump.f2fs -s, -a, -n)."""
    folder = image.parent
    last = nr_segments - 1
    _run(["dump.f2fs", "-s", f"0~{last}", "-a", f"0~{last}", "-n", f"0~{nr_nodes}", str(image)], folder)
    nat = re.findall(r"^nid:\s*(\d+)\s+ino:\s*(\d+)", (folder / "dump_nat").read_text(), re.MULTILINE)
    inode = {int(nid): int(ino) for nid, ino in nat}
    valid: set[int] = set()
    for segment, text in re.findall(r"segno:\s*(\d+)\s.*\n\n((?:[ 0-9a-f]+\n)*)", (folder / "dump_sit").read_text()):
        bits = bytes.fromhex(text)
        valid.update(int(segment) * 512 + i for i in range(len(bits) * 8) if bits[i // 8] & 0x80 >> i % 8)
    answer = {}
    parts = re.split(r"^segno: ([0-9a-f]+), (.*)$", (folder / "dump_ssa").read_text(), flags=re.MULTILINE)
    for segment, kind, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        for index, nid in re.findall(r"\[\s*(\d+):\s*([0-9a-f]+)\]", text):
            place = int(segment, 16) * 512 + int(index)
            if place in valid:
                answer[place] = ("Node" in kind, inode[int(nid, 16)])
    return answer


def make(image: Path, nr_bytes: int, *options: str) -> None:
    """Make a new image with mkfs.f2fs."""
    with image.open("wb") as file:
        os.truncate(file.fileno(), nr_bytes)
    subprocess.run(["mkfs.f2fs", "-q", "-f", *options, str(image)], capture_output=True, check=True)


def load(image: Path, tree: Path, *options: str) -> None:
    """Copy a tree into an image with sload.f2fs."""
    subprocess.run(["sload.f2fs", *options, "-f", str(tree), str(image)], capture_output=True, check=True)
