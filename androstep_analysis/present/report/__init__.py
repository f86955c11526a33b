"""The report of a capture: one self-contained HTML page.

The page begins with an overview (`overview`). Sections follow, one for each question, with tables, figures and folded
definitions of their measures. All displayed text is escaped. Data for the page's script (page.js) is embedded as JSON
and inserted as text. The page makes no network requests, and the same capture gives the same bytes.
"""

from androstep_analysis.present.report.page import write

__all__ = ["write"]
