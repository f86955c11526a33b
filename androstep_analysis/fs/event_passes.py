"""Run the compiled passes over table fs_events (native/events): one batch of columns after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema

Codes = npt.NDArray[np.uint8]

_REPEATING: Final = {
    **{"event": None, "dev": "uint32", "ino": "int64", "tid": "int32", "pid": "int32"},
    **dict.fromkeys(("comm", "name", "status"), "uint32"),
    **{"page_order": "int32", "file_block": "int64", "block": "int64", "nr_blocks": "int64", "transaction": "int64"},
}
"""Columns of ``struct repeating_events`` (repetitions.h) from the table, and their dtype if they have nulls.

Before them is the kind of the event, and after them whether it states a block.
"""


_library = native.library


def codes(kinds: Mapping[str, int], default: int) -> Codes:
    """Return the code of each event in the order of the enum: that in `kinds`, or `default`."""
    events = schema.enum("fs_events", "event").categories
    return np.array([kinds.get(event, default) for event in events], np.uint8)


def is_original(events: pl.DataFrame, kind: Codes, states_block: pl.Series) -> pl.Series:
    """Return which rows do not repeat others. `kind` is an ``enum repetition_kind`` for each row."""
    texts = [pl.col(name).cast(pl.Categorical).to_physical() for name in ("comm", "name", "status")]
    columns = [
        native.array(column, _REPEATING[column.name]) for column in events.select(*_REPEATING).with_columns(texts)
    ]
    is_stating = native.array(states_block.fill_null(False).cast(pl.UInt8))
    is_kept = np.empty(events.height, np.uint8)
    repeating = native.columns(events.height, [kind, *columns, is_stating])
    native.check(_library().repetitions_find(repeating, is_kept.ctypes.data))
    return pl.Series(is_kept.view(np.bool_))


class Incarnations:
    """Numbers the incarnations of inodes in batches of events, in order of time."""

    def __init__(self, devices: pl.DataFrame, deletions: pl.DataFrame) -> None:
        """Begin a recording.

        `devices` has dev, has_creations and first, the first incarnation. `deletions` are all deletions of inodes on
        devices without creations, in order of time: dev, ino and is_free (the inode is freed, not only evicted).
        """
        self._handle = native.owned(self, _library().incarnations_free, _library().incarnations_new())
        for dev, has_creations, first in devices.select("dev", "has_creations", "first").iter_rows():
            number = native.none("uint32") if dev is None else dev
            native.check(_library().incarnations_device(self._handle, number, has_creations, first))
        columns = [*_inodes(deletions), native.array(deletions["is_free"].cast(pl.UInt8))]
        addresses = [array.ctypes.data for array in columns]
        native.check(_library().incarnations_deletions(self._handle, deletions.height, *addresses))

    def number(self, events: pl.DataFrame, kind: Codes) -> pl.Series:
        """Return the incarnation of each event. `kind` is an ``enum lifetime_kind`` for each row."""
        incarnation = np.empty(events.height, np.int32)
        columns = (*_inodes(events), kind, incarnation)
        addresses = [array.ctypes.data for array in columns]
        native.check(_library().incarnations_number(self._handle, events.height, *addresses))
        return pl.Series("incarnation", incarnation)


def _inodes(events: pl.DataFrame) -> Collection[npt.NDArray[np.generic]]:
    return native.array(events["dev"], "uint32"), native.array(events["ino"], "int64")
