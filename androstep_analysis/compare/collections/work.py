"""Apply a function to many captures: serially, in worker processes, or on an executor such as a Dask client.

An item that fails, or whose worker dies, yields a Failure. The other items are not affected.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import loky
from tqdm.auto import tqdm

from androstep_analysis.common.errors import InputError, LossWarning

Item = TypeVar("Item")
Result = TypeVar("Result")

# loky starts the processes. Those of `concurrent.futures` take no function that a notebook or script defines, and they
# either fork, which is not safe beside the threads of polars, or run an unguarded script again.

# Starting a process costs about as much as measuring four captures.
MIN_ITEMS_PER_PROCESS = 4

# A worker that is started by hand, or restarted after a crash, registers within this time. Workers that a batch system
# queues for longer must be there before the work begins.
NO_WORKERS_SECONDS = 60

# How often a Dask scheduler is asked for its workers, and how long it may take to answer.
CHECK_SECONDS = 5
ANSWER_SECONDS = 10


@dataclass(frozen=True)
class Failure:
    """Why an item has no result."""

    reason: str


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The result of one item, and the loss warnings of reading it."""

    result: Result | Failure
    losses: tuple[str, ...] = ()


def each(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int | None = None,
    executor: Any = None,
    title: str = "measuring captures",
) -> list[Result | Failure]:
    """Return the results of the function on all items, in their order, and a Failure for each item without a result.

    Parameters
    ----------
    jobs : int, optional
        Number of worker processes; by default one per processor, or fewer if there are few items.
    executor : optional
        A `distributed.Client`, or an executor of `concurrent.futures`, that runs the items instead. If a Dask cluster
        has no running worker for `NO_WORKERS_SECONDS`, the items that are not finished become Failures.
    title : str
        The label of the progress bar.

    Warns
    -----
    LossWarning
        For data that an item could not read.
    UserWarning
        If a Dask cluster has no running workers.
    """
    if hasattr(executor, "get_executor"):
        outcomes = _on_cluster(executor, function, items)
    elif executor is not None:
        outcomes = _on_executor(executor, function, items)
    else:
        count = jobs or min(loky.cpu_count(), len(items) // MIN_ITEMS_PER_PROCESS)
        is_serial = count < 2 or len(items) < 2
        outcomes = _serially(function, items) if is_serial else _on_processes(function, items, count)
    results: dict[int, Result | Failure] = {}
    with tqdm(total=len(items), desc=title, disable=None, delay=2, leave=False) as bar:
        for index, outcome in outcomes:
            results[index] = outcome.result
            bar.update()
            for message in outcome.losses:
                warnings.warn(LossWarning(message), stacklevel=3)
    return [results[index] for index in range(len(items))]


def _serially(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Outcome[Result]]]:
    for index, item in enumerate(items):
        yield index, _attempt(function, item)


def _attempt(function: Callable[[Item], Result], item: Item) -> Outcome[Result]:
    """Run the function on one item and collect its loss warnings.

    Only the main thread can collect warnings (`warnings.catch_warnings` is not thread-safe); in other threads they are
    printed.
    """
    with contextlib.ExitStack() as stack:
        caught: list[warnings.WarningMessage] = []
        if threading.current_thread() is threading.main_thread():
            caught = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always", LossWarning)
        result: Result | Failure
        try:
            result = function(item)
        except InputError as error:
            result = Failure(str(error))
        except Exception as error:
            result = Failure(f"{type(error).__name__}: {error}")
        return Outcome(result, tuple(str(one.message) for one in caught if issubclass(one.category, LossWarning)))


def _on_executor(
    executor: concurrent.futures.Executor, function: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome[Result]]]:
    running = {executor.submit(_attempt, function, item): index for index, item in enumerate(items)}
    for future in concurrent.futures.as_completed(running):
        yield running[future], _outcome(future)


