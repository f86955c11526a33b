"""Test that a bio belongs to the operation of its thread that stated its location, and to no later one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import readers
from support.blocks import DEV

from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import operations

LOOKUP = "ext4_es_lookup_extent_exit: dev 7,0 ino 12 found 1 [0/8) 100 W"
MISS = "ext4_es_lookup_extent_exit: dev 7,0 ino 12 found 0 [0/0) 0 "
OTHER = "ext4_es_lookup_extent_exit: dev 7,0 ino 13 found 1 [0/8) 900 W"
MAPPED = "ext4_ext_map_blocks_exit: dev 7,0 ino 12 flags CREATE|UNWRIT lblk 0 pblk 100 len 8 mflags NMU ret 8"
REMAPPED = "ext4_ext_map_blocks_exit: dev 7,0 ino 12 flags CREATE|CONVERT lblk 0 pblk 100 len 8 mflags M ret 8"
FAILED = "ext4_ext_map_blocks_exit: dev 7,0 ino 12 flags CREATE|UNWRIT lblk 0 pblk 100 len 8 mflags U ret -28"
ALLOCATED = "ext4_allocate_blocks: dev 7,0 ino 12 flags HINT_DATA len 8 block 100 lblk 0 goal 0"
UNWRITTEN = "ext4_es_insert_extent: dev 7,0 ino 12 es [0/8) mapped 100 status U"
WRITTEN = "ext4_es_insert_extent: dev 7,0 ino 12 es [0/8) mapped 100 status W"


def bio(rwbs: str) -> str:
    return f"block_bio_queue: 7,0 {rwbs} 816 + 8 [app]"


@pytest.mark.parametrize(
    "lines, number",
    [
        ([(77, LOOKUP), (77, bio("R"))], 1),
        ([(77, LOOKUP), (78, bio("R"))], 0),
        ([(77, LOOKUP), (78, OTHER), (77, bio("R"))], 1),
        ([(77, LOOKUP), (77, OTHER), (77, bio("R"))], 0),
        ([(77, LOOKUP), (77, MISS), (77, bio("R"))], 0),
        ([(77, LOOKUP), (77, bio("RM"))], 0),
        ([(77, LOOKUP), (77, bio("W"))], 0),
        ([(77, UNWRITTEN), (77, bio("W"))], 1),
        ([(77, UNWRITTEN), (78, bio("W"))], 0),
        ([(77, UNWRITTEN), (77, bio("R"))], 0),
        ([(77, WRITTEN), (77, bio("W"))], 0),
        ([(77, MAPPED), (77, bio("W"))], 1),
        ([(77, MAPPED), (78, bio("W"))], 0),
        ([(77, REMAPPED), (77, bio("W"))], 0),
        ([(77, FAILED), (77, bio("W"))], 0),
        ([(77, ALLOCATED), (77, bio("W"))], 0),
        ([(77, UNWRITTEN), (77, bio("W")), (77, bio("W"))], 1),
    ],
)
def test_which_bios_are_those_of_the_operation(lines: list[tuple[int, str]], number: int, tmp_path: Path) -> None:
    text = "".join(f" app-{tid} [000] 1.{at:06}: {line}\n" for at, (tid, line) in enumerate(lines))
    read = readers.read_bytes(tmp_path, text.encode())
    events = tracepoints.numbered(read.fs_events).lazy()
    stated = tracepoints.statements(events, tracepoints.lifetimes(events), {DEV: 4096})
    found = operations.extents(stated, events, read.block.lazy(), Losses())
    first_ns = 1_000_000_000 + 1000 * next(at for at, (_, line) in enumerate(lines) if "bio" in line)
    expected = (12, 816, 8, 8192, first_ns, first_ns + 1)
    wanted = ["ino", "sector", "nr_sectors", "file_offset_bytes", "valid_from_ns", "valid_to_ns"]
    assert found.select(wanted).rows() == [expected] * number


@pytest.mark.parametrize("first", [ALLOCATED, LOOKUP.replace("W", "U")])
def test_an_earlier_event_about_a_block_does_not_hide_that_it_is_mapped(first: str, tmp_path: Path) -> None:
    found = {}
    for lines in ([MAPPED], [first, MAPPED]):
        text = "".join(f" app-77 [000] 1.{at:06}: {line}\n" for at, line in enumerate([*lines, bio("W")]))
        read = readers.read_bytes(tmp_path, text.encode())
        events = tracepoints.numbered(read.fs_events).lazy()
        stated = tracepoints.statements(events, tracepoints.lifetimes(events), {DEV: 4096})
        found[len(lines)] = operations.extents(stated, events, read.block.lazy(), Losses()).height
    assert found == {1: 1, 2: 1}
