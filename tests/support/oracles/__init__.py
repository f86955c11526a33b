"""Slow, independent implementations that tests compare the library with."""
