"""Block events to requests: one row per block-layer request, with its bios.

The life of a request, as the block layer reports it (Documentation/block, kernels 3.4 to 6.18): a bio is queued (Q),
perhaps remapped from a partition or device-mapper device to the disk below (A), merged with neighbours or split; the
request is inserted (I), issued to the driver (D), perhaps requeued (R) and issued again, and completed (C), perhaps
in parts. No event carries an identity: what belongs together is found by device, sectors and order.

- Issue and completion are paired by device, operation, first sector and length. Of several requests that agree, one is
  completed that was issued with the same letters (`rwbs`), and of these the last one issued. Lost events then cost
  their own requests and no later ones.
- A completion that is shorter than the request it fits completes a part of it, and the next part begins where that one
  ended. If a completion of the whole request follows after all, what looked like parts were completions of other
  requests. Such completions, and those that agree with no request, become requests without an issue.
- After a completion in part the driver may requeue the rest and get it again: a requeue or an issue of exactly what is
  left is of that request. Of several requests that begin at one sector, the requeue shows which was completed in part.
  Where no requeue was recorded, the issue is of the rest if no bio waits that begins there.
- A completion without a length (`nr_sectors` null, as of block_io_done) completes all of the last request of its
  operation that was issued there.
- A second issue at the same sector, of the same operation, with no completion between, is of the same request again if
  that was requeued and no bio for the first sector was queued since its issue. If no requeue was recorded, it must have
  the same length too, and no bio may wait there. It is still another request if two completions follow, because two
  processes may read the same blocks directly at the same time. A flush is issued again only after a requeue. A request
  takes another length 64 times at most, as no kernel changes it: what is issued there with yet another one is another
  request.
- A bio belongs, sector by sector, to the first request issued after it. If several bios wait for a sector, a request
  takes the one of which it has the sector before, else one that was queued by the thread that issues, else the last
  one queued. Eight bios wait for a sector at most: the issues of older ones were lost. Before Linux 4.14 the remainder
  of a bio that was split is queued once more by the same thread; it replaces the end of that bio.
- The time of insertion is that of the first insert that led to the request: the last one of each sector, if it is not
  of before the first bio, and of no request that was completed before.
- A flush that carries no data is one request, whatever it is part of. Where the trace shows the device's flush
  requests (`FF`) the empty completion that ends a flush sequence is no request of its own; older kernels show only
  that completion, and perhaps the empty bio that asked for it. Commands that move no sectors otherwise (SCSI
  passthrough, rwbs N) are no requests here.
- A completion without an operation (`rwbs` null, as of Open-CAS) is of the operation of the request that fits it best,
  else of the bio last queued for its first sector, of those that wait.
- Where a device has no completions at all, nothing stays open: only a requeue makes two issues one request.
- Of several flushes of one device that are open, as where each CPU has a hardware queue, a completion or a requeue is
  of one that the driver has, an issue of one that was requeued; the last of those issued on the CPU of the event, if
  there is one.
- What has no partner still becomes a row, and `matched` says what is missing. A bio that reached no request is a
  request that was never completed.

Events are taken in their order, also those of equal times. The compiled `Linker` does it in one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest.spool import Spool, spans
from androstep_analysis.link.requests import linker, rwbs
from androstep_analysis.link.requests.layers import Layer, inferred
from androstep_analysis.link.requests.linker import Linker

WINDOW = 1 << 16
"""Requests of one window."""


@dataclass(frozen=True)
class Linked:
    """Requests that follow each other, and their bios: tables requests and bios."""

    requests: pl.DataFrame
    bios: pl.DataFrame


@dataclass(frozen=True)
class Device:
    """One device of the capture's block topology: `dev` begins at `start_sector` of `parent`."""

    dev: int
    parent: int | None
    start_sector: int
    nr_sectors: int


