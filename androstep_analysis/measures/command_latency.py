"""Latency and queue depth of the commands that a storage device gets (definitions.toml, command_latency)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy

BY: Final = ("controller", "operation", "opcode")
NAMES: Final = ("controller", "operation")
"""The default grouping."""

OPERATIONS: Final = {
    "scsi": {
        "read": (0x08, 0x28, 0xA8, 0x88),
        "write": (0x0A, 0x2A, 0xAA, 0x8A),
        "discard": (0x42,),
        "flush": (0x35, 0x91),
    },
    "mmc": {"read": (17, 18, 46), "write": (24, 25, 47), "discard": (38,)},
}
"""Operation codes (SBC-4, table 10; JEDEC JESD84-B51, 6.10.4), by the family of the device."""

_OTHER: Final = "other"
_PLACE: Final = ("family", "device", "tag")
_UNITS: Final = {
    **dict.fromkeys(("commands", "unfinished"), "count"),
    "bytes": "B",
    **dict.fromkeys(("latency_p50", "latency_p99", "latency_max"), "ns"),
    **dict.fromkeys(("mean_depth", "max_depth"), "commands"),
}


def command_latency(commands: Table, *, by: Sequence[str] = NAMES, lost: Losses | None = None) -> pl.DataFrame:
    """Return the latency and the queue depth of the commands to UFS, SCSI and MMC devices.

    Parameters
    ----------
    commands : Table
        Table `commands`: ts_ns, event, step, device, tag, opcode, nr_bytes.
    by : sequence of str
        The columns to group by: any of controller (column device of the table: the controller, the host or the bus
        address), operation (read, write, discard, flush, other) and opcode.
    lost : Losses, optional
        The losses of the recording. A command has no latency if events may be missing between its two ends.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics commands and unfinished [count] (sent, and sent without a completion), bytes [B] (of
        the sent commands), latency_p50, latency_p99 and latency_max [ns] (nearest rank, of completed commands),
        mean_depth and max_depth [commands] (completed commands in flight at once; the mean is over the time from the
        first sent command to the last completion). `n` is the number of commands, `coverage` the share of all commands
        that completed. There are no rows if the recording has no commands.

    Raises
    ------
    ValueError
        If commands cannot be grouped by a column in `by`.

    References
    ----------
    ``schemas/definitions.toml``, command_latency.

    Examples
    --------
    >>> sent = pl.DataFrame({"ts_ns": [0, 500], "event": "mmc_request_start", "step": ["send", "complete"],
    ...                      "device": "mmc0", "tag": 0, "opcode": 25, "nr_bytes": 4096})
    >>> table = measures.command_latency(sent)
    >>> table.filter(metric="latency_max").select("operation", "value").row(0)
    ('write', 500.0)
    """
    if strange := [name for name in by if name not in BY]:
        raise ValueError(f"{', '.join(strange)}: commands can be grouped by {', '.join(BY)}")
    found = _sent(lazy(commands).collect(), lost or Losses())
    took = pl.col("took_ns").drop_nulls()
    groups = found.group_by(by, maintain_order=True).agg(
        n=pl.len().cast(pl.Int64),
        commands=pl.len().cast(pl.Int64),
        unfinished=pl.col("took_ns").null_count().cast(pl.Int64),
        bytes=pl.when(pl.col("nr_bytes").count() > 0).then(pl.col("nr_bytes").sum()),
        latency_p50=took.quantile(0.5, "equiprobable"),
        latency_p99=took.quantile(0.99, "equiprobable"),
        latency_max=took.max(),
        busy=took.sum(),
    )
    span = found.select((pl.col("ts_ns") + pl.col("took_ns")).max() - pl.col("ts_ns").min()).item()
    ended = found["took_ns"].count() / found.height if found.height else None
    table = groups.join(_most(found, by), on=by, how="left", nulls_equal=True, maintain_order="left").with_columns(
        mean_depth=pl.col("busy") / pl.lit(span or None, pl.Int64), coverage=pl.lit(ended, pl.Float64)
    )
    table = table.sort("n", *by, descending=[True, *(False for _ in by)])
    return columns_as_rows(table.drop("busy"), list(by), _UNITS)


def _sent(commands: pl.DataFrame, lost: Losses) -> pl.DataFrame:
    """Return the sent commands: ts_ns, controller, opcode, operation, nr_bytes, took_ns (null without a completion).

    A command ends with the next event of its slot (tag; null if the driver has no slots), provided that this is a
    completion.
    """
    steps = commands.with_columns(pl.col("event", "step").cast(pl.String)).filter(pl.col("step") != "other")
    is_mmc = pl.col("event").str.starts_with("mmc_")
    rows = steps.with_columns(family=pl.when(is_mmc).then(pl.lit("mmc")).otherwise(pl.lit("scsi")))
    # A UFS command has events of the UFS and the SCSI layer, and nothing maps a SCSI host to its UFS controller. If
    # there are UFS events, all SCSI events are dropped, including those of other disks.
    has_ufs = (rows["event"] == "ufshcd_command").any()
    rows = rows.filter(pl.lit(not has_ufs) | ~pl.col("event").str.starts_with("scsi_")).sort(
        "ts_ns", maintain_order=True
    )
    following = {name: pl.col(name).shift(-1).over(_PLACE) for name in ("step", "ts_ns")}
    sent = rows.with_columns(next_step=following["step"], next_ns=following["ts_ns"]).filter(pl.col("step") == "send")
    is_lost = lost.between(sent["ts_ns"], sent["next_ns"], pl.Series([None] * sent.height, dtype=pl.UInt32), "commands")
    is_done = (pl.col("next_step") == "complete").fill_null(False) & ~pl.lit(is_lost)
    return sent.select(
        *("ts_ns", "opcode", "nr_bytes"),
        controller="device",
        operation=_operation(),
        took_ns=pl.when(is_done).then(pl.col("next_ns") - pl.col("ts_ns")),
    )


def _operation() -> pl.Expr:
    operation = pl.lit(_OTHER)
    for family, codes in OPERATIONS.items():
        for name, numbers in codes.items():
            is_one = (pl.col("family") == family) & pl.col("opcode").is_in(numbers)
            operation = pl.when(is_one).then(pl.lit(name)).otherwise(operation)
    return operation


def _most(found: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return columns `by` and max_depth, the most completed commands in flight at once."""
    ended = found.drop_nulls("took_ns")
    begins = ended.select(*by, at="ts_ns", change=pl.lit(1, pl.Int64))
    ends = ended.select(*by, at=pl.col("ts_ns") + pl.col("took_ns"), change=pl.lit(-1, pl.Int64))
    # A command that ends at the time at which another begins does not overlap it.
    steps = pl.concat([begins, ends]).sort("at", "change")
    depth = steps.with_columns(depth=pl.col("change").cum_sum().over(by) if by else pl.col("change").cum_sum())
    return depth.group_by(by).agg(max_depth=pl.col("depth").max())


COMMAND_LATENCY: Final = Measure(
    "latency and queue depth of commands on the device",
    ("commands",),
    lambda t, by, recording: command_latency(t["commands"], by=by, lost=recording.losses),
    by=NAMES,
    has_windows=False,
    asks_recording=True,
    applied=Applied.RESULT,
)
