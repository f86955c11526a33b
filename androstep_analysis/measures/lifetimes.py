"""Lifetime of written data: the time until its block is written again or discarded."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import scratch
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.blocks import BLOCK_BYTES, int64_columns, ranges, simulated
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.order import IS_ORDERED, with_order
from androstep_analysis.measures.parts import REQUEST
from androstep_analysis.measures.quantiles import quantiles
from androstep_analysis.measures.tables import KNOWN, Table, columns_as_rows

ENDS: Final = ("rewritten", "discarded")

_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def lifetimes(requests: Table, *, by: Sequence[str] = (), block_bytes: int = BLOCK_BYTES) -> pl.DataFrame:
    """Return the share of written blocks that is rewritten or discarded, and their age at that time.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for columns that only `io` has: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns, and optionally issue_error_ns. Rows without a time are left out.
    by : sequence of str
        The columns to group by. They are those of the write, not of the request that overwrites or discards it.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics are writes [blocks]; rewritten_ratio, discarded_ratio and alive_ratio [1];
        rewritten_p50, rewritten_p90, rewritten_p99, discarded_p50, discarded_p90 and discarded_p99 [ns]. The ratios add
        up to one: the block is written again, is discarded as a whole, or neither before the end of the recording. The
        quantiles are of the time from the write to its end (nearest rank; null without such writes). `n` is the number
        of writes. Ratios and quantiles leave out writes whose place in the order of issue is unknown, or that of the
        request that ends them. `coverage` is the share of the writes that are not left out and whose `by` is known.

    Raises
    ------
    InputError
        If `block_bytes` is not a multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, lifetimes and order; Baker et al. (SOSP 1991).

    Examples
    --------
    >>> table = measures.lifetimes(capture.requests)
    >>> round(table.filter(pl.col("metric").str.ends_with("_ratio"))["value"].sum(), 6)
    1.0
    """
    keys = [*by] or [KNOWN]  # KNOWN is always true without groups
    with scratch.directory("lifetimes") as directory:
        groups, known = _ends(with_order(requests), keys, block_bytes, directory)
        every = pl.scan_parquet(directory / "*.parquet")
        ended = every.filter(pl.col("end") != "unknown")
        counts = ended.group_by("group", "end").agg(pl.col("n").sum(), least=pl.col("age").min()).collect()
        unsure = every.filter(pl.col("end") == "unknown").group_by("group").agg(unsure=pl.col("n").sum()).collect()
        ages = quantiles(ended, "age", counts, _SHARES, weight="n")
    found = pl.concat(
        [
            counts.select("group", metric=pl.col("end"), value="n"),
            ages.select("group", metric=pl.concat_str("end", "quantile", separator="_"), value="value"),
        ]
    )
    names = [*ENDS, *(f"{end}_{quantile}" for end in ENDS for quantile in _SHARES)]
    columns = (pl.col("value").filter(pl.col("metric") == name).first().alias(name) for name in names)
    joined = groups.join(unsure, on="group", how="left").with_columns(
        sure=pl.when(IS_ORDERED).then(pl.col("n") - pl.col("unsure").fill_null(0)).otherwise(0)
    )
    writes, left_out = (int(values.sum()) for values in (joined["n"], joined.filter(IS_ORDERED)["unsure"]))
    coverage = max(0, known - left_out) / writes if writes else None
    ordered = joined.filter(IS_ORDERED).select(*keys, "group")
    wide = joined.group_by(keys, maintain_order=True).agg(pl.col("n", "sure").sum())
    wide = wide.join(ordered, on=keys, how="left", nulls_equal=True, maintain_order="left")
    wide = wide.join(found.group_by("group").agg(*columns), on="group", how="left", maintain_order="left")
    share = pl.when(pl.col("sure") > 0).then(pl.col(list(ENDS)).fill_null(0) / pl.col("sure"))
    is_partial = bool(by) or (coverage is not None and coverage < 1)
    wide = wide.with_columns(share, coverage=pl.lit(coverage if is_partial else None, pl.Float64))
    wide = wide.filter(pl.col("n") > 0).select(
        *by,
        "n",
        "coverage",
        writes="n",
        **{f"{end}_ratio": end for end in ENDS},
        alive_ratio=1 - pl.sum_horizontal(ENDS, ignore_nulls=False),
        **{name: name for name in names[len(ENDS) :]},
    )
    shares = dict.fromkeys(["rewritten_ratio", "discarded_ratio", "alive_ratio"], "1")
    units = {"writes": "blocks"} | shares | dict.fromkeys(names[len(ENDS) :], "ns")
    return with_inferred(columns_as_rows(wide, by, units), requests)


def _ends(requests: Table, by: list[str], block_bytes: int, directory: Path) -> tuple[pl.DataFrame, int]:
    """Write files of the writes that ended (group, end, age, n). Return the groups, and the number of known writes.

    Groups have columns `by`, is_ordered, group (their index) and n (blocks written). The end is unknown if the order of
    the request that ended the write is.
    """
    keys = [*by, IS_ORDERED]
    library, sectors = _library(), block_bytes // SECTOR_BYTES
    groups, writes, known = None, np.zeros(0, np.int64), 0
    columns = [*dict.fromkeys([*(name for name in keys if name != KNOWN), "op", REQUEST, "sector", "nr_sectors"])]
    is_write, end = pl.col("op") == "write", pl.col("sector") + pl.col("nr_sectors")
    inside = -(-pl.col("sector") // sectors)
    with simulated(library.lifetimes_new(), library.lifetimes_free) as handle:
        for number, part in enumerate(ranges(requests, columns, block_bytes, ("write", "discard", "secure_erase"))):
            # A discard of a part of a block does not end its lifetime.
            rows = part.filter(pl.col("at") > pl.Int64.min()).with_columns(
                first_block=pl.when(is_write).then("first_block").otherwise(inside),
                nr_blocks=pl.when(is_write).then("nr_blocks").otherwise((end // sectors - inside).clip(0)),
                is_write=is_write,
            )
            seen = rows.filter("is_write").select(keys)
            groups = (seen if groups is None else pl.concat([groups, seen])).unique(maintain_order=True)
            numbers = groups.with_row_index("group").with_columns(pl.col("group").cast(pl.Int64))
            rows = rows.join(numbers, on=keys, how="left", nulls_equal=True, maintain_order="left")
            writes = np.concatenate([writes, np.zeros(groups.height - len(writes), np.int64)])
            sizes = rows.filter("is_write", KNOWN, IS_ORDERED).select(pl.col("nr_blocks").sum())
            known += sizes.row(0)[0]
            _run(handle, rows.with_columns(pl.col("group").fill_null(0)), writes).write_parquet(
                directory / f"{number}.parquet"
            )
    assert groups is not None, "at least one part is expected"
    numbered = groups.with_row_index("group").with_columns(pl.col("group").cast(pl.Int64), n=pl.Series(writes))
    return numbered, known


def _run(handle: int, rows: pl.DataFrame, writes: np.ndarray) -> pl.DataFrame:
    """Return the writes that end in these rows: group, end, age and n (blocks).

    Add the blocks of each group to `writes`.
    """
    library = _library()
    columns = [
        *int64_columns(rows, "dev", "first_block", "nr_blocks", "at", REQUEST, "group"),
        *(rows[name].to_numpy() for name in ("is_write", IS_ORDERED)),
    ]
    arrays = [np.ascontiguousarray(values) for values in columns]
    if not library.lifetimes_run(handle, native.columns(rows.height, arrays), writes.ctypes.data):
        raise MemoryError
    count = ctypes.c_size_t()
    address = library.lifetimes_ends(handle, ctypes.byref(count))
    found = np.empty((count.value, len(_END)), np.int64)
    ctypes.memmove(found.ctypes.data, address, found.nbytes)
    ended = pl.from_numpy(found, _END, orient="row")
    end = pl.when(pl.col("is_rewritten") != 0).then(pl.lit(ENDS[0])).otherwise(pl.lit(ENDS[1]))
    end = pl.when(pl.col("is_ordered") != 0).then(end).otherwise(pl.lit("unknown"))
    return ended.select("group", "age", "n", end=end)


_END: Final = dict.fromkeys(("group", "age", "n", "is_rewritten", "is_ordered"), pl.Int64)
"""``struct life_end``."""


_library = native.library


LIFETIMES: Final = Measure(
    "time until written blocks are written again",
    ("io",),
    lambda t, by: lifetimes(t["io"], by=by),
    has_windows=False,
    applied=Applied.AFTER,
)
