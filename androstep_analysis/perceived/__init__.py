"""Perceived latency: steps of workloads, states of the GUI, and the I/O while the user waited.

>>> views = perceived.seen(perceived.gui_states("dumps.zip"))
>>> perceived.transitions(views, perceived.inputs(capture.steps))

`androstep_analysis.device.workloads` makes steps and dumps. A directory or archive of dumps from other tools works too.
"""

from androstep_analysis.perceived.gui import Rules, Snapshot
from androstep_analysis.perceived.responses import classes, responses
from androstep_analysis.perceived.runs import run_cpu, run_rates, run_responses, run_times, runs
from androstep_analysis.perceived.starts import STARTS, read_files, starts
from androstep_analysis.perceived.tables import GUI, STEPS, gui_states
from androstep_analysis.perceived.transitions import (
    LIMITS,
    OUTCOMES,
    SETTLE_NS,
    inputs,
    loading,
    loads,
    presented,
    seen,
    transitions,
    windows,
)
from androstep_analysis.perceived.waiting_io import alignment, breakdown, bursts, in_flight, rates, requests

__all__ = [
    "GUI",
    "LIMITS",
    "OUTCOMES",
    "SETTLE_NS",
    "STARTS",
    "STEPS",
    "Rules",
    "Snapshot",
    "alignment",
    "breakdown",
    "bursts",
    "classes",
    "gui_states",
    "in_flight",
    "inputs",
    "loading",
    "loads",
    "presented",
    "rates",
    "read_files",
    "requests",
    "responses",
    "run_cpu",
    "run_rates",
    "run_responses",
    "run_times",
    "runs",
    "seen",
    "starts",
    "transitions",
    "windows",
]
