"""Android's run-as, pm, am, setprop and an app for the phone in a box, which Debian does not have.

run-as does what AOSP's does (system/core, run-as/run-as.cpp) as far as a caller sees it: it accepts only debuggable
packages of packages.list, changes the user, enters the package's directory and runs the command. It is owned by root
with the set-user-ID bit instead of Android's file capabilities, and knows no SELinux.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support.boxed_phone import Box
from support.compiling import gcc

UID = 10123
"""User of the first package."""

_RUN_AS = r"""
#define _GNU_SOURCE
#include <err.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char name[256], directory[512];
    unsigned uid;
    int is_debuggable, is_known = 0;
    FILE *list = fopen("/data/system/packages.list", "r");

    if (argc < 3)
        errx(1, "usage: run-as <package-name> <command>");
    if (!list)
        err(1, "couldn't open /data/system/packages.list");
    while (!is_known && fscanf(list, "%255s %u %d %511s%*[^\n]", name, &uid, &is_debuggable, directory) == 4)
        is_known = !strcmp(name, argv[1]);
    if (!is_known)
        errx(1, "unknown package: %s", argv[1]);
    if (!is_debuggable)
        errx(1, "package not debuggable: %s", argv[1]);
    if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
        err(1, "couldn't change to user %u", uid);
    if (chdir(directory))
        err(1, "couldn't chdir to %s", directory);
    execvp(argv[2], argv + 2);
    err(1, "exec failed for %s", argv[2]);
}
"""

_PM = """#!/bin/sh
case $1 in
list) [ "$2" = packages ] && cat /system/packages ;;
path) sed -n "s|^\\(package:.*\\)=$2 uid:.*|\\1|p" /system/packages ;;
*) exit 1 ;;
esac
"""

_APP = r"""
#include <err.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* app PACKAGE APK SHOWN: read the APK, create a file in place of the first frame, and run on. */
int main(int argc, char **argv)
{
    static char data[1 << 16];
    size_t length;
    int fd;

    if (argc != 4)
        errx(1, "usage: app PACKAGE APK SHOWN");
    if (strcmp(argv[0], argv[1])) { /* a process of Android has the name of its package */
        argv[0] = argv[1];
        execv("/system/bin/app", argv);
        err(1, "exec");
    }
    length = strlen(argv[1]);
    prctl(PR_SET_NAME, argv[1] + (length > 15 ? length - 15 : 0));
    fd = open(argv[2], O_RDONLY);
    if (fd < 0)
        err(1, "%s", argv[2]);
    while (read(fd, data, sizeof(data)) > 0)
        ;
    if (open(argv[3], O_WRONLY | O_CREAT, 0600) < 0)
        err(1, "%s", argv[3]);
    for (;;)
        pause();
}
"""

_AM = """#!/bin/sh
shown=/dev/shm/shown
case $1 in
force-stop)
    while pids=$(pidof "$2"); do kill -9 $pids; sleep 0.05; done
    rm -f $shown ;;
start)
    while [ $# -gt 1 ]; do [ "$1" != -p ] || package=$2; shift; done
    apk=$(pm path "$package")
    [ "$apk" ] || { echo "Error: Activity not started, unable to resolve Intent"; exit 0; }
    begin=$(date +%s%N)
    sleep 0.1  # as long as Android takes to create the process
    setsid /system/bin/app "$package" "${apk#package:}" $shown </dev/null >/dev/null 2>&1 &
    until [ -e $shown ]; do sleep 0.01; done
    ms=$(/usr/bin/expr \\( $(date +%s%N) - $begin \\) / 1000000)
    echo "Status: ok"; echo "LaunchState: COLD"; echo "TotalTime: $ms"; echo "WaitTime: $ms"; echo Complete ;;
*) exit 1 ;;
esac
"""

_PROPERTY = "/dev/shm/perf.drop_caches"

_SETPROP = f"""#!/bin/sh
[ "$1" = perf.drop_caches ] || exit 1
for apk in $(sed -n "s|^package:\\(.*\\)=[^=]* uid:.*|\\1|p" /system/packages); do
    /usr/bin/dd "if=$apk" iflag=nocache count=0 2>/dev/null || exit 1
done
echo 0 >{_PROPERTY}
"""

_GETPROP = f"""#!/bin/sh
[ "$1" != perf.drop_caches ] || cat {_PROPERTY}
"""


def install(phone: Box, place: Path, packages: dict[str, bool]) -> dict[str, Path]:
    """Give the phone packages, of which the value says whether they are debuggable; return their APKs as seen here.

    Their users are `UID` and those that follow. As on Android, adb's shell may not list /data/app or packages.list.
    """
    _compiled(phone, place, "run-as", _RUN_AS).chmod(0o4755)
    _script(phone, "pm", _PM)
    (phone.data / "app").chmod(0o771)
    listed, said, apks = [], [], {}
    for uid, (name, is_debuggable) in enumerate(packages.items(), UID):
        apk = phone.data / f"app/~~dG9w==/{name}-c3Vm==/base.apk"
        apk.parent.mkdir(parents=True)
        apk.parent.parent.chmod(0o771)
        apk.write_bytes(os.urandom(1 << 20))
        apks[name] = apk
        own = phone.data / "data" / name
        own.mkdir(parents=True)
        own.chmod(0o700)
        os.chown(own, uid, uid)
        listed.append(f"{name} {uid} {int(is_debuggable)} /data/data/{name} default:targetSdkVersion=34 none\n")
        said.append(f"package:/data/{apk.relative_to(phone.data)}={name} uid:{uid}\n")
    packages_list = phone.data / "system/packages.list"
    packages_list.write_text("".join(listed))
    packages_list.chmod(0o600)
    (phone.root / "system/packages").write_text("".join(said))
    return apks


def install_app(phone: Box, place: Path, package: str) -> Path:
    """Give the phone a package that `am` can start, and whose pages `setprop` can drop; return its APK as seen here."""
    apk = install(phone, place, {package: False})[package]
    _compiled(phone, place, "app", _APP)
    for name, text in {"am": _AM, "setprop": _SETPROP, "getprop": _GETPROP}.items():
        _script(phone, name, text)
    os.sync()
    return apk


def _compiled(phone: Box, place: Path, name: str, source: str) -> Path:
    """Compile a program and copy it to the phone; return it there."""
    (place / f"{name}.c").write_text(source)
    gcc(place / f"{name}.c", "-o", place / name)
    program = phone.root / "system/bin" / name
    shutil.copy(place / name, program)
    program.chmod(0o755)
    return program


def _script(phone: Box, name: str, text: str) -> None:
    (phone.root / "system/bin" / name).write_text(text)
    (phone.root / "system/bin" / name).chmod(0o755)
