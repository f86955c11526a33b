"""Name the owner of a piece by the thread that submitted it."""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.link.owner.processes import Processes

_MINORS = 1 << 20


def submitters(pieces: pl.DataFrame, processes: Processes) -> pl.DataFrame:
    """Return the owner columns by the thread that queued each piece, and `is_server` (`Processes.of_threads`).

    Without a submitter there is no owner.
    """
    threads = pieces.select(ts_ns="time", tid="submit_tid", pid="submit_pid", comm="submit_comm")
    identified = processes.of_threads(threads)
    own = pl.col("is_filesystem")
    return identified.select(
        "owner_pid",
        "is_server",
        owner_tid=pl.when(own).then("tid").otherwise("owner_tid"),
        owner_comm=pl.when(own).then("comm").otherwise("owner_comm"),
        owner_package="owner_package",
        owner_count=pl.col("is_process").cast(pl.Int32),
        owner_via=pl.when("is_process")
        .then(pl.lit("submitter"))
        .when(own)
        .then(pl.lit("filesystem"))
        .otherwise(pl.lit("unknown"))
        .cast(schema.enum("io", "owner_via")),
    )


def infer_for_others(pieces: pl.DataFrame, is_covered: pl.Expr, is_decided: pl.Expr) -> pl.DataFrame:
    """Return the pieces; the submitter is inferred if it may have written back what other processes modified.

    A fsync does so with the data of its file, and sync, umount and a full journal with all metadata. Excluded are
    blocks of the journal, pieces whose owner `rules` decide (`is_decided`), and if the trace records modifications
    (`is_covered`) also pieces in whose bio a probe saw no page. An inferred block of the journal may be data.
    """
    is_journal = (pl.col("block_type") == "journal") & (pl.col("map_source") != "inferred").fill_null(True)
    is_submitted = ((pl.col("op") == "write") & (pl.col("owner_via") == "submitter") & ~is_journal).fill_null(False)
    is_inferred = is_submitted & ~(is_decided | (is_covered & pl.col("is_pageless"))).fill_null(False)
    inferred = pl.lit("inferred").cast(schema.enum("io", "owner_via"))
    return pieces.with_columns(owner_via=pl.when(is_inferred).then(inferred).otherwise("owner_via"))


def infer_after_losses(pieces: pl.DataFrame, devices: pl.Series, lost: Losses) -> pl.DataFrame:
    """Return the pieces; results that may depend on lost events are inferred.

    - The file: the lost events may have freed the block and mapped it again. It remains a fact if another event shows
      that this page of the file was modified (`is_changed`), and the request does not state that it carries metadata.
    - The submitter, on `devices` with recorded modifications: the lost events may be modifications by other processes.
      Pages may be written back long after that.
    """
    ever = pl.Series([None] * pieces.height, dtype=pl.Int64)
    is_old, is_late = (
        pl.lit(lost.between(since, pieces["time"], pieces["part_dev"], "fs_events"))
        for since in (pieces["since_ns"], ever)
    )
    is_unconfirmed = ~pl.col("is_changed").fill_null(False) & (pl.col("block_type") != "journal")
    is_unconfirmed &= pl.col("map_source") == "tracepoint"
    is_contradicted = (pl.col("block_type") == "data") & pl.col("meta").fill_null(False)
    is_data = pl.col("block_type").is_in(["data", "unknown"]) & (pl.col("op") == "write")
    is_submitted = (pl.col("owner_via") == "submitter") & pl.col("part_dev").is_in(devices.implode())
    in_map, in_owner = (pl.lit("inferred").cast(schema.enum("io", name)) for name in ("map_source", "owner_via"))
    return pieces.with_columns(
        map_source=pl.when(is_old & (is_unconfirmed | is_contradicted)).then(in_map).otherwise("map_source"),
        owner_via=pl.when(is_late & is_data & is_submitted).then(in_owner).otherwise("owner_via"),
    )


def is_caller() -> pl.Expr:
    """Return whether the submitter certainly is the thread that queued the bio on the filesystem's own device.

    A device-mapper target may pass bios on later, in a kernel thread. If the trace shows the bio on the device above,
    time and submitter are those from there. A partition has the major number of its disk.
    """
    is_of_disk = pl.col("part_dev") // _MINORS == pl.col("dev") // _MINORS
    is_known = (pl.col("owner_via") == "submitter") | is_of_disk | is_passed_on()
    return (pl.col("submit_tid").is_not_null() & is_known).fill_null(False)


def is_passed_on() -> pl.Expr:
    """Return whether the trace shows that the bio was queued on a device above first."""
    return (pl.col("time") < pl.col("queue_ns")).fill_null(False)
