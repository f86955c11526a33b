"""Read ext2, ext3 and ext4: images, old states in the journal, and tracepoints."""

from androstep_analysis.fs.ext4.reader import read, sniff

__all__ = ["read", "sniff"]
