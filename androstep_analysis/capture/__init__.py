"""Create, open and query captures: one recording session of one device, with its manifest and tables."""

from androstep_analysis.capture.capture import Capture
from androstep_analysis.capture.directory import create, open, refuse_existing, staged_directory
from androstep_analysis.capture.sources import Description

__all__ = ["Capture", "Description", "create", "open", "refuse_existing", "staged_directory"]
