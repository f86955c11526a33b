"""Import the tool that makes the papers' figures, and their lists."""

from __future__ import annotations

import sys

from support.tree import ROOT

sys.path += [str(ROOT / "tools"), str(ROOT / "notebooks" / "figures")]
import figures
import papers

__all__ = ["figures", "papers"]
