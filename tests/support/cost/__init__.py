"""Synthetic recordings for the cost of writing, and an oracle in plain Python."""
