"""Record in a virtual machine without acceleration, on any filesystem of Debian's kernel. Needs no root.

The disk under test is behind QEMU's blklogwrites. A second disk receives a tar archive of the recording. The
architecture and kernel of the guest can differ from this machine's (kernel.py).
"""

from __future__ import annotations

import lzma
import shlex
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support.needs import needs

from androstep_analysis.datasets.unpack import unpack
from harness import archive, build, kernel
from harness.made import Made

DATA = Path(__file__).parents[1] / "data"

FS_BYTES = 300 << 20
"""FAT32 needs 65,525 clusters of 4 KiB."""
MARK_BYTE = FS_BYTES
DISK_BYTES = FS_BYTES + (1 << 20)
RESULT_BYTES = 512 << 20
PATIENCE_S = 300


class Machine(NamedTuple):
    """QEMU's program and arguments for a Debian architecture, and the kernel's options."""

    program: str
    arguments: tuple[str, ...]
    options: str


EMULATED = ("-accel", "tcg,thread=single")
"""One thread emulates all processors in turn. With a thread for each, QEMU 7.2 crashed or hung now and then on a busy
machine, as 9.2 does (espressif/qemu#175)."""

MACHINES = {
    "amd64": Machine(
        "qemu-system-x86_64",
        (*EMULATED, "-cpu", "max"),
        # On a busy machine the timer may be late, and a kernel that checks it would panic.
        "console=ttyS0 mitigations=off tsc=reliable no_timer_check",
    ),
    "arm64": Machine("qemu-system-aarch64", (*EMULATED, "-M", "virt", "-cpu", "cortex-a76"), "console=ttyAMA0"),
}

MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096"),
    "f2fs": ("mkfs.f2fs", "-q", "-f"),
    "vfat": ("mkfs.vfat", "-F", "32", "-s", "8"),
    "exfat": ("mkfs.exfat", "-c", "4K"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
    "nilfs2": ("mkfs.nilfs2", "-q", "-f"),
}

TESTED = ("ext4", "f2fs", "vfat", "exfat")
"""Filesystems that the tests need. The others are for datasets."""

INIT = """#!/bin/sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mount -t tracefs trace /sys/kernel/tracing
mount -t tmpfs -o size=600m tmp /tmp
for module in $(cat /modules); do insmod /lib/$module || echo "no module $module"; done
mkdir -p /mnt /tmp/out/oplog
. /run.sh >/tmp/out/guest.log 2>&1 && echo complete >>/tmp/out/guest.log
dmesg >/tmp/out/dmesg
tar -cf /dev/vdb -C /tmp/out .
sync
poweroff -f
"""

RUN = """set -x
echo 100 >/proc/sys/vm/dirty_writeback_centisecs; echo 200 >/proc/sys/vm/dirty_expire_centisecs
attach() {{ mount -t {fs_type} -o {options} {device} /mnt && {unlock}; }}
mark() {{ workload mark /dev/vda {mark_byte} $1; }}
{map} || return
attach && workload prep {root} /tmp/out/oplog {seed} {size} && umount /mnt && mark prepared && attach || return
{once_mounted}
iotrace -o /tmp/out/recording --device {device} --preset {preset} -- sh -c '
  mark() {{ workload mark /dev/vda {mark_byte} $1; }}
  mark begin && workload run {root} /tmp/out/oplog {seed} {size} && umount /mnt && mark end
'
"""

RUN_CALLS = """set -x
mount -t {fs_type} -o noatime /dev/vda /mnt || return
iotrace -o /tmp/out/recording --device /dev/vda --preset block+fs+syscalls -- {strace} {command}
"""


def missing(architecture: str = "amd64") -> str | None:
    """Return why a guest of this architecture cannot run here, or None."""
    programs = (MACHINES[architecture].program, "cpio", "gcc", *(MKFS[name][0] for name in TESTED))
    lacking = [program for program in programs if shutil.which(program) is None]
    return f"needs {', '.join(lacking)}" if lacking else archive.missing()


