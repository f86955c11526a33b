#!/usr/bin/env python3
"""Print the sha256 of the contents of every table of recordings, and of their summaries.

    digests.py PATH... > before; (change the code); digests.py PATH... > after; diff before after

Use it for changes that must not change results. There is a row for each table. The digest depends on the order of
columns and rows. A path that cannot be opened has a row with the error message.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl

import androstep_analysis as androstep
from androstep_analysis.present import summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    warnings.simplefilter("ignore", androstep.LossWarning)
    for path in parser.parse_args().paths:
        for name, digest in digests(path):
            print(path, name, digest, flush=True)


def digests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and digest of each table of a recording, and of its summary."""
    try:
        capture = androstep.open(path)
        tables = {name: table.collect() for name, table in capture.tables.items()}
        for kind in ("bench", "replay"):
            tables |= getattr(capture, kind) if capture.about[kind] else {}
        for name, table in sorted(tables.items()):
            yield name, of_table(table)
        said = json.dumps(summary.summary(capture), sort_keys=True, default=str)
        yield "summary", hashlib.sha256(said.encode()).hexdigest()
    except androstep.InputError as error:
        yield "error", str(error)


def of_table(table: pl.DataFrame) -> str:
    """Return the digest of names, types and values. Enumerations count as strings."""
    words = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).rechunk()
    stream = io.BytesIO()
    # Hash values and validity separately: the data under nulls, and the presence of a validity bitmap, must not count.
    for part in (
        words.clear(),
        words.select(pl.all().is_null()),
        *(column.drop_nulls().to_frame() for column in words),
    ):
        part.write_ipc_stream(stream, compat_level=pl.CompatLevel.oldest())
    return hashlib.sha256(stream.getbuffer()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
