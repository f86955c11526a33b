"""Find the size of the kernel's pages, in which the page cache counts: reported, or proven by the events.

Events of the page cache (``writeback_dirty_folio``, ``mm_filemap_add_to_page_cache``, the probe on ``submit_bio``)
record the index of a page in its file, and not the page size: 4 KiB mostly, 16 KiB on newer phones, 64 KiB on some
servers.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.fs import tracepoints

SIZES = tuple(1 << shift for shift in range(12, 19))
"""Page sizes of Linux in bytes (arch/*/Kconfig, CONFIG_PAGE_SIZE_*)."""

_MIN_WRITES = 3
_MIN_RATIO = 4
"""A size is proven if so many writes confirm it, and so many times more than any other size."""

_MAX_EVENTS = 1 << 20
"""Number of events that are examined, the first ones."""


def proven(reported: int | None, fs_events: pl.LazyFrame) -> int | None:
    """Return the size of a page in bytes: as `reported`, else as table `fs_events` proves it, else None.

    A write dirties its pages at once. The thread's next event of dirtying, if it is of the same file, records the index
    of the page in which the write begins, or of the first page of its folio. A folio lies at a multiple of its own
    length, so that this index fits one page size only, unless it is 0.
    """
    if reported in SIZES:
        return reported
    written = _written(fs_events)
    confirmed = {size: _confirmed(written, size) for size in SIZES}
    best, *others = sorted(confirmed, key=lambda size: -confirmed[size])
    is_proven = confirmed[best] >= max(_MIN_WRITES, _MIN_RATIO * confirmed[others[0]])
    return best if is_proven else None


def counted(fs_events: pl.LazyFrame, page_bytes: int | None) -> pl.LazyFrame:
    """Return table fs_events with the index of the page for events that print the offset in bytes."""
    of_cache = pl.col("event").is_in([tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.ASKED])
    size, begin = pl.lit(page_bytes, pl.Int64), pl.col("offset_bytes")
    last = (begin + pl.col("nr_bytes") - 1) // size
    return fs_events.with_columns(
        page=pl.coalesce("page", pl.when(of_cache).then(begin // size)),
        last_page=pl.coalesce("last_page", pl.when(of_cache).then(last)),
    )


def _written(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the offsets of writes, each with the page that the next event of the thread dirties."""
    is_write = pl.col("event").is_in(tracepoints.WRITES)
    is_dirty = pl.col("event").is_in(tracepoints.DIRTIED)
    touched = fs_events.filter((is_write | is_dirty) & pl.col("tid").is_not_null())
    rows = touched.select("dev", "ino", "tid", "event", "page", "offset_bytes").head(_MAX_EVENTS).collect()
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(-1).over("tid") for name in ("dev", "ino"))
    rows = rows.with_columns(
        page=pl.col("page").shift(-1).over("tid"), follows=is_dirty.shift(-1).over("tid") & same.fill_null(False)
    )
    return rows.filter(is_write & pl.col("follows") & (pl.col("page") > 0)).select("dev", "ino", "offset_bytes", "page")


def _confirmed(written: pl.DataFrame, size: int) -> int:
    """Count the different pages that were dirtied by writes that began in them, if pages have this size."""
    return written.filter(pl.col("offset_bytes") // size == pl.col("page")).select("dev", "ino", "page").n_unique()
