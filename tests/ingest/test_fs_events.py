"""Filesystem events of F2FS, the journal and probes as kernels print them, and the columns they fill."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from support import readers

from androstep_analysis import schema, units
from androstep_analysis.ingest.ftrace import fs_events, fs_events_text

HEAD = "          dd-77      [001] d..1.     5.000001: "
DEV = units.dev(254, 7)
INODE = f"dev={DEV} ino=5 parent=4"


def levels(path: str, *names: str | None) -> str:
    """Return a path as the probe on a dentry prints it: from the last name up to the root, which is its own parent."""
    full = (*names, *(names[-1:] * (fs_events.LEVELS - len(names))))
    return " ".join(f"{path}{at}=" + ("(fault)" if name is None else f'"{name}"') for at, name in enumerate(full))


FORMS = {
    # F2FS, as the kernel prints it
    "f2fs_submit_page_write: dev = (254,7), ino = 3, page_index = 0x1f, oldaddr = 0xffffffff, newaddr = 0x1639,"
    " rw = WRITE(S), type = HOT_DATA": {
        **{"ino": 3, "file_block": 31, "old_block": 0xFFFFFFFF, "block": 0x1639, "nr_blocks": 1, "status": "DATA"}
    },
    "f2fs_submit_folio_write: dev = (254,7), ino = 1, page_index = 0x3, oldaddr = 0x1001, newaddr = 0x1004,"
    " rw = WRITE(), type = WARM_NODE": {
        **{"ino": 1, "file_block": 3, "old_block": 0x1001, "block": 0x1004, "nr_blocks": 1, "status": "NODE"}
    },
    "f2fs_submit_page_bio: dev = (254,7), ino = 2, page_index = 0x0, oldaddr = 0x205, newaddr = 0x205,"
    " rw = READ(), type = HOT_META": {
        **{"ino": 2, "file_block": 0, "old_block": 0x205, "block": 0x205, "nr_blocks": 1, "status": "META"}
    },
    "f2fs_submit_page_bio: dev = (254,7), ino = 2, page_index = 0x0, oldaddr = 0x205, newaddr = 0x205,"
    " rw = WRITE(), type = HOT_META_FLUSH": {
        **{"ino": 2, "file_block": 0, "old_block": 0x205, "block": 0x205, "nr_blocks": 1, "status": None}
    },
    # Linux 4.6, without a comma
    "f2fs_submit_page_bio: dev = (254,7), ino = 3, page_index = 0x1f, oldaddr = 0xffffffff, newaddr = 0x1639"
    " rw = WRITE_SYNC(P), type = DATA": {
        **{"ino": 3, "file_block": 31, "old_block": 0xFFFFFFFF, "block": 0x1639, "nr_blocks": 1, "status": "DATA"}
    },
    # Linux 3.19
    "f2fs_submit_page_bio: dev = (254,7), ino = 3, page_index = 0x1f, blkaddr = 0x1639, rw = READ_SYNC(P),"
    " type = NODE": {"ino": 3, "file_block": 31, "block": 0x1639, "nr_blocks": 1, "status": "NODE"},
    # the same where trace-cmd cannot
    "f2fs_submit_page_write: [FAILED TO PARSE] dev=266338311 ino=3 index=0x1f old_blkaddr=5633 new_blkaddr=5689 op=1"
    " op_flags=2048 temp=0 type=1": {
        **{"ino": 3, "file_block": 31, "old_block": 5633, "block": 5689, "nr_blocks": 1, "status": "NODE"}
    },
    "f2fs_map_blocks: dev = (254,7), ino = 56, file offset = 9, start blkaddr = 0x1f, len = 0x2, flags = 32,"
    " seg_type = 8, may_create = 1, multidevice = 0, flag = 5, err = -28": {
        **{"ino": 56, "file_block": 9, "block": 31, "nr_blocks": 2, "error": -28}
    },
    # Linux 4.4
    "f2fs_map_blocks: dev = (254,7), ino = 56, file offset = 9, start blkaddr = 0x1f, len = 0x2, err = 0": {
        **{"ino": 56, "file_block": 9, "block": 31, "nr_blocks": 2, "error": 0}
    },
    # Linux 6.2, and before
    "f2fs_lookup_read_extent_tree_end: dev = (254,7), ino = 56, pgofs = 5, read_ext_info(fofs: 4, len: 3, blk: 90)": {
        **{"ino": 56, "file_block": 4, "block": 90, "nr_blocks": 3}
    },
    "f2fs_lookup_extent_tree_end: dev = (254,7), ino = 56, pgofs = 5, ext_info(fofs: 4, len: 3, blk: 90)": {
        **{"ino": 56, "file_block": 4, "block": 90, "nr_blocks": 3}
    },
    "f2fs_update_read_extent_tree_range: dev = (254,7), ino = 56, pgofs = 4, len = 3, blkaddr = 90, c_len = 0": {
        **{"ino": 56, "file_block": 4, "block": 90, "nr_blocks": 3}
    },
    "f2fs_update_extent_tree_range: dev = (254,7), ino = 56, pgofs = 4, blkaddr = 90, len = 3": {
        **{"ino": 56, "file_block": 4, "block": 90, "nr_blocks": 3}
    },
    "ext4_ext_map_blocks_exit: dev 254,7 ino 16 flags CREATE|UNWRIT lblk 15 pblk 2066 len 3 mflags NMU ret 3": {
        **{"ino": 16, "file_block": 15, "block": 2066, "nr_blocks": 3, "status": "NMU", "error": 3}
    },
    "ext4_ext_map_blocks_exit: dev 254,7 ino 61 flags  lblk 0 pblk 0 len 1 mflags  ret 0": {
        **{"ino": 61, "file_block": 0, "block": 0, "nr_blocks": 1, "status": "", "error": 0}
    },
    "ext4_allocate_blocks: dev 254,7 ino 17 flags HINT_DATA|DELALLOC_RESV len 2 block 2560 lblk 1 goal 0 lleft 0"
    " lright 0 pleft 0 pright 0": {"ino": 17, "file_block": 1, "block": 2560, "nr_blocks": 2},
    "f2fs_new_inode: dev = (254,7), ino = 53, ret = -12": {"ino": 53, "error": -12},
    "f2fs_lookup_start: dev = (254,7), pino = 3, name:a, flags:1 b, flags:17": {"parent": 3, "name": "a, flags:1 b"},
    "f2fs_lookup_end: dev = (254,7), pino = 3, name:x y, ino:57, err:0": {
        **{"parent": 3, "name": "x y", "ino": 57, "error": 0}
    },
    "f2fs_lookup_end: dev = (254,7), pino = 3, name:x, ino:4294967295, err:-2": {
        **{"parent": 3, "name": "x", "error": -2}
    },
    "f2fs_lookup_end: dev = (254,7), pino = 3, name:x, ino:4294967295, err:0": {
        **{"parent": 3, "name": "x", "error": 0}
    },
    "f2fs_unlink_enter: dev = (254,7), dir ino = 55, i_size = 3488, i_blocks = 0, name = a , b": {
        **{"parent": 55, "name": "a , b"}
    },
    "f2fs_rename_start: dev = (254,7), old_dir = 5, old_name: a b, new_dir = 6, new_name: c, flags = 0": {
        **{"parent": 5, "name": "a b", "new_name": "c"}
    },
    "f2fs_evict_inode: dev = (254,7), ino = 57, pino = 55, i_mode = 0x81a4, i_size = 512, i_nlink = 0, i_blocks = 0,"
    " i_advise = 0x20": {"ino": 57, "parent": 55, "mode": 0o100644, "nlink": 0},
    "f2fs_write_begin: dev = (254,7), ino = 57, pos = 4096, len = 12, flags = 0": {
        **{"ino": 57, "offset_bytes": 4096, "nr_bytes": 12}
    },
    "f2fs_write_end: dev = (254,7), ino = 57, pos = 4096, len = 12, copied = 8": {
        **{"ino": 57, "offset_bytes": 4096, "nr_bytes": 8}
    },
    "ext4_da_write_end: dev 254,7 ino 57 pos 4096 len 12 copied 8": {"ino": 57, "offset_bytes": 4096, "nr_bytes": 8},
    "ext4_load_inode: dev 254,7 ino 57": {"ino": 57},
    "f2fs_direct_IO_enter: dev = (254,7), ino = 265 pos = 65536 len = 512 rw = 1": {
        **{"ino": 265, "offset_bytes": 65536, "nr_bytes": 512}
    },
    "android_fs_datawrite_start: entry_name /data/a, offset b, offset 7, bytes 12, cmdline x, pid 5, i_size 0,"
    " ino 57": {**{"ino": 57, "name": "/data/a, offset b", "offset_bytes": 7, "nr_bytes": 12, "dev": None}},
    # the journal and the page cache
    "jbd2_start_commit: dev 254,7 transaction 5 sync 0": {"transaction": 5},
    "jbd2_end_commit: dev 254,7 transaction 4294967295 sync 0 head 5": {"transaction": 4294967295},
    "jbd2_handle_stats: dev 254,7 tid 5 type 4 line_no 3007 interval 0 sync 0 requested_blocks 47 dirtied_blocks 7": {
        **{"transaction": 5, "nr_blocks": 7}
    },
    "mm_filemap_add_to_page_cache: dev 254:7 ino 1f pfn=0x26f325 ofs=8192 order=2": {
        **{"ino": 31, "offset_bytes": 8192, "page_order": 2}
    },
    "mm_filemap_add_to_page_cache: dev 254:7 ino 1f page=0000000012345678 pfn=2552613 ofs=4096": {
        "ino": 31,
        "offset_bytes": 4096,
    },
    "mm_filemap_get_pages: dev=254:7 ino=1f ofs=8192-16383": {**{"ino": 31, "offset_bytes": 8192, "nr_bytes": 8192}},
    "mm_filemap_get_pages: dev=254:7 ino=1f ofs=8192-4095": {"ino": 31, "offset_bytes": 8192},
    "mm_filemap_fault: dev=254:7 ino=1f ofs=4096": {"ino": 31, "offset_bytes": 4096},
    "mm_filemap_map_pages: dev=254:7 ino=1f ofs=0-65535": {**{"ino": 31, "offset_bytes": 0, "nr_bytes": 65536}},
    "writeback_dirty_page: bdi btrfs-1: ino=5 index=6": {"ino": 5, "page": 6, "dev": None},
    # probes
    "bio_page: (submit_bio+0x0/0x90) dev=8388608 opf=2049 sector=45064 size=4096 ino=3 index=1 sdev=266338311"
    ' name="a"': {**{"ino": 3, "page": 1, "name": "a", "sector": 45064, "nr_bytes": 4096, "bio_dev": 8 << 20}},
    "bio_page: (submit_bio+0x0/0x90) dev=8388608 opf=2049 sector=45065 size=512 vcnt=1 idx=0 done=0 offset=512"
    ' mapping=0xffff8881 host=0xffff8882 ino=3 index=1 sdev=266338311 name="a"': {
        **{"ino": 3, "page": 1, "offset_bytes": 512, "name": "a", "sector": 45065, "nr_bytes": 512},
        "bio_dev": 8 << 20,
    },
    "bio_page: (ffffffff814dbb80) dev=8388608 opf=0 sector=1 size=4096 ino=0 index=0 sdev=266338311 name=(fault)": {
        **{"ino": 0, "page": 0, "sector": 1, "nr_bytes": 4096, "bio_dev": 8 << 20}
    },
    "page_mkwrite: (ext4_page_mkwrite+0x0/0x80) dev=266338311 ino=61 index=2": {"ino": 61, "page": 2},
    "page_mkwrite: (ext4_page_mkwrite+0x0/0x80) dev=266338311 ino=61 index=2 within=65528": {
        **{"ino": 61, "page": 2, "offset_bytes": 65528}
    },
    "filemap_read: (filemap_read+0x0/0x3b0) dev=266338311 ino=61 pos=8192 count=4096 last=1023": {
        **{"ino": 61, "offset_bytes": 8192, "nr_bytes": 4096, "last_page": 1023}
    },
    "mm_filemap_fault: (filemap_fault+0x0/0xa00) s_dev=266338311 i_ino=61 index=3": {"ino": 61, "page": 3},
    "mm_filemap_map_pages: (filemap_map_pages+0x0/0x6b0) s_dev=266338311 i_ino=61 index=0 last_index=15": {
        **{"ino": 61, "page": 0, "last_page": 15}
    },
    "direct_begin: (__blockdev_direct_IO+0x0/0x80) dev=266338311 ino=61 pos=8192 count=4096": {
        **{"ino": 61, "offset_bytes": 8192, "nr_bytes": 4096}
    },
    "direct_end: (fat_direct_IO+0x62/0xf0 [fat] <- __blockdev_direct_IO) moved=-529": {"dev": None, "nr_bytes": -529},
    'name_open: (do_sys_openat2+0x0/0x90) name="/a "b" c" flags=0x80000': {"name": '/a "b" c', "dev": None},
    'name_unlink: name="/a"': {"name": "/a", "dev": None},
    "name_unlink: name=(fault)": {"dev": None},
    'name_rename: (x) name="/a" new_name="/b"': {"name": "/a", "new_name": "/b", "dev": None},
    f"name_found: (vfs_open+0x0/0x40) {INODE} " + levels("d", 'a "b"', "c", "/"): {
        **{"ino": 5, "parent": 4, "name": '/c/a "b"'}
    },
    f"name_found: (x) {INODE} " + levels("d", *"abcdefgh"): {"ino": 5, "parent": 4, "name": "a"},
    f"name_found: (x) {INODE} " + levels("d", "a", None, "/"): {"ino": 5, "parent": 4},
    f"name_moved: (d_move+0x0/0x40) {INODE} {levels('d', 'a', '/')} {levels('n', 'b', 'c', '/')}": {
        **{"ino": 5, "parent": 4, "name": "/a", "new_name": "/c/b"}
    },
}
"""For each line the columns that it fills. `dev` is `DEV` unless stated, and unstated columns are null."""

ALIASES = {
    'sbio: (ffffffff814dbb80) dev=8388608 opf=0 sector=1 size=512 ino=3 index=0 sdev=8388609 name="/"': "bio_page",
    'e_open:  name="/x" flags=0x0': "name_open",
    'k_open: (ffffffff81363fa0) name="/x"': "name_open",
    'u_openat: (7ff1cbf2a150) name="x" flags=0x100': "name_open",
    'e_unlink:  name="/x"': "name_unlink",
    'u_unlinkat: (7f260ed27b40) name="rc"': "name_unlink",
    'e_rename:  from="/x" to="/y"': "name_rename",
    "f2fs_submit_page_mbio: dev = (254,7), ino = 3, page_index = 0x1f, blkaddr = 0x1639, rw = WRITE, type = DATA": (
        "f2fs_submit_page_write"
    ),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_forms(tmp_path: Path, end: str) -> None:
    staging = readers.read_bytes(tmp_path, "".join(f"{HEAD}{line}{end}" for line in FORMS).encode())
    base: dict[str, object] = dict.fromkeys(schema.table("fs_events").polars) | {"dev": DEV}
    seen = {"ts_ns": 5_000_001_000, "tid": 77, "comm": "dd"}
    for (line, expected), row in zip(FORMS.items(), staging.fs_events.rows(named=True), strict=True):
        assert row == base | expected | seen | {"event": line.split(":")[0]}
    assert staging.losses == ()


@pytest.mark.parametrize("line", ALIASES)
def test_event_of_another_name(tmp_path: Path, line: str) -> None:
    staging = readers.read_bytes(tmp_path, f"{HEAD}{line}\n".encode())
    assert staging.fs_events["event"].to_list() == [ALIASES[line]]
    assert staging.events == {line.split(":")[0]: 1}


@pytest.mark.parametrize("line", ["f2fs_new_inode: ino 5", "name_open: what?", "jbd2_end_commit: dev 7 transaction 5"])
def test_line_of_an_unknown_form_is_counted(tmp_path: Path, line: str) -> None:
    staging = readers.read_bytes(tmp_path, f"{HEAD}{line}\n".encode())
    assert staging.fs_events.is_empty()
    assert readers.losses(staging) == {"unreadable": 1}


def test_every_event_is_read_from_text_and_from_records() -> None:
    dtype = schema.table("fs_events").polars["event"]
    assert isinstance(dtype, pl.Enum)
    assert set(fs_events.FIELDS) == set(fs_events_text.FIELDS) == set(dtype.categories)
    assert set(fs_events.PROBES.values()) <= set(fs_events.FIELDS)
