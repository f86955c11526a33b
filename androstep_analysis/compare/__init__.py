"""Comparison of any measure across captures: by device, Android release, workload or any other fact.

Comparisons have intervals and tests.

>>> measured = measure_all(captures, "locality", window_ns=10_000_000_000)
>>> summarise(measured, by=["workload"])
>>> compare(measured, by=["workload"])

The kind of repeat decides to which population an interval applies:

- captures: other captures like these, since captures are independent
- repetitions of a benchmark or replay: the machine on which they ran
- windows of time: these recordings only, since neighbouring windows are correlated (`stats.blocks`)
"""

from androstep_analysis.compare.comparison import REPEATS, TESTS, VERDICTS, compare, gate, ranking, summarise
from androstep_analysis.compare.measures import measure_all, measures, of_release
from androstep_analysis.compare.overview import Overview, overview
from androstep_analysis.compare.phases import phases
from androstep_analysis.compare.verdicts import GATES, Correction
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.recording import Recording

__all__ = [
    "GATES",
    "REPEATS",
    "TESTS",
    "VERDICTS",
    "Correction",
    "Measure",
    "Overview",
    "Recording",
    "compare",
    "gate",
    "measure_all",
    "measures",
    "of_release",
    "overview",
    "phases",
    "ranking",
    "summarise",
]
