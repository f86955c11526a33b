"""Test untrusted captures: opening one never writes outside of it, follows no link, and always terminates."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.needs import left_to_prove
from support.tree import ROOT

from androstep_analysis import capture, fs
from androstep_analysis.capture import cache
from androstep_analysis.cli import main
from androstep_analysis.common import files
from androstep_analysis.common.errors import InputError

TRACE = "0,read,8,4096\n1,write,16,8192\n"
COLUMNS = "time:s,op,offset:sectors,size:B"


@pytest.fixture(autouse=True)
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory used as this user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """Return a small capture, as another user could have archived it."""
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    capture.create([trace], tmp_path / "received", capture.Description(csv_columns=COLUMNS))
    return tmp_path / "received"


def bytes_of(directory: Path) -> int:
    return int(capture.open(directory).io.select(pl.sum("bytes")).collect().item())


def test_tables_that_are_a_link_are_not_followed(received: Path, tmp_path: Path, user_cache: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(received / "tables")
    (received / "tables").symlink_to(elsewhere)
    assert bytes_of(received) == bytes_of(received) == 12288
    assert list(elsewhere.iterdir()) == []
    assert len(list(user_cache.rglob("io.parquet"))) == 1


def test_a_capture_of_another_user_is_derived_into_the_own_cache(received: Path, user_cache: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a directory to another user")
    os.chown(received, 65534, 65534)
    assert bytes_of(received) == 12288  # from the existing tables
    assert not (user_cache / "androstep" / "tables").exists()
    (received / "tables" / "io.parquet").unlink()
    assert bytes_of(received) == 12288
    assert not (received / "tables" / "io.parquet").exists()
    assert len(list(user_cache.rglob("io.parquet"))) == 1


NAMES = (cache.SEEN, cache.ABOUT, cache.SUMS, cache.SEAL, "io.parquet")


INVALID: dict[str, Callable[[Path], object]] = {
    "FIFO": lambda path: os.mkfifo(path),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(path.parent.parent / "raw" / "trace.csv"),
    "directory": lambda path: path.mkdir(),
    "zeros": lambda path: path.write_bytes(b"\0" * 4096),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    left_to_prove(itertools.product(NAMES, INVALID), lambda case: case[0] == cache.SEEN or case[1] == "link"),
)
def test_invalid_tables_are_derived_again(received: Path, name: str, kind: str) -> None:
    path = received / "tables" / name
    path.unlink(missing_ok=True)
    INVALID[kind](path)
    if name != cache.SEEN and path.is_dir():  # cannot be replaced, and must not be removed
        with pytest.raises(IsADirectoryError):
            capture.open(received)
    else:
        assert bytes_of(received) == 12288
    assert (received / "raw" / "trace.csv").read_text() == TRACE


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_in_place_of_seen_json_is_not_written_to(
    received: Path, is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file `.seen.json` is written when the tables are older than a clock tick."""
    seen = received / "tables" / cache.SEEN
    seen.unlink(missing_ok=True)
    os.mkfifo(tmp_path / "pipe" if is_link else seen)
    if is_link:
        seen.symlink_to(tmp_path / "pipe")
    monkeypatch.setattr(cache, "TICK_NS", 0)
    assert bytes_of(received) == bytes_of(received) == 12288


def forge_table(tables: Path) -> None:
    table = pl.read_parquet(tables / "io.parquet")
    table.with_columns(pl.lit(1 << 62).alias("bytes"), pl.lit(None, pl.String).alias("op")).write_parquet(
        tables / "io.parquet"
    )


def forge_columns(tables: Path) -> None:
    pl.DataFrame({"bytes": [1 << 40]}).write_parquet(tables / "io.parquet")


def forge_about(tables: Path) -> None:
    stated = json.loads((tables / cache.ABOUT).read_text())
    stated["about"] |= {"events": 1, "first_ns": "\x1b[2J", "losses": [[]], "population": None, "bench": "x"}
    (tables / cache.ABOUT).write_text(json.dumps(stated))


