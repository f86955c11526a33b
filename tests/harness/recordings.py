"""The recordings of the tests and of the table in docs/truth.md."""

from __future__ import annotations

from pathlib import Path

from support.needs import needs

from harness import build, guest, host, kernel
from harness.judge import Recording
from harness.kernel import Wanted
from harness.made import Made

EXT3 = "none,has_journal,ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file"
"""Features without extents: maps of indirect blocks as in ext2 and ext3."""

ANDROID = ("-O", "^64bit,^flex_bg,^metadata_csum,uninit_bg,^resize_inode,encrypt", "-I", "256", "-m", "1")


def _ext4(*mkfs: str, options: str = "noatime", has_own_journal_disk: bool = False) -> Made:
    return Made("ext4", mkfs, options, on_host=True, has_own_journal_disk=has_own_journal_disk)


def _f2fs(options: str, *mkfs: str, once_mounted: str = "") -> Made:
    return Made("f2fs", mkfs, f"noatime,{options}", once_mounted=once_mounted)


RECORDINGS = {
    "ext4": _ext4(),
    "ext4-android": _ext4(*ANDROID, options="noatime,noauto_da_alloc,discard"),
    "ext4-guest": Made("ext4"),
    "f2fs": Made("f2fs"),
    "f2fs-two-cpus": Made("f2fs", cpus=2),
    "vfat": Made("vfat"),
    "exfat": Made("exfat"),
}
"""One recording of each kind, on this machine or with the default kernel of guests."""

