"""Parse filesystem events in ftrace text: block mapping and freeing, writers of files, and names.

The fields follow include/trace/events/{ext4,f2fs,jbd2,writeback,filemap}.h and fs/iomap/trace.h, Linux 3.9 to 6.18, and
android_fs.h of Android's kernels, as the kernel prints them. trace-cmd cannot print F2FS's writes in that way and lists
their fields instead.

`androstep_analysis.fs` explains the events. `androstep_analysis.ingest.ftrace.fs_events` reads them from binary
records.
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.fs_events import LEVELS

_INODE = "dev {dev:device} ino {ino}"
_INSERT = f"{_INODE} es [{{file_block}}/{{nr_blocks}}) mapped {{block}} status {{status:flags}}"
_WRITE = f"{_INODE} pos {{offset_bytes}} len {{nr_bytes}}"
_WRITTEN = f"{_INODE} pos {{offset_bytes}} len {{#}} copied {{nr_bytes}}"
_DIRTY = (
    "bdi {dev:device}: ino={ino} index={page}",
    "bdi {*}: ino={ino} index={page}",  # a backing device without a disk has no device numbers
)
_COMMIT = "dev {dev:device} transaction {transaction}"

_F2FS_DEV = "dev = ({dev:device})"
_F2FS_INODE = f"{_F2FS_DEV}, ino = {{ino}}"
_F2FS_WRITE = f"{_F2FS_INODE}{{?,}} pos = {{offset_bytes}}{{?,}} len = {{nr_bytes}}"
_F2FS_WRITTEN = f"{_F2FS_INODE}{{?,}} pos = {{offset_bytes}}{{?,}} len = {{#}}{{?,}} copied = {{nr_bytes}}"
_F2FS_STATE = f"{_F2FS_INODE}, pino = {{parent}}, i_mode = 0x{{mode:x}}, i_size = {{#}}, i_nlink = {{nlink}}"
_F2FS_BLOCK = (
    f"{_F2FS_INODE}, {{*}}index = 0x{{file_block:x}}, oldaddr = 0x{{old_block:x}}, newaddr = 0x{{block:x}}{{?,}}"
    " {*} type = {status:f2fs}{nr_blocks:=1}{end}",
    f"{_F2FS_INODE}, page_index = 0x{{file_block:x}}, blkaddr = 0x{{block:x}}, {{*}} type = {{status:f2fs}}"
    "{nr_blocks:=1}{end}",  # Linux 3.19 to 4.5
    "[FAILED TO PARSE] dev={dev} ino={ino} index=0x{file_block:x} old_blkaddr={old_block} new_blkaddr={block}"
    " {*w}type={status:type}{nr_blocks:=1}{end}",
)
_F2FS_FOUND = (
    f"{_F2FS_INODE}, pgofs = {{#}}, {{*}}ext_info(fofs: {{file_block}}, len: {{nr_blocks}}, blk: {{block}})",
)
_F2FS_PLACED = (
    f"{_F2FS_INODE}, pgofs = {{file_block}}, len = {{nr_blocks}}, blkaddr = {{block}}",
    f"{_F2FS_INODE}, pgofs = {{file_block}}, blkaddr = {{block}}, len = {{nr_blocks}}",
)
_TRANSFER = (
    "entry_name {name:text}, offset {offset_bytes}, bytes {nr_bytes}, cmdline {*}, pid {#}, i_size {#}, ino {ino}{end}"
)
_PATH = tuple(f"{{place}}name={{name:quoted}}{flags}{{end}}" for flags in (" flags={w}", ""))
_PATHS = tuple(
    f"{{place}}{old}={{name:quoted}} {new}={{new_name:quoted}}{{end}}"
    for old, new in (("name", "new_name"), ("from", "to"))
)
_DENTRY = "{place}dev={dev} ino={ino} parent={parent}" + "".join(
    f" d{level}={{name:quoted{level}}}" for level in range(LEVELS)
)
_NEW = "".join(f" n{level}={{new_name:quoted{level}}}" for level in range(LEVELS))
_BIO = "{place}dev={bio_dev} opf={w} sector={sector} size={nr_bytes}"
_BIO_PAGE = " ino={ino} index={page} sdev={dev} name={name:quoted}{end}"
_ADDED = "dev {dev:device} ino {ino:x} {*w}ofs={offset_bytes}"
_CACHE = (f"{_ADDED} order={{page_order}}", _ADDED)
_PAGE = "dev={dev:device} ino={ino:x} ofs={offset_bytes}"
_PAGES = f"{_PAGE}-{{nr_bytes:last}}"
_FAULT = "{place}s_dev={dev} i_ino={ino} index={page}"
_INVALIDATE = tuple(
    f"{_INODE} {index} {{page}} offset {{offset_bytes}} length {{nr_bytes}}" for index in ("folio_index", "page_index")
)
_STORE = "{place}dev={dev} ino={ino} index={page}"
_AT = "{place}dev={dev} ino={ino} pos={offset_bytes} count={nr_bytes}"
_DIRECT = f"{_AT}{{end}}"

FIELDS: dict[str, tuple[str, ...]] = {
    "ext4_es_insert_extent": (_INSERT,),
    "ext4_es_cache_extent": (_INSERT,),
    "ext4_es_lookup_extent_exit": (
        f"{_INODE} found {{#}} [{{file_block}}/{{nr_blocks}}) {{block}}{{? }}{{status:flags}}",
    ),
    "ext4_ext_map_blocks_exit": (
        f"{_INODE} flags {{*}}lblk {{file_block}} pblk {{block}} len {{nr_blocks}} mflags{{? }}{{status:flags}}"
        "{*w}ret {error:s}{end}",
    ),
    "ext4_allocate_blocks": (f"{_INODE} flags {{*}}len {{nr_blocks}} block {{block}} lblk {{file_block}}",),
    "ext4_free_blocks": (f"{_INODE} mode 0{{mode:o}} block {{block}} count {{nr_blocks}}",),
    "ext4_allocate_inode": (f"{_INODE} dir {{parent}} mode 0{{mode:o}}",),
    "ext4_free_inode": (f"{_INODE} mode 0{{mode:o}}",),
    "ext4_evict_inode": (f"{_INODE} nlink {{nlink}}",),
    "ext4_unlink_enter": (f"{_INODE} size {{#}} parent {{parent}}",),
    "ext4_write_begin": (_WRITE,),
    "ext4_da_write_begin": (_WRITE,),
    "ext4_write_end": (_WRITTEN,),
    "ext4_da_write_end": (_WRITTEN,),
    "ext4_journalled_write_end": (_WRITTEN,),
    "ext4_load_inode": (_INODE,),
    "ext4_direct_IO_enter": (_WRITE,),
    "writeback_dirty_folio": _DIRTY,
    "writeback_dirty_page": _DIRTY,
    "iomap_dio_rw_begin": (
        "dev {dev:device} ino 0x{ino:x} size 0x{w} offset 0x{offset_bytes:x} length 0x{nr_bytes:x}",
        _DIRECT,
    ),
    "iomap_dio_complete": (
        "dev {dev:device} ino 0x{ino:x} size 0x{w} offset 0x{offset_bytes:x} {*w}ret {nr_bytes:s}{end}",
    ),
    "iomap_dio_rw_queued": ("dev {dev:device} ino 0x{ino:x}",),
    "jbd2_start_commit": (_COMMIT,),
    "jbd2_end_commit": (_COMMIT,),
    "jbd2_handle_stats": ("dev {dev:device} tid {transaction} {*w}dirtied_blocks {nr_blocks:s}",),
    "mm_filemap_add_to_page_cache": _CACHE,
    "mm_filemap_delete_from_page_cache": _CACHE,
    "mm_filemap_get_pages": (_PAGES,),
    "mm_filemap_fault": (_PAGE, f"{_FAULT}{{end}}"),
    "mm_filemap_map_pages": (_PAGES, f"{_FAULT} last_index={{last_page}}{{end}}"),
    "ext4_invalidate_folio": _INVALIDATE,
    "ext4_journalled_invalidate_folio": _INVALIDATE,
    "ext4_invalidatepage": _INVALIDATE,
    "ext4_journalled_invalidatepage": _INVALIDATE,
    "f2fs_vm_page_mkwrite": (f"{_F2FS_INODE}, {{*w}}index = {{page}}",),
    "f2fs_submit_page_write": _F2FS_BLOCK,
    "f2fs_submit_folio_write": _F2FS_BLOCK,
    "f2fs_submit_page_bio": _F2FS_BLOCK,
    "f2fs_submit_folio_bio": _F2FS_BLOCK,
    "f2fs_map_blocks": (
        f"{_F2FS_INODE}, file offset = {{file_block}}, start blkaddr = 0x{{block:x}}, len = 0x{{nr_blocks:x}},"
        " {*w}err = {error:s}",
    ),
    "f2fs_lookup_extent_tree_end": _F2FS_FOUND,
    "f2fs_lookup_read_extent_tree_end": _F2FS_FOUND,
    "f2fs_update_extent_tree_range": _F2FS_PLACED,
    "f2fs_update_read_extent_tree_range": _F2FS_PLACED,
    "f2fs_new_inode": (f"{_F2FS_INODE}, ret = {{error:s}}",),
    "f2fs_lookup_start": (f"{_F2FS_DEV}, pino = {{parent}}, name:{{name:text}}, flags:{{#}}{{end}}",),
    "f2fs_lookup_end": (
        f"{_F2FS_DEV}, pino = {{parent}}, name:{{name:text}}, ino:{{ino:found}}, err:{{error:s}}{{end}}",
    ),
    "f2fs_unlink_enter": (
        f"{_F2FS_DEV}, dir ino = {{parent}}, i_size = {{#}}, i_blocks = {{#}}, name = {{name:rest}}",
    ),
    "f2fs_rename_start": (
        f"{_F2FS_DEV}, old_dir = {{parent}}, old_name: {{name:text}}, new_dir = {{#}},"
        " new_name: {new_name:text}, flags = {#}{end}",
    ),
    "f2fs_evict_inode": (_F2FS_STATE,),
    "f2fs_iget": (_F2FS_STATE,),
    "f2fs_write_begin": (_F2FS_WRITE,),
    "f2fs_write_end": (_F2FS_WRITTEN,),
    "f2fs_direct_IO_enter": (_F2FS_WRITE,),
    "f2fs_datawrite_start": (_TRANSFER,),
    "f2fs_dataread_start": (_TRANSFER,),
    "android_fs_datawrite_start": (_TRANSFER,),
    "android_fs_dataread_start": (_TRANSFER,),
    "ext4_sync_file_enter": (f"{_INODE} parent {{parent}} datasync {{#}}",),
    "ext4_sync_file_exit": (f"{_INODE} ret {{error:s}}",),
    "f2fs_sync_file_enter": (
        f"{_F2FS_INODE}, pino = {{#}}, i_mode = 0x{{mode:x}}, i_size = {{#}}, i_nlink = {{nlink}}",
    ),
    "f2fs_sync_file_exit": (f"{_F2FS_INODE}, {{*w}}ret = {{error:s}}",),
    "bio_page": (
        f"{_BIO} vcnt={{#}} idx={{#}} done={{#}} offset={{offset_bytes}} mapping={{w}} host={{w}}{_BIO_PAGE}",
        f"{_BIO}{_BIO_PAGE}",
    ),
    "page_mkwrite": (f"{_STORE} within={{offset_bytes}}{{end}}", f"{_STORE}{{end}}"),
    "filemap_read": (f"{_AT} last={{last_page}}{{end}}",),
    "direct_begin": (_DIRECT,),
    "direct_end": ("{place}moved={nr_bytes:s}{end}",),
    "name_open": _PATH,
    "name_unlink": _PATH,
    "name_rename": _PATHS,
    "name_found": (f"{_DENTRY}{{end}}",),
    "name_moved": (f"{_DENTRY}{_NEW}{{end}}",),
}
"""The forms (`ingest.ftrace.forms`) of the text after an event's name. The first form that matches is used.

For pages in the cache, the kernel prints byte offsets instead of page numbers.
"""
