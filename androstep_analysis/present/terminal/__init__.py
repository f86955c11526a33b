"""Text output for a terminal."""

from __future__ import annotations

from androstep_analysis.present.terminal.headline import summary
from androstep_analysis.present.terminal.rows import rows
from androstep_analysis.present.terminal.tables import comparison, program, tables
from androstep_analysis.present.terminal.text import table

__all__ = ["comparison", "program", "rows", "summary", "table", "tables"]
