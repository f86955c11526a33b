"""Owners by the compiled pass over the events, beside the same rules as window functions, on events of chance."""

from __future__ import annotations

import random

import polars as pl
import pytest
from support import authorship_oracle

from androstep_analysis.errors import Loss
from androstep_analysis.link.owner import authorship, turns
from androstep_analysis.link.owner.authorship import Observed
from androstep_analysis.losses import Losses

DEVICES = (1, 2)
INT64S = ("ino", "life", "ts_ns", "file_block", "begin", "end", "size")
SHOWN = (
    "at",
    "file_block",
    "via",
    "count",
    "tid",
    "pid",
    "comm",
    "ts_ns",
    "by_maker",
    "is_exact",
    "is_clean",
    "changers",
)
RENAMED = {"may_be_of_cluster": "is_cluster", "is_disputed": "is_others"}
"""What the oracle calls otherwise."""


def some(draw: random.Random) -> list[int]:
    return [dev for dev in DEVICES if draw.random() < 0.6]


def place(draw: random.Random, most_ns: int) -> dict[str, int]:
    place = {"dev": draw.choice(DEVICES), "ino": draw.randrange(2), "life": draw.randrange(2)}
    block = draw.randrange(3)
    return {**place, "file_block": block, "begin": 8 * block, "end": 8 * block + 8, "size": 8,
            "ts_ns": draw.randrange(most_ns)}  # fmt: skip


def thread(draw: random.Random) -> dict[str, int | str | None]:
    """A process of several threads, a thread of unknown process, one of the kernel."""
    tid = draw.choice([1, 2, 3, 4, 9])
    return {"tid": tid, "pid": {1: 1, 2: 1, 3: 3}.get(tid), "comm": None if draw.random() < 0.1 else f"t{tid}"}


def frame(rows: list[dict[str, object]], **types: pl.DataType | type[pl.DataType]) -> pl.DataFrame:
    schema = {"dev": pl.UInt32, **dict.fromkeys(INT64S, pl.Int64), **types}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema).sort(
        "ts_ns", maintain_order=True
    )


def recording(seed: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, Observed, pl.DataFrame, Losses]:
    """Some events of a few blocks, many of them at the same time, and who of the threads is a process."""
    draw = random.Random(seed)
    most_ns = draw.choice([10, 10_000])
    kinds = draw.choice([tuple(turns.KIND.categories), ("write", "store", "maybe", "absent"), ("dirty", "write")])
    touched: list[dict[str, object]] = []
    for _ in range(draw.randrange(200)):
        kind = draw.choice(kinds)
        folio = draw.choice([None, True, False]) if kind == "absent" else None
        touched.append({**place(draw, most_ns), **thread(draw), "kind": kind, "is_in_folio": folio})
    written: list[dict[str, object]] = []
    for at in range(draw.randrange(80)):
        by = thread(draw)
        written.append({
            **place(draw, most_ns), "at": at, "tid": by["tid"], "submit_tid": by["tid"], "submit_pid": by["pid"],
            "by_process": draw.random() < 0.5, "is_pageless": draw.random() < 0.2,
            "is_direct": draw.choice([None, None, True, False]),
        })  # fmt: skip
        if draw.random() < 0.1:
            written[-1] |= {"tid": None, "submit_tid": None, "submit_pid": None}
    ids = {"tid": pl.Int32, "pid": pl.Int32, "comm": pl.String}
    touches = frame(touched, **ids, kind=turns.KIND, is_in_folio=pl.Boolean)
    flags = dict.fromkeys(("by_process", "is_pageless", "is_direct"), pl.Boolean)
    outs = frame(written, at=pl.UInt32, tid=pl.Int32, submit_tid=pl.Int32, submit_pid=pl.Int32, **flags)
    unplaced = pl.DataFrame(
        [{"dev": draw.choice(DEVICES), "ts_ns": draw.randrange(most_ns)} for _ in range(draw.randrange(5))],
        {"dev": pl.UInt32, "ts_ns": pl.Int64},
    ).sort("ts_ns")
    threads = touches.select(*ids).unique(maintain_order=True).with_columns(is_process=pl.col("tid") != 9)
    lost = Losses(
        [Loss("dropped", 1, "some", ("fs_events",), spans=((None, most_ns // 2),))] if draw.random() < 0.2 else ()
    )
    return outs, touches, unplaced, Observed(*(some(draw) for _ in Observed._fields)), threads, lost


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, 500, 50)], ids=str)
def test_turns_are_those_of_the_oracle(seeds: range) -> None:
    for seed in seeds:
        given = recording(seed)
        found, told = authorship.authors(*given), authorship_oracle.authors(*given)
        shown = found.select(*SHOWN, *RENAMED.values())
        assert shown.equals(told.rename(RENAMED).select(shown.columns).cast(shown.schema)), seed
        who = pl.DataFrame({"number": found["who"], "text": told["who"]}).unique()
        assert who["number"].n_unique() == who["text"].n_unique() == who.height, seed


def test_nothing_is_written() -> None:
    outs, touches, *others = recording(0)
    assert authorship.authors(outs.clear(), touches, *others).is_empty()
    assert authorship.authors(outs, touches.clear(), *others)["tid"].null_count() == outs.height
