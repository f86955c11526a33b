"""Every notebook runs from top to bottom, as a reader would run it; each asserts its own headline numbers."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("**/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    drawn = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    errors = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.get("name") == "stderr"]
    assert drawn
    assert not errors
