"""Checks of files: their creation in the trace, their inode numbers, and the files that two images must share."""

from __future__ import annotations

import polars as pl

from androstep_analysis.fs import Filesystem
from androstep_analysis.link.evidence import incarnations
from androstep_analysis.link.evidence.consistency.trace import CLOCK_NS
from androstep_analysis.link.evidence.consistency.verdict import TOLERATED, Comparison, Tally


def creations(comparison: Comparison) -> Tally:
    """Compare the creation times of the files that the trace created and did not delete.

    | file in the image | result |
    |---|---|
    | created at the time of the event | agrees |
    | created after the recording | explained: it reuses the number |
    | created earlier, or at another time of the recording | contradicts |
    | absent | contradicts if the image has no change since that creation, and nothing shows that it is later |

    Times that only fit if the clock was set during the recording count as `clock`. An image that is certainly later
    only lacks what was not yet written to disk.
    """
    trace, times = comparison.trace, comparison.snapshot.times
    lifetimes = _created_lifetimes(comparison)
    offset = pl.lit(trace.realtime_offset_ns, pl.Int64)
    in_image = times.unique("ino").select("ino", image_ns=pl.col("created_epoch_ns") - offset, is_there=pl.lit(True))
    rows = lifetimes.join(in_image, on="ino", how="left")
    difference = pl.col("image_ns") - pl.col("created_ns")
    agrees = (difference.abs() <= trace.tolerance_ns).fill_null(False).any().over("ino")
    agreements = rows.filter(agrees)["ino"].n_unique()
    rows = rows.filter("is_last", ~agrees)
    is_within = (difference > trace.tolerance_ns) & (pl.col("image_ns") <= (trace.staging.last_ns or 0))
    is_other = (difference < -trace.tolerance_ns) | is_within
    is_impossible = difference.abs() > trace.limit_ns
    contradictions = rows.filter(is_other & is_impossible).height
    # It is unlikely that every file of the recording was replaced by one that is hardly younger.
    is_uncertain = is_other if agreements else difference.abs() > trace.tolerance_ns
    uncertain = rows.filter(~is_impossible & is_uncertain).height
    if not agreements and not comparison.agrees_in("commits"):
        newest = pl.lit(times["changed_epoch_ns"].max(), pl.Int64)
        is_newer = pl.col("created_ns") + offset - CLOCK_NS > newest
        contradictions += rows.filter(pl.col("is_there").is_null() & is_newer).height
    return Tally(agreements, contradictions, clock=uncertain)


def _created_lifetimes(comparison: Comparison) -> pl.DataFrame:
    """Return the lifetimes that begin in the trace and may be in the image: ino, created_ns, is_last.

    `is_last`: no later lifetime of the number and no deletion follows. A listing may have any lifetime that had not
    ended when the listing began.
    """
    lifetimes = comparison.trace.lifetimes.filter(pl.col("created_ns").is_not_null())
    is_last = pl.col("incarnation") == pl.col("incarnation").max().over("ino")
    listed_from = pl.lit(incarnations.listed_from(comparison.snapshot, comparison.trace.staging), pl.Int64)
    lifetimes = lifetimes.with_columns(
        is_last=is_last & pl.col("deleted_ns").is_null(), may_be_listed=pl.col("end_ns") >= listed_from
    )
    return lifetimes.filter(pl.col("is_last") | pl.col("may_be_listed")).select("ino", "created_ns", "is_last")


def numbers(comparison: Comparison) -> Tally:
    """Compare the numbers of files that the trace created, unless it freed them first, with an image before."""
    trace = comparison.trace
    if trace.lifetimes["deleted_ns"].null_count() == trace.lifetimes.height:
        return Tally()
    freed = trace.lifetimes.filter(pl.col("incarnation") == 0, pl.col("deleted_ns").is_not_null())["ino"]
    created = trace.lifetimes.filter(pl.col("created_ns").is_not_null())["ino"].unique()
    created = created.filter(~created.is_in(freed.implode()))
    existing = int(created.is_in(comparison.snapshot.times["ino"].implode()).sum())
    # After the loss of a deletion a number seems to be assigned twice.
    tolerated = TOLERATED if trace.staging.lost.first_ns("fs_events", dev=trace.dev) is None else 0.25
    return Tally(0 if existing > tolerated * len(created) else len(created) - existing, existing)


def lineage(before: Comparison, other: Comparison) -> Tally:
    """Count the files that an image before shares with a proven image, and those that it lacks.

    It must have the files that are older than the recording or, if the clock is unknown, older than its last change.
    An image of the same filesystem that lacks some is only too old.
    """
    keys = ["ino", "generation", "created_epoch_ns"]
    first, last, span = before.snapshot, other.snapshot, before.trace.span_epoch_ns
    begin = first.times["changed_epoch_ns"].max() if span is None else span[0] - incarnations.TICK_NS
    if begin is None:
        return Tally()
    required = last.times.drop_nulls(keys).filter(pl.col("created_epoch_ns") < begin)
    shared = required.join(first.times, on=keys, how="semi").height
    lacking = required.height - shared
    if isinstance(first, Filesystem) and isinstance(last, Filesystem) and first.uuid and first.uuid == last.uuid:
        return Tally(shared, age=lacking)
    return Tally(shared, lacking)
