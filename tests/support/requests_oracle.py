"""The linker of block events to requests once more, sector by sector and with nothing but dicts: the test's oracle.

It follows the rules of androstep_analysis/link/requests/__init__.py one by one, keeps everything in memory and is slow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import polars as pl

from androstep_analysis import schema
from androstep_analysis.link.requests import Device, rwbs

Row = dict[str, Any]

SUBMITTER = ("tid", "pid", "comm")


@dataclass(eq=False)
class Bio:
    at: int
    row: Row
    origin: tuple[int, int]
    waiting: int
    queued: Row
    """When and by whom, also where that was on a device above."""
    takers: list[Request] = field(default_factory=list)


@dataclass(eq=False)
class Request:
    row: Row
    sector: int | None = None
    bios: list[Bio | None] = field(default_factory=list)
    """The bio of each sector."""
    asked: tuple[int, Row, tuple[int, int], Row] | None = None
    """The empty bio that it was made from, for requests without sectors."""
    issue: tuple[int, Row] | None = None
    complete: tuple[int, Row] | None = None
    origin: tuple[int, int] = (0, 0)
    done: int = 0
    insert_ns: int | None = None
    is_latest: bool = True
    is_returned: bool = False
    is_requeued: bool = False
    is_split: bool = False

    @property
    def first(self) -> tuple[int, Row, tuple[int, int], Row] | None:
        bios = [bio for bio in self.bios if bio is not None]
        return min(
            ((bio.at, bio.row, bio.origin, bio.queued) for bio in bios), key=lambda bio: bio[0], default=self.asked
        )


class Oracle:
    """Links rows of table block_events, in order of time."""

    def __init__(self, rows: Iterable[Row], devices: Sequence[Device] = ()) -> None:
        self.devices = devices
        rows = [{**row, "dev": row["dev"] or 0, **_sectors(row)} for row in rows]
        stacked = _stacked(rows)
        self.has = Counter((row["dev"], row["action"]) for row in rows)
        self.has_bios = {row["dev"] for row in rows if row["action"] == "queue" and row["nr_sectors"]}
        self.has_flushes = {row["dev"] for row in rows if row["action"] == "issue" and _op(row) == "flush"}
        self.requests: list[Request] = []
        self.waiting: dict[tuple[int, str, int], Bio] = {}
        self.inserts: dict[tuple[int, str, int], int] = {}
        self.open: defaultdict[tuple[Any, ...], list[Request]] = defaultdict(list)
        self.rest: defaultdict[tuple[int, str, int], list[Request]] = defaultdict(list)
        self.remaps: dict[tuple[int, int], tuple[int, int]] = {}
        self.above: dict[tuple[int, str, int], Row] = {}
        for at, row in enumerate(rows):
            if row["action"] == "remap":
                self.remap(row)
            elif row["dev"] in stacked and row["action"] == "queue":
                self.queue_above(row)
            elif row["dev"] not in stacked and row["action"] in ("queue", "insert", "issue", "requeue", "complete"):
                getattr(self, row["action"])(at, row)
        for request in [request for stack in self.rest.values() for request in stack]:
            request.complete = None
        for bio in {bio.at: bio for bio in self.waiting.values()}.values():
            self.settle(bio)

    def remap(self, row: Row) -> None:
        if row["old_dev"] is not None and row["sector"] is not None:
            old_sector = row["sector"] if row["old_sector"] is None else row["old_sector"]
            self.remaps[row["dev"], row["sector"]] = row["old_dev"], old_sector

    def origin(self, row: Row) -> tuple[int, int]:
        place = row["dev"], row["sector"]
        for _ in range(8):
            place = self.remaps.get(place, place)
        return place[0], (row["sector"] or 0) - (place[1] or 0)

    def is_end_of_sequence(self, row: Row) -> bool:
        return _op(row) == "write" and not row["nr_sectors"] and row["dev"] not in self.has_flushes

    def queue(self, at: int, row: Row) -> None:
        if row["nr_sectors"]:
            bio = Bio(at, row, self.origin(row), row["nr_sectors"], self.handed_on(row))
            if not self.has[row["dev"], "issue"] + self.has[row["dev"], "complete"]:
                self.strand(bio)
                return
            for place in _places(row):
                if place in self.waiting:
                    self.leave(self.waiting[place])
                self.waiting[place] = bio
        elif self.is_end_of_sequence(row):
            request = self.new(row, asked=(at, row, self.origin(row), row))
            if self.has[row["dev"], "complete"]:
                self.open[_key(row)].append(request)

    def queue_above(self, row: Row) -> None:
        before = [self.above[place] for place in _places(row) if place in self.above]
        queued = {**row, "is_disputed": any(other["is_disputed"] or other["tid"] != row["tid"] for other in before)}
        self.above.update(dict.fromkeys(_places(row), queued))

    def handed_on(self, row: Row) -> Row:
        """When and by whom the bio was queued on the device above, where that is told; else here."""
        dev, offset = self.origin(row)
        above = [
            self.above.pop(place, None) for place in _places({**row, "dev": dev, "sector": row["sector"] - offset})
        ]
        queued = (dev != row["dev"] and above[0]) or row
        is_disputed = queued.get("is_disputed", False)
        return {"ts_ns": queued["ts_ns"], **{name: None if is_disputed else queued[name] for name in SUBMITTER}}

    def insert(self, _at: int, row: Row) -> None:
        if self.has[row["dev"], "issue"]:
            self.inserts |= dict.fromkeys(_places(row), row["ts_ns"])

    def issue(self, at: int, row: Row) -> None:
        if not row["nr_sectors"] and _op(row) != "flush":
            return
        stack = self.open[_key(row)]
        self.raise_flush(stack, row, is_returned=True)
        if stack and self.is_again(stack[-1], row):
            request = stack[-1]
            request.is_requeued = True
            self.resize(request, row)
        else:
            request = self.new(row, sector=row["sector"] if row["nr_sectors"] else None, origin=self.origin(row))
            self.take(request, row["nr_sectors"])
            if self.has[row["dev"], "complete"] + self.has[row["dev"], "requeue"]:
                stack.append(request)
        request.issue = at, row
        request.is_latest, request.is_returned = True, False
        since = request.first[1]["ts_ns"] if request.first else -(1 << 63)
        times = [self.inserts[place] for place in self.places(request) if place in self.inserts]
        request.insert_ns = min((time for time in times if time >= since), default=None)

    def is_again(self, request: Request, row: Row) -> bool:
        if not row["nr_sectors"]:
            return request.is_returned
        if not request.is_latest or _op(request.row) != _op(row):
            return False
        assert request.issue is not None
        if row["dev"] in self.has_bios:
            bio = self.waiting.get((row["dev"], _op(row), row["sector"]))
            return bio is None or bio.at < request.issue[0]
        same = len(request.bios) == row["nr_sectors"] and self.has[row["dev"], "complete"] > 0
        return request.is_returned or same

    def requeue(self, _at: int, row: Row) -> None:
        stack = self.open[_key(row)]
        if stack and (row["nr_sectors"] or _op(row) == "flush"):
            self.raise_flush(stack, row, is_returned=False)
            stack[-1].is_requeued |= stack[-1].is_latest
            stack[-1].is_returned = True

    def complete(self, at: int, row: Row) -> None:
        if row["is_whole"]:
            issued = self.open[row["dev"], "sectors", row["sector"]][-1:]
            row = {**row, "nr_sectors": sum(len(request.bios) for request in issued if _op(request.row) == _op(row))}
        if not row["nr_sectors"] and _op(row) != "flush" and not self.is_end_of_sequence(row):
            return
        stack = self.open[_key(row)]
        if stack:
            self.raise_flush(stack, row, is_returned=False)
            request = stack.pop()
            for below in stack[-1:] if row["nr_sectors"] or _op(row) != "flush" else ():
                below.is_latest = below.is_returned = False
            self.completed(request, at, row)
            return
        rest = self.rest[row["dev"], _op(row), row["sector"]] if row["nr_sectors"] else []
        if rest:
            request = rest.pop()
            if row["nr_sectors"] <= len(request.bios) - request.done:
                self.completed(request, at, row)
                return
            request.complete = None
        taken = row
        if row["rwbs"] is None and row["nr_sectors"]:
            bios = [
                bio for (dev, _, sector), bio in self.waiting.items() if (dev, sector) == (row["dev"], row["sector"])
            ]
            taken = {**row, "rwbs": max(bios, key=lambda bio: bio.at).row["rwbs"]} if bios else row
        request = self.new(taken, sector=row["sector"] if row["nr_sectors"] else None, origin=self.origin(row))
        request.complete = at, row
        self.take(request, row["nr_sectors"])

    def raise_flush(self, stack: list[Request], row: Row, *, is_returned: bool) -> None:
        """Puts last the flush that an event is of: the last that was requeued, or was not, and was issued on its CPU if
        there is any.
        """
        flushes = stack if not row["nr_sectors"] and _op(row) == "flush" else []
        fits = [request for request in flushes if request.is_returned == is_returned]
        of_cpu = [request for request in fits if request.issue and request.issue[1]["cpu"] == row["cpu"]]
        for request in (of_cpu or fits)[-1:]:
            at = next(at for at, other in enumerate(stack) if other is request)
            stack.append(stack.pop(at))

    def completed(self, request: Request, at: int, row: Row) -> None:
        request.complete = at, row
        request.done += row["nr_sectors"]
        if request.done < len(request.bios):
            assert request.sector is not None
            self.rest[row["dev"], _op(request.row), request.sector + request.done].append(request)
        elif request.issue is not None:
            times = [self.inserts[place] for place in self.places(request) if place in self.inserts]
            if max(times, default=0) <= request.issue[1]["ts_ns"]:
                for place in self.places(request):
                    self.inserts.pop(place, None)

    def new(self, row: Row, **known: Any) -> Request:
        self.requests.append(Request(row, **known))
        return self.requests[-1]

    def places(self, request: Request) -> list[tuple[int, str, int]]:
        first = request.sector or 0
        return [(request.row["dev"], _op(request.row), first + sector) for sector in range(len(request.bios))]

    def take(self, request: Request, count: int) -> None:
        """The request has `count` sectors now; those it had not take the bios that wait for them."""
        had = len(request.bios)
        request.bios += [None] * (count - had)
        for at, place in list(enumerate(self.places(request)))[had:]:
            bio = self.waiting.pop(place, None)
            if bio is None:
                continue
            request.bios[at] = bio
            if request not in bio.takers:
                bio.takers.append(request)
                for taker in bio.takers if len(bio.takers) > 1 else ():
                    taker.is_split = True
            self.leave(bio)

    def resize(self, request: Request, row: Row) -> None:
        if row["nr_sectors"] >= len(request.bios):
            self.take(request, row["nr_sectors"])
            return
        places = self.places(request)
        cut = list(zip(places, request.bios, strict=True))[row["nr_sectors"] :]
        request.bios = request.bios[: row["nr_sectors"]]
        for bio, run in groupby(cut, key=lambda piece: piece[1]):
            if bio is None:
                continue
            given_up = [place for place, _ in run]
            if not any(place in self.waiting for place in given_up):
                self.waiting |= dict.fromkeys(given_up, bio)
                bio.waiting += len(given_up)
            if bio.takers == [request] and bio not in request.bios:
                bio.takers = []
                if not bio.waiting:
                    self.strand(bio)

    def leave(self, bio: Bio) -> None:
        """One sector of the bio waits no longer."""
        bio.waiting -= 1
        if not bio.waiting:
            self.settle(bio)

    def settle(self, bio: Bio) -> None:
        if not bio.takers:
            self.strand(bio)

    def strand(self, bio: Bio) -> None:
        request = self.new(bio.row, sector=bio.row["sector"])
        request.bios = [bio] * bio.row["nr_sectors"]

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Tables requests and bios."""
        rows = sorted(((*self.row(request), request) for request in self.requests), key=lambda row: row[0])
        requests = [{"request_id": number, **row} for number, (_, row, _) in enumerate(rows)]
        bios = [
            {"request_id": number, **piece} for number, (_, _, request) in enumerate(rows) for piece in _pieces(request)
        ]
        return _table("requests", requests), _table("bios", bios)

    def row(self, request: Request) -> tuple[int, Row]:
        """The number of the event that tells the request's place in the order, and its row of table requests."""
        first = request.first
        shown = request.issue or first or request.complete
        assert shown is not None
        order = request.complete if request.issue is None and request.is_split else shown
        assert order is not None
        bios = {bio.at: bio for bio in request.bios if bio is not None}
        meanings = [rwbs.meaning(row["rwbs"] or "") for row in (shown[1], *(bio.row for bio in bios.values()))]
        dev, offset = self.on_partition(request, first[2] if first else request.origin)
        count = len(request.bios)
        if request.complete is None:
            matched = "no_complete"
        elif request.issue is None:
            matched = "no_issue"
        else:
            matched = "requeued" if request.is_requeued else "split" if request.is_split else "full"
        row = {
            "dev": request.row["dev"],
            "part_dev": dev,
            "sector": request.sector if count else None,
            "part_sector": request.sector - offset if count and request.sector is not None else None,
            "nr_sectors": count,
            "op": meanings[0].op if count else "flush",
            **{flag: any(getattr(meaning, flag) for meaning in meanings) for flag in rwbs.FLAGS},
            "rwbs": shown[1]["rwbs"],
            "queue_ns": first and first[1]["ts_ns"],
            "insert_ns": request.insert_ns,
            "issue_ns": request.issue and request.issue[1]["ts_ns"],
            "complete_ns": request.complete and request.complete[1]["ts_ns"],
            "nr_bios": len(bios),
            **{f"submit_{name}": first and first[3][name] for name in SUBMITTER},
            "cpu": shown[1]["cpu"],
            "error": request.complete and request.complete[1]["error"],
            "matched": matched,
        }
        return order[0], row

    def on_partition(self, request: Request, origin: tuple[int, int]) -> tuple[int, int]:
        dev, offset = origin if any(origin) else (request.row["dev"], 0)
        for device in self.devices:
            if request.sector is not None and dev == device.parent:
                place = request.sector - offset
                if device.start_sector <= place < device.start_sector + device.nr_sectors:
                    dev, offset = device.dev, offset + device.start_sector
        return dev, offset


