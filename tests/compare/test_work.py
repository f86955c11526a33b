"""Where collections are measured: the same numbers in worker processes and on a cluster, and workers that die."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support.collected import ROWS, captures_of_apps, trace
from tqdm.auto import tqdm

import androstep_analysis as androstep
from androstep_analysis import cli, compare, measures
from androstep_analysis.commands import compare as commands_compare
from androstep_analysis.compare.collections import work
from androstep_analysis.compare.collections.work import Failure
from androstep_analysis.compare.measures import Tables

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten captures of two apps, in directories of their own."""
    return captures_of_apps(tmp_path_factory.mktemp("captures"), 10)


@contextlib.contextmanager
def connected(workers: int) -> Iterator[Any]:
    """Start a cluster on this machine. Yield a client of it."""
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Return a cluster of two workers, for tests that leave them alive."""
    with connected(2) as client:
        yield client


@pytest.fixture
def client_of_none() -> Iterator[Any]:
    """Return a cluster without workers."""
    with connected(0) as client:
        yield client


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a cluster its second chance immediately, and no third."""
    monkeypatch.setattr(work, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(work, "NO_WORKERS_SECONDS", 0)


def by_workload(captures: Path) -> list[str]:
    return ["compare", str(captures), "--measure", "mix", "--by", "workload"]


@pytest.mark.prove
def test_where_a_collection_is_measured_changes_no_bit(captures: Path, client: Any) -> None:
    collection = androstep.collection(captures)
    alone = collection.measure("latency", window_ns=5_000_000_000, jobs=1)
    for where in ({"jobs": 2}, {"executor": client}):
        assert_frame_equal(collection.measure("latency", window_ns=5_000_000_000, **where), alone, check_exact=True)
    own = compare.Measure("own", ("io",), lambda tables, by: measures.volume(tables["io"], by=(*by, "owner_comm")))
    assert_frame_equal(collection.measure(own, executor=client), collection.measure(own, jobs=2), check_exact=True)


@pytest.mark.prove
def test_the_command_measures_on_a_cluster(captures: Path, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*by_workload(captures), "--cluster", client.scheduler.address]) == 0
    printed = capsys.readouterr().out
    assert cli.main([*by_workload(captures), "-j", "1"]) == 0
    assert capsys.readouterr().out == printed


# -- workers that die -------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("where", ["processes", "cluster"])
@pytest.mark.parametrize("deaths", ["one", "all"])
def test_a_worker_that_dies_affects_one_capture_only(captures: Path, where: str, deaths: str, tmp_path: Path) -> None:
    """Another worker measures it again; a capture that kills every worker is a row that says so."""
    marker = tmp_path / "killed"
    odd = trace(tmp_path / "odd.csv", 99)
    odd.write_text("".join(odd.read_text().splitlines(keepends=True)[:-1]))
    collection = androstep.collection(captures, odd)
    deadly = compare.Measure("deadly", ("requests",), _killing(str(marker) if deaths == "one" else ""))
    with contextlib.ExitStack() as stack:
        chosen = {"jobs": 2} if where == "processes" else {"executor": stack.enter_context(_cluster_that_survives())}
        found = collection.measure(deadly, **chosen)
    failed = found.drop_nulls("error")
    assert found.filter(pl.col("error").is_null())["capture_id"].n_unique() == (11 if deaths == "one" else 10)
    assert failed["capture"].to_list() == ([] if deaths == "one" else [str(odd)])
    assert marker.exists() == (deaths == "one")
    if deaths == "all":
        assert "worker was lost" in failed["error"].item()


@contextlib.contextmanager
def _cluster_that_survives() -> Iterator[Any]:
    """Start a cluster that keeps a worker when one item kills all that it runs on, and that loses no other item then.

    A nanny does not restart a worker that dies before the nanny knows that it runs, as happens when a restarted worker
    gets the deadly item at once (`distributed.Nanny._on_worker_exit`, 2026.8). So the second death is the last. Items
    that a worker holds when it dies count as deadly, too, so that it gets one at a time.
    """
    limits = {"distributed.scheduler.allowed-failures": 1, "distributed.scheduler.worker-saturation": 1.0}
    with dask.config.set(limits), connected(2) as client:
        yield client


def _killing(marker: str) -> Any:
    def measure(tables: Tables, by: tuple[str, ...]) -> pl.DataFrame:
        is_odd = tables["requests"].select(pl.len()).collect().item() == ROWS - 1
        if is_odd and not (marker and Path(marker).exists()):
            if marker:
                Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return measures.mix(tables["requests"], by=by)

    return measure


# -- clusters that cannot work ----------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.usefixtures("no_patience")
@pytest.mark.filterwarnings("default:the cluster at")
def test_the_command_gives_up_on_a_cluster_without_workers(
    captures: Path, client_of_none: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    address = client_of_none.scheduler.address
    assert cli.main([*by_workload(captures), "--cluster", address]) == 1
    warning, error = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"androstep: warning: the cluster at {address} has no running workers; start")
    assert f"the cluster at {address} has no running workers; start some with `dask worker`; waited 0 s" in error


