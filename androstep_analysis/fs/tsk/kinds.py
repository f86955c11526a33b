"""The filesystems that The Sleuth Kit opens for us: how each is recognised, and what its own files are for.

Not among them: YAFFS2, which lies on raw flash, where there are no block requests (and whose runs are numbers of The
Sleuth Kit's making); APFS, whose containers pytsk3 does not open; UFS, of which a damaged image keeps it in a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytsk3

CLASSES: tuple[tuple[str, str | None], ...] = (
    ("unknown", None),
    ("free", None),
    ("data", None),
    ("directory", None),
    ("data", "symlink"),
    ("journal", None),
    ("metadata", "superblock"),
    ("metadata", "boot_record"),
    ("metadata", "block_bitmap"),
    ("metadata", "inode_bitmap"),
    ("metadata", "inode_table"),
    ("metadata", "extent_tree"),
    ("metadata", "upcase_table"),
    ("metadata", "xattr"),
    ("metadata", "other"),
)
"""(block_type, subtype) of everything a sector can be; elsewhere by number."""

CLASS = {both: number for number, both in enumerate(CLASSES)}

DATA, OTHER = CLASS["data", None], CLASS["metadata", "other"]

CONTENT = (
    pytsk3.TSK_FS_ATTR_TYPE_DEFAULT,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_DATA,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_IDXALLOC,
    pytsk3.TSK_FS_ATTR_TYPE_HFS_DATA,
)
"""Attributes that hold what a file or directory is for."""

TYPED_ATTRIBUTES = {
    pytsk3.TSK_FS_ATTR_TYPE_HFS_RSRC: DATA,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_EA: CLASS["metadata", "xattr"],
}
"""The other attributes that say what they are; the rest is metadata."""


@dataclass(frozen=True)
class Kind:
    """A filesystem as The Sleuth Kit has it.

    One of `signatures` (byte, content) is in the image. `own` are the filesystem's own files by number, with the class
    of their content; what lies in the directories `own_names` of the root is its own too. Which blocks are in use says
    file `bitmap`, `bits` first. `shift` is added to the numbers of files, so that none is 0. Sectors
    `fixed` hold (begin, end, class).
    """

    fs_type: str
    tsk_type: int
    signatures: tuple[tuple[int, bytes], ...]
    own: Mapping[int, int] = field(default_factory=dict)
    own_names: tuple[bytes, ...] = ()
    journals: tuple[bytes, ...] = ()
    bitmap: int | None = None
    bits: Literal["little", "big"] = "little"
    shift: int = 0
    fixed: tuple[tuple[int, int, int], ...] = ()


NTFS = Kind(
    fs_type="ntfs",
    tsk_type=pytsk3.TSK_FS_TYPE_NTFS,
    signatures=((3, b"NTFS    "),),
    own={
        0: CLASS["metadata", "inode_table"],  # $MFT and the copy of its beginning
        1: CLASS["metadata", "inode_table"],
        2: CLASS["journal", None],
        6: CLASS["metadata", "block_bitmap"],
        7: CLASS["metadata", "boot_record"],
        10: CLASS["metadata", "upcase_table"],
        **dict.fromkeys((3, 4, 8, 9, 11), OTHER),
    },
    own_names=(b"$Extend",),
    bitmap=6,
)

HFS_PLUS = Kind(
    fs_type="hfsplus",
    tsk_type=pytsk3.TSK_FS_TYPE_HFS,
    signatures=((1024, b"H+\0\4"), (1024, b"HX\0\5")),
    own={
        3: CLASS["metadata", "extent_tree"],
        4: CLASS["metadata", "inode_table"],  # the catalog: names and records of all files
        6: CLASS["metadata", "block_bitmap"],
        8: CLASS["metadata", "xattr"],
        **dict.fromkeys((5, 7), OTHER),
    },
    own_names=(b"^^^^HFS+ Private Data", b".HFS+ Private Directory Data^"),
    journals=(b".journal", b".journal_info_block"),
    bitmap=6,
    bits="big",
    fixed=((0, 3, CLASS["metadata", "superblock"]), (-2, -1, CLASS["metadata", "superblock"])),
)

ISO_9660 = Kind(
    fs_type="iso9660",
    tsk_type=pytsk3.TSK_FS_TYPE_ISO9660,
    signatures=((0x8001, b"CD001"),),
    shift=1,
)

KINDS = (NTFS, HFS_PLUS, ISO_9660)

FS_TYPES = tuple(kind.fs_type for kind in KINDS)
