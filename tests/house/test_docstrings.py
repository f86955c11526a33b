"""The docstring of every public function names its parameters, says what comes back, and has examples that run."""

from __future__ import annotations

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
from androstep_analysis import compare, measures, perceived, plot

MODULES: tuple[ModuleType, ...] = (androstep, measures, perceived, plot, compare)


def public(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that the module's `__all__` names, the public methods of `Capture`, and `Description`."""
    for name in module.__all__:
        exported = getattr(module, name)
        if inspect.isfunction(exported) or exported is androstep.Description:
            yield f"{module.__name__}.{name}", exported
        elif exported is androstep.Capture:
            methods = inspect.getmembers(exported, inspect.isfunction)
            yield from ((f"{name}.{method}", of) for method, of in methods if not method.startswith("_"))


FUNCTIONS = dict(one for module in MODULES for one in public(module))


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring in the style of numpydoc by title; what comes before them is that of no title."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sections(name: str) -> None:
    function = FUNCTIONS[name]
    parts = sections(inspect.getdoc(function) or "")
    assert re.match(r"\S.*[.?]\n\n", parts[""]), "a docstring begins with a summary of one line"
    lines = re.findall(r"^(\w+(?:, \w+)*) : \S", parts.get("Parameters", ""), flags=re.MULTILINE)
    documented = [parameter for line in lines for parameter in line.split(", ")]
    assert documented == [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
    assert "Examples" in parts
    assert "Returns" in parts or inspect.isclass(function)


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """The names that examples begin with (`androstep_analysis`); figures are not shown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        matplotlib.use("agg")
        modules = {name: getattr(androstep, name) for name in ("compare", "measures", "perceived", "plot", "whatif")}
        yield {"androstep": androstep, "capture": androstep.open("datasets/demo"), "pl": pl, **modules}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples(name: str, names: dict[str, Any]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    (examples,) = doctest.DocTestFinder(recurse=False).find(FUNCTIONS[name], name, globs=names)
    report: list[str] = []
    failed, attempted = doctest.DocTestRunner(optionflags=flags).run(examples, out=report.append)
    plt.close("all")
    assert attempted and not failed, "".join(report)
