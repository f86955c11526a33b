"""Install apps one after the other (Kim et al.: AppInstall), timing the copy and the installation separately."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import DeviceError
from androstep_analysis.device.workloads import apk
from androstep_analysis.device.workloads.log import Log, Ran, Stamped

_MAX_PACKAGES = 1000


@dataclass(frozen=True)
class Install:
    """Copies each of `packages` to the device, verified, and installs it, `repeats` times.

    Packages are uninstalled between repeats and at the end. A package that is installed already is refused, because it
    would be replaced. With `streamed`, the installer reads the package from its standard input, as with ``adb
    install``.
    """

    packages: tuple[Path, ...]
    name: str = "install"
    repeats: int = 1
    streamed: bool = False

    def run(self, device: Session) -> Ran:
        """Install the packages on a device."""
        names = {path: apk.package(path) for path in self.packages}
        if len(set(names.values())) < len(names) or not names or self.repeats < 1:
            raise InputError("give at least one package, each only once, and 1 repeat or more")
        there = _installed(device)
        if present := sorted(there & set(names.values())):
            raise InputError(f"{device.name}: {present[0]} is installed already and would be replaced; leave it out")
        log = Log(device, self.name)
        with _removed_afterwards(log, list(names.values())):
            for log.repeat in range(self.repeats):
                for number, path in enumerate(self.packages):
                    target = f"{device.directory}/{number}.apk"
                    self._push(log, path, target)
                    self._install(log, path, target)
                    device.sh(["rm", "-f", target])
                for name in names.values() if log.repeat + 1 < self.repeats else ():
                    _uninstall(log, name)
        return log.ran()

    def _push(self, log: Log, path: Path, target: str) -> None:
        begin_ns = log.now_ns()
        log.device.push(path, target)
        log.add("push", path.name, begin_ns, log.now_ns(), bytes=path.stat().st_size)

    def _install(self, log: Log, path: Path, target: str) -> None:
        if self.streamed:
            done = log.stamped(["pm", "install", "-S", str(path.stat().st_size)], stdin=target)
        else:
            done = log.stamped(["pm", "install", target])
        _judge(log, "install", path.name, done)


def packages(path: Path) -> tuple[Path, ...]:
    """Return the package at `path`, or those in a directory, sorted by name; `InputError` if there is none."""
    files = tuple(sorted(path.glob("*.apk"))) if path.is_dir() else (path,)
    if not 0 < len(files) <= _MAX_PACKAGES or not all(one.is_file() for one in files):
        raise InputError(
            f"{printable(str(path))}: not a package; give an .apk file, or a directory of 1 to {_MAX_PACKAGES}"
        )
    return files


@contextlib.contextmanager
def _removed_afterwards(log: Log, names: list[str]) -> Iterator[None]:
    """Uninstall these packages after the block, even if it raised."""
    try:
        yield
    finally:
        left = _installed(log.device)
        for name in names:
            if name in left:
                _uninstall(log, name)


def _uninstall(log: Log, name: str) -> None:
    _judge(log, "uninstall", name, log.stamped(["pm", "uninstall", name]))


def _judge(log: Log, what: str, label: str, done: Stamped) -> None:
    """Log a step of the package manager, which may exit with 0 on failure, so ``Success`` must be printed."""
    output = f"{done.answer.text}\n{done.answer.errors.decode('utf-8', 'replace')}".strip()
    failed = done.answer.status != 0 or "Success" not in output.split()
    detail = output[:1000] if failed else None
    log.add(what, label, done.begin_ns, done.end_ns, outcome="failed" if failed else "completed", detail=detail)


def _installed(device: Session) -> set[str]:
    answer = device.query("pm list packages")
    if answer.status:
        raise DeviceError(f"{device.name}: `pm list packages` failed ({answer.complaint}); is this an Android device?")
    return {line.removeprefix("package:") for line in answer.text.split() if line.startswith("package:")}
