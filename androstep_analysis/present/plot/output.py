"""Figures as files, with their data and provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis.common import csvfile, files
from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.present.plot import paper

DPI = 300


def save(ax: Axes, stem: Path, *, table: Table, provenance: Mapping[str, Any]) -> list[Path]:
    """Write the figure of `ax` as `stem`.pdf and .png (300 dpi), its data as .csv, and its provenance as .json.

    Existing files are replaced, a missing directory is created. The same figure gives the same bytes: the files contain
    no dates or paths.

    Parameters
    ----------
    ax : Axes
        The axes of the figure.
    stem : pathlib.Path
        Path without suffix.
    table : Table
        The data of the figure.
    provenance : mapping of str
        Anything that JSON can represent.

    Returns
    -------
    list of pathlib.Path
        The four paths.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> table = measures.mix(capture.requests)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     paths = plot.save(plot.mix(table), Path(place, "mix"), table=table, provenance={"capture": "demo"})
    >>> len(paths)
    4
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    pdf, image, csv, origin = (stem.with_name(stem.name + suffix) for suffix in (".pdf", ".png", ".csv", ".json"))
    with paper.style(), files.replacing(pdf) as new:
        paper.settled(ax).savefig(new, format="pdf", metadata={"CreationDate": None}, **paper.TIGHT)
    with files.replacing(image) as new:
        new.write_bytes(paper.png(ax, DPI))
    csvfile.write(table if isinstance(table, pl.LazyFrame) else frame(table), csv)
    files.write_text(origin, json.dumps(provenance, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    return [pdf, image, csv, origin]
