"""Compare the results of a recording with those of fewer kinds of its events.

With fewer events a fact may become inferred or unknown, but never another fact. A fact from fewer events must remain a
fact with more events.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl
from support import corpus, truth

import androstep_analysis as androstep
from androstep_analysis import ingest
from androstep_analysis.capture import sources, tables
from androstep_analysis.capture.derivation import Evidence, derive
from androstep_analysis.common.manifest import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

KERNEL = tuple(f"kernel/{name}" for name in truth.RECORDINGS)
OTHERS = (
    "wrong_facts/dir-renamed/rec",
    "wrong_facts/lossy-refused/rec",
    "wrong_facts/same-read-twice/rec",
    "wrong_facts/two-filesystems-one-disk/rec",
    "wrong_facts/es-insert-only/core.txt",
    "wrong_facts/es-insert-only/corecache.txt",
    "wrong_facts/more-events-less-known/lookup.txt.gz",
    "ftrace_text/trappy_trace_filesystem.txt",
)
SMALL_BLOCKS = ("wrong_facts/same-read-twice/rec",)
"""Recordings of filesystems with blocks of 1 KiB."""

DEMO = Path(__file__).resolve().parents[2] / "datasets" / "demo"


@dataclass(frozen=True)
class Recording:
    """A recording with its evidence, and its truth if known."""

    staging: Staging
    evidence: Evidence
    fs_type: str
    truth: pl.DataFrame | None = None

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of its filesystem events."""
        return (
            self.staging.fs_events.select(pl.col("event").cast(pl.String).unique().sort()).collect()["event"].to_list()
        )

    def only(self, kinds: Collection[str], *names: str) -> dict[str, pl.DataFrame]:
        """Return tables derived with only these kinds of filesystem events: io, files, and those in `names`."""
        kept = self.staging.fs_events.filter(pl.col("event").cast(pl.String).is_in(list(kinds)))
        recorded = self.staging.recorded
        staging = replace(
            self.staging.with_tables(fs_events=kept),
            recorded=None if recorded is None else recorded.difference(set(self.kinds).difference(kinds)),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            derived = derive(staging, self.evidence, Spool())[0]
            return {name: derived[name].collect() for name in ("io", "files", *names)}


@cache
def recording(name: str) -> Recording:
    """Return the recording of this name from the corpus, or `demo`."""
    if name in KERNEL:
        directory = corpus.path(name)
        mounts = [{"dev": "7:0" if "host" in name else "254:0", "path": truth.MOUNTS["host" in name]}]
        return Recording(
            truth.staging(directory), Evidence(mounts=mounts), directory.name.split("_")[0], truth.writes(directory)
        )
    path = DEMO if name == "demo" else corpus.path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.is_file():
            return Recording(ingest.read(path), Evidence(), "ext4")
        described = (
            androstep.open(path).manifest if name == "demo" else sources.manifest_of([path], sources.Description())
        )

    def find(source: Source) -> Path:
        return path / source.path if name == "demo" else Path(source.path)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        staging = tables.staging_of(described, find, {}, Spool())
        return Recording(staging, tables.evidence_of(described, find), "ext4")


def pairs(of: Recording, seed: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield pairs of a set of kinds and a subset of it."""
    draw, kinds = random.Random(seed), of.kinds
    while True:
        more = kinds if draw.random() < 0.5 else sorted(draw.sample(kinds, draw.randint(len(kinds) // 2, len(kinds))))
        count = draw.choice([1, 1, 2, 3, draw.randint(1, len(more))])
        yield more, sorted(set(more).difference(draw.sample(more, min(count, len(more)))))


def violations(
    few: Mapping[str, pl.DataFrame], many: Mapping[str, pl.DataFrame], *, has_whole_pages: bool
) -> Counter[str]:
    """Count the sectors with another fact, or no fact, with more events than with fewer (tables of `Recording.only`).

    A file may have had several names. A path counts as another fact only if more events show none of its names. An
    inode number that is a fact with fewer events may get an inferred name with more (`map_source` covers both).
    """
    rows = _by_sector(few["io"]).join(
        _by_sector(many["io"]), on=["request_id", "sector"], suffix="_many", validate="1:1"
    )
    names = many["files"].group_by("ino").agg(pl.col("names").explode())
    rows = rows.join(names, on="ino", how="left", maintain_order="left", validate="m:1")
    of_file = pl.col("map") == 2
    # For a block smaller than a page, more events may contradict an owner that fewer events show.
    of_owner = (pl.col("owner") == 2) & pl.lit(has_whole_pages)
    is_named = pl.col("path").is_null() & pl.col("path_many").is_not_null() & (pl.col("ino") == pl.col("ino_many"))
    found = {
        "file is no fact": of_file & (pl.col("map_many") < 2) & ~is_named.fill_null(False),
        "owner is no fact": of_owner & (pl.col("owner_many") < 2),
    }
    found["path is another"] = of_file & pl.col("path").is_not_null() & ~pl.col("path").is_in("names").fill_null(False)
    for name in ("ino", "offset", "block_type"):
        found[f"{name} is another"] = of_file & (pl.col(name) != pl.col(f"{name}_many")).fill_null(
            pl.col(name).is_not_null()
        )
    for name in ("owner_pid", "owner_comm"):
        found[f"{name} is another"] = of_owner & pl.col(name).ne_missing(pl.col(f"{name}_many"))
    counts = rows.select(condition.sum().alias(name) for name, condition in found.items()).row(0, named=True)
    return Counter({name: count for name, count in counts.items() if count})


def wrong(of: Recording, tables: Mapping[str, pl.DataFrame]) -> Counter[str]:
    """Count the wrong facts about written data, if the recording's truth is known."""
    if of.truth is None:
        return Counter()
    is_raced = (pl.col("ino") == 223) & (pl.col("ts") == 6331166881071)  # the truth lacks the writers' order
    answers = truth.answered(tables["io"], of.truth.filter(~is_raced), of.fs_type)
    questions = {"file": truth.file, "name": truth.name, "block type": truth.block_type, "owner": truth.owner}
    counts = {name: outcome(answers).filter(pl.col("outcome") == "wrong").height for name, outcome in questions.items()}
    return Counter({f"wrong {name}": count for name, count in counts.items() if count})


def _by_sector(io: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each sector of each request, with the certainty of file and owner: 2 fact, 1 inferred."""

    def certainty(name: str, *none: str) -> pl.Expr:
        via = pl.col(name).cast(pl.String).fill_null("unknown")
        return pl.when(via == "inferred").then(1).when(~via.is_in(["unknown", *none])).then(2).otherwise(0)

    inside = pl.int_ranges(0, "nr_sectors").alias("inside")
    block_type = pl.col("block_type").cast(pl.String)
    return (
        io.filter(pl.col("nr_sectors") > 0)
        .with_columns(inside)
        .explode("inside")
        .select(
            "request_id",
            "ino",
            "path",
            "owner_pid",
            "owner_comm",
            pl.col("sector") + pl.col("inside"),
            offset=pl.col("file_offset_bytes") + pl.col("inside") * truth.SECTOR_BYTES,
            block_type=pl.when(block_type != "unknown").then(block_type),
            map=certainty("map_source"),
            owner=certainty("owner_via", "filesystem"),
        )
    )
