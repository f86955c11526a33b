"""The docstring of every public function lists its parameters and its result, and has examples that run."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import polars as pl
import pytest
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import bench, compare, measures, perceived, plot, replay, whatif
from androstep_analysis.present.wide import Shown

MODULES: tuple[ModuleType, ...] = (androstep, measures, perceived, plot, compare, bench, replay, whatif)

WITHOUT_ALL = (replay.device.program, replay.device.left_out, replay.program.read)
"""Public functions in modules without `__all__`."""

RESULTS: tuple[type, ...] = (
    bench.Results,
    replay.Cleaned,
    replay.Program,
    whatif.Changed,
    whatif.Flash,
    whatif.Prediction,
    Shown,
)
"""Result types of functions that do not return a table."""


def public(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions in the module's `__all__`, the public methods of its classes, and `Description`."""
    for name in module.__all__:
        exported = getattr(module, name)
        if inspect.isfunction(exported) or exported is androstep.Description:
            yield f"{module.__name__}.{name}", exported
        elif exported in (androstep.Capture, androstep.Collection, replay.Program):
            methods = inspect.getmembers(exported, lambda of: inspect.isfunction(of) or inspect.ismethod(of))
            yield from ((f"{name}.{method}", of) for method, of in methods if not method.startswith("_"))


FUNCTIONS = dict(one for module in MODULES for one in public(module))
FUNCTIONS |= {f"{function.__module__}.{function.__name__}": function for function in WITHOUT_ALL}


def sections(docstring: str) -> dict[str, str]:
    """Return the numpydoc sections of a docstring by title; the text before them has title ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> list[str]:
    """Return the names in a section, in order."""
    lines = re.findall(r"^\*{0,2}(\w+(?:, \w+)*) : \S", section, flags=re.MULTILINE)
    return [name for line in lines for name in line.split(", ")]


def test_sections() -> None:
    for name, function in FUNCTIONS.items():
        parts = sections(inspect.getdoc(function) or "")
        assert re.match(r"\S.*[.?]\n\n", parts[""]), f"{name}: a docstring begins with a summary of one line"
        signature = inspect.signature(function)
        assert entries(parts.get("Parameters", "")) == [of for of in signature.parameters if of != "self"], name
        assert "Examples" in parts, name
        assert "Returns" in parts or inspect.isclass(function) or signature.return_annotation == "None", name


def test_attributes() -> None:
    """Every field of a result has its entry."""
    for of in RESULTS:
        parts = sections(inspect.getdoc(of) or "")
        assert entries(parts["Attributes"]) == [field.name for field in dataclasses.fields(of)], of


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """Yield the names that examples use (`androstep_analysis`); figures are not displayed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        matplotlib.use("agg")
        modules = {module.__name__.rpartition(".")[2]: module for module in MODULES[1:]}
        yield {"androstep": androstep, "capture": androstep.open("datasets/demo"), "pl": pl, **modules}


@pytest.mark.prove
def test_examples(names: dict[str, Any]) -> None:
    report: list[str] = []
    for name, function in FUNCTIONS.items():
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        (examples,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=names)
        _, attempted = doctest.DocTestRunner(verbose=False, optionflags=flags).run(examples, out=report.append)
        assert attempted, name
        plt.close("all")
    assert not report, "".join(report)
