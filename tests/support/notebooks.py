"""Run notebooks as `make docs` does, and check their output for the site.

Importing the notebook modules takes seconds, so it is done in the tests that need it, not at collection.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.figure_lists import LISTS, figures, of, papers
from support.needs import needs
from support.tree import ROOT

sys.path.append(str(ROOT / "tools"))

NOTEBOOKS = ROOT / "notebooks"


def of_one_cell(source: str) -> str:
    """Return the text of a notebook with one Python cell."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]})


@needs("notebook")
def run(path: Path, directory: Path, last: str = "", **environment: str) -> None:
    """Run a notebook with one more cell, and check its displayed output.

    ANDROSTEP_FIGURES is `directory`. Figures of papers are checked as in `make figures`.
    """
    import nbformat
    import run_notebooks

    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    notebook.cells.append(nbformat.v4.new_code_cell(last))
    made = run_notebooks.executed(notebook, path.parent, ANDROSTEP_FIGURES=str(directory), **environment)
    made.cells.pop()
    text = nbformat.writes(run_notebooks.shown(made, metadata))
    assert '"image/png"' in text and "Axes: " not in text
    assert len(text) < 1_000_000
    if path.parent == LISTS:
        paper = of(path.stem)
        assert figures.problems(paper, directory) == []
        check_small_pictures(paper, directory)


def check_small_pictures(paper: papers.Paper, made: Path) -> None:
    """Assert that docs/figures.md has a current picture of each figure of a paper in `made`, and no other picture.

    Machines may round colours differently, so that pictures may differ by 1 % of the range of a channel on average.
    """
    import numpy as np

    committed = figures.PICTURES / paper.name
    of_items = [item for item in paper.items if not (item.missing or item.table or item.needs_corpus)]
    assert {path.name for path in committed.iterdir()} == {f"{item.stem}.png" for item in of_items}
    for item in of_items:
        picture = committed / f"{item.stem}.png"
        assert picture.stat().st_size <= 40 * 1024
        new = figures.small_picture(made / paper.name / picture.name)
        old, drawn = (np.asarray(image.convert("RGB"), dtype=float) for image in (figures.Image.open(picture), new))
        assert old.shape == drawn.shape and np.abs(old - drawn).mean() < 2.55, f"{picture}: run `make figures`"
