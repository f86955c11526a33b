"""Test inode numbers on filesystems without reserved ones: FAT and exFAT number their files from 2."""

from __future__ import annotations

import polars as pl
import pytest
from harness import guest, recordings

import androstep_analysis as androstep

FILES = 12
SCRIPT = """set -x
mount -t {fs_type} /dev/vda /mnt || return
iotrace -o /tmp/out/recording --device /dev/vda -- sh -c '
  for file in $(seq {files}); do dd if=/dev/urandom of=/mnt/file$file bs=4096 count=8 2>/dev/null; done
  sync'
"""


@pytest.mark.parametrize("fs_type", ["vfat", "exfat"])
def test_a_file_with_the_number_of_anothers_journal_is_a_file(fs_type, tmp_path):
    lacking = recordings.missing(fs_type)
    if lacking is not None:
        pytest.skip(lacking)
    program = recordings.iotrace(recordings.RECORDINGS[fs_type])
    script = SCRIPT.format(fs_type=fs_type, files=FILES)
    guest.run(tmp_path, fs_type, [program], script, log_writes=False)
    io = androstep.open(tmp_path / "recording").io.filter(pl.col("op") == "write", pl.col("ino").is_not_null())
    known = io.filter(pl.col("map_source") != "inferred").collect()
    assert set(known["block_type"]) == {"data"}
    assert {3, 8} <= set(known["ino"])
    assert set(known["owner_comm"]) == {"dd"}
    names = known.group_by("path").agg(pl.col("ino").n_unique(), pl.col("bytes").sum()).sort("path")
    assert names["bytes"].to_list() == [8 * 4096] * FILES
