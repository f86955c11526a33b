"""Charge each written byte to a process and inode, in plain Python from schemas/definitions.toml alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]
Who = tuple[int | None, int | None]
"""Process and inode."""

SECTOR = 512
F2FS = ("f2fs_write_begin", "f2fs_new_inode", "f2fs_unlink_enter")
NEVER = 1 << 62
MOVER = "kworker/u4:1"


def cost(requests: list[Row], io: list[Row], events: list[Row]) -> Counter[tuple[int | None, int | None, str]]:
    """Return bytes by process, inode and part. Pieces (one per request) and events must be sorted by time."""
    of_request = {row["request_id"]: row for row in requests}
    pieces = [{**row, "part_dev": of_request[row["request_id"]]["part_dev"]} for row in io if row["bytes"] > 0]
    pieces = [{**row, "time": row["queue_ns"]} for row in pieces if row["op"] in ("write", "discard")]
    rule = Rules(pieces, events)
    found: Counter[tuple[int | None, int | None, str]] = Counter()
    for piece in pieces:
        for (pid, ino), part, count in rule.of(piece):
            found[pid, ino, part] += count
    return +found


def part_of(piece: Row) -> str:
    if piece["op"] != "write":
        return "discard"
    if piece["block_type"] == "metadata" and piece["subtype"] == "node":
        return "node"
    known = ("data", "directory", "journal", "metadata")
    return piece["block_type"] if piece["block_type"] in known else "unknown"


def split(count: int, weights: list[tuple[Who, int]]) -> list[tuple[Who, int]]:
    """Split whole bytes by weight; the cumulative sums are rounded down."""
    whole, done, upto, parts = sum(weight for _, weight in weights), 0, 0, []
    for who, weight in weights:
        upto += weight
        parts.append((who, count * upto // whole - done))
        done = count * upto // whole
    return parts


class Rules:
    def __init__(self, pieces: list[Row], events: list[Row]) -> None:
        self.pieces, self.events = pieces, events
        self.starts = [row for row in events if row["event"] == "jbd2_start_commit"]
        self.ends = {
            (row["dev"], row["transaction"]): row["ts_ns"] for row in events if row["event"] == "jbd2_end_commit"
        }
        self.handles: dict[tuple[int, int], list[tuple[Who, int]]] = defaultdict(list)
        self.last: dict[tuple[int, int], Row] = {}
        for row in events:
            if row["event"] == "jbd2_handle_stats":
                before = self.last.get((row["dev"], row["tid"]))
                ino = before["ino"] if before else None
                self.handles[row["dev"], row["transaction"]].append(((self.who(row, ino), ino), row["nr_blocks"]))
            if row["event"] == "jbd2_handle_stats" or (row["event"].startswith("ext4_") and row["ino"] is not None):
                self.last[row["dev"], row["tid"]] = row
        self.places: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.out: dict[tuple[int, int, int], set[int]] = defaultdict(set)

    def who(self, row: Row, ino: int | None) -> int | None:
        """Return the process; for a thread that only moves data, the last one that began to write to the file."""
        if row["comm"] != MOVER:
            return int(row["pid"])
        first: dict[int, int] = {}
        of_file = [one for one in self.events if (one["dev"], one["ino"]) == (row["dev"], ino)]
        for one in of_file:
            if one["event"].endswith("write_begin") and one["comm"] != MOVER and one["ts_ns"] <= row["ts_ns"]:
                first.setdefault(one["pid"], one["ts_ns"])
        return max(first, key=lambda pid: first[pid]) if first else None

    def of(self, piece: Row) -> list[tuple[Who, str, int]]:
        part, dev, count = part_of(piece), piece["part_dev"], piece["bytes"]
        tells_handles = any(key[0] == dev and row for key, row in self.handles.items() if self.period(*key) is not None)
        if part == "journal" and piece["owner_via"] == "handle":
            starts = [row for row in self.starts if row["dev"] == dev and row["ts_ns"] <= piece["time"]]
            return self.shared(count, part, self.changes(dev, [starts[-1]["transaction"]] if starts else []))
        is_in_place = part in ("metadata", "directory") and piece["owner_via"] not in ("write_begin", "dirty_folio")
        if is_in_place and tells_handles:
            return self.in_place(piece, part)
        frees = [row for row in self.events if row["event"] == "ext4_free_blocks" and row["dev"] == dev]
        frees = [row for row in frees if self.freed_in(row) is not None]
        if part == "discard" and piece["owner_via"] != "submitter" and frees:
            before = [row for row in frees if self.starts_at(dev, self.freed_in(row)) <= piece["time"]]
            last = max((self.freed_in(row) for row in before), default=None)
            rows = [((self.who(row, row["ino"]), row["ino"]), row["nr_blocks"]) for row in frees
                    if self.freed_in(row) == last and before]  # fmt: skip
            return self.shared(count, part, rows)
        changes = [row for row in self.events if row["event"] in F2FS and row["dev"] == dev]
        is_nobodys = part == "node" and piece["owner_via"] in ("unknown", "filesystem")
        if changes and (is_nobodys or part == "metadata"):
            return self.shared(count, part, self.in_checkpoint(piece, changes))
        return self.own(piece, part)

    def period(self, dev: int, transaction: int) -> int | None:
        order = [row["transaction"] for row in self.starts if row["dev"] == dev]
        return order.index(transaction) if transaction in order else None

    def starts_at(self, dev: int, period: int | None) -> int:
        assert period is not None
        return int([row["ts_ns"] for row in self.starts if row["dev"] == dev][period])

    def freed_in(self, row: Row) -> int | None:
        starts = [start["ts_ns"] for start in self.starts if start["dev"] == row["dev"]]
        return next((nth for nth, start in enumerate(starts) if start >= row["ts_ns"]), None)

    def changes(self, dev: int, transactions: list[int]) -> list[tuple[Who, int]]:
        return [change for one in transactions for change in self.handles.get((dev, one), [])]

    def in_place(self, piece: Row, part: str) -> list[tuple[Who, str, int]]:
        dev, found = piece["part_dev"], []
        runs: Counter[int | None] = Counter()
        for sector in range(piece["sector"], piece["sector"] + piece["nr_sectors"]):
            times = self.places[piece["dev"], sector]
            runs[times[-1] if times else None] += SECTOR
            times.append(piece["time"])
        for before, count in runs.items():
            order = [row["transaction"] for row in self.starts if row["dev"] == dev]
            end = [self.ends.get((dev, one), NEVER) for one in order]
            last = max((nth for nth, time in enumerate(end) if time <= piece["time"]), default=-1)
            since = -1 if before is None else before
            first = 1 + max((nth for nth, time in enumerate(end) if time <= since), default=-1)
            is_known = before is not None and 0 < first <= last
            found += self.shared(count, part, self.changes(dev, order[first : last + 1] if is_known else []))
        return found

    def in_checkpoint(self, piece: Row, changes: list[Row]) -> list[tuple[Who, int]]:
        metadata = [row for row in self.pieces if row["part_dev"] == piece["part_dev"]
                    and part_of(row) in ("node", "metadata")]  # fmt: skip
        ends = [
            row["time"]
            for row, after in zip(metadata, [*metadata[1:], None], strict=True)
            if row["subtype"] == "checkpoint" and (after is None or after["subtype"] != "checkpoint")
        ]
        number = sum(end < piece["time"] for end in ends)
        if number == 0:
            return []
        during = [row for row in changes if sum(end <= row["ts_ns"] for end in ends) == number]
        return [((self.who(row, row["ino"]), row["ino"]), 1) for row in during]

    def shared(self, count: int, part: str, changes: list[tuple[Who, int]]) -> list[tuple[Who, str, int]]:
        weights: Counter[Who] = Counter()
        for who, weight in changes:
            weights[who] += weight
        order = sorted(weights.items(), key=lambda one: [(value is None, value or 0) for value in one[0]])
        return [(who, part, share) for who, share in split(count, order)] if order else [((None, None), part, count)]

    def own(self, piece: Row, part: str) -> list[tuple[Who, str, int]]:
        pid = None if piece["owner_via"] == "filesystem" else piece["owner_pid"]
        again = 0
        if part == "data":
            is_placed = piece["ino"] is not None and piece["file_offset_bytes"] is not None
            file = (piece["part_dev"], piece["ino"]) if is_placed else (piece["dev"], -1)
            begin = piece["file_offset_bytes"] if is_placed else piece["sector"] * SECTOR
            creations = [
                row for row in self.events if row["event"] == "f2fs_new_inode" and (row["dev"], row["ino"]) == file
            ]
            life = (*file, sum(row["ts_ns"] <= piece["time"] for row in creations))
            places = set(range(begin, begin + piece["bytes"]))
            again = len(self.out[life] & places)
            self.out[life] |= places
        found = []
        for count, kind in ((piece["bytes"] - again, part), (again, "rewritten")):
            share = count // max(piece["owner_count"] or 1, 1)
            found += [((pid, piece["ino"]), kind, share), ((None, piece["ino"]), kind, count - share)]
        return found
