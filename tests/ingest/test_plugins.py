"""Readers from other packages, and formats stated by the caller."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from androstep_analysis import capture, cli, ingest
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import plugins

READER = """
import polars as pl
from androstep_analysis import schema
from androstep_analysis.ingest import Format, Staging

def read(source, spool):
    lines = [line.split() for line in source.data.decode().splitlines()[1:]]
    rows = [
        {"ts_ns": int(time), "event": "Q", "action": "queue", "dev": 8 << 20, "sector": int(sector), "nr_sectors": 8}
        for time, sector in lines
    ]
    spool.append("block_events", pl.DataFrame(rows, schema=schema.table("block_events").polars))
    return Staging(format="notes", events={"Q": len(rows)}, first_ns=rows[0]["ts_ns"], last_ns=rows[-1]["ts_ns"])

FORMAT = Format("Notes", lambda head: head.startswith(b"notes 1"), read, tables=("block_events",))
NUMBER = 1
"""

NOTES = b"notes 1\n10 64\n20 128\n"

CSV = b"10,R,8:0,4096,4096\n"

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with these entry points into Python's path."""

    def install(**objects: str) -> Path:
        site = tmp_path / "site"
        about = site / "notes_reader-1.0.dist-info"
        about.mkdir(parents=True)
        (site / "notes_reader.py").write_text(READER)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: notes-reader\nVersion: 1.0\n")
        points = "".join(f"{name} = {value}\n" for name, value in objects.items())
        (about / "entry_points.txt").write_text(f"[androstep.formats]\n{points}")
        monkeypatch.syspath_prepend(str(site))
        plugins.loaded.cache_clear()
        return site

    yield install
    sys.modules.pop("notes_reader", None)
    plugins.loaded.cache_clear()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.gz"
    path.write_bytes(gzip.compress(NOTES))
    return path


def test_a_plugin_reads_its_files(install: Install, notes: Path) -> None:
    install(notes="notes_reader:FORMAT")
    assert capture.open(notes).requests.collect()["sector"].to_list() == [64, 128]


@pytest.mark.prove
def test_the_command_line_takes_it_too(install: Install, notes: Path) -> None:
    command = [sys.executable, "-m", "androstep_analysis", "tables", str(notes), "requests"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(install(n="notes_reader:FORMAT"))}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "128" in done.stdout


def test_ours_are_tried_first(install: Install, tmp_path: Path) -> None:
    install(notes="notes_reader:FORMAT", broken="notes_reader:MISSING")
    text = tmp_path / "trace.txt"
    text.write_bytes(b" app-1 [000] .... 1.000001: block_rq_issue: 8,0 W 4096 () 64 + 8 [app]\n")
    assert ingest.read(text).format == "ftrace_text"
    assert plugins.loaded.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("notes_reader:MISSING", "does not load: AttributeError: "),
        ("no_such_module:FORMAT", "does not load: ModuleNotFoundError: "),
        ("notes_reader:NUMBER", "is no androstep_analysis.ingest.Format"),
    ],
)
def test_one_that_does_not_load_is_named(install: Install, notes: Path, value: str, sentence: str) -> None:
    install(broken=value)
    with pytest.raises(InputError, match="no known recording") as failed:
        ingest.read(notes)
    assert f"; plug-in broken ({value}) {sentence}" in str(failed.value)


def test_another_works_beside_one_that_does_not_load(install: Install, notes: Path) -> None:
    install(broken="notes_reader:MISSING", notes="notes_reader:FORMAT")
    assert ingest.read(notes).events == {"Q": 2}


# -- the format that is stated ----------------------------------------------------------------------------------------


def test_a_stated_format_is_read_whatever_the_file_looks_like(install: Install, tmp_path: Path) -> None:
    install(notes="notes_reader:FORMAT")
    path = tmp_path / "other"
    path.write_bytes(NOTES.replace(b"notes 1", b"no head"))
    with pytest.raises(InputError, match="no known recording"):
        capture.open(path)
    assert capture.open(path, format="notes").requests.collect().height == 2
    made = capture.create([path], tmp_path / "made", capture.Description(format="Notes"))
    assert made.manifest.format == "Notes"
    assert capture.open(tmp_path / "made").requests.collect().height == 2


def test_a_stated_format_is_read_from_an_archive(install: Install, tmp_path: Path) -> None:
    install(notes="notes_reader:FORMAT")
    path = tmp_path / "table.csv"
    path.write_bytes(NOTES.replace(b"notes 1", b"no head"))
    (tmp_path / "readme").write_bytes(NOTES)
    with tarfile.open(tmp_path / "one.tar", "w") as one, tarfile.open(tmp_path / "both.tar", "w") as both:
        one.add(path, path.name)
        both.add(path, path.name)
        both.add(tmp_path / "readme", "readme")
    assert ingest.read(tmp_path / "one.tar", format="notes").events == {"Q": 2}
    assert ingest.read(tmp_path / "both.tar", format="notes").losses == ()


def test_an_unknown_name_lists_all_that_are_known(install: Install, notes: Path) -> None:
    install(notes="notes_reader:FORMAT")
    with pytest.raises(InputError) as failed:
        capture.open(notes, format="nothing")
    titles = ", ".join([*(format.title for format in ingest.FORMATS), "Notes"])
    assert str(failed.value) == f"'nothing' is not a known format; known formats are {titles}"


def test_columns_of_a_csv_are_of_no_other_format(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(CSV)
    columns = "time:us,op,dev,offset:B,size:B"
    assert ingest.read(path, csv_columns=columns, format="block csv").events == {"R": 1}
    with pytest.raises(InputError, match="CSV columns cannot be used with format strace log; omit one of the two"):
        ingest.read(path, csv_columns=columns, format="strace log")


@pytest.mark.parametrize("command", ["summary", "tables", "report", "export", "program", "whatif", "ingest"])
def test_every_command_that_opens_traces_takes_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    assert "--format TITLE" in capsys.readouterr().out
