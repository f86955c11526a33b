"""Import the tool that makes the papers' figures."""

from __future__ import annotations

import sys

from androstep_analysis.present import papers
from support.tree import ROOT

sys.path.append(str(ROOT / "tools"))
import figures

LISTS = figures.LISTS

__all__ = ["LISTS", "figures", "of", "papers"]


def of(name: str) -> papers.Paper:
    """Return the paper with this list."""
    return papers.Paper(LISTS / f"{name}.toml")
