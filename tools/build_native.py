"""Compile the sources in androstep_analysis/native into the shared library there, with zig from the package index.

The prototypes of its functions are stored next to it, for ctypes.

``python tools/build_native.py`` builds it for this machine. As hatchling's build hook (pyproject.toml) it does the same
for a wheel, for the platform in ANDROSTEP_WHEEL_PLATFORM (a key of `PLATFORMS`) if that is set.
"""

from __future__ import annotations

import json
import os
import platform
import re
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
PROTOTYPES = NATIVE / "libandrostep.so.json"

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
    (root / PROTOTYPES).write_text(json.dumps(prototypes(root)), "utf-8")
    partial.replace(root / LIBRARY)


def prototypes(root: Path) -> dict[str, list[str]]:
    """Return the type of the result and of each argument of the library's functions (`API` in the sources)."""
    found = {}
    for path in sorted((root / NATIVE).rglob("*.[ch]")):
        source = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
        for result, name, arguments in re.findall(r"^API ([\w\s*]+?)(\w+)\(([^()]*)\)", source, re.MULTILINE):
            arguments = re.sub(r"(\w+)\[\w*\]", r"*\1", arguments)
            types = [] if arguments == "void" else [re.sub(r"\w+$", "", text) for text in arguments.split(",")]
            found[name] = [_type(result), *(_type(text).replace("uint64_t *", "void *") for text in types)]
    return found


def _type(text: str) -> str:
    """Return a C type without qualifiers. Pointers to anything but text and numbers of 64 bits are ``void *``."""
    words = text.replace("*", " * ").replace("const", " ").split()
    known = ["char", "*"], ["uint64_t", "*"]
    return " ".join(words) if "*" not in words or words in known else "void *"


class NativeHook(BuildHookInterface):
    """Adds the library to the wheel and tags its platform. The library does not depend on a Python version."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ANDROSTEP_WHEEL_PLATFORM") or here()
        build(wanted, Path(self.root))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wanted}"
        build_data["artifacts"] += [str(LIBRARY), str(PROTOTYPES)]


if __name__ == "__main__":
    build(here())
