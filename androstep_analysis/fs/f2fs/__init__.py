"""Read F2FS: images and tracepoints."""

from androstep_analysis.fs.f2fs.reader import read, sniff

__all__ = ["read", "sniff"]
