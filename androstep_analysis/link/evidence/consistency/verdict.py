"""What the checks of one image or listing prove, and when they refute it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import polars as pl

from androstep_analysis.fs import Filesystem
from androstep_analysis.link.evidence.consistency.trace import DeviceTrace, family
from androstep_analysis.link.evidence.snapshots import Snapshot

CHANCE = 2
"""Contradictions of one kind that never refute an image: a clock that was set, an event that was lost."""

TOLERATED = 0.05
"""Contradictions per agreement up to which content is proven. Images of mounted filesystems have up to 0.04."""

LAYOUT_TOLERATED = 0.1
"""The same for layout: an image no longer has some directories and extent trees, or does not have them yet."""

Proves = Literal["nothing", "layout", "content", "identity"]
"""What agreements prove: the locations of fixed metadata (layout), or the statements on files (content). Blocks of the
same kind can agree by chance. Identity is content, and also that it is certainly the recorded filesystem."""

Refutes = Literal["never", "at once", "by count", "if complete"]
"""When contradictions refute an image: at once, or if there are more than agreements, and more than `CHANCE` (by
count). A check that relies on the absence of events only counts if no event is lost and the time is right (if
complete)."""

KINDS: dict[str, tuple[Proves, Refutes]] = {
    "filesystem": ("nothing", "at once"),
    "size": ("layout", "by count"),
    "metadata": ("layout", "by count"),
    "boot": ("identity", "by count"),
    "commits": ("identity", "by count"),
    "age": ("nothing", "never"),
    "births": ("identity", "if complete"),
    "clock": ("nothing", "never"),
    "numbers": ("nothing", "if complete"),
    "extents": ("identity", "if complete"),
    "pages": ("content", "if complete"),
    "changes": ("content", "by count"),
    "lineage": ("identity", "by count"),
}
"""What each kind of check proves, and when it refutes. The names are released (`about["snapshots"]`)."""


class CheckResult(NamedTuple):
    """How often an image or a listing agrees with the trace in one check, and how often it contradicts the trace.

    `meaning` says what the contradictions are, as the end of a sentence about the image. `explained` contradictions
    are due to a change within the recording. They neither refute nor prove.
    """

    kind: str
    agreements: int
    contradictions: int
    meaning: str = ""
    explained: int = 0

    def proves(self, *what: Proves) -> bool:
        return KINDS[self.kind][0] in what


class Tally(NamedTuple):
    """The outcome of a check."""

    agreements: int = 0
    contradictions: int = 0
    explained: int = 0
    """Contradictions that a change within the recording explains."""
    age: int = 0
    """Contradictions of an image that is certainly of the recorded filesystem, at another time than stated."""
    clock: int = 0
    """Contradictions unless CLOCK_REALTIME was set during the recording."""
    detail: object = None
    """Inserted into `Check.meaning`."""


@dataclass(frozen=True)
class Comparison:
    """An image or a listing, the trace with which it is compared, and the results of the checks so far."""

    role: str
    """That of its source (`snapshots.ROLES`)."""
    snapshot: Snapshot
    trace: DeviceTrace
    results: list[CheckResult] = field(default_factory=list)

    @property
    def is_before(self) -> bool:
        return self.role.endswith("before")

    @property
    def image(self) -> Filesystem:
        assert isinstance(self.snapshot, Filesystem)
        return self.snapshot

    @property
    def family(self) -> str:
        return family(self.snapshot.fs_type or "")

    def agrees_in(self, kind: str) -> bool:
        """Return whether an earlier check of this kind found an agreement."""
        return any(result.agreements for result in self.results if result.kind == kind)

    @property
    def proves_content(self) -> bool:
        """Whether the statements on files apply to the recording."""
        agreements = sum(result.agreements for result in self.results if result.proves("content", "identity"))
        contradictions = sum(result.contradictions for result in self.results if not result.proves("layout"))
        return agreements > 0 and contradictions <= TOLERATED * agreements

    @property
    def proves_layout(self) -> bool:
        """Whether the statements on metadata at fixed locations apply to the recording."""
        results = [result for result in self.results if result.proves("layout")]
        agreements = sum(result.agreements for result in results)
        differing = sum(result.contradictions + result.explained for result in results)
        return self.proves_content or (agreements > CHANCE and differing <= LAYOUT_TOLERATED * agreements)

    @property
    def refutation(self) -> CheckResult | None:
        """The first check that refutes it. None if it may belong to the recording."""
        return next((result for result in self.results if self._refutes(result)), None)

    def _refutes(self, result: CheckResult) -> bool:
        refutes = KINDS[result.kind][1]
        if refutes in ("never", "at once"):
            return refutes == "at once" and result.contradictions > 0
        is_lossy = self.trace.staging.lost.touching("fs_events", dev=self.trace.dev)
        if refutes == "if complete" and (is_lossy or self._is_of_other_time):
            return False
        # A filesystem whose files agree was resized, or has other metadata now.
        if result.proves("layout") and self.proves_content and self._has_identity:
            return False
        return result.contradictions > max(CHANCE, result.agreements)

    @property
    def _is_of_other_time(self) -> bool:
        """Whether it is certainly the recorded filesystem at another time than the stated one."""
        return any(result.kind == "age" and result.contradictions for result in self.results)

    @property
    def _has_identity(self) -> bool:
        return any(result.agreements and result.proves("identity") for result in self.results)


def table(comparisons: list[Comparison]) -> pl.DataFrame:
    """Return a row for each image or listing and check with a result: role, proven, kind, agreements, contradictions.

    `proven` is content, layout or nothing. An image without results has one row of kind `none`.
    """
    schema = {"role": pl.String, "proven": pl.String, "kind": pl.String}
    rows = [
        (one.role, "content" if one.proves_content else "layout" if one.proves_layout else "nothing", *result[:3])
        for one in comparisons
        for result in one.results or (CheckResult("none", 0, 0),)
    ]
    return pl.DataFrame(rows, schema | {"agreements": pl.Int64, "contradictions": pl.Int64}, orient="row")
