"""Test capture directories: their sources, the checks of untrusted ones, and when tables are derived again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from support import corpus
from support.tree import ROOT

import androstep_analysis
from androstep_analysis import capture
from androstep_analysis.capture import cache, derivation
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.manifest import sha256

DEMO = ROOT / "datasets/demo"
PROGRAM = Path(sys.executable).with_name("androstep")

# blkparse's default output; two disks.
TWO_DISKS = """\
  8,0    0        1     0.000001000   100  Q  WS 8 + 8 [sh]
  8,0    0        2     0.000002000   100  D  WS 8 + 8 [sh]
  8,0    0        3     0.000003000   100  C  WS 8 + 8 [0]
  8,16   0        4     0.000004000   100  Q  WS 64 + 8 [sh]
  8,16   0        5     0.000005000   100  D  WS 64 + 8 [sh]
  8,16   0        6     0.000006000   100  C  WS 64 + 8 [0]
"""
ONE_DISK = "".join(line for line in TWO_DISKS.splitlines(keepends=True) if line.startswith("  8,0"))


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """Return a copy of the demo capture without its derived tables."""
    directory = tmp_path / "demo"
    shutil.copytree(DEMO, directory, ignore=shutil.ignore_patterns("tables"))
    return directory


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a capture of three events, with its tables."""
    return made(tmp_path / "small", ONE_DISK)


def made(directory: Path, text: str) -> Path:
    trace = directory.with_suffix(".txt")
    trace.write_text(text)
    capture.create([trace], directory)
    return directory


def edited(directory: Path, change: Callable[[Any], Any]) -> Path:
    """Write a changed manifest to the capture: `change` modifies it, or returns a replacement."""
    path = directory / manifest.FILE_NAME
    content = json.loads(path.read_text())
    other = change(content)
    path.write_text(json.dumps(content if other is None else other))
    return directory


def flip(path: Path, at: int) -> None:
    """Turn one bit of a byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def tables(directory: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of every table file, which change if it is written again."""
    files = [path for path in (directory / "tables").iterdir() if path.name != cache.SEEN]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


# -- the manifest -----------------------------------------------------------------------------------------------------


def test_the_bundled_manifest_survives_reading_and_writing(tmp_path: Path) -> None:
    manifest.write(manifest.read(DEMO), tmp_path)
    assert (tmp_path / "capture.json").read_bytes() == (DEMO / "capture.json").read_bytes()


def test_the_id_is_of_roles_and_contents(tmp_path: Path) -> None:
    first = manifest.read(made(tmp_path / "first", ONE_DISK))
    again = manifest.read(made(tmp_path / "other-name", ONE_DISK))
    other = manifest.read(made(tmp_path / "other-content", TWO_DISKS))
    digest = hashlib.sha256(ONE_DISK.encode()).hexdigest()
    assert first.capture_id == hashlib.sha256(f"trace {digest}".encode()).hexdigest()[:16]
    assert first.capture_id == again.capture_id != other.capture_id
    assert capture.open(tmp_path / "first").facts["capture_id"] == first.capture_id
    assert json.loads((tmp_path / "first/capture.json").read_text())["capture_id"] == first.capture_id


def test_the_bundled_id_is_of_the_bundled_sources() -> None:
    stated = json.loads((DEMO / "capture.json").read_text())
    lines = sorted(
        f"{s['role']} {hashlib.sha256((DEMO / s['path']).read_bytes()).hexdigest()}" for s in stated["sources"]
    )
    assert stated["capture_id"] == hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def source(**change: Any) -> Callable[[Any], None]:
    return lambda content: content["sources"][0].update(change)


def top(**change: Any) -> Callable[[Any], None]:
    return lambda content: content.update(change)


DISK = {"dev": "8:0", "name": "sda", "parent": None, "start_sector": 0, "nr_sectors": 8}


