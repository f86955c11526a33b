"""Compare `summary --json` with the counts of independent tools, and with the page that describes it."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from support import corpus, readers, replayed, waiting
from support.tree import ROOT

from androstep_analysis import capture
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.present.summary import summary

DEMO = ROOT / "datasets/demo"
PAGE = ROOT / "docs/summary.md"


def summarised(name: str | Path, compat: str | None = None) -> dict[str, Any]:
    """Return the summary of a file of the corpus, or of a path, after a round trip through JSON."""
    path = name if isinstance(name, Path) else corpus.path(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # test_ingest_* look at these
        opened = capture.open(path)
    found: dict[str, Any] = json.loads(json.dumps(summary(opened, compat=compat), allow_nan=False))
    return found


def expected(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(corpus.path(f"{name}.expected.json").read_text())
    return content


# -- recordings of others ---------------------------------------------------------------------------------------------


def test_mosts_own_trace_counted_right() -> None:
    """Counts exclude the 54 completions of empty flushes, which the Viewer counted as I/O.

    The oracle counts completions. One write of data was issued but did not complete within the trace.
    """
    oracle = json.loads(corpus.path("androstep/oracle_most.json").read_text())["result_po"]
    found = summarised("androstep/result.po")
    letters = {"D": "data", "J": "journal", "M": "metadata"}
    told = found["population"]
    more = {"count": told["count"] - told["completed"], "bytes": told["bytes"] - told["completed_bytes"]}
    assert more == {"count": 1, "bytes": 12 << 10}
    for entry in (found["block_types"]["write"]["data"], found["requests"]["write"]):
        for name, value in more.items():
            entry[name] -= value
    for op, direction in (("read", "R"), ("write", "W")):
        stated = oracle["completions_by_dir"][direction]
        assert found["block_types"][op] == {
            letters[letter]: {"count": count, "bytes": int(stated["KB_by_block"][letter] * 1024)}
            for letter, count in stated["count_by_block_nonzero"].items()
            if count
        }
        assert found["requests"][op] == {
            "count": stated["count_without_zero_size"],
            "bytes": int(stated["KB"] * 1024),
        }
    assert found["requests"]["flush"]["count"] == oracle["zero_size_completions"]["total"] == 54
    assert set(found["block_types"]) == {"read", "write"}
    assert found["events"] == oracle["by_action"]
    assert found["events_by_rwbs"] == oracle["by_action_rwbs"]
    assert (found["first_ns"], found["last_ns"]) == (readers.ns(oracle["first_time"]), readers.ns(oracle["last_time"]))
    assert (found["lost_events"], found["losses"]) == (0, [])
    types = {"-journal": "sqlite_journal", ".db": "sqlite_db"}
    by_suffix = {suffix: [0, 0] for suffix in types}
    for path, counts in oracle["file_names"].items():
        for suffix in types:
            if path.endswith(suffix):
                by_suffix[suffix][0] += counts["C_count"]
                by_suffix[suffix][1] += int(counts["C_KB"] * 1024)
    for suffix, (count, size) in by_suffix.items():
        stated = found["file_types"]["write"][types[suffix]]
        # A database may have another suffix (SyncData.sqlite3), a journal has not.
        assert stated == {"count": count, "bytes": size} or (suffix == ".db" and stated["count"] >= count)


PIXEL = ["telegram_precond", "pubg_exec", "slideshow_exec", "cod_exec"]


@pytest.mark.parametrize("name", PIXEL)
def test_pixel_6a(name: str) -> None:
    file = f"block_csv/pixel6a_{name}.csv.gz"
    lines = [line.split() for line in expected(file)["output"]]
    counted = {line[0]: (int(line[1]), int(line[2])) for line in lines if line[0] in ("R", "W")}
    times = next(line[1:] for line in lines if line[0] == "t")
    found = summarised(file)
    assert found["format"] == "block_csv"
    assert found["events_by_rwbs"] == {f"{op} {op}": count for op, (count, _) in counted.items()}
    assert found["requests"] == {
        {"R": "read", "W": "write"}[op]: {"count": count, "bytes": sectors * 512}
        for op, (count, sectors) in counted.items()
    }
    assert [found["first_ns"] // 1000, found["last_ns"] // 1000] == [readers.ns(time) // 1000 for time in times]


# -- the demo ---------------------------------------------------------------------------------------------------------


def test_the_parts_add_up() -> None:
    found = summarised(DEMO)
    by_op = {op: sum(entry["bytes"] for entry in types.values()) for op, types in found["block_types"].items()}
    assert by_op == {op: entry["bytes"] for op, entry in found["requests"].items() if entry["bytes"]}
    data = {op: types["data"]["bytes"] for op, types in found["block_types"].items() if "data" in types}
    assert {op: sum(e["bytes"] for e in types.values()) for op, types in found["file_types"].items()} == data
    stated = json.loads((DEMO / "capture.json").read_text())
    assert found["lost_events"] == stated["lost_events"] == 0


# -- the page ---------------------------------------------------------------------------------------------------------

FIRST_CELL = re.compile(r"(?m)^\| (`[^|]+) \|")


def leaves(value: Any, path: str = "") -> set[str]:
    """Yield dotted names of all values in a JSON object; keys that depend on the capture are replaced by <kind>."""
    if isinstance(value, list):
        return {name for item in value for name in leaves(item, f"{path}[]")}
    if not isinstance(value, dict):
        return {path}
    kind = BY.get(path)
    return {
        name
        for key, inner in value.items()
        for name in leaves(inner, f"{path}.{f'<{kind}>' if kind else key}".lstrip("."))
    }


BY = {
    "events": "event",
    "events_by_rwbs": "event rwbs",
    "requests": "op",
    "coverage": "op",
    "syscalls": "call",
    "block_types": "op",
    "block_types.<op>": "block type",
    "file_types": "op",
    "file_types.<op>": "file type",
    "map_sources": "op",
    "map_sources.<op>": "source",
    "owners_via": "op",
    "owners_via.<op>": "rule",
    "snapshots[].kinds": "kind",
    "bench.measures[]": "column",
    "replay.measures[]": "column",
    "waits.responses[]": "column",
    "waits.classes[]": "column",
    "waits.in_flight[]": "column",
    "largest[]": "column",
}


def test_the_page_names_every_key_and_no_other(tmp_path: Path) -> None:
    documented = {
        name
        for cell in FIRST_CELL.findall(PAGE.read_text("utf-8").partition("## As JSON")[2])
        for name in re.findall(r"`(.+?)`", cell)
    }
    (tmp_path / "cut.txt").write_text("  8,0 0 1 0.000000001 1 Q W 8 + 8 [a]\nthis is no event\n")
    by_most = {
        name.replace("<op>", "<direction>").replace("block type", "letter").replace("file type", "class")
        for name in leaves(summarised(DEMO, "most"))
        if name.startswith(("block_types.", "file_types."))
    }
    (tmp_path / "bench.txt").write_text("[mobibench measurement setup]\nIO size : 4 KB\nIO count : 1\n")
    (tmp_path / "strace.txt").write_text("1 0.000001 close(3) = 0 <0.000001>\n")
    replayed.write(tmp_path / "replay.rec", [replayed.operation(0)])
    names = ("cut.txt", "bench.txt", "strace.txt", "replay.rec")
    found = [summarised(path) for path in (DEMO, *(tmp_path / name for name in names))]
    found.append(summary(waiting.capture()))
    assert {name for summary in found for name in leaves(summary)} | by_most == documented
