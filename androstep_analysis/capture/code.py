"""Find the code and data files that derive the tables of a capture from its sources.

The list follows from the imports of the module that derives the tables, so that it cannot become outdated. A regular
expression finds the imports. Parsing the syntax trees of 160 modules would take 0.5 s whenever a capture is opened.
`tests/house/test_house.py` checks that both methods agree.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Final

from androstep_analysis.common import schema

PACKAGE: Final = __name__.partition(".")[0]
START: Final = f"{__package__}.tables"
"""The module that derives the tables."""

_TOP: Final = Path(__file__).parents[__name__.count(".") - 1]
_IMPORT: Final = re.compile(
    rf"^[ \t]*(?:import[ \t]+({PACKAGE}[\w.]*)|from[ \t]+({PACKAGE}[\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|(.*)))",
    re.MULTILINE,
)
_NO_NAME: Final = re.compile(r"#.*| as \w+")


def deriving() -> dict[str, bytes]:
    """Return the content of every file on which derived tables depend, by its path in the package.

    These are:

    - the modules that `START` imports, directly or indirectly
    - TOML files in the directories of these modules
    - the C sources of the compiled library
    - the schemas of this installation
    """
    modules: dict[str, bytes] = {}
    waiting = [START]
    while waiting:
        module = waiting.pop()
        if module not in modules:
            modules[module] = (_TOP / _modules()[module]).read_bytes()
            waiting += imported(modules[module].decode("utf-8"))
    found = {_modules()[module]: content for module, content in modules.items()}
    folders = {path.rpartition("/")[0] for path in found}
    for path in _files():
        if path.endswith((".c", ".h")) or (path.endswith(".toml") and path.rpartition("/")[0] in folders):
            found[path] = (_TOP / path).read_bytes()
    return found | {f"schemas/{path.name}": path.read_bytes() for path in schema.directory().glob("*.json")}


def imported(source: str) -> set[str]:
    """Return the package's modules that a module imports; `from a import b` counts as `a.b` if that is a module."""
    found: set[str] = set()
    for plain, whole, in_parentheses, names in _IMPORT.findall(source):
        inner = {f"{whole}.{name}" for name in re.findall(r"\w+", _NO_NAME.sub("", in_parentheses or names))}
        of_modules = inner & _modules().keys()
        found |= of_modules if of_modules == inner else of_modules | {plain or whole}
    return found


@functools.cache
def _files() -> list[str]:
    """Return the paths of all files of the package, relative to it."""
    begin = len(f"{_TOP}/")
    return [f"{folder}/{name}"[begin:] for folder, _, names in os.walk(_TOP) for name in names]


@functools.cache
def _modules() -> dict[str, str]:
    """Return the paths of all modules of the package, by their names."""
    paths = [path for path in _files() if path.endswith(".py")]
    return {".".join([PACKAGE, *path.removesuffix(".py").split("/")]).removesuffix(".__init__"): path for path in paths}
