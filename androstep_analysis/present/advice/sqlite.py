"""Triggers for SQLite: rollback journals, filesystem journalling of SQLite's logs, and WAL files that only grow."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.measures.sync_cost import database_calls, transactions
from androstep_analysis.present.advice.evidence import Evidence, owners, span
from androstep_analysis.present.advice.findings import findings, with_cost

_LOG = r"-(?:journal|wal)$"


def _database() -> pl.Expr:
    """Return an expression for the database that a file is, or belongs to as its log."""
    return pl.col("path").str.replace(_LOG, "")


def rollback(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find databases whose transactions use a rollback journal and sync more than once."""
    done = transactions(database_calls(evidence.write_data, evidence.calls, ()))
    many = done.filter(pl.col("log") == "journal").group_by("database", maintain_order=True).agg(
        begin_ns=pl.col("begin_ns").min(), end_ns=pl.col("end_ns").max(), times=pl.len(), syncs=pl.col("syncs").sum()
    )  # fmt: skip
    many = many.filter(
        pl.col("times") >= limits["transactions"], pl.col("syncs") >= pl.col("times") * limits["syncs"]
    ).rename({"database": "path"})
    waited = evidence.syncs.select(
        "owner_comm", "owner_package", path=_database(), time="ts_ns", waited_ns=pl.col("end_ns") - pl.col("ts_ns")
    )
    near = many.select("path", "begin_ns", "end_ns").join(waited, on="path")
    near = near.filter(pl.col("time").is_between(pl.col("begin_ns"), pl.col("end_ns")))
    took = near.group_by("path").agg(**owners(), waited_ns=pl.col("waited_ns").sum())
    pieces = evidence.pieces("write").select("request_id", "bytes", "time", "took_ns", path=_database()).collect()
    rows = with_cost(many, pieces).join(took, on="path", how="left", maintain_order="left")
    return findings(rows.with_columns(took_ns="waited_ns", saved_times=pl.col("syncs") - pl.col("times")))


def journals(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find databases for which the filesystem journals as many bytes as SQLite logs itself."""
    cost = evidence.write_cost.filter(metric="cost").drop_nulls("path").with_columns(
        database=_database(), part=pl.col("part").cast(pl.String)
    )  # fmt: skip
    is_log, is_data = pl.col("path").str.contains(_LOG), pl.col("part").is_in(["data", "rewritten"])
    rows = cost.group_by(path="database").agg(
        log=pl.col("value").filter(is_log & is_data).sum(),
        bytes=pl.col("value").filter(pl.col("part").is_in(["journal", "node"])).sum(),
    )
    rows = rows.with_columns(value=pl.col("bytes") / pl.col("log")).filter(
        pl.col("log") > 0, pl.col("value") >= limits["ratio"], pl.col("bytes") >= limits["bytes"]
    )
    written = evidence.pieces("write").with_columns(path=_database())
    whose = written.filter(pl.col("path").is_in(rows["path"].implode())).group_by("path").agg(**owners(), **span())
    known = rows.join(whose.collect(), on="path", how="left")
    return findings(known.with_columns(saved_bytes="bytes"))


def wal(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find WAL files beyond SQLite's checkpoint size, if the database was not written to after that."""
    end = pl.col("file_offset_bytes") + pl.col("bytes")
    written = evidence.pieces("write").drop_nulls(["path", "file_offset_bytes"]).with_columns(
        database=_database(), is_wal=pl.col("path").str.ends_with("-wal"), end=end
    )  # fmt: skip
    is_wal = pl.col("is_wal")
    crossed = pl.col("time").filter(is_wal & (pl.col("end") > limits["usual"])).min()
    of_wal = {name: expr.filter(is_wal) for name, expr in {"size": pl.col("end"), "bytes": pl.col("bytes")}.items()}
    rows = (
        written.group_by("database")
        .agg(
            **owners(),
            **span(),
            path=pl.col("path").filter(is_wal).first(),
            value=of_wal["size"].max(),
            bytes=of_wal["bytes"].sum(),
            requests=pl.col("request_id").filter(is_wal).n_unique(),
            took_ns=pl.col("took_ns").filter(is_wal & pl.col("request_id").is_first_distinct()).sum(),
            checkpointed=(~is_wal & ~pl.col("path").str.ends_with("-journal") & (pl.col("time") >= crossed)).any(),
        )
        .filter(pl.col("value") >= limits["bytes"], ~pl.col("checkpointed"))
    )
    return findings(rows.collect())
