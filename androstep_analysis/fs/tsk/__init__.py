"""What The Sleuth Kit (pytsk3) reads and no reader of our own: NTFS, HFS+, ISO 9660."""

from androstep_analysis.fs.tsk.kinds import FS_TYPES
from androstep_analysis.fs.tsk.reader import read, sniff

__all__ = ["FS_TYPES", "read", "sniff"]
