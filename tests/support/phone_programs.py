"""Android's run-as and pm for the phone in a box, which Debian does not have.

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
[ "$1 $2" = "list packages" ] || exit 1
cat /system/packages
"""


def install(phone: Box, place: Path, packages: dict[str, bool]) -> dict[str, Path]:
    """Give the phone packages, of which the value says whether they are debuggable; return their APKs as seen here.

    Their users are `UID` and those that follow. As on Android, adb's shell may not list /data/app or packages.list.
    """
    source, program = place / "run_as.c", phone.root / "system/bin/run-as"
    source.write_text(_RUN_AS)
    gcc(source, "-o", place / "run-as")
    shutil.copy(place / "run-as", program)
    program.chmod(0o4755)
    (phone.root / "system/bin/pm").write_text(_PM)
    (phone.root / "system/bin/pm").chmod(0o755)
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
