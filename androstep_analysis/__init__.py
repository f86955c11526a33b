"""AndroStep: which app, which file and which kind of block caused this storage I/O?

>>> import androstep_analysis as androstep
>>> capture = androstep.open("datasets/demo")
>>> androstep.analysis.blocktypes(capture.io)
"""

import importlib
from types import ModuleType

from androstep_analysis import analysis, bench, fs, replay, schema, units
from androstep_analysis.capture import Capture, create, open
from androstep_analysis.errors import InputError, LossWarning

__all__ = [
    "Capture",
    "InputError",
    "LossWarning",
    "analysis",
    "bench",
    "create",
    "datasets",
    "device",
    "fs",
    "open",
    "panel",
    "plot",
    "replay",
    "report",
    "schema",
    "units",
    "whatif",
]


def __getattr__(name: str) -> ModuleType:
    """Load only when it is asked for what a table does not need: matplotlib alone takes a second."""
    if name in ("datasets", "device", "panel", "plot", "report", "whatif"):
        return importlib.import_module(f"androstep_analysis.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
