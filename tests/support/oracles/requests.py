"""Link block events to requests sector by sector with plain dicts: the oracle of the linker.

It follows the rules of androstep_analysis/link/requests/RULES.md one by one, keeps everything in memory and is slow.
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
from androstep_analysis.link.requests.layers import Layer

Row = dict[str, Any]

SUBMITTER = ("tid", "pid", "comm")

OPERATIONS = tuple(schema.enum("requests", "op").categories)

MAX_WAITING = 8

FITS_IN_PART, FITS_RETURNED, FITS_STARTED, FITS = range(1, 5)


@dataclass(eq=False)
class Bio:
    at: int
    row: Row
    origin: tuple[int, int]
    waiting: int
    queued: Row
    """When and by whom it was queued, also if that was on a device above."""
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
    parts: list[tuple[int, Row]] = field(default_factory=list)
    """Its completions so far, while it is incomplete."""
    issues: list[tuple[int, Row]] = field(default_factory=list)
    """Earlier issues that may belong to another request."""
    insert_ns: int | None = None
    moved: int = 0
    """From the sector of the issue to that of the completion, for a zone append."""
    is_latest: bool = True
    is_returned: bool = False
    is_requeued: bool = False
    is_split: bool = False
    is_interchangeable: bool = False

    @property
    def done(self) -> int:
        return sum(row["nr_sectors"] for _, row in self.parts)

    @property
    def first(self) -> tuple[int, Row, tuple[int, int], Row] | None:
        bios = [bio for bio in self.bios if bio is not None]
        return min(
            ((bio.at, bio.row, bio.origin, bio.queued) for bio in bios), key=lambda bio: bio[0], default=self.asked
        )


class Oracle:
    """Links rows of table block_events, in order of time."""

    def __init__(self, rows: Iterable[Row], devices: Sequence[Device] = (), layers: Sequence[Layer] = ()) -> None:
        """Link the rows. `layers` are the certain ones; their inference has separate tests."""
        self.devices = [*devices, *(Device(layer.dev, layer.below, layer.offset, layer.nr_sectors) for layer in layers)]
        rows = [{**row, "dev": row["dev"] or 0, **_sectors(row)} for row in rows]
        stacked = _stacked(rows) | {layer.dev for layer in layers}
        self.has = Counter((row["dev"], row["action"]) for row in rows)
        self.has_bios = {row["dev"] for row in rows if row["action"] == "queue" and row["nr_sectors"]}
        self.has_flushes = {row["dev"] for row in rows if row["action"] == "issue" and _op(row) == "flush"}
        self.requests: list[Request] = []
        self.waiting: defaultdict[tuple[int, str, int], list[Bio]] = defaultdict(list)
        self.inserts: dict[tuple[int, str, int], int] = {}
        self.open: defaultdict[tuple[Any, ...], list[Request]] = defaultdict(list)
        self.twins: defaultdict[tuple[Any, ...], list[Request]] = defaultdict(list)
        self.remaps: dict[tuple[int, int], tuple[int, int]] = {}
        self.above: dict[tuple[int, str, int], Row] = {}
        for at, row in enumerate(rows):
            if row["action"] == "remap":
                self.remap(row)
            elif row["dev"] in stacked and row["action"] == "queue":
                self.queue_above(row)
            elif row["dev"] not in stacked and row["action"] in ("queue", "insert", "issue", "requeue", "complete"):
                getattr(self, row["action"])(at, row)
        for bio in {bio.at: bio for bios in self.waiting.values() for bio in bios}.values():
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
            before = self.waiting[_places(row)[0]][-1:]
            for place in _places(row):
                waiting = self.waiting[place]
                if before and before[0] in waiting and _is_remainder(row, before[0].row):
                    self.leave(waiting.pop(waiting.index(before[0])))
                waiting.append(bio)
                if len(waiting) > MAX_WAITING:
                    self.leave(waiting.pop(0))
        elif self.is_end_of_sequence(row):
            request = self.new(row, asked=(at, row, self.origin(row), row))
            if self.has[row["dev"], "complete"]:
                self.open[_key(row)].append(request)

    def queue_above(self, row: Row) -> None:
        before = [self.above[place] for place in _places(row) if place in self.above]
        queued = {**row, "is_disputed": any(other["is_disputed"] or other["tid"] != row["tid"] for other in before)}
        self.above.update(dict.fromkeys(_places(row), queued))

    def handed_on(self, row: Row) -> Row:
        """Return when and by whom the bio was queued on the device above if that is recorded; else here."""
        dev, offset = self.in_partition(row["sector"], self.origin(row))
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
        request = self.open_for(stack, row, is_returned=True)
        if row["nr_sectors"]:
            self.twins[_key(row)].clear()
        has_requeues = self.has[row["dev"], "requeue"] > 0
        waiting = self.waiting[row["dev"], _op(row), row["sector"]] if row["nr_sectors"] else []
        may_be_new = not has_requeues and waiting and waiting[-1].row["sector"] == row["sector"]
        if not may_be_new and (rest := self.rest_of(row, is_returned=has_requeues)):
            rest.issue, rest.is_requeued, rest.is_returned = (at, row), True, False
            return
        if request and self.is_again(request, row):
            if request.is_returned or not row["nr_sectors"]:
                request.is_requeued = True
            else:
                assert request.issue is not None
                request.issues.append(request.issue)
            self.resize(request, row)
        else:
            request = self.new(row, sector=row["sector"] if row["nr_sectors"] else None, origin=self.origin(row))
            self.take(request, row["nr_sectors"], row["tid"])
            if self.has[row["dev"], "complete"] + self.has[row["dev"], "requeue"]:
                stack.append(request)
        request.issue = at, row
        request.is_latest, request.is_returned = True, False
        since = request.first[1]["ts_ns"] if request.first else -(1 << 63)
        times = [self.inserts[place] for place in self.places(request) if place in self.inserts]
        request.insert_ns = min((time for time in times if time >= since), default=None)

    def open_for(self, stack: list[Request], row: Row, *, is_returned: bool) -> Request | None:
        """Return the request that an issue or a requeue may belong to."""

        def rank(request: Request) -> int:
            if request.is_returned != is_returned:
                return 0
            if row["nr_sectors"]:
                return 1 + (len(request.bios) == row["nr_sectors"])
            return 1 + (request.issue is not None and request.issue[1]["cpu"] == row["cpu"])

        return max(reversed(stack), key=rank, default=None)

    def is_again(self, request: Request, row: Row) -> bool:
        if not row["nr_sectors"]:
            return request.is_returned
        assert request.issue is not None
        waiting = self.waiting[row["dev"], _op(row), row["sector"]]
        if request.parts:
            return False
        if _op(row) == "zone":
            return request.is_returned and len(request.bios) == row["nr_sectors"]
        if request.is_returned:
            return not waiting or waiting[-1].at < request.issue[0]
        is_plausible = row["dev"] in self.has_bios or self.has[row["dev"], "complete"] > 0
        return request.is_latest and len(request.bios) == row["nr_sectors"] and not waiting and is_plausible

    def rest_of(self, row: Row, *, is_returned: bool) -> Request | None:
        """Return the request that is completed except for the sectors of the row."""
        exact = (rest for rest in self.rests(row) if len(rest.bios) - rest.done == row["nr_sectors"])
        return next((rest for rest in exact if rest.is_returned == is_returned), None)

    def taking_part(self, row: Row) -> Request | None:
        """Return the request of the last partial completion before the row's sector, by its remaining length."""
        other = next(iter(self.rests({**row, "nr_sectors": 1}) if row["nr_sectors"] else ()), None)
        if other is None or other.is_returned or len(other.parts) > 1:
            return None
        opened = reversed(self.open[_key({**row, "sector": other.sector})])
        left = row["nr_sectors"] + other.done
        request = next((one for one in opened if not one.parts and len(one.bios) == left), None)
        if request:
            request.parts, other.parts = other.parts, []
        return request

    def requeue(self, _at: int, row: Row) -> None:
        if rest := self.rest_of(row, is_returned=False) or self.taking_part(row):
            rest.is_returned = True
            return
        request = self.open_for(self.open[_key(row)], row, is_returned=False)
        if request and (row["nr_sectors"] or _op(row) == "flush"):
            request.is_requeued |= request.is_latest
            request.is_returned = True

    def complete(self, at: int, row: Row) -> None:
        if row["is_whole"]:
            issued = self.open[row["dev"], "sectors", _op(row), row["sector"]][-1:]
            row = {**row, "nr_sectors": sum(len(request.bios) for request in issued)}
        if not row["nr_sectors"] and _op(row) != "flush" and not self.is_end_of_sequence(row):
            return
        if row["nr_sectors"] and row["rwbs"] is None:
            row = {**row, "operation": self.completed_operation(row)}
        stack = self.open[_key(row)]
        fitting = [(fit, request) for request in reversed(stack) if (fit := _fit(request, row))]
        fit, request = max(fitting, key=lambda pair: pair[0], default=((0, False), None))
        rests = self.rests(row)
        exact = [rest for rest in rests if len(rest.bios) - rest.done == row["nr_sectors"]]
        exact.sort(key=lambda rest: rest.is_returned)
        if fit >= (FITS, False) and not (exact and request and _is_issued_later(exact[0], request)):
            rests, exact = [], []
        equal = [o for other_fit, o in fitting if request and other_fit == fit and len(o.bios) == len(request.bios)]
        twins = [twin for twin in self.twins[_key(row)] if twin.issues and len(twin.bios) == row["nr_sectors"]]
        if twins and not rests and fit < (FITS_RETURNED, False):
            self.complete_twin(twins[-1], at, row)
        elif exact or (rests and fit < (FITS_RETURNED, False)):
            self.complete_part(stack, (exact or rests)[0], at, row)
        elif request is None and (append := self.append(row)):
            append.moved = row["sector"] - append.sector
            self.close(self.open[_key({**row, "sector": append.sector})], append, at, row)
        elif request is None:
            self.complete_alone(at, row)
        elif fit[0] == FITS_IN_PART:
            self.mark(equal)
            self.complete_part(stack, request, at, row)
        else:
            self.mark(equal)
            for part in request.parts:
                self.complete_alone(*part)
            self.close(self.open[_key(row)], request, at, row)

    def mark(self, equal: list[Request]) -> None:
        """Mark requests of which any one may have been completed."""
        for request in equal:
            request.is_interchangeable |= len(equal) > 1

    def append(self, row: Row) -> Request | None:
        """Return the zone append that a completion at another sector belongs to."""
        if not row["nr_sectors"] or _op(row) != "zone":
            return None
        appends = [
            request
            for key, stack in self.open.items()
            if len(key) == 4 and (key[0], key[2]) == (row["dev"], "zone") and key[3] <= row["sector"]
            for request in stack
            if len(request.bios) == row["nr_sectors"] and not request.is_returned
        ]
        found = max(appends, key=lambda request: (request.sector, -(request.issue or (0,))[0]), default=None)
        self.mark([request for request in appends if found and request.sector == found.sector])
        return found

    def completed_operation(self, row: Row) -> str:
        """Return the operation of a completion that does not record it."""
        found = [
            (fit[0], request.issue[0], operation)
            for operation in OPERATIONS
            for request in self.open[row["dev"], "sectors", operation, row["sector"]]
            if request.issue and (fit := _fit(request, row))
        ]
        if found:
            return max(found)[2]
        bios = [
            (bios[-1].at, operation)
            for operation in OPERATIONS
            if (bios := self.waiting[row["dev"], operation, row["sector"]])
        ]
        return max(bios)[1] if bios else "other"

    def rests(self, row: Row) -> list[Request]:
        """Return the partly completed requests whose rest begins at the row's sector and is long enough, last first."""
        if not row["nr_sectors"]:
            return []
        rests = [
            request
            for (dev, *_, operation, _), stack in ((key, stack) for key, stack in self.open.items() if len(key) == 4)
            if (dev, operation) == (row["dev"], _op(row))
            for request in stack
            if request.parts
            and (request.sector or 0) + request.done == row["sector"]
            and len(request.bios) - request.done >= row["nr_sectors"]
        ]
        return sorted(rests, key=lambda request: request.parts[-1][0], reverse=True)

    def complete_alone(self, at: int, row: Row) -> None:
        request = self.new(row, sector=row["sector"] if row["nr_sectors"] else None, origin=self.origin(row))
        request.complete = at, row
        self.take(request, row["nr_sectors"], None)

    def complete_twin(self, twin: Request, at: int, row: Row) -> None:
        """Complete a request a second time: its two issues were two requests."""
        request = self.new(row, sector=twin.sector, origin=twin.origin)
        request.issue, request.complete = twin.issues.pop(), (at, row)
        request.is_interchangeable = twin.is_interchangeable = True
        self.take(request, row["nr_sectors"], None)
        self.forget_inserts(request)

    def complete_part(self, stack: list[Request], request: Request, at: int, row: Row) -> None:
        request.parts.append((at, row))
        if request.done == len(request.bios):
            self.close(self.open[request.row["dev"], "sectors", _op(row), request.sector], request, at, row)

    def close(self, stack: list[Request], request: Request, at: int, row: Row) -> None:
        if stack[-1] is request:
            for below in stack[-2:-1]:
                below.is_latest = False
        else:
            stack[-1].is_latest = False
        stack.remove(request)
        request.complete = at, row
        request.parts = []
        if row["nr_sectors"]:
            self.forget_inserts(request)
            if request.issues:
                self.twins[_key({**row, "sector": request.sector})].append(request)

    def forget_inserts(self, request: Request) -> None:
        assert request.issue is not None
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

    def take(self, request: Request, count: int, tid: int | None) -> None:
        """Grow the request to `count` sectors; the new sectors take the bios that wait for them."""
        had = len(request.bios)
        request.bios += [None] * (count - had)
        for at, place in list(enumerate(self.places(request)))[had:]:
            waiting = self.waiting[place]
            if not waiting:
                continue
            before = request.bios[at - 1] if at else None
            of_tid = [bio for bio in waiting if tid is not None and bio.queued["tid"] == tid]
            bio = before if before in waiting else (of_tid or waiting)[-1]
            assert bio is not None
            waiting.remove(bio)
            request.bios[at] = bio
            if request not in bio.takers:
                bio.takers.append(request)
                for taker in bio.takers if len(bio.takers) > 1 else ():
                    taker.is_split = True
            self.leave(bio)

    def resize(self, request: Request, row: Row) -> None:
        if row["nr_sectors"] >= len(request.bios):
            self.take(request, row["nr_sectors"], row["tid"])
            return
        places = self.places(request)
        cut = list(zip(places, request.bios, strict=True))[row["nr_sectors"] :]
        request.bios = request.bios[: row["nr_sectors"]]
        for bio, run in groupby(cut, key=lambda piece: piece[1]):
            if bio is None:
                continue
            given_up = [place for place, _ in run]
            if not any(self.waiting[place] for place in given_up):
                for place in given_up:
                    self.waiting[place] = [bio]
                bio.waiting += len(given_up)
            if bio.takers == [request] and bio not in request.bios:
                bio.takers = []
                if not bio.waiting:
                    self.strand(bio)

    def leave(self, bio: Bio) -> None:
        """Remove one sector of the bio from the waiting ones."""
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
        """Return tables requests and bios."""
        rows = sorted(((*self.row(request), request) for request in self.requests), key=lambda row: row[0])
        requests = [{"request_id": number, **row} for number, (_, row, _) in enumerate(rows)]
        bios = [
            {"request_id": number, **piece} for number, (_, _, request) in enumerate(rows) for piece in _pieces(request)
        ]
        return _table("requests", requests), _table("bios", bios)

    def row(self, request: Request) -> tuple[int, Row]:
        """Return the index of the event that determines the request's order, and its row of table requests."""
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
        elif request.is_interchangeable:
            matched = "interchangeable"
        else:
            matched = "requeued" if request.is_requeued or request.issues else "split" if request.is_split else "full"
        row = {
            "dev": request.row["dev"],
            "part_dev": dev,
            "sector": request.sector + request.moved if count and request.sector is not None else None,
            "part_sector": request.sector + request.moved - offset if count and request.sector is not None else None,
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
        return self.in_partition(request.sector, origin if any(origin) else (request.row["dev"], 0))

    def in_partition(self, sector: int | None, origin: tuple[int, int]) -> tuple[int, int]:
        dev, offset = origin
        for device in self.devices:
            if sector is not None and dev == device.parent:
                place = sector - offset
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
    return row.get("operation") or rwbs.meaning(row["rwbs"] or "").op


def _key(row: Row) -> tuple[Any, ...]:
    """Return the key that pairs issue and completion."""
    if row["nr_sectors"]:
        return row["dev"], "sectors", _op(row), row["sector"]
    return (row["dev"], "flush") if _op(row) == "flush" else (row["dev"], "empty", row["sector"])


def _fit(request: Request, row: Row) -> tuple[int, bool] | None:
    """Return how well an open request fits a completion at its first sector, and whether its letters or CPU match."""
    same = "cpu" if _op(row) == "flush" and not row["nr_sectors"] else "rwbs"
    is_alike = request.issue is not None and request.issue[1][same] == row[same]
    if not row["nr_sectors"]:
        is_flush = _op(row) == "flush"
        return (FITS_RETURNED if is_flush and request.is_returned else FITS), is_alike
    if len(request.bios) == row["nr_sectors"]:
        return (FITS_STARTED if request.parts else FITS_RETURNED if request.is_returned else FITS), is_alike
    is_part = len(request.bios) > row["nr_sectors"] and not request.parts and _op(row) != "zone"
    return (FITS_IN_PART, is_alike) if is_part else None


def _is_remainder(row: Row, whole: Row) -> bool:
    """Return whether a bio is the queued remainder of another bio's split."""
    return (
        row["tid"] is not None
        and row["tid"] == whole["tid"]
        and whole["sector"] < row["sector"]
        and whole["sector"] + whole["nr_sectors"] == row["sector"] + row["nr_sectors"]
    )


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
    """Return table `name` from rows with the same subset of its columns."""
    types = schema.table(name).polars
    known = {column: types[column] for column in types if rows and column in rows[0]}
    return schema.complete(pl.DataFrame(rows, schema=known), name)


def _is_issued_later(rest: Request, other: Request) -> bool:
    """Return whether the remainder of `rest` was issued again, later than `other`."""
    others = max(rest.parts[-1][0], other.issue[0] if other.issue else -1)
    return rest.issue is not None and rest.issue[0] > others


def _pieces(request: Request) -> Iterable[Row]:
    sector = None if request.sector is None else request.sector + request.moved
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
