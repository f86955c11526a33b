"""The recording of one device, with which images and listings are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.fs import tracepoints, tsk
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import incarnations
from androstep_analysis.link.evidence.remade import Span
from androstep_analysis.link.evidence.snapshots import UNNUMBERED, Images

CLOCK_NS = 1_000_000_000
"""A change of CLOCK_REALTIME during a recording without data on it, up to which no image is refuted."""

SLEW = 5e-4
"""How much faster or slower CLOCK_REALTIME may run than the trace's clock (adjtimex(2): 500 ppm)."""


@dataclass(frozen=True)
class Stated:
    """What other sources state of each device, and the size of the kernel's pages (None: unknown)."""

    fs_types: Mapping[int, str]
    block_bytes: Mapping[int, int]
    nr_sectors: Mapping[int, int]
    page_bytes: int | None

    def without(self, dev: int) -> Stated:
        """Return it without the filesystem of a device."""
        fs_types = {key: value for key, value in self.fs_types.items() if key != dev}
        sizes = {key: value for key, value in self.block_bytes.items() if key != dev}
        return replace(self, fs_types=fs_types, block_bytes=sizes)


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


def _is_within(ts_ns: pl.Expr, span: Span) -> pl.Expr:
    begin, end = span
    return (ts_ns >= begin if begin is not None else pl.lit(True)) & (ts_ns < end if end is not None else pl.lit(True))


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
    dev: int,
    snapshots: Images,
    staging: Staging,
    all_events: pl.LazyFrame,
    requests: pl.LazyFrame,
    stated: Stated,
    span: Span = (None, None),
) -> DeviceTrace:
    """Return the recording of a device in a span of time. The other parameters are those of `consistency.compare`."""
    is_of_device = (pl.col("dev") == dev) | (pl.col("bio_dev") == dev)
    ts_ns = pl.coalesce("queue_ns", "issue_ns", "complete_ns")
    if span != (None, None):
        begin, end = span
        is_of_device &= _is_within(pl.col("ts_ns"), span)
        requests = requests.filter(_is_within(ts_ns, span))
        staging = replace(
            staging,
            first_ns=staging.first_ns if begin is None else begin,
            last_ns=staging.last_ns if end is None else end,
        )
        if begin is not None:  # The recorder reports what was mounted when the recording began.
            stated = stated.without(dev)
    events = staging.fs_events.filter(is_of_device)
    lifetimes = tracepoints.lifetimes(events, stated.fs_types)
    is_moved = (pl.col("part_dev") == dev) & pl.col("op").is_in(["read", "write"]) & (pl.col("nr_sectors") > 0)
    return DeviceTrace(
        dev=dev,
        events=events,
        dirtied=all_events.filter(pl.col("event").is_in(tracepoints.DIRTIED) & is_of_device),
        lifetimes=lifetimes.filter(pl.col("dev") == dev),
        requests=requests.filter(is_moved).select("part_sector", "nr_sectors", "op", "meta", "sync", ts_ns=ts_ns),
        staging=staging,
        realtime_offset_ns=incarnations.realtime_offset_ns(staging, snapshots.last, lifetimes),
        stated=stated,
    )
