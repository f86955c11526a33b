"""Recordings with independently known contents of every block, and judgement of answers about them.

`ground_truth.json.gz` states what each block of every write bio held. Data is identified by a hash of its content, from
the application's write to the device below; the rest by a program inside the kernel. None of it comes from the events
or images under analysis.

A row of the truth has ts, sector, sectors (on the device of the bio), bio_sector, submit_pid and kind (data, journal,
metadata, node). Data rows also have ino, gen, lblk (in 4 KiB), offset_bytes (of the first sector; null if only lblk is
known), writer_pids and names. Every sector of it is judged.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from androstep_analysis import fs, ingest, link
from androstep_analysis.fs import Filesystem
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

PAGE_BYTES = 4096
SECTOR_BYTES = 512
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES

RECORDINGS = ("ext4_host_6.18", "ext4_guest_6.1", "f2fs_guest_6.1", "vfat_guest_6.1")
"""Directories of the corpus folder kernel."""

MOUNTS = ("/tmp/mnt", "/data/local/tmp/androstep/S/mnt")
"""Mount points of the recorded filesystem: in a guest, and on the host."""

IMAGES = {"before": "pre.img.zst", "after": "final.img.zst"}

RUNS = {
    "image after": (False, False, True),
    "both images": (False, True, True),
    "trace": (True, False, False),
    "trace + image before": (True, True, False),
    "trace + image after": (True, False, True),
    "all": (True, True, True),
}
"""The inputs of each run: the filesystem's events, the image before, the image after."""

OUTCOMES = ("right", "wrong", "unknown", "inferred right", "inferred wrong")

IS_INFERRED = pl.col("io_source") == "inferred"

UNNUMBERED = ("fat", "exfat")
"""Filesystems (a part of `fs_type`) without inode numbers on disk: an image has numbers of its own."""


