"""What-if experiments: the requests of a trace after a change, and a prediction of their time on a measured device.

>>> capture = androstep.open("mycapture")
>>> without = whatif.without_journal(capture.requests, capture.io)
>>> model = whatif.fit(androstep.open("mybench").bench)
>>> whatif.predict(replay.device.program(without.requests.lazy()), model).totals

The changes are those of published experiments: no filesystem journal and no fsync of SQLite (Luo et al.), and a virtual
controller that makes all writes sequential (EasyCo's slides). Each change documents its model. Each returns table
`requests` and an account of removed and changed requests.
"""

from androstep_analysis.whatif.accuracy import accuracy
from androstep_analysis.whatif.awaited import awaited
from androstep_analysis.whatif.changed import Changed
from androstep_analysis.whatif.controller import controlled_rates
from androstep_analysis.whatif.flash import Flash, flash
from androstep_analysis.whatif.journal import without_journal
from androstep_analysis.whatif.log_structured import log_structured, write_amplification
from androstep_analysis.whatif.measure import EXPERIMENTS, experiments
from androstep_analysis.whatif.model import curve, fit, service
from androstep_analysis.whatif.model import read as read_model
from androstep_analysis.whatif.predict import Mode, Prediction, extrapolated, predict, unknown
from androstep_analysis.whatif.sqlite import without_fsync

__all__ = [
    "EXPERIMENTS",
    "Changed",
    "Flash",
    "Mode",
    "Prediction",
    "accuracy",
    "awaited",
    "controlled_rates",
    "curve",
    "experiments",
    "extrapolated",
    "fit",
    "flash",
    "log_structured",
    "predict",
    "read_model",
    "service",
    "unknown",
    "without_fsync",
    "without_journal",
    "write_amplification",
]
