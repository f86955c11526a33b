"""Columns that a format does not record are null, as documented in docs/formats.md, for every reader."""

from __future__ import annotations

import gzip
import itertools
import re
import warnings
from pathlib import Path

import polars as pl
import pytest
from support import corpus
from support.tree import ROOT

from androstep_analysis import capture, ingest, measures
from androstep_analysis.common.errors import InputError, LossWarning

FLAGS = ("meta", "fua", "preflush", "readahead")

ROW = re.compile(r"(?m)^\| ([^|]+) \| (yes|no) \| ([^|]+) \| (yes|no) \| (yes|no) \|$")

TOLD = {
    title.split(" ", 3)[3] if title.startswith("block CSV ") else title: row[1:]
    for row in ROW.findall((ROOT / "docs/formats.md").read_text("utf-8"))
    for title in row[0].split(", ")
}
"""Whether each format records issue, completion, sync, and the remaining flags."""

WITHOUT_REQUESTS = {
    *("ioshark workload", "MobiGen script", "strace log", "ext4slower list", "procmon samples"),
    *("perf trace output", "io-tracer calls"),
}

EXAMPLES: dict[str, str | Path] = {
    "trace.dat": ROOT / "datasets/demo/raw/trace.dat.zst",
    "ftrace text": "kernel/ext4_host_6.18/trace.txt.gz",
    "blktrace": "blktrace_bin/takeoverjp_sample.blktrace.0",
    "blkparse text": "blkparse_text/android_blktrace.flash.facebook.txt",
    "MOST .po": "androstep/result.po",
    "biosnoop list": "field/T08_biosnoop.txt",
    "Open-CAS trace": "block_csv/opencas_sample_trace.tar.xz",
    "Perfetto trace": ROOT / "tests/data/perfetto_compact.pftrace.xz",
    "systrace HTML": "ftrace_text/systrace_wangzherongyao.html.zip",
}

SAME = {"raw ftrace pages": "trace.dat", "atrace output": "ftrace text"}
"""Containers of the data of another reader, which reads them."""


def test_the_table_names_every_format_that_has_requests() -> None:
    titles = {format.title for format in ingest.FORMATS} - WITHOUT_REQUESTS
    assert titles - {"block CSV"} == {title for title in TOLD if "letters" not in title and "reads" not in title}
    assert len(TOLD) == len(titles) + 1, "a CSV is of two kinds"


def test_every_format_has_an_example() -> None:
    assert {*EXAMPLES, *SAME, "oracleGeneral", "fio iolog"} == {  # whose tests write them
        title for title in TOLD if "letters" not in title and "reads" not in title
    }
    assert all(TOLD[title] == TOLD[other] for title, other in SAME.items())


BLKPARSE = r"^\s*\d+,\d+ +\d+ +\d+ +\S+ +\d+ +{} "
LINES = {
    "ftrace text": {"issue": r" block_rq_issue:", "complete": r" block_rq_complete:"},
    "blkparse text": {"queue": BLKPARSE.format("Q"), "complete": BLKPARSE.format("C")},
}
"""The lines of a format for each action of a request."""


@pytest.mark.parametrize(("title", "step"), [(title, step) for title, steps in LINES.items() for step in steps])
def test_a_recording_without_a_step_states_no_time_of_it(title: str, step: str, tmp_path: Path) -> None:
    path = corpus.path(str(EXAMPLES[title]))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = list(itertools.islice(file, 60_000))
    others = [line for line in lines if not re.search(LINES[title][step], line)]
    assert len(others) < len(lines)
    for name, text in (("whole", lines), ("less", others)):
        (tmp_path / name).write_text("".join(text))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LossWarning)
            found = capture.open(tmp_path / name)
        assert found.format == title.replace(" ", "_")
        for table in (found.requests, found.io):
            assert (table.collect()[f"{step}_ns"].count() > 0) == (name == "whole")
        steps = measures.latency(found.requests)["step"].cast(pl.String).unique().to_list()
        letter = {"queue": "Q", "issue": "D", "complete": "C"}[step]
        assert any(letter in one for one in steps) == (name == "whole")


def check(requests: pl.LazyFrame, issue: str, completion: str, sync: str, flags: str) -> None:
    """Assert that columns are null if the format does not record them.

    Otherwise they must be known for every request with letters.
    """
    table = requests.collect()
    lettered = table.filter(pl.col("rwbs").is_not_null())
    assert lettered.height
    for told, names in ((sync, ("sync",)), (flags, FLAGS)):
        for name in names:
            assert lettered[name].null_count() == (0 if told == "yes" else lettered.height), name
    assert (table["issue_ns"].count() > 0) <= (issue == "yes")
    assert (table["complete_ns"].count() > 0) <= (completion != "no")


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_recording(title: str) -> None:
    example = EXAMPLES[title]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        found = capture.open(example if isinstance(example, Path) else corpus.path(example))
    check(found.requests, *TOLD[title])


