"""Rates by size of a measured device behind the controller of `log_structured`."""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.replay import device
from androstep_analysis.whatif.log_structured import log_structured
from androstep_analysis.whatif.predict import predict

_FLAGS = ("sync", "meta", "fua", "preflush", "readahead")


def controlled_rates(
    model: pl.DataFrame,
    *,
    capacity_bytes: int,
    spare_ratio: float,
    segment_bytes: int,
    area_bytes: int = 32 << 20,
    count: int = 300,
) -> pl.DataFrame:
    """Predict writes per second by size, sequential and random, of a device behind a controller.

    The writes follow one after the other in an area whose pages were written before in random order.

    Parameters
    ----------
    model : polars.DataFrame
        The model of the device alone (`fit`).
    capacity_bytes, spare_ratio, segment_bytes : float
        The controller, as for `log_structured`.
    area_bytes : int
        Length of the area.
    count : int
        Number of writes of each size.

    Returns
    -------
    polars.DataFrame
        Columns metric (iops), test (seq_write, rand_write), block_bytes, unit, n (writes), value, lo, hi (Float64, with
        the ends of the model's intervals), for the sizes of sequential writes in the model.

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, EasyCo, slides, 2012, slide 12.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_card/sizes.rec.xz").tables)
    >>> rates = whatif.controlled_rates(
    ...     model, capacity_bytes=96 << 20, spare_ratio=1 / 6, segment_bytes=1 << 20, count=10
    ... )
    >>> rates.select("test", "unit").unique(maintain_order=True).rows()
    [('seq_write', '1/s'), ('rand_write', '1/s')]
    """
    rows = []
    for test in ("seq_write", "rand_write"):
        for size in sorted(model.filter(access="seq_write")["block_bytes"]):
            writes = _writes(test, size, count, area_bytes)
            made = log_structured(
                writes, capacity_bytes=capacity_bytes, spare_ratio=spare_ratio, segment_bytes=segment_bytes
            )
            totals = predict(device.program(made.requests.lazy()), model).totals.filter(metric="elapsed")
            value, low, high = (count / ns * 1e9 for ns in totals.select("value", "hi", "lo").row(0))
            rows.append(("iops", test, size, "1/s", count, value, low, high))
    names = ("metric", "test", "block_bytes", "unit", "n", "value", "lo", "hi")
    return pl.DataFrame(rows, names, orient="row")


def _writes(test: str, size: int, count: int, area_bytes: int) -> pl.DataFrame:
    """Return `count` writes of `size` bytes as table `requests`, each after the one before it."""
    offsets = np.arange(area_bytes // size)
    if test == "rand_write":
        np.random.default_rng(1).shuffle(offsets)
    sectors = size // units.SECTOR_BYTES
    index = np.arange(count)
    rows = pl.DataFrame(
        {
            "request_id": index,
            "sector": np.resize(offsets, count) * sectors,
            "queue_ns": index * 2,
            "complete_ns": index * 2 + 1,
        }
    ).with_columns(
        dev=pl.lit(0, pl.UInt32),
        part_dev=pl.lit(0, pl.UInt32),
        nr_sectors=pl.lit(sectors, pl.Int64),
        op=pl.lit("write", schema.enum("requests", "op")),
        nr_bios=pl.lit(1, pl.Int32),
        matched=pl.lit("full", schema.enum("requests", "matched")),
        **{name: pl.lit(value=False) for name in _FLAGS},
    )
    return schema.complete(rows, "requests")