def staging(directory: Path) -> Staging:
    """Return the recording with the process of every thread, which the recorder stored in a separate file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = ingest.read(directory / "trace.dat.zst")
    process = dict(line.split() for line in (directory / "saved_tgids.txt").read_text().splitlines() if line.strip())
    known = {int(tid): int(pid) for tid, pid in process.items()}
    pid = pl.coalesce("pid", pl.col("tid").replace_strict(known, default=None, return_dtype=pl.Int32))
    assert read.tasks is not None
    return replace(
        read,
        facts={**read.facts, "fs_type": directory.name.split("_")[0]},
        tables={name: table.with_columns(pid=pid).collect().lazy() for name, table in read.tables.items()},
        tasks=read.tasks.with_columns(pid=pid),
    )


def writes(directory: Path) -> pl.DataFrame:
    """Return a row for each block of every write bio."""
    rows = pl.DataFrame(
        json.loads(gzip.decompress((directory / "ground_truth.json.gz").read_bytes()))["writes"],
        infer_schema_length=None,
    )
    if "block" in rows.columns:
        rows = rows.with_columns(sector=pl.col("block") * PAGE_SECTORS, sectors=pl.lit(PAGE_SECTORS, pl.Int64))
    if "offset_bytes" in rows.columns:
        return rows
    is_whole = pl.col("sectors") == PAGE_SECTORS
    return rows.with_columns(offset_bytes=pl.when(is_whole).then(pl.col("lblk") * PAGE_BYTES))


def image(directory: Path, when: str, dev: int) -> Filesystem | None:
    """Return the image taken `before` or `after` the recording, if there is one."""
    path = directory / IMAGES[when]
    if not path.is_file():
        return None
    with fs.opened(path) as unpacked:
        return link.classified(fs.read(unpacked, dev=dev, source=f"image_{when}"))


def device(recorded: Staging) -> int:
    """Return the recorded device."""
    return int(recorded.block.filter(pl.col("action") == "queue").collect()["dev"].value_counts(sort=True)["dev"][0])


def tables(recorded: Staging, images: link.Images, *, with_filesystem_events: bool = True) -> dict[str, pl.DataFrame]:
    """Return every derived table. Without filesystem events it is those of a block trace."""
    if not with_filesystem_events:
        recorded = replace(recorded.with_tables(fs_events=recorded.fs_events.clear()), recorded=frozenset())
    on_host = recorded.fs_events.select(pl.col("name").str.starts_with(MOUNTS[1]).any()).collect().item()
    mounts = {device(recorded): MOUNTS[bool(on_host)]}
    tables = link.tables(recorded, requests.link(recorded.block), images, Spool(), mounts=mounts)
    return {name: table.collect() for name, table in tables.items()}


def answered(io: pl.DataFrame, truth: pl.DataFrame, fs_type: str = "ext4", op: str = "write") -> pl.DataFrame:
    """Return the truth with the columns of table io for its sectors at that time (columns io_…).

    A block whose parts have different answers has a row for each; `nr_sectors` counts its sectors. `io_offset` is where
    its first sector would be in the file if all sectors were like the answered one.
    """
    pieces = io.filter(pl.col("op") == op, pl.col("nr_sectors") > 0)
    inside = pl.int_ranges(0, "nr_sectors").alias("inside")
    sectors = (
        pieces.with_columns(inside)
        .explode("inside")
        .select(
            ts="queue_ns",
            at=pl.col("sector") + pl.col("inside"),
            io_block_type=pl.col("block_type").cast(pl.String),
            io_subtype=pl.col("subtype").cast(pl.String),
            io_ino="ino",
            io_path="path",
            io_offset=pl.col("file_offset_bytes") + pl.col("inside") * SECTOR_BYTES,
            io_source=pl.col("map_source").cast(pl.String),
            io_pid="owner_pid",
            io_count="owner_count",
            io_via=pl.col("owner_via").cast(pl.String),
        )
    )
    has_names = (pl.col("names").list.len().fill_null(0) > 0).any().over("ino", "gen")
    rows = truth.with_row_index("row").with_columns(
        at=pl.int_ranges("sector", pl.col("sector") + pl.col("sectors")),
        is_named=has_names,
        journal_apart=(pl.col("kind") == "journal").any(),
        has_numbers=pl.lit(not any(name in fs_type for name in UNNUMBERED)),
    )
    answers = rows.explode("at").join(sectors, on=["ts", "at"], how="left", validate="1:1")
    inside = (pl.col("at") - pl.col("sector")) * SECTOR_BYTES
    # If only the page of a block is known, compare only the page of the answer.
    page = pl.col("io_offset") // PAGE_BYTES * PAGE_BYTES
    answers = answers.with_columns(
        io_offset=pl.when(pl.col("offset_bytes").is_null()).then(page).otherwise(pl.col("io_offset") - inside)
    )
    said = ["row", *(name for name in answers.columns if name.startswith("io_"))]
    count = answers.group_by(said).agg(nr_sectors=pl.len())
    answers = answers.drop("at").unique(said, keep="first", maintain_order=True)
    return answers.join(count, on=said, nulls_equal=True, how="left", maintain_order="left", validate="1:1")


def block_type(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the outcome of the block type of every block.

    If the truth does not distinguish journal or directories, they are metadata. Blocks of F2FS directories are data of
    an inode that no application wrote to.
    """
    kind, said, subtype = pl.col("kind"), pl.col("io_block_type"), pl.col("io_subtype")
    is_node = (subtype == "node").fill_null(False)
    right = (
        pl.when(kind == "data")
        .then((said == "data") | ((said == "directory") & ~pl.col("is_named")))
        .when(kind == "node")
        .then(is_node)
        .when(kind == "metadata")
        .then(
            ((said == "metadata") & ~is_node) | (said == "directory") | ((said == "journal") & ~pl.col("journal_apart"))
        )
        .otherwise(said == kind)
    )
    return answers.with_columns(outcome=_outcome(right))


