"""Test the ten lines of `androstep summary`: correct numbers, width, and no effect of control characters in names."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus, made, waiting
from support.needs import left_to_prove
from support.tree import ROOT

from androstep_analysis import bench, capture, cli, measures, slowest
from androstep_analysis.capture import Capture
from androstep_analysis.common import quantities
from androstep_analysis.common.errors import Loss, LossWarning
from androstep_analysis.common.losses import as_json, is_missing
from androstep_analysis.ingest import clock
from androstep_analysis.present import headline
from androstep_analysis.present.headline import Amount, Grid, Headline, Name, Quote, Sentence, requests, unusual
from androstep_analysis.present.report import cells
from androstep_analysis.present.sheets import Sheet
from androstep_analysis.present.summary import summary
from androstep_analysis.present.terminal.headline import shown
from androstep_analysis.present.terminal.tables import tables as terminal_tables
from androstep_analysis.present.terminal.text import columns, shortened, table, terminal_width, wrapped
from androstep_analysis.replay.metrics import metrics

DATASETS = ("demo", "bench/ext4_disk", "replay/ext4_disk", "replay/app.strace.xz")

CORPUS = (
    "androstep/ftrace_sqlite.txt",
    "androstep/mobigen.out.twitter",
    "androstep/result.po",
    "bench_results/pixel_mobibench_outputs.tar.gz",
    "blkparse_text/android_swapcache_2.txt",
    "blkparse_text/leveldb_ram0_blk_data.txt",
    "blktrace_bin/takeoverjp_sample.blktrace.0",
    "block_csv/pixel6a_telegram_precond.csv.gz",
    "block_csv/opencas_sample_trace.tar.xz",
    "ftrace_text/novelinux_ext4-jbd2-open-write-fsync_traces.md",
    "ftrace_text/systrace_wangzherongyao.html.zip",
    "ftrace_text/tracecompass_atrace-test",
    "ioshark/wl.tar",
    "perfetto/difftest_f2fs_iostat.pb",
    "perfetto/difftest_ufshcd_command.pb",
    "strace/linux_multithread_strace1.log",
)


def opened(name: str) -> Capture:
    return capture.open(ROOT / "datasets" / name if name in DATASETS else corpus.path(name))


def numbers(value: object) -> Iterator[float]:
    """Yield every number within a JSON value."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float):
        yield float(value)


def numbers_in(table: pl.DataFrame) -> Iterator[float]:
    for column in table.select(pl.selectors.numeric()):
        yield from column.drop_nulls().cast(pl.Float64)


def known(of: Capture) -> set[float]:
    """Return every number of --json and of the measures, and those derived from them."""
    found = {*numbers(summary(of)), *numbers(of.about["rows"]), 0.0}
    for role in ("steps", "gui"):
        found.update(numbers(of.about[role] or {}))
    found.update([float(len(of.jumps) + 1), float(sum(of.events.values()))])
    if of.first_ns is not None and of.last_ns is not None:
        found.add(float(clock.continued(of.last_ns, of.jumps) - of.first_ns))
    if of.about["rows"]["requests"]:
        results = requests.results(of)
        for table in results.values():
            found.update(numbers_in(table))
        for name, column in (("processes", "owner_comm"), ("files", "path")):
            both = results[name].filter(pl.col("metric") == "bytes", pl.col("op").is_in(["read", "write"]))
            found.update(numbers_in(both.group_by(column).agg(pl.col("value").sum())))
            found.add(float(both["value"].sum()))
        found.add(float(of.requests.filter(pl.col("error") != 0).select(pl.len()).collect().item()))
        found.add(float(of.population["count"] - of.population["completed"]))
    for table in (
        measures.calls(of.syscalls),
        measures.called_paths(of.syscalls),
        measures.callers(of.syscalls),
        measures.commands(of.commands),
        measures.counters(of.samples),
        measures.cpu_by_process(of.samples).with_columns(pl.col("value") * 1e9),
        measures.busyness(of.samples),
    ):
        found.update(numbers_in(table))
    if of.lost_events:
        found.add(of.lost_events / (of.lost_events + sum(of.events.values())))
    for row in slowest.slow(of).to_dicts():
        found.update(numbers(row))
        stages: Counter[str] = Counter()
        for name, length_ns in zip(row["stages"], row["stages_ns"], strict=True):
            stages[name] += length_ns
        found.update(map(float, stages.values()))
    if of.about["bench"]:
        table = bench.summarise(of.bench).filter(metric="invalid_runs")
        few = table.filter(pl.col("n") - pl.col("value") < 6).height
        reasons = of.bench["bench_runs"].filter(~pl.col("valid"))["invalid"].value_counts()
        found.update([float(table.height), float(few), *numbers_in(reasons)])
    if of.about["replay"]:
        found.update(numbers_in(metrics(of.replay)))
    return found