@pytest.mark.prove
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda content: [content], "not a valid manifest"),
        (lambda content: {}, "not a valid manifest"),
        (top(androstep=2), "manifest version 2, expected 1; update androstep"),
        (top(androstep="1"), "manifest version '1', expected 1"),
        (top(sources=None), "not a valid manifest"),
        (top(sources=[{}]), "not a valid manifest"),
        (top(facts={"device": {"a": "b"}}), "fact 'device' is .*, not of type str"),
        (top(facts={"sdk": "34"}), "fact 'sdk' is '34', not of type int"),
        (top(lost_events="many"), "'many' is not a 64-bit integer"),
        (top(realtime_offset_ns=10**30), "is not a 64-bit integer"),
        (top(realtime_offset_ns=1.5), "is not a 64-bit integer"),
        (top(devices=[{"dev": "8:0"}]), "start_sector"),
        (top(devices=[{**DISK, "dev": "sda"}]), "'sda' is not a device number"),
        (top(devices=[{**DISK, "dev": "9999999:0"}]), "'9999999:0' is not a device number"),
        (top(devices=[{**DISK, "parent": "disk"}]), "'disk' is not a device number"),
        (top(devices=[{**DISK, "nr_sectors": None}]), "is not a 64-bit integer"),
        (top(mounts=[7]), "not a valid manifest"),
        (top(events="ext4_free_inode"), "not a list of names"),
        (top(events=[7]), "not a list of names"),
        (source(role="picture"), "has role 'picture', not one of trace"),
        (source(path=7), "not a valid manifest"),
        (source(path="raw/a\0b"), "NUL"),
        (source(path="raw/\ud800"), "surrogates not allowed"),
        (source(bytes="3"), "'3' is not a 64-bit integer"),
        (source(sha256="0"), "no sha256 of 64 hex digits"),
        (source(dev="first"), "'first' is not a device number"),
        (source(colour="red"), "colour"),
    ],
)
def test_a_wrong_manifest_is_refused_in_a_sentence(small: Path, change: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(InputError, match=f"small/capture.json: .*{says}"):
        capture.open(edited(small, change))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"androstep": 1} x'])
def test_invalid_json_is_refused(small: Path, content: bytes) -> None:
    (small / "capture.json").write_bytes(content)
    with pytest.raises(InputError, match=r"capture\.json: not valid JSON .*; restore it"):
        capture.open(small)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a directory without capture\.json is not a capture"):
        capture.open(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        capture.open(tmp_path / "missing")


# -- sources ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.dat.zst", "before.img.zst", "after.img.zst"])
def test_a_changed_source_is_refused(demo: Path, name: str) -> None:
    flip(demo / "raw" / name, 1000)
    with pytest.raises(InputError, match=rf"raw/{name}: changed, its sha256 differs from .*capture\.json; restore it"):
        capture.open(demo)


def test_a_missing_source_is_named(demo: Path) -> None:
    (demo / "raw/after.img.zst").unlink()
    with pytest.raises(InputError, match=r"raw/after\.img\.zst: missing, but .* names it as image_after; put it back"):
        capture.open(demo)


@pytest.mark.parametrize("path", ["../outside", "raw/../../outside", "raw/link", "raw/up/outside"])
def test_a_copied_source_is_inside_the_capture(small: Path, path: str) -> None:
    outside = small.parent / "outside"
    shutil.copyfile(small / "raw/small.txt", outside)  # the right content, so that only its path is wrong
    (small / "raw/link").symlink_to(outside)
    (small / "raw/up").symlink_to(small.parent)
    shutil.rmtree(small / "tables")
    with pytest.raises(InputError, match="is outside the capture"):
        capture.open(edited(small, source(path=path)))


def test_only_regular_files_are_sources(small: Path) -> None:
    shutil.rmtree(small / "tables")
    os.mkfifo(small / "raw/pipe")  # opening it would block forever
    with pytest.raises(InputError, match="raw/pipe: missing"):
        capture.open(edited(small, source(path="raw/pipe")))


# -- derived tables ---------------------------------------------------------------------------------------------------


def test_tables_are_made_once(small: Path) -> None:
    before = tables(small)
    capture.open(small)
    assert tables(small) == before
    edited(small, lambda content: content["facts"].update(workload="another description"))
    assert capture.open(small).facts["workload"] == "another description"
    assert tables(small) == before


def planted(path: Path) -> None:
    """Replace a table by a valid one with other content, and keep the key."""
    pl.read_parquet(path).clear().write_parquet(path)


def reworded(path: Path) -> None:
    """Change the stored description."""
    about = path.with_name("about.json")
    about.write_text(about.read_text().replace('"lost_events": 0', '"lost_events": 1'))


def damaged(path: Path) -> None:
    """Flip a bit of a column's values, which Parquet's footer does not cover."""
    group = pq.read_metadata(path).row_group(0)
    column = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "sector")
    flip(path, column.data_page_offset + column.total_compressed_size // 2)


@pytest.mark.prove
@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        planted,
        damaged,
        lambda path: flip(path, -20),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.with_name("about.json").unlink(),
        reworded,
        lambda path: path.with_name("SHA256SUMS").unlink(),
        lambda path: path.with_name("SHA256SUMS").write_bytes(b"\xff\n\n"),
    ],
    ids=[
        "deleted",
        "planted",
        "values",
        "footer",
        "cut",
        "empty",
        "nothing about it",
        "reworded",
        "no sums",
        "broken sums",
    ],
)
@pytest.mark.parametrize("name", ["io", "block_events"])
def test_damaged_tables_are_derived_again(small: Path, name: str, spoil: Callable[[Path], object]) -> None:
    path = small / f"tables/{name}.parquet"
    good = {table: frame.collect() for table, frame in capture.open(small).tables.items()}
    spoil(path)
    for table, frame in capture.open(small).tables.items():
        assert_frame_equal(frame.collect(), good[table])
    after = tables(small)
    capture.open(small)
    assert tables(small) == after


