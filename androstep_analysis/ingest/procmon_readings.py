"""Turn the texts that procmon recorded into readings of counters.

procmon records a text when it differs from the previous one. The record also contains the last time at which the text
was still the previous one. Counters are treated in the same way: of equal consecutive readings, the first and the last
are stored. Counters of processes are stored from the last reading of 0 before the first other value.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest import procmon_files
from androstep_analysis.ingest.procmon_files import Machine

_LARGEST = (1 << 63) - 1
_OF = ("scope", "dev", "pid", "instance", "counter", "unit")
"""The columns that identify a counter."""


def samples(texts: pl.DataFrame, machine: Machine) -> tuple[pl.DataFrame, int]:
    """Return table samples of the records `text`, and the number of records that depend on lost records."""
    recorded = _whole(texts.drop_nulls(["ts_ns", "file", "parts_left"]))
    files = _files(recorded)
    wholes = files.filter(pl.col("text").is_not_null())
    counters, nameless = _counters(wholes, machine)
    series = counters.select("chain", "run", *_OF).unique(maintain_order=True).with_row_index("series")
    counters = counters.join(series, on=["chain", "run", *_OF], nulls_equal=True, maintain_order="left")
    readings = pl.concat([counters.select(_READING), _changed(files, counters)])
    readings = pl.concat([readings, _before_names(readings, counters, files)])
    rows = _changes(_timed(readings, files)).join(series, on="series", maintain_order="left")
    rows = rows.with_columns(pl.when(pl.col("instance") != "").then("instance"))
    return rows.filter(_is_reported()).select(
        list(schema.table("samples").polars)
    ), recorded.height - files.height + nameless


_READING = ("series", "row", "at_ns", "is_end", "number", "factor")
"""`number` times `factor` is the value in the text of `row`. `at_ns` is the time of the reading, if it differs from
that of the text. `is_end`: the counter is no longer in the text of `row`, but was until then.
"""


# -- texts ------------------------------------------------------------------------------------------------------------


def _whole(texts: pl.DataFrame) -> pl.DataFrame:
    """Join texts that span several records, and return the readings by file and time.

    The text is null if one of its records is missing.
    """
    texts = texts.sort("file", maintain_order=True)
    goes_on = (
        (pl.col("file") == pl.col("file").shift())
        & (pl.col("ts_ns") == pl.col("ts_ns").shift())
        & (pl.col("parts_left") + 1 == pl.col("parts_left").shift())
    )
    left = pl.col("parts_left")
    return (
        texts.with_columns(reading=(~goes_on.fill_null(False)).cum_sum())
        .group_by("reading", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in ("file", "ts_ns", "before_ns", "path", "numbers")),
            pl.when(pl.col("text").is_not_null().all()).then(pl.col("text").str.join("")).first().alias("text"),
            is_whole=(left.first() + 1 == pl.len()) & (left.last() == 0),
        )
    )


def _files(readings: pl.DataFrame) -> pl.DataFrame:
    """Return the usable readings with their `row` and their position in the file.

    - `chain` begins with a whole text. Every further reading in it directly follows the previous one (`before_ns`).
    - `epoch` is the row of the latest whole text, and `epoch_number` counts these.
    - `end_ns` is the time of the last reading of the epoch.
    """
    links = (
        (pl.col("file") == pl.col("file").shift())
        & (pl.col("before_ns") == pl.col("ts_ns").shift())
        & pl.col("is_whole")
    )
    is_text = pl.col("text").is_not_null() & pl.col("is_whole")
    index = pl.int_range(pl.len(), dtype=pl.UInt32)
    return (
        readings.with_columns(is_first=pl.col("before_ns").is_null(), is_linked=links.fill_null(False), is_text=is_text)
        .with_columns(
            chain=pl.when(~pl.col("is_linked")).then(index).forward_fill(),
            text_index=pl.when("is_text").then(index).forward_fill(),
        )
        .filter(pl.col("text_index") >= pl.col("chain"))
        .with_columns(row=index, epoch=pl.when("is_text").then(index).forward_fill(), epoch_number=is_text.cum_sum())
        .with_columns(
            before_ns=pl.when(pl.col("chain") == pl.col("chain").shift()).then(pl.col("ts_ns").shift()),
            end_ns=pl.col("ts_ns").last().over("epoch"),
        )
    )


def _changed(files: pl.DataFrame, counters: pl.DataFrame) -> pl.DataFrame:
    """Return the readings of counters that changed while no whole text was written."""
    words = files.select("row", "epoch", word=pl.col("numbers").str.split(" ")).filter(
        pl.col("word").list.len() % 2 == 0
    )
    changed = words.select(
        *("row", "epoch"),
        between=pl.col("word").list.gather_every(2),
        number=pl.col("word").list.gather_every(2, 1),
    ).explode("between", "number")
    index = (pl.col("between").cast(pl.UInt32, strict=False) + 1).cum_sum().over("row") - 1
    numbers = changed.select("row", "epoch", index.alias("word"), pl.col("number").cast(pl.Int64, strict=False))
    series_of_words = counters.filter(pl.col("at_ns").is_null(), ~pl.col("is_end")).select(
        "series", "factor", "word", epoch="row"
    )
    return numbers.join(series_of_words, on=["epoch", "word"]).select(
        "series", "row", pl.lit(None, pl.Int64).alias("at_ns"), pl.lit(False).alias("is_end"), "number", "factor"
    )


# -- counters ---------------------------------------------------------------------------------------------------------


def _counters(wholes: pl.DataFrame, machine: Machine) -> tuple[pl.DataFrame, int]:
    """Return the counters in whole texts, and the number of texts that belong to an unknown process.

    The columns are `procmon_files.COLUMNS`, `at_ns`, `is_end`, `chain` and `run`. A process starts a new `run` when its
    name changes, as after exec. Its counters until then stay with the old name.
    """
    is_process, is_io = pl.col("path").str.contains(r"^/proc/\d+/"), pl.col("path").str.ends_with("/io")
    in_chain = wholes.select("row", "chain", "is_first", "ts_ns", "before_ns")
    of_stat, processes = procmon_files.of_stat(wholes.filter(is_process & ~is_io), machine)
    is_named = pl.struct("chain", "name")
    named = processes.join(in_chain, on="row", maintain_order="left").with_columns(
        run=(is_named != is_named.shift()).fill_null(True).cum_sum(),
        began_ns=pl.when(pl.col("started_ns") >= machine.opened_ns).then("started_ns"),
    )
    of_io = procmon_files.of_io(wholes.filter(is_process & is_io)).join(in_chain, on="row", maintain_order="left")
    named_runs = named.select("pid", "ts_ns", "name", "run", "began_ns").sort("ts_ns")
    of_io = of_io.sort("ts_ns").join_asof(named_runs, on="ts_ns", by="pid", check_sortedness=False)
    nameless = of_io.filter(pl.col("run").is_null())["row"].n_unique()
    of_io = of_io.drop_nulls("run").with_columns(instance="name")
    of_processes = [
        _with_starts(table.with_columns(at_ns=pl.lit(None, pl.Int64), is_end=pl.lit(False)))
        for table in (of_stat.join(named.select("row", "run", "began_ns", "chain", "is_first"), on="row"), of_io)
    ]
    system = procmon_files.of_system(wholes.filter(~is_process), machine).join(
        in_chain, on="row", maintain_order="left"
    )
    system = system.with_columns(run=pl.lit(0, pl.UInt32), at_ns=pl.lit(None, pl.Int64), is_end=pl.lit(False))
    columns = [*procmon_files.COLUMNS, "chain", "run", "at_ns", "is_end"]
    parts = [system, *of_processes, _renamed(of_processes[0], named)]
    return pl.concat([part.select(columns) for part in parts]), nameless


def _with_starts(counters: pl.DataFrame) -> pl.DataFrame:
    """Add readings of 0 at the start of processes that started during the recording."""
    is_start = pl.col("is_first") & pl.col("began_ns").is_not_null()
    starts = counters.filter(is_start, ~pl.col("counter").is_in(procmon_files.LEVELS))
    return pl.concat([starts.with_columns(at_ns="began_ns", number=pl.lit(0, pl.Int64)), counters])


def _renamed(counters: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return the last readings of processes under their old names."""
    is_renamed = pl.col("chain") == pl.col("chain").shift()
    old = named.select(
        "row", "run", old_run=pl.col("run").shift(), old_name=pl.col("name").shift(), is_renamed=is_renamed
    )
    old = old.filter((pl.col("run") != pl.col("old_run")) & pl.col("is_renamed")).select("row", "old_run", "old_name")
    ended = counters.filter(pl.col("at_ns").is_null()).join(old, on="row")
    return ended.with_columns(run="old_run", instance="old_name", is_end=pl.lit(True))


