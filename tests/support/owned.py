"""Compute owners of the pieces of a recording that fits in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link import owner
from androstep_analysis.link.owner import processes


def all_owned(
    pieces: pl.DataFrame,
    fs_events: pl.DataFrame,
    tasks: pl.DataFrame,
    block_bytes: Mapping[int, int],
    lost: Losses | None = None,
    recorded: Collection[str] = (),
    *,
    page_bytes: int | None,
    sharing: Collection[int] = (),
    page_events: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the pieces of a whole recording with the owner columns of table io, in a single batch."""
    events = fs_events.lazy()
    devices = owner.coverage.with_modifications(pieces["part_dev"], events, recorded)
    every = events if page_events is None else page_events.lazy()
    owners = owner.Owners(
        *(events, tracepoints.kinds(events), processes.Processes(tasks), block_bytes, lost, recorded),
        page_bytes=page_bytes, devices=devices, sharing=sharing, page_events=every,
    )  # fmt: skip
    pieces, writebacks = owners.prepare(pieces)
    decided = pl.concat(owners.attribute(every, [writebacks.sort("ts_ns", maintain_order=True)]))
    return owners.split(pieces, decided if decided.height else None)
