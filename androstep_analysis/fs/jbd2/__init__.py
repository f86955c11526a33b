"""Read the on-disk journal of ext3 and ext4 (jbd2). `ext4.journal` interprets the contents of its blocks."""

from androstep_analysis.fs.jbd2.log import ROLES, Log, places, read, read_commits

__all__ = ["ROLES", "Log", "places", "read", "read_commits"]
