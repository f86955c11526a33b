"""Parse e2fsprogs' view of an image: debugfs (icheck, ncheck, stat, testb) and dumpe2fs.

Nothing here knows the on-disk format. debugfs runs with -n, so that it continues if checksums are wrong.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_LINE_BYTES = 7000
"""debugfs reads command lines of at most 8,192 bytes."""


def require(*programs: str) -> None:
    """Skip the calling test if a program of e2fsprogs is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} (e2fsprogs) is not installed")


def debugfs(image: Path, commands: Iterable[str], write: bool = False) -> str:
    r"""Return the output of debugfs for a list of commands; invalid UTF-8 becomes ``\xNN``."""
    done = subprocess.run(
        ["debugfs", *(["-w"] if write else ["-n"]), "-f", "-", str(image)],
        input="".join(f"{command}\n" for command in commands).encode(),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode("utf-8", "backslashreplace")


def _batches(command: str, numbers: Iterable[int]) -> Iterator[str]:
    line = command
    for number in numbers:
        line += f" {number}"
        if len(line) > _LINE_BYTES:
            yield line
            line = command
    if line != command:
        yield line


def owners(image: Path, blocks: Iterable[int]) -> dict[int, int | None]:
    """Return the inode of each block (icheck).

    Each command runs in a new process: after a read beyond the end of the image debugfs 1.47.0 keeps a wrong block in
    its cache and answers the next icheck from it.
    """
    output = "".join(debugfs(image, [command]) for command in _batches("icheck", blocks))
    found = re.findall(r"^(\d+)\t(\d+|<block not found>)$", output, re.MULTILINE)
    return {int(block): int(ino) if ino.isdigit() else None for block, ino in found}


def names(image: Path, inos: Iterable[int]) -> dict[int, set[str]]:
    """Return the paths of each inode (ncheck). Its output is ambiguous for names with a newline."""
    answer: dict[int, set[str]] = {}
    for line in debugfs(image, _batches("ncheck", inos)).split("\n"):
        if match := re.fullmatch(r"(\d+)\t(/.*)", line):
            answer.setdefault(int(match[1]), set()).add("/" + match[2].lstrip("/"))
    return answer


def free(image: Path, blocks: Iterable[int]) -> set[int]:
    """Return the blocks that are free in the bitmaps (testb)."""
    output = debugfs(image, (f"testb {block}" for block in blocks))
    return {int(block) for block in re.findall(r"Block (\d+) not in use", output)}


def metadata(image: Path) -> dict[int, str]:
    """Return the subtype of every block of static metadata (dumpe2fs -g and -h)."""
    superblock = header(image)
    table_blocks = int(superblock["Inode blocks per group"])
    reserved = int(superblock.get("Reserved GDT blocks", 0))
    blocks: dict[int, str] = {}
    if "MMP block number" in superblock:
        blocks[int(superblock["MMP block number"])] = "mmp"
    for line in _dumpe2fs("-g", image).splitlines():
        if not line[:1].isdigit():
            continue
        _, _, copy, descriptors, block_bitmap, inode_bitmap, inode_table = line.split(":")
        blocks |= {int(block_bitmap): "block_bitmap", int(inode_bitmap): "inode_bitmap"}
        blocks |= dict.fromkeys(range(int(inode_table), int(inode_table) + table_blocks), "inode_table")
        if copy != "-1":
            blocks[int(copy)] = "superblock"
        if descriptors != "-1":
            first, _, last = descriptors.partition("-")
            end = int(last or first) + 1
            blocks |= dict.fromkeys(range(int(first), end), "group_descriptors")
            blocks |= dict.fromkeys(range(end, end + reserved), "reserved_gdt")
    return blocks


def _dumpe2fs(option: str, image: Path) -> str:
    # Its exit status is 1 even if only the journal cannot be read.
    return subprocess.run(["dumpe2fs", option, str(image)], capture_output=True, errors="replace").stdout


def header(image: Path) -> dict[str, str]:
    """Return the fields of the superblock (dumpe2fs -h)."""
    lines = _dumpe2fs("-h", image).splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def stats(image: Path, inos: Iterable[int]) -> dict[int, str]:
    """Return debugfs' description of each inode (stat)."""
    asked = list(inos)
    parts = re.split(r"^debugfs: stat <(\d+)>$", debugfs(image, (f"stat <{ino}>" for ino in asked)), flags=re.MULTILINE)
    return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def uses(stat: str) -> dict[int, tuple[str, int | None]]:
    """Return an inode's blocks from its `stat` output.

    A block maps to (content, xattr, etb, ind, dind or tind; block of the file).
    """
    answer: dict[int, tuple[str, int | None]] = {}
    if match := re.search(r"^File ACL: (\d+)", stat, re.MULTILINE):
        answer[int(match[1])] = ("xattr", None)
    _, _, listing = stat.partition("BLOCKS:\n") if "BLOCKS:\n" in stat else stat.partition("EXTENTS:\n")
    pattern = r"\(([A-Z]+)?(\d+)?(?:\[u\])?(?:-\d+(?:\[u\])?)?\):(\d+)(?:-(\d+))?"
    for mark, logical, first, last in re.findall(pattern, listing):
        for block in range(int(first), int(last or first) + 1):
            use = (mark.lower(), None) if mark else ("content", int(logical) + block - int(first))
            answer.setdefault(block, use)
    return answer


@dataclass(frozen=True)
class Expected:
    """e2fsprogs' view of a block; `file_block` is None if it is not file content."""

    block_type: str
    subtype: str | None
    ino: int | None
    file_block: int | None


def expected(image: Path, blocks: Iterable[int]) -> dict[int, Expected]:
    """Combine all of the above into the use of every block.

    A block of a damaged inode is left out if `stat` does not show its use.
    """
    asked = sorted(set(blocks))
    owner = owners(image, asked)
    assert owner.keys() == set(asked), "debugfs did not answer for every block"
    use = {ino: (text, uses(text)) for ino, text in stats(image, {ino for ino in owner.values() if ino}).items()}
    unowned = [block for block in asked if owner[block] is None]
    static, unused, superblock = metadata(image), free(image, unowned), header(image)
    special = {
        int(superblock[field]): both
        for field, both in {
            "Journal inode": ("journal", None),
            "User quota inode": ("metadata", "quota"),
            "Group quota inode": ("metadata", "quota"),
            "Project quota inode": ("metadata", "quota"),
            "Orphan file inode": ("metadata", "orphan_file"),
        }.items()
        if field in superblock
    }
    answer = {}
    for block in asked:
        ino = owner[block]
        if ino is None:
            if block in static:
                answer[block] = Expected("metadata", static[block], None, None)
            elif block == 0 and superblock["Block size"] == "1024":
                answer[block] = Expected("metadata", "boot_record", None, None)
            else:
                answer[block] = Expected("free" if block in unused else "unknown", None, None, None)
            continue
        text, of_inode = use[ino]
        if block not in of_inode:
            continue
        kind, file_block = of_inode[block]
        if ino == 7:
            answer[block] = Expected("metadata", "resize_inode" if kind == "dind" else "reserved_gdt", 7, None)
        elif kind != "content":
            subtype = {"etb": "extent_tree", "xattr": "xattr"}.get(kind, "indirect")
            answer[block] = Expected("metadata", subtype, ino, None)
        else:
            answer[block] = Expected(*(special.get(ino) or _content(text)), ino, file_block)
    return answer


def _content(stat: str) -> tuple[str, str | None]:
    kind = re.search(r"Type: (\w+)", stat)
    flags = re.search(r"Flags: 0x([0-9a-f]+)", stat)
    assert kind and flags
    if int(flags[1], 16) & 0x200000:  # EXT4_EA_INODE_FL: the values of large attributes
        return "metadata", "xattr"
    return {"directory": ("directory", None), "symlink": ("data", "symlink")}.get(kind[1], ("data", None))
