"""The figure of predictions compared with measurements."""

from __future__ import annotations

import polars as pl
import pytest

from androstep_analysis import plot

ROW = {"metric": "elapsed", "quantile": None, "change": "before", "predicted": 2e9, "measured": 1e9}
BOUNDS = {"predicted_lo": 1e9, "predicted_hi": 3e9, "measured_lo": None, "measured_hi": None}
TYPES = {"quantile": pl.String, "measured_lo": pl.Float64, "measured_hi": pl.Float64}


def test_each_change_has_a_predicted_and_a_measured_time() -> None:
    rows = [ROW | BOUNDS, ROW | BOUNDS | {"change": "$<no> journal", "predicted": 5e8}]
    ax = plot.whatif_accuracy(pl.DataFrame(rows, schema_overrides=TYPES))
    drawn = {
        text.get_text(): line.lines[0].get_ydata()
        for text, line in zip(ax.get_legend().get_texts(), ax.containers, strict=True)
    }
    assert {name: list(values) for name, values in drawn.items()} == {"predicted": [2.0, 0.5], "measured": [1.0, 1.0]}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["before", "$<no> journal"]


def test_two_rows_of_a_change_and_missing_columns_are_refused() -> None:
    table = pl.DataFrame([ROW | BOUNDS] * 2, schema_overrides=TYPES)
    with pytest.raises(ValueError, match="one row for each change"):
        plot.whatif_accuracy(table)
    with pytest.raises(ValueError, match="no column change"):
        plot.whatif_accuracy(table.drop("change"))
    assert "no data" in {text.get_text() for text in plot.whatif_accuracy(table.head(0)).texts}
