"""The kernel of the guest: Debian's own package, and the modules that a guest needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness import build

PACKAGE = "linux-image-*_amd64.deb"

MODULES = (
    *("virtio_pci", "virtio_blk", "crc32c_generic", "crc32_generic", "ext4", "f2fs"),
    *("nls_cp437", "nls_ascii", "nls_iso8859-1", "nls_utf8", "vfat", "exfat", "dm_mod", "quota_v2", "utf8data", "lz4"),
)
"""What the guest loads; the rest of the list follows from it."""


class Kernel(NamedTuple):
    """An unpacked kernel package."""

    package: str
    vmlinuz: Path
    modules: tuple[Path, ...]


def debian(further: Sequence[str] = ()) -> Kernel:
    """The kernel that linux-image-amd64 stands for, fetched once, with `further` modules.

    `OSError` where apt cannot get it.
    """
    directory = build.OUT / "kernel"
    with build.exclusive():
        directory.mkdir(exist_ok=True)
        if not list(directory.glob(PACKAGE)):
            _download(directory)
        package = max(directory.glob(PACKAGE))
        unpacked = package.with_suffix("")
        if not unpacked.is_dir():
            part = package.with_suffix(".part")
            subprocess.run(["dpkg-deb", "-x", package, part], check=True)
            part.rename(unpacked)
    (vmlinuz,) = unpacked.glob("boot/vmlinuz-*")
    return Kernel(package.name, vmlinuz, _load_order(unpacked, [*MODULES, *further]))


def _download(directory: Path) -> None:
    depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
    if found is None:
        raise OSError("apt knows no package linux-image-amd64")
    got = subprocess.run(["apt-get", "-qq", "download", found[1]], cwd=directory, capture_output=True, check=False)
    if got.returncode:
        raise OSError(f"apt cannot download {found[1]}: {got.stderr.decode(errors='replace').strip()}")


def _load_order(unpacked: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The modules `names` with what they depend on before them.

    The package has no modules.dep: each module names its own.
    """
    files = {path.stem.replace("-", "_"): path for path in unpacked.glob("lib/modules/*/kernel/**/*.ko")}
    order: list[Path] = []

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        found = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for needed in found[1].decode().split(",") if found else ():
            add(needed)
        order.append(path)

    for name in names:
        add(name)
    return tuple(order)
