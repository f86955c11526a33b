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
from support.tree import ROOT

from androstep_analysis import capture, cli, ingest, measures
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import plugins
from androstep_analysis.measures.recording import Recording

_SECTION = (ROOT / "docs/formats.md").read_text("utf-8").partition("## A format of your own")[2]
READER = _SECTION.partition("```python\n")[2].partition("```")[0]
"""The example of the documentation."""

NOTES = b"notes 1\n10 WS 64\n20 W 128\n"

CSV = b"10,R,8:0,4096,4096\n"

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with these entry points into Python's path."""

    def install(**objects: str) -> Path:
        site = tmp_path / "site"
        about = site / "notes_reader-1.0.dist-info"
        about.mkdir(parents=True)
        (site / "notes_reader.py").write_text(f"{READER}\nNUMBER = 1\n")
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


def test_a_plugin_states_which_flags_its_format_records(install: Install, notes: Path) -> None:
    install(notes="notes_reader:FORMAT")
    found = capture.open(notes)
    for requests in (found.requests, found.with_filesystem().requests):
        assert requests.select("rwbs", "sync").collect().rows() == [("WS", True), ("W", False)]
        assert requests.select("meta", "fua", "preflush").collect().rows() == [(False,) * 3] * 2
        assert requests.collect()["readahead"].to_list() == [None, None]
    assert set(measures.sync(found.io)["class"]) == {"sync", "buffered"}


def test_flags_that_a_plugin_does_not_state_are_unknown(install: Install, notes: Path) -> None:
    site = install(notes="notes_reader:FORMAT")
    (site / "notes_reader.py").write_text(
        READER.replace('        flags=frozenset({"sync", "meta", "fua", "preflush"}),\n', "")
    )
    assert set(measures.sync(capture.open(notes).io)["class"]) == {"unknown"}
    (site / "words_reader.py").write_text(READER.replace("flags=", 'words=frozenset({"W"}), flags='))
    (next(site.glob("*.dist-info")) / "entry_points.txt").write_text("[androstep.formats]\nn = words_reader:FORMAT\n")
    plugins.loaded.cache_clear()
    assert capture.open(notes).requests.collect()["sync"].to_list() == [True, None]


def test_events_that_a_plugin_states_as_recorded_reach_measures(install: Install, notes: Path, tmp_path: Path) -> None:
    """An event that was recorded and never happened is known not to have happened."""
    site = install(notes="notes_reader:FORMAT")
    events = ("ext4_evict_inode", "ext4_free_inode")
    for stated in (events, None):
        more = "" if stated is None else f"        recorded=frozenset({set(events)}),\n"
        flags = '        flags=frozenset({"sync", "meta", "fua", "preflush"}),\n'
        assert flags in READER
        name = f"reader_{'with' if more else 'without'}"
        (site / f"{name}.py").write_text(READER.replace(flags, flags + more))
        points = f"[androstep.formats]\nn = {name}:FORMAT\n"
        (next(site.glob("*.dist-info")) / "entry_points.txt").write_text(points)
        plugins.loaded.cache_clear()
        capture.create([notes], tmp_path / name)
        for found in (capture.open(notes), capture.open(tmp_path / name)):
            assert Recording.of(found).events == stated


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
    assert ingest.read(notes).events == {"request": 2}


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
    assert ingest.read(tmp_path / "one.tar", format="notes").events == {"request": 2}
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
