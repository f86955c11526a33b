"""`androstep advise`: limits and texts, missing data, hostile names, plug-ins, and costs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import advice, cli, schema
from androstep_analysis.present.advice import registry, words
from androstep_analysis.present.advice.apply import ADVICE
from androstep_analysis.present.advice.findings import FINDING, findings, of_apps, with_cost
from androstep_analysis.present.terminal.headline import shown
from androstep_analysis.present.terminal.text import columns, terminal_width

DEMO = ROOT / "datasets/demo"


def test_every_trigger_names_columns_that_there_are_and_says_where_its_limits_come_from() -> None:
    told = tomllib.loads((schema.directory() / "triggers.toml").read_text("utf-8"))
    assert [one.name for one in registry.own()] == list(told)
    for one in registry.own():
        for need in one.needs:
            table, _, column = need.partition(".")
            assert column == "state" or schema.table(table).column(column)
        known = {*schema.table("fs_events").column("event").values, *schema.table("importance").column("event").values}
        known.add("process_stats")  # Perfetto's packets
        assert set(one.events) <= known
        assert one.limits
        assert all(limit.source and limit.unit for limit in one.limits.values())


def test_the_page_has_every_trigger_with_its_limits() -> None:
    page = (ROOT / "docs/advise.md").read_text("utf-8")
    for one in registry.own():
        limits = "; ".join(f"{limit.value:,.10g} {limit.unit}" for limit in one.limits.values())
        assert f"| `{one.name}` | {one.title} | {limits} |" in page


def test_the_demo_has_findings_in_order_of_cost_and_cannot_tell_of_system_calls() -> None:
    table = androstep.advise(androstep.open(DEMO))
    assert table.columns == list(ADVICE)
    assert set(table["trigger"]) == {one.name for one in registry.own()}
    assert {"syncs", "rollback"} <= set(table.filter(status="cannot tell")["trigger"])
    found = table.filter(status="found")
    took = found["took_ns"].drop_nulls()
    assert took.to_list() == sorted(took, reverse=True)
    assert found["evidence"].null_count() == 0
    without = table.filter(pl.col("status") != "found").select(*FINDING)
    assert without.null_count().row(0) == (without.height,) * len(FINDING)


def test_a_recording_without_requests_cannot_tell_anything() -> None:
    """The triggers are undecided; none of them reports that all is well."""
    table = androstep.advise(androstep.open(corpus.path("strace/linux_multithread_strace1.log")))
    assert set(table["status"]) == {"cannot tell"}
    assert table["lacks"].null_count() == 0


def test_the_command_fits_and_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["advise", str(DEMO), "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert max(map(columns, lines)) <= terminal_width()
    assert any("cannot tell: many fsyncs" in line for line in lines)
    assert cli.main(["advise", str(DEMO), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(rows[0]) == list(ADVICE)


def test_no_name_steers_the_terminal() -> None:
    evil = "/data/\x1b[2J\u202eb.db\n"
    (one,) = (trigger for trigger in registry.own() if trigger.name == "rewrites")
    row = _finding(path=evil, process="a\x1b]0;x\x07", times=1, bytes=1, requests=1, saved_bytes=1, took_ns=1)
    table = row.with_columns(trigger=pl.lit("rewrites"), status=pl.lit("found"), saved_ns=None)
    text = shown(words.headline(table, (one,), 0, every=False))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    assert r"\x1b" in text


def _finding(**values: Any) -> pl.DataFrame:
    return findings(pl.DataFrame({name: [value] for name, value in values.items()}))


def test_a_request_costs_a_finding_once_and_only_within_its_time() -> None:
    rows = pl.DataFrame({"path": ["a", "b"], "begin_ns": [10, 10], "end_ns": [20, 20]})
    pieces = pl.DataFrame(
        {
            "path": ["a", "a", "a", "a"],
            "request_id": [1, 1, 2, 3],
            "time": [10, 10, 20, 21],
            "bytes": [4, 8, 16, 32],
            "took_ns": [100, 100, 7, 9],
        }
    )
    costly = with_cost(rows, pieces)
    assert costly.select("requests", "bytes", "took_ns").rows() == [(2, 28, 107), (None, None, None)]


@pytest.mark.parametrize(
    ("path", "took_ns", "is_advice"),
    [
        ("/data/com.example/files/a.log", 1, True),
        ("/media/0/Android/obb/main.1.com.example.obb", 1, True),
        ("/app/data/a.log", 1, True),  # an app in a container
        ("/app/com.example-1/base.apk", 1, False),
        ("/data/app/~~aGFzaA==/com.example-aGFzaA==/lib/arm64/liba.so", 1, False),
        ("/data/app/vmdl1234.tmp/base.apk", 1, False),
        ("/system/lib64/libc.so", 1, False),
        ("/usr/share/fonts/a.ttf", 1, False),
        (None, 1, True),
        ("/data/com.example/files/a.log", 0, False),
        ("/data/com.example/files/a.log", None, False),
    ],
)
def test_a_finding_has_a_cost_and_a_file_that_an_app_can_change(
    path: str | None, took_ns: int | None, is_advice: bool
) -> None:
    assert of_apps(_finding(path=path, took_ns=took_ns, times=9)).height == is_advice


# -- plug-ins ---------------------------------------------------------------------------------------------------------

PLUG_IN = """
import polars as pl
from androstep_analysis.present.advice import FINDING, Limit, Trigger

