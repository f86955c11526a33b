"""Tables of the measures of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from androstep_analysis.markup import Element, el
from androstep_analysis.plot import paper
from androstep_analysis.report import cells


def shares(*dims: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders count, bytes and their shares, a row for each combination of `dims`."""
    metrics = {"count": "Requests", "count_ratio": "of requests", "bytes": "Bytes", "bytes_ratio": "of bytes"}
    return lambda table: [cells.table(_wide(table, dims, metrics), len(dims)), *_known(table)]


def fraction(table: pl.DataFrame) -> list[Element]:
    """Renders `measures.metadata_fraction`."""
    metrics = {
        "count_ratio": "Metadata, of requests",
        "bytes_ratio": "Metadata, of bytes",
        "journal_count_ratio": "Journal, of requests",
        "journal_bytes_ratio": "Journal, of bytes",
    }
    return [cells.table(_wide(table, ("op",), metrics), 1)]


def quantiles(table: pl.DataFrame) -> list[Element]:
    """Renders `measures.latency`: a row per step and operation, with how much of it was measured."""
    names = table["quantile"].cast(pl.String).unique(maintain_order=True).to_list()
    wide = table.pivot(on="quantile", index=["step", "op", "n", "coverage"], values="value", maintain_order=True)
    shown = wide.select(
        pl.col("step").cast(pl.String).alias("Step"),
        pl.col("op").cast(pl.String).alias("Operation"),
        cells.formatted("n", cells.count).alias("Requests"),
        cells.formatted("coverage", cells.per_cent).alias("of bytes"),
        *(cells.formatted(name, cells.duration) for name in names),
    )
    return [cells.table(shown, 2)]


def volume(what: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders `measures.volume`: the `cells.TOP` rows with most bytes read and written."""

    def render(table: pl.DataFrame) -> list[Element]:
        name = next(column for column in table.columns if column not in (*paper.MEASURES, "op"))
        moved = table.filter(pl.col("metric") == "bytes", pl.col("op").is_in(["read", "write"]))
        sums = (
            moved.group_by(name)
            .agg(
                read=pl.col("value").filter(pl.col("op") == "read").sum(),
                written=pl.col("value").filter(pl.col("op") == "write").sum(),
            )
            .with_columns(share=(pl.col("read") + pl.col("written")) / (pl.col("read") + pl.col("written")).sum())
            .sort(["share", name], descending=[True, False])
        )
        shown = sums.head(cells.TOP).select(
            pl.col(name).alias(what),
            cells.formatted("read", cells.size).alias("Read"),
            cells.formatted("written", cells.size).alias("Written"),
            cells.formatted("share", cells.per_cent).alias("of bytes"),
        )
        more = sums.height - shown.height
        rest = [el("p", f"{more:,} more are not shown.")] if more else []
        return [cells.table(shown, 1), *rest, *_known(table)]

    return render


def _wide(table: pl.DataFrame, dims: Sequence[str], metrics: Mapping[str, str]) -> pl.DataFrame:
    """A tidy table with its `metrics` as columns of formatted text under the names they map to."""
    wide = table.pivot(on="metric", index=list(dims), values="value", maintain_order=True)
    format_of = {"count": cells.count, "bytes": cells.size}
    return wide.select(
        *(pl.col(dim).cast(pl.String).alias(_TITLES.get(dim, dim)) for dim in dims),
        *(
            cells.formatted(metric, format_of.get(metric, cells.per_cent)).alias(title)
            for metric, title in metrics.items()
            if metric in wide.columns
        ),
    )


_TITLES = {
    "op": "Operation",
    "block_type": "Block type",
    "file_type": "File type",
    "class": "Class",
    "map_source": "Source",
    "owner_via": "Rule",
}


def _known(table: pl.DataFrame) -> list[Element]:
    """The coverage of a result, for each operation where it tells them apart, unless it is simply everything."""
    known = table.drop_nulls("coverage")
    if known.is_empty() or (known["coverage"] == 1).all():
        return []
    if "op" in table.columns:
        of_op = known.select(pl.col("op").cast(pl.String), "coverage").unique(maintain_order=True).sort("op")
        listed = ", ".join(f"{op} {cells.per_cent(value)}" for op, value in of_op.iter_rows())
        return [el("p", f"Known, of the bytes of each operation: {listed}.")]
    values = known["coverage"].unique()
    return [el("p", f"Known for {cells.bytes_share(values[0])}.")] if len(values) == 1 else []
