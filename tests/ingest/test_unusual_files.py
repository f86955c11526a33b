"""Paths that are not regular files: pipes, devices, links; and the state after a program is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from androstep_analysis import cli

COMMANDS = (["summary"], ["tables"], ["ingest", "-o", "capture"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
@pytest.mark.parametrize("kind", ["pipe", "/dev/null", "/dev/zero"])
def test_no_regular_file(
    kind: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe without a writer and a device without an end are refused immediately."""
    monkeypatch.chdir(tmp_path)
    path = Path(kind) if kind.startswith("/") else tmp_path / "pipe"
    if not kind.startswith("/"):
        os.mkfifo(path)
    assert cli.main([*command, str(path)]) == 1
    (message,) = capsys.readouterr().err.splitlines()
    assert "is a pipe or a device" in message
    assert not (tmp_path / "capture").exists()


def test_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop, nowhere = tmp_path / "loop", tmp_path / "nowhere"
    loop.symlink_to(loop)
    nowhere.symlink_to(tmp_path / "missing")
    for path in (loop, nowhere):
        assert cli.main(["summary", str(path)]) == 1
        assert "no such file" in capsys.readouterr().err


@pytest.mark.prove
@pytest.mark.parametrize("name", ["KILL", "TERM", "INT"])
def test_ended_while_it_reads(name: str, tmp_path: Path) -> None:
    """An existing capture is complete at any time, and temporary files are removed unless the program was killed."""
    trace, scratch = tmp_path / "trace.txt", tmp_path / "scratch"
    scratch.mkdir()
    event = " a-1 [000] .... {0}.000000: block_rq_issue: 8,0 W 4096 () {0} + 8 [a]\n"
    trace.write_text("".join(map(event.format, range(200_000))))
    out = tmp_path / "capture"
    code = "import sys; from androstep_analysis import cli; sys.exit(cli.main())"
    for wait in (0.3, 0.6, 0.9, 1.2, 1.5, 1.8):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "ingest", trace, "-o", out],
            env=os.environ | {"TMPDIR": str(scratch)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        process.send_signal(getattr(signal, f"SIG{name}"))
        process.wait()
        if name != "KILL":
            assert list(scratch.iterdir()) == []
        if out.exists():
            assert cli.main(["summary", str(out)]) == 0
            break
        if name != "KILL":
            assert [path.name for path in tmp_path.iterdir() if path not in (trace, scratch)] == []
