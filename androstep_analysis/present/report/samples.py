"""What samples tell: the CPUs, for whom they worked, how busy disks were, and every counter."""

from __future__ import annotations

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.markup import Element
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Glossary
from androstep_analysis.present.sheets import Column


def parts(samples: pl.LazyFrame, glossary: Glossary) -> list[Part]:
    """CPU time as far as samples tell it, and the counters."""
    device = pl.col("dev").map_elements(cells.device, return_dtype=pl.String)
    counters = measures.counters(samples).with_columns(
        of=pl.coalesce(device, pl.col("pid").cast(pl.String), "instance", pl.lit(""))
    )
    columns = {
        "counter": Column("Counter"),
        "of": Column("of"),
        "unit": Column("Unit", pick=True),
        **{name: Column(name.title(), cells.count) for name in ("count", "least", "greatest", "last")},
    }
    return [
        Part("cpu", "What did the CPUs do?", _cpu(samples, glossary)),
        Part("counters", "What did the counters say?", cells.unless_empty(counters, columns, "Counters")),
    ]


def _cpu(samples: pl.LazyFrame, glossary: Glossary) -> list[Element]:
    """What the CPUs did, for whom, and how busy disks were, as far as samples tell."""
    cpu = measures.cpu(samples)
    if cpu.is_empty():
        return []
    states = {
        "state": Column("State"),
        "cpu_time": Column("Time", cells.seconds),
        "cpu_share": Column("Share", cells.per_cent),
    }
    wide = cpu.pivot("metric", index="state", values="value", maintain_order=True)
    users = measures.cpu_by_process(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    busy = measures.busyness(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    return [
        cells.table(wide, {name: one for name, one in states.items() if name in wide.columns}, "CPU time by state"),
        *cells.unless_empty(
            users, {"comm": Column("Process"), "value": Column("Time", cells.seconds)}, "CPU time by process"
        ),
        *cells.unless_empty(
            busy.with_columns(pl.col("disk").fill_null("")),
            {"disk": Column("Disk"), "value": Column("Busy", cells.per_cent)},
            "How busy disks were",
        ),
        *glossary.fold(("cpu", "busyness")),
    ]
