"""Captures: what was recorded of one device in one session, as a directory with a manifest, and its tables."""

from androstep_analysis.capture.capture import Capture
from androstep_analysis.capture.directory import create, open, refuse_existing, staged_directory
from androstep_analysis.capture.sources import Description

__all__ = ["Capture", "Description", "create", "open", "refuse_existing", "staged_directory"]