@pytest.mark.parametrize("forge", [forge_table, forge_columns, forge_about])
def test_tables_of_another_user_are_derived_again(
    received: Path, forge: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Digests and key are correct, because anyone can compute them, but the seal is another user's."""
    tables = received / "tables"
    forge(tables)
    sums = dict(line.split()[::-1] for line in (tables / cache.SUMS).read_text().splitlines())
    text = "".join(f"{hashlib.sha256((tables / name).read_bytes()).hexdigest()}  {name}\n" for name in sums)
    (tables / cache.SUMS).write_text(text)
    assert bytes_of(received) == 12288
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of another user"))
    assert bytes_of(received) == 12288
    forge(tables)
    (tables / cache.SUMS).write_text(text)
    (tables / cache.SEAL).write_text(cache._seal(text))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert bytes_of(received) == 12288
    assert main(["summary", str(received)]) == 0


def test_tables_are_derived_again_without_a_stored_key(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    forge_table(received / "tables")
    assert bytes_of(received) == 12288


def test_a_large_manifest_is_refused_in_a_sentence(
    received: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = received / "capture.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": " " * (1 << 20)}))
    monkeypatch.setenv(files.MOST_TEXT, "1")
    assert main(["summary", str(received)]) == 1
    assert "capture.json: 1 MiB, but the limit for such a file is 1 MiB" in capsys.readouterr().err
    monkeypatch.setenv(files.MOST_TEXT, "2")
    assert main(["summary", str(received)]) == 0
    monkeypatch.setenv(files.MOST_TEXT, "many")
    assert main(["summary", str(received)]) == 1
    assert f"{files.MOST_TEXT} is 'many'; set it to a whole number" in capsys.readouterr().err


def test_a_pipe_is_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "image")
    for path in (tmp_path / "image", tmp_path, Path("/dev/zero")):
        assert main(["lookup", str(path), "1"]) == 1
        assert f"{path}: neither a file nor a block device" in capsys.readouterr().err


def test_an_image_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(1025):
            file.write(bytes(1 << 20))
    monkeypatch.setenv("ANDROSTEP_MAX_IMAGE_GIB", "1")
    with pytest.raises(InputError, match="unpacks to more than 1 GiB"), fs.opened(path):
        pass
    monkeypatch.setenv("ANDROSTEP_MAX_IMAGE_GIB", "2")
    with fs.opened(path) as plain:
        assert plain.stat().st_size == 1025 << 20


