"""Descriptions of a configuration: the operation, and the durability of its writes."""

from __future__ import annotations

from typing import Any

import pytest

from androstep_analysis import bench, schema


def run(**known: Any) -> dict[str, Any]:
    """Return a row of table bench_runs in which only this is known."""
    return {**dict.fromkeys(schema.table("bench_runs").polars), "workload": "file", "test": "rand_write", **known}


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"sync_mode": "buffered", "final_sync": False}, "rand_write: buffered, no fsync"),
        ({"sync_mode": "buffered", "final_sync": True}, "rand_write: buffered, one fsync at the end"),
        ({"sync_mode": "buffered"}, "rand_write: buffered"),  # Mobibench does not print whether it synced
        ({"sync_mode": "buffered", "test": "rand_read", "final_sync": False}, "rand_read: buffered"),
        ({"sync_mode": "fsync", "after_every": 1}, "rand_write: buffered, fsync after each write"),
        ({"sync_mode": "fdatasync", "after_every": 4}, "rand_write: buffered, fdatasync after every 4 writes"),
        ({"sync_mode": "mmap_sync"}, "rand_write: through a memory map, msync after each write"),
        ({"sync_mode": "direct", "final_sync": False}, "rand_write: direct (O_DIRECT), no fsync"),
        ({"sync_mode": "osync", "final_sync": False}, "rand_write: synchronous (O_SYNC)"),
        ({"sync_mode": "fbarrier"}, "rand_write: fbarrier"),
        ({"block_bytes": 4096, "threads": 1, "engine": "io_uring", "depth": 8},
         "rand_write: blocks of 4 KiB, 1 thread, io_uring, queue depth 8"),
        ({"block_bytes": 4096, "file_bytes": 1 << 20, "threads": 4, "depth": 1},
         "rand_write: blocks of 4 KiB in 1 MiB, 4 threads"),
        ({"workload": "sqlite", "test": "sqlite_insert", "journal_mode": "WAL", "synchronous": "FULL"},
         "sqlite_insert: journal mode WAL, synchronous FULL"),
    ],
)  # fmt: skip
def test_words(known: dict[str, Any], words: str) -> None:
    assert bench.in_words(run(**known)) == words
