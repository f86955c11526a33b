"""Record the workloads of traits.py, each on a filesystem of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import traits
from support import built
from support.loops import make_ext4, mounted

import androstep_analysis as androstep


def recorded(place: Path, name: str, *, bad: bool) -> androstep.Capture:
    """Return the capture of one workload on a freshly mounted ext4. Files are created in directory `place`."""
    make_ext4(place / "image", ["-b", "4096"], 256)
    with mounted(place / "image") as first:
        traits.prepare(first.top)
    with mounted(place / "image", "noatime") as disk:
        iotrace = [built.program("iotrace", "native"), "-o", place / "recording", "--preset", "block+fs+syscalls"]
        workload = [sys.executable, traits.__file__, name, "yes" if bad else "no", str(disk.top)]
        built.run(*iotrace, "--device", disk.device, "--", *workload)
    # The image identifies metadata. Without it, most of what a small workload writes could be data.
    described = androstep.Description(image_after=place / "image")
    return androstep.create([place / "recording"], place / "capture", described)
