"""Runs the notebooks and keeps them with what they show, small and the same at every run.

python tools/run_notebooks.py [NOTEBOOK ...]        default: all of notebooks/

Kept are pictures of 64 colours, tables and text. What is different at every run is not: counts and times of execution,
bars of progress, object addresses. A cell tagged `of-this-run` measures this machine; its numbers differ, and nothing
else may (tests/report/test_notebooks.py). A notebook that warns, or shows a path of this machine, is not kept.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
CORPUS = Path(os.environ.get("ANDROSTEP_CORPUS", ROOT.parent / "shared" / "corpus"))

OF_THIS_RUN = "of-this-run"
PATIENCE_S = 600

Notebook = Any
"""A notebook as nbformat has it."""


def paths() -> list[Path]:
    """Every notebook."""
    return sorted(NOTEBOOKS.glob("**/*.ipynb"))


def needs_corpus(path: Path) -> bool:
    """Whether a notebook shows less where the corpus is not."""
    return path.parent.name == "figures" or "ANDROSTEP_CORPUS" in path.read_text("utf-8")


def executed(notebook: Notebook, where: Path, **environment: str) -> Notebook:
    """The notebook, run from top to bottom in directory `where`, with all its outputs."""
    client = NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        startup_timeout=PATIENCE_S,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(where)}},
    )
    client.execute(env={**os.environ, **environment})
    return notebook


def kept(notebook: Notebook, metadata: dict[str, Any]) -> Notebook:
    """An executed notebook as it is stored; `ValueError` where it warns or tells where it ran."""
    notebook.metadata = metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_output(output) for output in cell.outputs if not _is_passing(output)]
    text = nbformat.writes(notebook)
    for place in (str(ROOT), str(CORPUS), tempfile.gettempdir() + "/", str(Path.home()) + "/"):
        if place in text:
            raise ValueError(f"an output or a cell has the path {place}; show names instead")
    return notebook


def run(path: Path, **environment: str) -> Notebook:
    """The notebook of this file as it is when it is run now, ready to be stored."""
    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    return kept(executed(notebook, path.parent, **environment), metadata)


def difference(stored: Notebook, made: Notebook) -> list[str]:
    """The cells whose outputs are others; of one `of-this-run` only the kinds of its outputs count."""
    found = []
    for number, (one, other) in enumerate(zip(stored.cells, made.cells, strict=True), 1):
        if _told(one) != _told(other):
            found.append(f"cell {number} ({one.source.splitlines()[0]})")
    return found


def _told(cell: Any) -> list[Any]:
    outputs = cell.get("outputs", [])
    if OF_THIS_RUN not in cell.metadata.get("tags", []):
        return list(outputs)
    return [(output.output_type, sorted(output.get("data", {}))) for output in outputs]


def _is_passing(output: Any) -> bool:
    """A widget, which shows nothing without a kernel: a bar of progress."""
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def _output(output: Any) -> Any:
    if output.get("name") == "stderr":
        raise ValueError(f"it writes to stderr: {output.text.strip()}")
    if "execution_count" in output:
        output.execution_count = None
    if picture := output.get("data", {}).get("image/png"):
        output.data = {"image/png": _small(picture)}
    elif "text/html" in output.get("data", {}):
        output.data = {"text/html": output.data["text/html"]}
    return output


def _small(picture: str) -> str:
    """A PNG with 64 colours, which is a quarter of its bytes; the same of the same picture."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(64)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    failed = False
    for path in parser.parse_args(arguments).notebooks or paths():
        if needs_corpus(path) and not CORPUS.is_dir():
            print(f"{path.name}: needs the corpus to show all it can; set ANDROSTEP_CORPUS", file=sys.stderr)
            failed = True
            continue
        with tempfile.TemporaryDirectory() as figures:
            try:
                notebook = run(path, ANDROSTEP_FIGURES=figures)
            except Exception as error:
                print(f"{path.name}: not kept: {error}", file=sys.stderr)
                failed = True
                continue
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
