"""User-perceived latency: from an input to the next stable state of the GUI (definitions.toml, perceived_latency).

>>> transitions(seen(capture.gui_states), inputs(capture.steps))

The state is observed in one of two ways: by snapshots at some times (`seen`), or by every presented frame
(`presented`). Both give *views*, a row for each period in which one state was observed:

- ``state`` (String), ``busy`` (Boolean),
- ``from_lo_ns`` and ``from_hi_ns`` (Int64): bounds of the time at which it was entered; the first has no lower bound,
- ``until_ns`` (Int64): the last time at which it was observed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.measures.tables import Table, frame, lazy
from androstep_analysis.perceived import spans

SETTLE_NS: Final = 500_000_000
"""Default time for which a state must last to be stable."""

LIMITS: Final = {"instant": 100_000_000, "flow": 1_000_000_000, "attention": 10_000_000_000}
"""Nielsen's limits: the longest latency of each class, in ns. Longer latencies are `lost`."""

CLASSES: Final = pl.Enum([*LIMITS, "lost"])
OUTCOMES: Final = pl.Enum(["stable", "unstable", "no_change"])

INPUTS: Final = ("start", "load", "tap", "swipe", "text", "key")
"""The steps of a workload that are inputs of a user."""

_FOREVER = 1 << 62


def seen(states: Table) -> pl.DataFrame:
    """Return the views of table `gui_states`.

    A state that existed only between two snapshots is missing.

    Parameters
    ----------
    states : Table
        Table `gui_states`: ts_ns, end_ns, state, busy.

    Returns
    -------
    polars.DataFrame
        Views: state (String), busy (Boolean), from_lo_ns, from_hi_ns and until_ns (Int64).

    Examples
    --------
    >>> states = pl.DataFrame({"ts_ns": [0, 10, 20], "end_ns": [2, 12, 22], "state": ["a", "b", "b"], "busy": False})
    >>> perceived.seen(states).rows()
    [('a', False, None, 2, 0), ('b', False, 0, 12, 20)]
    """
    rows = lazy(states, ("gui_states",)).sort("ts_ns", "end_ns").collect()
    change = (pl.col("state").ne_missing(pl.col("state").shift(1))).cum_sum()
    return (
        rows.with_columns(view=change, before_ns=pl.col("ts_ns").shift(1))
        .group_by("view", maintain_order=True)
        .agg(
            pl.col("state").first(),
            pl.col("busy").any(),
            from_lo_ns=pl.col("before_ns").first(),
            from_hi_ns=pl.col("end_ns").min(),
            until_ns=pl.col("ts_ns").max(),
        )
        .drop("view")
    )


def presented(frames: Table, *, until_ns: int, pids: Collection[int] | None = None) -> pl.DataFrame:
    """Return the views of table `frames`: each presented frame of a surface is a state of its own.

    A frame is presented at the end of its display frame, or at its own end if the display frame is not in the trace.

    Parameters
    ----------
    frames : Table
        Table `frames`: end_ns, timeline, token, display_token, present, and with `pids` pid.
    until_ns : int
        The end of the recording, in ns of its clock, which ends the last view.
    pids : collection of int, optional
        The processes of the app; by default all except the display's own.

    Returns
    -------
    polars.DataFrame
        Views as in `seen`; none is busy.

    References
    ----------
    Android FrameTimeline.

    Examples
    --------
    >>> frames = pl.DataFrame({"end_ns": [10, 20], "timeline": "actual_surface", "token": [1, 2], "display_token": None,
    ...                        "present": "on_time", "pid": 7})
    >>> perceived.presented(frames, until_ns=30)["until_ns"].to_list()
    [20, 30]
    """
    rows = lazy(frames, ("frames",))
    display = (
        rows.filter(pl.col("timeline") == "actual_display", pl.col("end_ns").is_not_null())
        .group_by(display_token="token")
        .agg(shown_ns=pl.col("end_ns").max())
    )
    surface = rows.filter(pl.col("timeline") == "actual_surface", (pl.col("present") != "dropped").fill_null(True))
    if pids is not None:
        surface = surface.filter(pl.col("pid").is_in(list(pids)))
    shown = (
        surface.join(display, on="display_token", how="left")
        .select(at=pl.coalesce("shown_ns", "end_ns"))
        .filter(pl.col("at").is_not_null() & (pl.col("at") < until_ns))
        .unique()
        .sort("at")
        .collect()
    )
    return shown.select(
        state=pl.format("frame at {}", "at"),
        busy=pl.lit(False),
        from_lo_ns="at",
        from_hi_ns="at",
        until_ns=pl.col("at").shift(-1).fill_null(until_ns),
    )