def find(evidence, limits):
    rows = evidence.pieces("read").select(times=pl.len(), bytes=pl.sum("bytes")).collect()
    assert list(limits.values()) == [1]
    empty = pl.DataFrame({name: [None] for name in FINDING}, schema=FINDING)
    return empty.with_columns(rows["times"].cast(pl.Int64), rows["bytes"].cast(pl.Int64))

def broken(evidence, limits):
    raise ValueError("not today")

def trigger(name, find):
    limits = {"times": Limit(1, "requests", "ours")}
    return Trigger(name, "reads", ("io.bytes",), "{times} reads with {bytes}", "nothing", "read less", limits, find)

READS, BROKEN, NUMBER = trigger("reads", find), trigger("broken", broken), 1
"""


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution with entry points of group ``androstep.triggers``, some of them invalid."""
    about = tmp_path / "more_triggers-1.0.dist-info"
    about.mkdir()
    (tmp_path / "more_triggers.py").write_text(PLUG_IN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: more-triggers\nVersion: 1.0\n")
    points = {"a": "READS", "b": "BROKEN", "c": "NUMBER", "d": "ABSENT"}
    lines = "".join(f"{name} = more_triggers:{value}\n" for name, value in points.items())
    (about / "entry_points.txt").write_text(f"[{advice.GROUP}]\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.brought.cache_clear()
    yield
    registry.brought.cache_clear()


@pytest.mark.usefixtures("plug_in")
def test_a_plug_in_finds_and_one_that_fails_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    capture = androstep.open(DEMO)
    table = androstep.advise(capture)
    reads = capture.io.filter(pl.col("op") == "read").select(pl.len(), pl.sum("bytes")).collect().row(0)
    (row,) = table.filter(trigger="reads").iter_rows(named=True)
    assert (row["status"], row["times"], row["bytes"]) == ("found", *reads)
    assert row["evidence"].startswith(f"{reads[0]:,} reads with ")
    (row,) = table.filter(trigger="broken").iter_rows(named=True)
    assert row["status"] == "cannot tell"
    assert "ValueError: not today" in row["lacks"]
    assert cli.main(["advise", str(DEMO)]) == 0
    said = capsys.readouterr()
    assert f"{reads[0]} reads with" in " ".join(said.out.split())
    assert said.err.count("androstep: plug-in") == 2
    assert "is no androstep_analysis.present.advice.Trigger" in said.err
