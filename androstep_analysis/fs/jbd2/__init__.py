"""jbd2, the journal of ext3 and ext4, as it lies on the disk; what its blocks say of files is `ext4.journal`."""

from androstep_analysis.fs.jbd2.log import ROLES, Log, places, read, read_commits

__all__ = ["ROLES", "Log", "places", "read", "read_commits"]
