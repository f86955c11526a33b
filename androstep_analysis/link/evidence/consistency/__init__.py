"""Decide whether an image or a listing is of the recorded filesystem, and of the stated time.

An image does not say which recording it belongs to. Before its statements count, `CHECKS` compare it with the trace.
Each check counts agreements and contradictions. A correct image may contradict the trace: a mounted filesystem is
copied without the data that are not yet written to disk, and a later image has later changes. What a change of a file
or a directory explains is not a contradiction.

The counts lead to one of these verdicts (`verdict.KINDS` and `verdict.Comparison` have the rules):

- refuted: more contradictions than agreements. `InputError` says which check refutes the image.
- content proven: agreements, and hardly a contradiction. Its statements are then ranked as `images` describes.
- layout proven: only the locations of fixed metadata (superblock, inode tables, …) apply to the recording.
- nothing proven: all its statements are inferred, and its inode numbers are not those of the trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import Filesystem
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import incarnations
from androstep_analysis.link.evidence.consistency import blocks, files, identity
from androstep_analysis.link.evidence.consistency.trace import Stated, device_trace
from androstep_analysis.link.evidence.consistency.verdict import KINDS, CheckResult, Comparison, Tally, table
from androstep_analysis.link.evidence.remade import Span, Times
from androstep_analysis.link.evidence.snapshots import Images, is_numbered

__all__ = ["CHECKS", "Stated", "compare", "table"]

BEFORE, AFTER = ("before",), ("after",)
ANY = BEFORE + AFTER
BOTH = ("both",)
"""Checks of an image before with the image after, or of a listing before with the listing after."""
PROVEN = ("proven",)
"""Checks of an image or listing before with another one whose content is proven."""

SNAPSHOT = (Filesystem, Listing)


class Check(NamedTuple):
    """A row of `CHECKS`."""

    kind: str
    """What the check proves and when it refutes (`verdict.KINDS`)."""
    run: Callable[..., Tally]
    """Takes the comparison; for `BOTH` and `PROVEN` also that of the other image or listing."""
    when: tuple[str, ...]
    of: type | tuple[type, ...]
    meaning: str = ""
    """What a contradiction means, as the end of a sentence about the image. Empty if it cannot refute."""


CHECKS = (
    Check("filesystem", identity.events_of_other_filesystem, ANY, SNAPSHOT,
          "it is {of.fs_type}, and the trace has events of another filesystem there ({detail})"),
    Check("filesystem", identity.mounted_as_other_filesystem, ANY, SNAPSHOT,
          "it is {of.fs_type}, and {detail} was mounted"),
    Check("filesystem", identity.other_block_size, ANY, SNAPSHOT,
          "its blocks have {of.block_bytes} bytes, and those of the mounted filesystem {detail}"),
    Check("size", blocks.size, ANY, Filesystem, "{detail}"),
    Check("metadata", blocks.metadata, ANY, Filesystem,
          "metadata were read and written where it has files or free space"),
    Check("boot", identity.boot, ANY, Listing),
    Check("commits", identity.commits_before, BEFORE, Filesystem,
          "its journal already has the transactions of the recording (are before and after swapped?)"),
    Check("commits", identity.commits_after, AFTER, Filesystem, "its journal {detail}"),
    Check("births", files.creations, AFTER, SNAPSHOT,
          "it lacks files that the recording created, or has others by their numbers"),
    Check("numbers", files.numbers, BEFORE, SNAPSHOT,
          "it has files that the recording created (are before and after swapped?)"),
    Check("extents", blocks.extents_before, BEFORE, SNAPSHOT,
          "blocks of one file in the trace belong to another, or to no file, in it"),
    Check("extents", blocks.extents_after, AFTER, SNAPSHOT,
          "blocks of one file in the trace belong to another, or to no file, in it"),
    Check("pages", blocks.pages, AFTER, Filesystem, "pages were written that no event made dirty"),
    Check("changes", blocks.changes, AFTER, Filesystem,
          "files in it were last changed long before the recording wrote their blocks"),
    Check("filesystem", identity.made_later, ANY, Filesystem, "it was made (mkfs) after the recording"),
    Check("filesystem", identity.changed_later, BEFORE, Filesystem,
          "files in it were changed after the recording had ended (are before and after swapped?)"),
    Check("filesystem", identity.younger_than_after, BOTH, SNAPSHOT,
          "it is younger than the one after (are before and after swapped?)"),
    Check("filesystem", identity.other_than_after, BOTH, Filesystem,
          "it is {of.fs_type} with blocks of {of.block_bytes} bytes, and the image after is not"),
    Check("lineage", files.lineage, PROVEN, SNAPSHOT, "it lacks files that were there when the recording began"),
)  # fmt: skip
"""All checks, in the order in which they run and refute. To add one, write its function and add a row."""


def compare(
    snapshots: Images,
    staging: Staging,
    all_events: pl.LazyFrame,
    requests: pl.LazyFrame,
    stated: Stated,
    remade: Times,
) -> tuple[Images, list[Comparison]]:
    """Compare the images and listings with the trace, and return them with `proven` and `placed`, and the results.

    `staging` has the events of each filesystem on its own device (`tracepoints.on_filesystems`), without repetitions
    (`tracepoints.without_repetitions`); `all_events` has the repetitions too. Unproven images get inode numbers of
    their own. On a device with another filesystem since a time in `remade`, an image is compared with the events of its
    own filesystem only. Raises `InputError` if an image or a listing contradicts the trace.
    """
    if snapshots.listed_before is not None:
        at_start = incarnations.listed_at_start(snapshots.listed_before, staging)
        snapshots = replace(snapshots, listed_before=at_start)
    by_role = snapshots.by_role
    if not by_role:
        return snapshots, []
    traces = {
        (dev, span): device_trace(dev, snapshots, staging, all_events, requests, stated, span)
        for dev, span in {(one.dev, _span(role, remade.get(one.dev))) for role, one in by_role.items()}
    }
    comparisons = {
        role: Comparison(role, one, traces[one.dev, _span(role, remade.get(one.dev))]) for role, one in by_role.items()
    }
    for comparison in comparisons.values():
        _run(comparison, "before" if comparison.is_before else "after")
    for kind in ("image", "listing"):
        before = by_role.get(f"{kind}_before")
        if before is not None and before.dev not in remade:
            _compare_with_others(kind, comparisons)
    for comparison in comparisons.values():
        _refuse(comparison)
    return _proven(snapshots, comparisons), list(comparisons.values())


def _span(role: str, remade: Sequence[int] | None) -> Span:
    """Return the times between which the device had the filesystem of an image or a listing."""
    if remade is None:
        return None, None
    return (None, remade[0]) if role.endswith("before") else (remade[-1], None)


def _run(comparison: Comparison, when: str, *others: Comparison) -> None:
    """Run the checks of one stage, and add those with an agreement or a contradiction to the results."""
    for check in CHECKS:
        if when in check.when and isinstance(comparison.snapshot, check.of):
            tally = check.run(comparison, *others)
            meaning = check.meaning.format(of=comparison.snapshot, detail=tally.detail)
            results = (
                CheckResult(check.kind, tally.agreements, tally.contradictions, meaning, tally.explained),
                CheckResult("age", 0, tally.age),
                CheckResult("clock", 0, tally.clock),
            )
            comparison.results.extend(one for one in results if one.agreements or one.contradictions)


def _compare_with_others(kind: str, comparisons: Mapping[str, Comparison]) -> None:
    """Compare the image (or listing) before with the one after, and with one whose content is proven."""
    before, after = comparisons[f"{kind}_before"], comparisons.get(f"{kind}_after")
    if after is not None:
        _run(before, "both", after)
    others = (comparisons.get(role) for role in ("image_after", "listing_after", "listing_before"))
    proven = (other for other in others if other is not None and other is not before and other.proves_content)
    for other in itertools.islice(proven, 1):
        _run(before, "proven", other)


def _proven(snapshots: Images, comparisons: Mapping[str, Comparison]) -> Images:
    """Return the images with what is proven of them."""
    proven = frozenset(role for role, one in comparisons.items() if one.proves_content)
    placed = frozenset(role for role, one in comparisons.items() if one.proves_layout)
    apart = [
        role
        for role, one in comparisons.items()
        if role not in proven and is_numbered(one.snapshot) and not one.trace.lifetimes.is_empty()
    ]
    # The files in the journal have the numbers of the image after.
    journal = None if "image_after" in apart else snapshots.journal
    return replace(snapshots.renumbered(apart), proven=proven, placed=placed, journal=journal)


def _refuse(comparison: Comparison) -> None:
    """Raise `InputError` if a check refutes the image or the listing."""
    result, one, trace = comparison.refutation, comparison.snapshot, comparison.trace
    if result is None:
        return
    name = one.image if isinstance(one, Filesystem) else f"the {comparison.role.replace('_', ' ')}"
    fitting = [
        units.format_dev(dev)
        for dev, nr_sectors in trace.stated.nr_sectors.items()
        if dev != trace.dev and 0 <= nr_sectors - (one.nr_sectors or -1) < one.block_bytes // units.SECTOR_BYTES
    ]
    hint = f", or name its device (its size is that of {', '.join(fitting)}) with --device" if fitting else ""
    total = result.agreements + result.contradictions
    is_strict = KINDS[result.kind][1] == "at once"
    share = "" if is_strict else f" ({result.contradictions:,} of {total:,})"
    when = "before" if comparison.is_before else "after"
    raise InputError(
        f"{name}: not what device {units.format_dev(trace.dev)} held {when} the recording: {result.meaning}{share};"
        f" give an image or a listing made directly {when} this recording{hint}, or leave it out"
    )
