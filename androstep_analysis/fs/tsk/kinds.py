"""Describe the filesystems that The Sleuth Kit reads: their signatures and the uses of their own files.

Not supported are:

- YAFFS2: it is used on raw flash without block requests, and The Sleuth Kit makes up the numbers of its runs.
- APFS: pytsk3 does not open its containers.
- UFS: The Sleuth Kit loops endlessly on a damaged image.
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
"""All (block_type, subtype) pairs of a sector, which other tables refer to by index."""

CLASS = {both: number for number, both in enumerate(CLASSES)}

DATA, OTHER = CLASS["data", None], CLASS["metadata", "other"]

CONTENT = (
    pytsk3.TSK_FS_ATTR_TYPE_DEFAULT,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_DATA,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_IDXALLOC,
    pytsk3.TSK_FS_ATTR_TYPE_HFS_DATA,
)
"""Attributes with the content of a file or directory."""

TYPED_ATTRIBUTES = {
    pytsk3.TSK_FS_ATTR_TYPE_HFS_RSRC: DATA,
    pytsk3.TSK_FS_ATTR_TYPE_NTFS_EA: CLASS["metadata", "xattr"],
}
"""Other attributes with a known class. The remaining ones are metadata."""


@dataclass(frozen=True)
class Kind:
    """A filesystem that The Sleuth Kit reads.

    Attributes
    ----------
    fs_type : str
        Its name, as in `Filesystem.fs_type`.
    tsk_type : int
        Its type in The Sleuth Kit.
    signatures : tuple of (int, bytes)
        Byte offsets and contents, one of which an image has.
    own : mapping of int
        The filesystem's own files by number, with the class of their content.
    own_names : tuple of bytes
        Directories in the root with further files of its own.
    journals : tuple of bytes
        Files in the root that hold the journal.
    bitmap : int, optional
        The number of the file with the bitmap of used blocks.
    bits : {"little", "big"}
        The bit order of the bitmap.
    shift : int
        A number added to inode numbers, so that none is 0.
    fixed : tuple of (int, int, int)
        Sector ranges with a fixed use: begin, end, class.
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
