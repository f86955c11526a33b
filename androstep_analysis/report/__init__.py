"""The report of a capture: one HTML page that stands by itself.

A report is an ordered list of sections, each with the definitions of what it measures, tables, and figures with
captions (the pattern of pydarshan's job summary). The page holds no script and asks the network for nothing, and the
same capture gives the same bytes.
"""

from androstep_analysis.report.page import write

__all__ = ["write"]
