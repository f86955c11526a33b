"""The C code of the probes: its tests under sanitizers, its help texts, and its schemas against schemas/."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from support import built
from support.tree import ROOT

from androstep_analysis import schema

UNITS = {"ns": "ns", "bytes": "B", "sectors": "512 B sectors", "sector": "512 B sectors"}
WIDTHS = {"int32": 4, "int64": 8, "uint32": 4, "uint64": 8, "string": 4}
FITS = {
    "int64": {"int64", "int32", "uint32"},
    "int32": {"int32"},
    "uint32": {"uint32"},
    "string": {"string"},
    "bool": {"int32"},
    "enum": {"string"},
}
"""For the dtype of a column, the dtypes of fields whose values all fit into it."""

DESCRIBED = ["extmap", "iobench", "ioreplay", "procmon"]


@pytest.mark.parametrize("test", sorted(path.stem for path in (ROOT / "probes").glob("*/tests/test_*.c")))
def test_c(test: str) -> None:
    built.run(built.program(test), cwd="/")


@pytest.mark.parametrize("name", DESCRIBED)
def test_records_are_described_as_the_format_says(name: str) -> None:
    described = built.described(name)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert described["format"] == "androstep record" and described["version"] == 1
    assert described["probe"] == name and described["probe_version"] == project["version"]
    assert [entry["id"] for entry in described["types"]] == list(range(2, 2 + len(described["types"])))
    for entry in described["types"]:
        assert set(entry) == {"id", "name", "table", "meaning", "record_bytes", "fields"}
        assert entry["record_bytes"] == sum(WIDTHS[field["dtype"]] for field in entry["fields"])
        assert entry["meaning"].endswith(".")
        for field in entry["fields"]:
            where = f"{entry['name']}.{field['name']}"
            assert set(field) == {"name", "dtype", "null", "unit", "meaning"}, where
            assert field["meaning"].endswith("."), where
            suffix = field["name"].split("_")[-1]
            assert field["unit"] == UNITS.get(suffix, field["unit"]), where
            assert field["null"] is None or not field["dtype"].startswith("u"), where


@pytest.mark.parametrize("name", DESCRIBED)
def test_records_fit_the_tables_they_become(name: str) -> None:
    for entry in built.described(name)["types"]:
        if entry["table"] is None:
            continue
        columns = {column.name: column for column in schema.table(entry["table"]).columns}
        shared = [field for field in entry["fields"] if field["name"] in columns]
        assert len(shared) >= 3, entry["name"]
        for field in shared:
            column = columns[field["name"]]
            where = f"{entry['name']}.{field['name']}"
            assert field["unit"] == column.unit, where
            assert field["dtype"] in FITS[column.dtype], where


HELP = {
    "extmap": ("usage: extmap -o FILE", "--tasks", "--same-filesystem"),
    "ioreplay": ("usage: ioreplay [OPTION...] PROGRAM DIRECTORY", "--dry-run", "--allow-device"),
    "iotrace": ("usage: iotrace -o DIR", "--device", "--finish", "block+fs+syscalls"),
    "procmon": ("usage: procmon -o FILE", "--hz", "--groups", "pressure"),
}
"""Texts that the help of each probe must contain; iobench's is longer (tests/bench/test_iobench_options.py)."""


@pytest.mark.parametrize("name", HELP)
def test_help_teaches(name: str) -> None:
    text = built.run(built.program(name), "--help").stdout.decode()
    assert [word for word in (*HELP[name], "examples:", "Exit status") if word not in text] == []
    assert max(map(len, text.splitlines())) <= 120


