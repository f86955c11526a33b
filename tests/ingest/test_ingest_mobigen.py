"""MobiGen scripts: the corpus line by line, and handwritten scripts."""

from __future__ import annotations

import functools
import tarfile
from pathlib import Path

import polars as pl
import pytest
from support import corpus, readers
from support import mobigen_scripts as scripts

from androstep_analysis import ingest
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.syscalls import mobigen

SCRIPT = b"""\
1 0 open /data/data O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE 36
1 0 write 36 4
1 30 open data/data O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE 40
1 40 pwrite 40 8192 4096
1 50 fsync 40 0
1 50 close 40 0
4 7 open "/a b/c" O_RDONLY|O_LARGEFILE 41
4 8 pread 41 5 -1
4 9 open dev/fimg2d" O_RDWR|O_LARGEFILE 42
4 10 open top.db"/nil O_RDWR|O_CREAT|O_LARGEFILE -1
4 11 access "/data/x" -1
4 50 unlink "/data/x" 0
"""

PATHS = {
    **{"data/data": None, "mnt/sdcard": None, 'dev/fimg2d"': "/dev/fimg2d"},
    'NotificationPermissions.db"/nil': "/NotificationPermissions.db",
}
"""All paths without an opening quote in the corpus, and their expected values."""


@pytest.mark.parametrize("name", scripts.NAMES)
def test_every_line_of_the_corpus(name: str) -> None:
    """Plain Python yields the same row for each line, sorted by time."""
    calls = readers.read(corpus.path(f"androstep/mobigen.out.{name}")).syscalls
    kept = sorted((line for line in scripts.lines(name) if not line.is_inserted), key=lambda line: line.us)
    for row, line in zip(calls.iter_rows(named=True), kept, strict=True):
        assert (row["line"], row["tid"], row["ts_ns"], row["call"]) == (
            line.number,
            line.tid,
            line.us * 1000,
            line.call,
        )
        returned = int(line.words[-1])
        assert (row["result"], row["error"]) == ((returned, None) if returned >= 0 else (None, "?"))
        first, *rest = line.words[:-1]
        if line.call == "open":
            assert (row["fd"], row["flags"]) == (None, rest[0])
            assert row["path"] == PATHS.get(first, first.strip('"'))
        elif first.startswith('"'):
            assert row["path"] == first.strip('"')
        else:
            assert row["fd"] == int(first)
            assert row["offset_bytes"] == (int(rest[0]) if rest else None)
        assert row["bytes"] is None


@pytest.mark.parametrize("name", scripts.NAMES)
def test_what_is_not_in_a_script_is_counted(name: str) -> None:
    staging = readers.read(corpus.path(f"androstep/mobigen.out.{name}"))
    cut = [line for line in scripts.lines(name) if line.call == "open" and line.words[0] in ("data/data", "mnt/sdcard")]
    assert [loss.count for loss in staging.losses] == [scripts.expected(name)["synthetic_opens"], len(cut)]
    assert staging.syscalls.filter(pl.col("call") == "open")["path"].null_count() == len(cut)


def test_by_hand(tmp_path: Path) -> None:
    staging = readers.read_bytes(tmp_path, SCRIPT)
    shown = staging.syscalls.select(
        pl.format("{} {} {} {}", "line", "tid", pl.col("ts_ns") // 1000, "call"),
        *("fd", "path", "offset_bytes", "result", "error"),
    )
    assert shown.rows() == [
        ("2 1 0 write", 36, None, None, 4, None),
        ("7 4 7 open", None, "/a b/c", None, 41, None),
        ("8 4 8 pread", 41, None, 5, None, "?"),
        ("9 4 9 open", None, "/dev/fimg2d", None, 42, None),
        ("10 4 10 open", None, "/top.db", None, None, "?"),
        ("11 4 11 access", None, "/data/x", None, None, "?"),
        ("3 1 30 open", None, None, None, 40, None),
        ("4 1 40 pwrite", 40, None, 8192, 4096, None),
        ("5 1 50 fsync", 40, None, None, 0, None),
        ("6 1 50 close", 40, None, None, 0, None),
        ("12 4 50 unlink", None, "/data/x", None, 0, None),
    ]
    assert (staging.first_ns, staging.last_ns, staging.clock) == (0, 50_000, "since the start")
    assert staging.events["open"] == 4 and staging.events["open (inserted)"] == 1
    assert [loss.message.split(":")[0] for loss in staging.losses] == [
        "1 opens that MobiGen's cleaner inserted were left out",
        "1 opens have no path",
    ]


def test_threads_are_of_one_process(tmp_path: Path) -> None:
    tasks = readers.read_bytes(tmp_path, SCRIPT).tasks
    assert tasks["tid"].to_list() == [1, 4]
    assert tasks["pid"].n_unique() == 1 and tasks["pid"].null_count() == 0


def test_lines_that_are_none_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    bad = [
        *(b"1 60 write 36", b"", b'1 60 rename "/a" "/b" 0', b"x", b"1 6\x1b[2J0 write 1 1", b"1 60 write 36 4 4"),
        *(
            b"1 60 pwrite 36 4",
            b'1 60 openat / "path" 4',
            b"99999999999 60 write 36 4",
            b"\xff\xfe",
            b"1 60 stat64 / 0",
        ),
    ]
    staging = readers.read_bytes(tmp_path, SCRIPT + b"\n".join(bad) + b"\n1 70 read 3 1\n")
    assert staging.syscalls.height == 12
    lost = next(loss for loss in staging.losses if loss.kind == "unreadable")
    assert lost.count == len(bad)
    assert "the first is line 13: “1 60 write 36”" in lost.message


def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = readers.read_bytes(tmp_path, SCRIPT + b"no line\n")
    pieces = Source.pieces
    for size in (1, 7, 64):
        monkeypatch.setattr(Source, "pieces", functools.partialmethod(pieces, size))
        parts = readers.read_bytes(tmp_path, SCRIPT + b"no line\n")
        assert parts.syscalls.equals(whole.syscalls)
        assert parts.losses == whole.losses and parts.events == whole.events


def test_a_torn_last_line(tmp_path: Path) -> None:
    staging = readers.read_bytes(tmp_path, SCRIPT[:-1])
    assert staging.syscalls.height == 10
    assert readers.losses(staging)["torn"] == 1


@pytest.mark.parametrize(
    "head",
    [b"1 0 write 36\n", b'1234 write(3, "", 0) = 0\n', b"0 0 0 0 0\n", b"\n" + SCRIPT, SCRIPT.split(b"\n")[0], b""],
)
def test_what_is_no_script(head: bytes) -> None:
    assert not mobigen.sniff(head)


def test_a_script_in_an_archive(tmp_path: Path) -> None:
    (tmp_path / "mobigen.out").write_bytes(SCRIPT)
    with tarfile.open(tmp_path / "x.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "mobigen.out", "scripts/mobigen.out")
    with pytest.warns(match="inserted"):
        assert ingest.read(tmp_path / "x.tar.xz").format == "mobigen"
