"""Provide the kernel of a guest from Debian's packages, with the modules that it needs."""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness import archive

MODULES = (
    *("virtio_mmio", "virtio_pci", "virtio_blk", "crc32c_generic", "crc32c_cryptoapi", "crc32_generic", "ext4", "f2fs"),
    *("nls_cp437", "nls_ascii", "nls_iso8859-1", "nls_utf8", "vfat", "exfat", "dm_mod", "quota_v2", "utf8data", "lz4"),
    *("crypto_null", "dm_crypt", "aes_generic", "ecb", "xts", "cbc", "cts", "hmac", "sha512_generic"),
)
"""Modules that the guest loads if they are not built in. Their dependencies are added."""


class Wanted(NamedTuple):
    """A kernel of Debian's archive."""

    suite: str = "bookworm"
    architecture: str = "amd64"
    page_bytes: int = 4096


USUAL = Wanted()


class Kernel(NamedTuple):
    """Unpacked packages: a kernel, and the programs of the same suite.

    `package` is the name and version; `modules` are files in load order.
    """

    package: str
    vmlinuz: Path
    modules: tuple[Path, ...]
    busybox: Path


def debian(wanted: Wanted = USUAL, further: Sequence[str] = ()) -> Kernel:
    """Return the newest kernel of a suite, fetched once, with `further` modules.

    Raises `OSError` if apt cannot fetch it.
    """
    suite, architecture, page_bytes = wanted
    pages = "" if page_bytes == 4096 else f"-{page_bytes >> 10}k"
    images = archive.depended_on(suite, architecture, f"linux-image-{architecture}{pages}", "linux-image-")
    if not images:
        raise OSError(f"{suite} has no kernel for {architecture} with pages of {page_bytes} bytes")
    # Newer packages are empty and depend on others with the files.
    parts = [
        part
        for begin in ("linux-binary-", "linux-modules-")
        for part in archive.depended_on(suite, architecture, images[0], begin)
    ]
    roots = [archive.package(suite, architecture, name) for name in (images[0], *parts)]
    (vmlinuz,) = (path for root in roots for path in root.rglob("vmlinuz*"))
    files = [path for root in roots for path in root.glob("**/lib/modules/*/kernel/**/*.ko*")]
    (busybox,) = archive.package(suite, architecture, "busybox-static").glob("**/bin/busybox")
    return Kernel(roots[0].name, vmlinuz, _load_order(files, [*MODULES, *further]), busybox)


def module(path: Path) -> bytes:
    """Return the uncompressed content of a module's file."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def _name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _load_order(paths: Sequence[Path], names: Sequence[str]) -> tuple[Path, ...]:
    """Return the modules `names`, each after its dependencies.

    The package has no modules.dep, but each module names its dependencies.
    """
    files = {_name(path): path for path in paths}
    order: list[Path] = []

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        found = re.search(rb"\0depends=([^\0]*)\0", module(path))
        for needed in found[1].decode().split(",") if found else ():
            add(needed)
        order.append(path)

    for name in names:
        add(name)
    return tuple(order)
