"""Captures in a bucket: a real client of S3 (s3fs), and a server that speaks its protocol (moto) on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support.collected import captures_of_apps

import androstep_analysis as androstep
from androstep_analysis import cli, datasets


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of a server with the empty bucket ``bucket``, which the environment names to every program."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    S3FileSystem.clear_instance_cache()  # fsspec keeps clients, which keep their server
    client = S3FileSystem()
    client.mkdir("bucket")
    yield client
    client.rm("bucket", recursive=True)  # servers of one process have the same buckets
    S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.mark.prove
def test_captures_in_a_bucket_measure_as_those_here(
    storage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = captures_of_apps(tmp_path / "captures", 6)
    storage.put(str(here), "bucket/captures", recursive=True)
    near, far = androstep.collection(here), androstep.collection("s3://bucket/captures/**")
    assert len(near) == len(far) == len(androstep.collection("s3://bucket/captures/mail")) * 2
    for jobs in (1, 2):  # the workers are processes that ask the server themselves
        assert_frame_equal(far.measure("mix", jobs=jobs), near.measure("mix", jobs=1), check_row_order=False)
    by_workload = ["--measure", "mix", "--by", "workload"]
    assert cli.main(["compare", "s3://bucket/captures/**", *by_workload]) == 0
    from_afar = capsys.readouterr().out
    assert cli.main(["compare", str(here), *by_workload]) == 0
    assert from_afar == capsys.readouterr().out


@pytest.mark.prove
def test_a_release_in_a_bucket_is_a_collection(storage: Any, tmp_path: Path) -> None:
    here = captures_of_apps(tmp_path / "captures", 4)
    released = datasets.release(sorted(here.glob("*/*")), tmp_path / "released")
    storage.put(str(released), "bucket/released", recursive=True)
    far = androstep.collection("s3://bucket/released")
    assert_frame_equal(
        far.measure("mix", jobs=1), androstep.collection(released).measure("mix", jobs=1), check_row_order=False
    )


def test_an_object_that_is_damaged_is_a_row_that_says_so(storage: Any, tmp_path: Path) -> None:
    here = captures_of_apps(tmp_path / "captures", 4)
    storage.put(str(here), "bucket/captures", recursive=True)
    storage.pipe("bucket/captures/mail/0/capture.json", b'{"torn')
    told = androstep.collection("s3://bucket/captures").measure("mix", jobs=1)
    assert told.drop_nulls("error")["capture"].to_list() == ["s3://bucket/captures/mail/0"]
    assert told.filter(pl.col("error").is_null())["capture"].n_unique() == 3


@pytest.mark.parametrize("address", ["s3://elsewhere/captures", "s3://bucket/nothing"])
def test_what_is_not_there_is_said_in_a_sentence(
    address: str, storage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", address, "--measure", "mix", "--by", "workload"]) == 1
    told = capsys.readouterr().err
    assert address in told and "Traceback" not in told and len(told.splitlines()) == 1


def test_a_server_that_does_not_answer_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert cli.main(["compare", "s3://other/captures", "--measure", "mix", "--by", "workload"]) == 1
    told = capsys.readouterr().err
    assert "cannot be reached" in told and len(told.splitlines()) == 1
