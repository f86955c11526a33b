"""Find the slowest operations of a capture, and explain why each was slow (docs/slow.md)."""

from androstep_analysis.slowest.table import OPERATIONS, slow

__all__ = ["OPERATIONS", "slow"]
