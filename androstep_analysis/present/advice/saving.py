"""Predict what a fix would save on a measured device, from the requests before and after a change (`whatif`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis import measures, whatif
from androstep_analysis.replay import device

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_READ_AHEAD_SECTORS: Final = 256
_SHORT: Final = ("saved_ns", "saved_lo_ns", "saved_hi_ns")


def predicted(trigger: str, found: pl.DataFrame, capture: Capture, model: pl.DataFrame) -> pl.DataFrame:
    """Add the predicted time that fixing each finding would save, if the trigger has a model of the change.

    The bounds combine those of both predictions pessimistically: the errors may be opposite.
    """
    if trigger not in CHANGES:
        return found
    before = measures.counted(capture.requests).collect()
    took = _elapsed(before, model)
    rows = []
    for row in found.iter_rows(named=True):
        after = _elapsed(CHANGES[trigger](before, row, capture), model)
        saved = (took["value"] - after["value"], took["lo"] - after["hi"], took["hi"] - after["lo"])
        rows.append(dict(zip(_SHORT, saved, strict=True)))
    times = pl.DataFrame(rows, schema=dict.fromkeys(_SHORT, pl.Float64))
    return found.with_columns(times.get_columns())


def _elapsed(requests: pl.DataFrame, model: pl.DataFrame) -> dict[str, float]:
    totals = whatif.predict(device.program(requests.lazy()), model, "as_fast").totals
    return totals.filter(metric="elapsed").row(0, named=True)


def _gathered(before: pl.DataFrame, row: Mapping[str, Any], capture: Capture) -> pl.DataFrame:
    """Return the requests with sequential reads of the finding's file merged, up to 128 KiB each."""
    of_file = capture.io.filter(pl.col("path") == row["path"], pl.col("op") == "read").select("request_id").unique()
    reads = before.filter(pl.col("request_id").is_in(of_file.collect()["request_id"].implode())).sort("issue_ns")
    goes_on = (pl.col("sector") == (pl.col("sector") + pl.col("nr_sectors")).shift()).fill_null(False)
    runs = reads.with_columns(run=(~goes_on).cum_sum())
    window = (pl.col("nr_sectors").cum_sum() - pl.col("nr_sectors")).over("run") // _READ_AHEAD_SECTORS
    larger = runs.group_by("run", window=window, maintain_order=True).agg(
        *(pl.col(name).first() for name in before.columns if name not in ("nr_sectors", "complete_ns")),
        pl.col("nr_sectors").sum(),
        pl.col("complete_ns").max(),
    )
    rest = before.join(reads.select("request_id"), on="request_id", how="anti")
    return pl.concat([rest, larger.select(before.columns)]).sort("issue_ns", "request_id")


CHANGES: Final[Mapping[str, Callable[[pl.DataFrame, Mapping[str, Any], Capture], pl.DataFrame]]] = {
    "pieces": _gathered,
}
"""Models of the changes of fixing a finding, for the triggers that have one."""
