"""Apply all triggers to a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.common.errors import printable
from androstep_analysis.present.advice import needs, saving
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import CERTAINTY, FINDING, of_apps, with_certainty
from androstep_analysis.present.advice.registry import Trigger, triggers
from androstep_analysis.present.advice.words import evidence_of

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

STATUS: Final = pl.Enum(["found", "nothing", "cannot tell"])

ADVICE: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "trigger": pl.String,
    "status": STATUS,
    **FINDING,
    **dict.fromkeys(CERTAINTY, pl.Float64),
    **dict.fromkeys(("saved_ns", "saved_lo_ns", "saved_hi_ns", "coverage"), pl.Float64),
    **dict.fromkeys(("evidence", "do", "lacks"), pl.String),
}


def advise(capture: Capture, model: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return findings on avoidable I/O, with their cost and the saving of a fix.

    Findings have a cost that was measured in this capture, and a fix that an app's developer can make. Files of the
    system and of packages are left out. The rows of table `io` that a finding rests on are those of its process and
    path from begin_ns to end_ns.

    Parameters
    ----------
    capture : Capture
        The capture to check.
    model : polars.DataFrame, optional
        Request times of a device (`whatif.fit`, `whatif.read_model`). With it, the saved time on that device is
        predicted for the triggers that support it (docs/advise.md).

    Returns
    -------
    polars.DataFrame
        A row for each finding, the most costly (took_ns, then bytes) first, then one for each trigger without any.
        Columns trigger (String) and status (Enum: found, nothing, cannot tell); process, package, path (String);
        begin_ns, end_ns (Int64 [ns]); times (Int64: number of occurrences of what `evidence` describes), requests,
        bytes [B] and took_ns [ns] (Int64): the cost; value (Float64: a figure specific to the trigger); saved_times,
        saved_requests, saved_bytes [B] (Int64): what a fix would avoid; who_inferred, file_inferred (Float64: share of
        the bytes of this process and file in table `io`, in that time, whose attribution is inferred);
        saved_ns, saved_lo_ns, saved_hi_ns (Float64 [ns]): the time predicted with `model`; coverage (Float64: share of
        the bytes of data for which the trigger has the columns it needs); evidence, do (String), sentences; lacks
        (String): why the trigger is undecided. Unknown values are null.

    References
    ----------
    ``schemas/triggers.toml`` has limits and their sources. Drishti (Bez et al., PDSW 2022) does this for Darshan logs.

    Examples
    --------
    >>> table = androstep.advise(capture)
    >>> set(table["status"]) <= {"found", "nothing", "cannot tell"}
    True
    """
    evidence = Evidence(capture)
    tables = [_of(trigger, evidence, capture, model) for trigger in triggers()]
    rows = pl.concat([pl.DataFrame(schema=ADVICE), *tables])
    cost = [pl.col(name) for name in ("took_ns", "bytes", "times")]
    return rows.sort("status", *cost, descending=[False, True, True, True], nulls_last=True, maintain_order=True)


def _of(trigger: Trigger, evidence: Evidence, capture: Capture, model: pl.DataFrame | None) -> pl.DataFrame:
    lacks, coverage = needs.lacks(trigger, evidence, capture)
    rows = pl.DataFrame(schema=FINDING)
    if not lacks:
        try:
            rows = of_apps(trigger.found(evidence))
        except Exception as error:  # a plug-in may raise anything
            if trigger.find.__module__.startswith("androstep_analysis."):
                raise
            lacks = printable(f"it does not run: {type(error).__name__}: {error}")
    if rows.is_empty() and not lacks:
        lacks = needs.too_little(coverage)
    status = "cannot tell" if lacks else "found" if rows.height else "nothing"
    rows = rows if rows.height else pl.DataFrame({name: [None] for name in FINDING}, schema=FINDING)
    rows = with_certainty(rows, evidence.tables["io"])
    texts = [evidence_of(trigger, row) if status == "found" else None for row in rows.iter_rows(named=True)]
    table = rows.with_columns(
        trigger=pl.lit(trigger.name),
        status=pl.lit(status),
        coverage=pl.lit(coverage),
        evidence=pl.Series(texts, dtype=pl.String),
        do=pl.lit(trigger.do),
        lacks=pl.lit(lacks or None),
        saved_ns=None,
        saved_lo_ns=None,
        saved_hi_ns=None,
    )
    if status == "found" and model is not None:
        table = saving.predicted(trigger.name, table, capture, model)
    return table.select(pl.col(name).cast(dtype) for name, dtype in ADVICE.items())
