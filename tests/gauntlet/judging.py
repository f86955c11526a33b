"""Compare the package's answers about a corrupted recording with the truth."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from support import corpus, truth

from androstep_analysis import ingest, units
from androstep_analysis.capture import Capture, tool_results
from androstep_analysis.capture.derivation import Evidence, Image, derive
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import Manifest
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.present import terminal
from gauntlet import images, trace
from gauntlet.trace import Trace

QUESTIONS = {"file": truth.file, "name": truth.name, "owner": truth.owner, "block type": truth.block_type}


@dataclass(frozen=True)
class Case:
    """A recording as its user passes it, and the truth about it.

    `shift` is the number of sectors by which all writes are moved relative to the truth. `parts` are the traces if they
    are not one file of `trace`. `before` and `after` are plain images of device `device`; `devices` and `mounts` are
    rows of the manifest.
    """

    fs_type: str
    trace: Trace
    truth: pl.DataFrame
    before: Path | None = None
    after: Path | None = None
    device: str | None = None
    shift: int = 0
    parts: tuple[Trace, ...] = ()
    files: tuple[Path, ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()

    def with_images(self, **images: Path) -> Case:
        """Return the case with images `before` and `after`."""
        return replace(self, **images)

    @property
    def judged(self) -> pl.DataFrame:
        """Return the truth with the times and sectors of the trace."""
        queued = self.trace.events.select("event", "was_ns", "ts_ns").with_columns(self.trace.field("sector"))
        queued = queued.filter(pl.col("event") == "block_bio_queue").select("was_ns", "ts_ns", "sector")
        at = queued.unique(["was_ns", "sector"])
        rows = self.truth.with_columns(bio=pl.col("bio_sector") + self.shift, sector=pl.col("sector") + self.shift)
        rows = rows.join(at, left_on=["ts", "bio"], right_on=["was_ns", "sector"], how="left", maintain_order="left")
        return rows.with_columns(ts="ts_ns").drop("ts_ns", "bio")


@dataclass(frozen=True)
class Verdict:
    """Counts of `truth.OUTCOMES` by question, and all messages: only one if the input was refused."""

    outcomes: dict[str, Counter[str]]
    said: tuple[str, ...]
    is_refused: bool = False
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def nr_wrong(self) -> int:
        """Number of wrong facts."""
        return sum(counts["wrong"] for counts in self.outcomes.values())


_IS_RACED = (pl.col("ino") == 223) & (pl.col("ts") == 6331166881071)
"""A block of ext4_host_6.18 with two writers: the truth, based on contents, does not know whose data was in time."""


@functools.cache
def recording(name: str) -> Case:
    """Return a recording of `truth.RECORDINGS` without its images."""
    directory = corpus.path(f"kernel/{name}")
    recorded = trace.read(directory / "trace.dat.zst", (directory / "saved_tgids.txt").read_text())
    dev = int(recorded.field("dev").drop_nulls().value_counts(sort=True)["dev"][0])
    mount = {"dev": units.format_dev(dev), "path": truth.MOUNTS["host" in name]}
    return Case(name.split("_")[0], recorded, truth.writes(directory).filter(~_IS_RACED), mounts=(mount,))


def with_images(name: str, directory: Path) -> dict[str, Path]:
    """Unpack the images of a recording into `directory`."""
    packed = {when: corpus.path(f"kernel/{name}") / file for when, file in truth.IMAGES.items()}
    return {when: images.plain(path, directory / f"{when}.img") for when, path in packed.items() if path.exists()}


def judge(case: Case, directory: Path) -> Verdict:
    """Return the package's verdict about the case."""
    paths = case.files or _written(case.parts or (case.trace,), directory)
    evidence = Evidence(
        image_before=None if case.before is None else Image(case.before, case.device),
        image_after=None if case.after is None else Image(case.after, case.device),
        devices=[dict(row) for row in case.devices],
        mounts=[dict(row) for row in case.mounts],
    )
    spool = Spool()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            tables, about = derive(ingest.read(*paths, spool=spool), evidence, spool)
        except InputError as error:
            return Verdict({}, (str(error),), is_refused=True)
        capture = Capture("spoilt", Manifest(sources=()), tables, about | dict.fromkeys(tool_results.KINDS))
        # Tables of numbers follow the messages.
        paragraphs = terminal.tables(capture).split("\nRequests\n")[0].split("\n\n")
        header = [repr(capture), *(paragraph.replace("\n", " ").strip() for paragraph in paragraphs)]
    said = (*header, *(str(warning.message) for warning in warned))
    answers = truth.answered(tables["io"].collect(), case.judged, case.fs_type)
    outcomes = {question: outcome(answers) for question, outcome in QUESTIONS.items()}
    wrong: Counter[str] = Counter()
    for question, rows in outcomes.items():
        stated = rows.filter(pl.col("outcome") == "wrong")
        for row in stated.group_by("kind", "io_block_type", "io_source", "io_via").len().iter_rows():
            wrong[f"{question}: {', '.join(map(str, row[:-1]))}"] += row[-1]
    counts = {question: Counter(dict(rows["outcome"].value_counts().rows())) for question, rows in outcomes.items()}
    return Verdict(counts, said, wrong=wrong)


def _written(parts: Sequence[Trace], directory: Path) -> list[Path]:
    paths = [directory / f"trace{number}.dat" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part.file)
    return paths
