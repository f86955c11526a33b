"""AndroStep: which app, which file and which kind of block caused this storage I/O?

>>> import androstep_analysis as androstep
>>> capture = androstep.open("datasets/demo")
>>> androstep.measures.block_types(capture.io)

Examples in docstrings run with these two lines before them, ``import polars as pl``, and with `bench`, `compare`,
`measures`, `perceived`, `plot`, `replay` and `whatif` imported from here. Columns and types of tables are in
docs/tables.md.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # `typing` is not imported: a command that is interrupted before it begins prints a traceback.

if TYPE_CHECKING:
    from typing import Any

    from androstep_analysis import (
        advice,
        bench,
        compare,
        datasets,
        device,
        fs,
        measures,
        panel,
        perceived,
        plot,
        replay,
        report,
        runs,
        schema,
        units,
        whatif,
    )
    from androstep_analysis.advice import advise
    from androstep_analysis.capture import Capture, Description, create, open
    from androstep_analysis.collections import Collection, collection
    from androstep_analysis.errors import InputError, LossWarning
    from androstep_analysis.wide import show

__all__ = [
    "Capture",
    "Collection",
    "Description",
    "InputError",
    "LossWarning",
    "advice",
    "advise",
    "bench",
    "collection",
    "compare",
    "create",
    "datasets",
    "device",
    "fs",
    "measures",
    "open",
    "panel",
    "perceived",
    "plot",
    "replay",
    "report",
    "runs",
    "schema",
    "show",
    "units",
    "whatif",
]

_HOME = {
    **dict.fromkeys(("Capture", "Description", "create", "open"), "capture"),
    **dict.fromkeys(("Collection", "collection"), "collections"),
    **dict.fromkeys(("InputError", "LossWarning"), "errors"),
    "advise": "advice",
    "show": "wide",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: polars takes half a second, matplotlib and scipy one each."""
    if name == "__version__":
        from importlib.metadata import version

        return version("androstep")
    if name in _HOME:
        return getattr(importlib.import_module(f"androstep_analysis.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"androstep_analysis.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
