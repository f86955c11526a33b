"""Benchmark results of iobench, fio, Mobibench, IOzone and AndroBench: read, summarised over repetitions, compared.

>>> results = read("bench.rec", "fio.json")
>>> summarise(results.tables)

`androstep_analysis.device.runs.bench` runs iobench and stores its results as a capture. A summary has the columns
``metric, <configuration…>, value, unit, n, lo, hi``. ``androstep_analysis.present.plot`` draws it.
"""

from androstep_analysis.bench.compare import compare
from androstep_analysis.bench.functions import functions
from androstep_analysis.bench.measures import measures, write_amplification
from androstep_analysis.bench.postmark import postmark
from androstep_analysis.bench.read import read
from androstep_analysis.bench.summarise import by_place, distribution, latencies, series, summarise, written
from androstep_analysis.bench.tables import TABLES
from androstep_analysis.bench.words import in_words
from androstep_analysis.common.results import Results

__all__ = [
    "TABLES",
    "Results",
    "by_place",
    "compare",
    "distribution",
    "functions",
    "in_words",
    "latencies",
    "measures",
    "postmark",
    "read",
    "series",
    "summarise",
    "write_amplification",
    "written",
]
