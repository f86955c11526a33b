"""Time and memory of reading an ext4 image: builds one with many files, reads it in a fresh process.

``python benchmarks/ext4_image.py [--files N] [--per-directory N]``. Needs mke2fs (e2fsprogs) and about 2 GB in the
temporary directory for 300,000 files.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_READ = """
import resource, sys, time
start = time.perf_counter()
from androstep_analysis import fs
imported = time.perf_counter()
filesystem = fs.read(sys.argv[1], dev=7 << 20, source="image_after")
done = time.perf_counter()
named = filesystem.files["path"].count()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(f"{filesystem.files.height} files, {named} with a path, {filesystem.extents.height} extents")
print(f"import {imported - start:.2f} s, read {done - imported:.2f} s, peak {peak} MiB")
"""


def build(directory: Path, files: int, per_directory: int) -> Path:
    """An ext4 image (Android's 4 KiB blocks) with `files` files of 0 to 9,000 bytes."""
    tree = directory / "tree"
    for number in range(files):
        parent = tree / f"app{number // per_directory:05d}"
        if number % per_directory == 0:
            parent.mkdir(parents=True)
        (parent / f"file_{number:07d}.{'db' if number % 5 == 0 else 'dat'}").write_bytes(b"x" * (number * 7 % 9000))
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(files * 16384 + (64 << 20))
    options = ["-q", "-F", "-t", "ext4", "-N", str(files + files // 4 + 1000), "-d", str(tree)]
    subprocess.run(["mke2fs", *options, str(image)], check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return image


def main() -> None:
    """Build, read, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--per-directory", type=int, default=500)
    arguments = parser.parse_args()
    if shutil.which("mke2fs") is None:
        sys.exit("mke2fs is not installed; install e2fsprogs")
    with tempfile.TemporaryDirectory(prefix="androstep-bench-") as directory:
        image = build(Path(directory), arguments.files, arguments.per_directory)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _READ, str(image)], check=True)
        print(f"whole process {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
