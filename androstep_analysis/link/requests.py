"""Block events to requests: one row per block-layer request, with its bios.

The life of a request, as the block layer reports it (Documentation/block, kernels 3.4 to 6.18): a bio is queued (Q),
perhaps remapped from a partition or device-mapper device to the disk below (A), merged with neighbours or split; the
request is inserted (I), issued to the driver (D), perhaps requeued (R) and issued again, and completed (C), perhaps
in parts. No event carries an identity: what belongs together is found by device, sectors and time.

- Issue and completion are paired per device and first sector, like brackets: a completion closes the last request
  issued there that is still open. One lost event then costs one pair, never all that follow.
- A bio belongs to the first request issued after it that covers its sectors; a request is cut into the bios that
  were last queued for each of its sectors.
- What has no partner still becomes a row, and `matched` says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import schema
from androstep_analysis.link import intervals, rwbs
from androstep_analysis.link.intervals import ALWAYS, FOREVER, Int64s

Bools = npt.NDArray[np.bool_]

NONE = np.int64(-1)
"""Position of an event that was not seen."""

_WRITE = schema.enum("requests", "op").categories.to_list().index("write")
"""Number of the operation write, as in `_Events.op`."""

EMPTY_FLUSH = np.int64(-1)
"""Stands for the sector of flush requests in pairing: they have none."""


@dataclass(frozen=True)
class Linked:
    """`requests`: table requests. `bios`: for each request that has sectors, its sectors cut by bio.

    Columns of `bios`: request_id, sector (on `dev`), nr_sectors, queue_ns, submit_tid, submit_pid, submit_comm; the
    last four are null where no bio was seen for the sectors. Sorted by request and sector, without gaps or overlaps.
    `recorded` holds what a MOST trace states itself: request_id, block_type, path; empty for other formats.
    """

    requests: pl.DataFrame
    bios: pl.DataFrame
    recorded: pl.DataFrame


@dataclass(frozen=True)
class Device:
    """One device of the capture's block topology: `dev` begins at `start_sector` of `parent`."""

    dev: int
    parent: int | None
    start_sector: int
    nr_sectors: int


@dataclass(frozen=True)
class _Events:
    """The block events as parallel arrays, in order of time; -1 where there is no sector."""

    ts: Int64s
    action: npt.NDArray[np.object_]
    dev: Int64s
    sector: Int64s
    nr: Int64s
    op: Int64s
    """The operation as a number, so that a read never joins a write of the same sectors."""
    flush: Bools
    """The operation is a flush and nothing else."""

    @property
    def space(self) -> Int64s:
        """Device and operation in one number: what an interval join must not mix."""
        return self.dev << 8 | self.op

    def at(self, *actions: str) -> Int64s:
        """Positions of the events of these actions."""
        return np.flatnonzero(np.isin(self.action, actions))


@dataclass(frozen=True)
class _Rows:
    """Requests under construction. Event positions are -1 where the event was not seen."""

    dev: Int64s
    sector: Int64s
    nr: Int64s
    op: Int64s
    flush: Bools
    first_issue: Int64s
    issue: Int64s
    complete: Int64s
    queue: Int64s
    """Position of the queue event, for rows that were made from one."""
    requeued: Bools

    @property
    def space(self) -> Int64s:
        """As in `_Events`."""
        return self.dev << 8 | self.op

    def time(self, ts: Int64s) -> Int64s:
        """When the request left the queue: first issue, else completion, else queueing."""
        return ts[_first_seen(self.first_issue, self.complete, self.queue)]


def link(block: pl.DataFrame, devices: Sequence[Device] = ()) -> Linked:
    """Join table `block_events` to requests.

    `devices` tells the partitions where the trace itself does not (it does in its remap events). Devices that only
    pass their bios on to another device of the trace (partitions, device-mapper) get no requests of their own: their
    number stands in `part_dev` of the requests below.
    """
    block = block.sort("ts_ns", maintain_order=True).with_columns(pl.col("dev").fill_null(0))
    block = _without_stacked_layers(block)
    decoded = rwbs.decode(block["rwbs"])
    events = _Events(
        ts=_array(block["ts_ns"]),
        action=block["action"].cast(pl.String).to_numpy(),
        dev=_array(block["dev"]),
        sector=_array(block["sector"]),
        nr=_array(block["nr_sectors"], 0),
        op=_array(decoded["op"].to_physical()),
        flush=(decoded["op"] == "flush").to_numpy(),
    )
    rows = _finish_partial_completions(events, *_pair(events))
    rows, pieces = _attach_bios(events, rows)
    return _tables(block, decoded, events, rows, pieces, devices)


