"""Test the time from which an image's statement about a file is a fact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from androstep_analysis import schema
from androstep_analysis.link.evidence import images, snapshots

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


def test_an_image_names_its_filesystem_before_a_listing_and_the_earlier_one_before_the_later() -> None:
    roles = ("before", "after", "listed_before", "listed_after")
    found: dict[str, Any] = {role: SimpleNamespace(dev=7, fs_type=role) for role in roles}
    for number, role in enumerate(roles):
        assert snapshots.Images(**{name: found[name] for name in roles[number:]}).fs_types == {7: role}
    unnamed: Any = SimpleNamespace(dev=7, fs_type=None)
    assert snapshots.Images(listed_before=unnamed, listed_after=found["listed_after"]).fs_types == {7: "listed_after"}


@pytest.mark.parametrize("fs_type", ["ext4", "f2fs", "vfat"])
def test_what_an_image_after_says_is_a_fact_once_the_change_was_written_out(fs_type: str) -> None:
    settled_ns = CHANGED_NS + images.WRITEBACK_NS if fs_type == "ext4" else None
    fact = [("image_after", settled_ns, None)] if settled_ns else []
    assert dated(fs_type, OFFSET_NS) == [*fact, ("inferred", CREATED_NS, settled_ns)]
    assert dated(fs_type, None) == [("inferred", None, None)], "no clock tells when that was"