def inputs(steps: Table, *, what: Sequence[str] = INPUTS) -> pl.DataFrame:
    """Return the steps of a workload that are inputs.

    Parameters
    ----------
    steps : Table
        Table `steps`: number, what, label, ts_ns, end_ns, error_ns.
    what : sequence of str
        The kinds of steps (column what) that are inputs.

    Returns
    -------
    polars.DataFrame
        Columns label, ts_ns, end_ns (Int64), both widened by the error of the clock. The input occurred between the
        two.

    Examples
    --------
    >>> steps = pl.DataFrame({"number": [0], "what": "tap", "label": "open", "ts_ns": 100, "end_ns": 200,
    ...                       "error_ns": 5})
    >>> perceived.inputs(steps).row(0)
    ('open', 95, 205)
    """
    rows = lazy(steps, ("steps",)).filter(pl.col("what").is_in(list(what))).sort("ts_ns", "number")
    # A page is requested when loading begins. The wait after that is not part of the input.
    given_ns = pl.when(pl.col("what") == "load").then("ts_ns").otherwise("end_ns")
    return rows.select(
        "label", ts_ns=pl.col("ts_ns") - pl.col("error_ns"), end_ns=given_ns + pl.col("error_ns")
    ).collect()


def transitions(
    views: pl.DataFrame, inputs: Table, *, settle_ns: int = SETTLE_NS, work: Table | None = None
) -> pl.DataFrame:
    """Return the result of each input, a row each, in order of time.

    Parameters
    ----------
    views : polars.DataFrame
        The result of `seen` or `presented`.
    inputs : Table
        Columns label, ts_ns and end_ns (the input occurred between them), as in `inputs`.
    settle_ns : int
        Time for which a state must last to be stable, in ns.
    work : Table, optional
        Columns start_ns and end_ns of work in the background that belongs to the operations, such as the loading of a
        page. A state is stable only when it is done.

    Returns
    -------
    polars.DataFrame
        Columns: label, ts_ns, end_ns; outcome (Enum: stable; unstable: the state changed, and no state before the next
        input lasted for `settle_ns`; no_change: no change was observed); state (String); first_ns (time of the first
        observed change); stable_lo_ns and stable_hi_ns, between which the stable state was entered; latency_lo_ns and
        latency_hi_ns, the range of the latency; class_lo and class_hi (Enum), their classes (`LIMITS`); changes (of the
        state, before the next input) and later_changes (those after the stable state was entered). Times and numbers
        are Int64.

    Raises
    ------
    ValueError
        If `settle_ns` is negative.

    References
    ----------
    ``schemas/definitions.toml``, perceived_latency and response_class; Luo, Jiang and Cohen, section 2.

    Examples
    --------
    >>> views = pl.DataFrame({"state": ["a", "b"], "busy": False, "from_lo_ns": [None, 10**9],
    ...                       "from_hi_ns": [0, 11 * 10**8], "until_ns": [10**9, 3 * 10**9]})
    >>> given = pl.DataFrame({"label": "open", "ts_ns": [8 * 10**8], "end_ns": [8 * 10**8]})
    >>> perceived.transitions(views, given).select("outcome", "latency_lo_ns", "latency_hi_ns").row(0)
    ('stable', 200000000, 300000000)
    """
    if settle_ns < 0:
        raise ValueError(f"settle_ns is {settle_ns}: a time of at least 0 is needed")
    numbered = (
        lazy(inputs, ())
        .select("label", "ts_ns", "end_ns")
        .sort("ts_ns", "end_ns")
        .with_row_index("input")
        .with_columns(next_ns=pl.col("ts_ns").shift(-1).fill_null(_FOREVER))
        .collect()
    )
    changed = numbered.join_where(
        views.filter(pl.col("from_lo_ns").is_not_null()).select(changed_ns="from_hi_ns"),
        pl.col("changed_ns") > pl.col("ts_ns"),
        pl.col("changed_ns") <= pl.col("next_ns"),
    )
    changes = changed.group_by("input").agg(first_ns=pl.col("changed_ns").min(), changes=pl.len().cast(pl.Int64))
    quiet = _quiet(views, work)
    settled = (
        numbered.join_where(quiet, pl.col("quiet_hi_ns") > pl.col("ts_ns"), pl.col("quiet_hi_ns") <= pl.col("next_ns"))
        .filter(~pl.col("busy"), pl.col("quiet_lo_ns") > -_FOREVER)
        .filter(pl.min_horizontal("until_ns", "next_ns") - pl.col("quiet_hi_ns") >= settle_ns)
        .sort("input", "quiet_hi_ns")
        .unique("input", keep="first", maintain_order=True)
        .select("input", "state", stable_lo_ns="quiet_lo_ns", stable_hi_ns="quiet_hi_ns")
    )
    later = (
        changed.join(settled, on="input")
        .filter(pl.col("changed_ns") > pl.col("stable_hi_ns"))
        .group_by("input")
        .agg(later_changes=pl.len().cast(pl.Int64))
    )
    rows = numbered.join(changes, on="input", how="left").join(settled, on="input", how="left")
    rows = rows.join(later, on="input", how="left").sort("input")
    is_stable = pl.col("stable_hi_ns").is_not_null()
    earliest = pl.max_horizontal("stable_lo_ns", "ts_ns")
    return (
        rows.with_columns(
            outcome=pl.when(is_stable)
            .then(pl.lit("stable"))
            .when(pl.col("changes") > 0)
            .then(pl.lit("unstable"))
            .otherwise(pl.lit("no_change"))
            .cast(OUTCOMES),
            changes=pl.col("changes").fill_null(0),
            later_changes=pl.when(is_stable).then(pl.col("later_changes").fill_null(0)),
            stable_lo_ns=pl.when(is_stable).then(earliest),
        )
        .with_columns(
            latency_lo_ns=pl.max_horizontal(pl.col("stable_lo_ns") - pl.col("end_ns"), pl.lit(0)),
            latency_hi_ns=pl.col("stable_hi_ns") - pl.col("ts_ns"),
        )
        .with_columns(
            pl.when(is_stable).then("latency_lo_ns"),
            class_lo=pl.when(is_stable).then(_class("latency_lo_ns")).cast(CLASSES),
            class_hi=pl.when(is_stable).then(_class("latency_hi_ns")).cast(CLASSES),
        )
        .select(
            *("label", "ts_ns", "end_ns", "outcome", "state", "first_ns", "stable_lo_ns", "stable_hi_ns"),
            *("latency_lo_ns", "latency_hi_ns", "class_lo", "class_hi", "changes", "later_changes"),
        )
    )