def test_tables_are_read_for_their_digests_once_after_each_change(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(cache, "sha256", lambda path: hashed.append(path.name) or sha256(path))
    capture.open(small)
    assert len(hashed) == len(derivation.TABLES) + 1  # too new to exclude a change within the same clock tick
    monkeypatch.setattr(cache, "TICK_NS", 0)
    capture.open(small)
    hashed.clear()
    capture.open(small)
    assert hashed == []
    (small / "tables/io.parquet").touch()
    capture.open(small)
    assert hashed == ["io.parquet"]
    for seen in ("[]", "{", '{"io.parquet": 1}'):
        (small / "tables" / cache.SEEN).write_text(seen)
        assert capture.open(small).io.collect().height


@pytest.mark.prove
@pytest.mark.parametrize(
    "change",
    [top(realtime_offset_ns=5), top(lost_events=3), top(devices=[DISK]), lambda m: m["facts"].update(clock="boot")],
)
def test_tables_follow_the_manifest(small: Path, change: Callable[[Any], None]) -> None:
    before = tables(small)
    edited(small, change)
    opened = capture.open(small)
    assert tables(small).keys() == before.keys()
    assert not set(tables(small).values()) & set(before.values())
    stated = json.loads((small / "capture.json").read_text())
    assert opened.lost_events == stated["lost_events"]


@pytest.mark.prove
def test_tables_follow_the_code(small: Path, tmp_path: Path) -> None:
    """Open the same capture with a copy of the package, then with a copy with a changed rule."""
    copy = tmp_path / "code"
    for name in ("androstep_analysis", "schemas"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))

    def open_by_copy() -> None:
        code = "import sys, androstep_analysis as a; assert a.__file__.startswith(sys.argv[2]); a.open(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, small, copy], cwd=copy, check=True)

    open_by_copy()
    before = tables(small)
    open_by_copy()
    assert tables(small) == before
    with (copy / "androstep_analysis/link/requests/rwbs.py").open("a") as file:
        file.write("# another rule\n")
    open_by_copy()
    assert not set(tables(small).values()) & set(before.values())


