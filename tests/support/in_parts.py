"""Make measures read their tables a few rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from androstep_analysis.measures import blocks, parts, quantiles, write_shares


@contextlib.contextmanager
def read_in_parts(rows: int | None) -> Iterator[None]:
    """Limit the rows that are read, and the values that are counted, at once; None changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr(parts, "ROWS", rows)
            patch.setattr(parts, "MOST", 3 * rows)
            patch.setattr(blocks, "MOST_TOUCHES", rows)
            patch.setattr(write_shares, "MOST_SHARES", rows)
            patch.setattr(quantiles, "MOST", rows)
            patch.setattr(quantiles, "EACH", 0)
        yield
