"""Read NTFS, HFS+ and ISO 9660 with The Sleuth Kit (pytsk3)."""

from androstep_analysis.fs.tsk.kinds import FS_TYPES
from androstep_analysis.fs.tsk.reader import read, sniff

__all__ = ["FS_TYPES", "read", "sniff"]
