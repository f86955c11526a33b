"""The Makefile and the files that it includes."""

from __future__ import annotations

import os
import subprocess

from support.tree import ROOT


def test_no_variable_is_read_before_it_is_defined() -> None:
    """Make expands prerequisites when it reads a rule; a variable that is defined further down is empty there."""
    reading = ["make", "--dry-run", "--warn-undefined-variables", "TARGET=native", "fresh"]
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # of the make that calls
    made = subprocess.run(reading, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert made.stderr == ""
