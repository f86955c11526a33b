"""Recompute the results of `androstep.slow` in plain Python over the rows of the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import polars as pl

from androstep_analysis.capture import Capture

Row = dict[str, Any]


class Oracle:
    """The rows of a capture's tables."""

    def __init__(self, capture: Capture) -> None:
        names = (
            "request_id",
            "dev",
            "part_dev",
            "op",
            "submit_tid",
            "queue_ns",
            "insert_ns",
            "issue_ns",
            "complete_ns",
        )
        rows = capture.requests.select(*names, "submit_comm", "submit_pid", "matched", "swap").collect()
        rows = rows.with_columns(pl.col("op", "matched").cast(pl.String))
        self.requests = {row["request_id"]: row | self._times(row) for row in rows.to_dicts()}
        for row in self.requests.values():
            if row["swap"] and row["op"] == "write":  # its submitter moves the memory of others
                row["submit_comm"] = row["submit_pid"] = None
        self.pieces: dict[int, list[Row]] = {number: [] for number in self.requests}
        for piece in capture.io.collect().with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts():
            self.pieces[piece["request_id"]].append(piece)
        events = capture.fs_events.select("ts_ns", "event", "dev", "transaction").collect()
        self.events = events.with_columns(pl.col("event").cast(pl.String)).to_dicts()

    @staticmethod
    def _times(row: Row) -> Row:
        begin = row["issue_ns"] if row["queue_ns"] is None else row["queue_ns"]
        end = row["complete_ns"]
        if begin is None or end is None or end < begin:
            return {"begin": None, "end": None, "device": None}
        issue = row["issue_ns"]
        return {"begin": begin, "end": end, "device": issue if issue is not None and begin <= issue <= end else begin}

    def slowest(self, op: str, top: int) -> list[int]:
        """Return the durations of the slowest requests of an operation."""
        of_op = [
            row
            for row in self.requests.values()
            if row["op"] == op and row["end"] is not None and row["matched"] != "interchangeable"
        ]
        return sorted((row["end"] - row["begin"] for row in of_op), reverse=True)[:top]

    def stages(self, row: Row) -> list[tuple[str, int]]:
        """Return the stages of a request without allocation."""
        one = self.requests[row["request_id"]]
        queue, insert, issue, end = (one[name] for name in ("queue_ns", "insert_ns", "issue_ns", "complete_ns"))
        if queue is None:
            return [("D2C", end - issue)]
        if issue is None or not queue <= issue <= end:
            return [("Q2C", end - queue)]
        if insert is None or not queue <= insert <= issue:
            return [("Q2D", issue - queue), ("D2C", end - issue)]
        return [("Q2I", insert - queue), ("I2D", issue - insert), ("D2C", end - issue)]

    def call_stages(self, row: Row, disks: set[int]) -> list[tuple[str, int]]:
        """Return the stages of a call on these disks, by sampling between each two consecutive events."""
        begin, end = row["begin_ns"], row["end_ns"]
        own, journal = self.work(row, disks)
        layers: list[tuple[str, list[tuple[int, int]]]] = [
            ("requests", [(self.requests[number]["device"], self.requests[number]["end"]) for number in own]),
            ("flush", [(one["device"], one["end"]) for one in self._flushes(disks)]),
            ("journal", [(self.requests[number]["begin"], self.requests[number]["end"]) for number in journal]),
            ("requests", [(self.requests[number]["begin"], self.requests[number]["device"]) for number in own]),
        ]
        layers[2][1].extend(self._commits(row["dev"], end))
        times = {begin, end} | {time for _, spans in layers for span in spans for time in span if begin < time < end}
        edges, stages = sorted(times), []
        for first, last in pairwise(edges):
            under_way = [name for name, spans in layers if any(a <= first and last <= b for a, b in spans)]
            name = under_way[0] if under_way else "rest"
            if stages and stages[-1][0] == name:
                stages[-1] = (name, stages[-1][1] + last - first)
            else:
                stages.append((name, last - first))
        return stages

    def work(self, call: Row, disks: set[int]) -> tuple[set[int], set[int]]:
        """Return the requests of a call, and the writes to its journal."""
        own, journal = set(), set()
        for number, one in self.requests.items():
            if one["end"] is None or one["dev"] not in disks:
                continue
            if one["begin"] >= call["end_ns"] or one["end"] <= call["begin_ns"]:
                continue
            of_filesystem = one["part_dev"] == call["dev"] and one["op"] == "write"
            if of_filesystem and any(piece["block_type"] == "journal" for piece in self.pieces[number]):
                journal.add(number)
                continue
            is_file = call["ino"] is not None and any(piece["ino"] == call["ino"] for piece in self.pieces[number])
            is_thread = one["submit_tid"] == call["tid"] and one["begin"] >= call["begin_ns"]
            if one["op"] != "flush" and ((of_filesystem and is_file) or is_thread):
                own.add(number)
        return own, journal

    def _flushes(self, disks: set[int]) -> list[Row]:
        every = self.requests.values()
        return [one for one in every if one["op"] == "flush" and one["dev"] in disks and one["end"] is not None]

    def _commits(self, dev: int, last: int) -> list[tuple[int, int]]:
        spans = []
        for start in self.events:
            if start["event"] == "jbd2_start_commit" and start["dev"] == dev:
                ends = [
                    event["ts_ns"]
                    for event in self.events
                    if (event["event"], event["dev"]) == ("jbd2_end_commit", dev)
                    and event["transaction"] == start["transaction"]
                ]
                spans.append((start["ts_ns"], ends[0] if ends else last))
        return spans

    def in_device(self, row: Row, disks: set[int]) -> list[Row]:
        """Return the other requests that were in the device during an operation."""
        mine = {row["request_id"]}
        if row["op"] == "fsync":
            mine = {one["request_id"] for one in self._flushes(disks)}.union(*self.work(row, disks))
        begin, end = row["begin_ns"], max(row["end_ns"], row["begin_ns"] + 1)
        return [
            one
            for number, one in self.requests.items()
            if number not in mine and one["end"] is not None and one["dev"] in disks
            if one["device"] < end and one["end"] > begin
        ]  # fmt: skip

    def moved(self, row: Row, others: list[Row]) -> list[tuple[str | None, int | None, str, int]]:
        """Return the first three owners of these requests by bytes, the process of the operation for itself."""
        sums: Counter[tuple[str | None, str, bool]] = Counter()
        pids: dict[tuple[str | None, str, bool], set[int | None]] = defaultdict(set)
        for one in others:
            for piece in self.pieces[one["request_id"]]:
                owner = piece["owner_package"] or piece["owner_comm"]
                name = owner if owner and piece["owner_via"] != "unknown" else one["submit_comm"]
                pid = piece["owner_pid"] if owner and piece["owner_via"] != "unknown" else one["submit_pid"]
                group = (name, one["op"], pid is not None and pid == row["pid"])
                sums[group] += piece["bytes"]
                pids[group].add(pid)
        ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1:]))
        only = {group: min(numbers) if len(numbers) == 1 else None for group, numbers in pids.items()}
        return [(group[0], only[group], group[1], size) for group, size in ranked if size][:3]

    def flush_ns(self, row: Row, others: list[Row]) -> int:
        """Return how long another flush was in the device, by merging spans one at a time."""
        spans = sorted((one["device"], one["end"]) for one in others if one["op"] == "flush")
        total, reached = 0, row["begin_ns"]
        for begin, end in spans:
            begin, end = max(begin, reached), min(end, row["end_ns"])
            if end > begin:
                total, reached = total + end - begin, end
        return total

    def depth(self, disk: int, time: int) -> int | None:
        """Return the number of requests that a disk had then; None if that is unknown."""
        of_disk = [one for one in self.requests.values() if one["dev"] == disk]
        for one in of_disk:
            if one["end"] is None and one["issue_ns"] is not None and one["issue_ns"] <= time:
                return None
            if one["end"] is None and one["complete_ns"] is not None and one["complete_ns"] > time:
                return None
        return sum(one["end"] is not None and one["device"] <= time < one["end"] for one in of_disk)
