"""What tests need of the machine: helpers say it of themselves, and every test that can come to one is marked so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

TESTS = Path(__file__).resolve().parents[1]

Called = TypeVar("Called", bound=Callable[..., Any])


def needs(*markers: str) -> Callable[[Called], Called]:
    """Says of a function that who calls it needs what these markers (pyproject.toml) stand for, and nothing else."""

    def said(called: Called) -> Called:
        called.__dict__["needs"] = markers
        return called

    return said


@functools.cache
def of(function: Callable[..., Any]) -> frozenset[str]:
    """The markers of all that a function can come to, as far as its code and that of the tests' helpers names it."""
    found: set[str] = set()
    todo, seen = [function], {function}
    while todo:
        called = todo.pop()
        if "needs" in vars(called):
            found.update(vars(called)["needs"])
        else:
            todo += (further := _named_by(called) - seen)
            seen |= further
    return frozenset(found)


@functools.cache
def _named_by(called: Callable[..., Any]) -> set[Callable[..., Any]]:
    """The functions and classes of the tests that a function's code, or that of a class's methods, names."""
    if inspect.isclass(called):
        return {value for value in vars(called).values() if inspect.isfunction(value)}
    called = inspect.unwrap(called)
    names = {name for code in _codes(called.__code__) for name in code.co_names}
    values = [called.__globals__.get(name) for name in names]
    modules = [value for value in values if isinstance(value, ModuleType) and _is_of_tests(value)]
    values += [getattr(module, name, None) for module in modules for name in names]
    return {value for value in values if (inspect.isfunction(value) or inspect.isclass(value)) and _is_of_tests(value)}


def _is_of_tests(value: Any) -> bool:
    try:
        return _is_below_tests(inspect.getfile(inspect.unwrap(value)))
    except (OSError, TypeError):  # of what is built in
        return False


@functools.cache
def _is_below_tests(file: str) -> bool:
    return Path(file).is_relative_to(TESTS)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
