"""One workload, recorded at once by blktrace, ftrace, trace-cmd and iotrace, yields the same requests in all formats.

A virtual machine does direct, buffered and synchronous I/O, discards and splits on a device-mapper device. The
recorders observe each event one after the other, always in the same order, and each of them reads the clock.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from harness import build, guest, kernel
from support import readers

from androstep_analysis.link import requests

SCRIPT = """set -x
mount -t debugfs debug /sys/kernel/debug
dmsetup create upper --table "0 614400 linear /dev/vda 0" --noudevsync --noudevrules
mkdir -p /tmp/out/blktrace /sys/kernel/tracing/instances/text
cd /sys/kernel/tracing/instances/text
echo mono >trace_clock; echo 16384 >buffer_size_kb; echo 1 >events/block/enable
cd /
trace-cmd start -C mono -b 16384 -e block
blktrace -d /dev/vda -d /dev/dm-0 -D /tmp/out/blktrace -b 1024 -n 8 >/tmp/out/blktrace.log 2>&1 &
tracer=$!
sleep 1
iotrace -o /tmp/out/recording --device /dev/vda --preset block -- sh -c '
  mount -t ext4 -o discard,noatime /dev/dm-0 /mnt
  workload prep /mnt /tmp/out/oplog 1 8
  workload run /mnt /tmp/out/oplog 1 8
  dd if=/dev/zero of=/mnt/large bs=4M count=4 oflag=direct
  echo 3 >/proc/sys/vm/drop_caches
  dd if=/mnt/large of=/dev/null bs=4M iflag=direct
  echo 3 >/proc/sys/vm/drop_caches
  dd if=/mnt/large of=/dev/null bs=64k
  rm /mnt/large; sync; fstrim /mnt; umount /mnt
  blkdiscard -o 268435456 -l 4194304 /dev/dm-0
  sync; sleep 1
