"""What a recording cannot tell, and what would tell it: a line each, with the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.headline.words import Sentence

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_IMAGE: Final = "`androstep ingest --image-after`"


def owners(capture: Capture) -> Sentence:
    """Why nobody is known who caused the I/O."""
    why = (
        "no event tells which thread queued a request (block_bio_queue)"
        if any(kind.events == ("block_bio_queue",) for kind in capture.lacking)
        else "the recording names no process"
    )
    return _unknown("who", f"{why}; `androstep record` records who")


def files(capture: Capture) -> Sentence:
    """Why no file is known."""
    if capture.about.get("snapshots"):
        return _unknown("files", "no image and no listing proves whose these blocks were; `--all` says what they prove")
    if _has_inodes(capture):
        return _unknown("files", f"their inodes are known, and no names; an image or a listing tells them: {_IMAGE}")
    if capture.about["rows"]["fs_events"]:
        return _unknown("files", f"no event names a file of these blocks; an image of the filesystem does: {_IMAGE}")
    words = "no event of a filesystem is recorded; `androstep record` records them, or take an image: "
    return _unknown("files", words + _IMAGE)


def _has_inodes(capture: Capture) -> bool:
    return bool(capture.io.select(pl.col("ino").is_not_null().any()).collect().item())


def times(capture: Capture) -> Sentence:
    """Why it is not known how long requests took."""
    counts = capture.population
    lacks = "completion" if not counts["completed"] else "issue"
    return _unknown("times", f"no {lacks} is recorded; `androstep record` records both ends of every request")


def sync() -> Sentence:
    return _unknown("sync", "the recording has no flags (rwbs); `androstep record` records them")


def requests() -> Sentence:
    """Why it is not known what reached a device."""
    return _unknown("requests", "no event of the block layer is recorded; `androstep record` records what storage does")


def call_times() -> Sentence:
    """Why it is not known how long system calls took."""
    return _unknown("times", "the calls have none; record with `strace -f -ttt -T -yy`")


def paths() -> Sentence:
    """Why no file of system calls is known."""
    return _unknown("files", "no call tells its path; record with `strace -f -ttt -T -yy`")


def _unknown(about: str, words: str) -> Sentence:
    return Sentence(about, (f"unknown: {words}",), "unknown")
