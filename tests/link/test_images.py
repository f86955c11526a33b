"""Test the time from which an image's statement about a file is a fact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from androstep_analysis import schema
from androstep_analysis.link.evidence import images

OFFSET_NS = 1_700_000_000 * 10**9
CREATED_NS, CHANGED_NS = 5 * 10**9, 9 * 10**9


def dated(fs_type: str, realtime_offset_ns: int | None) -> list[tuple[Any, ...]]:
    """Return source and validity of a block of inode 12 from an image after, in the trace's clock."""
    times = {"created_epoch_ns": [OFFSET_NS + CREATED_NS], "changed_epoch_ns": [OFFSET_NS + CHANGED_NS]}
    image: Any = SimpleNamespace(fs_type=fs_type, times=pl.DataFrame({"ino": [12], **times}))
    extent = schema.empty("extents").select("dev", "ino", "source", "valid_from_ns", "valid_to_ns")
    rows = pl.DataFrame({"dev": [1], "ino": [12], "source": ["image_after"]}, schema_overrides=extent.schema)
    staging: Any = SimpleNamespace(realtime_offset_ns=realtime_offset_ns)
    parts = images.dated(images.Located(image, rows, "image_after"), staging)
    told = pl.concat([part.select("source", "valid_from_ns", "valid_to_ns") for part in parts])
    return told.with_columns(pl.col("source").cast(pl.String)).rows()


@pytest.mark.parametrize("fs_type", ["ext4", "f2fs", "vfat"])
def test_what_an_image_after_says_is_a_fact_once_the_change_was_written_out(fs_type: str) -> None:
    settled_ns = CHANGED_NS + images.WRITEBACK_NS if fs_type == "ext4" else None
    fact = [("image_after", settled_ns, None)] if settled_ns else []
    assert dated(fs_type, OFFSET_NS) == [*fact, ("inferred", CREATED_NS, settled_ns)]
    assert dated(fs_type, None) == [("inferred", None, None)], "no clock tells when that was"
