"""A signal at any time ends every command with status 128 + its number, without a traceback or incomplete files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal, sys, threading, time
from importlib.abc import MetaPathFinder

def send(number):
    os.kill(os.getpid(), number)
"""

COMMAND = """
from androstep_analysis import cli
from androstep_analysis.common import scratch
import argparse, pathlib

def parsed(words):
    import polars
    return argparse.Namespace(run=run)

cli._parsed = parsed
"""

END = """
from androstep_analysis.__main__ import main
sys.argv = ["androstep", "--version"]
sys.exit(main())
"""

IN_A_QUERY = """
def run(_):
    import polars as pl
    many, more = pl.LazyFrame({"a": range(100_000)}), pl.LazyFrame({"b": range(1_000_000)})
    query = many.join(more, how="cross").filter((pl.col("a") * pl.col("b")) % 7 == 3).group_by("a").len()
    with scratch.directory("made", pathlib.Path(sys.argv[2])) as place:
        (place / "half").write_text("")
        threading.Timer(0.3, send, [signal.SIGINT]).start()
        query.collect()
"""

IN_A_CALLBACK = """
def run(_):
    import polars as pl
    with scratch.directory("made", pathlib.Path(sys.argv[2])) as place:
        (place / "half").write_text("")
        pl.select(pl.lit(1).map_batches(lambda _: send(signal.{name}), return_dtype=pl.Int64))
"""

IN_A_CLEANUP = """
def run(_):
    with scratch.directory("made", pathlib.Path(sys.argv[2])) as place:
        try:
            send(signal.SIGTERM)
        finally:
            send(signal.SIGINT)
            (place / "half").write_text("")
"""

AT_AN_IMPORT = """
class Sender(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{name}":
            send(signal.SIGINT)

sys.meta_path.insert(0, Sender())
"""

AT_THE_END = """
import atexit
atexit.register(send, signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (COMMAND + IN_A_QUERY, 130),
        (COMMAND + IN_A_CALLBACK.format(name="SIGINT"), 130),
        (COMMAND + IN_A_CALLBACK.format(name="SIGTERM"), 143),
        (COMMAND + IN_A_CLEANUP, 143),
        (AT_AN_IMPORT.format(name="androstep_analysis.cli"), 130),
        (AT_AN_IMPORT.format(name="argparse"), 130),
        (AT_AN_IMPORT.format(name="importlib.metadata"), 130),
        (AT_THE_END, 0),
    ],
    ids=[
        "in a query",
        "in a callback",
        "SIGTERM in a callback",
        "while a signal ends it",
        "before the command line",
        "while that is imported",
        "in a command",
        "when all is done",
    ],
)
def test_a_signal_ends_a_command(code: str, status: int, tmp_path: Path) -> None:
    end = END.replace('["androstep", "--version"]', f'["androstep", "--version", {str(tmp_path)!r}]')
    done = subprocess.run([sys.executable, "-c", BEGIN + code + end], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (status, "", [])