def file(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the outcome of the inode, the offset in the file and the name of every data block.

    If the answer is based on an image without inode numbers, the name replaces the inode.
    """
    has_name = pl.col("io_path").str.strip_prefix("/").is_in(pl.col("names"))
    is_nameless = pl.col("names").list.len() == 0
    by_number = (pl.col("io_ino") == pl.col("ino")) & (has_name.fill_null(True) | is_nameless)
    of_image = pl.col("io_source").is_in(["image_before", "image_after", "fiemap", "inferred"])
    by_name = ~pl.col("has_numbers") & of_image & has_name.fill_null(False)
    is_content = (pl.col("io_block_type") == "data") | ((pl.col("io_block_type") == "directory") & ~pl.col("is_named"))
    is_there = pl.col("io_offset") == pl.coalesce("offset_bytes", pl.col("lblk") * PAGE_BYTES)
    right = is_content & (by_number | by_name) & is_there
    return answers.filter(pl.col("kind") == "data").with_columns(outcome=_outcome(right))


def name(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the outcome of the path of every data block with known names."""
    known = answers.filter((pl.col("kind") == "data") & (pl.col("names").list.len() > 0))
    said = pl.col("io_path").str.strip_prefix("/")
    return known.with_columns(
        outcome=pl.when(said.is_null()).then(pl.lit("unknown")).otherwise(_said(said.is_in(pl.col("names"))))
    )


def owner(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the outcome of the processes of every data block with known writers."""
    writers = pl.col("writer_pids")
    known = answers.filter(writers.list.len() > 0)
    # Without a count, the answer only names one of the writers.
    right = pl.col("io_pid").is_in(writers) & (pl.col("io_count") == writers.list.len()).fill_null(True)
    return known.with_columns(
        outcome=pl.when(pl.col("io_pid").is_null())
        .then(pl.lit("unknown"))
        .otherwise(_said(right, pl.col("io_via") == "inferred"))
    )


def deleted(answers: pl.DataFrame, after: Filesystem | None) -> pl.DataFrame:
    """Return the blocks of files that no longer exist according to the truth, or else to the image after."""
    if "in_final_image" in answers.columns:
        return answers.filter(~pl.col("in_final_image"))
    if after is None:
        return answers.clear()
    last = answers.group_by("names").agg(ino_last=pl.col("ino").sort_by("ts").last())
    paths = after.files.select(pl.col("names").explode().str.strip_prefix("/")).to_series().drop_nulls().implode()
    data = answers.filter(pl.col("kind") == "data", pl.col("names").list.len() > 0)
    data = data.join(last, on="names", how="left", maintain_order="left")
    lives_on = (pl.col("ino") == pl.col("ino_last")) & pl.col("names").list.eval(pl.element().is_in(paths)).list.any()
    return data.filter(~lives_on).drop("ino_last")


def shares(outcomes: pl.DataFrame) -> dict[str, float]:
    """Return the share of the sectors with each of `OUTCOMES`."""
    counts: Mapping[str, int] = dict(outcomes.group_by("outcome").agg(pl.col("nr_sectors").sum()).rows())
    return {outcome: counts.get(outcome, 0) / max(sum(counts.values()), 1) for outcome in OUTCOMES}


def _outcome(right: pl.Expr) -> pl.Expr:
    """Return the outcome of an answer about a block; `right` is whether it is true."""
    unknown = pl.col("io_block_type").fill_null("unknown") == "unknown"
    return pl.when(unknown).then(pl.lit("unknown")).otherwise(_said(right))


def _said(right: pl.Expr, is_inferred: pl.Expr = IS_INFERRED) -> pl.Expr:
    """Return the outcome of an answer that is not `unknown`."""
    said = pl.when(right.fill_null(False)).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    inferred = pl.when(is_inferred).then(pl.lit("inferred ")).otherwise(pl.lit(""))
    return inferred + said
