"""List the files that adb's shell may see, with their inode numbers (read by `fs.shell_listing`).

Only files of the filesystem at /data are listed, because only there a number is known to be that of the traced inode.
/sdcard is a filesystem with another device number (FUSE or sdcardfs). Its server may report numbers of its own (AOSP,
system/core, sdcard/sdcard.c, attr_from_stat). Android/data and Android/obb below it are bind mounts of /data since
Android 11, if there is no sdcardfs (system/vold, model/EmulatedVolume.cpp, mountFuseBindMounts).

adb's shell may not list /data/app (mode 0771), but the directories of packages in it, which pm names. The files of a
debuggable package are listed by run-as. Its output goes through a pipe, as another SELinux domain writes it.

`find -printf` has neither device number nor time of change in any toybox (0.8.3 in Android 11 to 0.8.12 in 16), so that
`stat -c` prints each file. A name is the last field of its record. A random token begins each record, so that a name
with newlines cannot forge one.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Final

from androstep_analysis.device.session import Session
from androstep_analysis.device.session.facts import DATA
from androstep_analysis.device.transport import DeviceError, LinkLost, quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.fs import shell_listing

ROOTS: Final = ("/data/app", "/data/local/tmp", "/sdcard", "/sdcard/Android/data", "/sdcard/Android/obb")
"""Directories to list in addition to those of packages, if they are on the filesystem of /data."""

_LISTING_S: Final = 600.0

_RECORD: Final = "file %d %i %f %s %z %n"
"""Device, inode, mode, size, time of change and name (toybox, toys/other/stat.c)."""

_OF_PACKAGE: Final = """
export TZ=UTC0
for d in "$PWD" "/data/user_de/0/$1"; do
    (cd "$d" && find "$(pwd -P)" -xdev -exec stat -c "$2" {} +)
done
"""

_OF_SHELL: Final = r"""
stamp() { printf '%s %s %s %s\n' "$token" "$1" "$(date +%s.%N)" "$(cat /proc/uptime)"; }
export TZ=UTC0
set -f
IFS='
'
dev=$(stat -L -c %d "$data") && block=$(stat -f -c %S "$data") || exit 1
exec 2>/dev/null
stamp clock
printf '%s mounts\n' "$token"
cat /proc/self/mountinfo
printf '%s filesystem %s %s\n' "$token" "$dev" "$block"
tops=$({
    pm list packages -f | sed -n 's|^package:\(/.*\)/[^/]*=[^=]*$|\1|p'
    for d in $roots; do cd "$d" && pwd -P; done
} | sort -u)
tops=$(stat -c '%d %n' $tops | sed -n "s|^$dev ||p")
[ -z "$tops" ] || find $tops -xdev -exec stat -c "$token $record" {} +
for p in $packages; do run-as "$p" sh -c "$of_package" sh "$p" "$token $record" | cat; done
stamp end
"""


def permitted(device: Session, packages: Sequence[str]) -> list[str]:
    """Return the packages whose files run-as may list; print a message about each other."""
    allowed = []
    for package in packages:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", package, re.ASCII):
            raise DeviceError(f"{package!r}: not the name of a package, such as org.example.app")
        answer = device.query(f"run-as {package} true")
        if answer.status:
            notify(f"{device.name}: files of {package} are not listed: {' '.join(answer.complaint.split())}")
        else:
            allowed.append(package)
    return allowed


def write(device: Session, packages: Sequence[str], target: str) -> None:
    """Write a listing to a file of the device, and write the file to storage.

    If that fails, a message is printed and there is no file.
    """
    values = {
        "token": secrets.token_hex(16),
        "data": DATA,
        "record": _RECORD,
        "roots": "\n".join(ROOTS),
        "packages": "\n".join(packages),
        "of_package": _OF_PACKAGE,
    }
    assignments = "\n".join(f"{name}={quoted([value])}" for name, value in values.items())
    part, whole = quoted([f"{target}.part"]), quoted([target])
    begin = f"umask 077; {assignments}; printf '{shell_listing.MAGIC} %s\\n' \"$token\" >{part}"
    synced = f"fsync {whole} 2>/dev/null || sync {whole} 2>/dev/null || sync"
    text = f"{begin} && ({_OF_SHELL}) >>{part} && mv {part} {whole} && {{ {synced}; }}"
    try:
        device.ensure(text, "list files", timeout_s=_LISTING_S)
    except LinkLost:
        raise
    except DeviceError as error:
        notify(f"{error}; names of files will be missing")
