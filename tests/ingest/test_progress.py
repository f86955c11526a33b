"""Progress bars: a notebook kernel shows widgets, other outputs receive no bytes, and a device cannot control them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tqdm import tqdm

from androstep_analysis.device import probe

_RUN = """
from pathlib import Path
from androstep_analysis.device import probe

def runner(options, path, line):
    line("iobench:  50 % writing")
    return 0

probe.record("iobench", [], Path("unused"), runner)
"""


def draw(options: Sequence[str], path: Path, line: Callable[[str], None]) -> int:
    """Return a probe with progress output that would clear the screen."""
    line("iobench:  50 % \x1b[2J\x9b2J\u202e")
    return 0


@pytest.mark.prove
def test_a_kernel_shows_a_widget(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_RUN)])
    NotebookClient(
        notebook, timeout=300, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = notebook.cells[0].outputs
    assert [output.get("name") for output in outputs if output.output_type == "stream"] == []
    widgets = [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]
    assert [output["data"]["text/plain"].partition(":")[0] for output in widgets] == ["iobench"]


def test_what_is_no_terminal_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert probe.record("iobench", [], Path("unused"), draw) == 0
    assert capsys.readouterr() == ("", "")


def test_what_a_probe_says_cannot_steer_the_terminal() -> None:
    shown = io.StringIO()
    with tqdm(total=100, file=shown, mininterval=0) as bar:
        draw([], Path("unused"), probe._show("iobench", bar))
    assert "50%" in shown.getvalue() and r"\x1b[2J" in shown.getvalue()
    assert [sign for sign in ("\x1b[2J", "\x9b", "\u202e") if sign in shown.getvalue()] == []