def _quiet(views: pl.DataFrame, work: Table | None) -> pl.DataFrame:
    """Return the views without the times of work: state, busy, quiet_lo_ns and quiet_hi_ns (entered), until_ns."""
    bounds = views.with_columns(quiet_lo_ns=pl.col("from_lo_ns").fill_null(-_FOREVER), quiet_hi_ns="from_hi_ns")
    if work is None:
        return bounds.select("state", "busy", "quiet_lo_ns", "quiet_hi_ns", "until_ns")
    done = lazy(work, ()).select("start_ns", "end_ns").collect()
    starts, ends = spans.gaps(
        done["start_ns"].to_numpy().astype(np.int64), done["end_ns"].to_numpy().astype(np.int64), -_FOREVER, _FOREVER
    )
    free = pl.DataFrame({"free_from_ns": starts, "free_to_ns": ends})
    cut = bounds.join_where(
        free, pl.col("free_from_ns") <= pl.col("until_ns"), pl.col("free_to_ns") > pl.col("quiet_hi_ns")
    )
    return cut.select(
        "state",
        "busy",
        quiet_lo_ns=pl.max_horizontal("quiet_lo_ns", "free_from_ns"),
        quiet_hi_ns=pl.max_horizontal("quiet_hi_ns", "free_from_ns"),
        until_ns=pl.min_horizontal("until_ns", "free_to_ns"),
    )


def _class(column: str) -> pl.Expr:
    rule = pl.lit("lost")
    for name, limit in reversed(LIMITS.items()):
        rule = pl.when(pl.col(column) <= limit).then(pl.lit(name)).otherwise(rule)
    return rule


