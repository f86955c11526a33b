"""Every notebook runs from top to bottom as a reader would run it, and shows what it is to show.

What the notebooks of notebooks/figures write is checked as `make figures` does: it is not run once more for that.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from support import corpus
from support.figure_lists import figures, papers
from support.tree import ROOT

sys.path.append(str(ROOT / "tools"))
import run_notebooks

KNOWN = {
    "01_explore": """
requests = dict(measures.mix(capture.requests).filter(metric="count").select("op", "value").iter_rows())
assert requests == {"read": 817, "write": 2335, "flush": 1195, "discard": 208}, requests

block_types = measures.block_types(capture.io).filter(metric="bytes", op="write")
written = dict(block_types.select("block_type", "value").iter_rows())
assert written["data"] == 25_030_656, written
assert written["journal"] == 11_083_776, written
assert sum(written.values()) == 37_240_832, written

for op in ("read", "write"):
    known = dict(capture.coverage.filter(op=op).select("metric", "value").iter_rows())
    assert known["matched"] == 1.0, known
    assert known["mapped"] > 0.99, known

unnamed = capture.io.filter(pl.col("block_type") == "data", pl.col("path").is_null()).collect()
assert unnamed.height == 0, unnamed
assert 0 < gone.collect()["bytes"].sum() < written["data"]
""",
    "02_bench": """
assert runs.group_by("place").len()["len"].to_list() == [162] * len(PLACES)  # 2 tests, 9 modes, 9 repetitions

median = {
    (row["place"], row["sync_mode"]): row["value"]
    for row in everywhere("modes").filter(metric="iops", test="rand_write").iter_rows(named=True)
}
tps = {
    (row["test"], row["synchronous"]): row["value"]
    for row in bench.summarise(tables("ext4_disk", "synchronous")).filter(metric="tps").iter_rows(named=True)
}
for place in ("ext4", "xfs", "btrfs"):
    assert median[place, "buffered"] > median[place, "fsync"], place
for test in ("sqlite_insert", "sqlite_update", "sqlite_delete"):
    assert tps[test, "OFF"] > tps[test, "FULL"], test
""",
    "03_replay": """
assert kept + cleaned.left_out["count"].sum() == capture.about["rows"]["syscalls"]
assert ours.equals(theirs)
assert done.status == fast.status == onto.status == 0
assert measured.filter(metric="divergences")["value"].sum() == 0
assert summary.filter(metric="divergences")["value"].sum() == 0
""",
    "04_compare": """
assert of_fsync["n"].to_list() == [9, 9, 9]
assert set(alone["verdict"]) > {"lower"}
assert times.height == 5 and times["repeats"].unique().to_list() == ["captures"]
""",
}
"""What must hold at the end of a notebook, as a last cell: if it fails, the library says something else than it did."""


@pytest.mark.prove
@pytest.mark.parametrize("path", run_notebooks.paths(), ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    notebook.cells.append(nbformat.v4.new_code_cell(KNOWN.get(path.stem, "")))
    made = run_notebooks.executed(notebook, path.parent, ANDROSTEP_FIGURES=str(tmp_path))
    made.cells.pop()
    text = nbformat.writes(run_notebooks.shown(made, metadata))
    assert '"image/png"' in text and "Axes: " not in text
    assert len(text) < 1_000_000
    if path.parent == papers.HERE:
        assert figures.problems(papers.Paper(path.stem), tmp_path) == []


# -- what is shown ----------------------------------------------------------------------------------------------------


def output(cell: str) -> Any:
    """A notebook of one cell, run."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    return run_notebooks.executed(notebook, ROOT)


def test_counts_and_widgets_are_not_shown() -> None:
    cell = "from tqdm.notebook import tqdm\nprint(1)\nfor _ in tqdm([1]):\n    print(2)\n3"
    shown = run_notebooks.shown(output(cell), {}).cells[0]
    assert shown.execution_count is None
    assert [(one.output_type, one.get("text"), one.get("execution_count")) for one in shown.outputs] == [
        ("stream", "1\n2\n", None),
        ("execute_result", None, None),
    ]


@pytest.mark.parametrize("cell", ["import warnings; warnings.warn('this')", "import os; print(os.getcwd())"])
def test_a_notebook_that_warns_or_tells_where_it_ran_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match=r"stderr.*this|has the path"):
        run_notebooks.shown(output(cell), {})


# -- recordings of others ---------------------------------------------------------------------------------------------

NO_FILES = "unknown: files (no filesystem events)"
NO_OWNERS = "unknown: who (no process)"
NO_QUEUE = "unknown: who (no block_bio_queue)"
NO_TIMES = "unknown: times (no completion)"
NO_ISSUE = "unknown: times (no issue)"
NO_REQUESTS = "No request is recorded: see the summary above."

OF_OTHERS = {
    "blktrace_bin/takeoverjp_sample.blktrace.0": (3, {NO_FILES, NO_OWNERS}),
    "blkparse_text/android_candycrush_straight_1.txt": (4, {NO_FILES}),
    "perfetto/difftest_f2fs_iostat.pb": (0, {NO_REQUESTS}),
    "strace/linux_multithread_strace1.log": (0, {NO_REQUESTS}),
    "block_csv/pixel6a_telegram_precond.csv.gz": (3, {NO_FILES, NO_TIMES}),
    "block_csv/opencas_sample_trace.tar.xz": (3, {NO_FILES, NO_OWNERS, NO_ISSUE}),
    "androstep/ftrace_sqlite.txt": (3, {NO_FILES, NO_QUEUE}),
    "kernel/f2fs_guest_6.1/trace.dat.zst": (7, set()),
    "bench_results/pixel_mobibench_outputs.tar.gz": (0, {NO_REQUESTS}),
    "ftrace_text/trappy_trace_filesystem.txt": (0, {NO_REQUESTS}),
}
"""Recordings of very different kinds: figures that 01 draws of them, and what it says to the questions left."""


@pytest.mark.prove
@pytest.mark.parametrize("name", OF_OTHERS)
def test_the_first_notebook_works_on_a_recording_of_others(name: str) -> None:
    notebook = nbformat.read(run_notebooks.NOTEBOOKS / "01_explore.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert re.fullmatch(r'RECORDING = "[^"\n]+"', first.source)
    first.source = f"RECORDING = {str(corpus.path(name))!r}"
    made = run_notebooks.executed(notebook, run_notebooks.NOTEBOOKS)
    outputs = [one for cell in made.cells for one in cell.get("outputs", [])]
    said = {line for one in outputs for line in one.get("text", "").splitlines() if one.get("name") == "stdout"}
    pictures = sum("image/png" in one.get("data", {}) for one in outputs)
    sentences = {NO_FILES, NO_OWNERS, NO_QUEUE, NO_TIMES, NO_ISSUE, NO_REQUESTS}
    found = {known for known in sentences if any(line.startswith(known) for line in said)}
    assert (pictures, found) == OF_OTHERS[name]
    assert all("LossWarning" in one.text for one in outputs if one.get("name") == "stderr")
