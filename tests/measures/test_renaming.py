"""Numbers name nothing: with other numbers of inodes, processes and devices a recording shows and measures the same.

Each file gets an inode number of its own here, whatever number it shared with a file before or after it, and processes,
threads and devices get other numbers. What joins tables by a number alone gives another result then.
"""

from __future__ import annotations

import bisect
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support import corpus

import androstep_analysis as androstep
from androstep_analysis import advice, compare, report
from androstep_analysis.capture.capture import Capture
from androstep_analysis.compare.measures import known, measured
from androstep_analysis.datasets import export
from androstep_analysis.explore import Explorer
from androstep_analysis.explore.pieces import View
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import summary
from androstep_analysis.present.live import KEYS, Moment, ranking

MINORS = 1 << 20
RESERVED = 16
"""Inode numbers below this one mean something by themselves: root, journal, F2FS's areas."""

DEMO = Path(__file__).parents[2] / "datasets/demo"

RECORDINGS = [
    "demo", "kernel/ext4_host_6.18/trace.txt.gz", "wrong_facts/dir-renamed/rec", "wrong_facts/same-read-twice/rec",
    "wrong_facts/more-events-less-known/core.txt", "wrong_facts/es-insert-only/core.txt", "androstep/ftrace_sqlite.txt",
    "kernel/ext4_guest_6.1/trace.dat.zst", "kernel/f2fs_guest_6.1/trace.dat.zst", "kernel/vfat_guest_6.1/trace.dat.zst",
    "wrong_facts/two-filesystems-one-disk/rec", "wrong_facts/lossy-refused/rec", "field/T19_fsync.txt",
    "androstep/result.po",
]  # fmt: skip


def other_numbers(capture: Capture, rename: Callable[[str, pl.DataFrame], pl.DataFrame]) -> Capture:
    tables = {name: rename(name, table.collect()).lazy() for name, table in capture.tables.items()}
    return Capture(capture.title, capture.manifest, tables, capture.about)


class Inodes:
    """An inode number of its own for each file, in no order."""

    def __init__(self, capture: Capture) -> None:
        files = capture.files.collect()
        self.spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for dev, ino, number, begin in files.select("dev", "ino", "incarnation", "valid_from_ns").iter_rows():
            self.spans.setdefault((dev, ino), []).append((-(1 << 62) if begin is None else begin, number))
        for spans in self.spans.values():
            spans.sort()
        keys = [(*key, number) for key, spans in self.spans.items() for _, number in spans if key[1] >= RESERVED]
        numbers = list(range(1 << 33, (1 << 33) + len(keys)))
        random.Random(7).shuffle(numbers)
        self.numbers = dict(zip(sorted(keys), numbers, strict=True))
        devices = capture.requests.select("request_id", inode_dev=pl.coalesce("part_dev", "dev")).collect()
        self.devices = devices

    def at(self, dev: int | None, ino: int | None, ts_ns: int) -> int | None:
        if dev is None or ino is None or (dev, ino) not in self.spans:
            return ino
        spans = self.spans[dev, ino]
        found = bisect.bisect_right(spans, (ts_ns, 1 << 31)) - 1
        return self.numbers.get((dev, ino, spans[found][1]), ino) if found >= 0 else ino

    def of(self, dev: int | None, ino: int | None, number: int | None) -> int | None:
        return ino if dev is None or ino is None else self.numbers.get((dev, ino, number or 0), ino)

    def __call__(self, name: str, table: pl.DataFrame) -> pl.DataFrame:
        if name == "fs_events":
            times = table["ts_ns"].to_list()
            for column in ("ino", "parent"):
                numbers = map(self.at, table["dev"].to_list(), table[column].to_list(), times)
                table = table.with_columns(pl.Series(column, list(numbers), pl.Int64))
        elif name in ("files", "extents", "io"):
            keyed = table if name != "io" else table.join(self.devices, on="request_id", maintain_order="left")
            dev = keyed["inode_dev" if name == "io" else "dev"].to_list()
            numbers = map(self.of, dev, table["ino"].to_list(), table["incarnation"].to_list())
            table = table.with_columns(pl.Series("ino", list(numbers), pl.Int64))
        return table


def renumbered(values: pl.Series, keep: int) -> dict[int, int]:
    """Return other numbers for these, in another order; those up to `keep` stay."""
    old = sorted(value for value in values.drop_nulls().unique().to_list() if value > keep)
    new = list(range(1_000_003, 1_000_003 + len(old)))
    random.Random(11).shuffle(new)
    return dict(zip(old, new, strict=True))


