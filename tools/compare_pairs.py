"""Record one job many times on a loop device, and count the false verdicts of `androstep compare A B`.

python tools/compare_pairs.py DIRECTORY [--pairs 20]      as root; about half a minute for each recording

The job is a messenger: SQLite transactions, a log, and cache files that are written, synced, dropped and read. Two
recordings of it are a pair without a difference. The last recordings make twice the calls of fsync for the same work.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

import androstep_analysis as androstep
from androstep_analysis.compare import Recording
from androstep_analysis.compare.observed import Observed, observe
from androstep_analysis.compare.overview import of_observed

MESSAGES = 100
SYNCED = 5
"""Recordings with and without twice the calls of fsync that are compared as repetitions."""


def messenger(place: Path, factor: int) -> None:
    """Do the job in a directory, with `factor` calls of fsync for each message."""
    chosen = random.Random(os.getpid())
    place.mkdir()
    database = sqlite3.connect(place / "mail.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE m(id INTEGER PRIMARY KEY, body BLOB)")
    log = os.open(place / "app.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(MESSAGES):
        database.execute("INSERT INTO m(body) VALUES (?)", (chosen.randbytes(1500),))
        os.write(log, b"x" * 300)
        for _ in range(factor - 1):
            os.write(log, b"y" * 300)
            os.fsync(log)
        if number % 5 == 0:
            (place / f"cache{number % 40}").write_bytes(chosen.randbytes(1 << 16))
        if number % 10 == 0:
            cache = os.open(place / f"cache{number % 40}", os.O_RDONLY)
            os.fsync(cache)
            os.posix_fadvise(cache, 0, 0, os.POSIX_FADV_DONTNEED)
            os.read(cache, 1 << 16)
            os.close(cache)
        time.sleep(0.02)


def record(directory: Path, count: int, factor: int) -> Iterator[Observed]:
    """Record the job on an ext4 of its own and yield what was measured."""
    image, mounted = directory / "image", directory / "mounted"
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(400 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mounted.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, mounted], check=True)
    try:
        for number in range(count):
            place, capture = mounted / "job", directory / f"{factor}-{number}"
            subprocess.run(["rm", "-rf", place], check=True)
            os.sync()
            job = [sys.executable, __file__, str(directory), "--job", str(place), "--factor", str(factor)]
            command = [sys.executable, "-m", "androstep_analysis", "record", "--on", "local", "--device", str(mounted)]
            subprocess.run([*command, "-o", str(capture), "--", *job], check=True, capture_output=True)
            yield observe(Recording.of(androstep.open(capture)))
    finally:
        subprocess.run(["umount", mounted], check=True)


def verdicts(first: list[Observed], second: list[Observed]) -> list[tuple[str, str]]:
    """Return what is decided to differ, with the verdict, in the order of the table."""
    table = of_observed(first, second, ("first", "second")).table.with_columns(pl.col("verdict").cast(pl.String))
    rows = table.filter(pl.col("verdict").is_in(["worse", "better", "different"]))
    return rows.select("what", "verdict").rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--factor", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job is not None:
        messenger(options.job, options.factor)
        return
    options.directory.mkdir(exist_ok=True)
    alike = list(record(options.directory, 2 * options.pairs, 1))
    found = [verdicts([first], [second]) for first, second in zip(alike[::2], alike[1::2], strict=True)]
    print(f"{sum(map(bool, found))} of {options.pairs} pairs without a difference have a verdict", *filter(None, found))
    synced = list(record(options.directory, SYNCED, 2))
    print(f"twice the calls of fsync, {SYNCED} recordings each:", *verdicts(alike[:SYNCED], synced))
    print("one recording each:", *(verdicts([one], [other]) for one, other in zip(alike, synced, strict=False)))


if __name__ == "__main__":
    main()
