"""Texts whose spaces became other characters, or that were quoted, are read like the original."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import readers

FTRACE = b"""# tracer: nop
#
# entries-in-buffer/entries-written: 3/4   #P:4
          <idle>-0       [001] d..1.     5.000104: block_rq_complete: 259,0 WS () 64 + 8 [0]
    kworker/u8:1-77      [001] d..1.     5.000108: block_rq_issue: 259,0 R 4096 () 128 + 8 [kworker/u8:1]
    kworker/u8:1-77      [001] .....     5.000109: ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 1
"""
BLKPARSE = b"""  8,0    1        1     0.000000000  1534  Q   W 64 + 8 [dd]
  8,0    1        2     0.000003000  1534  D   W 64 + 8 [dd]
"""
STRACE = b"""1534  1700000000.000001 write(3, "a", 1) = 1 <0.000012>
1534  1700000000.000101 fsync(3) = 0 <0.000512>
"""
BIOSNOOP = b"""TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)
0.000000    dd             1200    sda       R 2048       131072     0.75
0.000500    dd             1200    sda       W 4096       4096       0.75
"""
TEXTS = {"ftrace": FTRACE, "blkparse": BLKPARSE, "strace": STRACE, "biosnoop": BIOSNOOP}

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "tabs": lambda text: re.sub(b" +", b"\t", text),
    "tabs for several spaces": lambda text: re.sub(b"  +", b"\t", text),
    "no-break spaces": lambda text: text.replace(b" ", b"\xc2\xa0"),
    "every second one": lambda text: text.replace(b"  ", b" \xc2\xa0"),
    "a tab at the end": lambda text: text.replace(b"\n", b"\t\n"),
    "a quotation": lambda text: re.sub(b"(?m)^", b"> ", text).removesuffix(b"> "),
    "a quotation of a quotation": lambda text: re.sub(b"(?m)^", b">> ", text).removesuffix(b">> "),
    "indentation": lambda text: re.sub(b"(?m)^", b"\t", text).removesuffix(b"\t"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", TEXTS)
def test_other_spaces(tmp_path: Path, name: str, change: str) -> None:
    text = TEXTS[name]
    want, got = (readers.read_bytes(tmp_path, data) for data in (text, CHANGES[change](text)))
    assert (got.format, got.events, got.losses) == (want.format, want.events, want.losses)
    assert sum(want.events.values()) >= 2
    for table in ("block", "fs_events", "syscalls"):
        assert getattr(got, table).equals(getattr(want, table))


def test_a_tab_in_a_name_stays_if_other_lines_have_spaces(tmp_path: Path) -> None:
    text = FTRACE.replace(b"kworker/u8:1-77", b"a\tb-77").replace(b"[kworker/u8:1]", b"[a\tb]")
    assert "a\tb" in readers.read_bytes(tmp_path, text).block["comm"].to_list()


def test_long_lines_are_read_in_parts(tmp_path: Path) -> None:
    text = re.sub(b" +", b"\t", FTRACE) + b"\t" * (3 << 20) + b"\n" + re.sub(b" +", b"\t", FTRACE)
    assert readers.read_bytes(tmp_path, text).events["block_rq_issue"] == 2
