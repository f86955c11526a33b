"""The flash device: against the plainest one, and against what is known in closed form of write amplification."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw
from support.made import DEV, table
from support.whatif_oracles import (
    PAGE_SECTORS,
    Fast,
    Layer,
    amplification,
    hot_and_cold,
    hot_or_cold,
    hybrid_uniform,
    in_use_before,
    physical,
    uniform,
)

from androstep_analysis import whatif
from androstep_analysis.common.errors import InputError
from androstep_analysis.whatif.flash import MAPPINGS, POLICIES, Mapping, Policy
from androstep_analysis.whatif.hybrid import MERGES
from androstep_analysis.whatif.translation import PAGE_BYTES, Use

PAGES, BLOCK_PAGES, BLOCKS = 24, 4, 8
WHO = ("a", "b", None)
Asked = list[tuple[str, int, int, str | None]]
"""Requests: op, first sector, number of sectors, and whose they are."""
SPARE = (0.07, 0.28)
WITHIN = 0.02
"""How far from the closed form a simulation may be."""


def rows(asked: Asked) -> pl.DataFrame:
    return table(
        "io",
        [
            {
                **{"request_id": number, "piece": 0, "dev": DEV, "op": op, "sector": sector, "nr_sectors": length},
                **{"issue_ns": number, "bytes": length * 512, "owner_comm": who},
            }
            for number, (op, sector, length, who) in enumerate(asked)
        ],
    )


@st.composite
def request(draw: st.DrawFn) -> tuple[str, int, int, str | None]:
    sector = draw(st.integers(0, PAGES * PAGE_SECTORS - 1))
    length = draw(st.integers(1, min(40, PAGES * PAGE_SECTORS - sector)))
    op = draw(st.sampled_from(["write", "write", "write", "read", "discard"]))
    return op, sector, length, draw(st.sampled_from(WHO))


requests = st.lists(request(), min_size=1, max_size=80)
uses = st.sampled_from(get_args(Use))


def held(asked: Asked, in_use: Use) -> Sequence[int]:
    return range(PAGES) if in_use == "all" else in_use_before([one[:3] for one in asked], PAGES)


def counted(made: whatif.Flash) -> tuple[dict[Any, int], dict[Any, int], list[int]]:
    """Return pages written and copied by owner, and erases of each block."""
    told = {(who, metric): value for metric, who, value in made.costs.select("metric", "owner_comm", "value").rows()}
    written, copied = (
        {who: int(value / PAGE_BYTES) for (who, metric), value in told.items() if metric == name and value}
        for name in ("host_bytes", "copied_bytes")
    )
    for who in {*written, *copied}:
        assert told[who, "worn_blocks"] == (written.get(who, 0) + copied.get(who, 0)) / BLOCK_PAGES
    return written, copied, made.erases["erases"].to_list()


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=300)
@given(requests, st.sampled_from(POLICIES), uses)
def test_the_device_counts_what_the_plainest_one_does(asked: Asked, policy: Policy, in_use: Use) -> None:
    plain = Layer(PAGES, BLOCK_PAGES, BLOCKS, held(asked, in_use), policy=policy)
    writer: dict[int, str | None] = {}
    written: Counter[str | None] = Counter()
    copied: Counter[str | None] = Counter()
    for row, (asked_op, sector, length, who) in enumerate(asked):
        before = len(plain.done)
        plain.request(row, asked_op, sector, length)
        for _, kind, op, page, *_ in plain.done[before:]:
            if op == "write" and kind == "cleaning":
                copied[writer.get(page)] += 1
            elif op == "write":
                writer[page] = who
                written[who] += 1
    made = whatif.flash(
        rows(asked),
        by=["owner_comm"],
        capacity_bytes=PAGES * PAGE_BYTES,
        spare_ratio=0,
        block_bytes=BLOCK_PAGES * PAGE_BYTES,
        policy=policy,
        in_use=in_use,
    )
    assert counted(made) == (written, copied, [plain.cleaned.count(block) for block in range(BLOCKS)])
    assert made.merges.is_empty()


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=500)
@given(requests, uses, st.sampled_from([PAGES, PAGES + 2]), st.integers(1, 3))
def test_a_hybrid_device_counts_what_the_plainest_one_does(asked: Asked, in_use: Use, pages: int, logs: int) -> None:
    filled = math.ceil(pages / BLOCK_PAGES)
    before = range(pages) if in_use == "all" else held(asked, in_use)
    plain = Fast(pages, BLOCK_PAGES, filled + 2 + logs, before)
    for one in asked:
        plain.request(*one)
    made = whatif.flash(
        rows(asked),
        by=["owner_comm"],
        capacity_bytes=pages * PAGE_BYTES,
        spare_ratio=(2 + logs - 0.5) / filled,
        block_bytes=BLOCK_PAGES * PAGE_BYTES,
        mapping="hybrid",
        in_use=in_use,
    )
    assert counted(made) == (plain.written, plain.copied, [plain.erases[block] for block in range(plain.blocks)])
    assert dict(made.merges.rows()) == {kind: plain.merges[kind] for kind in MERGES}


@pytest.mark.prove
@pytest.mark.parametrize("block_pages", [16, 64])
@pytest.mark.parametrize("spare", SPARE)
def test_hybrid_and_uniform_writes_are_as_the_renewals_say(spare: float, block_pages: int) -> None:
    blocks = 500
    pages = np.random.default_rng(1).integers(0, blocks * block_pages, 8 * blocks * block_pages)
    known = hybrid_uniform(blocks, math.ceil(blocks * spare) - 2, block_pages)
    made = amplification(pages, blocks * block_pages, spare, block_pages, mapping="hybrid")
    assert made == pytest.approx(known, rel=WITHIN / 2)


@pytest.mark.parametrize(("first", "kind"), [(16, "switch"), (12, "partial"), (1, "partial")])
def test_sequences_are_merged_with_what_they_have_not(first: int, kind: str) -> None:
    """Blocks written from their start: nothing is copied of a whole one, and of a part what it has not."""
    asked: Asked = [("write", 8 * 16 * (block * 7 % 40), 8 * first, "a") for block in range(200)]
    made = whatif.flash(
        rows(asked), by=[], capacity_bytes=40 * 16 * PAGE_BYTES, block_bytes=16 * PAGE_BYTES, mapping="hybrid"
    )
    merges = len(asked) - 1  # the last sequence goes on
    told = dict(made.costs.select("metric", "value").rows())
    assert told["copied_bytes"] == merges * (16 - first) * PAGE_BYTES
    assert dict(made.merges.rows()) == dict.fromkeys(MERGES, 0) | {kind: merges}
    assert made.erases["erases"].sum() == merges


_PEAK = """
import sys
from pathlib import Path
import polars as pl
from androstep_analysis import whatif
whatif.flash(pl.read_parquet(sys.argv[1]), by=[], capacity_bytes=int(sys.argv[2]), mapping=sys.argv[3])
peak = next(line for line in Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM'))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.prove
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_memory_follows_what_is_written(mapping: Mapping, tmp_path: Path) -> None:
    """A map of all 2^30 pages would take gigabytes; a block of 4 MiB has some 200 bytes, most for where pages begin."""
    places = np.random.default_rng(2).integers(0, 1 << 28, 1000)
    rows([("write", 8 * int(page), 8, "a") for page in places]).write_parquet(tmp_path / "io.parquet")
    small, large = (
        int(subprocess.check_output([sys.executable, "-c", _PEAK, tmp_path / "io.parquet", str(size), mapping]))
        for size in (1 << 40, 4 << 40)
    )
    assert large - small < 300


def test_the_oracles_agree_where_both_know() -> None:
    for ratio in (1.07, 1.2, 1.5):
        closed = ratio / (ratio + lambertw(-ratio * math.exp(-ratio)).real)
        assert uniform(ratio, 1 << 20) == pytest.approx(closed, rel=1e-3)
        assert hot_and_cold(ratio, 0.5, 0.5) == pytest.approx(closed, rel=1e-6)


@pytest.mark.prove
@pytest.mark.parametrize("block_pages", [16, 64])
@pytest.mark.parametrize("spare", SPARE)
def test_greedy_and_uniform_writes_are_as_the_mean_field_says(spare: float, block_pages: int) -> None:
    in_use = 1500 * block_pages
    pages = np.random.default_rng(1).integers(0, in_use, 24 * in_use)
    known = uniform(physical(in_use, spare, block_pages), block_pages)
    assert amplification(pages, in_use, spare, block_pages) == pytest.approx(known, rel=WITHIN / 4)


@pytest.mark.prove
@pytest.mark.parametrize(("hot", "share", "spare"), [(0.2, 0.8, 0.07), (0.5, 0.7, 0.28)])
def test_hot_and_cold_data_are_as_desnoyers_says(hot: float, share: float, spare: float) -> None:
    # With fewer blocks the few to spare matter: of 300 it is 2.5 % below with 7 % to spare, as uniform writes are.
    block_pages = 1024
    in_use = 1000 * block_pages
    pages = hot_or_cold(in_use, hot, share, 16 * in_use)
    known = hot_and_cold(physical(in_use, spare, block_pages), hot, share)
    assert amplification(pages, in_use, spare, block_pages) == pytest.approx(known, rel=WITHIN)


@pytest.mark.prove
def test_cost_benefit_copies_less_where_some_data_are_hot() -> None:
    """Hardly, where copies and new data share the open block: Kawaguchi et al. keep them apart."""
    in_use = 400 * 64
    pages = hot_or_cold(in_use, 0.1, 0.9, 40 * in_use)
    greedy, cost_benefit = (amplification(pages, in_use, 0.2, 64, policy) for policy in POLICIES)
    assert cost_benefit < greedy


@pytest.mark.sanitized
@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_told_by_owner_sums_to_the_device(policy: Policy) -> None:
    random = np.random.default_rng(4)
    asked: Asked = [
        ("write", 8 * int(page), 8, who) for page, who in zip(random.integers(0, 24, 400), "abcd" * 100, strict=True)
    ]
    names: tuple[list[str], list[str]] = (["owner_comm"], [])
    parts, whole = (whatif.flash(rows(asked), by=by, policy=policy, block_bytes=4 * PAGE_BYTES) for by in names)
    for metric in ("host_bytes", "copied_bytes", "worn_blocks"):
        summed = parts.costs.filter(metric=metric)["value"].sum()
        assert summed == pytest.approx(whole.costs.filter(metric=metric)["value"].item())
        assert summed > 0
    assert parts.costs.filter(metric="copied_ratio")["value"].sum() == pytest.approx(1)
    assert parts.erases.equals(whole.erases)
    # Programmed pages were erased before, except for the capacity of the spare blocks.
    worn = whole.costs.filter(metric="worn_blocks")["value"].item()
    assert 0 <= worn - whole.erases["erases"].sum() <= 2


@pytest.mark.sanitized
def test_what_is_discarded_is_not_copied() -> None:
    """Every second page stays and is copied with its block, unless its owner discards it."""
    first: Asked = [("write", 8 * page, 8, "keeper" if page % 2 else "passer") for page in range(24)]
    gone: Asked = [("discard", 8 * page, 8, "keeper") for page in range(1, 24, 2)]
    again: Asked = [("write", 16 * (number * 5 % 12), 8, "passer") for number in range(200)]
    copied = []
    for asked in (first + again, first + gone + again):
        made = whatif.flash(rows(asked), by=["owner_comm"], block_bytes=4 * PAGE_BYTES, in_use="read")
        copied.append(dict(made.costs.filter(metric="copied_bytes").select("owner_comm", "value").iter_rows()))
    assert copied[0]["keeper"] > 0
    assert copied[1]["keeper"] == 0
    assert copied[1]["passer"] < copied[0]["passer"] + copied[0]["keeper"]


def test_what_was_there_before_amplifies_nobodys_writes() -> None:
    """Its copies stand with those of unknown owners, who did not write it."""
    asked: Asked = [("write", 16 * (number * 5 % 12), 8, None if number % 9 == 0 else "a") for number in range(60)]
    names: tuple[list[str], list[str]] = (["owner_comm"], [])
    parts, whole = (whatif.flash(rows(asked), by=by, block_bytes=4 * PAGE_BYTES).costs for by in names)
    told = {(who, metric): value for metric, who, value in parts.select("metric", "owner_comm", "value").rows()}
    assert told[None, "host_bytes"] > 0
    assert told[None, "copied_bytes"] > 0
    assert told.get((None, "write_amplification")) is None
    assert told["a", "write_amplification"] == 1 + told["a", "copied_bytes"] / told["a", "host_bytes"]
    sums = [whole.filter(metric=metric)["value"].item() for metric in ("host_bytes", "copied_bytes")]
    assert whole.filter(metric="write_amplification")["value"].item() == sum(sums) / sums[0]


def test_several_devices_are_refused() -> None:
    both = pl.concat(
        [rows([("write", 0, 8, None)]), rows([("write", 0, 8, None)]).with_columns(dev=pl.lit(DEV + 1, pl.UInt32))]
    )
    with pytest.raises(InputError, match="several devices"):
        whatif.flash(both)
