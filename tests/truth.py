"""The capture of which every block is known from outside, and how well an answer about it fares.

`ground_truth.json.gz` names what each 4 KiB of every write bio held: data by a hash of its content, followed from the
application's write to the device below, the rest by a program inside the kernel. Nothing of it comes from the events
or images that are analysed.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import polars as pl

from androstep_analysis.capture import Capture

DIRECTORY = "kernel/ext4_host_6.18"
BLOCK_BYTES = 4096

RUNS = {
    "image after": (False, False, True),
    "both images": (False, True, True),
    "trace": (True, False, False),
    "trace + image before": (True, True, False),
    "trace + image after": (True, False, True),
    "all": (True, True, True),
}
"""What is known in each run: the filesystem's events, the image before, the image after."""

OUTCOMES = ("right", "wrong", "unknown", "inferred right", "inferred wrong")


def trace(directory: Path, *, with_filesystem_events: bool) -> bytes:
    """The recorded text with the process of every thread, as the kernel prints it with option record-tgid.

    `saved_tgids.txt` is what the kernel knew of them. Without the filesystem's events it is a trace of the block layer.
    """
    process = dict(line.split() for line in (directory / "saved_tgids.txt").read_text().splitlines() if line.strip())
    text = gzip.decompress((directory / "trace.txt.gz").read_bytes()).decode()
    if not with_filesystem_events:
        text = re.sub(r"(?m)^.* (?:ext4|writeback|iomap|jbd2)_\w+: .*\n", "", text)
    return re.sub(
        r"(?m)^( *.*?-(\d+)) +(\[\d{3}\])", lambda m: f"{m[1]} ({process.get(m[2], '-----')}) {m[3]}", text
    ).encode()


def writes(directory: Path) -> pl.DataFrame:
    """A row for each 4 KiB of every write bio."""
    rows = json.loads(gzip.decompress((directory / "ground_truth.json.gz").read_bytes()))["writes"]
    return pl.DataFrame(rows, infer_schema_length=None)


def answered(capture: Capture, directory: Path) -> pl.DataFrame:
    """The truth, each row beside what the capture's table io says of that block at that time (columns io_…)."""
    step = BLOCK_BYTES // 512
    pieces = capture.io.filter(pl.col("op") == "write", pl.col("nr_sectors") > 0).collect()
    inside = pl.int_ranges(0, "nr_sectors", step).alias("inside")
    blocks = (
        pieces.with_columns(inside)
        .explode("inside")
        .select(
            ts="queue_ns",
            block=(pl.col("sector") + pl.col("inside")) // step,
            io_block_type=pl.col("block_type").cast(pl.String),
            io_ino="ino",
            io_path="path",
            io_lblk=pl.col("file_offset_bytes") // BLOCK_BYTES + pl.col("inside") // step,
            io_source=pl.col("map_source").cast(pl.String),
            io_pid="owner_pid",
            io_count="owner_count",
            io_via=pl.col("owner_via").cast(pl.String),
        )
    )
    return writes(directory).join(blocks, on=["ts", "block"], how="left", validate="1:1")


def block_type(answers: pl.DataFrame) -> pl.DataFrame:
    """Outcome of the block type of every block; directories are metadata in the truth."""
    said = pl.col("io_block_type").replace("directory", "metadata")
    return answers.with_columns(outcome=_outcome(said == pl.col("kind")))


def file(answers: pl.DataFrame) -> pl.DataFrame:
    """Outcome of the inode, the offset in the file and the name of every block of data."""
    has_name = pl.col("io_path").str.strip_prefix("/").is_in(pl.col("names"))
    right = (
        (pl.col("io_block_type") == "data")
        & (pl.col("io_ino") == pl.col("ino"))
        & (pl.col("io_lblk") == pl.col("lblk"))
        & has_name.fill_null(True)
    )
    return answers.filter(pl.col("kind") == "data").with_columns(outcome=_outcome(right))


def owner(answers: pl.DataFrame) -> pl.DataFrame:
    """Outcome of the processes of every block of data whose writers are known."""
    writers = pl.col("writer_pids")
    known = answers.filter(writers.list.len() > 0)
    right = pl.col("io_pid").is_in(writers) & (pl.col("io_count") == writers.list.len())
    return known.with_columns(
        outcome=pl.when(pl.col("io_pid").is_null())
        .then(pl.lit("unknown"))
        .when(right)
        .then(pl.lit("right"))
        .otherwise(pl.lit("wrong"))
    )


def shares(outcomes: pl.DataFrame) -> dict[str, float]:
    """Share of each of `OUTCOMES`."""
    counts = dict(outcomes["outcome"].value_counts().rows())
    return {name: counts.get(name, 0) / outcomes.height for name in OUTCOMES}


def _outcome(right: pl.Expr) -> pl.Expr:
    """What an answer about a block is worth, where `right` says whether it is true."""
    unknown = pl.col("io_block_type").fill_null("unknown") == "unknown"
    said = pl.when(right.fill_null(False)).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    inferred = pl.when(pl.col("io_source") == "inferred").then(pl.lit("inferred ")).otherwise(pl.lit(""))
    return pl.when(unknown).then(pl.lit("unknown")).otherwise(inferred + said)
