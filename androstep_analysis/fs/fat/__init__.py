"""FAT12, FAT16, FAT32 and exFAT: images."""

from androstep_analysis.fs.fat.reader import read, sniff

__all__ = ["read", "sniff"]