def _array(series: pl.Series, missing: int = -1) -> Int64s:
    """The series as Int64, null as `missing`."""
    return cast(Int64s, series.cast(pl.Int64).fill_null(missing).to_numpy())


def _first_seen(*positions: Int64s) -> Int64s:
    """Element by element the first position that is not -1."""
    found = positions[0].copy()
    for other in positions[1:]:
        found = np.where(found < 0, other, found)
    return found


def _without_stacked_layers(block: pl.DataFrame) -> pl.DataFrame:
    """Drop the events of devices whose bios the trace shows again, remapped, on a device below; keep the remaps."""
    down = block.filter((pl.col("action") == "remap") & (pl.col("dev") != pl.col("old_dev"))).select("dev", "old_dev")
    pairs = down.unique().rows()
    shown = set(block.filter(pl.col("action").is_in(["queue", "issue"]))["dev"])
    stacked: set[int] = set()
    for _ in range(_MAX_LAYERS):
        stacked |= {above for below, above in pairs if below in shown | stacked}
    return block.filter(~pl.col("dev").is_in(stacked) | (pl.col("action") == "remap"))


# ---------------------------------------------------------------------------------------------- issue and completion


def _pair(events: _Events) -> tuple[_Rows, Int64s]:
    """Requests from issues and completions, and the positions of completions that close none.

    A flush that carries no data is one request, whatever it is part of. Where the trace shows the device's flush
    requests (`FF`) the empty completion that ends a flush sequence is no request of its own; older kernels show only
    that completion, and perhaps the empty bio that asked for it. Commands that move no sectors otherwise (SCSI
    passthrough, rwbs N) are no requests here.
    """
    empty = (events.nr == 0) & ~events.flush
    shows_flushes = np.unique(events.dev[(events.action == "issue") & events.flush])
    sequence_end = empty & (events.op == _WRITE) & ~np.isin(events.dev, shows_flushes)

    opens = ((events.action == "issue") & ~empty) | ((events.action == "queue") & sequence_end)
    closes = (events.action == "complete") & (~empty | sequence_end)
    again = (events.action == "requeue") & ~empty
    taking_part = np.flatnonzero(opens | closes | again)
    kind = np.where(events.flush, 1, np.where(empty, 2, 0))[taking_part]
    place = np.where(kind == 1, EMPTY_FLUSH, events.sector[taking_part])
    order = np.lexsort((taking_part, place, kind, events.dev[taking_part]))
    at, kind, place = taking_part[order], kind[order], place[order]
    group = np.cumsum(_changes(events.dev[at], kind, place)) - 1

    genuine, head = _collapse_reissues(events, at, group, opens[at], closes[at], again[at])
    partner = _match_brackets(group, genuine, closes[at])

    heads = np.flatnonzero(genuine)
    last_issue = np.full(at.size, NONE)
    reissued = np.flatnonzero(opens[at])
    last_issue[head[reissued]] = reissued  # ascending: the last one stays
    requeued = np.zeros(at.size, np.bool_)
    before = _last_where(opens[at] | closes[at], group)
    still_open = (before >= 0) & opens[at][before]
    followed = np.flatnonzero((opens[at] & ~genuine) | (again[at] & still_open))
    requeued[head[followed]] = True

    issued = events.action[at[heads]] == "issue"
    rows = _Rows(
        dev=events.dev[at[heads]],
        sector=np.where(kind[heads] == 0, place[heads], NONE),
        nr=events.nr[at[last_issue[heads]]],
        op=events.op[at[heads]],
        flush=kind[heads] > 0,
        first_issue=np.where(issued, at[heads], NONE),
        issue=np.where(issued, at[last_issue[heads]], NONE),
        complete=np.where(partner[heads] >= 0, at[partner[heads]], NONE),
        queue=np.where(issued, NONE, at[heads]),
        requeued=requeued[heads],
    )
    return rows, np.sort(at[closes[at] & (partner < 0)])