def _before_names(readings: pl.DataFrame, counters: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Return the first readings of a process's I/O under a new name: the last readings under the old name."""
    of_io = counters.filter(pl.col("counter").str.starts_with("io."))
    renamed = of_io.group_by("chain").agg(pl.col("run").n_unique()).filter(pl.col("run") > 1)
    of_io = of_io.join(renamed, on="chain", how="semi").select("series", "chain", "counter", "run").unique()
    rows = readings.filter(pl.col("at_ns").is_null()).join(of_io, on="series").sort("chain", "counter", "row")
    one = pl.struct("chain", "counter")
    is_renamed = (one == one.shift()) & (pl.col("run") != pl.col("run").shift())
    before_ns = files.select("row", "before_ns")
    return (
        rows.with_columns(number=pl.col("number").shift(), is_renamed=is_renamed)
        .filter("is_renamed")
        .join(before_ns, on="row")
        .with_columns(at_ns="before_ns")
        .select(_READING)
    )


# -- readings ---------------------------------------------------------------------------------------------------------


def _timed(readings: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Return readings with their times and values, sorted by series and time."""
    of_rows = files.select("ts_ns", "before_ns", "end_ns", "epoch_number")[readings["row"]]
    ts_ns = pl.coalesce("at_ns", "ts_ns")
    fits = pl.col("number").abs() <= _LARGEST // pl.col("factor")
    timed = pl.concat([readings, of_rows], how="horizontal").select(
        "series",
        "epoch_number",
        "row",
        ts_ns.alias("ts_ns"),
        pl.when(pl.col("at_ns").is_null()).then("before_ns").alias("before_ns"),
        pl.when("is_end").then(ts_ns).otherwise("end_ns").alias("end_ns"),
        pl.when(fits).then(pl.col("number") * pl.col("factor")).alias("value"),
    )
    timed = timed.sort("series", "ts_ns", "row", maintain_order=True)
    is_back = (pl.col("series") == pl.col("series").shift()) & (
        pl.col("epoch_number") > pl.col("epoch_number").shift() + 1
    )
    return _readable(timed.with_columns(absences=is_back.fill_null(False).cum_sum()).drop("epoch_number", "row"))


def _readable(readings: pl.DataFrame) -> pl.DataFrame:
    """Drop readings that are not numbers or too large, as if the counter had not been read at that time."""
    one, is_lost = pl.struct("series", "absences"), pl.col("value").is_null()
    is_same = one == one.shift()
    is_resumed = (is_same & is_lost.shift()).fill_null(False)
    until_ns = pl.when(is_lost & ~is_resumed).then("before_ns").forward_fill()
    is_left = (is_same & is_lost).shift(-1).fill_null(False)
    return readings.with_columns(
        before_ns=pl.when(is_resumed).then(until_ns.shift()).otherwise("before_ns"),
        end_ns=pl.when(is_left).then(pl.col("before_ns").shift(-1)).otherwise("end_ns"),
    ).filter(~is_lost)


def _changes(readings: pl.DataFrame) -> pl.DataFrame:
    """Return the readings (series, ts_ns, value) that differ from the previous one, and the last one before each."""
    same = pl.col("series") == pl.col("series").shift()
    gap = same & (pl.col("absences") != pl.col("absences").shift())
    readings = readings.with_columns(
        is_gap=gap.fill_null(False),
        is_last=(~same | gap).shift(-1).fill_null(True),
        differs=(~same | (pl.col("value") != pl.col("value").shift())).fill_null(True),
        old=pl.col("value").shift(),
    )
    first = readings.filter("differs")
    last = readings.filter(pl.col("is_last") & (~pl.col("differs") | (pl.col("end_ns") > pl.col("ts_ns"))))
    before = first.filter(
        (pl.col("series") == pl.col("series").shift())
        & ~pl.col("is_gap")
        & (pl.col("before_ns") > pl.col("ts_ns").shift())
    )
    parts = [
        first.select("series", "ts_ns", "value"),
        before.select("series", ts_ns="before_ns", value="old"),
        last.select("series", ts_ns="end_ns", value="value"),
    ]
    return pl.concat(parts).sort("series", "ts_ns", maintain_order=True)


def _is_reported() -> pl.Expr:
    """Return whether to store a row.

    All rows of the system are stored. Counters of processes are stored from the last 0 before another value. Rows are
    sorted by series and time.
    """
    is_same = pl.col("series") == pl.col("series").shift(-1)
    was_used = (pl.col("value") != 0).cum_max().over("series")
    is_used_next = is_same & (pl.col("value").shift(-1) != 0)
    return (pl.col("scope") != "process") | was_used | is_used_next.fill_null(False)