def test_an_image_that_fills_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.gz"
    path.write_bytes(gzip.compress(b"x" * (1 << 20)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 1 << 40, (1 << 30) + 1000))
    with pytest.raises(InputError, match=r"free space in .*; set TMPDIR to a directory"), fs.opened(path):
        pass


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o640)
    with pytest.raises(OSError, match="full"), files.replacing(path) as new:
        new.write_text("half")
        raise OSError("the disk is full")
    assert path.read_text() == "before"
    files.write_text(path, "after")
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "link").symlink_to(target)
    files.write_text(tmp_path / "link", "new")
    assert (target.read_text(), (tmp_path / "link").is_symlink()) == ("precious", False)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    read, write = os.pipe()
    try:
        files.write_text(Path(f"/dev/fd/{write}"), "text")
        assert os.read(read, 100) == b"text"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "DEMO", "-o", "out.html"],
        ["tables", "DEMO", "io", "-o", "out.parquet"],
        ["tables", "DEMO", "io", "-o", "out.csv"],
        ["export", "DEMO", "--to", "blkparse", "-o", "out.txt"],
    ],
    ids=lambda words: words[-1],
)
def test_a_full_disk_leaves_the_old_file(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last step of writing a file fails, as on a full disk."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    Path(words[-1]).write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    demo = str(ROOT / "datasets" / "demo")
    assert main([demo if word == "DEMO" else word for word in words]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in directory.iterdir()] == [(words[-1], "before")]


# -- forged manifests --------------------------------------------------------------------------------------------------


def forged(received: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the manifest of a capture without tables."""
    shutil.rmtree(received / "tables")
    path = received / "capture.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return received


@pytest.mark.parametrize("sources", [[], {}])
def test_a_manifest_without_sources_is_a_sentence(sources: object, received: Path) -> None:
    with pytest.raises(InputError, match="nothing: neither a trace nor results"):
        capture.open(forged(received, lambda content: content.update(sources=sources)))


@pytest.mark.parametrize("fact", ["device", "kernel", "fs_type", "workload"])
def test_a_lone_surrogate_becomes_its_escape(fact: str, received: Path) -> None:
    """JSON may hold one, and no table and no file of UTF-8 can."""
    forged(received, lambda content: content["facts"].update({fact: "x\ud800y"}))
    opened = capture.open(received)
    assert opened.facts[fact] == r"x\ud800y"
    assert main(["report", str(received), "-o", str(received.parent / "report.html")]) == 0


@pytest.mark.parametrize("page_bytes", [0, -4096, 1000, 1 << 70])
def test_a_page_of_a_size_that_none_has_is_a_sentence(page_bytes: int, received: Path) -> None:
    with pytest.raises(InputError, match="no size of a page"):
        capture.open(forged(received, lambda content: content["facts"].update(page_bytes=page_bytes)))


@pytest.mark.parametrize("role", ["trace", "listing_before", "samples"])
def test_only_an_image_may_be_outside_of_the_capture(role: str, received: Path, tmp_path: Path) -> None:
    """A file of this user would be shared with a release of the capture."""
    path = tmp_path / "private.csv"
    path.write_text(TRACE)
    one = {"path": str(path), "role": role, "bytes": len(TRACE), "sha256": hashlib.sha256(TRACE.encode()).hexdigest()}
    with pytest.raises(InputError, match="is outside the capture"):
        capture.open(forged(received, lambda content: content["sources"].append(one)))


@pytest.mark.parametrize("target", ["trace.csv", "other", "../raw"])
def test_links_that_form_a_loop_are_a_sentence(target: str, received: Path) -> None:
    (received / "raw/trace.csv").unlink()
    (received / "raw/trace.csv").symlink_to(target)
    (received / "raw/other").symlink_to("trace.csv")
    with pytest.raises(InputError, match=r"links form a loop|missing"):
        capture.open(forged(received, lambda content: None))


# -- forged Parquet files ----------------------------------------------------------------------------------------------


def with_column(values: Any) -> Callable[[Path], object]:
    return lambda path: pq.write_table(
        pa.table({"capture_id": values}), path, compression="zstd", write_statistics=False, store_schema=False
    )


PARQUET: dict[str, Callable[[Path], object]] = {
    "rows": with_column(pa.repeat("x", 1 << 22).dictionary_encode()),
    "text": with_column(["x" * (1 << 26)]),
    "nested": with_column([{"x": [1]}]),
    "encrypted": lambda path: path.write_bytes(b"PARE" + bytes(99) + b"\x20\0\0\0PARE"),
    "empty": lambda path: path.touch(),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "FIFO": os.mkfifo,
}


@pytest.mark.parametrize("kind", PARQUET)
@pytest.mark.parametrize("command", ["compare", "whatif"])
def test_a_forged_parquet_file_is_a_sentence(
    kind: str, command: str, received: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "set/tables/captures/part.parquet"
    part.parent.mkdir(parents=True)
    PARQUET[kind](part)
    paths = (
        [str(tmp_path / "set"), "--measure", "volume"]
        if command == "compare"
        else [str(received), "--model", str(part)]
    )
    assert main([command, *paths]) == 1
    error = capsys.readouterr().err
    assert (error.count("\n"), str(part) in error) == (1, True)


# -- where it is read and printed --------------------------------------------------------------------------------------


def ran(words: list[str | bytes], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "androstep_analysis", *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, **options)


def test_a_terminal_without_unicode_shows_escapes() -> None:
    done = ran(["summary", str(ROOT / "datasets" / "demo")], env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xb5s" in done.stdout  # µs


def test_a_closed_standard_output_is_a_sentence() -> None:
    done = ran(["summary", str(ROOT / "datasets" / "demo")], preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert done.stderr == "androstep: standard output is closed; redirect it to a file or to /dev/null\n"


def test_a_path_that_is_not_text_is_a_sentence(received: Path) -> None:
    odd = received.rename(received.with_name(os.fsdecode(b"od\xffd")))
    done = ran(["summary", os.fsencode(odd)])
    assert done.returncode == 1
    assert "the path of a capture must be UTF-8; rename the directory" in done.stderr
    assert done.stderr.count("\n") == 1
