"""Any measure across captures: by device, Android release, workload or any other fact, with intervals and tests.

>>> measured = measure_all(captures, "locality", window_ns=10_000_000_000)
>>> summarise(measured, by=["workload"])
>>> compare(measured, by=["workload"])

What is a repeat decides what an interval says. Captures are independent repeats: what is shown of them holds for such
captures in general. Repetitions of a benchmark or replay hold for that machine. Windows of time hold for these very
recordings, and neighbouring ones are alike (`stats.blocks`).
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