def _changes(*columns: Int64s) -> Bools:
    """True where a row differs from the row before it in any column; True for the first."""
    changed = np.ones(columns[0].size, np.bool_)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _collapse_reissues(
    events: _Events, at: Int64s, group: Int64s, opens: Bools, closes: Bools, again: Bools
) -> tuple[Bools, Int64s]:
    """Which openings begin a request, and for every event the position of the last such opening in its group.

    A second issue of the same sectors with no completion between is the same request again when no bio for those
    sectors was queued between them; in a trace without bio events, when a requeue stands between them or its length
    is the same.
    """
    previous = _last_where(opens | closes, group)
    requeue_before = _last_where(again, group) > previous
    candidates = np.flatnonzero(opens & (previous >= 0) & ~events.flush[at] & (events.nr[at] > 0))
    candidates = candidates[opens[previous[candidates]]]
    first, second = at[previous[candidates]], at[candidates]

    bios = events.at("queue")
    bios = bios[events.nr[bios] > 0]
    asked = intervals.stab(
        intervals.Queries(events.space[second], events.sector[second], np.ones_like(second), events.ts[second]),
        intervals.Rows(
            events.space[bios], events.sector[bios], events.nr[bios], events.ts[bios], np.full(bios.size, FOREVER)
        ),
    )
    queued = np.full(second.size, ALWAYS)
    found = asked.row >= 0
    queued[asked.query[found]] = events.ts[bios[asked.row[found]]]
    fresh_bio = queued > events.ts[first]
    sees_bios = np.isin(events.dev[second], events.dev[bios])
    same_length = (events.nr[first] == events.nr[second]) & (events.op[first] == events.op[second])
    reissue = np.where(sees_bios, ~fresh_bio, same_length | requeue_before[candidates])

    genuine = opens.copy()
    genuine[candidates[reissue]] = False
    # A requeue also joins the issues around it where a flush is concerned.
    flushes = np.flatnonzero(opens & events.flush[at] & requeue_before)
    genuine[flushes] = False
    return genuine, np.where(genuine, np.arange(at.size), _last_where(genuine, group))


def _last_where(mask: Bools, group: Int64s) -> Int64s:
    """For each position the last earlier position of the same group where `mask` holds, or -1."""
    marked = np.where(mask, np.arange(mask.size), NONE)
    last = np.maximum.accumulate(np.concatenate([[NONE], marked]))[:-1]
    same = (last >= 0) & (group[last] == group)
    return np.where(same, last, NONE)


def _match_brackets(group: Int64s, opens: Bools, closes: Bools) -> Int64s:
    """For each opening the position of its closing and the other way round, as brackets match; -1 where alone."""
    step = opens.astype(np.int64) - closes.astype(np.int64)
    # A depth that starts at 0 in every group and never goes below: the running minimum is what closings without an
    # opening took away. Shifting each group below the one before makes one running minimum serve all groups.
    total = np.cumsum(step)
    base = np.repeat((total - step)[_starts(group)], np.diff(np.append(_starts(group), group.size)))
    shift = group * np.int64(group.size + 1)
    lowest = np.minimum.accumulate(np.minimum(total - base, 0) - shift) + shift
    depth = total - base - lowest
    fell = np.zeros(group.size, np.bool_)
    fell[1:] = lowest[1:] < np.where(group[1:] == group[:-1], lowest[:-1], 0)
    fell[:1] = lowest[:1] < 0
    matched_close = closes & ~fell
    level = np.where(matched_close, depth + 1, depth)
    taking_part = np.flatnonzero(opens | matched_close)
    order = taking_part[np.lexsort((taking_part, level[taking_part], group[taking_part]))]
    left, right = order[:-1], order[1:]
    pair = opens[left] & matched_close[right] & (group[left] == group[right]) & (level[left] == level[right])
    partner = np.full(group.size, NONE)
    partner[left[pair]], partner[right[pair]] = right[pair], left[pair]
    return partner


def _starts(group: Int64s) -> Int64s:
    """Positions where a new group begins."""
    return np.flatnonzero(_changes(group))


