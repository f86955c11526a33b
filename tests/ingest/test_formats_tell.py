"""What a format cannot tell is null: docs/formats.md says it, and every reader keeps to it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import polars as pl
import pytest
from support import corpus
from support.tree import ROOT

from androstep_analysis import capture, ingest, measures
from androstep_analysis.errors import LossWarning

FLAGS = ("meta", "fua", "preflush", "readahead")

ROW = re.compile(r"(?m)^\| ([^|]+) \| (yes|no) \| ([^|]+) \| (yes|no) \| (yes|no) \|$")

TOLD = {
    title.split(" ", 3)[3] if title.startswith("block CSV ") else title: row[1:]
    for row in ROW.findall((ROOT / "docs/formats.md").read_text("utf-8"))
    for title in row[0].split(", ")
}
"""For each format what it tells: issue, completion, sync, the other flags."""

WITHOUT_REQUESTS = {"ioshark workload", "MobiGen script", "strace log", "ext4slower list", "procmon samples"}

EXAMPLES: dict[str, str | Path] = {
    "trace.dat": ROOT / "datasets/demo/raw/trace.dat.zst",
    "ftrace text": "kernel/ext4_host_6.18/trace.txt.gz",
    "blktrace": "blktrace_bin/takeoverjp_sample.blktrace.0",
    "blkparse text": "blkparse_text/android_blktrace.flash.facebook.txt",
    "MOST .po": "androstep/result.po",
    "biosnoop list": "field/T08_biosnoop.txt",
    "Open-CAS trace": "block_csv/opencas_sample_trace.tar.xz",
}


def test_the_table_names_every_format_that_has_requests() -> None:
    titles = {format.title for format in ingest.FORMATS} - WITHOUT_REQUESTS
    assert titles - {"block CSV"} == {title for title in TOLD if "letters" not in title and "reads" not in title}
    assert len(TOLD) == len(titles) + 1, "a CSV is of two kinds"


def check(requests: pl.LazyFrame, issue: str, completion: str, sync: str, flags: str) -> None:
    """Columns that the format cannot tell are null; those that it can tell are known of every request with letters."""
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
    """Neither in a table of words, nor in a row that has one beside rows that have letters."""
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


def test_a_field_recording_of_words() -> None:
    found = capture.open(corpus.path("field/C3_min.csv"))
    assert measures.sync(found.io)["class"].unique().to_list() == ["unknown"]
