"""The output of --json matches the schemas in schemas/answers for every command, on real and on hostile inputs."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from support.tree import ROOT

from androstep_analysis import capture, cli, compare, datasets
from androstep_analysis.commands import top
from androstep_analysis.common.answers import to_json
from androstep_analysis.present.live import KEYS, Moment, ranking

DEMO = str(ROOT / "datasets/demo")
BENCH = ROOT / "datasets/bench"
ANSWERS = ROOT / "schemas/answers"
HOSTILE = '\u202e"a\x1b[2J\x7f;=b\u00fc\n'


def schema(command: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ANSWERS / f"{command}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def answer(capsys: pytest.CaptureFixture[str], command: str, *words: str | Path, status: int = 0) -> Any:
    """Return the parsed JSON output of a command, after checking it against its schema. It must be ASCII."""
    capsys.readouterr()
    assert cli.main([command, *map(str, words), "--json"]) == status
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert all(character.isprintable() or character == "\n" for character in printed)
    found = json.loads(printed, parse_constant=pytest.fail)
    jsonschema.validate(found, schema(command), jsonschema.Draft202012Validator)
    return found


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return recordings with files and owners, without one or both, with hostile names, and an empty one."""
    place = tmp_path_factory.mktemp("inputs")
    bare = place / "bare.csv"
    header = "timestamp,process,device,rw_flag,sector,size\n"
    bare.write_text(header + "".join(f"{n}.5,a-b-7,1048577,R,{n * 8},8\n" for n in range(9)))
    calls = place / "calls.strace"
    name = "".join(f"\\{byte:o}" for byte in HOSTILE.encode())
    lines = [f'7 1{n}.000000 openat(AT_FDCWD, "/data/{name}", O_RDONLY) = 3 <0.000010>\n' for n in range(9)]
    calls.write_text("".join(lines))
    return {
        "demo": Path(DEMO),
        "trace without images": Path(DEMO, "raw/trace.dat.zst"),
        "Perfetto": ROOT / "tests/data/perfetto_generic.pftrace",
        "CSV": bare,
        "strace": calls,
        "benchmark": BENCH / "ext4_disk/modes.rec.xz",
    }


def test_every_command_with_json_has_a_schema_and_the_other_way_round() -> None:
    assert {name for name in cli.COMMANDS if takes_json(name)} == {path.stem for path in ANSWERS.glob("*.json")}


def takes_json(command: str) -> bool:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"androstep_analysis.commands.{command.replace('-', '_')}").add(parser)
    return "--json" in parser.format_usage()


@pytest.mark.parametrize("kind", ["demo", "trace without images", "Perfetto", "CSV", "strace", "benchmark"])
def test_summary_and_advise(kind: str, inputs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "summary", inputs[kind])
    assert told["losses"] is not None
    if kind == "strace":
        assert told["syscalls"]["openat"]["count"] == 9
    answer(capsys, "advise", inputs[kind])


def test_summary_as_most_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "summary", DEMO, "--compat", "most")["block_types"]["W"]


def test_measures(inputs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    tables = set(capture.open(DEMO).tables)
    for name, one in compare.measures().items():
        if set(one.needs) <= tables:
            answer(capsys, "measure", DEMO, name)
    answer(capsys, "measure", DEMO, "volume", "--by", "app,file,owner_app", "--window", "1s")
    assert answer(capsys, "measure", inputs["CSV"], "mix")[0]["n"] == 9
    assert answer(capsys, "measure", inputs["benchmark"], "bench")


def test_compare(inputs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--measure", "mix", "--windows", "1s"]
    assert len(answer(capsys, "compare", DEMO, inputs["CSV"], *words)["captures"]) == 2
    two = [str(BENCH / fs / "modes.rec.xz") for fs in ("ext4_disk", "xfs_disk")]
    for sides in ([DEMO, inputs["Perfetto"]], [DEMO, inputs["CSV"]], two):
        assert answer(capsys, "compare", *sides)["rows"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *two, "--measure", "bench", "--metric", "iops", "--gate", "<+5%", "--json"])
    assert ended.value.code == 3
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, schema("compare"), jsonschema.Draft202012Validator)
    assert told["gates"]


def test_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared = answer(capsys, "bench", "--compare", BENCH / "ext4_disk/modes.rec.xz", BENCH / "xfs_disk/modes.rec.xz")[
        "comparisons"
    ]
    assert {row["verdict"] for row in compared} >= {"faster", "no difference shown"}


def test_lookup(capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, "lookup", ROOT / "tests/data/f2fs_features.img.xz", "0", "8192", "123456789")
    assert [row["sector"] for row in rows] == [0, 8192, 123456789]
    assert rows[-1]["block_type"] == "unknown"


def test_whatif(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--without", "fs-journal", "--without", "sqlite-fsync", "--flash", "app", "--log-structured"]
    told = answer(capsys, "whatif", DEMO, *changes, "--model", ROOT / "datasets/whatif/model_disk")
    account = {row["effect"]: 0 for row in told["without_fs_journal"]["account"]}
    for row in told["without_fs_journal"]["account"]:
        account[row["effect"]] += row["count"]
    assert account["before"] - account["removed"] + account.get("added", 0) == account["after"]
    assert told["predicted"]["after"]["totals"]


def test_devices_doctor_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {"where": "local", "what": "this machine"} in answer(capsys, "devices")
    assert all(row["ok"] for row in answer(capsys, "doctor", DEMO))
    assert answer(capsys, "doctor")
    made = tmp_path / HOSTILE.strip()
    datasets.release([DEMO], made)
    assert answer(capsys, "verify", made) == {
        "directory": str(made),
        "is_whole": True,
        "files": pytest.approx(20, abs=20),
        "problems": [],
        "notes": [],
    }
    (made / "README.md").write_text("changed")
    assert not answer(capsys, "verify", made, status=1)["is_whole"]


@pytest.mark.parametrize("by", KEYS)
def test_a_line_of_top(by: str) -> None:
    opened = capture.open(DEMO)
    moment = Moment(0, 10**9, opened.requests.collect(), opened.io.collect(), 1, 0, 1.0, float("nan"), 0.0)
    line = top._json(moment, ranking(moment, by).head(5))
    assert "\n" not in line
    told = json.loads(line, parse_constant=pytest.fail)
    jsonschema.validate(told, schema("top"), jsonschema.Draft202012Validator)
    assert len(told["rows"]) == min(5, ranking(moment, by).height)


def test_what_json_has_nothing_for() -> None:
    table = pl.DataFrame(
        {
            "a": [1 << 62, None],
            "b": [float("nan"), 0.5],
            "c": pl.Series(["x", None], dtype=pl.Enum(["x"])),
            "d": [[1], []],
        }
    )
    told = {"table": table, "path": Path("/\udcff"), "text": HOSTILE, "lone": "\ud800", "none": (float("inf"), None)}
    written = to_json(told)
    assert written.isascii()
    assert "\x7f" not in written
    assert json.loads(written) == {
        "table": [{"a": 1 << 62, "b": None, "c": "x", "d": [1]}, {"a": None, "b": 0.5, "c": None, "d": []}],
        "path": "/\\udcff",
        "text": HOSTILE,
        "lone": "\\ud800",
        "none": [None, None],
    }
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        to_json({1})
