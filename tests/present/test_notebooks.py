"""Every notebook runs from top to bottom as a reader would run it, and shows what it is to show.

A notebook is run once for all that is checked of it. Those that are compared with a command have tests of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import corpus
from support.notebooks import NOTEBOOKS, run

ELSEWHERE = {"04_compare", "05_versions"}
"""Notebooks that tests/compare/test_compare_notebook.py and test_versions_notebook.py run."""

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
    for row in modes_by_place.filter(metric="iops", test="rand_write").iter_rows(named=True)
}
tps = {
    (row["test"], row["synchronous"]): row["value"]
    for row in synchronous.filter(metric="tps").iter_rows(named=True)
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
    "androstep_fi2013": """
requests = dict(block_types.filter(metric="count").group_by("op").agg(pl.col("value").sum()).iter_rows())
assert requests["read"] == 817, requests
assert replays.filter(metric="divergences")["value"].sum() == 0
assert fsync.height == 5 and fsync["n"].n_unique() == 1
lines = {row["stage"]: row["value"] for row in statistics["an app of the tests"].filter(metric="lines").to_dicts()}
assert lines["program"] < lines["recorded"], lines
""",
    "androstep_me13": """
assert functions.filter(pl.col("iobench").is_null())["function"].to_list() == ["environment: app"]
assert both.height == 28 and both["n"].n_unique() == 1
for test in ("sqlite_insert", "sqlite_update", "sqlite_delete"):
    tps = dict(synchronous.filter(metric="tps", test=test).select("synchronous", "value").iter_rows())
    assert tps["OFF"] > tps["FULL"], test
""",
}
"""What must hold at the end of a notebook, as a last cell: if it fails, the library says something else than it did."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == "01_explore" else pytest.mark.prove)
        for path in sorted(NOTEBOOKS.glob("**/*.ipynb"))
        if path.stem not in ELSEWHERE
    ],
)
def test_a_notebook_runs_top_to_bottom(path: Path, tmp_path: Path) -> None:
    run(path, tmp_path, KNOWN.get(path.stem, ""))


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """Yield a kernel for many notebooks. Starting one and importing the packages takes as long as all the rest."""
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_core.utils import run_sync

    manager = AsyncKernelManager()
    run_sync(manager.start_kernel)(cwd=NOTEBOOKS)
    yield manager
    run_sync(manager.shutdown_kernel)()


def output(cell: str, kernel: Any) -> Any:
    """Run a notebook of one cell."""
    import nbformat
    import run_notebooks

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    return run_notebooks.executed(notebook, NOTEBOOKS, kernel)


def test_counts_and_widgets_are_not_shown(kernel: Any) -> None:
    import run_notebooks

    cell = "from tqdm.notebook import tqdm\nprint(1)\nfor _ in tqdm([1]):\n    print(2)\n3"
    shown = run_notebooks.shown(output(cell, kernel), {}).cells[0]
    assert shown.execution_count is None
    assert [(one.output_type, one.get("text"), one.get("execution_count")) for one in shown.outputs] == [
        ("stream", "1\n2\n", None),
        ("execute_result", None, None),
    ]


@pytest.mark.parametrize("cell", ["import warnings; warnings.warn('this')", "import os; print(os.getcwd())"])
def test_a_notebook_that_warns_or_tells_where_it_ran_is_refused(cell: str, kernel: Any) -> None:
    import run_notebooks

    with pytest.raises(ValueError, match=r"stderr.*this|has the path"):
        run_notebooks.shown(output(cell, kernel), {})


# -- recordings of others ---------------------------------------------------------------------------------------------

NO_FILES = "unknown: files (no filesystem events)"
NO_OWNERS = "unknown: processes (none recorded)"
NO_TIMES = "unknown: times (no completion)"
NO_ISSUE = "unknown: times (no issue)"
NO_REQUESTS = "No request is recorded:"

OF_OTHERS = {
    "blktrace_bin/takeoverjp_sample.blktrace.0": (3, {NO_FILES, NO_OWNERS}),
    "blkparse_text/android_candycrush_straight_1.txt": (4, {NO_FILES}),
    "perfetto/difftest_f2fs_iostat.pb": (0, {NO_REQUESTS}),
    "strace/linux_multithread_strace1.log": (0, {NO_REQUESTS}),
    "block_csv/pixel6a_telegram_precond.csv.gz": (3, {NO_FILES, NO_TIMES}),
    "block_csv/opencas_sample_trace.tar.xz": (3, {NO_FILES, NO_OWNERS, NO_ISSUE}),
    "androstep/ftrace_sqlite.txt": (4, {NO_FILES}),
    "kernel/f2fs_guest_6.1/trace.dat.zst": (7, set()),
    "bench_results/pixel_mobibench_outputs.tar.gz": (0, {NO_REQUESTS}),
    "ftrace_text/trappy_trace_filesystem.txt": (0, {NO_REQUESTS}),
}
"""Recordings of very different kinds: figures that 01 draws of them, and what it says to the questions left."""


@pytest.mark.prove
@pytest.mark.parametrize("name", OF_OTHERS)
def test_the_first_notebook_works_on_a_recording_of_others(name: str, kernel: Any) -> None:
    import nbformat
    import run_notebooks

    notebook = nbformat.read(NOTEBOOKS / "01_explore.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert re.fullmatch(r'RECORDING = "[^"\n]+"', first.source)
    first.source = f"RECORDING = {str(corpus.path(name))!r}"
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # what the recording before left in the kernel
    made = run_notebooks.executed(notebook, NOTEBOOKS, kernel)
    outputs = [one for cell in made.cells for one in cell.get("outputs", [])]
    texts = [one.get("data", {}).get("text/plain", "") for one in outputs]
    texts += [one.text for one in outputs if one.get("name") == "stdout"]
    said = {line for text in texts for line in text.splitlines()}
    pictures = sum("image/png" in one.get("data", {}) for one in outputs)
    sentences = {NO_FILES, NO_OWNERS, NO_TIMES, NO_ISSUE, NO_REQUESTS}
    found = {known for known in sentences if any(line.startswith(known) for line in said)}
    assert (pictures, found) == OF_OTHERS[name]
    assert all("LossWarning" in one.text for one in outputs if one.get("name") == "stderr")
