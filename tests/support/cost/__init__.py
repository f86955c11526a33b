"""Recordings that are made up for what writing costs, and the costs of them in plain Python."""
