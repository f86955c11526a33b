"""A panel to measure storage from a notebook: Measure, History and Settings, as Mobibench's app had them.

>>> from androstep_analysis.panel import Panel
>>> Panel("results")

The last line of a cell shows it. What it measures are captures in the directory it was given.
"""

from androstep_analysis.panel.settings import Settings
from androstep_analysis.panel.view import Panel

__all__ = ["Panel", "Settings"]