def _finish_partial_completions(events: _Events, rows: _Rows, alone: Int64s) -> _Rows:
    """A request may be completed in parts: each further part starts where the one before ended.

    Completions that close nothing and lie in a request whose completion was shorter than itself are such parts. What
    is left is a request whose issue was not seen. A request of which a part was never completed is not complete.
    """
    done = np.where((rows.complete >= 0) & ~rows.flush, events.nr[rows.complete], rows.nr)
    complete = rows.complete.copy()
    parts = alone[events.nr[alone] > 0]
    parts = parts[np.lexsort((parts, events.sector[parts], events.space[parts]))]
    place = np.stack([events.space[parts], events.sector[parts]])
    taken = np.zeros(parts.size, np.bool_)
    open_ = np.flatnonzero((done < rows.nr) & (rows.issue >= 0))
    while open_.size and parts.size:
        begin = np.stack([rows.space[open_], rows.sector[open_] + done[open_]])
        found = _first_after(place, parts, begin, complete[open_])
        open_, found = open_[found >= 0], found[found >= 0]
        fits = ~taken[found] & (events.nr[parts[found]] <= rows.nr[open_] - done[open_])
        open_, found = open_[fits], found[fits]
        taken[found] = True
        complete[open_] = parts[found]
        done[open_] += events.nr[parts[found]]
        open_ = open_[done[open_] < rows.nr[open_]]
    complete[(rows.complete >= 0) & (done < rows.nr)] = NONE
    alone = np.setdiff1d(alone, parts[taken])

    flush = events.nr[alone] == 0
    unseen = np.full(alone.size, NONE)
    return _Rows(
        dev=np.append(rows.dev, events.dev[alone]),
        sector=np.append(rows.sector, np.where(flush, NONE, events.sector[alone])),
        nr=np.append(rows.nr, events.nr[alone]),
        op=np.append(rows.op, events.op[alone]),
        flush=np.append(rows.flush, flush),
        first_issue=np.append(rows.first_issue, unseen),
        issue=np.append(rows.issue, unseen),
        complete=np.append(complete, alone),
        queue=np.append(rows.queue, unseen),
        requeued=np.append(rows.requeued, np.zeros(alone.size, np.bool_)),
    )


def _first_after(places: Int64s, events: Int64s, place: Int64s, after: Int64s) -> Int64s:
    """For each `place` (a column of coordinates) the first of `events` there that comes later than `after`, or -1.

    `places` has a column for each event; both are sorted by place and then by event.
    """
    _, number = np.unique(np.concatenate([places, place], axis=1), axis=1, return_inverse=True)
    count = events.size
    base = np.int64(max(events.max(), after.max(initial=0)) + 2)
    keys = number[:count] * base + events
    at = np.searchsorted(keys, number[count:] * base + after, "right")
    there = at < count
    there[there] = number[:count][at[there]] == number[count:][there]
    return np.where(there, at, NONE)


# --------------------------------------------------------------------------------------------------------------- bios


def _attach_bios(events: _Events, rows: _Rows) -> tuple[_Rows, intervals.Pieces]:
    """Cut every request into its bios; a bio that reached no request becomes a request that was never completed.

    In the pieces returned, `query` is the row and `row` the position of the queue event (-1: none was seen).
    """
    bios = events.at("queue")
    bios = bios[events.nr[bios] > 0]
    at = np.flatnonzero(rows.nr > 0)
    left = rows.time(events.ts)[at]
    space, sector, nr, ts = (column[bios] for column in (events.space, events.sector, events.nr, events.ts))

    # Backward: the bio last queued for each sector of a request. Forward: the first request that covers a bio's
    # sectors after it, which keeps a bio of an earlier request out of a later one whose own bio was lost. Time runs
    # backward in the second join, so that the latest row begun is the first request to come.
    cut = intervals.stab(
        intervals.Queries(rows.space[at], rows.sector[at], rows.nr[at], left),
        intervals.Rows(space, sector, nr, ts, np.full(bios.size, FOREVER)),
    )
    reached = intervals.stab(
        intervals.Queries(space, sector, nr, -ts),
        intervals.Rows(rows.space[at], rows.sector[at], rows.nr[at], -left, np.full(at.size, FOREVER)),
    )
    width = np.int64(bios.size + 1)
    both = np.isin(cut.query * width + cut.row, reached.row * width + reached.query)
    bio = np.where(both & (cut.row >= 0), np.append(bios, NONE)[cut.row], NONE)

    stranded = np.setdiff1d(bios, bio)
    unseen = np.full(stranded.size, NONE)
    rows = _Rows(
        dev=np.append(rows.dev, events.dev[stranded]),
        sector=np.append(rows.sector, events.sector[stranded]),
        nr=np.append(rows.nr, events.nr[stranded]),
        op=np.append(rows.op, events.op[stranded]),
        flush=np.append(rows.flush, np.zeros(stranded.size, np.bool_)),
        first_issue=np.append(rows.first_issue, unseen),
        issue=np.append(rows.issue, unseen),
        complete=np.append(rows.complete, unseen),
        queue=np.append(rows.queue, stranded),
        requeued=np.append(rows.requeued, np.zeros(stranded.size, np.bool_)),
    )
    new = np.arange(rows.dev.size - stranded.size, rows.dev.size)
    pieces = intervals.Pieces(
        query=np.append(at[cut.query], new),
        row=np.append(bio, stranded),
        start=np.append(cut.start, events.sector[stranded]),
        length=np.append(cut.length, events.nr[stranded]),
    )
    return rows, pieces


