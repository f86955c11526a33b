"""Traces of block I/O alone, which fill table `block_events`: of blktrace, blkparse, MOST, Open-CAS, and CSV."""
