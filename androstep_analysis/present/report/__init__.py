"""The report of a capture: one HTML page that stands by itself.

What a reader asks first is seen first (`overview`), then come sections by question, each with tables, figures and, in
folds, the definitions of what they measure. Everything that is shown is made of elements that escape their text; what
the page's own script (page.js) shows stands in it as JSON, and is put on the page as text. The page asks the network
for nothing, and the same capture gives the same bytes.
"""

from androstep_analysis.present.report.page import write

__all__ = ["write"]