def _insert_times(events: _Events, rows: _Rows, first_bio: Int64s) -> Int64s:
    """When each issued request was inserted into the scheduler, or -1.

    Of several inserted requests that were merged into one, the first; one inserted before the request's first bio was
    queued belongs to another request.
    """
    inserts = events.at("insert")
    inserts = inserts[events.nr[inserts] > 0]
    at = np.flatnonzero((rows.nr > 0) & (rows.issue >= 0))
    found = intervals.stab(
        intervals.Queries(rows.space[at], rows.sector[at], rows.nr[at], events.ts[rows.issue[at]]),
        intervals.Rows(
            events.space[inserts], events.sector[inserts], events.nr[inserts], events.ts[inserts],
            np.full(inserts.size, FOREVER),
        ),
    )  # fmt: skip
    seen = found.row >= 0
    row, ts = at[found.query[seen]], events.ts[inserts[found.row[seen]]]
    own = (first_bio[row] < 0) | (ts >= events.ts[first_bio[row]])
    times = np.full(rows.dev.size, FOREVER)
    np.minimum.at(times, row[own], ts[own])
    return np.where(times == FOREVER, NONE, times)


# ------------------------------------------------------------------------------------------------------------- tables


def _tables(
    block: pl.DataFrame,
    decoded: pl.DataFrame,
    events: _Events,
    rows: _Rows,
    pieces: intervals.Pieces,
    devices: Sequence[Device],
) -> Linked:
    """The tables that `link` returns, from rows and pieces."""
    count = rows.dev.size
    with_bio = np.flatnonzero(pieces.row >= 0)
    row, bio = pieces.query[with_bio], pieces.row[with_bio]
    first_bio = rows.queue.copy()
    by_time = np.lexsort((-bio, row))  # positions follow time: the last assignment is the earliest bio
    first_bio[row[by_time]] = bio[by_time]
    pairs = np.unique(np.stack([row, bio]), axis=1)
    bios_of_row = np.bincount(pairs[0], minlength=count)
    rows_of_bio = np.bincount(pairs[1], minlength=events.ts.size)
    split = np.zeros(count, np.bool_)
    split[pairs[0][rows_of_bio[pairs[1]] > 1]] = True

    shown = _first_seen(rows.issue, first_bio, rows.complete)
    flags = {}
    for name in rwbs.FLAGS:
        letters = decoded[name].to_numpy()
        flag = letters[shown]
        np.logical_or.at(flag, row, letters[bio])
        flags[name] = flag

    part_dev, part_offset = _origins(block, events, first_bio, rows, devices)
    has_sector = rows.nr > 0
    ids = np.empty(count, np.int64)
    order = np.lexsort((shown, events.ts[_first_seen(rows.issue, first_bio, rows.complete)]))
    ids[order] = np.arange(count)
    matched = np.select(
        [rows.complete < 0, rows.issue < 0, rows.requeued, split],
        ["no_complete", "no_issue", "requeued", "split"],
        "full",
    )
    insert_ns = _insert_times(events, rows, first_bio)
    requests = pl.DataFrame(
        {
            "request_id": ids,
            "dev": rows.dev,
            "part_dev": part_dev,
            "sector": _nullable(rows.sector, has_sector),
            "part_sector": _nullable(rows.sector - part_offset, has_sector),
            "nr_sectors": rows.nr,
            "op": pl.Series(np.where(rows.flush, "flush", decoded["op"].cast(pl.String).to_numpy()[shown])),
            **flags,
            "prio": pl.Series([None] * count, dtype=pl.Boolean),
            "swap": pl.Series([None] * count, dtype=pl.Boolean),
            "rwbs": _gather(block["rwbs"], shown),
            "queue_ns": _gather(block["ts_ns"], first_bio),
            "insert_ns": _nullable(insert_ns, insert_ns >= 0),
            "issue_ns": _gather(block["ts_ns"], rows.issue),
            "complete_ns": _gather(block["ts_ns"], rows.complete),
            "nr_bios": bios_of_row,
            "submit_tid": _gather(block["tid"], first_bio),
            "submit_pid": _gather(block["pid"], first_bio),
            "submit_comm": _gather(block["comm"], first_bio),
            "cpu": _gather(block["cpu"], shown),
            "error": _gather(block["error"], rows.complete),
            "matched": matched,
        }
    )
    bios = pl.DataFrame(
        {
            "request_id": ids[pieces.query],
            "sector": pieces.start,
            "nr_sectors": pieces.length,
            "queue_ns": _gather(block["ts_ns"], pieces.row),
            "submit_tid": _gather(block["tid"], pieces.row),
            "submit_pid": _gather(block["pid"], pieces.row),
            "submit_comm": _gather(block["comm"], pieces.row),
        }
    )
    stated = _first_seen(rows.issue, rows.complete, first_bio)
    recorded = pl.DataFrame(
        {
            "request_id": ids,
            "block_type": _gather(block["block_type"], stated),
            "path": _gather(block["path"], stated),
        }
    ).filter(pl.col("block_type").is_not_null())
    want = schema.table("requests").polars
    requests = requests.with_columns(pl.col(name).cast(want[name]) for name in requests.columns)
    return Linked(
        requests=schema.conform(requests.sort("request_id"), "requests"),
        bios=bios.sort("request_id", "sector"),
        recorded=recorded.sort("request_id"),
    )


