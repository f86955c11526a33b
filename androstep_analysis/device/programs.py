"""Find the programs of probes/ for this machine and for the processors of devices.

A source checkout compiles a program for a processor when it is first needed, and again once its sources have changed.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import subprocess
from pathlib import Path

from androstep_analysis.common.errors import InputError
from androstep_analysis.device.transport.notices import notify

VARIABLE = "ANDROSTEP_PROBES"
"""Environment variable that names the only directory to search, with a subdirectory for each target."""

TARGETS = {
    **dict.fromkeys(("arm64-v8a", "aarch64", "arm64"), "aarch64-linux-musl"),
    **dict.fromkeys(("armeabi-v7a", "armv7l", "armv8l"), "arm-linux-musleabihf"),
    **dict.fromkeys(("x86_64", "amd64", "AMD64"), "x86_64-linux-musl"),
}
"""The compiler's target, by ``ro.product.cpu.abi`` of Android and by ``uname -m``."""

_PACKAGE = "androstep_probes"
_CHECKOUT = Path(__file__).parents[2]


def for_this_machine(name: str) -> Path:
    """Return the program for this machine: one compiled natively, else a static one.

    Raises `InputError` if there is none, with advice on how to get it.
    """
    if platform.system() != "Linux":
        raise InputError(
            f"{name} runs on Linux and on Android devices, not on {platform.system()}; name such a device with --on"
        )
    target = TARGETS.get(platform.machine())
    return _find(name, ["native"] if target is None else ["native", target])


def for_processor(name: str, abi: str) -> Path:
    """Return the static program for a device's processor, which is named as in `TARGETS`.

    Raises `InputError` if the processor is not supported or the program is missing.
    """
    target = TARGETS.get(abi)
    if target is None:
        raise InputError(f"{abi}: no program is built for this processor, only for {', '.join(sorted(TARGETS))}")
    return _find(name, [target])


def _find(name: str, targets: list[str]) -> Path:
    named = os.environ.get(VARIABLE)
    for target in targets:
        for directory in [Path(named)] if named else _directories():
            if os.access(path := directory / target / name, os.X_OK) and path.is_file():
                return _built(name, target) if directory == _build() and _is_outdated(path) else path
    if named is None and _is_checkout():
        return _built(name, targets[-1])
    raise InputError(f"there is no program {name} for {targets[-1]}{f' in {named}' if named else ''}; {advice()}")


def _is_outdated(program: Path) -> bool:
    """Return whether a source file is newer than a program of the checkout, as after an update."""
    built = program.stat().st_mtime_ns
    return any(path.stat().st_mtime_ns > built for path in (_CHECKOUT / "probes").rglob("*.[ch]"))


def _built(name: str, target: str) -> Path:
    """Compile one program in the checkout, unless it is up to date.

    A lock makes a second process wait until the first has compiled. Raises `InputError` with make's message on failure.
    """
    goal = Path("build", "probes", target, name)
    (_CHECKOUT / "build").mkdir(exist_ok=True)
    with (_CHECKOUT / "build" / ".compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        notify(f"compiling {name} for {target}; this takes about half a minute")
        command = ["make", "--no-print-directory", f"--jobs={os.cpu_count() or 1}", str(goal)]
        # If make runs this program, the child make must not use the parent's job slots.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
        try:
            done = subprocess.run(
                command, cwd=_CHECKOUT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        except OSError as error:
            raise InputError(f"cannot compile {name}: make cannot be run ({error}); {advice()}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
        raise InputError(f"cannot compile {name} for {target} ({said[0] if said else 'make failed'}); {advice()}")
    (_CHECKOUT / goal).touch()  # make leaves it alone if only other programs' sources are newer
    return _CHECKOUT / goal


def _is_checkout() -> bool:
    return (_CHECKOUT / "Makefile").is_file()


def _build() -> Path:
    return _CHECKOUT / "build" / "probes"


def _directories() -> list[Path]:
    """Return the build directory of the checkout and that of the installed package."""
    package = importlib.util.find_spec(_PACKAGE)
    installed = package.submodule_search_locations if package else None
    return [_build(), *map(Path, installed or ())]


def advice() -> str:
    """Return a sentence on how to get the programs of this version."""
    how = "build it with `make probes`" if _is_checkout() else "`pip install androstep-probes`"
    return f"{how}, or name a directory that has it in {VARIABLE}"