def link(
    block: pl.LazyFrame,
    devices: Sequence[Device] = (),
    *,
    words: Collection[str] = (),
    names_submitters: bool = False,
) -> Requests:
    """Join table `block_events`, which is in order of time, to requests.

    `devices` tells the partitions where the trace itself does not (it does in its remap events). Devices that only
    pass their bios on to another device of the trace (partitions, device-mapper) get no requests of their own: their
    number stands in `part_dev` of the requests below. Where the trace has no remap events, `layers` infers them.
    With `names_submitters`, issues and completions name who asked for the request; `words` are the events that are
    words for an operation (`Staging`).

    In memory are some pieces of the tables, the requests that are not finished and the bios that wait for a request:
    what a trace never completes, and each sector once that was queued and never issued.
    """
    block = rwbs.with_words(block, words)
    device_flags, letters, found = _survey(block)
    if names_submitters:
        device_flags = {dev: flags | linker.ROWS_NAME_SUBMITTERS for dev, flags in device_flags.items()}
    state = Linker(device_flags, letters)
    certain = [layer for layer in found if layer.is_certain]
    for device in devices:
        if device.parent is not None:
            state.partition(device.dev, device.parent, device.start_sector, device.nr_sectors)
    for layer in certain:
        state.partition(layer.dev, layer.below, layer.offset, layer.nr_sectors)
    spool = Spool()
    state.link(block, spool)
    return Requests(spool.table("requests"), spool.table("bios"), found)


class Requests:
    """The requests of a trace, each known so far by the event that tells its place in the order of issue."""

    def __init__(self, requests: pl.LazyFrame, bios: pl.LazyFrame, layers: tuple[Layer, ...] = ()) -> None:
        self.layers = layers
        self._requests = requests
        self._bios = bios

    @property
    def requests(self) -> pl.LazyFrame:
        """Table requests."""
        return self._requests.with_columns(request_id=pl.int_range(pl.len()))

    def windows(self) -> Iterator[Linked]:
        """The requests in order, some at once, with their bios; at least one window."""
        first = 0
        for window in spans(self._requests, WINDOW, "request_id"):
            requests = self._requests.filter(window).collect()
            yield _numbered(requests, self._bios.filter(window).collect(), first)
            first += requests.height

    def joined(self) -> Linked:
        """All windows as one."""
        windows = list(self.windows())
        return Linked(
            pl.concat([window.requests for window in windows]),
            pl.concat([window.bios for window in windows]),
        )


def _numbered(requests: pl.DataFrame, bios: pl.DataFrame, first: int) -> Linked:
    """A window with its requests numbered from `first` on."""
    of_bios = requests["request_id"].search_sorted(bios["request_id"]).cast(pl.Int64) + first
    number = pl.int_range(first, first + requests.height)
    return Linked(
        schema.conform(requests.with_columns(request_id=number), "requests"),
        schema.conform(bios.with_columns(request_id=of_bios), "bios"),
    )


def _survey(block: pl.LazyFrame) -> tuple[dict[int, int], list[str], tuple[Layer, ...]]:
    """What the whole trace tells of each device, as `Linker` takes it, all its rwbs strings, and inferred layers."""
    dev, action = pl.col("dev").fill_null(0), pl.col("action")
    has_sectors = (pl.col("nr_sectors") > 0) & pl.col("sector").is_not_null()
    kinds, remaps = pl.collect_all(
        [
            block.group_by(dev, action, "rwbs").agg(moves=has_sectors.any()),
            block.filter(action == "remap", pl.col("old_dev").is_not_null()).select(dev, "old_dev").unique(),
        ]
    )
    flags: defaultdict[int, int] = defaultdict(int)
    for number, step, letters, moves in kinds.iter_rows():
        flags[number] |= _FLAGS.get(step, 0)
        if step == "issue" and rwbs.meaning(letters or "").op == "flush":
            flags[number] |= linker.HAS_FLUSHES
        if step == "queue" and moves:
            flags[number] |= linker.HAS_BIOS
    shown = set(kinds.filter(action.is_in(["queue", "issue"]))["dev"])
    for number in _stacked(shown, {(below, above) for below, above in remaps.iter_rows() if below != above}):
        flags[number] |= linker.STACKED
    steps = set(kinds.select("dev", "action").iter_rows())
    found = inferred(block, steps, [above for _, above in remaps.iter_rows()])
    for layer in found:
        if layer.is_certain:
            flags[layer.dev] |= linker.STACKED
    letters = kinds["rwbs"].drop_nulls().unique().sort().to_list()
    return dict(flags), letters, found


_FLAGS = {"issue": linker.HAS_ISSUES, "complete": linker.HAS_COMPLETIONS, "requeue": linker.HAS_REQUEUES}


def _stacked(shown: set[int], pairs: set[tuple[int, int]]) -> set[int]:
    """The devices whose bios the trace shows again, remapped, on a device below; `pairs` are such below and above."""
    stacked: set[int] = set()
    while more := {above for below, above in pairs if below in shown | stacked} - stacked:
        stacked |= more
    return stacked
