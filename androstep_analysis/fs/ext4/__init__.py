"""ext2, ext3 and ext4: images, the journal's old states, tracepoints."""

from androstep_analysis.fs.ext4.reader import read, sniff

__all__ = ["read", "sniff"]