def _nullable(values: Int64s, known: Bools) -> pl.Series:
    """The values as a series, null where they are not known."""
    return pl.Series(values).set(pl.Series(~known), None)


def _gather(series: pl.Series, positions: Int64s) -> pl.Series:
    """Elements at these positions; null at -1."""
    return series.gather(pl.Series(positions).set(pl.Series(positions < 0), None))


def _origins(
    block: pl.DataFrame, events: _Events, first_bio: Int64s, rows: _Rows, devices: Sequence[Device]
) -> tuple[Int64s, Int64s]:
    """For each row the topmost device its bio came from, and how far that device's sector 0 lies into `dev`.

    Remap events say so for the sectors of a bio; the topology of the capture fills in where there are none.
    """
    remaps = block.filter(pl.col("action") == "remap", pl.col("old_dev").is_not_null()).select(
        "ts_ns", "dev", "sector", "old_dev", "old_sector"
    )
    event = _first_seen(first_bio, rows.first_issue, rows.complete)
    place = pl.DataFrame(
        {
            "row": np.arange(event.size),
            "ts_ns": events.ts[event],
            "dev": pl.Series(rows.dev, dtype=pl.UInt32),
            "sector": events.sector[event],
        }
    ).sort("ts_ns")
    for _ in range(_MAX_LAYERS):
        above = place.join_asof(remaps, on="ts_ns", by=["dev", "sector"], check_sortedness=False)
        if not above["old_dev"].count():
            break
        place = above.select(
            "row", "ts_ns", dev=pl.coalesce("old_dev", "dev"), sector=pl.coalesce("old_sector", "sector")
        )
    place = place.sort("row")
    dev, offset = _array(place["dev"]), events.sector[event] - _array(place["sector"])
    for device in devices:
        if device.parent is not None:
            inside = (dev == device.parent) & (rows.sector - offset >= device.start_sector)
            inside &= rows.sector - offset < device.start_sector + device.nr_sectors
            dev = np.where(inside, device.dev, dev)
            offset = np.where(inside, offset + device.start_sector, offset)
    return dev, offset


_MAX_LAYERS = 8
"""Devices stacked on each other that are followed; phones stack three (partition, dm-default-key, dm-linear)."""
