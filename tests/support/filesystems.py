"""Properties that every reader's filesystem must have."""

from __future__ import annotations

from androstep_analysis.fs import Filesystem


def assert_covers(filesystem: Filesystem) -> None:
    """Check that the extents cover all sectors without gaps or overlaps."""
    start = filesystem.extents["sector"].to_numpy()
    end = start + filesystem.extents["nr_sectors"].to_numpy()
    assert start[0] == 0
    assert end[-1] == filesystem.nr_sectors
    assert (start[1:] == end[:-1]).all()
    assert (end > start).all()
