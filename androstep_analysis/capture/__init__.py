"""Captures: what was recorded of one device in one session, as a directory with a manifest, and its tables."""

from androstep_analysis.capture.capture import Capture
from androstep_analysis.capture.directory import create, open, refuse_existing, staged_directory

__all__ = ["Capture", "create", "open", "refuse_existing", "staged_directory"]