def _sectors(row: Row) -> Row:
    has_sector = row["sector"] is not None
    return {
        "nr_sectors": max(row["nr_sectors"] or 0, 0) if has_sector else 0,
        "is_whole": has_sector and row["nr_sectors"] is None,
    }


def _op(row: Row) -> str:
    return rwbs.meaning(row["rwbs"] or "").op


def _key(row: Row) -> tuple[Any, ...]:
    """What issue and completion are paired by."""
    if row["nr_sectors"]:
        return row["dev"], "sectors", row["sector"]
    return (row["dev"], "flush") if _op(row) == "flush" else (row["dev"], "empty", row["sector"])


def _places(row: Row) -> list[tuple[int, str, int]]:
    return [(row["dev"], _op(row), row["sector"] + sector) for sector in range(row["nr_sectors"])]


def _stacked(rows: Iterable[Row]) -> set[int]:
    shown = {row["dev"] for row in rows if row["action"] in ("queue", "issue")}
    down = {(row["dev"], row["old_dev"]) for row in rows if row["action"] == "remap" and row["dev"] != row["old_dev"]}
    stacked: set[int] = set()
    for _ in down:
        stacked |= {above for below, above in down if below in shown | stacked and above is not None}
    return stacked


def _table(name: str, rows: list[Row]) -> pl.DataFrame:
    """Table `name` of rows that all have the same columns, and not all of the table's."""
    types = schema.table(name).polars
    known = {column: types[column] for column in types if rows and column in rows[0]}
    return schema.complete(pl.DataFrame(rows, schema=known), name)


def _pieces(request: Request) -> Iterable[Row]:
    sector = request.sector
    stated = request.issue or request.complete or request.first
    assert stated is not None
    for bio, run in groupby(request.bios):
        assert sector is not None
        count = len(list(run))
        row = bio.queued if bio else dict.fromkeys(("ts_ns", *SUBMITTER))
        queue_ns = bio and bio.row["ts_ns"]
        yield {
            "sector": sector,
            "nr_sectors": count,
            "queue_ns": queue_ns,
            "submit_ns": row["ts_ns"],
            **{f"submit_{name}": row[name] for name in SUBMITTER},
            "stated_type": stated[1]["block_type"],
            "stated_path": stated[1]["path"],
        }
        sector += count