def amounts(told: Headline) -> Iterator[Amount]:
    rows = [row for table in told.tables if isinstance(table, Grid) for row in table.rows]
    for parts in (*(sentence.parts for sentence in told.sentences), *rows):
        yield from (part for part in parts if isinstance(part, Amount))


def check(told: Headline, of: Capture) -> None:
    """Check the rules for every headline."""
    numbers_known = known(of)
    wrong = [amount for amount in amounts(told) if float(amount.value) not in numbers_known]
    assert wrong == [], "numbers that no measure has"
    stated = (one for one in told.sentences if one.about != "measured")  # tests/bench/test_bench_words.py
    plain = [part for sentence in stated for part in sentence.parts if type(part) is str]
    constant = re.compile(
        r"95 %|fewer than 6|--repeats 6|jbd2|(process|thread|inode) \d+|sector [\d,]+|p50|p99(\.9)?"
        r"|\(\d+\.\d % inferred\)"
    )
    assert [part for part in plain if re.search(r"\d", constant.sub("", part))] == [], "numbers that nothing checks"
    has_more = of.about["rows"]["requests"] or any(of.about[part] for part in ("bench", "replay", "steps", "gui"))
    is_complete = has_more and not of.lost_events and not any(is_missing(loss) for loss in of.losses)
    assert [one.about for one in told.sentences[:2]] == ["recorded", "complete" if is_complete else "missing"]
    check_text(shown(told))


