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
"""The module that has it."""

_PARENT = {
    **dict.fromkeys(("schema", "units"), "common"),
    **dict.fromkeys(("advice", "panel", "plot", "report"), "present"),
    "runs": "device",
}
"""The folder of a module that is in one."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: polars takes half a second, matplotlib one."""
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
