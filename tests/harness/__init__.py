"""Ground truth about block I/O: a workload of known content, and a log of the writes that reached the disk.

`host` and `guest` record, `content` identifies the origin of each block, and `tests/support/truth.py` compares results
with it.
"""
