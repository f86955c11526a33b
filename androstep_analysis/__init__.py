"""Attribute Android storage I/O to apps, files and kinds of blocks.

>>> import androstep_analysis as androstep
>>> capture = androstep.open("datasets/demo")
>>> androstep.measures.block_types(capture.io)

Examples in docstrings assume the first two lines above, ``import polars as pl``, and that `bench`, `compare`,
`measures`, `perceived`, `plot`, `replay` and `whatif` are imported from this package. docs/tables.md lists the columns
and types of all tables.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # Importing `typing` would lengthen the start, in which an interrupt still prints a traceback.

if TYPE_CHECKING:
    from typing import Any

    from androstep_analysis import bench, compare, datasets, device, fs, measures, perceived, replay, whatif
    from androstep_analysis.capture import Capture, Description, create, open
    from androstep_analysis.common import schema, units
    from androstep_analysis.common.errors import InputError, LossWarning
    from androstep_analysis.compare.collections import Collection, collection
    from androstep_analysis.device import runs
    from androstep_analysis.present import advice, panel, plot, report
    from androstep_analysis.present.advice import advise
    from androstep_analysis.present.wide import show
    from androstep_analysis.slowest import slow

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
    "slow",
    "units",
    "whatif",
]

_HOME = {
    **dict.fromkeys(("Capture", "Description", "create", "open"), "capture"),
    **dict.fromkeys(("Collection", "collection"), "compare.collections"),
    **dict.fromkeys(("InputError", "LossWarning"), "common.errors"),
    "advise": "present.advice",
    "show": "present.wide",
    "slow": "slowest",
}
"""Public objects and the module that defines each, relative to this package."""

_PARENT = {
    **dict.fromkeys(("schema", "units"), "common"),
    **dict.fromkeys(("advice", "panel", "plot", "report"), "present"),
    "runs": "device",
}
"""Public modules of a subpackage and the name of that subpackage."""


def __getattr__(name: str) -> Any:
    """Import a public name on first access: importing polars takes 0.5 s and matplotlib 1 s."""
    if name == "__version__":
        from importlib.metadata import version

        return version("androstep")
    if name in _HOME:
        return getattr(importlib.import_module(f"androstep_analysis.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(".".join(filter(None, ("androstep_analysis", _PARENT.get(name), name))))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