def tasks_renamed(capture: Capture) -> Callable[[str, pl.DataFrame], pl.DataFrame]:
    columns = ("tid", "pid", "submit_tid", "submit_pid", "owner_pid")
    tables = [table.collect() for table in capture.tables.values()]
    every = [table[name].cast(pl.Int64) for table in tables for name in columns if name in table.columns]
    numbers = renumbered(pl.concat([pl.Series([], dtype=pl.Int64), *every]), 0)

    def rename(_: str, table: pl.DataFrame) -> pl.DataFrame:
        there = [name for name in columns if name in table.columns]
        return table.with_columns(pl.col(name).replace(numbers) for name in there)

    return rename


def devices_renamed(capture: Capture) -> tuple[Callable[[str, pl.DataFrame], pl.DataFrame], dict[int, int]]:
    """Return other numbers of devices. Numbers of a disk's partitions remain consecutive."""
    columns = ("dev", "part_dev", "bio_dev", "old_dev")
    tables = [table.collect() for table in capture.tables.values()]
    every = [table[name].cast(pl.Int64) for table in tables for name in columns if name in table.columns]
    majors = renumbered(pl.concat([pl.Series([], dtype=pl.Int64), *every]) // MINORS, 0)
    found = pl.concat([pl.Series([], dtype=pl.Int64), *every]).drop_nulls().unique().to_list()
    numbers = {old: majors.get(old // MINORS, 0) % 1000 * MINORS + old % MINORS for old in found}

    def rename(_: str, table: pl.DataFrame) -> pl.DataFrame:
        there = [name for name in columns if name in table.columns]
        return table.with_columns(pl.col(name).replace(numbers) for name in there)

    return rename, {new: old for old, new in numbers.items()}


def renamed(name: str, capture: Capture) -> tuple[Capture, dict[int, int]]:
    """Return the capture with other numbers of inodes, tasks and devices, and what the devices' were before."""
    if "lossy" not in name:  # there, a file's end is known only from the creation of the next file with its number
        capture = other_numbers(capture, Inodes(capture))
    capture = other_numbers(capture, tasks_renamed(capture))
    rename, back = devices_renamed(capture)
    return other_numbers(capture, rename), back


def explored(capture: Capture) -> list[Any]:
    """Return the lists of an explorer: names, requests and sizes."""
    try:
        explorer = Explorer(capture.tables, capture.title)
    except androstep.InputError:
        return []
    pieces = explorer._pieces
    view = pieces_view(pieces)
    lists = {name: [*explorer._list(name, view)] for name in ("app", "process", "block type")}
    weights = pieces.counts("file", view)
    lists["file"] = [
        (pieces.files.name(number), requests, size)
        for number, (requests, size) in enumerate(zip(*weights, strict=True))
        if requests
    ]
    return sorted(repr(without_numbers(row)) for rows in lists.values() for row in rows)


def pieces_view(pieces: Any) -> View:
    low, high = next(iter(pieces.axes.values()), (0.0, 1.0))
    of = next(iter(pieces.axes), "sector")
    return View(of, int(pieces.begin_ns[0]), int(pieces.begin_ns[-1]) + 1, low, high)


def without_numbers(value: Any) -> Any:
    """Return the names without numbers of inodes, processes and incarnations."""
    if isinstance(value, dict):
        return {name: without_numbers(one) for name, one in value.items() if name not in ("first", "last")}
    if isinstance(value, tuple):
        return tuple(map(without_numbers, value))
    if not isinstance(value, str):
        return value
    return re.sub(r"(inode )\d+(, file \d+ with that number)?|( \()\d+(\))", r"\1\3", value)


def exported(capture: Capture, place: Path) -> Iterator[tuple[str, Any]]:
    for target in ("msr", "fio3"):
        if capture.requests.head(1).collect().height:
            with (place / target).open("wb") as file:
                export.write(capture, target, file)
            yield f"export {target}", re.sub(rb"\d+:\d+", b"M:N", (place / target).read_bytes())
    for objects in ("files", "blocks"):
        with (place / objects).open("w+b") as file:
            export.write(capture, "oraclegeneral", file, objects=objects)
        record = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
        records = np.fromfile(place / objects, record)
        spaces = pl.Series(records["object"] >> np.uint64(40)).to_frame("space")
        first = spaces.with_columns(space=pl.col("space").rle_id().first().over("space"))["space"].rank("dense")
        blocks = records["object"] & np.uint64((1 << 40) - 1)
        # Files are numbered in the order of their numbers.
        yield f"export {objects}", [
            first.to_list(), blocks.tolist(), *(records[name].tolist() for name in ("time", "size", "next"))
        ]  # fmt: skip


def ranked(capture: Capture) -> Iterator[tuple[str, Any]]:
    moment = Moment(0, 10**9, capture.requests.collect(), capture.io.collect(), 1, 0, 1.0, 0.0, 0.0)
    for by in KEYS:
        rows = ranking(moment, by)
        yield f"top by {by}", content(rows.drop("owner_pid", "dev", strict=False))


def pages(capture: Capture, place: Path, back: dict[int, int]) -> str:
    """Return the report without figures and numbers. Devices, by which it sorts, are renamed `back`."""
    report.write(capture, place / "page.html")
    page = re.sub(r"(?s)<svg.*?</svg>|data:[^\"']*", "", (place / "page.html").read_text(encoding="utf-8"))
    page = page[page.index("<body") :]
    page = re.sub(r"\b\d+:\d+\b", "M:N", page)
    page = re.sub(r"\b(inode|pid) \d+", r"\1 N", page)
    page = re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.9g}", page)
    return re.sub(r"\b\d+\b", lambda number: str(back.get(int(number[0]), number[0])), page)


def shown(capture: Capture, place: Path) -> Iterator[tuple[str, Any]]:
    """Return the output of a capture for users, and for other tools."""
    yield "explorer", explored(capture)
    yield from ranked(capture)
    yield from exported(capture, place)


@pytest.mark.prove
@pytest.mark.parametrize("name", ["demo", "wrong_facts/dir-renamed/rec", "wrong_facts/es-insert-only/core.txt"])
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_other_numbers_change_no_page(name: str, tmp_path: Path) -> None:
    capture = opened(name)
    other, back = renamed(name, capture)
    assert pages(other, tmp_path, back) == pages(capture, tmp_path, {})


def results(capture: Capture, back: dict[int, int] | None = None) -> Iterator[tuple[str, Any]]:
    """Return the results of the measures, with devices renamed `back`."""
    recording = Recording.of(capture)
    for name, measure in compare.measures().items():
        there = measure.dimensions
        for by in {(), *((there[word],) for word in ("file", "process", "app") if word in there)}:
            chosen = known(name, None)
            try:
                found = measured(recording, chosen, None, by).table
            except androstep.InputError as error:
                yield f"{name} {by}", str(error)
            else:
                if back and "dev" in found.columns:
                    found = found.with_columns(pl.col("dev").replace(back))
                yield f"{name} {by}", content(found.drop("ino", strict=False))
    for name in ("write_cost", "sync_cost"):
        found = getattr(androstep.measures, name)(
            capture.tables, by=("ino", "incarnation", "path"), page_bytes=capture.facts["page_bytes"]
        )
        # Shared bytes are divided into whole bytes, and the order of the owners decides who gets the last one.
        own = found.filter(pl.col("part").cast(pl.String).is_in(["data", "rewritten"]))
        yield f"{name} by inode", content(own.drop("ino", "coverage"))
    yield "summary", summarized(capture, back or {})
    yield "advice", content(advice.advise(capture))


def summarized(capture: Capture, back: dict[int, int]) -> Any:
    """Return the summary, with devices renamed `back`, and without inodes."""
    told = rounded(summary.summary(capture))
    for row in told["largest"]:
        row.pop("ino", None)
        if "dev" in row:
            row["dev"] = back.get(row["dev"], row["dev"])
    return told


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def content(table: pl.DataFrame) -> list[str]:
    """Return the rows in no order, with rounded floats, since sums of floats depend on the order."""
    rows = table.with_columns(pl.selectors.float().round_sig_figs(9))
    return sorted(map(repr, rows.rows()))


def opened(name: str) -> Capture:
    return androstep.open(DEMO if name == "demo" else corpus.path(name))


@pytest.mark.prove
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_other_numbers_change_no_measure(name: str, tmp_path: Path) -> None:
    capture = opened(name)
    other, back = renamed(name, capture)
    for (what, found), (_, want) in zip(results(other, back), results(capture), strict=True):
        assert found == want, what
    for (what, found), (_, want) in zip(shown(other, tmp_path), shown(capture, tmp_path), strict=True):
        assert found == want, what
