"""The image or listing under comparison, and the recording of its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.fs import Filesystem, tracepoints, tsk
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import images, incarnations
from androstep_analysis.link.evidence.consistency.verdict import CheckResult
from androstep_analysis.link.evidence.snapshots import UNNUMBERED, Images, Snapshot

CLOCK_NS = 1_000_000_000
"""A change of CLOCK_REALTIME during a recording without data on it, up to which no image is refuted."""

SLEW = 5e-4
"""How much faster or slower CLOCK_REALTIME may run than the trace's clock (adjtimex(2): 500 ppm)."""


@dataclass(frozen=True)
class Stated:
    """What other sources than the trace state, for each device: the filesystem, its block size, the device's size.

    `page_bytes` is the size of the kernel's pages. None if it is unknown.
    """

    fs_types: Mapping[int, str]
    block_bytes: Mapping[int, int]
    nr_sectors: Mapping[int, int]
    page_bytes: int | None


@dataclass(frozen=True)
class DeviceTrace:
    """The recording of one device."""

    dev: int
    events: pl.LazyFrame
    """Without repetitions (`tracepoints.without_repetitions`)."""
    dirtied: pl.LazyFrame
    """Every event of a page that became dirty."""
    lifetimes: pl.DataFrame
    requests: pl.LazyFrame
    """Reads and writes: part_sector, nr_sectors, op, meta, sync, ts_ns."""
    staging: Staging
    realtime_offset_ns: int | None
    """CLOCK_REALTIME minus the trace's clock, as recorded, or else by files in the image or listing after."""
    stated: Stated

    @property
    def tolerance_ns(self) -> int:
        """The maximum difference between the times of one event in the trace and in an image."""
        staging = self.staging
        if staging.realtime_offset_ns is None or staging.first_ns is None or staging.last_ns is None:
            return incarnations.TICK_NS  # Then the offset comes from the files.
        slew_ns = int(SLEW * (staging.last_ns - staging.first_ns))
        return incarnations.LAG_NS + slew_ns + abs(staging.realtime_moved_ns or 0)

    @property
    def limit_ns(self) -> int:
        """The difference from which two times contradict each other, which is larger if the clock may have been set."""
        may_be_set = self.staging.realtime_offset_ns is not None and self.staging.realtime_moved_ns is None
        return max(self.tolerance_ns, CLOCK_NS) if may_be_set else self.tolerance_ns

    @property
    def span_epoch_ns(self) -> tuple[int, int] | None:
        """Begin and end of the recording in CLOCK_REALTIME."""
        first, last, offset = self.staging.first_ns, self.staging.last_ns, self.realtime_offset_ns
        return None if first is None or last is None or offset is None else (first + offset, last + offset)


class Tally(NamedTuple):
    """The outcome of a check."""

    agreements: int = 0
    contradictions: int = 0
    explained: int = 0
    """Contradictions that a change within the recording explains."""
    age: int = 0
    """Contradictions of an image that is certainly of the recorded filesystem, at another time than stated."""
    clock: int = 0
    """Contradictions unless CLOCK_REALTIME was set during the recording."""
    detail: object = None
    """Inserted into `Check.meaning`."""


@dataclass(frozen=True)
class Subject:
    """An image or a listing that is compared with the trace; `role` is that of its source (`snapshots.ROLES`)."""

    role: str
    snapshot: Snapshot
    trace: DeviceTrace
    results: list[CheckResult] = field(default_factory=list)
    """Of the checks so far. Later checks may depend on them."""

    @property
    def is_before(self) -> bool:
        return self.role.endswith("before")

    @property
    def image(self) -> Filesystem:
        assert isinstance(self.snapshot, Filesystem)
        return self.snapshot

    @property
    def listing(self) -> Listing:
        assert isinstance(self.snapshot, Listing)
        return self.snapshot

    @property
    def family(self) -> str:
        return family(self.snapshot.fs_type or "")

    def agrees_in(self, kind: str) -> bool:
        """Return whether an earlier check of this kind found an agreement."""
        return any(result.agreements for result in self.results if result.kind == kind)


def family(name: str) -> str:
    """Return the filesystems with the same events as this filesystem or event, or an empty string."""
    if name.startswith(("ext", "jbd2_")):
        return "ext"
    if name.startswith("f2fs"):
        return "f2fs"
    if name.startswith((*UNNUMBERED, "msdos")):
        return "fat"
    return next((fs_type for fs_type in tsk.FS_TYPES if name.startswith(fs_type)), "")


def device_trace(
    dev: int, snapshots: Images, staging: Staging, all_events: pl.LazyFrame, requests: pl.LazyFrame, stated: Stated
) -> DeviceTrace:
    """Return the recording of a device. The parameters are those of `consistency.weighed`."""
    is_of_device = (pl.col("dev") == dev) | (pl.col("bio_dev") == dev)
    events = staging.fs_events.filter(is_of_device)
    lifetimes = tracepoints.lives(events, stated.fs_types)
    offset = staging.realtime_offset_ns
    last = snapshots.after or snapshots.listed_after
    if offset is None and last is not None:
        offset = incarnations.realtime_offset_ns(last, lifetimes)
    is_moved = (pl.col("part_dev") == dev) & pl.col("op").is_in(["read", "write"]) & (pl.col("nr_sectors") > 0)
    ts_ns = pl.coalesce("queue_ns", "issue_ns", "complete_ns")
    return DeviceTrace(
        dev=dev,
        events=events,
        dirtied=all_events.filter(pl.col("event").is_in(tracepoints.DIRTIED) & is_of_device),
        lifetimes=lifetimes.filter(pl.col("dev") == dev),
        requests=requests.filter(is_moved).select("part_sector", "nr_sectors", "op", "meta", "sync", ts_ns=ts_ns),
        staging=staging,
        realtime_offset_ns=offset,
        stated=stated,
    )


def content_at(snapshot: Snapshot, sectors: pl.Series) -> pl.DataFrame:
    """Return block_type, subtype, ino and start_of_file at each sector, null where the snapshot states nothing."""
    rows = images.with_start_of_file(snapshot.extents)
    begin = rows["sector"].to_numpy()
    at = np.searchsorted(begin, sectors.to_numpy(), "right") - 1
    end = np.append(begin + rows["nr_sectors"].to_numpy(), 0)
    row = pl.Series(at, dtype=pl.Int64).set(pl.Series((at < 0) | (sectors.to_numpy() >= end[at])), None)
    return rows.select(pl.col("block_type", "subtype", "ino", "start_of_file").gather(row))