FURTHER = {
    "ext4-1k": _ext4("-b", "1024"),
    "ext4-2k": _ext4("-b", "2048"),
    "ext4-bigalloc": _ext4("-O", "bigalloc", "-C", "16384"),
    "ext4-no-journal": _ext4("-O", "^has_journal"),
    "ext4-data-journal": _ext4(options="noatime,data=journal"),
    "ext4-inline-data": _ext4("-O", "inline_data"),
    "ext4-fast-commit": _ext4("-O", "fast_commit"),
    "ext4-nodelalloc": _ext4(options="noatime,nodelalloc"),
    "ext4-own-journal-disk": _ext4(has_own_journal_disk=True),
    "ext3": _ext4("-O", EXT3),
    "ext3-1k": _ext4("-O", EXT3, "-b", "1024"),
    "ext2": _ext4("-O", EXT3.replace("has_journal,", "")),
    "ext4-quota": Made("ext4", ("-O", "quota", "-E", "quotatype=usrquota:grpquota")),
    # The directories of the workload inherit the flag from the root.
    "ext4-casefold": Made("ext4", ("-O", "casefold"), debugfs="set_inode_field / flags 0x40080000"),
    "f2fs-lfs": _f2fs("mode=lfs"),
    "f2fs-compressed": _f2fs("compress_algorithm=lz4,compress_extension=*", "-O", "extra_attr,compression"),
    "f2fs-gc": _f2fs("background_gc=on", once_mounted="echo 1 >/sys/fs/f2fs/vda/gc_urgent"),
    **{f"vfat-{size}": Made("vfat", ("-s", str(size // 512))) for size in (512, 1024, 2048, 8192, 16384, 32768)},
    # Too few clusters for FAT32.
    "vfat-65536": Made("vfat", ("-F", "16", "-s", "128")),
    **{f"exfat-{size}": Made("exfat", ("-c", str(size))) for size in (512, 1024, 2048, 8192, 16384, 32768, 65536)},
}
"""Further recordings of `make truth`."""

KERNELS = {
    "arm64-5.10": Wanted("bullseye", "arm64"),
    "arm64-6.1": Wanted("bookworm", "arm64"),
    "arm64-6.12": Wanted("trixie", "arm64"),
    "arm64-6.12-16k": Wanted("trixie", "arm64", 16384),
    "arm64-sid": Wanted("sid", "arm64"),
    "arm64-sid-16k": Wanted("sid", "arm64", 16384),
    "amd64-6.1": Wanted("bookworm"),
    "amd64-6.12": Wanted("trixie"),
}
"""Kernels of the generations that Android has or will have. Debian's configuration is similar."""

BESIDES = ("arm64-5.10", "arm64-6.12-16k", "arm64-sid")
"""Kernels with further recordings besides ext4 and F2FS."""

F2FS_FEATURES = "extra_attr,project_quota,quota,verity,encrypt,compression"


F2FS_16K = "f2fs_16k.img.xz"
"""An image made with these features and casefold by `mkfs.f2fs -b 16384` of March 2024.

F2FS needs blocks of 16 KiB on pages of 16 KiB. f2fs-tools 1.16, the newest in Debian, cannot create them.
"""


def of_android(kernel: Wanted) -> dict[str, Made]:
    """Return filesystems with Android's features and mount options, as far as the kernel supports them."""
    ext4 = (*ANDROID[:1], f"{ANDROID[1]},verity,quota,project", *ANDROID[2:])
    features, options, further = F2FS_FEATURES, "inlinecrypt,atgc", ()
    if kernel.suite != "bullseye":
        # Since Linux 5.12, and 5.13 together with encryption.
        features, options, further = f"{features},casefold", f"{options},checkpoint_merge", ("-C", "utf8")
    blank = F2FS_16K if kernel.page_bytes == 16384 else ""
    return {
        "ext4": Made("ext4", ext4, "noatime,noauto_da_alloc,discard", kernel=kernel),
        "f2fs": Made("f2fs", ("-O", features, *further), f"noatime,{options}", kernel=kernel, blank=blank),
    }


PLAIN = ("crypt", "cipher_null-ecb - 0 /dev/vda 0")
"""A null cipher: requests pass through dm-crypt and its threads, and the content on the disk remains readable."""


def _besides(kernel: Wanted) -> dict[str, Made]:
    """Return further configurations of phones: cards, compressed files, several CPUs."""
    ext4, f2fs = of_android(kernel).values()
    stable = tuple(arg.replace("encrypt", "encrypt,stable_inodes") for arg in ext4.mkfs)
    compressed = f"{f2fs.options},compress_algorithm=lz4,compress_extension=*"
    return {
        "f2fs-compressed": f2fs._replace(options=compressed),
        "f2fs-two-cpus": f2fs._replace(cpus=2),
        "ext4-fscrypt": ext4._replace(mkfs=stable, encrypted="secret"),
        "f2fs-fscrypt": f2fs._replace(encrypted="secret"),
        "f2fs-dm-crypt": f2fs._replace(mapped=PLAIN),
        "f2fs-partition": f2fs._replace(first_byte=1 << 20),
        "vfat": Made("vfat", kernel=kernel),
        "exfat": Made("exfat", kernel=kernel),
    }


BY_KERNEL = {
    f"{name}-{fs_type}": made
    for name, kernel in KERNELS.items()
    for fs_type, made in (of_android(kernel) | (_besides(kernel) if name in BESIDES else {})).items()
}

TESTED = (*(name for name in RECORDINGS if name != "f2fs"), "arm64-5.10-f2fs", "arm64-6.12-16k-ext4")
"""Recordings in every run of the tests, with the oldest kernel and one with pages larger than blocks.

F2FS is recorded with two CPUs, which includes all that happens with one.
"""

ALL = RECORDINGS | FURTHER | BY_KERNEL


def missing(name: str) -> str | None:
    """Return why this recording is not possible here, or None. Fetches and compiles what it needs."""
    made = ALL[name]
    lacking = host.missing() if made.on_host else guest.missing(made.kernel.architecture)
    if lacking is None and not iotrace(made).is_file():
        lacking = f"needs {iotrace(made)}: make probes-prove"
    if lacking is None:
        try:
            build.workload(made.kernel.architecture)
            if not made.on_host:
                kernel.debian(made.kernel)
        except OSError as error:
            lacking = f"needs what cannot be fetched: {error}"
    return lacking


@needs()  # root or a guest, by the recording
def make(name: str, directory: Path, seed: int = 1, **options: str) -> Recording:
    """Make the recording in an empty directory. `options` are those of `guest.record`."""
    made = ALL[name]
    place = host if made.on_host else guest
    place.record(directory, made, iotrace(made), seed=seed, **({} if made.on_host else options))
    return opened(name, directory)


def opened(name: str, directory: Path) -> Recording:
    """Return the recording that `make` left in `directory`."""
    made = ALL[name]
    mark_byte = (host if made.on_host else guest).MARK_BYTE
    return Recording(directory, made.fs_type, mark_byte, made.kernel.page_bytes, made.encrypted, made.first_byte)


def iotrace(made: Made) -> Path:
    """Return the path of the recorder for this machine, or of the static one for a guest."""
    target = {"amd64": "x86_64-linux-musl", "arm64": "aarch64-linux-musl"}[made.kernel.architecture]
    return build.OUT.parent / "probes" / ("native" if made.on_host else target) / "iotrace"