def check_text(text: str) -> None:
    lines = text.splitlines()
    assert not any(not line and not following for line, following in pairwise(lines)) and lines[0] and lines[-1]
    assert [line for line in lines if columns(line) > terminal_width()] == []
    assert not re.search(r"\b(nan|None|inf|NaN|True|False)\b|<Capture|Enum\(", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", text)


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("name", [*DATASETS, *CORPUS])
def test_every_number_is_that_of_a_measure_and_every_line_fits(name: str) -> None:
    of = opened(name)
    check(headline.of(of), of)


@pytest.mark.parametrize("has_requests", [True, False])
def test_waits_are_shown(has_requests: bool) -> None:
    of = waiting.capture(has_requests=has_requests)
    told = headline.of(of)
    (waits,) = (sentence for sentence in told.sentences if sentence.about == "waits")
    assert str(waits).startswith("3 inputs, 2 of which led to a stable screen (by snapshots)")
    assert any(isinstance(table, Grid) and table.header[0] == "action" for table in told.tables) is not has_requests
    check_text(shown(told))


def test_discards_are_apart_from_the_bytes_that_moved() -> None:
    rows = [
        {"op": op, "sector": 100 * n, "nr_sectors": sectors, "queue_ns": n, "issue_ns": n}
        for n, (op, sectors) in enumerate([("discard", 96), ("write", 24), ("write", 8), ("read", 16)])
    ]
    told = headline.of(of_rows(rows))
    titles = [(one.title, one.rows["share"].sum()) for one in told.tables if isinstance(one, Sheet)]
    assert titles == [("Written: 16 KiB", 1), ("Read: 8 KiB", 1)]
    (discarded,) = (one for one in told.sentences if one.about == "discarded")
    assert str(discarded) == "48 KiB of freed blocks in 1 request, which moves no data"
    assert "discarded" not in {one.about for one in headline.of(of_rows(rows[1:])).sentences}


def test_the_slowest_follow_the_tables_of_bytes() -> None:
    parts = headline.of(opened("demo")).parts
    kinds = [one.about if isinstance(one, Sentence) else type(one).__name__ for one in parts]
    assert kinds[:5] == ["recorded", "complete", "Sheet", "Sheet", "slowest"]


def of_rows(rows: list[dict[str, Any]], **about: Any) -> Capture:
    """Return a capture whose requests and pieces come from the same rows."""
    return made.capture(rows, [{"request_id": number} | row for number, row in enumerate(rows)], **about)


EVIL = (
    "e\x1b[2J\x9b1m",
    "\u202egpj.exe\u2028",
    "全角" * 60,
    "👩‍👩‍👧‍👦❤️" * 30,
    "a" + "\u0301" * 500,
    "x y " * 50,
    "/" * 300,
    "",
    "-1",
    "\ud800",
)


@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_no_name_steers_a_line_or_makes_it_longer(evil: str) -> None:
    evil = evil.encode("utf-8", "backslashreplace").decode()
    rows = [
        {"sector": n * 8, "issue_ns": n, "complete_ns": n + 5, "op": op, "block_type": "data", "file_type": "other"}
        | {"owner_comm": evil, "owner_via": "submitter", "path": evil, "package": evil}
        for n, op in enumerate(("read", "write", "write"))
    ]
    told = headline.of(of_rows(rows, losses=[as_json(Loss("torn", 1, f"{evil}: torn"))], lost_events=1))
    check_text(shown(told))
    files = [table.rows["file"].to_list() for table in told.tables if isinstance(table, Sheet)]
    assert files == [[evil], [evil]]


def test_unknown_values_name_the_missing_events() -> None:
    rows = [{"sector": 8 * n, "queue_ns": n, "sync": None} for n in range(3)]
    told = headline.of(made.capture(rows))
    (said,) = (one for one in told.sentences if one.kind == "unknown")
    assert str(said) == (
        "processes (none recorded), files (no filesystem events), sync (no flags (rwbs)), times (no completion): use "
        "`androstep record`; for files also `androstep ingest --image-after`"
    )
    assert [gap.about for gap in told.gaps] == ["processes", "files", "sync", "times"]
    assert "types" not in {one.about for one in told.sentences}
    (causes,) = (table for table in told.tables if isinstance(table, Sheet))
    assert causes.rows.select("owner", "file", "why").rows() == [(None, None, "write")]


def test_flushes_and_discards_lack_neither_process_nor_file() -> None:
    rows = [{"op": op, "nr_sectors": nr, "queue_ns": 0, "issue_ns": 0} for op, nr in (("flush", 0), ("discard", 8))]
    told = headline.of(of_rows([row | {"sector": 0, "complete_ns": 5} for row in rows]))
    assert not {"processes", "files"} & {gap.about for gap in told.gaps}


def test_missing_requests_are_stated() -> None:
    of = made.capture()
    of.about["events"] = {"sched_switch": 3}
    (said,) = headline.of(of).sentences[2:]
    assert said.about == said.kind == "unknown"
    assert str(said) == "requests (no block events): use `androstep record`"


# -- what is unusual ---------------------------------------------------------------------------------------------------


def ordinary(count: int = 1000, **of_each: Any) -> list[dict[str, Any]]:
    """Return requests without anything unusual."""
    return [
        {"sector": 16 * n, "queue_ns": 10 * n, "issue_ns": 10 * n + 1, "complete_ns": 10 * n + 5 + n % 3, "error": 0}
        | {"op": "read" if n % 3 else "write", "sync": bool(n % 2), "block_type": "data"}
        | {"owner_comm": f"p{n % 4}", "path": f"/f{n % 5}", "owner_via": "submitter"}
        | of_each
        for n in range(count)
    ]


def altered(rows: list[dict[str, Any]], part: float, change: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with the last share of them changed."""
    first = len(rows) - round(len(rows) * part)
    return [row | (change if n >= first else {}) for n, row in enumerate(rows)]


CASES: dict[str, tuple[float, float, dict[str, Any], str]] = {
    "failed": (0, 0.001, {"error": -5}, "1 of 1,000 requests failed"),
    "unfinished": (0.01, 0.02, {"complete_ns": None}, "20 of 1,000 requests have no completion"),
    "unissued": (0.01, 0.02, {"issue_ns": None, "complete_ns": None}, "20 more requests (80 KiB) were queued"),
    "process": (0.3, 0.6, {"owner_comm": "one"}, "one has 2.344 MiB of the 3.906 MiB read and written"),
    "file": (0.3, 0.6, {"path": "/one"}, "/one has 2.344 MiB of the 3.906 MiB of data read and written"),
    "discards": (0.05, 0.06, {"op": "discard"}, "6.0 % of the requests other than flushes are discards"),
    "tail": (0.0005, 0.004, {"complete_ns": 2 * 10**9, "op": "read"}, "read latency: median 6 ns, p99.9 2 s"),
}
"""For each rule: shares of changed requests below and above its limit, the change, and the resulting sentence."""


@pytest.mark.parametrize("rule", [*CASES, "sync"])
def test_a_rule_finds_what_is_beyond_its_limit_and_nothing_else(rule: str) -> None:
    least, most, change, words = CASES.get(rule, (0.8, 1, {"sync": True}, "100.0 % of the writes are synchronous"))
    assert found(of_rows(altered(ordinary(3000), 0, {}))) == []
    rows = ordinary(3000) if rule == "tail" else ordinary()
    assert found(of_rows(altered(rows, least, change))) == []
    (said,) = found(of_rows(altered(rows, most, change)))
    assert said.startswith(words), said


def found(of: Capture) -> list[str]:
    said = [one for one in headline.of(of).sentences if one.about == "unusual"]
    if said[0].kind == "fact":
        assert str(said[0]).startswith("nothing") and len(said) == 1
        return []
    return [str(one) for one in said]


def test_every_rule_has_a_case_and_a_line_in_the_docs() -> None:
    assert unusual.RULES.keys() == {*CASES, "sync"}
    page = (ROOT / "docs/summary.md").read_text("utf-8")
    for rule in unusual.RULES.values():
        assert f"| {rule.what} | {rule.limit:g} | {rule.least} |" in page


def test_clocks_and_doubted_images_are_unusual_and_notes_are_not_losses() -> None:
    losses = [Loss("clock", 1, "the clock jumps", spans=((0, 1),)), Loss("repeated", 7, "7 rows repeat", ())]
    image = {"role": "image_after", "proven": "nothing", "agreements": 0, "contradictions": 3, "kinds": {}}
    of = made.capture(ordinary(9), losses=[as_json(loss) for loss in losses], snapshots=[image])
    told = headline.of(of)
    assert [str(one)[:57] for one in told.sentences if one.about == "unusual"] == [
        "the clock jumps; the trace does not prove that the image "
    ]
    assert [str(one) for one in told.sentences if one.about == "noted"] == ["7 rows repeat"]
    assert str(told.sentences[1]).startswith("no loss reported")


def test_a_recording_without_requests_is_never_called_complete(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_text(
        "  jbd2/dm-0-8-876     [001] .... 12.122534: jbd2_commit_flushing: dev 253,0 transaction 1141862986 sync 0\n"
    )
    told = [(one.about, str(one), one.kind) for one in headline.of(capture.open(tmp_path / "trace.txt")).sentences]
    assert told[0][1].startswith("1 event, none of them a request or a system call")
    assert told[1] == ("missing", "no block requests", "unusual")


@pytest.mark.parametrize(("state", "files"), [("whole", "most calls: /a 1"), ("resumed", None)])
def test_a_file_is_named_for_the_calls_that_began_in_the_recording(state: str, files: str | None) -> None:
    calls = made.table("syscalls", [{"call": "chdir", "state": state, "path": "/a"}])
    tables = {name: table.collect() for name, table in made.capture().tables.items()}
    found = headline.of(made.of_tables(tables | {"syscalls": calls}))
    assert {one.about: str(one) for one in found.sentences}.get("files") == files


@pytest.mark.parametrize(
    "event", ["block_io_start: 8,0 W 4096 () 64 + 8 [dd]", "block_rq_insert: 8,0 W 0 () 64 + 8 [d]"]
)
def test_block_events_without_issue_and_completion_are_not_denied(tmp_path: Path, event: str) -> None:
    (tmp_path / "trace.txt").write_text(f"  dd-876     [001] .... 12.122534: {event}\n")
    told = {one.about: str(one) for one in headline.of(capture.open(tmp_path / "trace.txt")).sentences}
    assert told["unknown"].startswith("requests (the block events do not include the issue or completion of one)")


def test_losses_are_in_the_second_line_with_their_share() -> None:
    losses = [Loss("overwritten", 25, "25 events were overwritten"), *(Loss("torn", 1, f"torn {n}") for n in "abc")]
    of = made.capture(ordinary(9), lost_events=25, losses=[as_json(loss) for loss in losses])
    of.about["events"] = {"block_rq_issue": 75}
    complete = headline.of(of).sentences[1]
    assert complete.kind == "unusual"
    assert str(complete).startswith(
        "25 events are lost (25.0 % of all events); 25 events were overwritten; torn a; 2 more"
    )


@pytest.mark.filterwarnings("ignore:.* repeat the one before")
def test_a_missing_cpu_is_reported(tmp_path: Path) -> None:
    for cpu in (0, 2):
        shutil.copy(corpus.path("blktrace_bin/centos7/sda.blktrace.0"), tmp_path / f"sda.blktrace.{cpu}")
    with pytest.warns(LossWarning, match="CPU 1"):
        of = capture.open(tmp_path / "sda.blktrace.0")
    assert "those of CPU 1" in str(headline.of(of).sentences[1])


# -- the terminal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_terminal", "environment", "is_coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    environment: dict[str, str],
    is_coloured: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.chdir(ROOT)
    assert cli.main(["summary", "datasets/demo"]) == 0
    text = capsys.readouterr().out.removesuffix("\n")
    assert ("\x1b[" in text) is is_coloured
    check_text(re.sub(r"\x1b\[[0-9]+m", "", text))


def test_all_prints_the_tables_below(capsys: pytest.CaptureFixture[str]) -> None:
    demo = str(ROOT / "datasets/demo")
    assert cli.main(["summary", demo]) == 0
    first = capsys.readouterr().out
    assert len(first.splitlines()) <= 56
    assert cli.main(["summary", demo, "--all"]) == 0
    every = capsys.readouterr().out
    assert every.startswith(first) and "\nLatency\n" in every and "<Capture" not in every


@pytest.mark.parametrize("page", ["README.md", "docs/summary.md"])
def test_pages_show_what_is_printed(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main(["summary", str(ROOT / "datasets/demo")]) == 0
    printed = capsys.readouterr().out.splitlines()
    shown_there = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)[0].splitlines()
    assert len(shown_there) >= 5 and [line for line in shown_there if line not in printed] == []


WIDE = (
    ["summary", "--all", "demo"],
    ["summary", "--all", "bench/ext4_disk"],
    ["summary", "--all", "replay/ext4_disk"],
    ["tables", "demo", "io"],
    ["tables", "demo", "requests"],
    ["tables", "demo"],
    ["bench", "--compare", "bench/ext4_disk/modes.rec.xz", "bench/xfs_disk/modes.rec.xz"],
)


@pytest.mark.parametrize("words", WIDE, ids=" ".join)
@pytest.mark.parametrize("width", left_to_prove([80, 120], {80}.__contains__))
def test_everything_fits_a_terminal(
    words: list[str], width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(ROOT / "datasets")  # paths are never shortened in commands for the user to type
    assert cli.main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) > 10
    assert [line for line in printed if columns(line) > width] == []


@pytest.mark.parametrize(("unknown", "is_stated"), [(1, False), (2, False), (3, True), (4, True)])
def test_writers_are_unknown_if_most_of_their_bytes_are(unknown: int, is_stated: bool) -> None:
    """The owner of reads is known here, so that the processes as a whole are not unknown."""
    ways = [("write", None)] * unknown + [("write", "app")] * (4 - unknown) + [("read", "app")]
    pieces = [
        {"request_id": n, "op": op, "bytes": 4096, "nr_sectors": 8, "owner_comm": comm, "owner_count": int(bool(comm))}
        | {"owner_via": "submitter" if comm else "unknown"}
        for n, (op, comm) in enumerate(ways)
    ]
    of = made.capture([{"op": op, "nr_sectors": 8} for op, _ in ways], pieces)
    coverage = measures.coverage(of.requests, of.io).to_dicts()
    gaps = headline.of(made.capture([{"op": op, "nr_sectors": 8} for op, _ in ways], pieces, coverage=coverage)).gaps
    assert [gap.about for gap in gaps if gap.about in ("writers", "processes")] == ["writers"] * is_stated


@pytest.mark.parametrize("label", ["a", "temporary", "background", "a longer label"])
def test_labels_do_not_touch_the_text(label: str) -> None:
    lines = shown(Headline((Sentence(label, ("words " * 40,)), Sentence("b", ("more",))))).splitlines()
    assert {line.index(word) for line, word in ((lines[0], "words"), (lines[1], "words"), (lines[-1], "more"))} == {
        max(10, len(label) + 1)
    }
    assert max(map(len, lines)) <= terminal_width()


@pytest.mark.parametrize(("unknown", "operations"), [(1, ["write"]), (2, ["write"]), (3, [])])
def test_fractions_of_metadata_need_the_type_of_half_of_the_bytes(unknown: int, operations: list[str]) -> None:
    kinds = ["unknown"] * unknown + ["data"] * (4 - unknown)
    pieces = [{"request_id": n, "op": "write", "bytes": 4096, "block_type": kind} for n, kind in enumerate(kinds)]
    io = made.capture([{"op": "write"}] * 4, pieces).io
    found = requests.metadata_fraction(io, measures.block_types(io))
    assert found["op"].unique().to_list() == operations


def test_a_wide_table_continues_below_with_all_names_of_its_rows() -> None:
    """A part whose rows cannot be told apart is of no use."""
    rows = [[kind, name, *["1,000,000"] * 12] for kind in ("a", "b") for name in ("read", "write")]
    parts = [part.splitlines() for part in table(["step", "operation", *["number"] * 12], rows).split("\n\n")]
    assert len(parts) > 1
    assert all([line.split()[:2] for line in part[2:]] == [row[:2] for row in rows] for part in parts)
    assert sum(part[0].count("number") for part in parts) == 12


def test_a_wide_table_continues_below_with_its_first_column() -> None:
    header = ["name", *(f"column {n}" for n in range(8))]
    text = table(header, [["a" * 90, *[f"{n:,}" for n in range(10**7, 10**7 + 8)]], ["b", *["1"] * 8]])
    first, second = (part.splitlines() for part in text.split("\n\n"))
    assert max(map(columns, [*first, *second])) <= terminal_width()
    assert [line[0] for line in (*first, *second)] == 2 * ["n", "-", "a", "b"]
    assert (first[0] + second[0]).count("column") == 8 and "10,000,007" in second[2]


def test_names_that_begin_like_numbers_are_shortened() -> None:
    assert max(map(len, table(["path", "n"], [["9" * 200, "1"]]).splitlines())) <= terminal_width()


def test_a_line_is_broken_between_words_and_a_long_word_is_shortened() -> None:
    width = terminal_width()
    assert wrapped("aa bb cc", width - 5) == ["aa bb", "cc"]
    assert wrapped("a\0a bb", width - 5) == ["a a", "bb"]
    assert wrapped("0123456789", width - 7) == ["01…6789"]
    assert shortened("全角全角", 5) == "…全角" and columns("全角全角") == 8
    assert columns("e\u0301") == 1 and columns("❤\ufe0f") == 2


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "B", "0 B"),
        (1536, "B", "1.5 KiB"),
        (1_500_000, "ns", "1.5 ms"),
        (0.5, "1", "50.0 %"),
        (0.99999, "1", "> 99.9 %"),
        (1234, "requests", "1,234"),
        (12.345, "1/s", "12.3/s"),
        (123_456, "1/s", "123,456/s"),
        (1 << 20, "B/s", "1 MiB/s"),
        (-2_000_000, "ns", "-2 ms"),
        (0.25, "s", "250 ms"),
        (2.345, "depth", "2.345"),
    ],
)
def test_numbers_stand_in_units_that_suit_them(value: float, unit: str, text: str) -> None:
    assert quantities.in_unit(value, unit) == str(Amount(value, unit)) == text


def test_parts_of_a_sentence_are_joined_unchanged() -> None:
    said = Sentence("who", (Name("a"), " ", Amount(2048, "B"), ": ", Quote("b")))
    assert str(said) == "a 2 KiB: b"


@pytest.mark.parametrize(
    ("owner_via", "certainty"),
    [
        (["submitter", "submitter"], ""),
        (["submitter", "inferred"], "50.0 % inferred"),
        (["inferred", "inferred"], "inferred"),
    ],
)
def test_what_is_inferred_does_not_look_like_a_fact(owner_via: list[str], certainty: str) -> None:
    """The headline, the tables below it and the report use the same words."""
    rows = [
        {"sector": 8 * n, "op": "write", "queue_ns": n, "issue_ns": n, "owner_comm": "app", "owner_pid": 5,
         "owner_count": 1, "owner_via": via}
        for n, via in enumerate(owner_via)
    ]  # fmt: skip
    requests = [{name: row[name] for name in ("sector", "op", "queue_ns", "issue_ns")} for row in rows]
    of = made.capture(requests, [{"request_id": n, **row} for n, row in enumerate(rows)])
    (causes,) = (table for table in headline.of(of).tables if isinstance(table, Sheet))
    table_below = next(part for part in terminal_tables(of).split("\n\n") if part.startswith("Processes"))
    for told in (shown(headline.of(of)), table_below, str(cells.sheet(causes))):
        assert "app" in told
        assert ("inferred" in told) == bool(certainty) and certainty in told
