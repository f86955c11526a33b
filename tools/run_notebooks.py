"""Run the notebooks, and write them with their outputs to build/notebooks, for the documentation site.

python tools/run_notebooks.py [-o DIRECTORY] [NOTEBOOK ...]        default: all of notebooks/

The notebooks in the repository have no outputs. The written outputs are pictures of 64 colours, tables and text;
progress bars and other widgets are left out. A notebook that warns, or whose output has a path of this machine, is an
error.
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

SHOWN = ROOT / "build" / "notebooks"

PATIENCE_S = 600

Notebook = Any
"""A notebook of nbformat."""

Kernel = Any
"""A kernel of jupyter_client."""


def paths() -> list[Path]:
    """Return every notebook."""
    return sorted(NOTEBOOKS.glob("**/*.ipynb"))


def executed(notebook: Notebook, where: Path, kernel: Kernel = None, **environment: str) -> Notebook:
    """Run a notebook from top to bottom and return it with all its outputs.

    It runs in `kernel`, which keeps running, or in a new kernel in directory `where`.
    """
    client = NotebookClient(
        notebook,
        kernel,
        timeout=PATIENCE_S,
        startup_timeout=PATIENCE_S,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(where)}},
    )
    try:
        client.execute(cleanup_kc=kernel is None, env={**os.environ, **environment})
    finally:
        if kernel is not None and client.kc is not None:
            client.kc.stop_channels()
    return notebook


def shown(notebook: Notebook, metadata: dict[str, Any]) -> Notebook:
    """Clean an executed notebook for display; `ValueError` if it warns or reveals paths of this machine."""
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
    """Run the notebook in this file and return it ready for display."""
    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    return shown(executed(notebook, path.parent, **environment), metadata)


def _is_passing(output: Any) -> bool:
    """Return whether an output is a widget, such as a progress bar, which needs a kernel."""
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
    """Reduce a PNG to 64 colours, a quarter of its size. Equal pictures give equal bytes."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(64)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    parser.add_argument("-o", "--output", type=Path, default=SHOWN, metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    failed = False
    for path in map(Path.resolve, options.notebooks or paths()):
        with tempfile.TemporaryDirectory() as figures:
            try:
                notebook = run(path, ANDROSTEP_FIGURES=figures)
            except Exception as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                failed = True
                continue
        place = options.output / path.relative_to(NOTEBOOKS)
        place.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, place)
        print(f"{place}: {place.stat().st_size:,} bytes", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
