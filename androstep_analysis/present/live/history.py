"""The last segments of a running recording, attributed by the same code as every recording.

Older segments are dropped. Only their effect on the present is retained, as an extent listing: the locations of files
at the time of the cut. The listing starts as the one that iotrace made at the begin. At each cut, files that may have
been renamed since are removed, and extents are updated from the tables of the dropped segments. Names that fanotify
reported are retained.
"""

from __future__ import annotations

import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from androstep_analysis.capture import tables as capture_tables
from androstep_analysis.capture.derivation import Evidence, derive
from androstep_analysis.capture.window import of as window_of
from androstep_analysis.capture.window import within
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.manifest import Source
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest import Spool, entries, record, recording
from androstep_analysis.ingest.ftrace import segments
from androstep_analysis.ingest.record import Records
from androstep_analysis.ingest.staging import Staging

BEFORE: Final = "before.rec"


@dataclass(frozen=True)
class Segment:
    """A file of the trace up to `end_ns` (clock of the trace), with the numbers of `events` and of `lost` events."""

    path: Path
    end_ns: int
    events: int
    lost: int


class History:
    """The retained segments of a recording in `directory`. `place` is a directory for temporary files."""

    def __init__(self, directory: Path, place: Path) -> None:
        self._directory, self._place = directory, place
        self._segments: list[Segment] = []
        self._start_ns: int | None = None  # None: no segment was dropped
        self._listed = record.read(directory / BEFORE) if (directory / BEFORE).exists() else None
        self._described = recording.described_under_way(directory)
        self._staging: Staging | None = None
        self._tables: Mapping[str, pl.LazyFrame] = {}
        self._counted = segments.Counters(0, 0)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The retained segments, in order."""
        return tuple(self._segments)

    @property
    def start_ns(self) -> int | None:
        """Time from which events are known, or None if all are."""
        return self._start_ns

    @property
    def window_ns(self) -> int:
        """Begin of the window (definitions.toml, window), in the clock of the trace; 0 if unknown."""
        return 0 if self._described.window is None else self._described.window[0]

    @property
    def listed_ns(self) -> int:
        """Time at which iotrace had listed the files, in the clock of the trace; 0 if it listed none."""
        if self._listed is None or not self._listed.tables["file"].height:
            return 0
        offset = self._listed.header["monotonic_offset_ns"] if self._described.facts["clock"] == "mono" else 0
        return int(self._listed.tables["file"].select(pl.col("listed_ns").max()).item()) + offset

    def add(self, path: Path) -> Segment:
        """Append the next segment."""
        before, self._counted = self._counted, segments.counters(path)
        counted = (now - then for now, then in zip(self._counted, before, strict=True))
        self._segments.append(Segment(path, segments.end_ns(path), *counted))
        return self._segments[-1]

    def forget(self, count: int) -> list[Path]:
        """Drop the first `count` segments, after `tables` has read them, and return their files."""
        forgotten, self._segments = self._segments[:count], self._segments[count:]
        if not forgotten:
            return []
        assert self._staging is not None
        self._start_ns = forgotten[-1].end_ns
        if self._listed is not None:
            was_lost = any(segment.lost for segment in forgotten)
            events = self._staging.fs_events.filter(pl.col("ts_ns") < self._start_ns)
            named = _still_named(self._listed, events, self._watched(), was_lost=was_lost)
            self._listed = _with_places(named, self._tables, self._start_ns, was_lost=was_lost)
        return [segment.path for segment in forgotten]

    def tables(self) -> Mapping[str, pl.LazyFrame]:
        """Return the tables of the retained segments, like those of a capture (`derivation.TABLES`).

        They have the rows of the window.
        """
        trace = self._place / "trace.dat"
        segments.join([segment.path for segment in self._segments], trace, is_whole=False)
        sources = (Source(str(trace), "trace", trace.stat().st_size, ""),)
        described = replace(self._described, sources=sources)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LossWarning)  # `Segment.lost` counts lost events
            spool = Spool(self._place)
            self._staging = capture_tables.staging_of(described, capture_tables.in_place, {}, spool)
            threads = self._directory / "tasks.rec"
            evidence = Evidence(
                listing_before=self._listed,
                listing_after=record.read(threads) if threads.exists() else None,
                names=self._names(),
                is_earlier=self._start_ns is not None,
                devices=described.devices,
                mounts=described.mounts,
                swaps=described.swaps,
            )
            try:
                self._tables, _ = derive(self._staging, evidence, spool)
            except InputError:  # the events contradict the listing; trust the events
                self._listed = None
                self._tables, _ = derive(self._staging, replace(evidence, listing_before=None), spool)
        return within(self._tables, window_of(self._staging))

    def _names(self) -> Records | None:
        """Return the names from fanotify.

        Of inodes that had several files before the retained segments, only the last file is returned.
        """
        path = self._directory / "names.rec"
        if not path.exists():
            return None
        records = record.read(path)
        # The file is still being written, so its last record may be incomplete.
        records = replace(records, losses=tuple(loss for loss in records.losses if loss.kind != "torn"))
        if self._start_ns is None or not entries.are_entries(records):
            return records
        rows, inode = records.tables[entries.TABLE], ["dev", "ino"]
        is_earlier = pl.col("read_ns") + pl.col("mono_offset_ns") < self._start_ns
        last = pl.col("generation").sort_by("order").filter(is_earlier).last().over(inode)
        kept = rows.filter(pl.col("ino").is_null() | ~is_earlier | pl.col("generation").eq_missing(last))
        return replace(records, tables={**records.tables, entries.TABLE: kept})

    def _watched(self) -> set[int]:
        """Return the filesystems that fanotify watched since before the files were listed."""
        path = self._directory / "names.rec"
        watches = record.read(path).tables.get("watch") if path.exists() else None
        return set() if watches is None else {*watches.filter(pl.col("since_ns").is_not_null())["dev"]}


def _still_named(listed: Records, events: pl.LazyFrame, watched: set[int], *, was_lost: bool) -> Records:
    """Return the listing without files that may have been renamed or deleted by `events`.

    All files are removed if any event `was_lost`. All files of a filesystem are removed if it has no events of its own,
    or if fanotify did not watch it.
    """
    event, inode = pl.col("event"), ["dev", "ino"]
    is_kept = event.is_in(tracepoints.EVICTIONS) & (pl.col("nlink") > 0)
    renews = event.is_in((*tracepoints.CREATIONS, *tracepoints.DELETIONS, *tracepoints.UNLINKS)) & ~is_kept
    renewed = events.filter(pl.col("ino").is_not_null(), renews).select(inode).unique().collect()
    own = listed.tables["filesystem"].filter(
        pl.col("fs_type").is_in(tracepoints.FILESYSTEMS), pl.col("dev").is_in(list(watched))
    )
    known = listed.tables["file"].clear() if was_lost else listed.tables["file"]
    files = known.join(own, on="dev", how="semi").join(renewed, on=inode, how="anti")
    return replace(listed, tables={**listed.tables, "filesystem": own, "file": files})


def _with_places(listed: Records, tables: Mapping[str, pl.LazyFrame], at_ns: int, *, was_lost: bool) -> Records:
    """Return the listing with the extents that the tables report at time `at_ns`, and with their files.

    A listed extent is valid until an event ends it. If any event `was_lost`, listed extents are dropped.
    """
    is_then = (pl.col("valid_from_ns") <= at_ns).fill_null(True) & (pl.col("valid_to_ns") > at_ns).fill_null(True)
    sources = ["tracepoint", "context", "recorded", *([] if was_lost else ["fiemap"])]
    is_known = pl.col("source").is_in(sources) & pl.col("ino").is_not_null()
    life, inode = ["dev", "ino", "incarnation"], ["dev", "ino"]
    devs = listed.tables["filesystem"]["dev"].unique()
    known = tables["extents"].filter(
        is_known & is_then & pl.col("block_type").is_in(["data", "directory"]) & pl.col("dev").is_in(devs.implode())
    )
    extents = known.select(*life, "block_type", "sector", "nr_sectors", "file_offset_bytes").collect()
    paths = tables["files"].select(*life, "path", "size_bytes").unique(life).collect()
    is_directory = (pl.col("block_type") == "directory").any()
    files = extents.group_by(life).agg(mode=pl.when(is_directory).then(stat.S_IFDIR).otherwise(stat.S_IFREG))
    files = files.join(paths, on=life, how="left").join(listed.tables["file"], on=inode, how="anti")
    generations = listed.tables["file"].select(*inode, "generation").unique(inode)
    constants = {"listed_ns": 0, "changed_ns": 0, "attributes": 0, "name_encrypted": 0, "flags": 0}
    as_listed = {
        "file": _as(listed.tables["file"], files, constants),
        "extent": _as(listed.tables["extent"], extents.join(generations, on=inode, how="left"), constants),
    }
    as_listed["file"] = pl.concat([listed.tables["file"], as_listed["file"]])
    return replace(listed, tables={**listed.tables, **as_listed})


def _as(table: pl.DataFrame, rows: pl.DataFrame, constants: Mapping[str, int]) -> pl.DataFrame:
    """Return the rows with the columns of a table. Missing columns are constants or null."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(constants.get(name), dtype).alias(name)
        for name, dtype in table.schema.items()
    )
