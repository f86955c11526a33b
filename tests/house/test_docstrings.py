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
from androstep_analysis import measures, perceived, plot

MODULES: tuple[ModuleType, ...] = (androstep, measures, perceived, plot)


def public(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that the module's `__all__` names, the public methods of `Capture`, and `Description`."""
    for name in module.__all__:
        known = getattr(module, name)
        if inspect.isfunction(known) or known is androstep.Description:
            yield f"{module.__name__}.{name}", known
        elif known is androstep.Capture:
            methods = inspect.getmembers(known, inspect.isfunction)
            yield from ((f"{name}.{method}", of) for method, of in methods if not method.startswith("_"))


FUNCTIONS = dict(one for module in MODULES for one in public(module))


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring in the style of numpydoc by title; what comes before them is that of no title."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sections(name: str) -> None:
    function = FUNCTIONS[name]
    told = sections(inspect.getdoc(function) or "")
    assert re.match(r"\S.*[.?]\n\n", told[""]), "a docstring begins with a summary of one line"
    named = re.findall(r"^(\w+(?:, \w+)*) : \S", told.get("Parameters", ""), flags=re.MULTILINE)
    assert ", ".join(named).split(", ") == (
        [one for one in inspect.signature(function).parameters if one != "self"] or [""]
    )
    assert "Examples" in told
    assert "Returns" in told or inspect.isclass(function)


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What examples are given (`androstep_analysis`), with figures that nobody sees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        matplotlib.use("agg")
        modules = {name: getattr(androstep, name) for name in ("compare", "measures", "perceived", "plot", "whatif")}
        yield {"androstep": androstep, "capture": androstep.open("datasets/demo"), "pl": pl, **modules}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples(name: str, names: dict[str, Any]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    (found,) = doctest.DocTestFinder(recurse=False).find(FUNCTIONS[name], name, globs=names)
    told: list[str] = []
    with pl.Config(ascii_tables=False):
        failed, tried = doctest.DocTestRunner(optionflags=flags).run(found, out=told.append)
    plt.close("all")
    assert tried and not failed, "".join(told)