@pytest.mark.parametrize(("kind", "write"), [("letters", "WS"), ("reads", "W")])
@pytest.mark.parametrize("response", ["", ",350"])
def test_a_table(tmp_path: Path, kind: str, write: str, response: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(f"1,R,0,4096{response}\n2,{write},4096,4096{response}\n")
    columns = "time:s,op,offset:B,size:B" + (",response:us" if response else "")
    found = capture.open(trace, csv_columns=columns)
    (told,) = (row for title, row in TOLD.items() if kind in title)
    check(found.requests, *told)
    assert (found.requests.collect()["complete_ns"].count() == 2) == bool(response)
    classes = measures.sync(found.io).filter(metric="count")["class"].to_list()
    assert classes == (["sync"] if kind == "letters" else ["unknown"])


@pytest.mark.parametrize("words", [("read", "write"), ("Read", "Write"), ("READ", "WRITE"), ("r", "w")])
def test_a_word_for_an_operation_records_no_flags(tmp_path: Path, words: tuple[str, str]) -> None:
    """A word for an operation leaves flags unknown, in a table of words and in a single row among rows with letters."""
    rows = [f"{at},{word},{at * 4096},4096" for at, word in enumerate(words, 1)]
    trace = tmp_path / "trace.csv"
    for more, classes in (([], ["unknown"]), (["3,WS,0,4096", "4,W,8192,4096"], ["buffered", "sync", "unknown"])):
        trace.write_text("\n".join([*rows, *more]) + "\n")
        found = capture.open(trace, csv_columns="time:s,op,offset:B,size:B")
        requests = found.requests.collect()
        assert [str(op) for op in requests["op"].head(2)] == ["read", "write"]
        assert requests.head(2).select(pl.col("sync", *FLAGS).null_count()).row(0) == (2,) * 5
        assert requests.slice(2).select(pl.col("sync", *FLAGS).null_count()).row(0) == (0,) * 5
        assert sorted(measures.sync(found.io).filter(metric="count")["class"]) == classes


@pytest.mark.parametrize(
    ("word", "op"),
    [(word, "discard") for word in ("TRIM", "trim", "Discard", "DISCARD", "UNMAP")]
    + [("FLUSH", "flush"), ("ERASE", "other"), ("SYNC", "other"), ("FUA", "other"), ("METADATA", "other")],
)
def test_other_words_state_no_flags(tmp_path: Path, word: str, op: str) -> None:
    """A word is never taken for letters: DISCARD has no S of a synchronous request."""
    trace = tmp_path / "trace.csv"
    for more in ("", "2,WS,0,4096\n"):
        trace.write_text(f"1,{word},0,4096\n{more}")
        found = capture.open(trace, csv_columns="time:s,op,offset:B,size:B").requests.collect()
        assert str(found["op"][0]) == op
        assert found.head(1).select(pl.col("sync", *FLAGS).null_count()).row(0) == (1,) * 5


@pytest.mark.parametrize(
    ("operations", "sync"),
    [
        ("store=WS", [None, True]),
        ("store=WFS", [None, True]),
        ("load=RA;store=W", [False, None]),
        ("load=RM;store=WS", [False, True]),
        ("load=R;store=W", [None, None]),
        ("store=DE", [None, None]),
    ],
)
def test_a_word_states_the_flags_that_the_user_gives_it(
    tmp_path: Path, operations: str, sync: list[bool | None]
) -> None:
    """Rows of a word whose letters are an operation only stay unknown, also among rows with flags."""
    trace = tmp_path / "trace.csv"
    first = "load" if "load" in operations else "read"
    trace.write_text(f"1,{first},0,4096\n2,store,0,4096\n3,Write,0,4096\n")
    found = capture.open(trace, csv_columns=f"time:s,op:{operations},offset:B,size:B")
    for requests in (found.requests.collect(), found.with_filesystem().requests.collect()):
        assert requests["sync"].to_list() == [*sync, None]
        assert requests["meta"].is_null().to_list() == [known is None for known in [*sync, None]]
        assert requests["fua"].to_list()[1] == (None if sync[1] is None else "F" in operations)


def test_words_of_the_user_come_before_known_words(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("1,Write,0,4096\n2,W,0,4096\n3,WM,0,4096\n")
    found = capture.open(trace, csv_columns="time:s,op:Write=WS,offset:B,size:B").requests.collect()
    assert found.select("rwbs", "sync", "meta").rows() == [
        ("WS", True, False),
        ("W", False, False),
        ("WM", False, True),
    ]


@pytest.mark.parametrize("operations", ["store", "store=", "store=ws", "load=R;store=X", "store=W S"])
def test_letters_that_blkparse_does_not_print_are_refused(tmp_path: Path, operations: str) -> None:
    (tmp_path / "trace.csv").write_text("1,store,0,4096\n")
    with pytest.raises(InputError, match="'store' has no letters as blkparse prints them"):
        capture.open(tmp_path / "trace.csv", csv_columns=f"time:s,op:{operations},offset:B,size:B")


def test_a_field_recording_of_words() -> None:
    found = capture.open(corpus.path("field/C3_min.csv"))
    assert measures.sync(found.io)["class"].unique().to_list() == ["unknown"]
