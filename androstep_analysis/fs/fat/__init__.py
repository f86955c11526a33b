"""Read images of FAT12, FAT16, FAT32 and exFAT."""

from androstep_analysis.fs.fat.reader import read, sniff

__all__ = ["read", "sniff"]
