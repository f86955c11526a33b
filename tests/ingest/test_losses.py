"""The rows that a loss can affect, compared with a comparison of every row with every span."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from androstep_analysis.common import losses
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses

TABLES = ("block_events", "fs_events", "syscalls")


def random_loss(pick: random.Random) -> Loss:
    spans = tuple(
        (pick.choice([None, begin]), pick.choice([None, begin + pick.randrange(20)]))
        for begin in (pick.randrange(100) for _ in range(pick.randrange(1, 4)))
    )
    tables = pick.choice([None, (), tuple(pick.sample(TABLES, pick.randrange(1, 3)))])
    return Loss("torn", 1, "some are", tables, pick.choice([None, None, 1, 2]), spans)


def is_hurt(loss: Loss, begin, end, dev, tables) -> bool:
    """Return whether a loss affects a row, spelled out."""
    if loss.tables is not None and not set(loss.tables) & set(tables):
        return False
    if loss.dev is not None and dev is not None and loss.dev != dev:
        return False
    return any(
        (start is None or end is None or start <= end) and (stop is None or begin is None or begin <= stop)
        for start, stop in loss.spans
    )


@settings(max_examples=100)
@given(st.integers(0, 1 << 32))
def test_a_row_is_hurt_as_each_loss_says(seed):
    pick = random.Random(seed)
    known = [random_loss(pick) for _ in range(pick.randrange(4))]
    rows = [(pick.choice([None, at]), pick.choice([None, at + pick.randrange(9)]), pick.choice([None, 1, 2, 3]))
            for at in (pick.randrange(130) for _ in range(50))]  # fmt: skip
    of = pl.DataFrame(rows, {"begin": pl.Int64, "end": pl.Int64, "dev": pl.UInt32}, orient="row")
    tables = pick.sample(TABLES, pick.randrange(1, 3))
    expected = [any(is_hurt(loss, *row, tables) for loss in known) for row in rows]
    assert Losses(known).between(of["begin"], of["end"], of["dev"], *tables).to_list() == expected
    for one in (None, 1, 3):
        assert Losses(known).touching(*tables, dev=one) == any(is_hurt(loss, None, None, one, tables) for loss in known)


@pytest.mark.parametrize("kind", ["clock", "gap"])
def test_what_counts_no_events_explains_none_that_are_lost(kind):
    of_time = Loss(kind, 1, "once", spans=((5, 6),))
    assert Losses([of_time], lost_events=1).spans("syscalls") == ((None, None),)
    assert Losses([of_time, Loss("torn", 1, "one", ("syscalls",), spans=((1, 2),))], 1).spans("syscalls") == (
        (1, 2), (5, 6))  # fmt: skip


def test_spans_are_joined_and_not_more_than_asked_for():
    assert losses.merged([(5, 7), (1, 3), (3, 4), (None, 0)]) == ((None, 0), (1, 4), (5, 7))
    assert losses.merged([(1, 2), (4, 5), (7, None)], most=2) == ((1, 2), (4, None))


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_a_loss_is_the_same_behind_json(seed):
    loss = random_loss(random.Random(seed))
    assert losses.from_json(losses.as_json(loss)) == loss