SIZES = ("0", "-1", "k", "", "4kb", "4 k", "4x", "0x10", "1.5k", "1025t", "9t9", "9" * 20, "4@")
TIMES = ("0", "-1s", "1ns", "1 s", "s", "", "367d", "1.5", "9" * 20)
CHOICES = ("nativ", "natives", "", "none|native", "NONE")


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("extmap", [], "name the file to write: -o FILE"),
        ("extmap", ["-o", "x.rec"], "name a directory to list"),
        ("extmap", ["-o", "x.rec", "/proc/nowhere/at/all"], "/proc/nowhere/at/all: cannot be listed"),
        ("extmap", ["-o", "/proc/nowhere/at/all", "--tasks"], "/proc/nowhere/at/all: cannot be written"),
        ("extmap", ["-o", "x.rec", "/proc/self/fd"], "no block device lies below it"),
        ("extmap", ["-o", "/dev/full", "--tasks"], "/dev/full: the file is incomplete"),
        ("extmap", ["--colour"], "--colour is not an option"),
        ("extmap", ["-x"], "-x is not an option"),
        ("extmap", ["--task"], "--task is not an option"),
        ("extmap", ["--taskss"], "--taskss is not an option"),
        ("extmap", ["--tasks=yes"], "--tasks takes no value"),
        ("extmap", ["-o"], "--output needs a value: FILE"),
        ("extmap", ["-ox.rec", "--", "--tasks"], "--tasks: cannot be listed"),
        ("extmap", ["--output=a=b", "-"], "-: cannot be listed"),
        ("iobench", ["--where"], "--where is not an option"),
        *(("iobench", [f"--size={text}"], f"--size {text}: expected bytes from 1 to ") for text in SIZES),
        *(("iobench", [f"--runtime={text}"], f"--runtime {text}: expected seconds up to ") for text in TIMES),
        *(("iobench", [f"--fallocate={text}"], f"--fallocate {text}: expected one of none|native") for text in CHOICES),
        ("procmon", [], "name the file to write: -o FILE"),
        ("procmon", ["-o", "/proc/nowhere/at/all"], "/proc/nowhere/at/all: cannot be written"),
        ("procmon", ["-o", "/dev/full", "--time", "10"], "/dev/full: the file is incomplete (No space left"),
        ("procmon", ["-o", "x.rec", "--hz", "0"], "--hz 0: expected a number from 1 to 1000"),
        ("procmon", ["-o", "x.rec", "--groups", "cpu,gpu"], "gpu: unknown group"),
        ("procmon", ["-o", "x.rec", "--groups", ""], ": unknown group"),
        ("procmon", ["-o", "x.rec", "--", "/proc/no/such/program"], "/proc/no/such/program: no such program"),
        ("procmon", ["-o", "x.rec", "--time", "soon"], "--time soon: expected seconds"),
    ],
)
def test_a_failure_is_one_sentence(tmp_path: Path, name: str, words: list[str], told: str) -> None:
    quiet = ["-q"] if name in ("procmon", "iobench") else []
    done = built.run(built.program(name), *quiet, *words, status=1, cwd=tmp_path)
    assert done.stderr.startswith(f"{name}: ".encode()) and done.stderr.count(b"\n") == 1
    assert told in done.stderr.decode()


@pytest.mark.parametrize("option", ["--help", "--describe"])
@pytest.mark.parametrize("name", ["extmap", "iotrace"])
def test_the_device_build_says_the_same(name: str, option: str) -> None:
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64-static is not installed")
    emulated = built.run(emulator, built.program(name, "aarch64-linux-musl"), option)
    assert emulated.stdout == built.run(built.program(name), option).stdout


def test_a_link_is_not_followed_to_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "x.rec").symlink_to("precious")
    done = built.run(built.program("extmap"), "-o", "x.rec", "--tasks", status=1, cwd=tmp_path)
    assert "x.rec: cannot be written" in done.stderr.decode()
    assert (tmp_path / "precious").read_text() == "kept"


UNSAFE = {
    "plain ~ ä€💾": "plain ~ ä€💾",
    "a\nb\tc\rd\x7f": r"a\x0ab\x09c\x0dd\x7f",
    "\x9b31m": r"\xc2\x9b31m",
    "a\u202eb\u2066\u061c\u2028": r"a\xe2\x80\xaeb\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8",
    b"\xff \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80": r"\xff \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80",
    b"cut \xe2\x82": r"cut \xe2\x82",
}
"""Texts, and how they are printed: control characters (C0, C1, directions, separators) and bytes that are no UTF-8."""


@pytest.mark.parametrize("text", UNSAFE)
def test_what_is_printed_is_safe_for_a_terminal(text: str | bytes) -> None:
    done = built.run(built.program("extmap"), "-o", "/dev/null", text, status=1)
    assert done.stderr.decode() == f"extmap: {UNSAFE[text]}: cannot be listed (No such file or directory)\n"


def test_a_long_message_ends_between_characters() -> None:
    done = built.run(built.program("extmap"), "-o", "/dev/null", b"\xff" * 9000, status=1)
    assert re.fullmatch(rb"extmap: (\\xff){2500,2559}\n", done.stderr)


@pytest.mark.parametrize(("name", "words"), [("extmap", ("-o",)), ("iobench", ("--cache=any", "--filename"))])
def test_what_a_probe_complains_of_cannot_steer_a_terminal(name: str, words: tuple[str, ...], tmp_path: Path) -> None:
    path = bytes(tmp_path) + b"/\x1b[31m\xff\n/none"
    done = built.run(built.program(name), *words, path, *([tmp_path] if name == "extmap" else []), status=1)
    assert rb"/\x1b[31m\xff\x0a/none" in done.stderr
    assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1
