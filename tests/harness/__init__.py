"""A ground truth about block I/O: what a workload of known content wrote, and what reached the disk.

`host` and `guest` record, `content` says whose each block is, `tests/support/truth.py` holds an answer against it.
"""
