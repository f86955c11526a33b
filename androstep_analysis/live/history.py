"""The last segments of a recording under way, joined by the code that joins every recording.

What was recorded before them is forgotten, but for what it says of now: the files that iotrace listed when it began,
without those that changed since, and the names that fanotify told.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from androstep_analysis import recording
from androstep_analysis.capture import tables as capture_tables
from androstep_analysis.capture.derivation import Witnesses, derive
from androstep_analysis.errors import InputError, LossWarning
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest import Spool, entries, record
from androstep_analysis.ingest.ftrace import segments
from androstep_analysis.ingest.record import Records
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.manifest import Source

BEFORE: Final = "before.rec"


@dataclass(frozen=True)
class Segment:
    """A file of what was recorded up to `end_ns`, in the clock of the trace; `lost` events since the segment before."""

    path: Path
    end_ns: int
    lost: int


class History:
    """The segments of a recording in `directory` that are not forgotten yet; `place` is for files in between."""

    def __init__(self, directory: Path, place: Path) -> None:
        self._directory, self._place = directory, place
        self._segments: list[Segment] = []
        self._start_ns: int | None = None  # None: nothing was forgotten
        self._listed = record.read(directory / BEFORE) if (directory / BEFORE).exists() else None
        self._described = recording.described_under_way(directory)
        self._staging: Staging | None = None
        self._lost = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those that are kept, in order."""
        return tuple(self._segments)

    @property
    def start_ns(self) -> int | None:
        """From when on events are known; None where all are."""
        return self._start_ns

    @property
    def listed_ns(self) -> int:
        """When iotrace had listed the files, in the clock of the trace; 0 where it listed none."""
        if self._listed is None or not self._listed.tables["file"].height:
            return 0
        offset = self._listed.header["monotonic_offset_ns"] if self._described.facts["clock"] == "mono" else 0
        return int(self._listed.tables["file"].select(pl.col("listed_ns").max()).item()) + offset

    def add(self, path: Path) -> Segment:
        """Takes in the next segment."""
        lost = segments.lost_events(path)
        self._segments.append(Segment(path, segments.end_ns(path), lost - self._lost))
        self._lost = lost
        return self._segments[-1]

    def forget(self, count: int) -> list[Path]:
        """Forgets the first segments, which `tables` has seen, and returns their files."""
        forgotten, self._segments = self._segments[:count], self._segments[count:]
        if not forgotten:
            return []
        assert self._staging is not None
        self._start_ns = forgotten[-1].end_ns
        if self._listed is not None:
            was_lost = any(segment.lost for segment in forgotten)
            events = self._staging.fs_events.filter(pl.col("ts_ns") < self._start_ns)
            self._listed = None if was_lost else _unchanged(self._listed, events, self._watched())
        return [segment.path for segment in forgotten]

    def tables(self) -> Mapping[str, pl.LazyFrame]:
        """The tables of what is kept, as of a capture (`derivation.TABLES`)."""
        trace = self._place / "trace.dat"
        segments.join([segment.path for segment in self._segments], trace, is_whole=False)
        sources = (Source(str(trace), "trace", trace.stat().st_size, ""),)
        described = replace(self._described, sources=sources)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LossWarning)  # `Segment.lost` has what is lost
            spool = Spool(self._place)
            self._staging = capture_tables.staging_of(described, capture_tables.in_place, {}, spool)
            threads = self._directory / "tasks.rec"
            witnesses = Witnesses(
                listing_before=self._listed,
                listing_after=record.read(threads) if threads.exists() else None,
                names=self._names(),
                is_earlier=self._start_ns is not None,
                devices=described.devices,
                mounts=described.mounts,
            )
            try:
                return derive(self._staging, witnesses, spool)[0]
            except InputError:  # the events contradict the listing, and are right
                self._listed = None
                return derive(self._staging, replace(witnesses, listing_before=None), spool)[0]

    def _names(self) -> Records | None:
        """What fanotify told, of inodes that had several files before the segments that are kept only the last one."""
        path = self._directory / "names.rec"
        if not path.exists():
            return None
        told = record.read(path)
        told = replace(told, losses=tuple(loss for loss in told.losses if loss.kind != "torn"))  # it goes on
        if self._start_ns is None or not entries.are_entries(told):
            return told
        rows, inode = told.tables[entries.TABLE], ["dev", "ino"]
        is_earlier = pl.col("read_ns") + pl.col("mono_offset_ns") < self._start_ns
        last = pl.col("generation").sort_by("order").filter(is_earlier).last().over(inode)
        kept = rows.filter(pl.col("ino").is_null() | ~is_earlier | pl.col("generation").eq_missing(last))
        return replace(told, tables={**told.tables, entries.TABLE: kept})

    def _watched(self) -> set[int]:
        """The filesystems whose names fanotify tells since before the files were listed."""
        path = self._directory / "names.rec"
        told = record.read(path).tables.get("watch") if path.exists() else None
        return set() if told is None else {*told.filter(pl.col("since_ns").is_not_null())["dev"]}


def _unchanged(listed: Records, events: pl.LazyFrame, watched: set[int]) -> Records | None:
    """The listing without all that may be otherwise after `events`, which come between it and the next ones.

    Files of filesystems that have no events of their own, or whose names are not told, may all be.
    """
    event, inode = pl.col("event"), ["dev", "ino"]
    found = events.filter(tracepoints.is_own() & pl.col("ino").is_not_null()).select("event", *inode, "nlink")
    changes = found.filter(~event.is_in(tracepoints.READ_ONLY)).unique().collect()
    is_kept = event.is_in(tracepoints.EVICTIONS) & (pl.col("nlink") > 0)
    renewed = changes.filter(event.is_in((*tracepoints.BIRTHS, *tracepoints.DELETIONS, *tracepoints.UNLINKS)), ~is_kept)
    own = listed.tables["filesystem"].filter(
        pl.col("fs_type").is_in(tracepoints.FILESYSTEMS), pl.col("dev").is_in(list(watched))
    )
    files = listed.tables["file"].join(own, on="dev", how="semi").join(renewed, on=inode, how="anti")
    extents = listed.tables["extent"].join(files, on=inode, how="semi").join(changes, on=inode, how="anti")
    return replace(listed, tables={**listed.tables, "filesystem": own, "file": files, "extent": extents})
