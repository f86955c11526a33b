"""What samples tell: the CPUs, for whom they worked, how busy disks were, and every counter."""

from __future__ import annotations

import polars as pl

from androstep_analysis import measures
from androstep_analysis.markup import Element, el
from androstep_analysis.report import cells, section


def elements(samples: pl.LazyFrame) -> list[Element]:
    """CPU time as far as samples tell it, and the counters."""
    counters = measures.counters(samples).select(
        pl.col("counter").alias("Counter"),
        pl.coalesce(cells.formatted("dev", cells.device), pl.col("pid").cast(pl.String), "instance", pl.lit("")).alias(
            "of"
        ),
        pl.col("unit").alias("Unit"),
        *(cells.formatted(name, cells.count).alias(name.title()) for name in ("count", "least", "greatest", "last")),
    )
    return [*_cpu(samples), el("h2", "Counters"), *cells.first(counters, 3)]


def _cpu(samples: pl.LazyFrame) -> list[Element]:
    """What the CPUs did, for whom, and how busy disks were, as far as samples tell."""
    cpu = measures.cpu(samples)
    if cpu.is_empty():
        return []
    wide = cpu.pivot("metric", index="state", values="value", maintain_order=True).select(
        pl.col("state").cast(pl.String).alias("State"),
        cells.formatted("cpu_time", cells.seconds).alias("Time"),
        cells.formatted("cpu_share", cells.ratio).alias("Share"),
    )
    users = measures.cpu_by_process(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    whose = users.select(
        pl.col("comm").fill_null("unknown").alias("Process"), cells.formatted("value", cells.seconds).alias("Time")
    )
    busy = measures.busyness(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    disks = busy.select(pl.col("disk").fill_null("").alias("Disk"), cells.formatted("value", cells.ratio).alias("Busy"))
    return [
        el("h2", "CPU time"),
        *section.definitions(("cpu", "busyness")),
        *(cells.first(wide, 1) + cells.first(whose, 1) + cells.first(disks, 1)),
    ]
