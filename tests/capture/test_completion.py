"""Completion of command lines, asked for by a real bash as at a press of the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.tree import ROOT

from androstep_analysis import cli

DEMO = str(ROOT / "datasets/demo")

# What bash does at the tab key: it sets COMP_LINE and COMP_POINT, and calls the function that is registered.
TAB = r"""
eval "$(register-python-argcomplete androstep)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
_python_argcomplete androstep
printf "%s\n" "${COMPREPLY[@]}"
"""


def completed(line: str) -> list[str]:
    """Return what bash would offer at the end of the line."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", TAB, "bash", line], env=environment, capture_output=True, check=True)
    return done.stdout.decode().split()


def test_a_command() -> None:
    assert completed("androstep su") == ["summary"]
    assert {"record", "release", "replay", "report"} == set(completed("androstep re"))


def test_an_argument() -> None:
    assert completed("androstep measure x vol") == ["volume"]
    assert completed(f"androstep tables {DEMO} requ") == ["requests"]
    assert completed("androstep slow x --op d") == ["discard"]
    assert set(completed("androstep record --on ")) == {"usb", "adb", "local"}
    assert completed(f"androstep summary {ROOT}/datase") == [f"{ROOT}/datasets/"]


def test_dimensions_of_a_list() -> None:
    assert set(completed("androstep measure x volume --by app,f")) == {"app,file", "app,file_type"}
    assert completed("androstep measure x volume --by file,op,file_t") == ["file,op,file_type"]


def test_columns_of_a_condition() -> None:
    assert completed("androstep measure x volume --where owner_a") == ["owner_app="]
    assert set(completed("androstep slow x --where dura")) == {"duration_ns="}
    assert {"op=", "time=", "bytes=", "path="} <= set(completed("androstep measure x volume --where "))


def test_values_in_the_capture() -> None:
    # Bash replaces what follows the last = of the line.
    assert completed(f"androstep measure {DEMO} volume --where app=com.example.m") == ["com.example.mail"]
    assert set(completed(f"androstep slow {DEMO} --where op=")) == {"read", "write", "flush", "discard"}
    assert completed(f"androstep compare {DEMO} --measure volume --where sync=t") == ["true"]
    assert completed(f"androstep slow {DEMO} --where device=") == ["7:0"]


def test_a_trace_that_would_have_to_be_read_gives_no_values() -> None:
    assert completed(f"androstep measure {DEMO}/raw/trace.dat.zst volume --where app=") == []


def test_a_hostile_value_is_quoted(tmp_path: Path) -> None:
    """The shell that runs the completed line reads the value back, and runs nothing that is in it."""
    name = "$(id)`id`;'\"&|"
    rows = [(0, "a\x1b[2Jb"), (1, name)]
    lines = [f"8,0 0 {i + 1} {i}.000000000 {100 + i} D W {i * 8} + 8 [{process}]" for i, process in rows]
    (tmp_path / "trace.txt").write_text("\n".join(lines))
    assert cli.main(["ingest", str(tmp_path / "trace.txt"), "-o", str(tmp_path / "capture")]) == 0
    [value] = completed(f"androstep slow {tmp_path}/capture --where process=")
    read = subprocess.run(["bash", "-c", f"printf %s {value}"], capture_output=True, check=True)
    assert read.stdout.decode() == name
