"""What each event that iotrace records is worth: what it costs, and what is no longer known without it.

``python benchmarks/events.py [DIRECTORY …]``. Needs the corpus of recorded traces (ANDROSTEP_CORPUS, or beside the
checkout); directories are recordings of tests/harness (``r_FILESYSTEM-…``), which are judged as well. For each
recording, events and groups of events are taken out of the trace one at a time, sorted by what they buy: answers to
the questions of tests/support/truth.py that are right with them and not without them, with the trace alone,
with an image before, and with one after. A row has the events and bytes of the trace per bio, what is lost (blocks in
a hundred that are right no more; less than nothing is a gain), and how many answers became wrong: none, because kernels
lack events, and an event set with missing kinds must only leave more unknown.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis import link
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import binary, fs_events, tracedat_file
from androstep_analysis.ingest.ftrace import pages as ftrace_pages
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness import guest, host, judge
from support import corpus, truth

PIECE_BYTES = 4 << 20
RECORD_HEADER_BYTES = 4
"""What the ring buffer puts before every record."""

BLOCK_EVENTS = (
    *("block_bio_queue", "block_bio_remap", "block_split", "block_rq_insert", "block_rq_issue", "block_rq_complete"),
    *("block_rq_requeue", "block_rq_merge"),
)
"""Events of the block layer that iotrace records: probes/iotrace/presets.c."""

QUESTIONS = ("file", "deleted", "name", "owner", "type")

GROUPS = {
    "ends of inodes": (*tracepoints.EVICTIONS, "ext4_free_inode"),
    "lives of inodes": (
        *tracepoints.EVICTIONS,
        *("ext4_free_inode", "ext4_allocate_inode", "ext4_unlink_enter", "f2fs_new_inode", "f2fs_unlink_enter"),
    ),
    "ext4 map": ("ext4_es_insert_extent", "ext4_es_cache_extent", "ext4_es_lookup_extent_exit"),
    "F2FS map": (
        *("f2fs_submit_page_write", "f2fs_submit_folio_write", "f2fs_submit_page_bio", "f2fs_submit_folio_bio"),
        "f2fs_map_blocks",
    ),
    "writers": (*tracepoints.WRITES, *tracepoints.DIRTIED),
    "page cache": (*tracepoints.DIRTIED, "mm_filemap_add_to_page_cache"),
    "direct I/O": tracepoints.DIRECT,
    "jbd2": ("jbd2_start_commit", "jbd2_end_commit", "jbd2_handle_stats"),
    "names": ("name_found", "name_moved", "name_open", "name_unlink", "name_rename"),
    "F2FS names": (*tracepoints.NAMED_IO, "f2fs_lookup_start", "f2fs_lookup_end", "f2fs_unlink_enter"),
}
"""Events that do the same work, so that without one the others may do it."""


@dataclass(frozen=True)
class Known:
    """A recording of which the truth is known, and the mean bytes of a record by event."""

    name: str
    fs_type: str
    staging: Staging
    mounts: dict[int, str]
    written: pl.DataFrame
    before: Filesystem | None
    after: Filesystem | None
    record_bytes: dict[str, float]

    def runs(self) -> dict[str, link.Images]:
        """What is known besides the trace."""
        runs = {"trace": link.Images()}
        if self.before is not None:
            runs["image before"] = link.Images(before=self.before)
        if self.after is not None:
            runs["image after"] = link.Images(after=self.after)
        return runs


def main() -> None:
    """Print a table per recording."""
    warnings.simplefilter("ignore")
    for directory in (corpus.ROOT / "kernel" / name for name in truth.RECORDINGS):
        if not directory.is_dir():
            sys.exit(f"{directory}: no such directory; set ANDROSTEP_CORPUS")
        _report(_of_corpus(directory))
    for name in sys.argv[1:]:
        _report(_of_harness(Path(name)))


def _of_corpus(directory: Path) -> Known:
    staging = truth.staging(directory)
    fs_type = directory.name.split("_")[0]
    dev = truth.device(staging)
    on_host = bool(staging.fs_events.select(pl.col("name").str.starts_with(truth.MOUNTS[1]).any()).collect().item())
    return Known(
        directory.name,
        fs_type,
        _as_iotrace(staging, fs_type),
        {dev: truth.MOUNTS[on_host]},
        truth.writes(directory),
        truth.image(directory, "before", dev),
        truth.image(directory, "after", dev),
        _record_bytes(directory / "trace.dat.zst"),
    )


def _of_harness(directory: Path) -> Known:
    fs_type, _, maker = directory.name.removeprefix("r_").partition("-")
    mark_byte = guest.MARK_BYTE if maker.startswith("guest") else host.MARK_BYTE
    recording = judge.Recording(directory, fs_type, mark_byte)
    return Known(
        directory.name,
        fs_type,
        _as_iotrace(recording.staging, fs_type),
        recording.mounts,
        recording.truth.rows,
        recording.before,
        recording.after,
        _record_bytes(directory / "recording" / "trace.dat"),
    )


def _as_iotrace(staging: Staging, fs_type: str) -> Staging:
    """The recording with the events that iotrace records: no bios of ext4 and F2FS, no handles that changed nothing.

    Where the corpus has two probes on open, both are left in: name_open counts double there.
    """
    event = pl.col("event")
    is_idle = (event == "jbd2_handle_stats") & (pl.col("nr_blocks") == 0)
    is_needless = (event == "bio_page") & pl.lit(fs_type in ("ext4", "f2fs"))
    return staging.with_tables(
        block_events=staging.block.filter(event.is_in(BLOCK_EVENTS)),
        fs_events=staging.fs_events.filter(~is_idle.fill_null(False) & ~is_needless),
    )


def _record_bytes(trace: Path) -> dict[str, float]:
    """Mean bytes of a record in the trace, by event."""
    container = tracedat_file.open_container(source.load(trace))
    names = {number: event.name for number, event in binary.formats(container).items()}
    parts = []
    for stream in container.streams():
        for pages in stream.pieces(PIECE_BYTES):
            records = ftrace_pages.records(stream.layout, pages)
            numbers = np.frombuffer(pages, np.uint16)[records.start // 2].astype(np.int64)
            parts.append(pl.DataFrame({"event": numbers, "bytes": records.size + RECORD_HEADER_BYTES}))
    sizes = pl.concat(parts).with_columns(
        pl.col("event")
        .replace_strict(names, default="", return_dtype=pl.String)
        .replace(fs_events.PROBES)  # the events bear these names in the table
    )
    return {str(event): float(mean) for event, mean in sizes.group_by("event").agg(pl.col("bytes").mean()).iter_rows()}


def _report(known: Known) -> None:
    counts = _counts(known.staging)
    bios = counts["block_bio_queue"]
    print(f"\n{known.name}: {bios} bios, {sum(counts.values()) / bios:.1f} events per bio")
    print(f"{'taken out':30}{'/bio':>7}{'B/bio':>7}  {'known':13}" + "".join(f"{q:>9}" for q in (*QUESTIONS, "wrong")))
    base = {run: _answers(known, known.staging, images) for run, images in known.runs().items()}
    for run, outcomes in base.items():
        shares = "".join(f"{truth.shares(outcomes[q])['right']:9.2%}" for q in QUESTIONS)
        print(f"{'nothing':30}{'':14}  {run:13}{shares}{sum(map(_wrong, outcomes.values())):9}")
    rows = [_row(known, counts, base, label, events) for label, events in _subjects(counts)]
    for row in sorted(rows, key=lambda row: -row.worth):
        row.print()
    idle = [event for row in rows for event in row.events if row.worth <= 0 and len(row.events) == 1]
    # What the block layer tells is judged by nothing here: the times of requests rest on it.
    idle = [event for event in idle if event not in BLOCK_EVENTS]
    _row(known, counts, base, "[all that alone lose nothing]", tuple(idle)).print()


@dataclass(frozen=True)
class Row:
    """What events cost (events and bytes per bio), and `losses` (`_loss`) without them."""

    label: str
    events: tuple[str, ...]
    per_bio: float
    bytes_per_bio: float
    losses: dict[str, tuple[float, ...]]

    @property
    def worth(self) -> float:
        """What is lost at most."""
        return max(map(sum, self.losses.values()))

    def print(self) -> None:
        """Print a line per run, or one where all stays as it is."""
        cost = f"{self.label:30}{self.per_bio:7.2f}{self.bytes_per_bio:7.0f}"
        if not any(map(any, self.losses.values())):
            print(f"{cost}  nothing is lost")
            return
        for run, (*lost, wrong) in self.losses.items():
            shares = "".join(f"{share:9.2f}" if share else f"{'':9}" for share in lost)
            print(f"{cost}  {run:13}{shares}{wrong:9.0f}")


def _row(
    known: Known,
    counts: dict[str, int],
    base: dict[str, dict[str, pl.DataFrame]],
    label: str,
    events: tuple[str, ...],
) -> Row:
    bios = counts["block_bio_queue"]
    own = {event: counts.get(event, 0) for event in events}
    size = sum(count * known.record_bytes.get(event, 0) for event, count in own.items())
    return Row(label, events, sum(own.values()) / bios, size / bios, _loss(known, base, events))


def _counts(staging: Staging) -> dict[str, int]:
    """How many events of each kind the tables hold."""
    kinds = [table.select(pl.col("event").cast(pl.String)).collect() for table in (staging.block, staging.fs_events)]
    return dict(pl.concat(kinds)["event"].value_counts(sort=True).rows())


def _subjects(counts: dict[str, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each event in the recording, and each group of which it has several."""
    for event in counts:
        yield event, (event,)
    for label, events in GROUPS.items():
        if sum(event in counts for event in events) > 1:
            yield f"[{label}]", events


