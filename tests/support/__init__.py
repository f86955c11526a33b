"""Shared helpers of the tests: synthetic recordings, oracles, machines and test programs."""
