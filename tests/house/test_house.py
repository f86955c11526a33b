"""The tree follows the design: locations of files, and allowed imports."""

from __future__ import annotations

import ast
import functools
import graphlib
import json
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest
from support.tree import ROOT, files, ignored

from androstep_analysis.capture import code

pytestmark = pytest.mark.xdist_group("imports")  # one process parses all modules

PACKAGE = "androstep_analysis"

TOP_LEVEL = {
    *("probes", "schemas", PACKAGE, "notebooks", "datasets", "tests", "benchmarks", "docs", "tools", ".ci", ".github"),
    *("environment.yml", "Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "CITATION.cff"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *(".gitignore", ".gitattributes", ".pre-commit-config.yaml"),
}

LARGE_FILES: set[str] = set()
"""Files that may be larger than `LARGE_BYTES`, as paths from the root."""

LARGE_BYTES = 1_000_000

FOLDER_FILES = 60


def text(path: Path) -> str | None:
    """Return the contents of a text file, or None for other files."""
    content = path.read_bytes()
    return None if b"\0" in content else content.decode("utf-8", "surrogateescape")


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_top_level_holds_only_what_the_design_names() -> None:
    assert {path.name for path in ROOT.iterdir() if not ignored(path)} - TOP_LEVEL == set()


def test_no_folder_is_too_long_to_be_read() -> None:
    folders = Counter(path.parent for path in files())
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > FOLDER_FILES} == {}


def test_no_file_is_large() -> None:
    large = {path.relative_to(ROOT).as_posix() for path in files() if path.lstat().st_size > LARGE_BYTES}
    assert large == LARGE_FILES


def test_no_link_leaves_the_tree() -> None:
    links = [path for path in files() if path.is_symlink()]
    assert [str(path) for path in links if not path.resolve().is_relative_to(ROOT)] == []


def test_no_path_of_one_machine() -> None:
    """Recorded data (datasets/, tests/data/) may contain any path of its device."""
    machine_path = re.compile(r"""(?:^|[\s"'`=:(\[,]|file://)/(?:work|farm|root)/\w""")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in files()
        if not path.is_relative_to(ROOT / "datasets") and not path.is_relative_to(ROOT / "tests" / "data")
        for number, line in enumerate((text(path) or "").splitlines(), 1)
        if machine_path.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").rglob("*.ipynb")), ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    """Outputs are made for the site (tools/run_notebooks.py)."""
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["metadata"].keys() <= {"kernelspec", "language_info"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all((cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {}) for cell in cells)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").rglob("*.ipynb")), ids=lambda path: path.name)
def test_cells_of_a_notebook_analyse(path: Path) -> None:
    """Functions belong in the library, where they are documented and tested."""
    cells = [cell["source"] for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    lines = [[line.rstrip() for line in cell if line.strip()] for cell in cells]
    assert [line for cell in lines for line in cell if line.lstrip().startswith(("def ", "class "))] == []
    assert max(map(len, lines)) <= 20


def test_notebooks_have_no_modules_of_their_own() -> None:
    assert list((ROOT / "notebooks").rglob("*.py")) == []


def test_the_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """Without groups, each process makes the recordings and pages that a module's tests share."""
    assert request.node.nodeid.endswith("@imports") == request.config.getoption("loadgroup", default=False)


# -- imports ----------------------------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    """Return `androstep_analysis.link` for androstep_analysis/link/__init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.Module, module: str, is_package: bool, modules: set[str]) -> set[str]:
    """Return the imports of `module`, also inside functions; `from a import b` is `a.b` if that is a module."""
    found: set[str] = set()
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                found.add(inner if inner in modules else source)
    return found


@functools.cache
def import_graph() -> dict[str, set[str]]:
    """Return the imports of every module of the package."""
    paths = {module_name(path): path for path in (ROOT / PACKAGE).rglob("*.py")}
    return {
        module: imports_of(ast.parse(path.read_text("utf-8")), module, path.name == "__init__.py", set(paths))
        for module, path in paths.items()
    }


