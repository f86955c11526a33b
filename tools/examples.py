"""Update the expected output of docstring examples after results were recorded again (datasets/idle.py).

    python tools/examples.py

Only examples of androstep_analysis.bench and .replay that read datasets/bench or datasets/replay are changed. Review
the diff before you commit it.
"""

from __future__ import annotations

import doctest
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import androstep_analysis as androstep
from androstep_analysis import bench, replay

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ("datasets/bench/", "datasets/replay/")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Other(NamedTuple):
    """An example whose output differs from its docstring, with the lines of the file to replace."""

    first: int
    count: int
    printed: str


class _Runner(doctest.DocTestRunner):
    """Collects outputs that differ instead of reporting them."""

    def __init__(self) -> None:
        super().__init__(optionflags=FLAGS)
        self.others: list[Other] = []

    def report_failure(self, _out: object, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        assert test.lineno is not None
        first = test.lineno + example.lineno + example.source.count("\n")
        self.others.append(Other(first, example.want.count("\n"), got))

    def report_unexpected_exception(
        self, _out: object, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        sys.exit(f"{test.name}: {example.source.strip()} ends with {exc_info[1]!r}; correct the example by hand")


def others(function: Callable[..., Any], names: Mapping[str, Any]) -> list[Other]:
    """Return the examples of a function whose output differs from its docstring."""
    (test,) = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=dict(names))
    runner = _Runner()
    runner.run(test, out=lambda _: None)
    return runner.others


def rewrite(functions: Iterable[Callable[..., Any]], names: Mapping[str, Any]) -> list[Path]:
    """Replace the expected output by the actual output; return the changed files."""
    found: dict[Path, list[Other]] = {}
    for function in functions:
        path = Path(inspect.getfile(inspect.unwrap(function)))
        found.setdefault(path, []).extend(others(function, names))
    for path, changes in found.items():
        lines = path.read_text("utf-8").splitlines(keepends=True)
        for change in sorted(changes, reverse=True):
            source = lines[change.first - 1]
            indent = source[: len(source) - len(source.lstrip())]  # Python 3.13 and later strip it from docstrings
            printed = [f"{indent}{line}\n" for line in change.printed.splitlines()]
            lines[change.first : change.first + change.count] = printed
        path.write_text("".join(lines), encoding="utf-8")
    return [path for path, changes in found.items() if changes]


def main() -> None:
    os.chdir(ROOT)
    public = [getattr(module, name) for module in (bench, replay) for name in module.__all__]
    functions = [
        one for one in public if inspect.isfunction(one) and any(place in (one.__doc__ or "") for place in RECORDED)
    ]
    names = {"androstep": androstep, "bench": bench, "replay": replay, "pl": pl}
    for path in rewrite(functions, names):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