def _loss(
    known: Known, base: dict[str, dict[str, pl.DataFrame]], events: tuple[str, ...]
) -> dict[str, tuple[float, ...]]:
    """For each run what is lost without these events: per question in a hundred blocks, and answers newly wrong."""
    is_kept = ~pl.col("event").cast(pl.String).is_in(events)
    staging = known.staging.with_tables(
        block_events=known.staging.block.filter(is_kept),
        fs_events=known.staging.fs_events.filter(is_kept),
    )
    losses = {}
    for run, images in known.runs().items():
        without = _answers(known, staging, images)
        right = [100 * (truth.shares(base[run][q])["right"] - truth.shares(without[q])["right"]) for q in QUESTIONS]
        wrong = sum(max(_wrong(without[q]) - _wrong(base[run][q]), 0) for q in QUESTIONS)
        losses[run] = (*(round(share, 2) for share in right), float(wrong))
    return losses


def _answers(known: Known, staging: Staging, images: link.Images) -> dict[str, pl.DataFrame]:
    """The outcome of every block, by question."""
    tables = link.tables(staging, requests.link(staging.block), images, Spool(), mounts=known.mounts)
    answers = truth.answered(tables["io"].collect(), known.written, known.fs_type)
    return {
        "file": truth.file(answers),
        "deleted": truth.file(truth.deleted(answers, known.after)),
        "name": truth.name(answers),
        "owner": truth.owner(answers),
        "type": truth.block_type(answers),
    }


def _wrong(outcomes: pl.DataFrame) -> int:
    """Answers that are wrong and not marked as inferred."""
    return outcomes.filter(pl.col("outcome") == "wrong").height


if __name__ == "__main__":
    main()