'
kill -INT $tracer; wait $tracer
trace-cmd stop
echo 0 >/sys/kernel/tracing/instances/text/events/block/enable
cat /sys/kernel/tracing/instances/text/trace >/tmp/out/trace.txt
trace-cmd extract -o /tmp/out/trace.dat
"""
PROGRAMS = ("blktrace", "trace-cmd", "dmsetup")
IOTRACE = build.ROOT / "build" / "probes" / "x86_64-linux-musl" / "iotrace"

FORMATS = {"ftrace text": "trace.txt", "trace.dat": "trace.dat", "blktrace": "blktrace"}
"""In the order in which the recorders were started, which is the order in which they observe an event."""

TIMES = ["queue_ns", "insert_ns", "issue_ns", "complete_ns"]
ROUNDED_NS = 500
"""ftrace text has microseconds."""

KEY = ["dev", "sector", "op", "nr_sectors", "cpu", "issue_ns"]
"""Columns to sort by. A CPU may be interrupted between two recorders' observations of an event while other CPUs
continue. Therefore only the order on each CPU is the same in all formats.
"""

DEVICES = (254 << 20, 253 << 20)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lacking = guest.missing()
    if lacking is None and not IOTRACE.is_file():
        lacking = f"needs {IOTRACE}: make probes-prove"
    found = [shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") for program in PROGRAMS]
    if lacking is None and None in found:
        lacking = f"needs {', '.join(PROGRAMS)}"
    if lacking is not None:
        pytest.skip(lacking)
    try:
        programs = [build.workload(), IOTRACE, *(Path(program) for program in found if program is not None)]
        kernel.debian()
    except OSError as error:
        pytest.skip(f"needs what cannot be fetched: {error}")
    directory = tmp_path_factory.mktemp("guest")
    guest.run(directory, "ext4", programs, SCRIPT, 2, log_writes=False)
    return directory


def linked(path: Path) -> pl.DataFrame:
    """Return the requests of one format, in an order that does not depend on differences of a microsecond."""
    block = readers.read(path).block.filter(pl.col("dev").is_in(DEVICES))
    return requests.link(block.lazy()).joined().requests.sort(KEY)


def test_the_workload_has_all_that_is_to_be_compared(recordings: Path) -> None:
    read = readers.read(recordings / "blktrace")
    assert read.losses == ()
    assert {"Q", "G", "M", "I", "D", "C", "A", "X", "P"} <= read.events.keys()
    assert set(read.block["dev"].unique()) == set(DEVICES)
    tables = linked(recordings / "blktrace")
    assert {"read", "write", "flush", "discard"} == set(tables["op"].unique())
    assert {"full", "split"} <= set(tables["matched"].unique())
    assert tables.height > 1000 and tables["fua"].any() | tables["preflush"].any() and tables["readahead"].any()
    assert (tables["part_dev"] == DEVICES[1]).sum() > 1000


@pytest.mark.parametrize("name", FORMATS)
def test_requests_are_those_of_iotrace(recordings: Path, name: str) -> None:
    ours = linked(recordings / FORMATS[name])
    theirs = linked(recordings / "recording" / "trace.dat")
    # blkparse's letters for a flush without data are FN, ftrace's FF. Only iotrace records the process of a thread. The
    # index is the position in the order of issues, which two CPUs may do at once. blktrace records a thread's name
    # once: a renamed thread keeps its first name, and a new worker the name of its parent.
    letters = pl.col("rwbs").str.replace("^FN$", "FF")
    other = (ours["submit_comm"] != theirs["submit_comm"]).fill_null(False)
    assert name == "blktrace" or not other.any()
    borne = set(readers.read(recordings / "recording" / "trace.dat").tasks.select("tid", "comm").rows())
    assert set(ours.filter(other).select("submit_tid", "submit_comm").rows()) <= borne
    ours = ours.with_columns(submit_comm=pl.when(other).then(theirs["submit_comm"]).otherwise("submit_comm"))
    columns = [column for column in ours.columns if column not in (*TIMES, "submit_pid", "request_id")]
    assert ours.select(columns).with_columns(letters).rows() == theirs.select(columns).rows()
    assert ours["submit_pid"].null_count() == ours.height
    assert theirs["submit_pid"].null_count() < theirs.height
    assert (ours["request_id"] - theirs["request_id"]).abs().max() < 20


def test_times_are_in_the_order_of_the_recorders(recordings: Path) -> None:
    tables = [linked(recordings / path) for path in (*FORMATS.values(), "recording/trace.dat")]
    for column in TIMES:
        for earlier, later in itertools.pairwise(tables):
            assert earlier[column].is_null().equals(later[column].is_null())
            assert (later[column] - earlier[column]).min() >= -ROUNDED_NS


def test_bios_are_those_of_trace_dat(recordings: Path) -> None:
    steps = ("queue", "remap", "split", "issue", "complete", "backmerge", "insert")
    blktrace = readers.read(recordings / "blktrace").block
    ftrace = readers.read(recordings / "trace.dat").block.filter(pl.col("dev").is_in(DEVICES))
    columns = ["dev", "sector", "nr_sectors", "old_dev", "old_sector", "error"]
    # For the completion of a flush, the kernel passes sector 0 to blktrace and all ones to ftrace.
    sector = pl.when((pl.col("nr_sectors") != 0) | (pl.col("action") != "complete")).then("sector")
    blktrace, ftrace = (table.with_columns(sector) for table in (blktrace, ftrace))
    for step in steps:
        of_step = [table.filter(pl.col("action") == step).select(columns).sort(columns) for table in (blktrace, ftrace)]
        assert of_step[0].height > 0
        assert of_step[0].rows() == of_step[1].rows(), step


def test_text_of_blkparse(recordings: Path) -> None:
    folder = recordings / "blktrace"
    text = subprocess.run(["blkparse", "-i", "vda", "-i", "dm-0"], cwd=folder, capture_output=True, check=True).stdout
    (recordings / "blkparse.txt").write_bytes(text)
    ours, theirs = linked(recordings / "blkparse.txt"), linked(folder)
    # blkparse prints no sector for events without a length, so that the origin of a flush is unknown.
    skipped = (*TIMES, "request_id", "part_dev", "part_sector")
    columns = [column for column in ours.columns if column not in skipped]
    # blkparse has one name for each process id, even if several processes had it in turn.
    other = (ours["submit_comm"] != theirs["submit_comm"]).fill_null(False)
    several = theirs.group_by("submit_tid").agg(pl.col("submit_comm").n_unique()).filter(pl.col("submit_comm") > 1)
    assert set(ours.filter(other)["submit_tid"]) <= set(several["submit_tid"])
    ours = ours.with_columns(submit_comm=pl.when(other).then(theirs["submit_comm"]).otherwise("submit_comm"))
    assert ours.select(columns).rows() == theirs.select(columns).rows()
    sized = pl.col("nr_sectors") > 0
    assert ours.filter(sized)["part_dev"].equals(theirs.filter(sized)["part_dev"])
    shift = theirs["issue_ns"] - ours["issue_ns"]
    assert shift.n_unique() == 1
