"""Slow, independent answers that tests compare the library with."""