@pytest.mark.prove
@pytest.mark.usefixtures("no_patience")
def test_what_was_finished_is_kept_when_all_workers_are_lost(
    client_of_none: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, arrived = tmp_path / "go", []

    class Bar(tqdm):  # type: ignore[type-arg]
        def update(self, n: float | None = 1) -> bool | None:
            arrived.append(n)
            if len(arrived) == 3:
                go.touch()
            return super().update(n)

    monkeypatch.setattr(work, "tqdm", Bar)
    with _worker(client_of_none), pytest.warns(UserWarning, match="no running workers"):
        *finished, lost, waiting = work.each(_killing_after(str(go)), range(5), executor=client_of_none)
    assert finished == [0, 1, 2]
    assert isinstance(lost, Failure) and "has no running workers" in lost.reason and "waited 0 s" in lost.reason
    assert waiting == lost


@contextlib.contextmanager
def _worker(client: Any) -> Iterator[None]:
    """Start a worker that no nanny restarts."""
    options = [client.scheduler.address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    worker = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", *options])
    try:
        client.wait_for_workers(1)
        yield
    finally:
        worker.kill()
        worker.wait()


def _killing_after(path: str) -> Callable[[int], int]:
    """Return a function that returns its argument, and for 3 kills its process as soon as there is a file."""

    def function(item: int) -> int:
        while item == 3:
            if Path(path).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return item

    return function


@pytest.mark.prove
def test_a_worker_that_arrives_late_does_the_work(client_of_none: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started by the warning that there is none."""
    monkeypatch.setattr(work, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(work, "NO_WORKERS_SECONDS", 600)
    seen = []

    def start(message: Warning | str, *_: object, **__: object) -> None:
        seen.append(str(message))
        client_of_none.cluster.scale(1)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        monkeypatch.setattr(warnings, "showwarning", start)
        assert work.each(abs, range(-3, 0), executor=client_of_none) == [3, 2, 1]
    assert len(seen) == 1 and "has no running workers" in seen[0]


@pytest.mark.prove
def test_a_worker_that_dask_paused_counts_while_it_executes(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with dask.config.set({"distributed.worker.memory.pause": False}), connected(1) as client:  # else it is undone
        executed = client.submit(_waiting, str(go))
        _wait_until(lambda: _worker_of(client)["metrics"]["task_counts"].get("executing"))  # a paused one begins none
        held = client.submit(abs, -1)
        client.run(_pause)
        _wait_until(lambda: _worker_of(client)["status"] == "paused")
        assert work.problem_of(client, "there") is None
        go.touch()
        assert executed.result() is None
        _wait_until(lambda: work.problem_of(client, "there"))
        assert work.problem_of(client, "there").startswith("the cluster at there has no running workers")
        assert not held.done()


def _waiting(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def _pause(dask_worker: Any) -> None:
    dask_worker.status = distributed.Status.paused


def _worker_of(client: Any) -> Any:
    [worker] = client.sync(client.scheduler.identity, n_workers=-1)["workers"].values()
    return worker


def _wait_until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.01)


@pytest.mark.prove
@pytest.mark.usefixtures("no_patience")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_scheduler_that_is_lost_ends_the_work(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost when the warning comes that it has no workers."""
    monkeypatch.setattr(work, "ANSWER_SECONDS", 0.5)
    with (
        _scheduler(tmp_path) as (scheduler, address),
        distributed.Client(address) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always", UserWarning)
        monkeypatch.setattr(warnings, "showwarning", lambda *_, **__: scheduler.send_signal(number))
        found = work.each(abs, range(3), executor=client)
    assert all(isinstance(one, Failure) and "scheduler" in one.reason for one in found)


@contextlib.contextmanager
def _scheduler(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a scheduler in a process of its own."""
    file = directory / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", *options])
    try:
        _wait_until(lambda: (file.exists() and file.read_text().endswith("}")) or scheduler.poll() is not None)
        yield scheduler, json.loads(file.read_text())["address"]
    finally:
        scheduler.kill()
        scheduler.wait()


@pytest.mark.prove
@pytest.mark.parametrize("server", ["none", "silent", "worker"])
def test_an_address_without_a_scheduler_is_an_error(
    server: str,
    captures: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(commands_compare, "CONNECT_SECONDS", 60 if server == "worker" else 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        if server == "silent":
            bound.listen()
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        if server == "worker":
            address = next(iter(request.getfixturevalue("client").nthreads()))
        assert cli.main([*by_workload(captures), "--cluster", address]) == 1
    [error] = capsys.readouterr().err.splitlines()
    reason = "a worker does" if server == "worker" else "waited 0.5 s"
    assert error == f"androstep: {address}: no Dask scheduler answers at this address ({reason})"
