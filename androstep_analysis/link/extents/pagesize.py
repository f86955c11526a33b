"""How large the pages of the kernel are, in which its page cache counts: reported, or proven by the events.

Events of the page cache (``writeback_dirty_folio``, ``mm_filemap_add_to_page_cache``, the probe on ``submit_bio``) tell
the number of a page in its file, and not how large a page is: 4 KiB mostly, 16 KiB on newer phones, 64 KiB on some
servers.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.fs import tracepoints

SIZES = tuple(1 << shift for shift in range(12, 19))
"""Sizes in bytes of pages that Linux has (arch/*/Kconfig, CONFIG_PAGE_SIZE_*)."""

_LEAST = 3
_TIMES_MORE = 4
"""A size is proven that so many writes bear out, and so many times more than any other."""

_MOST = 1 << 20
"""How many events are looked at: the first ones."""


def proven(reported: int | None, fs_events: pl.LazyFrame) -> int | None:
    """The size of a page in bytes: as `reported`, else as the events prove it, else None (`fs_events`: table).

    A write makes its pages dirty at once: the thread's event of dirtying that follows its write to the same file tells
    the number of the page in which the write begins, or, where a folio has several, that of the folio's first page.
    A folio lies at a multiple of its own length, so that this number is no other size's but where it is 0.
    """
    if reported in SIZES:
        return reported
    written = _written(fs_events)
    borne_out = {size: _borne_out(written, size) for size in SIZES}
    best, *others = sorted(borne_out, key=lambda size: -borne_out[size])
    is_proven = borne_out[best] >= max(_LEAST, _TIMES_MORE * borne_out[others[0]])
    return best if is_proven else None


def counted(fs_events: pl.LazyFrame, page_bytes: int | None) -> pl.LazyFrame:
    """Table fs_events with the number of the page where an event tells its offset: the kernel prints it in bytes."""
    of_cache = pl.col("event").is_in([tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.ASKED])
    size, begin = pl.lit(page_bytes, pl.Int64), pl.col("offset_bytes")
    last = (begin + pl.col("nr_bytes") - 1) // size
    return fs_events.with_columns(
        page=pl.coalesce("page", pl.when(of_cache).then(begin // size)),
        last_page=pl.coalesce("last_page", pl.when(of_cache).then(last)),
    )


def _written(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Where writes began (offset_bytes) of which the next event of the thread says that a page became dirty (page)."""
    is_write = pl.col("event").is_in(tracepoints.WRITES)
    is_dirty = pl.col("event").is_in(tracepoints.DIRTIED)
    told = fs_events.filter((is_write | is_dirty) & pl.col("tid").is_not_null())
    rows = told.select("dev", "ino", "tid", "event", "page", "offset_bytes").head(_MOST).collect()
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(-1).over("tid") for name in ("dev", "ino"))
    rows = rows.with_columns(
        page=pl.col("page").shift(-1).over("tid"), follows=is_dirty.shift(-1).over("tid") & same.fill_null(False)
    )
    return rows.filter(is_write & pl.col("follows") & (pl.col("page") > 0)).select("dev", "ino", "offset_bytes", "page")


def _borne_out(written: pl.DataFrame, size: int) -> int:
    """How many different pages were made dirty by writes that began in them, if pages are of this size."""
    return written.filter(pl.col("offset_bytes") // size == pl.col("page")).select("dev", "ino", "page").n_unique()
