"""Flash with hybrid mapping: data blocks that are mapped as a whole, and a few page-mapped log blocks for overwrites.

It is FAST of Lee, Park, Chung, Lee, Park and Song, A Log Buffer-Based Flash Translation Layer Using Fully-Associative
Sector Translation, ACM Transactions on Embedded Computing Systems 6(3), 2007. BAST (Kim et al. 2002) has a log block
for each data block. With it, the small scattered writes of databases on a phone would cause a merge at nearly every
write.

- A page whose location in its data block is still erased is written there.
- Otherwise, the first page of a block begins a sequence in a log block of its own. Pages that follow in order continue
  it.
- All other pages go to the other log blocks in order of arrival.
- A sequence ends when another begins, or with a page of its block out of order, which goes to the other log blocks. Its
  log block then becomes the data block (switch merge), with copies of the missing pages (partial merge).
- When the other log blocks are full, the oldest is emptied. Each data block that has a newest page in it is rewritten
  from the newest pages in all log blocks (full merge), except those of a sequence that has not ended.

All spare blocks except two are log blocks: one is for the sequence, and one is erased for the next merge. Discards,
which are not in the paper, invalidate pages. Erased blocks are used in the order in which they were erased.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from androstep_analysis import native
from androstep_analysis.whatif.translation import Prepared

MERGES: Final = ("switch", "partial", "full")

SPARE_BLOCKS: Final = 3
"""The least number of spare blocks: one for a sequence, one for other writes, one to merge into."""

Counts = npt.NDArray[np.int64]


def run(device: Prepared, groups: int, of_row: npt.NDArray[np.uint32]) -> tuple[Counts, Counts, Counts]:
    """Return pages written and copied by group (last: older data), erases of each block, and merges by kind."""
    library = _native()
    hybrid = library.hybrid_new(*device.layout, groups)
    if not hybrid:
        raise MemoryError
    try:
        if not library.hybrid_run(hybrid, *device.requests, of_row.ctypes.data):
            raise MemoryError
        counts = (
            np.empty((groups + 1, 2), np.int64),
            np.empty(device.segments, np.int64),
            np.empty(len(MERGES), np.int64),
        )
        library.hybrid_copy(hybrid, groups, *(values.ctypes.data for values in counts))
    finally:
        library.hybrid_free(hybrid)
    return counts


_native = native.library
