"""One function of many things: one after the other, on the processes of this machine, or wherever an executor has it.

What fails, or takes its process down with it, costs itself only.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import loky
from tqdm.auto import tqdm

from androstep_analysis.errors import InputError, LossWarning

Thing = TypeVar("Thing")
Result = TypeVar("Result")

WORTH = 4
"""So many things take as long as a process takes to start, or longer."""


@dataclass(frozen=True)
class Failure:
    """Why there is no result."""

    reason: str


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """What came of one thing, and what was lost on the way."""

    result: Result | Failure
    lost: tuple[str, ...] = ()


def each(
    function: Callable[[Thing], Result],
    things: Sequence[Thing],
    *,
    jobs: int | None = None,
    executor: Any = None,
    title: str = "measuring captures",
) -> list[Result | Failure]:
    """What the function gives of each thing, in their order, or why it gives nothing.

    `jobs` processes work side by side, by default as many as the machine has processors and have enough to do. With an
    `executor`, a `distributed.Client` or one of `concurrent.futures`, it says where. What was lost on reading is warned
    of (`LossWarning`).
    """
    if executor is not None:
        outcomes = _submitted(_pool_of(executor), function, things)
    else:
        count = jobs or min(loky.cpu_count(), len(things) // WORTH)
        is_alone = count < 2 or len(things) < 2
        outcomes = _one_by_one(function, things) if is_alone else _on_processes(function, things, count)
    found: dict[int, Result | Failure] = {}
    with tqdm(total=len(things), desc=title, disable=None, delay=2, leave=False) as bar:
        for number, outcome in outcomes:
            found[number] = outcome.result
            bar.update()
            for message in outcome.lost:
                warnings.warn(LossWarning(message), stacklevel=3)
    return [found[number] for number in range(len(things))]


def _one_by_one(function: Callable[[Thing], Result], things: Sequence[Thing]) -> Iterator[tuple[int, Outcome[Result]]]:
    for number, thing in enumerate(things):
        yield number, _attempt(function, thing)


def _attempt(function: Callable[[Thing], Result], thing: Thing) -> Outcome[Result]:
    """A thread beside others cannot keep warnings: they are shown where it runs."""
    with contextlib.ExitStack() as stack:
        caught: list[warnings.WarningMessage] = []
        if threading.current_thread() is threading.main_thread():
            caught = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always", LossWarning)
        result: Result | Failure
        try:
            result = function(thing)
        except InputError as error:
            result = Failure(str(error))
        except Exception as error:
            result = Failure(f"{type(error).__name__}: {error}")
        return Outcome(result, tuple(str(one.message) for one in caught if issubclass(one.category, LossWarning)))


def _pool_of(executor: Any) -> Any:
    """A client of Dask gives an executor; of equal calls it would work out one only, were they pure."""
    return executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor


def _submitted(
    pool: Any, function: Callable[[Thing], Result], things: Iterable[Thing]
) -> Iterator[tuple[int, Outcome[Result]]]:
    numbers = {pool.submit(_attempt, function, thing): number for number, thing in enumerate(things)}
    for future in concurrent.futures.as_completed(numbers):
        try:
            yield numbers[future], future.result()
        except Exception as error:
            yield numbers[future], _lost(error)


def _lost(error: Exception) -> Outcome[Any]:
    reason = f"its worker was lost ({type(error).__name__}); it may take more memory than there is"
    return Outcome(Failure(reason))


def _on_processes(
    function: Callable[[Thing], Result], things: Sequence[Thing], jobs: int
) -> Iterator[tuple[int, Outcome[Result]]]:
    """A process that dies takes its pool with it: what was under way then is tried again, each by itself."""
    waiting = deque(enumerate(things))
    while waiting:
        suspects: list[tuple[int, Thing]] = []
        with loky.ProcessPoolExecutor(min(jobs, len(waiting))) as pool:
            under_way: dict[Any, tuple[int, Thing]] = {}
            while under_way or (waiting and not suspects):
                while waiting and not suspects and len(under_way) < jobs:
                    number, thing = waiting.popleft()
                    try:
                        under_way[pool.submit(_attempt, function, thing)] = (number, thing)
                    except BrokenProcessPool:
                        suspects.append((number, thing))
                done, _ = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    number, thing = under_way.pop(future)
                    try:
                        yield number, future.result()
                    except BrokenProcessPool:
                        suspects.append((number, thing))
        for number, thing in suspects:
            with loky.ProcessPoolExecutor(1) as pool:
                yield from ((number, outcome) for _, outcome in _submitted(pool, function, [thing]))
