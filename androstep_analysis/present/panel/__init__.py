"""A panel to measure storage from a notebook: Measure, History and Ranking, as Mobibench's app had them.

>>> from androstep_analysis.present.panel import Panel
>>> Panel("results")

The last line of a cell shows it. What it measures are captures in the directory it was given.
"""

try:
    from androstep_analysis.present.panel.view import Panel
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the panel needs the Python package {error.name}; `pip install 'androstep[notebook]'`", name=error.name
    ) from None
from androstep_analysis.present.panel.jobs import Job

__all__ = ["Job", "Panel"]
