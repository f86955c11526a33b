"""Link block events to requests: one row per block-layer request, with its bios.

The compiled `Linker` (native/link) does it in one pass ordered by time. RULES.md, in this directory, lists its rules.
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
"""Number of requests in a window."""


@dataclass(frozen=True)
class Linked:
    """Consecutive requests and their bios: tables requests and bios."""

    requests: pl.DataFrame
    bios: pl.DataFrame


@dataclass(frozen=True)
class Device:
    """A device of the block topology: `dev` begins at `start_sector` of `parent`."""

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
    """Link table `block_events`, ordered by time, to requests.

    `devices` has the partitions for traces without remap events. Devices that only pass their bios on to another device
    of the trace (partitions, device-mapper) have no requests of their own: the requests below have their number in
    `part_dev`. If the trace has no remap events, `layers` infers these devices. With `names_submitters`, issues and
    completions name the submitter. `words` are the events that are words for an operation (`Staging`).

    In memory are parts of the tables, the requests that are not finished, and the bios that wait for a request.
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
    """The requests of a trace. They are stored with the event index that `Linker` gives them as request_id."""

    def __init__(self, requests: pl.LazyFrame, bios: pl.LazyFrame, layers: tuple[Layer, ...] = ()) -> None:
        self.layers = layers
        self._requests = requests
        self._bios = bios

    @property
    def requests(self) -> pl.LazyFrame:
        """Return table requests."""
        return self._requests.with_columns(request_id=pl.int_range(pl.len()))

    def windows(self) -> Iterator[Linked]:
        """Yield the requests in order, with their bios, in at least one window."""
        first = 0
        for window in spans(self._requests, WINDOW, "request_id"):
            requests = self._requests.filter(window).collect()
            yield _with_ids(requests, self._bios.filter(window).collect(), first)
            first += requests.height

    def joined(self) -> Linked:
        """Return all windows as one."""
        windows = list(self.windows())
        return Linked(
            pl.concat([window.requests for window in windows]),
            pl.concat([window.bios for window in windows]),
        )


def _with_ids(requests: pl.DataFrame, bios: pl.DataFrame, first: int) -> Linked:
    """Return a window with consecutive request_id, beginning with `first`."""
    of_bios = requests["request_id"].search_sorted(bios["request_id"]).cast(pl.Int64) + first
    of_requests = pl.int_range(first, first + requests.height)
    return Linked(
        schema.conform(requests.with_columns(request_id=of_requests), "requests"),
        schema.conform(bios.with_columns(request_id=of_bios), "bios"),
    )


def _survey(block: pl.LazyFrame) -> tuple[dict[int, int], list[str], tuple[Layer, ...]]:
    """Return the flags of each device for `Linker`, all rwbs strings of the trace, and the inferred layers."""
    dev, action = pl.col("dev").fill_null(0), pl.col("action")
    has_sectors = (pl.col("nr_sectors") > 0) & pl.col("sector").is_not_null()
    kinds, remaps = pl.collect_all(
        [
            block.group_by(dev, action, "rwbs").agg(moves_data=has_sectors.any()),
            block.filter(action == "remap", pl.col("old_dev").is_not_null()).select(dev, "old_dev").unique(),
        ]
    )
    flags: defaultdict[int, int] = defaultdict(int)
    for device, event, letters, moves_data in kinds.iter_rows():
        flags[device] |= _FLAGS.get(event, 0)
        if event == "issue" and rwbs.meaning(letters or "").op == "flush":
            flags[device] |= linker.HAS_FLUSHES
        if event == "queue" and moves_data:
            flags[device] |= linker.HAS_BIOS
    recorded = set(kinds.filter(action.is_in(["queue", "issue"]))["dev"])
    layers = inferred(block, set(kinds.select("dev", "action").iter_rows()), remaps["old_dev"].to_list())
    stacked = _stacked(recorded, {(below, above) for below, above in remaps.iter_rows() if below != above})
    for device in stacked.union(layer.dev for layer in layers if layer.is_certain):
        flags[device] |= linker.STACKED
    letters = kinds["rwbs"].drop_nulls().unique().sort().to_list()
    return dict(flags), letters, layers


_FLAGS = {"issue": linker.HAS_ISSUES, "complete": linker.HAS_COMPLETIONS, "requeue": linker.HAS_REQUEUES}


def _stacked(recorded: set[int], pairs: set[tuple[int, int]]) -> set[int]:
    """Return the devices whose bios the trace has again on a device below; `pairs` are remaps (below, above)."""
    stacked: set[int] = set()
    while more := {above for below, above in pairs if below in recorded | stacked} - stacked:
        stacked |= more
    return stacked
