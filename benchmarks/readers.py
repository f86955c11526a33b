"""Read traces, and link block events to requests, compared with existing programs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from androstep_analysis import ingest
from androstep_analysis.capture.derivation import Evidence, derive
from androstep_analysis.ingest import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests
from benchmarks import ROOT, recordings
from benchmarks.paired import Command, Measure, Row, compared, in_turn, run, seconds, where

BLKPARSE_LINE = r"^ *([0-9]+),([0-9]+) +([0-9]+) +[0-9]+ +([0-9]+\.[0-9]{9}) +([0-9]+) +([A-Z]+) +([A-Z]+) +(.*)$"

TRACE_PROCESSOR = Path(os.environ.get("ANDROSTEP_TRACE_PROCESSOR", ROOT / "build" / "peers" / "trace-processor"))
"""The files that tests/support/trace_processor.mjs runs; its first lines state their origin."""


def readers(events: int = 1_000_000) -> Iterator[Row]:
    """Read traces of about `events` events into Parquet.

    Our readers decode every column, sort the rows and resolve thread names. blkparse and trace-cmd print text, btt
    prints averages, and trace processor loads its own tables in memory. pyarrow writes our reader's tables with its
    defaults: no reader that writes Parquet with one thread can be faster.
    """
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        blocks = recordings.block_events(events)
        stream = recordings.exported(blocks, "blktrace", at / "blktrace")
        trace = recordings.tracedat(at / "trace.dat", events)
        traced = recordings.perfetto(at / "t.pftrace", events)
        text = recordings.exported(blocks, "blkparse", at / "blkparse")
        yield from _read(
            "blktrace",
            stream,
            {
                "blkparse": _program(("blkparse", "-i", "-"), at, stream),
                "blkparse -d, btt": where("btt", partial(seconds, partial(_btt, at, stream, is_merged=False))),
            },
        )
        yield from _read("trace.dat", trace, {"trace-cmd report": _program(("trace-cmd", "report", "-i", trace))})
        load = partial(_trace_processor, traced) if TRACE_PROCESSOR.is_dir() else None
        yield from _read("Perfetto", traced, {"trace processor": load})
        split = partial(seconds, partial(_split, text, at / "lines.parquet"))
        yield from _read("blkparse's text", text, {"polars, regular expression": split})


def _read(title: str, trace: Path, peers: Mapping[str, Measure | None]) -> Iterator[Row]:
    made, written = (trace.with_suffix(suffix) for suffix in (".made", ".written"))
    for directory in (made, written):
        directory.mkdir()
    tables = {name: table.collect().to_arrow() for name, table in ingest.read(trace).tables.items()}

    def write() -> None:
        for name, table in tables.items():
            pq.write_table(table, written / f"{name}.parquet")

    ours = partial(seconds, lambda: ingest.read(trace, spool=Spool(made)))
    what = f"read {title}, {trace.stat().st_size / 1e6:.0f} MB [s]"
    yield from in_turn(what, ours, {**peers, "pyarrow, only writing": partial(seconds, write)})
    sizes = [sum(path.stat().st_size for path in directory.glob("*.parquet")) / 1e6 for directory in (made, written)]
    yield compared(f"Parquet of {title} [MB]", sizes[0], "pyarrow", sizes[1])


def _split(text: Path, target: Path) -> None:
    """Do the minimum without a reader: split lines by a regular expression into text columns."""
    lines = pl.scan_csv(text, has_header=False, separator="\x1f", quote_char=None, new_columns=["line"])
    lines.select(pl.col("line").str.extract_groups(BLKPARSE_LINE)).unnest("line").sink_parquet(target)


def _trace_processor(trace: Path) -> float:
    """Return the seconds that trace processor takes to load, without the start of its engine."""
    script = ROOT / "tests" / "support" / "trace_processor.mjs"
    done = subprocess.run(["node", script, TRACE_PROCESSOR, trace], capture_output=True, text=True, check=True)
    return float(done.stderr.split()[-2])


def linking(events: int = 1_000_000) -> Iterator[Row]:
    """Link block events to requests, and to all derived tables, compared with btt, which links for its averages."""
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        blocks = recordings.block_events(events)
        stream = recordings.exported(blocks, "blktrace", at / "blktrace")
        table = pl.scan_parquet(at / "block_events.parquet")
        blocks.block_events.sink_parquet(at / "block_events.parquet")
        staging = Staging("blktrace", {}, None, None, {"block_events": table})
        btt = where("btt", partial(seconds, partial(_btt, at, stream, is_merged=True)))
        if btt:
            _btt(at, stream, is_merged=False)
        for what, work in (
            ("requests", lambda: requests.link(table)),
            ("all tables", lambda: derive(staging, Evidence(), Spool())),
        ):
            yield from in_turn(f"link {events:,} block events to {what} [s]", partial(seconds, work), {"btt": btt})


def _btt(directory: Path, stream: Path, *, is_merged: bool) -> None:
    """Run btt on the output of ``blkparse -d``, which it requires."""
    if not is_merged:
        run(("blkparse", "-q", "-O", "-i", "-", "-d", "merged"), directory, stream)
    run(("btt", "-i", "merged", "-o", "btt"), directory)


def _program(command: Command, directory: Path | None = None, stdin: Path | None = None) -> Measure | None:
    return where(str(command[0]), partial(seconds, partial(run, command, directory, stdin)))
