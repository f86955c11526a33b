"""Reading traces that are text: ftrace's, blkparse's and tables of requests.

``python benchmarks/formats_text.py`` prints the tables, with the name of a text only that one; ``pytest
benchmarks/formats_text.py --benchmark-only`` times each contender with pytest-benchmark. The texts are real ones of the
corpus (ANDROSTEP_CORPUS, or beside the checkout), repeated until they have 5 M lines, each time later. The contenders:

- androstep: the file to Parquet, sorted, with names of threads (`androstep_analysis.ingest.read`);
- polars: what one writes without it: a regular expression that splits a line into time, event and the rest, to Parquet
  (for tables: polars' own CSV reader), with no meaning given to any of it;
- trace processor, for ftrace's text: as in formats_perfetto.py. It reads all lines and keeps nothing of block events;
- pyarrow alone: the same Parquet as ours from Arrow tables that lie ready.
"""

from __future__ import annotations

import functools
import gzip
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path += [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tests")]
import formats
import formats_perfetto
from formats import Contender
from support import corpus

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

EVENTS = 5_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a sixteenth of the longest text for which memory is measured."""

FTRACE_HEADER = "# tracer: nop\n#\n"
FTRACE_LINE = r"^ *(.*?)-([0-9]+) +\[([0-9]+)\] +(?:[^ ]{4,6} +)?([0-9]+\.[0-9]+): +([^ :(]+):? *(.*)$"
BLKPARSE_LINE = r"^ *([0-9]+),([0-9]+) +([0-9]+) +[0-9]+ +([0-9]+\.[0-9]{9}) +([0-9]+) +([A-Z]+) +([A-Z]+) +(.*)$"

SPLIT = """
import sys, polars as pl
lines = pl.scan_csv(sys.argv[1], has_header=False, separator=chr(31), quote_char=None, new_columns=["line"])
lines.select(pl.col("line").str.extract_groups(sys.argv[2])).unnest("line").sink_parquet(sys.argv[3])
"""
CELLS = """
import sys, polars as pl
pl.scan_csv(sys.argv[1]).sink_parquet(sys.argv[3])
"""


@dataclass(frozen=True)
class Text:
    """A text of the corpus: its file, the lines that are repeated and, in them, whole seconds (the second group)."""

    source: str
    line: str
    program: str
    pattern: str = ""
    header: str = ""


TEXTS = {
    "ftrace, block events": Text(
        "kernel/ext4_host_6.18/trace.txt.gz",
        r"^(.*?\] +)([0-9]+)(\.[0-9]{6,9}: block_.*)$",
        SPLIT,
        FTRACE_LINE,
        FTRACE_HEADER,
    ),
    "ftrace, all events": Text(
        "kernel/ext4_host_6.18/trace.txt.gz",
        r"^(.*?\] +)([0-9]+)(\.[0-9]{6,9}: .*)$",
        SPLIT,
        FTRACE_LINE,
        FTRACE_HEADER,
    ),
    "blkparse": Text(
        "blkparse_text/android_candycrush_straight_1.txt",
        r"^( *[0-9]+,[0-9]+ +[0-9]+ +[0-9]+ +)([0-9]{1,6})(\.[0-9]{9} .*)$",
        SPLIT,
        BLKPARSE_LINE,
    ),
    "CSV": Text(
        "block_csv/pixel6a_cod_exec.csv.gz",
        r"^((?:[^,\n]*,){5})([0-9]+)(\.[0-9]*)\r?$",
        CELLS,
        header="proces,device,rw_flag,sector,size,timestamp\n",
    ),
}


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    for name in sys.argv[1:] or TEXTS:
        path = recording(name, EVENTS)
        formats.table(name, EVENTS, path.stat().st_size, formats.paired(contenders(name)))
        sizes = [multiple * EVENTS // max(LENGTHS) for multiple in LENGTHS]
        formats.memory(name, {events: recording(name, events) for events in sizes})


def recording(name: str, events: int) -> Path:
    """A text with so many lines of events."""
    words = "-".join(re.findall("[a-z]+", name.lower()))
    return formats.prepared(f"text-{words}-{events}", functools.partial(_repeat, TEXTS[name], events=events)) / "text"


def contenders(name: str) -> list[Contender]:
    """All that read text `name`."""
    path, text = recording(name, EVENTS), TEXTS[name]
    target = path.with_name("polars.parquet")
    ours, *peers, limit = formats_perfetto.contenders(path)
    others = Contender("polars", (sys.executable, "-c", text.program, path, text.pattern, target))
    return [ours, others, *(peers if text.header == FTRACE_HEADER else ()), limit]


def _repeat(text: Text, directory: Path, events: int) -> None:
    """Write the events of a text again and again, each time behind the last one."""
    path = corpus.path(text.source)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    parts = re.findall(text.line, data.decode().replace("\r\n", "\n"), re.MULTILINE)
    seconds = [int(second) for _, second, _ in parts]
    span = max(seconds) - min(seconds) + 1
    with (directory / "text").open("w") as file:
        file.write(text.header)
        for first in range(0, events, len(parts)):
            shift = first // len(parts) * span
            some = parts[: events - first]
            file.writelines(f"{before}{int(second) + shift}{after}\n" for before, second, after in some)


# --- for pytest-benchmark ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("number", (0, 1, -1), ids=["androstep", "polars", "pyarrow"])
def test_seconds(benchmark: BenchmarkFixture, name: str, number: int) -> None:
    once = benchmark.pedantic(formats.run, (contenders(name)[number],), rounds=formats.ROUNDS)
    benchmark.extra_info["peak_mib"] = once.peak_bytes >> 20
    benchmark.extra_info["events"] = EVENTS


if __name__ == "__main__":
    main()
