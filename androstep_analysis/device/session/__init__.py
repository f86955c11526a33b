"""A session with a device: commands, files, programs and facts. `close` leaves nothing behind."""

from __future__ import annotations

from androstep_analysis.device.session.session import Session

__all__ = ["Session"]
