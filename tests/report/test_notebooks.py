"""Every notebook runs from top to bottom, as a reader would run it; each asserts its own headline numbers.

What the notebooks of notebooks/figures write is checked as `make figures` does: it is not run once more for that.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.figure_lists import figures, papers

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("**/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, startup_timeout=300, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env={**os.environ, "ANDROSTEP_FIGURES": str(tmp_path)})
    drawn = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    errors = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.get("name") == "stderr"]
    assert drawn
    assert not errors
    if path.parent == papers.HERE:
        assert figures.problems(papers.Paper(path.stem), tmp_path) == []
