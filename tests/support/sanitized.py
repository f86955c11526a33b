"""The decoders with the sanitizers of addresses and of undefined behaviour, and pytest run with them.

As a plugin (``pytest -p support.sanitized``) it puts the sanitized library in the place of the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from androstep_analysis import native

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "native-sanitized" / "libandrostep.so"

_FLAGS = (
    *("-std=c11", "-g", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)


def build() -> Path:
    """The sanitized library, compiled where a source is newer; skips the calling test without gcc."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    sources = sorted(native.LIBRARY.parent.rglob("*.[ch]"))
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        partial = LIBRARY.with_suffix(f".{os.getpid()}")
        compiled = [str(source) for source in sources if source.suffix == ".c"]
        subprocess.run(["gcc", *_FLAGS, f"-I{native.LIBRARY.parent}", *compiled, "-o", str(partial)], check=True)
        partial.replace(LIBRARY)
    return LIBRARY


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest with `arguments` in a process of its own, with the sanitized decoders."""
    build()
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    # Python keeps what it allocated; its own allocator would hide reads behind the end of bytes.
    environment = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(ROOT / "tests"),
    }
    options = ["-q", "-n", "0", "-p", "support.sanitized", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def pytest_configure() -> None:
    """Puts the sanitized library in the place of the other, before anything loads that."""
    native.LIBRARY = LIBRARY
    native.library()
