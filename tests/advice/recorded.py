"""Workloads of traits.py, each recorded on a filesystem of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import traits
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep


def recorded(place: Path, name: str, *, bad: bool) -> androstep.Capture:
    """The capture of one workload on an ext4 that was mounted anew, made in directory `place`."""
    needs_probe("iotrace")
    make_ext4(place / "image", ["-b", "4096"], 256)
    with mounted(place / "image") as first:
        traits.prepare(first.top)
    with mounted(place / "image", traits.options(name, bad=bad)) as disk:
        record = ["record", "--on", "local", "-o", str(place / "capture"), "--preset", "block+fs+syscalls"]
        workload = [sys.executable, traits.__file__, name, "yes" if bad else "no", str(disk.top)]
        command = [sys.executable, "-m", "androstep_analysis", *record, "--device", disk.device, "--", *workload]
        subprocess.run(command, check=True, capture_output=True)
    # The image tells what is metadata: without it, of workloads that write little, most could be data.
    described = androstep.Description(image_after=place / "image")
    return androstep.create([place / "capture" / "raw"], place / "whole", described)
