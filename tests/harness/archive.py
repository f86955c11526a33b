"""Fetch and unpack packages of Debian's archive, of any suite and architecture. They are never installed.

apt uses sources, lists and a state in build/harness/archive, separately for each suite and architecture, and checks
signatures with the keys of this machine. Fetched packages are reused.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import build

OUT = build.OUT / "archive"

MIRROR = "http://deb.debian.org"

SECURED = ("bookworm", "trixie")
"""Suites with security updates. The security suite of bullseye lists packages that the mirror no longer has."""


def missing() -> str | None:
    """Return why packages cannot be fetched and unpacked here, or None."""
    lacking = [program for program in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(program) is None]
    return f"needs {', '.join(lacking)}" if lacking else None


def package(suite: str, architecture: str, name: str) -> Path:
    """Return the directory of an unpacked package, named after package and version.

    The version is the newest one at the first call. Raises `OSError` if apt cannot fetch the package.
    """
    directory = OUT / f"{suite}-{architecture}"
    kept = directory / "packages" / name
    with build.exclusive():
        if not kept.is_dir():
            _fetch(directory, suite, architecture, name, kept)
    (unpacked,) = kept.iterdir()
    return unpacked


@functools.cache
def depended_on(suite: str, architecture: str, name: str, begin: str) -> list[str]:
    """Return the dependencies of a package with names that begin with `begin`."""
    directory = OUT / f"{suite}-{architecture}"
    with build.exclusive():
        said = _asked(directory, suite, architecture, "apt-cache", "depends", name).stdout
    depends = [line.strip().partition(": ") for line in said.splitlines()]
    return [depended for kind, _, depended in depends if kind == "Depends" and depended.startswith(begin)]


def _fetch(directory: Path, suite: str, architecture: str, name: str, kept: Path) -> None:
    part = directory / "part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    got = _asked(directory, suite, architecture, "apt-get", "-qq", "download", name, cwd=part)
    archives = list(part.glob("*.deb"))
    if got.returncode or len(archives) != 1:
        raise OSError(f"apt cannot download {name} of {suite} for {architecture}: {got.stderr.strip()}")
    (archive,) = archives
    subprocess.run(["dpkg-deb", "-x", archive, archive.with_suffix("")], check=True)
    archive.unlink()
    kept.parent.mkdir(exist_ok=True)
    part.rename(kept)


def _asked(
    directory: Path, suite: str, architecture: str, *command: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run apt. If it fails, update the lists and run it again: old lists name packages that no longer exist."""
    settings = _settings(directory, suite, architecture)
    program, *arguments = command
    asked = [program, *settings, *arguments]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=cwd)
    if answer.returncode:
        update = ["apt-get", *settings, "-qq", "update"]
        updated = subprocess.run(update, capture_output=True, text=True, check=False)
        if updated.returncode:
            raise OSError(f"apt cannot read {suite} for {architecture}: {updated.stderr.strip()}")
        answer = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=cwd)
    return answer


def _settings(directory: Path, suite: str, architecture: str) -> Sequence[str]:
    """Return options of apt for a state separate from this machine's, and create the files that they name."""
    for name in ("lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    lines = [f"deb {MIRROR}/debian {suite} main"]
    if suite in SECURED:
        lines.append(f"deb {MIRROR}/debian-security {suite}-security main")
    sources = directory / "sources.list"
    sources.write_text("\n".join(lines) + "\n")
    (directory / "status").touch()
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": directory / "lists",
        "Dir::State::Status": directory / "status",
        "Dir::Cache": directory / "cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    return [f"-o{name}={value}" for name, value in options.items()]