def chains(graph: dict[str, set[str]], start: str) -> dict[str, str]:
    """Return everything that `start` imports, directly or not, each with the chain of imports."""
    reached = {start: start}
    queue = [start]
    while queue:
        module = queue.pop()
        for target in sorted(graph.get(module, set()) - reached.keys()):
            reached[target] = f"{reached[module]} -> {target}"
            queue.append(target)
    return reached


LAYERS: dict[str, tuple[set[str], ...]] = {
    PACKAGE: (
        {"common", "stats"},
        {"native"},
        {"ingest"},
        {"bench", "fs"},
        {"link"},
        {"measures"},
        {"explore", "perceived", "replay"},
        {"capture", "whatif"},
        {"compare", "datasets", "device", "slowest"},
        {"present"},
        {"cli", "commands"},
    ),
    f"{PACKAGE}.device": (
        {"doctor", "transport"},
        {"programs"},
        {"probe", "session"},
        {"runs", "workloads"},
        {"record"},
        {"device"},
    ),
    f"{PACKAGE}.present": (
        {"sheets", "waits"},
        {"starts"},
        {"beside", "changes", "headline"},
        {"advice", "blocks", "plot", "summary", "terminal"},
        {"live", "report", "wide"},
        {"panel", "papers"},
    ),
}
"""Layers of the package and of its largest folders, from the bottom up. Each may import only from rows before it."""


@pytest.mark.parametrize("folder", LAYERS)
def test_imports_go_down_only(folder: str) -> None:
    height = {part: row for row, parts in enumerate(LAYERS[folder]) for part in parts}
    parts = {module: module.removeprefix(f"{folder}.").partition(".")[0] for module in import_graph()}
    parts = {module: part for module, part in parts.items() if module.startswith(f"{folder}.") and part != "__main__"}
    assert set(parts.values()) == height.keys()
    climbing = [
        f"{module} -> {target}"
        for module, targets in import_graph().items()
        for target in targets & parts.keys()
        if module in parts and parts[target] != parts[module] and height[parts[target]] >= height[parts[module]]
    ]
    assert climbing == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = import_graph()
    circles = [
        f"{module} -> {chain}"
        for module, targets in graph.items()
        for target in targets & graph.keys()
        if (chain := chains(graph, target).get(module))
    ]
    assert circles == []


def within(module: str, *parts: str) -> bool:
    """Return whether `module` is one of these parts of the package, or inside one."""
    return any(f"{module}.".startswith(f"{PACKAGE}.{part}.") for part in parts)


def test_only_what_presents_imports_a_plotting_library() -> None:
    graph = import_graph()
    drawing = ("present", "cli", "commands")
    above = {module for module in graph if module == PACKAGE or within(module, *drawing)}
    assert any(within(module, "present.plot") for module in above)
    forbidden = ("matplotlib", "seaborn")
    assert [
        chain
        for module in sorted(graph.keys() - above)
        for target, chain in chains(graph, module).items()
        if target.split(".")[0] in forbidden
    ] == []


def test_the_pipeline_touches_no_device_and_draws_nothing() -> None:
    graph = import_graph()
    pipeline = [module for module in sorted(graph) if within(module, "ingest", "fs", "link", "measures")]
    assert pipeline
    assert [
        chain
        for module in pipeline
        for target, chain in chains(graph, module).items()
        if within(target, "device", "present")
    ] == []


def test_the_import_graph_sees_every_way_to_import() -> None:
    source = """
import a.b, c as d
from androstep_analysis import units
from androstep_analysis.plot import style
from . import plot
from .plot.style import paper
from .. import schema
def f():
    from matplotlib.figure import Figure
"""
    modules = {
        f"{PACKAGE}.{name}" for name in ("units", "plot", "plot.style", "link.plot", "link.plot.style", "schema")
    }
    assert imports_of(ast.parse(source), f"{PACKAGE}.link.requests", False, modules) == {
        *("a.b", "c", "matplotlib.figure"),
        *(f"{PACKAGE}.{name}" for name in ("units", "plot.style", "link.plot", "link.plot.style", "schema")),
    }
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"matplotlib.pyplot"}}
    assert chains(graph, "a")["matplotlib.pyplot"] == "a -> b -> c -> matplotlib.pyplot"


