"""Compare the package's results on a recording of the harness with the truth."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from support import truth

from androstep_analysis import fs, ingest, link, units
from androstep_analysis.fs import Filesystem, fiemap
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest import entries, record
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests
from harness import content, devlog, encrypted, layout, oplog, reads

WITHOUT_PROBES = "trace without probes + both images"
ALONE = "recording alone"

RUNS = {**truth.RUNS, WITHOUT_PROBES: (True, True, True), ALONE: (True, False, False)}
"""Runs of truth.py, one with ordinary tracing, and one with iotrace on a live device: trace and extent listings."""

PROBES = (
    "bio_page",
    "direct_begin",
    "direct_end",
    "page_mkwrite",
    "name_found",
    "name_moved",
    "name_open",
    "name_unlink",
    "name_rename",
)
"""Events of iotrace's probes."""


@dataclass
class Recording:
    """A recording of `host` or `guest`. The disk's log has the marks prepared, begin and end."""

    directory: Path
    fs_type: str
    mark_byte: int
    page_bytes: int = 4096
    root: str = ""
    """The encrypted directory in which the workload ran."""
    first_byte: int = 0
    """Offset of the filesystem on the disk."""
    _io_of: dict[str, pl.DataFrame] = field(default_factory=dict)

    @cached_property
    def staging(self) -> Staging:
        """The trace, with the offset of the real time that iotrace measured and the events that it recorded."""
        trace = ingest.read(self.directory / "recording" / "trace.dat")
        recorded = frozenset(event["event"].rpartition("/")[2] for event in self.described["events"])
        return replace(
            trace,
            realtime_offset_ns=self.described["realtime_offset_ns"],
            recorded=recorded,
            facts={**trace.facts, "fs_type": self.fs_type},
        )

    @cached_property
    def described(self) -> dict[str, Any]:
        """iotrace's description of the recording (recording.json)."""
        described: dict[str, Any] = json.loads((self.directory / "recording" / "recording.json").read_text())
        return described

    @cached_property
    def dev(self) -> int:
        """The device under test: the disk, even if the filesystem is on a device-mapper device above it."""
        dev = truth.device(self.staging)
        below = [one["lies_on"] for one in self.described["devices"] if one["dev"] == units.format_dev(dev)]
        return units.parse_dev(below[0][0]) if below and below[0] else dev

    @cached_property
    def fs_dev(self) -> int:
        """The device of the filesystem: the one under test, or the device-mapper device above it."""
        above = [one["dev"] for one in self.described["devices"] if units.format_dev(self.dev) in one["lies_on"]]
        return units.parse_dev(above[0]) if above else self.dev

    @cached_property
    def mounts(self) -> dict[int, str]:
        """The mountpoint of the filesystem, as recorded by iotrace."""
        paths = {units.parse_dev(mount["dev"]): mount["path"] for mount in self.described["mounts"]}
        return {self.fs_dev: paths[self.fs_dev]}

    @cached_property
    def log(self) -> devlog.DevLog:
        """The log of the disk."""
        return devlog.read(self.directory / "disk.log")

    @cached_property
    def span(self) -> tuple[int, int]:
        """Entries of the marks `begin` and `end` in the disk's log."""
        return devlog.mark(self.log, self.mark_byte, "begin"), devlog.mark(self.log, self.mark_byte, "end")

    @cached_property
    def truth(self) -> content.Truth:
        """The truth about every write in the trace."""
        return self.truth_of(self.bios)

    def truth_of(self, bios: pl.DataFrame, operations: list[oplog.Op] | None = None) -> content.Truth:
        """Return the truth about these `bios`, by another log than the workload's own if one is passed."""
        operations = operations or self.operations
        return content.truth(self.log, *self.span, bios, operations, self._layout, self._opened)

    @cached_property
    def truth_of_reads(self) -> content.Truth:
        """The truth about every read in the trace that no write of the same sectors overlaps."""
        return self.reads_of(self.operations)

    def reads_of(self, operations: list[oplog.Op]) -> content.Truth:
        """Return `truth_of_reads` by this log of the workload."""
        image = self.directory / "begin.img"
        devlog.image_at(self.log, self.span[0], self.directory / "base.img", image)
        asked, held = reads.held(self.log, *self.span, image, self.bios, self.read_bios)
        return content.truth_of_reads(asked, held, operations, self._layout, self._opened)

    @cached_property
    def operations(self) -> list[oplog.Op]:
        """The workload's own log."""
        return oplog.read(self.directory / "oplog")

    @cached_property
    def _layout(self) -> layout.Layout:
        found = layout.LAYOUTS[self.fs_type](self.filesystem, self.page_bytes // devlog.SECTOR_BYTES)
        first = self.first_byte // devlog.SECTOR_BYTES
        return found._replace(of_place=lambda sector: found.of_place(sector - first))

    @cached_property
    def filesystem(self) -> Path:
        """An image of the filesystem at the end, without other parts of the disk."""
        disk = self.directory / "disk.img"
        if not self.first_byte:
            return disk
        alone = self.directory / "alone.img"
        run = ("bs=1M", f"skip={self.first_byte >> 20}", "conv=sparse", "status=none")
        subprocess.run(["dd", f"if={disk}", f"of={alone}", *run], check=True)
        return alone

    @cached_property
    def _opened(self) -> content.Opened | None:
        if not self.root:
            return None
        heads = content.heads(self.operations, self.after.block_bytes)
        nr_blocks = 2 + max(op.offset + op.length for op in self.operations) // self.after.block_bytes
        return encrypted.Decryption(self.after.uuid or "", heads, nr_blocks).plain

    @cached_property
    def bios(self) -> pl.DataFrame:
        """Every write bio of the device between the marks: ts, done (null: not seen), sector, nr_sectors, pid, rwbs."""
        return self._queued("W")

    @cached_property
    def read_bios(self) -> pl.DataFrame:
        """Every read bio of the device between the marks, as `bios` has them."""
        return self._queued("R")

    @cached_property
    def issued(self) -> pl.DataFrame:
        """Every request of the device that reads or writes, when it was issued: ts, sector, nr_sectors."""
        moves = (pl.col("dev") == self.dev) & (pl.col("nr_sectors") > 0) & ~pl.col("rwbs").str.contains("D")
        issued = self.staging.block.filter(pl.col("action") == "issue", moves)
        return issued.select("sector", "nr_sectors", ts="ts_ns").collect()

    def _queued(self, moves: str) -> pl.DataFrame:
        """Return the bios of the device between the marks that read (R) or write (W), as `bios` has them."""
        is_bio = (pl.col("dev") == self.dev) & (pl.col("nr_sectors") > 0) & ~pl.col("rwbs").str.contains("D")
        queued = self.staging.block.filter(pl.col("action") == "queue", is_bio)
        rows = queued.select("sector", "nr_sectors", "rwbs", ts="ts_ns", pid=pl.coalesce("pid", "tid")).collect()
        is_mark = pl.col("rwbs").str.contains("W") & (pl.col("sector") == self.mark_byte // devlog.SECTOR_BYTES)
        begin, end = rows.with_row_index().filter(is_mark)["index"]
        bios = rows[begin:end].filter(pl.col("rwbs").str.contains(moves)).with_row_index("bio")
        completed = self.staging.block.filter(pl.col("action") == "complete", pl.col("dev") == self.dev)
        inside = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors")).alias("at")
        done = completed.select(inside, done="ts_ns").collect().explode("at").sort("done")
        last = bios.with_columns(at=pl.col("sector") + pl.col("nr_sectors") - 1).sort("ts")
        asked = last.join_asof(
            done, left_on="ts", right_on="done", by="at", strategy="forward", coalesce=False, check_sortedness=False
        )
        return asked.sort("bio").select("ts", "done", "sector", "nr_sectors", "pid", "rwbs")

    @cached_property
    def before(self) -> Filesystem:
        """The filesystem before it was mounted for the recording."""
        path = self.directory / "before.img"
        prepared = devlog.mark(self.log, self.mark_byte, "prepared")
        devlog.image_at(self.log, prepared, self.directory / "base.img", path)
        return self._image(path, "image_before")

    @cached_property
    def after(self) -> Filesystem:
        """The filesystem at the end, unmounted."""
        return self._image(self.directory / "disk.img", "image_after")

    def _image(self, path: Path, source: str) -> Filesystem:
        return link.classified(fs.read(path, dev=self.fs_dev, source=source, offset_bytes=self.first_byte))

    @cached_property
    def names(self) -> entries.Entries | None:
        """The names that fanotify reported, if the kernel has it."""
        path = self.directory / "recording" / "names.rec"
        return entries.entries(record.read(path), self.staging.clock) if path.is_file() else None

    def _listing(self, when: str) -> Listing | None:
        """Return iotrace's extent listing at its begin or end; None if the filesystem was not mounted then."""
        found = fiemap.listings(record.read(self.directory / "recording" / f"{when}.rec"))
        return next((link.classified(one) for one in found if one.dev == self.fs_dev), None)

    def answers(self, run: str, op: str = "write") -> pl.DataFrame:
        """Return the truth about writes or reads with the matching rows of table io in one of `RUNS`."""
        known = self.truth if op == "write" else self.truth_of_reads
        return truth.answered(self._io(run), known.rows, self.fs_type, op)

    def _io(self, run: str) -> pl.DataFrame:
        if run not in self._io_of:
            self._io_of[run] = self._linked(run)
        return self._io_of[run]

    def _linked(self, run: str) -> pl.DataFrame:
        events, before, after = RUNS[run]
        images = link.Images(
            before=self.before if before else None,
            after=self.after if after else None,
            names=self.names if events and run != WITHOUT_PROBES else None,
            listed_before=self._listing("before") if run == ALONE else None,
            listed_after=self._listing("after") if run == ALONE else None,
        )
        recorded = self.staging
        if not events:
            recorded = replace(recorded.with_tables(fs_events=recorded.fs_events.clear()), recorded=frozenset())
        if run == WITHOUT_PROBES:
            ordinary = ~pl.col("event").cast(pl.String).is_in(PROBES)
            recorded = recorded.with_tables(fs_events=recorded.fs_events.filter(ordinary))
            recorded = replace(recorded, recorded=(recorded.recorded or frozenset()).difference(PROBES))
        tables = link.tables(recorded, requests.link(recorded.block), images, Spool(), mounts=self.mounts)
        io = tables["io"].collect()
        if self.root:
            unreadable = tables["files"].filter("name_encrypted").collect()["path"]
            is_name = ~pl.col("path").is_in(unreadable.implode())
            io = io.with_columns(path=pl.when(is_name).then(pl.col("path").str.strip_prefix(f"/{self.root}")))
        return io


def table(recording: Recording) -> pl.DataFrame:
    """Return a row per run, operation and question: run, op, asked, sectors and the share of each outcome."""
    return pl.DataFrame(list(_rows(recording)))


def _rows(recording: Recording) -> Iterator[dict[str, object]]:
    for run, op in itertools.product(RUNS, ("write", "read")):
        answers = recording.answers(run, op)
        deleted = answers.filter(pl.col("kind") == "data", ~pl.col("in_final_image"))
        asked = {
            "file": truth.file(answers),
            "file, deleted": truth.file(deleted),
            "name": truth.name(answers),
            "owner": truth.owner(answers),
            "block type": truth.block_type(answers),
        }
        for question, outcomes in asked.items():
            sectors = int(outcomes["nr_sectors"].sum())
            yield {"run": run, "op": op, "asked": question, "sectors": sectors, **truth.shares(outcomes)}


def asked_for(recording: Recording) -> pl.DataFrame:
    """Return the sectors read of files, by REQ_RAHEAD of the bio and whether a process requested them."""
    bios = recording.read_bios.select("ts", bio_sector="sector", is_ahead=pl.col("rwbs").str.contains("A"))
    rows = recording.truth_of_reads.rows.drop_nulls("asked").join(bios, on=["ts", "bio_sector"])
    return rows.group_by("is_ahead", "asked").agg(pl.col("sectors").sum()).sort("is_ahead", "asked")


def wrong(outcomes: pl.DataFrame) -> Counter[str]:
    """Count the wrong outcomes by block type, source and rule, for debugging."""
    stated = outcomes.filter(pl.col("outcome") == "wrong")
    columns = ["kind", "io_block_type", "io_source", "io_via"]
    return Counter({str(row[:-1]): row[-1] for row in stated.group_by(columns).len().iter_rows()})
