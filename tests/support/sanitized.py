"""Compile the decoders with AddressSanitizer and UndefinedBehaviorSanitizer, and run pytest with them.

As a plugin (``pytest -p support.sanitized``) it loads the sanitized library instead of the normal one, and records
which of its functions are called.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from androstep_analysis import native
from support import machine

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
LIBRARY = ROOT / "build" / "native-sanitized" / "libandrostep.so"

_FLAGS = (
    *("-std=c11", "-g", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)

LEFT_OUT = ("browser", "qemu", "root")
"""Tests with these markers run without the sanitizers, which would not cover a browser or a guest."""

_REPORTS = "SANITIZER_REPORTS"
"""The variable that names the directory for the sanitizers' reports and the names of called functions."""


def build() -> Path:
    """Compile the sanitized library if a source is newer; skip the calling test without gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    sources = sorted(native.LIBRARY.parent.rglob("*.[ch]"))
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    with machine.alone(str(LIBRARY.parent)):
        if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            partial = LIBRARY.with_suffix(".part")
            compiled = [str(source) for source in sources if source.suffix == ".c"]
            subprocess.run(["gcc", *_FLAGS, f"-I{native.LIBRARY.parent}", *compiled, "-o", str(partial)], check=True)
            partial.replace(LIBRARY)
    return LIBRARY


def marked() -> list[Path]:
    """Return the files with tests marked `sanitized`.

    Collecting all files would take longer than most of these tests.
    """
    return [path for path in sorted(TESTS.rglob("test_*.py")) if "mark.sanitized\n" in path.read_text("utf-8")]


def run(files: list[Path], reports: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of these files that are marked `sanitized` with the sanitized decoders, in two processes.

    A process ends when a sanitizer finds something; xdist reports its test and continues in another process.
    """
    build()
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:log_path={reports}/asan",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={reports}/ubsan",
        # Python's own allocator reuses memory and would hide reads past the end of bytes.
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(TESTS),
        _REPORTS: str(reports),
    }
    chosen = " and not ".join(("sanitized", *LEFT_OUT))
    plugins = ("-p", "support.sanitized", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-n", "2", *plugins, "-m", chosen, *files]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def exported() -> set[str]:
    """Return the names of the functions that Python can call."""
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    return {name for _, kind, name in map(str.split, listed.splitlines()) if kind == "T"}


def called(reports: Path) -> set[str]:
    """Return the names of the functions that the tests of a run called."""
    return {name for path in reports.glob("called.*") for name in path.read_text("utf-8").split()}


# --- in the processes that run the tests -----------------------------------------------------------------------------

_called: set[str] = set()


class _Recorded(ctypes.CDLL):
    """A library that records the names of its called functions."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        plain = self._FuncPtr

        class Function(plain):  # type: ignore[misc, valid-type]
            _flags_, _restype_ = plain._flags_, plain._restype_

            def __call__(self, *arguments: Any) -> Any:
                _called.add(self.__name__)
                return super().__call__(*arguments)

        self._FuncPtr = Function


def pytest_configure(config: pytest.Config) -> None:
    """Load the sanitized library before the normal one can be loaded."""
    native.LIBRARY = LIBRARY
    with mock.patch.object(ctypes, "CDLL", _Recorded):
        native.library()
    if hasattr(config, "workerinput"):  # the sanitizers are loaded; child processes must not preload them
        del os.environ["LD_PRELOAD"]


def pytest_sessionfinish() -> None:
    """Write down which functions were called."""
    (Path(os.environ[_REPORTS]) / f"called.{os.getpid()}").write_text("\n".join(_called), "utf-8")