def record(
    directory: Path, made: Made, iotrace: Path, *, seed: int = 1, size: int = 8, preset: str = "block+fs"
) -> None:
    """Record the workload with iotrace in a guest.

    Writes disk.img, base.img, disk.log, oplog/ and recording/ into `directory`.
    """
    root = f"/mnt/{made.encrypted}" if made.encrypted else "/mnt"
    script = RUN.format(
        fs_type=made.fs_type,
        device="/dev/dm-0" if made.mapped else "/dev/vda1" if made.first_byte else "/dev/vda",
        root=root,
        unlock=shlex.join(["locker", "/mnt", root]) if made.encrypted else "true",
        map=shlex.join(["mapper", str(FS_BYTES // 512), *made.mapped]) if made.mapped else "true",
        options=made.options,
        once_mounted=made.once_mounted,
        seed=seed,
        size=size,
        mark_byte=MARK_BYTE,
        preset=preset,
    )
    architecture = made.kernel.architecture
    tools = [build.tool(name, architecture) for name in ("mapper", "locker")]
    programs = [build.workload(architecture), *tools, iotrace]
    run(
        *(directory, made.fs_type, programs, script, made.cpus),
        **{"mkfs": made.mkfs, "debugfs": made.debugfs, "blank": made.blank, "wanted": made.kernel},
        first_byte=made.first_byte,
    )


def record_calls(
    directory: Path,
    fs_type: str,
    iotrace: Path,
    programs: list[Path],
    command: Sequence[str],
    *,
    options: Sequence[str] = ("-yy", "-ttt", "-T", "-s", "16"),
    cpus: int = 1,
) -> None:
    """Record one run of `command` with iotrace and strace, as recording/ and app.strace in `directory`.

    The first word of `command` is one of `programs`. The filesystem is mounted on /mnt. `options` are strace's.
    """
    program = shutil.which("strace")
    assert program is not None
    strace = shlex.join(["strace", "-f", "-o", "/tmp/out/app.strace", *options])
    script = RUN_CALLS.format(fs_type=fs_type, strace=strace, command=shlex.join(command))
    run(directory, fs_type, [iotrace, Path(program), *programs], script, cpus, log_writes=False)


@needs("qemu")
def run(
    directory: Path,
    fs_type: str,
    programs: list[Path],
    script: str,
    cpus: int = 1,
    *,
    log_writes: bool = True,
    mkfs: Sequence[str] = (),
    debugfs: str = "",
    blank: str = "",
    wanted: kernel.Wanted = kernel.USUAL,
    first_byte: int = 0,
) -> None:
    """Run a shell script as root in a guest with these programs and a new, unmounted filesystem on /dev/vda.

    Writes disk.img, base.img, disk.log and the files of the guest's /tmp/out into `directory`.

    Parameters
    ----------
    log_writes
        Log all writes to the disk in disk.log.
    mkfs
        Further arguments of mkfs.
    debugfs
        A command of debugfs that changes the new filesystem.
    blank
        A file of tests/data with the new filesystem, instead of mkfs.
    first_byte
        Offset of the filesystem on the disk. Unless it is 0, the filesystem is in partition /dev/vda1.

    Raises
    ------
    RuntimeError
        The script fails or does not end.
    """
    disk(directory, fs_type, mkfs=mkfs, debugfs=debugfs, blank=blank, first_byte=first_byte)
    booted = kernel.debian(wanted, () if fs_type in TESTED else (fs_type,))
    (directory / "kernel").write_text(booted.package)
    initramfs(directory, booted, programs, script)
    command = qemu(directory, MACHINES[wanted.architecture], booted, cpus, log_writes=log_writes)
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the guest did not end within {PATIENCE_S} s:\n{console(directory)}") from None
    collect(directory)


def disk(
    directory: Path,
    fs_type: str,
    *,
    mkfs: Sequence[str] = (),
    debugfs: str = "",
    blank: str = "",
    first_byte: int = 0,
) -> None:
    """Create disk.img and base.img, the disk of a guest, and an empty log and result."""
    image = directory / "disk.img"
    with image.open("wb") as file:
        file.truncate(FS_BYTES - first_byte)
    if blank:
        with lzma.open(DATA / blank) as packed, image.open("r+b") as file:
            shutil.copyfileobj(packed, file)
    else:
        subprocess.run([*MKFS[fs_type], *mkfs, image], check=True, stdout=subprocess.DEVNULL)
    if debugfs:
        subprocess.run(["debugfs", "-w", "-R", debugfs, image], check=True, capture_output=True)
    if first_byte:
        _in_partition(image, first_byte)
    with image.open("r+b") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["cp", "--sparse=always", image, directory / "base.img"], check=True)
    with (directory / "result").open("wb") as file:
        file.truncate(RESULT_BYTES)
    (directory / "disk.log").touch()


def _in_partition(image: Path, first_byte: int) -> None:
    """Move the filesystem into the only partition of a partition table (MBR, type Linux)."""
    alone = image.rename(image.with_suffix(".alone"))
    step = ("bs=1M", f"seek={first_byte >> 20}", "conv=sparse", "status=none")
    subprocess.run(["dd", f"if={alone}", f"of={image}", *step], check=True)
    sectors = (first_byte // 512, alone.stat().st_size // 512)
    with image.open("r+b") as file:
        file.seek(446)
        file.write(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", *sectors) + bytes(48) + b"\x55\xaa")
    alone.unlink()


def collect(directory: Path) -> None:
    """Unpack /tmp/out of a guest that has ended. Raises `RuntimeError` if its script failed."""
    result = directory / "result"
    unpack(result, directory, RESULT_BYTES)
    result.unlink()
    log = directory / "guest.log"
    if not log.exists():
        raise RuntimeError(f"the guest went down:\n{console(directory)}")
    said = log.read_text(errors="replace")
    if not said.endswith("complete\n"):
        raise RuntimeError(f"the guest did not complete:\n{said[-2000:]}")


def initramfs(
    directory: Path, booted: kernel.Kernel, programs: list[Path], script: str, further: Path | None = None
) -> None:
    """Create initramfs.cpio with the programs, the script and the files of directory `further`."""
    root = directory / "initramfs"
    for name in ("bin", "lib", "lib64", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "bin" / "sh").symlink_to("busybox")
    for program in (booted.busybox, *programs):
        shutil.copy(program, root / "bin" / program.name)
        for library in _libraries(program):
            target = root / library.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    for path in booted.modules:
        (root / "lib" / path.name).write_bytes(kernel.module(path))
    (root / "modules").write_text("\n".join(path.name for path in booted.modules))
    (root / "run.sh").write_text(script)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    if further is not None:
        shutil.copytree(further, root, symlinks=True, dirs_exist_ok=True)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with (directory / "initramfs.cpio").open("wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), stdout=out, check=True)
    shutil.rmtree(root)


def _libraries(program: Path) -> list[Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(word) for word in listed.split() if word.startswith("/")]


def qemu(directory: Path, machine: Machine, booted: kernel.Kernel, cpus: int, *, log_writes: bool) -> list[str | Path]:
    """Return the command that boots the guest of `disk` and `initramfs`."""
    logged = (
        *("-blockdev", f"driver=file,node-name=log,filename={directory / 'disk.log'}"),
        *("-blockdev", "driver=blklogwrites,node-name=logged,file=image,log=log,log-sector-size=512,discard=unmap"),
    )
    return [
        *(machine.program, *machine.arguments, "-smp", str(cpus), "-m", "1536", "-nodefaults"),
        *("-nographic", "-no-reboot", "-serial", f"file:{directory / 'console.log'}"),
        *("-kernel", booted.vmlinuz, "-initrd", directory / "initramfs.cpio"),
        *("-append", f"{machine.options} quiet loglevel=3 panic=-1 rdinit=/init"),
        *("-blockdev", f"driver=file,node-name=image,filename={directory / 'disk.img'},discard=unmap"),
        *(logged if log_writes else ()),
        *("-device", f"virtio-blk-pci,drive={'logged' if log_writes else 'image'},discard=on"),
        *("-blockdev", f"driver=file,node-name=result,filename={directory / 'result'}"),
        *("-device", "virtio-blk-pci,drive=result"),
    ]


def console(directory: Path) -> str:
    """Return the end of the console log of the guest's kernel."""
    return (directory / "console.log").read_text(errors="replace")[-2000:]
