"""Mark tests by their requirements: helpers declare theirs, and tests that can call them inherit the markers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import pytest

TESTS = Path(__file__).resolve().parents[1]

PROVE = pytest.mark.prove

Called = TypeVar("Called", bound=Callable[..., Any])


def needs(*markers: str) -> Callable[[Called], Called]:
    """Declare which markers (pyproject.toml) a caller of this function needs. No others are searched."""

    def said(called: Called) -> Called:
        called.__dict__["needs"] = markers
        return called

    return said


def left_to_prove(values: Iterable[Any], is_kept: Callable[[Any], bool]) -> list[Any]:
    """Return parameters for a test; those that are not kept in `make test` are marked `prove`."""
    return [
        value if is_kept(value) else pytest.param(*(value if isinstance(value, tuple) else [value]), marks=PROVE)
        for value in values
    ]


_CACHED = type(functools.cache(needs))


@functools.cache
def of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the markers of all helpers that a function can reach, following the names in its code and theirs."""
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
    """Return the functions and classes of the tests that a function's (or a class's methods') code names."""
    if inspect.isclass(called):
        return {value for value in vars(called).values() if inspect.isfunction(value)}
    called = inspect.unwrap(called)
    names = {name for code in _codes(called.__code__) for name in code.co_names}
    values = [called.__globals__.get(name) for name in names]
    modules = [value for value in values if isinstance(value, ModuleType) and _is_of_tests(value)]
    values += [getattr(module, name, None) for module in modules for name in names]
    values = [inspect.unwrap(value) if isinstance(value, _CACHED) else value for value in values]
    return {value for value in values if (inspect.isfunction(value) or inspect.isclass(value)) and _is_of_tests(value)}


def _is_of_tests(value: Any) -> bool:
    try:
        return _is_below_tests(inspect.getfile(inspect.unwrap(value)))
    except (OSError, TypeError):  # built-in objects
        return False


@functools.cache
def _is_below_tests(file: str) -> bool:
    return Path(file).is_relative_to(TESTS)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
