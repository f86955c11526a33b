"""Compare `measures.miss_ratio` with libCacheSim, and a sample of the blocks with all blocks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl

import androstep_analysis as androstep
from androstep_analysis import measures, schema, units
from androstep_analysis.capture import Capture
from androstep_analysis.measures.miss_ratio import Policy
from benchmarks import recordings
from benchmarks.paired import Row, compared, in_turn, seconds

try:
    import libcachesim
except ImportError:
    libcachesim: ModuleType | None = None  # type: ignore[no-redef]

BLOCK_BYTES = 4096
CACHE_BYTES = tuple(1 << power for power in range(20, 31, 2))
SAMPLES = (0.1, 0.01, 0.001)

POLICIES: dict[Policy, str] = {"lru": "LRU", "fifo": "FIFO", "arc": "ARC"}
"""Our policies and libCacheSim's. S3-FIFO is left out: libCacheSim revised it in 2024, and ours follows the paper."""


def cache(requests: int = 2_000_000) -> Iterator[Row]:
    """Compare the miss ratios of the demo, and of `requests` reads of one block each with Zipf-distributed blocks."""
    demo = androstep.open(recordings.DEMO)
    made = Capture("Zipf", demo.manifest, demo.tables | {"io": _zipf(requests).lazy()}, demo.about)
    with tempfile.TemporaryDirectory() as name:
        trace = Path(name) / "trace"
        for title, capture in (("the demo", demo), (f"{requests:,} reads (Zipf)", made)):
            if libcachesim:
                recordings.exported(capture, "oraclegeneral", trace)
                for policy, theirs in POLICIES.items():
                    ours = _misses(capture, policy)[1]
                    what = f"{theirs} of {CACHE_BYTES[1] >> 20} MiB, {title}: miss ratio"
                    yield compared(what, ours, "libCacheSim", _simulated(trace, theirs)[1])
            yield from _samples(title, capture)
        for policy, theirs in POLICIES.items():
            peer = partial(seconds, partial(_simulated, trace, theirs)) if libcachesim else None
            work = partial(seconds, partial(_misses, made, policy))
            yield from in_turn(f"{theirs}, {title}, {len(CACHE_BYTES)} sizes [s]", work, {"libCacheSim": peer})


def _samples(title: str, capture: Capture) -> Iterator[Row]:
    """Yield the miss ratio of a sample of the blocks, at the cache size with the largest error."""
    whole = _misses(capture, "lru")
    # Skip cache sizes at which every request misses, or only the first of each block.
    informative = [at for at, ratio in enumerate(whole) if whole[-1] < ratio < 1] or [0]
    for share in SAMPLES:
        sampled = _misses(capture, "lru", share)
        worst = max(informative, key=lambda at: abs(sampled[at] - whole[at]))
        what = f"LRU, {100 * share:g} % of the blocks of {title}: miss ratio, where furthest off"
        yield compared(what, sampled[worst], "all blocks", whole[worst])


def _simulated(trace: Path, policy: str) -> list[float]:
    """Return the miss ratios of libCacheSim, which simulates each size."""
    assert libcachesim is not None
    kind, each = libcachesim.TraceType.ORACLE_GENERAL_TRACE, libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(str(trace), kind, each)
    ratios = []
    for cache_bytes in CACHE_BYTES:
        reader.reset()
        ratios.append(float(getattr(libcachesim, policy)(cache_bytes // BLOCK_BYTES).process_trace(reader)[0]))
    return ratios


def _misses(capture: Capture, policy: Policy, share: float = 1.0) -> list[float]:
    found = measures.miss_ratio(capture.io, policy=policy, cache_bytes=CACHE_BYTES, sample_ratio=share)
    return found["value"].to_list()


def _zipf(requests: int) -> pl.DataFrame:
    """Return table io with reads of one block each."""
    blocks = np.random.default_rng(1).zipf(1.1, requests) % (1 << 30)
    at = np.arange(requests)
    columns = {"request_id": at, "issue_ns": at, "sector": blocks * (BLOCK_BYTES // units.SECTOR_BYTES)}
    same = {
        "nr_sectors": BLOCK_BYTES // units.SECTOR_BYTES,
        "bytes": BLOCK_BYTES,
        "op": "read",
        "piece": 0,
        "owner_via": "unknown",
    }
    types = schema.table("io").polars
    rows = pl.DataFrame({**columns, **same, "dev": units.dev(8, 0)})
    return schema.complete(rows.with_columns(pl.col(name).cast(types[name]) for name in rows.columns), "io")
