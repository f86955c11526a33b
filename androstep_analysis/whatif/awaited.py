"""The time for which a program waits for a device, before and after a change."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.replay import device
from androstep_analysis.whatif.journal import without_journal
from androstep_analysis.whatif.predict import predict
from androstep_analysis.whatif.sqlite import without_fsync


def awaited(tables: Mapping[str, Table], model: pl.DataFrame, runs: pl.DataFrame, *, dev: int) -> pl.DataFrame:
    """Predict the time that a device takes for synchronous requests during runs, as recorded and after each change.

    Parameters
    ----------
    tables : mapping of Table
        Tables requests, io and extents of a recording.
    model : polars.DataFrame
        The model of the device (`fit`).
    runs : polars.DataFrame
        The result of `perceived.runs`.
    dev : int
        The device whose requests count.

    Returns
    -------
    polars.DataFrame
        Columns change (String: none, no_sync for `without_fsync`, no_journal for `without_journal`), value (Float64
        [ns]: sum over all runs), unit.

    References
    ----------
    Luo, Jiang and Cohen, Figure 3.

    Examples
    --------
    >>> model = whatif.fit(bench.read("datasets/whatif/model_disk/sizes.rec.xz").tables)
    >>> run = pl.DataFrame({"start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> loop = capture.requests.select(pl.col("dev").first()).collect().item()
    >>> whatif.awaited(capture.tables, model, run, dev=loop)["change"].to_list()
    ['none', 'no_sync', 'no_journal']
    """
    sums = dict.fromkeys(("none", "no_sync", "no_journal"), 0.0)
    for start_ns, end_ns in runs.select("start_ns", "end_ns").iter_rows():
        rows = {
            name: lazy(tables[name], (name,)).filter(pl.col("dev") == dev) for name in ("requests", "io", "extents")
        }
        is_during = pl.coalesce("issue_ns", "queue_ns").is_between(start_ns, end_ns)
        requests, io = rows["requests"].filter(is_during), rows["io"].filter(is_during)
        changed = {
            "none": requests,
            "no_sync": without_fsync(requests, io, rows["extents"]).requests.lazy(),
            "no_journal": without_journal(requests, io).requests.lazy(),
        }
        for change, after in changed.items():
            sums[change] += _elapsed_ns(after.filter(pl.col("sync") | (pl.col("op") == "flush")).collect(), model)
    return pl.DataFrame({"change": list(sums), "value": list(sums.values()), "unit": "ns"})


def _elapsed_ns(requests: pl.DataFrame, model: pl.DataFrame) -> float:
    """Return the predicted time of the requests one after the other, as fast as their order allows."""
    if requests.is_empty():
        return 0.0
    totals = predict(device.program(requests.lazy()), model).totals
    return float(totals.filter(metric="elapsed")["value"].item())
