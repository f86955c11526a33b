"""An image that is older than the recording, or was taken during it, does not reduce the results from events."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from support import built, journal_workload, loops

import androstep_analysis as androstep
from androstep_analysis import fs, ingest, link
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs.ext4 import journal
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests
from androstep_analysis.link.evidence.snapshots import Images

pytestmark = pytest.mark.prove

BLOCK = 4096
NAMES = "abcdef"
LOST_AND_FOUND = 11

WORKLOAD = """
import os, random, subprocess, sys, time

top, device, copy, seed = sys.argv[1:5]
chance = random.Random(int(seed))

def change(name):
    path = os.path.join(top, name)
    if chance.random() < 0.5:
        os.unlink(path)
    with open(path, "ab") as file:
        file.truncate(chance.randrange(8) * 4096)
        file.write(bytes(chance.randint(1, 30) * 4096))
        file.flush()
        if chance.random() < 0.5:
            os.fsync(file.fileno())

for step in range(40):
    if step == 20:
        subprocess.run(["dd", "if=" + device, "of=" + copy, "bs=1M", "iflag=direct", "status=none"], check=True)
    change(chance.choice("abcdef"))
    if chance.random() < 0.3:
        os.sync()
os.sync()
open("/proc/sys/vm/drop_caches", "w").write("3")
print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
for name in "abcdef":
    open(os.path.join(top, name), "rb").read()
