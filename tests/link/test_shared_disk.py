"""Owners on a disk with several filesystems, where the events of dirtying do not state the filesystem.

The second filesystem is simulated: it has the same inode numbers, and other processes dirty the same pages at other
times.
"""

from __future__ import annotations

import random
from dataclasses import replace

import monotony
import polars as pl
import pytest

from androstep_analysis.fs import tracepoints

OTHER_DEV = 1 << 20 | 1
OTHER_TID = 1 << 20


def dirtied_by_others(of: monotony.Recording, seed: int, share: float) -> pl.DataFrame:
    """Return the dirtying events of the recording as another filesystem's: later or earlier, by other threads."""
    draw = random.Random(seed)
    rows = of.staging.fs_events.filter(pl.col("event").is_in(tracepoints.DIRTIED)).collect()
    rows = rows.sample(fraction=share, seed=seed)
    shifts = pl.Series(
        [draw.choice([-1, 1]) * draw.randrange(1_000, 50_000_000) for _ in range(rows.height)], dtype=pl.Int64
    )
    others = pl.Series([draw.random() < 0.5 for _ in range(rows.height)], dtype=pl.Boolean)
    tid, pid = (pl.when(others).then(pl.col(name) + OTHER_TID).otherwise(name).alias(name) for name in ("tid", "pid"))
    return rows.with_columns(tid, pid, ts_ns=pl.col("ts_ns") + shifts)


@pytest.mark.prove
@pytest.mark.parametrize("name", monotony.KERNEL[:3])
@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_no_owner_is_stated_wrongly(monkeypatch: pytest.MonkeyPatch, name: str, share: float) -> None:
    of = monotony.recording(name)
    dev = of.staging.fs_events.filter(tracepoints.is_own()).select("dev").collect()["dev"].mode().first()
    monkeypatch.setattr(tracepoints, "on_disks", lambda *_: {dev: [dev, OTHER_DEV]})
    events = of.staging.fs_events.collect()
    mixed = pl.concat([events, dirtied_by_others(of, 1, share)]).sort("ts_ns", maintain_order=True)
    shared = replace(of, staging=of.staging.with_tables(fs_events=mixed))
    tables = shared.only(shared.kinds)
    assert not monotony.wrong(shared, tables)
    written = tables["io"].filter(pl.col("op") == "write", pl.col("block_type") == "data", pl.col("nr_sectors") > 0)
    facts = written.filter(pl.col("owner_via").is_in(["write_begin", "submitter"]))
    assert share or facts["bytes"].sum() > 0.9 * written["bytes"].sum()
