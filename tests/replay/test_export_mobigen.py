"""Scripts of MobiGen that we write: the corpus' own lines come back, and what other recordings become."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from support import corpus, made
from support import mobigen_scripts as scripts

from androstep_analysis import capture, schema
from androstep_analysis.capture import Capture, derivation
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import export


def written(opened: Capture) -> list[str]:
    file = io.BytesIO()
    export.write(opened, "mobigen", file)
    return file.getvalue().decode().splitlines()


def of_calls(*rows: dict[str, Any]) -> list[str]:
    """Return the script of these calls, one every 10 us."""
    full = [
        {"ts_ns": 10_000 * number, "tid": 700, "state": "whole", "result": 0} | row for number, row in enumerate(rows)
    ]
    tables = {name: schema.empty(name) for name in derivation.TABLES} | {"syscalls": made.table("syscalls", full)}
    return written(made.of_tables(tables))


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("name", scripts.NAMES)
def test_the_corpus_comes_back(name: str, tmp_path: Path) -> None:
    """Byte for byte, except paths that a script truncates."""
    original = corpus.path(f"androstep/mobigen.out.{name}")
    ours = written(capture.open(original))
    theirs = original.read_text().splitlines()
    assert len(ours) == scripts.expected(name)["lines"]
    cut = [line.replace(" data/data ", " nil/nil ").replace(" mnt/sdcard ", " nil/nil ") for line in theirs]
    assert ours == cut
    assert (
        sum(line != other for line, other in zip(ours, theirs, strict=True)) == {"facebook": 464, "twitter": 100}[name]
    )
    again = tmp_path / "again"
    again.write_text("\n".join(ours) + "\n")
    assert written(capture.open(again)) == ours


def test_the_calls_of_strace() -> None:
    flags = "O_RDWR|O_CREAT|O_CLOEXEC"
    assert of_calls(
        {"call": "openat", "fd": -100, "path": "/data/data/app/db", "flags": flags, "result": 5},
        {"call": "pwrite64", "fd": 5, "fd_kind": "path", "offset_bytes": 4096, "bytes": 100, "result": 100, "tid": 3},
        {"call": "write", "fd": 6, "fd_kind": "pipe", "result": 1},
        {"call": "writev", "fd": 7, "result": 9},
        {"call": "openat", "fd": -100, "fd_path": "/data", "path": "x y", "flags": "O_RDONLY", "result": -2},
        {"call": "newfstatat", "fd": 5, "path": "", "flags": "AT_EMPTY_PATH"},
        {"call": "newfstatat", "fd": -100, "path": "/l", "flags": "AT_SYMLINK_NOFOLLOW"},
        {"call": "unlinkat", "fd": -100, "path": "/d", "flags": "AT_REMOVEDIR"},
        {"call": "unlink", "path": "/a", "result": None, "error": "?"},
        {"call": "read", "fd": 5, "result": None, "state": "unfinished"},
        {"call": "creat", "path": "/f", "result": 8},
        {"call": "close", "fd": 5},
    ) == [
        f"0 0 open data/data {flags} 5",
        "0 30 open /data/data O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE 7",
        "0 30 write 7 9",
        '0 40 open "/data/x y" O_RDONLY -1',
        "0 50 fstat64 5 0",
        '0 60 lstat64 "/l" 0',
        '0 80 unlink "/a" -1',
        '0 100 open f"/nil O_WRONLY|O_CREAT|O_TRUNC 8',
        "0 110 close 5 0",
        "1 10 pwrite 5 4096 100",
    ]


def test_a_log_without_times() -> None:
    with pytest.raises(InputError, match="no times"):
        of_calls({"call": "close", "fd": 1, "ts_ns": None})


def test_calls_without_a_result_or_a_descriptor() -> None:
    unknown = [{"call": "read", "fd": 3, "result": None}, {"call": "fsync", "path": "/f"}]
    assert of_calls(*unknown, {"call": "close", "fd": 3}) == ["0 0 close 3 0"]
    with pytest.raises(InputError, match="no call on files has a descriptor and a result"):
        of_calls(*unknown)


def test_names_stay_on_their_line() -> None:
    assert of_calls({"call": "stat", "path": "/a\n1 0 unlink \x1b[2J"}) == ['0 0 stat64 "/a?1 0 unlink ?[2J" 0']