subprocess.run(["dd", "if=" + device, "of=/dev/null", "bs=1M", "iflag=direct", "status=none"], check=True)
"""

IMAGES: dict[str, tuple[str | None, str | None]] = {
    "before": ("before", None),
    "older": ("older", None),
    "older and after": ("older", "after"),
    "while it ran, as before": ("meanwhile", None),
    "while it ran, as after": (None, "meanwhile"),
    "before, and while it ran": ("before", "meanwhile"),
    "both": ("before", "after"),
    "later": (None, "later"),
    "before and later": ("before", "later"),
}


def fill(top: Path, seed: int) -> None:
    """Create files of random length, some of which reuse inode numbers and blocks of earlier ones."""
    chance = random.Random(seed)
    for name in NAMES:
        path = top / name
        if path.exists() and chance.random() < 0.5:
            path.unlink()
        path.write_bytes(bytes(chance.randint(10, 40) * BLOCK))


def others(top: Path, seed: int, *, again: bool) -> None:
    """Create files that the recording does not change; `again`: delete, rename and rewrite some of them."""
    chance = random.Random(seed)
    for number in range(40):
        path = top / f"directory{number % 4}" / f"other{number}"
        path.parent.mkdir(exist_ok=True)
        nr_blocks, what = chance.randint(1, 8), chance.random()
        if not again or what < 0.05:
            path.write_bytes(bytes(nr_blocks * BLOCK))
        elif what < 0.1:
            path.unlink(missing_ok=True)
        elif what < 0.15 and path.exists():
            path.rename(path.with_name(f"renamed{number}"))
    if again:
        (top / "directory3").rename(top / f"moved{seed}")
        (top / "directory2").rename(top / "directory3")


class Made:
    """A recording, images of its filesystem at several times, and the final blocks of its files.

    Reads from `since_ns` on are of the files in their final state, or of the whole device. Some files are deleted, and
    others renamed, between the two images before the recording, and between the two after it.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.images = {name: directory / f"{name}.img" for name in ("older", "before", "meanwhile", "after", "later")}
        image = self.images["after"]
        loops.make_ext4(image, ["-b", str(BLOCK)])
        for further, kept in ((0, "older"), (1, "before")):
            with loops.mounted(image) as disk:
                fill(disk.top, seed + further)
                others(disk.top, seed, again=bool(further))
            shutil.copyfile(image, self.images[kept])
        self.directory = directory / "recording"
        with loops.mounted(image) as disk:
            command = [built.program("iotrace"), "-o", self.directory, "--device", disk.device]
            work = [sys.executable, "-c", WORKLOAD, disk.top, disk.device, self.images["meanwhile"], str(seed)]
            subprocess.run(["sync", "-f", disk.top], check=True)
            self.since_ns = int(built.run(*command, "--", *work).stdout)
            self.where, self.paths = {}, {}
            for path in disk.top.rglob("*"):
                ino = path.stat().st_ino
                self.paths[ino] = f"/{path.relative_to(disk.top)}"
                file = os.open(path, os.O_RDONLY)
                for logical, block in journal_workload.fiemap(file, BLOCK).items():
                    self.where[block * BLOCK // 512] = ino, logical * BLOCK
                os.close(file)
        shutil.copyfile(image, self.images["later"])
        with loops.mounted(self.images["later"]) as disk:
            others(disk.top, seed + 2, again=True)
        self.staging, self.dev = self._read()

    def _read(self) -> tuple[Staging, int]:
        said = json.loads((self.directory / "recording.json").read_text())
        trace = ingest.read(self.directory / "trace.dat")
        assert not trace.lost_events and trace.clock == "mono"
        trace.facts["fs_type"] = "ext4"
        recorded = frozenset(event["event"].rpartition("/")[2] for event in said["events"])
        trace = Staging(**{**vars(trace), "realtime_offset_ns": said["realtime_offset_ns"], "recorded": recorded})
        return trace, int(trace.block.select(pl.col("dev").drop_nulls().first()).collect().item())

    def io(self, before: str | None, after: str | None, *, listed: bool) -> pl.DataFrame:
        """Return table io with these images, one row for each block, with or without the listings of iotrace."""
        if listed:
            images = {
                f"image_{when}": self.images[name] for when, name in (("before", before), ("after", after)) if name
            }
            with TemporaryDirectory() as directory:
                capture = androstep.create([self.directory], Path(directory, "c"), androstep.Description(**images))
                return self._blocks(capture.io)
        parts = {
            when: link.classified(fs.read(self.images[name], dev=self.dev, source=f"image_{when}"))
            for when, name in (("before", before), ("after", after))
            if name is not None
        }
        past = journal.read(self.images[after], parts["after"]) if after is not None else None
        linked = requests.link(self.staging.block)
        return self._blocks(link.tables(self.staging, linked, Images(**parts, journal=past), Spool())["io"])

    def _blocks(self, io: pl.LazyFrame) -> pl.DataFrame:
        rows = io.filter(pl.col("nr_sectors") > 0).collect()
        inside = pl.int_ranges(0, "nr_sectors", BLOCK // 512)
        is_fact = pl.col("map_source").cast(pl.String) != "inferred"
        return rows.with_columns(inside=inside).explode("inside").select(
            "request_id", "op", "queue_ns", "ino", "path", "owner_pid",
            pl.col("sector") + pl.col("inside"),
            offset=pl.col("file_offset_bytes") + 512 * pl.col("inside"),
            is_file=(is_fact & pl.col("ino").is_not_null()).fill_null(False),
            is_owned=~pl.col("owner_via").cast(pl.String).is_in(["unknown", "inferred", "filesystem"]),
        )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_image_of_another_time_takes_no_fact_and_states_no_other(seed: int, tmp_path: Path) -> None:
    made = Made(tmp_path, seed)
    problems = []
    for listed in (False, True):
        alone = made.io(None, None, listed=listed)
        assert alone.filter("is_file").height > 300 and alone.filter("is_owned").height > 300
        for name, (before, after) in IMAGES.items():
            try:
                io = made.io(before, after, listed=listed)
            except InputError:
                assert {"older", "meanwhile", "later"} & {before, after}, (
                    name
                )  # it contradicts the trace, and is refused
                continue
            name = f"{name}, {'with' if listed else 'without'} listings"
            problems += lost(alone, io, name)
            is_last = (pl.col("op") == "read") & (pl.col("queue_ns") > made.since_ns)
            read = io.filter("is_file", is_last, pl.col("ino") > LOST_AND_FOUND)
            said = zip(read["sector"], read.select("ino", "offset").rows(), strict=True)
            if wrong := [(sector, row) for sector, row in said if row != made.where.get(sector)]:
                problems.append(f"{name}: {len(wrong)} of {read.height} blocks read are another's: {wrong[:3]}")
            named = read.drop_nulls("path").select("ino", "path").unique().rows()
            if wrong_names := [(ino, path) for ino, path in named if path != made.paths.get(ino)]:
                problems.append(f"{name}: wrong names {wrong_names[:3]}")
    assert not problems, "\n".join(problems)


def lost(alone: pl.DataFrame, io: pl.DataFrame, name: str) -> Iterator[str]:
    """Yield what is known without images, but is not known, or is another fact, with them."""
    both = alone.join(io, on=["request_id", "sector"], suffix="_then", how="left")
    is_likely = pl.col("path").is_null() & pl.col("path_then").is_not_null()  # its name may have been another one
    same_file = (pl.col("is_file_then") | is_likely) & (pl.col("ino_then") == pl.col("ino"))
    same_file &= pl.col("offset_then") == pl.col("offset")
    same_owner = pl.col("is_owned_then") & (pl.col("owner_pid_then") == pl.col("owner_pid"))
    for what, fact, same in (("file", "is_file", same_file), ("owner", "is_owned", same_owner)):
        if count := both.filter(fact, ~same.fill_null(False)).height:
            yield f"{name}: {count} blocks have no longer the {what} that events tell"
