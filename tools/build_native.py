"""Compile the sources in androstep_analysis/native into the shared library there, with zig from the package index.

``python tools/build_native.py`` builds it for this machine. As hatchling's build hook (pyproject.toml) it does the same
for a wheel, for the platform in ANDROSTEP_WHEEL_PLATFORM (a key of `PLATFORMS`) if that is set.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parents[1]
NATIVE = Path("androstep_analysis", "native")
LIBRARY = NATIVE / "libandrostep.so"

PLATFORMS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""Tag of the wheel, and zig's compilation target."""

FLAGS = (
    "-std=c11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-sanitize=all",
)


def here() -> str:
    """Return the platform of this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if sys.platform == "darwin":
        return f"macosx_11_0_{'arm64' if machine == 'aarch64' else machine}"
    return f"manylinux_2_17_{machine}"


def build(wanted: str, root: Path = ROOT) -> None:
    """Compile the library for platform `wanted`; exit if it is unknown, raise if compilation fails."""
    target = PLATFORMS.get(wanted)
    if target is None:
        sys.exit(f"no decoders for {wanted}; known are {', '.join(PLATFORMS)}")
    sources = sorted(str(path.relative_to(root)) for path in (root / NATIVE).rglob("*.c"))
    cache = {f"ZIG_{kind}_CACHE_DIR": str(root / "build" / "zig") for kind in ("LOCAL", "GLOBAL")}
    partial = root / f"{LIBRARY}.part"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS, f"-I{NATIVE}", *sources]
    subprocess.run([*command, "-o", str(partial)], cwd=root, env=os.environ | cache, check=True)
    partial.replace(root / LIBRARY)


class NativeHook(BuildHookInterface):
    """Adds the library to the wheel and tags its platform. The library does not depend on a Python version."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ANDROSTEP_WHEEL_PLATFORM") or here()
        build(wanted, Path(self.root))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wanted}"
        build_data["artifacts"].append(str(LIBRARY))


if __name__ == "__main__":
    build(here())
