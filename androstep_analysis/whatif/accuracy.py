"""How far predictions are from real replays of the same program on the same device."""

from __future__ import annotations

import polars as pl

from androstep_analysis.bench.summarise import medians


def accuracy(predicted: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """Predicted against measured times.

    Takes `Prediction.totals`, and a row for each repetition, metric and quantile (columns metric, quantile, value in
    ns; `replay.metrics` of the repetitions, where call is null). Columns: metric, quantile (String), predicted,
    predicted_lo, predicted_hi, measured (median), measured_lo, measured_hi (its interval, as `bench.summarise` has it),
    value (Float64: predicted over measured), unit (1), n (Int64, repetitions), agrees (Boolean: the two intervals
    overlap; null where there is none of the measured one).
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
