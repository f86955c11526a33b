"""Numbers name nothing: a recording with other numbers of inodes, processes and devices has the same measures.

Each file gets an inode number of its own here, whatever number it shared with a file before or after it, and processes,
threads and devices get other numbers. What joins tables by a number alone gives another result then.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus

import androstep_analysis as androstep
from androstep_analysis import advice, compare, summary
from androstep_analysis.capture.capture import Capture
from androstep_analysis.commands.measure import taken
from androstep_analysis.compare.measures import Recording, known, measured

RESERVED = 16
"""Inode numbers below this one mean something by themselves: root, journal, F2FS's areas."""

DEMO = Path(__file__).parents[2] / "datasets/demo"

RECORDINGS = [
    "demo", "kernel/ext4_host_6.18/trace.txt.gz", "wrong_facts/dir-renamed/rec", "wrong_facts/same-read-twice/rec",
    "wrong_facts/more-events-less-known/core.txt", "wrong_facts/es-insert-only/core.txt", "androstep/ftrace_sqlite.txt",
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
    """Other numbers for these, in another order; those up to `keep` stay."""
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


def results(capture: Capture) -> Iterator[tuple[str, Any]]:
    recording = Recording.of(capture)
    for name, measure in compare.measures().items():
        there = taken(name, measure)
        for by in {(), *((there[word],) for word in ("file", "process", "app") if word in there)}:
            chosen = known(name, None)
            try:
                found = measured(recording, chosen, None, by).table
            except androstep.InputError as error:
                yield f"{name} {by}", str(error)
            else:
                yield f"{name} {by}", content(found)
    for name in ("write_cost", "sync_cost"):
        found = getattr(androstep.measures, name)(
            capture.tables, by=("ino", "incarnation", "path"), page_bytes=capture.facts["page_bytes"]
        )
        # Shares of what several caused are whole bytes: which of them gets the last one follows from their order.
        own = found.filter(pl.col("part").cast(pl.String).is_in(["data", "rewritten"]))
        yield f"{name} by inode", content(own.drop("ino", "coverage"))
    yield "summary", rounded(summary.summary(capture))
    yield "advice", content(advice.advise(capture))


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def content(table: pl.DataFrame) -> list[str]:
    """The rows in no order; sums of floats depend on it in their last digits."""
    rows = table.with_columns(pl.selectors.float().round_sig_figs(9))
    return sorted(map(repr, rows.rows()))


def opened(name: str) -> Capture:
    return androstep.open(DEMO if name == "demo" else corpus.path(name))


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["inodes", "tasks"])
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.filterwarnings("ignore::androstep_analysis.errors.LossWarning")
def test_other_numbers_change_no_measure(name: str, kind: str) -> None:
    capture = opened(name)
    other = other_numbers(capture, Inodes(capture) if kind == "inodes" else tasks_renamed(capture))
    for (what, found), (_, want) in zip(results(other), results(capture), strict=True):
        assert found == want, what
