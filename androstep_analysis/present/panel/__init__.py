"""A panel for notebooks to measure storage: Measure, History and Ranking, like in Mobibench's app.

>>> from androstep_analysis.present.panel import Panel >>> Panel("results")

The last line of a notebook cell displays it. Its results are captures in the given directory.
"""

try:
    from androstep_analysis.present.panel.view import Panel
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the panel needs the Python package {error.name}; `pip install 'androstep[notebook]'`", name=error.name
    ) from None
from androstep_analysis.present.panel.jobs import Job

__all__ = ["Job", "Panel"]
