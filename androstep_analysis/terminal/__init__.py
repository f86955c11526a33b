"""What is printed for people who read a terminal."""

from __future__ import annotations

from androstep_analysis.terminal.headline import summary
from androstep_analysis.terminal.rows import rows
from androstep_analysis.terminal.tables import comparison, program, tables
from androstep_analysis.terminal.text import table

__all__ = ["comparison", "program", "rows", "summary", "table", "tables"]