def _on_cluster(
    client: Any, function: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[tuple[int, Outcome[Result]]]:
    """Run the items on a Dask cluster. Give up when it has had no running worker for NO_WORKERS_SECONDS."""
    cluster = _Cluster(client, client.scheduler.address)
    executor = client.get_executor(pure=False)  # else Dask merges calls with equal arguments
    running = {executor.submit(_attempt, function, item): index for index, item in enumerate(items)}
    try:
        while running:
            unfinished = len(running)
            with contextlib.suppress(TimeoutError):
                for future in concurrent.futures.as_completed(list(running), CHECK_SECONDS):
                    yield running.pop(future), _outcome(future)
            if running and (reason := cluster.reason_to_give_up(is_progressing=len(running) < unfinished)):
                for future, index in running.items():
                    yield index, _outcome(future) if future.done() else Outcome(Failure(reason))
                break
    finally:
        for future in running:
            future.cancel()


def _outcome(future: concurrent.futures.Future[Outcome[Result]]) -> Outcome[Result]:
    """Return the outcome of a future that is done; a Failure if its worker died or its cluster was lost."""
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        return Outcome(Failure("the cluster lost its scheduler, or cancelled the work"))
    except Exception as error:
        reason = f"its worker was lost ({type(error).__name__}); it may take more memory than there is"
        return Outcome(Failure(reason))


@dataclass
class _Cluster:
    """A Dask cluster, and when to give up on it."""

    client: Any
    address: str
    deadline: float | None = None

    def reason_to_give_up(self, *, is_progressing: bool) -> str | None:
        """Return why the cluster will not finish, or None if it still may. Warn when the wait for a worker begins."""
        problem = None if is_progressing else problem_of(self.client, self.address)
        if problem is None:
            self.deadline = None
        elif self.deadline is None:
            self.deadline = time.monotonic() + NO_WORKERS_SECONDS
            until = datetime.datetime.now() + datetime.timedelta(seconds=NO_WORKERS_SECONDS)
            warnings.warn(f"{problem}; waiting until {until:%H:%M:%S}, Ctrl-C ends", stacklevel=2)
        elif time.monotonic() > self.deadline:
            return f"{problem}; waited {NO_WORKERS_SECONDS} s"
        return None


def problem_of(client: Any, address: str) -> str | None:
    """Return why a Dask cluster runs nothing, or None if it does or can."""
    try:
        identity = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_SECONDS)
    except Exception:  # depends on the transport, and on how far the client has closed
        return f"the scheduler at {address} does not answer"
    # Dask pauses a worker that is short of memory: it finishes what it executes and starts nothing else.
    is_any_active = any(
        worker["status"] == "running" or worker["metrics"]["task_counts"].get("executing")
        for worker in identity["workers"].values()
    )
    return None if is_any_active else f"the cluster at {address} has no running workers; start some with `dask worker`"


def _on_processes(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[tuple[int, Outcome[Result]]]:
    """Run the items in a process pool.

    A worker that dies breaks the pool. The items that were running are then retried one by one in pools of their own,
    so that only the fatal one fails.
    """
    waiting = deque(enumerate(items))
    while waiting:
        retries: list[tuple[int, Item]] = []
        with loky.ProcessPoolExecutor(min(jobs, len(waiting))) as pool:
            running: dict[Any, tuple[int, Item]] = {}
            while running or (waiting and not retries):
                while waiting and not retries and len(running) < jobs:
                    index, item = waiting.popleft()
                    try:
                        running[pool.submit(_attempt, function, item)] = (index, item)
                    except BrokenProcessPool:
                        retries.append((index, item))
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    index, item = running.pop(future)
                    try:
                        yield index, future.result()
                    except BrokenProcessPool:
                        retries.append((index, item))
        for index, item in retries:
            with loky.ProcessPoolExecutor(1) as pool:
                yield from ((index, outcome) for _, outcome in _on_executor(pool, function, [item]))
