"""Caches of several policies, and samples of the blocks, against caches of plain Python lists."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import measures
from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.miss_ratio import Policy

pytestmark = pytest.mark.unit

ROOMS = (1, 2, 3, 5, 10, 20, 40)
Blocks = list[tuple[int, int]]


def table(blocks: Blocks) -> pl.DataFrame:
    times = pl.int_range(pl.len(), dtype=pl.Int64)
    frame = pl.DataFrame(blocks, schema={"dev": pl.UInt32, "sector": pl.Int64}, orient="row")
    return frame.with_columns(
        pl.col("sector") * 8,
        nr_sectors=pl.lit(8, pl.Int64),
        op=pl.when(times % 3 == 0).then(pl.lit("write")).otherwise(pl.lit("read")),
        **dict.fromkeys(("request_id", "queue_ns", "issue_ns", "complete_ns"), times),
    )


def lru(blocks: Blocks, room: int) -> list[bool]:
    cache: Blocks = []
    misses = []
    for block in blocks:
        misses.append(block not in cache)
        cache = [*(other for other in cache if other != block), block][-room:]
    return misses


def fifo(blocks: Blocks, room: int) -> list[bool]:
    cache: Blocks = []
    misses = []
    for block in blocks:
        misses.append(block not in cache)
        if misses[-1]:
            cache = [*cache, block][-room:]
    return misses


def s3fifo(blocks: Blocks, room: int) -> list[bool]:
    """Yang et al. (SOSP 2023), Algorithm 1, as their simulator has it.

    The main queue is asked when it has more than its part, and otherwise the small one, until it drops one.
    """
    small: Blocks = []
    main: Blocks = []
    ghosts: Blocks = []
    uses: dict[tuple[int, int], int] = {}
    misses = []
    for block in blocks:
        misses.append(block not in small and block not in main)
        if not misses[-1]:
            uses[block] += 1
            continue
        was_ghost = block in ghosts
        if was_ghost:
            ghosts.remove(block)
        while len(small) + len(main) == room:
            if small and len(main) <= room - room // 10:
                while small and uses[small[0]] > 1:
                    uses[small[0]] = 0
                    main.append(small.pop(0))
                if small:
                    ghosts = [*ghosts, small.pop(0)][max(0, len(ghosts) + 1 - room * 9 // 10) :]
            else:
                oldest = main.pop(0)
                if uses[oldest]:
                    uses[oldest] = min(uses[oldest], 3) - 1
                    main.append(oldest)
        (main if was_ghost else small).append(block)
        uses[block] = 0
    return misses


def arc(blocks: Blocks, room: int) -> list[bool]:
    """Megiddo and Modha (FAST 2003), Figure 4; the block used last is at the end of each list."""
    t1: Blocks = []
    t2: Blocks = []
    b1: Blocks = []
    b2: Blocks = []
    p = 0.0
    misses = []

    def replace(block: tuple[int, int]) -> None:
        if t1 and ((block in b2 and len(t1) == p) or len(t1) > p):
            b1.append(t1.pop(0))
        else:
            b2.append(t2.pop(0))

    for block in blocks:
        misses.append(block not in t1 and block not in t2)
        if not misses[-1]:
            (t1 if block in t1 else t2).remove(block)
            t2.append(block)
        elif block in b1:
            p = min(float(room), p + (1 if len(b1) >= len(b2) else len(b2) / len(b1)))
            replace(block)
            b1.remove(block)
            t2.append(block)
        elif block in b2:
            p = max(0.0, p - (1 if len(b2) >= len(b1) else len(b1) / len(b2)))
            replace(block)
            b2.remove(block)
            t2.append(block)
        else:
            if len(t1) + len(b1) == room:
                if len(t1) < room:
                    b1.pop(0)
                    replace(block)
                else:
                    t1.pop(0)
            elif len(t1) + len(t2) + len(b1) + len(b2) >= room:
                if len(t1) + len(t2) + len(b1) + len(b2) == 2 * room:
                    b2.pop(0)
                replace(block)
            t1.append(block)
    return misses


CACHES: dict[Policy, Callable[[Blocks, int], list[bool]]] = {"lru": lru, "fifo": fifo, "s3fifo": s3fifo, "arc": arc}


def assert_misses(policy: Policy, blocks: Blocks) -> None:
    rows = table(blocks)
    sizes = [4096 * room for room in ROOMS]
    curve = measures.miss_ratio(rows, cache_bytes=sizes, by=["op"], policy=policy)
    got = {(op, size): value * n for op, size, value, n in curve.select("op", "cache_bytes", "value", "n").iter_rows()}
    for room in ROOMS:
        misses = CACHES[policy](blocks, room)
        for op in rows["op"].unique():
            want = sum(miss for miss, own in zip(misses, rows["op"], strict=True) if own == op)
            assert got[op, 4096 * room] == pytest.approx(want), (policy, room, op)
    assert len(got) == len(ROOMS) * rows["op"].n_unique()


@pytest.mark.sanitized
@pytest.mark.parametrize("policy", CACHES)
@pytest.mark.prove
@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 15)), max_size=150))
def test_a_cache_misses_what_one_of_plain_python_misses(policy: Policy, blocks: Blocks) -> None:
    assert_misses(policy, blocks)


@pytest.mark.parametrize("policy", CACHES)
def test_long_mixtures_of_hot_blocks_scans_and_loops(policy: Policy) -> None:
    draw = random.Random(2)
    blocks: Blocks = []
    for turn in range(60):
        blocks += [(1, int(80 * draw.random() ** 3)) for _ in range(60)]
        blocks += [(2, turn * 30 + block) for block in range(30)] if turn % 2 else [(1, 90 + n) for n in range(25)] * 2
    assert_misses(policy, blocks)


@pytest.mark.parametrize("policy", CACHES)
def test_a_cache_smaller_than_a_block_misses_everything(policy: Policy) -> None:
    curve = measures.miss_ratio(table([(1, 0)] * 3), cache_bytes=[0, 4095], policy=policy)
    assert curve["value"].to_list() == [1.0, 1.0]


@pytest.mark.parametrize("policy", CACHES)
def test_a_sample_is_near_the_whole(policy: Policy) -> None:
    draw = random.Random(3)
    blocks = [(1, int(20_000 * draw.random() ** 3)) for _ in range(60_000)]
    sizes = [4096 * room for room in (1000, 4000, 8000, 1 << 20)]
    whole, part = (
        measures.miss_ratio(table(blocks), cache_bytes=sizes, policy=policy, sample_ratio=share) for share in (1, 0.25)
    )
    assert part["n"].to_list() == [len(blocks)] * 4
    apart = (part["value"] - whole["value"]).abs()
    assert 0 < float(apart.to_numpy().max()) < 0.03


def test_what_is_sampled_is_whole_blocks() -> None:
    # A block touched so often is in the sample with all its touches or with none: its one miss is counted four times.
    for block in range(16):
        curve = measures.miss_ratio(table([(1, block)] * 16), cache_bytes=[4096], sample_ratio=0.25)
        assert curve["value"].to_list() in ([0.0], [4 / 16])


def test_what_cannot_be_asked_is_told() -> None:
    with pytest.raises(InputError, match="choose one of lru, fifo, s3fifo, arc"):
        measures.miss_ratio(table([]), policy=cast(Policy, "mru"))
    for share in (0, 1.5, float("nan")):
        with pytest.raises(InputError, match="above 0 and up to 1"):
            measures.miss_ratio(table([]), sample_ratio=share)
