"""pyproject.toml, requirements.lock and environment.yml require the same packages."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
FROM_PYPI = {"pytsk3", "adb-shell[usb]"}
"""Packages that conda-forge lacks or has incompletely."""
BROUGHT = {"cycler", "ipython", "libusb1", "rich"}
"""Dependencies that are part of the interface of others: of matplotlib, JupyterLab, adb-shell[usb] and textual."""


def constraints(requirements: list[str]) -> dict[str, SpecifierSet]:
    """Return the version constraint by canonical package name, with the requested extras."""
    parsed = [Requirement(requirement) for requirement in requirements]
    return {named(requirement): requirement.specifier for requirement in parsed}


def named(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return canonicalize_name(requirement.name) + extras


def asked_for() -> list[str]:
    """Return the requirements in pyproject.toml with all extras, without the package itself and its probes."""
    project = PYPROJECT["project"]
    everything = [
        *project["dependencies"],
        *(word for extra in project["optional-dependencies"].values() for word in extra),
    ]
    return [word for word in everything if not Requirement(word).name.startswith(project["name"])]


def entries_of_lock() -> list[str]:
    """Return the entries of requirements.lock, each a requirement with its hashes on one line."""
    joined = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    return [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]


def pins_here() -> dict[str, str]:
    """Return the locked version by canonical name, of the entries that apply to this Python and system."""
    requirements = [Requirement(entry.split("--hash")[0]) for entry in entries_of_lock()]
    here = {key: str(text) for key, text in default_environment().items()}
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(here)
    }


def test_conda_asks_for_what_pyproject_asks_for() -> None:
    [pip] = [entry["pip"] for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict)]
    conda = constraints([entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)])
    pypi = constraints([entry for entry in pip if entry != "-e ."])
    assert conda.pop("pip") == SpecifierSet()
    assert conda.pop("python") == SpecifierSet(PYPROJECT["project"]["requires-python"])
    assert set(pypi) == FROM_PYPI
    assert conda | pypi == constraints(asked_for())
    assert "-e ." in pip


def test_the_recipe_asks_for_what_pyproject_asks_for() -> None:
    """The only exception is a package that conda-forge lacks."""
    recipe = yaml.safe_load((ROOT / "tools" / "conda" / "recipe.yaml").read_text("utf-8"))
    project, needs = PYPROJECT["project"], recipe["requirements"]
    run, asked = constraints(needs["run"]), constraints(project["dependencies"])
    assert run.pop("python") == SpecifierSet(project["requires-python"])
    assert asked.pop("pytsk3")
    assert run == asked
    host = constraints(needs["host"])
    assert host.items() >= constraints(PYPROJECT["build-system"]["requires"]).items()
    assert recipe["context"]["version"] == project["version"]


def test_the_install_page_says_what_each_package_is_for() -> None:
    rows = [line for line in (ROOT / "docs" / "install.md").read_text("utf-8").splitlines() if line.startswith("|")]
    described = {name for row in rows for name in re.findall("`([^`]+)`", row)}
    extras = PYPROJECT["project"]["optional-dependencies"].keys()
    assert {named(Requirement(word)) for word in asked_for()} <= described
    assert extras <= described


def test_the_lock_holds_what_pyproject_asks_for() -> None:
    pins = pins_here()
    wanted = {
        canonicalize_name(requirement.name): requirement.specifier
        for requirement in map(Requirement, asked_for() + PYPROJECT["dependency-groups"]["dev"])
    }
    assert [name for name in wanted if name not in pins] == []
    assert [f"{name} {pins[name]}" for name, allowed in wanted.items() if not allowed.contains(pins[name])] == []


def test_the_lock_can_build_the_package() -> None:
    """tools/setup builds without isolation, so that nothing outside the lock is downloaded."""
    assert set(constraints(PYPROJECT["build-system"]["requires"])) <= set(pins_here())


def test_every_entry_of_the_lock_is_one_version_with_hashes() -> None:
    for entry in entries_of_lock():
        assert re.match(r"[a-z0-9-]+==[^ ;*]+ .*--hash=sha256:[0-9a-f]{64}", entry), entry


def test_every_part_has_one_version() -> None:
    version = PYPROJECT["project"]["version"]
    probes = tomllib.loads((ROOT / "probes" / "wheel" / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    header = (ROOT / "probes" / "common" / "record.h").read_text("utf-8")
    assert probes["version"] == str(citation["version"]) == version
    assert f'#define PROBE_VERSION "{version}"' in header
    assert f"{probes['name']}=={version}" in PYPROJECT["project"]["optional-dependencies"]["device"]


@pytest.mark.prove
def test_the_package_imports_what_pyproject_asks_for_and_nothing_else() -> None:
    """Otherwise a plain install would lack a package, or install one in vain."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "androstep_analysis").rglob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        name.split(".")[0]
        for node in imports
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    owners = packages_distributions()
    imported = {canonicalize_name(owner) for name in modules for owner in owners.get(name, [])}
    wanted = {canonicalize_name(Requirement(word).name) for word in asked_for()}
    assert imported - wanted - {PYPROJECT["project"]["name"]} == BROUGHT
    assert wanted - imported == {"jupyterlab", "pandas"}  # a program; needed by polars to make tables for seaborn
