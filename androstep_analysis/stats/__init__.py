"""Statistics of repeats: exact tests by ranks for few repeats, and means of correlated windows."""