def loads(steps: Table) -> pl.DataFrame:
    """Return the loads of pages in table `steps` as `transitions`, for recordings without the screen; in order of time.

    A loaded page is stable at the end of its load: both latencies are the duration. A failed load is unstable.

    Parameters
    ----------
    steps : Table
        Table `steps`: what, label, ts_ns, end_ns, outcome.

    Returns
    -------
    polars.DataFrame
        The columns of `transitions`. Those that require the screen (state, first_ns, changes, later_changes) are null.

    Examples
    --------
    >>> steps = pl.DataFrame({"what": ["load"], "label": "news", "ts_ns": 100, "end_ns": 350, "outcome": "completed"})
    >>> perceived.loads(steps)["latency_hi_ns"].item()
    250
    """
    rows = lazy(steps, ("steps",)).filter(pl.col("what") == "load").sort("ts_ns", "end_ns")
    is_there = pl.col("outcome") == "completed"
    outcome = pl.when(is_there).then(pl.lit("stable")).otherwise(pl.lit("unstable")).cast(OUTCOMES)
    loaded_ns = pl.when(is_there).then(pl.max_horizontal("end_ns", "ts_ns"))
    took_ns = loaded_ns - pl.col("ts_ns")
    unknown = pl.lit(None, pl.Int64)
    return (
        rows.select(
            *("label", "ts_ns"),
            end_ns="ts_ns",
            outcome=outcome,
            state=pl.lit(None, pl.String),
            first_ns=unknown,
            stable_lo_ns=loaded_ns,
            stable_hi_ns=loaded_ns,
            latency_lo_ns=took_ns,
            latency_hi_ns=took_ns,
        )
        .with_columns(
            class_lo=pl.when(pl.col("latency_lo_ns").is_not_null()).then(_class("latency_lo_ns")).cast(CLASSES),
            class_hi=pl.when(pl.col("latency_hi_ns").is_not_null()).then(_class("latency_hi_ns")).cast(CLASSES),
            changes=unknown,
            later_changes=unknown,
        )
        .collect()
    )


def loading(steps: Table) -> pl.DataFrame:
    """Return the states of a page loader as views, for recordings without the screen.

    It is busy from the request of a page until the page is loaded.

    Parameters
    ----------
    steps : Table
        Table `steps` of one run: label, ts_ns, end_ns.

    Returns
    -------
    polars.DataFrame
        Views as in `seen`. The last one ends after a second.

    References
    ----------
    Luo, Jiang and Cohen, Figure 1.

    Examples
    --------
    >>> steps = pl.DataFrame({"label": ["news"], "ts_ns": [100], "end_ns": [350]})
    >>> perceived.loading(steps).select("state", "busy", "until_ns").rows()
    [('loading news', True, 350), ('news', False, 1000000350)]
    """
    rows = frame(steps)
    asked = rows.select(at="ts_ns", state=pl.format("loading {}", "label"), busy=pl.lit(value=True))
    there = rows.select(at="end_ns", state="label", busy=pl.lit(value=False))
    changes = pl.concat([asked, there]).sort("at")
    times = {"from_lo_ns": "at", "from_hi_ns": "at"}
    until = pl.col("at").shift(-1).fill_null(pl.col("at").last() + NS_PER_S)
    return changes.select("state", "busy", **times, until_ns=until)


def windows(table: Table) -> pl.DataFrame:
    """Return the times in which a user waited, in order of time.

    Parameters
    ----------
    table : Table
        The result of `transitions`, or table `steps`: what, label, ts_ns, end_ns, outcome.

    Returns
    -------
    polars.DataFrame
        Columns label, start_ns, end_ns (Int64). For `transitions`, those that became stable, from the input to the time
        at which the stable state was observed. For table `steps`, the completed loads.

    Examples
    --------
    >>> steps = pl.DataFrame({"what": ["load"], "label": "news", "ts_ns": 100, "end_ns": 350, "outcome": "completed"})
    >>> perceived.windows(steps).row(0)
    ('news', 100, 350)
    """
    rows = lazy(table, ("steps",))
    if "stable_hi_ns" in rows.collect_schema():
        waits = rows.filter(pl.col("stable_hi_ns").is_not_null()).select(
            "label", start_ns="ts_ns", end_ns="stable_hi_ns"
        )
    else:
        loaded = (pl.col("what") == "load") & (pl.col("outcome") == "completed")
        waits = rows.filter(loaded).select("label", start_ns="ts_ns", end_ns="end_ns")
    return waits.sort("start_ns", "end_ns").collect()
