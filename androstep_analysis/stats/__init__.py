"""Statistics of repeats: exact ones by ranks for few repeats, and means of windows that are alike."""
