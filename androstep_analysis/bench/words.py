"""Descriptions of a benchmark's configuration in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from androstep_analysis.common import quantities

_MODES: Final = {
    "buffered": "buffered",
    "direct": "direct (O_DIRECT)",
    "osync": "synchronous (O_SYNC)",
    "odsync": "synchronous (O_DSYNC)",
    "direct_osync": "direct and synchronous (O_DIRECT, O_SYNC)",
    "rwf_dsync": "synchronous (RWF_DSYNC)",
    "mmap": "through a memory map",
}
_SYNCS: Final = {"fsync": "fsync", "fdatasync": "fdatasync", "mmap_sync": "msync"}
"""Modes with a call that writes earlier data to the device."""


def in_words(run: Mapping[str, Any]) -> str:
    """Return a description of a run: operation, sizes, and durability of its writes.

    Parameters
    ----------
    run : mapping
        A row of table bench_runs.

    Returns
    -------
    str
        A text such as "rand_write: blocks of 4 KiB in 4 MiB, buffered, fsync after each write, 1 thread, psync".
        Unknown properties are left out.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> bench.in_words(tables["bench_runs"].row(0, named=True))
    'seq_write: blocks of 4 KiB in 8 MiB, buffered, one fsync at the end, 1 thread, psync'
    """
    return f"{run['test']}: {', '.join(_parts(run))}"


def _parts(run: Mapping[str, Any]) -> Iterator[str]:
    block, file = run["block_bytes"], run["file_bytes"]
    if block is not None:
        yield f"blocks of {quantities.size(block)}" + (f" in {quantities.size(file)}" if file is not None else "")
    if run["workload"] == "sqlite":
        yield from (f"{name} {run[column]}" for name, column in _SQLITE.items() if run[column] is not None)
    yield from _durability(run)
    if run["threads"] is not None:
        yield f"{run['threads']} thread{'s' if run['threads'] != 1 else ''}"
    if run["engine"] is not None:
        yield run["engine"]
    if (run["depth"] or 1) > 1:
        yield f"queue depth {run['depth']}"


_SQLITE: Final = {"journal mode": "journal_mode", "synchronous": "synchronous"}


def _durability(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the bytes get to the device; for reads, only whether they pass through the page cache."""
    mode, every = run["sync_mode"], run["after_every"] or 1
    if mode is None:
        return
    is_write = "read" not in run["test"]
    if mode in _SYNCS:
        yield "through a memory map" if mode == "mmap_sync" else "buffered"
        yield f"{_SYNCS[mode]} after " + ("each write" if every == 1 else f"every {every} writes")
        return
    yield _MODES.get(mode, mode)
    if is_write and mode in ("buffered", "direct", "mmap") and run["final_sync"] is not None:
        yield "one fsync at the end" if run["final_sync"] else "no fsync"
