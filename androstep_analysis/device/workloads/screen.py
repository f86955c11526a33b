"""What the device shows, by ``uiautomator dump``: taken with times, until it is stable."""

from __future__ import annotations

from androstep_analysis.device.transport import quoted
