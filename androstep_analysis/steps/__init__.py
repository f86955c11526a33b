"""What a user did and saw: steps of workloads, and states of the GUI.

>>> states = gui_states("dumps.zip")
>>> perceived.transitions(states, inputs)

`androstep_analysis.device.workloads` makes both; a directory or archive of dumps from elsewhere will do as well.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import polars as pl

from androstep_analysis.errors import LossWarning
from androstep_analysis.steps.gui import DEFAULT, Rules, Snapshot
from androstep_analysis.steps.tables import GUI, STEPS, read_gui

__all__ = ["GUI", "STEPS", "Rules", "Snapshot", "gui_states"]


def gui_states(path: str | os.PathLike[str], rules: Rules = DEFAULT) -> pl.DataFrame:
    """Table `gui_states` of dumps in a directory, or a zip or tar archive (`archive.read`).

    Warns (`LossWarning`) of dumps that cannot be read. Raises `InputError` where there is none.
    """
    found = read_gui(Path(path), rules)
    if found.losses:
        warnings.warn("; ".join(loss.message for loss in found.losses), LossWarning, stacklevel=2)
    return found.tables["gui_states"]
