"""A device that one talks to: commands, files and programs on it, what it is, and nothing left behind."""

from __future__ import annotations

from androstep_analysis.device.session.session import Session

__all__ = ["Session"]
