"""Accuracy of predictions, compared with real replays of the same program on the same device."""

from __future__ import annotations

import polars as pl

from androstep_analysis.bench.summarise import medians


def accuracy(predicted: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """Compare predicted with measured times, for replays of the same program on the same device.

    Parameters
    ----------
    predicted : polars.DataFrame
        `Prediction.totals`.
    measured : polars.DataFrame
        A row for each repetition, metric and quantile: columns metric, quantile, value [ns], as in `replay.metrics` for
        a null call.

    Returns
    -------
    polars.DataFrame
        Columns metric, quantile (String), predicted, predicted_lo, predicted_hi, measured (the median), measured_lo,
        measured_hi (Float64 [ns]; the interval of `bench.summarise`), value (Float64 [1]: predicted over measured),
        unit, n (Int64, repetitions), agrees (Boolean: the two intervals overlap; null without a measured interval).
        Metrics that were not measured have no row.

    Examples
    --------
    >>> totals = pl.DataFrame({"metric": "elapsed", "quantile": None, "value": 60e6, "lo": 50e6, "hi": 70e6})
    >>> replays = pl.read_csv("datasets/whatif/replays_disk/measured.csv").rename({"value_ns": "value"})
    >>> table = whatif.accuracy(totals, replays.filter(trace="messages", change="before", mode="as_fast"))
    >>> table.select(pl.col("value").round(2), "n", "agrees").row(0)
    (0.95, 6, True)
    """
    text = pl.col("quantile").cast(pl.String)
    repetitions = measured.select("metric", text, pl.col("value").cast(pl.Float64), unit=pl.lit("ns"))
    known = medians(repetitions, ["quantile"]).select(
        "metric", "quantile", "n", measured="value", measured_lo="lo", measured_hi="hi"
    )
    both = predicted.select("metric", text, predicted="value", predicted_lo="lo", predicted_hi="hi").join(
        known, on=["metric", "quantile"], nulls_equal=True, maintain_order="left"
    )
    overlap = (pl.col("predicted_lo") <= pl.col("measured_hi")) & (pl.col("predicted_hi") >= pl.col("measured_lo"))
    return both.select(
        "metric",
        "quantile",
        "predicted",
        "predicted_lo",
        "predicted_hi",
        "measured",
        "measured_lo",
        "measured_hi",
        value=pl.when(pl.col("measured") > 0).then(pl.col("predicted") / pl.col("measured")),
        unit=pl.lit("1"),
        n="n",
        agrees=overlap,
    )