# -- C ----------------------------------------------------------------------------------------------------------------


def c_folder(path: Path, below: Collection[str]) -> str:
    """Return `decode/text` for decode/text/lines.h if `below` has that folder, else `decode`."""
    inner = path.parent.as_posix()
    return inner if inner in below else path.parts[0]


def strays(top: Path, below: dict[str, set[str]]) -> list[str]:
    """Return includes in files below `top` of folders that `below` does not allow.

    A nested folder counts separately if it is listed in `below`.
    """
    found = []
    for path in sorted(top.rglob("*.[ch]")):
        folder = c_folder(path.relative_to(top), below)
        for name in re.findall(r'(?m)^#include "(.+)"$', path.read_text("utf-8")):
            included = c_folder(Path(name), below)
            is_allowed = included in {folder} | below.get(folder, set()) and (top / name).is_file()
            found += [] if is_allowed or name == "sqlite3.h" else [f"{path.relative_to(ROOT)}: {name}"]
    return found


def test_a_probe_includes_its_own_folder_and_those_below() -> None:
    probes = ROOT / "probes"
    lines = re.findall(r"(?m)^below_(\w+) := (.*)$", (probes / "probes.mk").read_text("utf-8"))
    below = {folder: set(others.split()) for folder, others in lines}
    assert below.keys() == {path.parent.name for path in probes.glob("*/main.c")}
    assert strays(probes, below) == []


def test_a_decoder_includes_its_own_folder_and_those_below() -> None:
    native = ROOT / PACKAGE / "native"
    folders = {path.parent.relative_to(native).as_posix() for path in native.rglob("*.c")} - {"core"}
    of_calls = {"decode/text", "decode/strace", "calls"}
    below = {name: {"core", "syscalls"} if name in of_calls else {"core"} for name in folders}
    assert strays(native, below) == []


def test_the_files_that_follow_system_calls_include_in_one_direction() -> None:
    """A file and its header may only include lower ones; each header declares what its own file defines."""
    native = ROOT / PACKAGE / "native"
    graph: dict[str, set[str]] = {}
    for path in sorted(native.glob("calls/*.[ch]")):
        room = path.relative_to(native).with_suffix("").as_posix()
        included = re.findall(r'(?m)^#include "(.+)\.h"$', path.read_text("utf-8"))
        graph.setdefault(room, set()).update(set(included) - {room})
    cycle: list[str] = []
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1]
    assert cycle == []
    assert {"calls/calls", "calls/storage"} <= graph.keys()


def test_tables_are_made_again_when_code_that_derives_them_changes() -> None:
    graph = import_graph()
    paths = {module_name(path): path for path in (ROOT / PACKAGE).rglob("*.py")}
    deriving = chains(graph, code.START).keys() & paths.keys()
    hashed = code.deriving()
    expected = {str(paths[module].relative_to(ROOT / PACKAGE)): paths[module].read_bytes() for module in deriving}
    assert {path: content for path, content in hashed.items() if path.endswith(".py")} == expected
    assert {Path(path).suffix for path in hashed} == {".py", ".c", ".h", ".toml", ".json"}
    deriving_parts = {module.split(".")[1] for module in deriving}
    assert deriving_parts >= {"ingest", "fs", "link", "bench", "perceived"}
    assert deriving_parts.isdisjoint({"cli", "commands", "compare", "device", "explore", "plot", "present", "report"})


def test_imports_are_found_without_a_syntax_tree() -> None:
    graph = import_graph()
    paths = {module_name(path): path for path in (ROOT / PACKAGE).rglob("*.py")}
    inside = {
        module: {target for target in targets if target.split(".")[0] == PACKAGE} for module, targets in graph.items()
    }
    assert {module: code.imported(path.read_text("utf-8")) for module, path in paths.items()} == inside
