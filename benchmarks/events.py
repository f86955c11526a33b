"""Count the correct answers that are lost without each kind of event that iotrace records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from support import corpus, truth
from support.needs import needs

from androstep_analysis import link
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests
from benchmarks.paired import Row, compared

BLOCK_EVENTS = (
    *("block_bio_queue", "block_bio_remap", "block_split", "block_rq_insert", "block_rq_issue", "block_rq_complete"),
    *("block_rq_requeue", "block_rq_merge"),
)
"""Events of the block layer that iotrace records (probes/iotrace/presets.c)."""

WORTH_A_ROW = 0.5
"""Smallest difference to report, in per cent of the blocks."""


@needs("corpus")
def events(recordings: Sequence[str] = truth.RECORDINGS) -> Iterator[Row]:
    """Remove one kind of event at a time from recordings with known truth in the corpus, and link the rest.

    The image from before the recording is used if there is one. The answers are about written blocks: their file, the
    file if it was deleted, its name, the owner, and the type of the block.
    """
    for name in recordings:
        directory = corpus.path(f"kernel/{name}")
        with warnings.catch_warnings(action="ignore"):
            yield from _recording(directory)


def _recording(directory: Path) -> Iterator[Row]:
    recorded = truth.staging(directory)
    dev = truth.device(recorded)
    fs_type = directory.name.split("_")[0]
    on_host = recorded.fs_events.select(pl.col("name").str.starts_with(truth.MOUNTS[1]).any()).collect().item()
    after = truth.image(directory, "after", dev)
    written = truth.writes(directory)
    images = link.Images(before=truth.image(directory, "before", dev))

    def right(staging: Staging) -> dict[str, float]:
        """Return the percentage of blocks with a correct answer, by question; inferred answers do not count."""
        linked = requests.link(staging.block)
        io = link.tables(staging, linked, images, Spool(), mounts={dev: truth.MOUNTS[bool(on_host)]})["io"].collect()
        answers = truth.answered(io, written, fs_type)
        outcomes = {
            "file": truth.file(answers),
            "deleted file": truth.file(truth.deleted(answers, after)),
            "name": truth.name(answers),
            "owner": truth.owner(answers),
            "block type": truth.block_type(answers),
        }
        return {question: 100 * truth.shares(rows)["right"] for question, rows in outcomes.items()}

    staging = _as_iotrace(recorded, fs_type)
    kinds = [table.select(pl.col("event").cast(pl.String)) for table in (staging.block, staging.fs_events)]
    counts = dict(pl.concat(kinds).collect()["event"].value_counts(sort=True).rows())
    known = right(staging)
    for event, count in counts.items():
        is_kept = pl.col("event").cast(pl.String) != event
        tables = {"block_events": staging.block.filter(is_kept), "fs_events": staging.fs_events.filter(is_kept)}
        without = right(staging.with_tables(**tables))
        each = f"{directory.name}, {event} ({count / counts['block_bio_queue']:.2f} for each bio)"
        for question, share in known.items():
            if abs(share - without[question]) >= WORTH_A_ROW:
                yield compared(f"{each}: {question} known [% of blocks]", share, "without it", without[question])


def _as_iotrace(staging: Staging, fs_type: str) -> Staging:
    """Return the recording with only the events that iotrace records: no pages of bios on ext4 and F2FS."""
    event = pl.col("event")
    is_idle = (event == "jbd2_handle_stats") & (pl.col("nr_blocks") == 0)
    is_needless = (event == "bio_page") & pl.lit(fs_type in ("ext4", "f2fs"))
    return staging.with_tables(
        block_events=staging.block.filter(event.is_in(BLOCK_EVENTS)),
        fs_events=staging.fs_events.filter(~is_idle.fill_null(False) & ~is_needless),
    )
