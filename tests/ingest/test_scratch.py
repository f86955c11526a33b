"""Temporary directories of a killed run are removed by the next run, and nothing else is."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.tree import ROOT

from androstep_analysis import capture
from androstep_analysis.common import scratch
from androstep_analysis.common.scratch import Scratch

TRACE = ROOT / "tests/data/perfetto_generic.dat.xz"

INGEST = """
import os, signal, sys
from androstep_analysis import capture
from androstep_analysis.common import manifest
from androstep_analysis.cli import main
write = manifest.write
def stop(*args):
    write(*args)
    print("here", flush=True)
    signal.pause()
manifest.write = stop  # the trace has been read, the spool is full, and the capture is not yet there
main(sys.argv[1:])
"""


def stopped(words: list[str], temporary: Path) -> subprocess.Popen[str]:
    """Start the command and stop it in the middle of its work."""
    environment = os.environ | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST, *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.prove
def test_a_killed_ingest_leaves_nothing_after_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    kill(stopped(["ingest", str(TRACE), "-o", str(out / "mine")], temporary))
    left = [*names(out), *names(temporary)]
    assert len(names(out)) == 1 and left[0].startswith(".mine.androstep-"), "else the test would prove nothing"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    capture.create([TRACE], out / "mine")
    assert names(out) == ["mine"]
    assert names(out / "mine/tables") == sorted(
        name for name in names(out / "mine/tables") if name[0] != "." or name == ".seal"
    )
    assert names(temporary) == []


@pytest.mark.prove
def test_one_at_work_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    process = stopped(["ingest", str(TRACE), "-o", str(out / "mine")], temporary)
    try:
        before = {path: path.stat().st_ino for path in out.rglob("*")}
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        capture.create([TRACE], out / "mine")
        assert {path: path.stat().st_ino for path in before} == before
    finally:
        kill(process)


@pytest.mark.prove
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    made = f"from pathlib import Path; left = Scratch(Path({str(tmp_path)!r}), 'spool')"
    code = f"import os; from androstep_analysis.common.scratch import Scratch; {made}; os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    [left] = tmp_path.iterdir()
    (left / "rows.parquet").write_bytes(b"x" * 5000)
    scratch = Scratch(tmp_path, "spool")
    assert not left.exists()
    assert names(tmp_path) == [scratch.path.name]


def test_what_only_looks_like_one_is_kept(tmp_path: Path) -> None:
    """Other names, a link, a file, and a directory of another user are not removed."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    name = ".about.androstep-0123456789abcde"
    (tmp_path / f"{name}0").symlink_to(other)
    (tmp_path / f"{name}1").write_text("x")
    (tmp_path / f"{name}2").mkdir()
    (tmp_path / f"{name}3x").mkdir()
    (tmp_path / f".about.x{name}").mkdir()
    expected = set(names(tmp_path))
    if os.geteuid() == 0:
        os.chown(tmp_path / f"{name}2", 65534, 65534)
    else:
        expected.remove(f"{name}2")
    with scratch.directory("about", tmp_path) as place:
        assert set(names(tmp_path)) == expected | {place.name}
    assert set(names(tmp_path)) == expected
    assert (other / "precious").read_text() == "x"


@pytest.mark.prove
def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each process creates directories and uses them while other processes start, end and are killed."""
    code = """
import sys, time
from pathlib import Path
from androstep_analysis.common.scratch import Scratch
end = time.monotonic() + 3
while time.monotonic() < end:
    made = Scratch(Path(sys.argv[1]), "about")
    (made.path / "file").write_text("x")
    time.sleep(0.002)
    assert (made.path / "file").read_text() == "x"
    made.remove()
"""
    running = [subprocess.Popen([sys.executable, "-c", code, tmp_path]) for _ in range(4)]
    time.sleep(1)
    running[0].kill()
    assert [process.wait() for process in running[1:]] == [0, 0, 0]
    running[0].wait()
    with scratch.directory("about", tmp_path) as place:
        assert [name for name in names(tmp_path) if ".about." in name] == [place.name]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an iterator that was interrupted
def test_a_signal_at_any_instruction_leaves_nothing(tmp_path: Path) -> None:
    """The handler of a signal raises between any two instructions, and the directory is removed all the same."""
    interrupted = 0
    gc.freeze()  # the collections below look at new objects only
    try:
        while interrupt_at(interrupted, tmp_path):
            gc.collect()  # an object that was interrupted in its constructor may be held by the traceback
            assert names(tmp_path) == [], f"after instruction {interrupted}"
            interrupted += 1
    finally:
        gc.unfreeze()
    assert interrupted > 100, "else the test would prove nothing"
    assert names(tmp_path) == []


def interrupt_at(instruction: int, parent: Path) -> bool:
    """Use a directory, and raise `KeyboardInterrupt` at this instruction of scratch.py; return whether there is one."""
    left = instruction

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != scratch.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == -1:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        with scratch.directory("mine", parent) as path:
            (path / "file").touch()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
