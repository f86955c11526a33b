"""AndroStep: which app, which file and which kind of block caused this storage I/O?

>>> import androstep_analysis as androstep
>>> capture = androstep.open("datasets/demo")
>>> androstep.analysis.blocktypes(capture.io)
"""

from androstep_analysis import analysis, fs, plot, report, schema, units
from androstep_analysis.capture import Capture, create, open
from androstep_analysis.errors import InputError, LossWarning

__all__ = [
    "Capture",
    "InputError",
    "LossWarning",
    "analysis",
    "create",
    "fs",
    "open",
    "plot",
    "report",
    "schema",
    "units",
]