@pytest.mark.prove
def test_many_may_open_a_capture_at_once(demo: Path) -> None:
    processes = [
        subprocess.Popen([PROGRAM, "summary", demo, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    results = [(process.communicate(), process.returncode) for process in processes]
    assert {(code, errors) for (_, errors), code in results} == {(0, b"")}
    assert len({output for (output, _), _ in results}) == 1
    assert sorted({path.name for path in (demo / "tables").iterdir()} - {cache.SEEN}) == sorted(
        [cache.SEAL, cache.SUMS, cache.ABOUT, *(f"{name}.parquet" for name in derivation.TABLES)]
    )
    before = tables(demo)
    subprocess.run([PROGRAM, "tables", demo], check=True, stdout=subprocess.DEVNULL)
    assert tables(demo) == before


# -- making a capture -------------------------------------------------------------------------------------------------


def test_sources_with_equal_names_are_both_copied(tmp_path: Path) -> None:
    lines = ONE_DISK.splitlines(keepends=True)
    for name, part in (("a", lines[:1]), ("b", lines[1:])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.txt").write_text("".join(part))
    both = capture.create([tmp_path / "a/trace.txt", tmp_path / "b/trace.txt"], tmp_path / "capture")
    whole = made(tmp_path / "whole", ONE_DISK)
    assert [Path(s.path).name for s in both.manifest.sources] == ["trace.txt", "1-trace.txt"]
    assert {path.read_text() for path in (tmp_path / "capture/raw").iterdir()} == {
        "".join(lines[:1]),
        "".join(lines[1:]),
    }
    assert_frame_equal(both.requests.collect(), capture.open(whole).requests.collect())


def test_a_recording_in_two_files_is_the_recording(tmp_path: Path) -> None:
    lines = corpus.path("androstep/ftrace_sqlite.txt").read_bytes().splitlines(keepends=True)
    (tmp_path / "whole").write_bytes(b"".join(lines))
    (tmp_path / "one").write_bytes(b"".join(lines[:600]))
    (tmp_path / "two").write_bytes(b"".join(lines[600:]))
    whole = capture.open(tmp_path / "whole")
    with pytest.warns(LossWarning, match="the header counts 1144 events, 588 are in the file"):
        parts = capture.create([tmp_path / "one", tmp_path / "two"], tmp_path / "parts")
    assert parts.events == whole.events
    assert_frame_equal(parts.requests.collect(), whole.requests.collect())


@pytest.mark.prove
def test_images_added_later_give_the_same_result(tmp_path: Path) -> None:
    trace, before, after = (DEMO / "raw" / name for name in ("trace.dat.zst", "before.img.zst", "after.img.zst"))
    made_with = capture.create(
        [trace], tmp_path / "capture", capture.Description(image_before=before, image_after=after)
    )
    given_later = capture.open(trace).with_filesystem(before=before, after=after, device="7:0")
    for name in ("io", "extents", "files"):
        assert_frame_equal(made_with.tables[name].collect(), given_later.tables[name].collect())
    # The demo's manifest adds the clock's offset, which affects the dates of files. The sectors are the same.
    demo = capture.open(DEMO).io.collect()
    assert made_with.io.collect()["bytes"].sum() == demo["bytes"].sum()


@pytest.mark.parametrize("fault", ["source", "image", "device", "missing", "exists"])
def test_a_capture_is_created_atomically(tmp_path: Path, fault: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(ONE_DISK)
    other = tmp_path / "other"
    other.write_bytes(bytes(range(256)) * 64)
    out = tmp_path / "out"
    if fault == "exists":
        out.mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError):
        capture.create(
            [trace, *([other] if fault == "source" else []), *([tmp_path / "no"] if fault == "missing" else [])],
            out,
            capture.Description(
                image_after={"image": other, "device": DEMO / "raw/after.img.zst"}.get(fault),
                device="8:16" if fault == "device" else None,
            ),
        )
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.prove
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_killed_ingest_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(ONE_DISK.replace("     0.0", f"{second:6}.0") for second in range(100_000)))
    command = [PROGRAM, "ingest", trace, "-o", tmp_path / "out"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.*/raw/trace.txt")):
        assert process.poll() is None, process.stderr
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + number, b"")
    assert list(tmp_path.iterdir()) == [trace]


def test_an_image_needs_a_device_if_there_are_several(tmp_path: Path) -> None:
    trace, image = tmp_path / "trace.txt", DEMO / "raw/after.img.zst"
    trace.write_text(TWO_DISKS)
    with pytest.raises(
        InputError, match=r"the trace has several devices \(8:.* name the image's device with --device MAJ:MIN"
    ):
        capture.create([trace], tmp_path / "out", capture.Description(image_after=image))
    with pytest.raises(InputError, match=r"assigned to device 9:9, but the trace has .*8:0"):
        capture.create([trace], tmp_path / "out", capture.Description(image_after=image, device="9:9"))
    made_of = capture.create([trace], tmp_path / "out", capture.Description(image_after=image, device="8:16"))
    assert {s.role: s.dev for s in made_of.manifest.sources} == {"trace": None, "image_after": "8:16"}
    assert made_of.extents.collect()["dev"].unique().to_list() == [8 << 20 | 16]


# -- the object -------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_a_window_contains_the_requests_issued_in_it() -> None:
    whole = androstep_analysis.open(DEMO)
    assert whole.first_ns is not None and whole.last_ns is not None
    middle = (whole.first_ns + whole.last_ns) // 2
    early, late = whole.window(whole.first_ns, middle), whole.window(middle, whole.last_ns + 1)
    assert (early.first_ns, early.last_ns) == (whole.first_ns, middle)
    requests = whole.requests.collect()
    at = requests.select(pl.coalesce("issue_ns", "queue_ns")).to_series()
    assert early.requests.collect().height == (at < middle).sum() > 0
    assert late.requests.collect().height == (at >= middle).sum() > 0
    pieces = early.io.collect()
    assert set(pieces["request_id"]) == set(early.requests.collect()["request_id"])
    assert pieces["bytes"].sum() + late.io.collect()["bytes"].sum() == whole.io.collect()["bytes"].sum()


def test_names_cannot_write_html(tmp_path: Path) -> None:
    directory = edited(made(tmp_path / "x", ONE_DISK), lambda m: m["facts"].update(device="<script>\x1b[2J\u202e"))
    opened = capture.open(directory)
    assert "<script>" not in opened._repr_html_() and "&lt;script&gt;" in opened._repr_html_()
    assert repr(opened).isascii() and repr(opened).isprintable()
