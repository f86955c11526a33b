"""Compare the counts of every corpus file with those of other tools, and explain every difference."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl
import pytest
from support import corpus, readers
from support.readers import Read

from androstep_analysis import ingest, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.source import head

Counts = Mapping[str, Any]

NO_RECORDINGS = {
    "MANIFEST.json": "the list of the corpus",
    "README.md": "about the corpus",
    "SHA256SUMS": "checksums",
    ".expected.json": "what other tools found",
    "androstep/block_rwbs": "results of the original, test_analysis",
    "androstep/file_rwbs": "results of the original, test_analysis",
    "androstep/file_info2.txt": "file types of the original, test_filetype",
    "androstep/most_cases.json": "cases of the original's parser, test_most",
    "androstep/oracle_": "values of an independent program",
    "bench_results/": "results of benchmarks, test_bench_dataset",
    "fs_images/": "images of filesystems, test_ext4, test_f2fs and test_fat",
    "ground_truth.json.gz": "what the device really got, test_truth",
    ".img.zst": "images of filesystems, test_truth",
    "guest.log": "the diary of a recording",
    "saved_tgids.txt": "threads and processes beside a trace.dat, read with it",
    ".textproto": "the text of the .pb beside it",
    "perfetto/difftest_f2fs_iostat.out": "what trace_processor makes of the .pb, test_ingest_perfetto",
    ".sh": "the script that made a recording",
    "/rec/recording.json": "what iotrace said of the device, read with its trace.dat",
    "/rec/before.rec": "a listing, read with its trace.dat",
    "/rec/after.rec": "a listing, read with its trace.dat",
    "/rec/names.rec": "names of files, read with their trace.dat",
    "wrong_facts/dir-renamed/final.json": "what the filesystem held in the end",
    "wrong_facts/dir-renamed/oracle.bin": "what the device really got",
    "wrong_facts/dir-renamed/dev": "the number of the device",
    "field/T32_own/header_page": "the form of the pages beside it, test_field",
    "ioshark/ioblame-": "reports of ioblame: kilobytes by file and process, with no event and no time in them",
}
"""Files without events, by a part of their names, with their content or the test that reads them."""

EXPLAINED = {
    ("blkparse_text/android_blktrace.flash.facebook.txt", "max_time"): "a time before the start that blkparse wrapped",
    ("blkparse_text/android_swapcache_2.txt", "max_time"): "a time before the start that blkparse wrapped",
    ("blkparse_text/leveldb_ram0_blk_data.txt", "max_time"): "a time before the start that blkparse wrapped",
    ("blkparse_text/android_blktrace.flash.facebook.txt", "min_time"): "the wrapped times are negative",
    ("blkparse_text/android_swapcache_2.txt", "min_time"): "the wrapped times are negative",
    ("blkparse_text/leveldb_ram0_blk_data.txt", "min_time"): "the wrapped times are negative",
    ("ftrace_text/tracecompass_ftrace_syscalls.txt", "regex_counts"): "the script did not know lines of system calls "
    "(sys_close(fd: 3)); grep's total has them",
    ("ftrace_text/tracecompass_ftrace_syscalls.txt", "min_time"): "the first line is of a system call",
    (
        "blktrace_bin/romeus_trace_x_0_y_0.bin",
        "span",
    ): "the CPUs follow each other in the stream, and blkparse took the "
    "start from some of the times more than once: 13.6 ms are printed for 19.2",
    ("strace/linux_multithread_strace1.log", "signals"): "its pattern did not match line 1490, a SIGUSR1",
    ("ioshark/wl.tar", "members"): "counted in the whole archive; the corpus has 100 of its 203 members",
    ("ioshark/wl.tar", "sum_num_io_operations"): "counted in the whole archive; the 100 members have 18500",
}
"""Differences from the counts of the corpus, with reasons."""


@functools.lru_cache(maxsize=1)
def read(name: str) -> Read:
    """Read the recording in file `name` of the corpus."""
    return readers.read(corpus.path(name))


# --- the corpus's expectations and our results for each format --------------------------------------------------------


def of_blkparse(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    summary, block = expected["summary"], found.block
    yield "event_lines", summary["event_lines"], sum(found.staging.events.values())
    yield "by_action", summary["by_action"], found.staging.events
    yield "by_action_rwbs", summary["by_action_rwbs"], readers.tally(block, "event", "rwbs")
    sized = block.filter(pl.col("nr_sectors") > 0)
    yield (
        "sectors_by_action_rwbs",
        summary["sectors_by_action_rwbs"],
        readers.total(sized, "nr_sectors", "event", "rwbs"),
    )
    yield "by_cpu", summary["by_cpu"], readers.tally(block, "cpu")
    devices = block.select(device=device("dev"))
    yield "by_dev", summary["by_dev"], readers.tally(devices, "device")
    first, last = readers.ns(summary["min_time"]), readers.ns(summary["max_time"])
    if found.staging.format == "blktrace":  # the recorder's clock, while blkparse counts from the first event
        times = block["ts_ns"]
        yield "span", last - first, times[-1] - times[0]
    else:
        yield "min_time", first, found.staging.first_ns
        yield "max_time", last, found.staging.last_ns


def device(column: str) -> pl.Expr:
    """Return major,minor of a device number."""
    major, minor = pl.col(column) // (1 << units.MINOR_BITS), pl.col(column) % (1 << units.MINOR_BITS)
    return major.cast(pl.String) + "," + minor.cast(pl.String)


def of_ftrace(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    if "grep_total_event_lines" not in expected:
        return
    events, block = found.staging.events, found.block
    yield "grep_total_event_lines", expected["grep_total_event_lines"], sum(events.values())
    yield "grep_counts", expected["grep_counts"], {name: events.get(name, 0) for name in expected["grep_counts"]}
    yield "regex_counts", expected["regex_counts"], events
    yield "min_time", readers.ns(expected["min_time"]), found.staging.first_ns
    yield "max_time", readers.ns(expected["max_time"]), found.staging.last_ns
    requests = block.filter(pl.col("event").is_in(["block_rq_issue", "block_rq_complete", "block_rq_insert"]))
    requests = requests.with_columns(device=device("dev"))
    by_kind = expected["block_rq_by_dev_rwbs"]
    yield "block_rq_by_dev_rwbs", by_kind, readers.tally(requests, "event", "device", "rwbs")
    sectors = readers.total(requests, "nr_sectors", "event", "device", "rwbs")
    yield "block_rq_sectors_by_dev_rwbs", expected["block_rq_sectors_by_dev_rwbs"], sectors


def of_trace_dat(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    yield "event_lines", expected["event_lines"], sum(found.staging.events.values())
    yield "event_counts", expected["event_counts"], found.staging.events
    for name, found_ns in (("first_ts", found.staging.first_ns), ("last_ts", found.staging.last_ns)):
        assert found_ns is not None
        shown = (found_ns + 500) // 1000 if found_ns % 1000 else found_ns // 1000  # trace-cmd rounds to microseconds
        yield name, readers.ns(expected[name]) // 1000, shown


def of_perfetto(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    decoded = expected.get("protobuf_decode", expected)
    ftrace = {name: count for name, count in found.staging.events.items() if name in decoded["ftrace_events"]}
    yield "ftrace_events", decoded["ftrace_events"], ftrace
    packets = {name: count for name, count in decoded["packets"].items() if name != "ftrace_events"}
    yield "packets", packets, {name: found.staging.events.get(name) for name in packets}
    if decoded["first_ts_ns"] is not None:
        yield "first_ts_ns", decoded["first_ts_ns"], found.staging.first_ns
        yield "last_ts_ns", decoded["last_ts_ns"], found.staging.last_ns


def of_csv(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    lines = [line.split() for line in expected["output"]]
    block = found.block
    for words in lines:
        if words[0] in ("R", "W"):
            rows = block.filter(pl.col("rwbs").str.contains(words[0]))
            yield words[0], [int(words[1]), int(words[2])], [rows.height, rows["nr_sectors"].sum()]
        elif words[0] == "dev":
            yield "dev", {int(words[1]): int(words[2])}, dict(Counter(block["dev"].to_list()))
        elif words[0] == "t":
            first, last = readers.ns(words[1]), readers.ns(words[2])
            yield "t", [first, last], [found.staging.first_ns, found.staging.last_ns]
        else:
            assert words[0] == "maxsector"
            yield "maxsector", int(words[1]), block.select((pl.col("sector") + pl.col("nr_sectors")).max()).item()


def of_opencas(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    summary = json.loads(expected["summary"])
    yield "tracedEvents", int(summary["tracedEvents"]), sum(found.staging.events.values())
    yield "droppedEvents", int(summary["droppedEvents"]), found.staging.lost_events
    yield "queueCount", int(summary["queueCount"]), found.staging.events["deviceDescription"]


def of_mobigen(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    events, calls = found.staging.events, found.syscalls
    yield "lines", expected["lines"], sum(events.values())
    yield "synthetic_opens", expected["synthetic_opens"], events["open (inserted)"]
    yield (
        "ops",
        expected["ops"] | {"open": expected["ops"]["open"] - expected["synthetic_opens"]},
        dict(Counter(calls["call"].to_list())),
    )
    yield "distinct_threads", expected["distinct_threads"], calls["tid"].n_unique()
    yield "end_us", expected["end_us"] * 1000, found.staging.last_ns


def of_strace(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    calls = found.syscalls
    yield "distinct_pids", expected["distinct_pids"], calls["tid"].n_unique()
    begun = calls.filter(pl.col("state") != "resumed")
    yield "started", expected["started"], dict(Counter(begun["call"].to_list()))
    yield "completed", expected["completed"], dict(Counter(calls.filter(state="whole")["call"].to_list()))
    failed = calls.drop_nulls("error")
    yield "errors", expected["errors"], dict(Counter((failed["call"] + " " + failed["error"]).to_list()))
    moved = calls.filter((pl.col("result") > 0) & pl.col("call").is_in(list(expected["bytes_returned"])))
    yield "bytes_returned", expected["bytes_returned"], dict(moved.group_by("call").agg(pl.col("result").sum()).rows())
    paths = Counter(calls.filter(call="openat")["path"].to_list())
    yield "openat_paths", expected["openat_paths"], {path: paths[path] for path in expected["openat_paths"]}
    for name, event in (("exited", "+++ exited"), ("signals", "--- ")):
        ends = sum(count for told, count in found.staging.events.items() if told.startswith(event))
        killed = found.staging.events.get("+++ killed", 0) if name == "exited" else 0
        yield name, expected["grep"][name], ends + killed


def of_ioshark(found: Read, expected: Counts) -> Iterator[tuple[str, Any, Any]]:
    calls = found.syscalls
    by_thread = Counter(f"trace.{tid}.wl" for tid in calls["tid"].to_list())
    yield "per_file", {name: counts[1] for name, counts in expected["per_file"].items()}, dict(by_thread)
    yield "members", expected["members"], len(by_thread)
    yield "sum_num_io_operations", expected["sum_num_io_operations"], calls.height


FORMATS: dict[str, Callable[[Read, Counts], Iterator[tuple[str, Any, Any]]]] = {
    "androstep/mobigen": of_mobigen,
    "blkparse_text/": of_blkparse,
    "blktrace_bin/": of_blkparse,
    "block_csv/opencas": of_opencas,
    "block_csv/": of_csv,
    "ftrace_text/": of_ftrace,
    "ioshark/": of_ioshark,
    "perfetto/": of_perfetto,
    "strace/": of_strace,
    "trace_dat/": of_trace_dat,
}


# --- tests -----------------------------------------------------------------------------------------------------------


def files() -> list[str]:
    """Return all files of the corpus."""
    return sorted(str(path.relative_to(corpus.ROOT)) for path in corpus.ROOT.rglob("*") if path.is_file())


def why_not(name: str) -> str | None:
    """Return the reason why file `name` has no events, or None if it should have events."""
    return next((reason for part, reason in NO_RECORDINGS.items() if part in name), None)


def expected_of(name: str) -> Counts | None:
    """Return the corpus's expectation for a file; for part of a blktrace set or its text, that of the set."""
    path = corpus.ROOT / name
    if name.startswith("androstep/mobigen.out."):
        of_scripts: Mapping[str, Counts] = json.loads((corpus.ROOT / "androstep/oracle_mobigen.json").read_text())
        return of_scripts[path.suffix.removeprefix(".")]
    stem = path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".blkparse").removesuffix(".report")
    for candidate in (
        path.with_name(f"{path.name}.expected.json"),
        path.with_name(f"{stem}.expected.json"),
        path.with_name(f"{path.name.split('.')[0]}.expected.json"),
        path.parent.with_name(f"{path.parent.name}.expected.json"),
    ):
        if candidate.exists():
            told: Counts = json.loads(candidate.read_text())
            return told
    return None


RECORDINGS = [name for name in files() if why_not(name) is None]


def compared(name: str) -> list[tuple[str, Any, Any]]:
    """Return each count of the corpus for a file, and ours."""
    expected = expected_of(name)
    if expected is None:
        return []
    compare = next(compare for prefix, compare in FORMATS.items() if name.startswith(prefix))
    return list(compare(read(name), expected))


has_corpus = pytest.mark.skipif(not corpus.ROOT.exists(), reason="the corpus is not on this machine")


@has_corpus
def test_the_corpus_has_recordings() -> None:
    assert len(RECORDINGS) > 50


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording(name: str) -> None:
    assert sum(read(name).staging.events.values()) > 0
    different = {what for what, expected, found in compared(name) if normal(expected) != normal(found)}
    assert different == {what for file, what in EXPLAINED if file == name}


@has_corpus
def test_no_recording() -> None:
    """Files without events are refused with a message of one sentence."""
    known = r"no known recording|is a known recording|of ioblame|as text|JSON|an image|records of extmap"
    taken = []
    for name in files():
        is_image = name.startswith("fs_images/") or corpus.path(name).stat().st_size > 1 << 23
        if why_not(name) and not name.endswith(".json") and not is_image:
            try:
                ingest.read(corpus.path(name))
                taken.append(name)
            except InputError as refusal:
                assert re.search(known, str(refusal)), refusal
    assert taken == []


@has_corpus
def test_no_two_formats_claim_a_file() -> None:
    claims = {
        name: [known.title for known in ingest.FORMATS if known.sniff(head(corpus.path(name)))] for name in files()
    }
    assert {name: claimed for name, claimed in claims.items() if len(claimed) > 1} == {}
    unclaimed = [name for name, claimed in claims.items() if not claimed and not why_not(name)]
    assert [name for name in unclaimed if ".tar" not in name and ".tgz" not in name] == []


def normal(value: Any) -> Any:
    """Remove zero counts, and convert names to text."""
    if isinstance(value, Mapping):
        return {str(name): count for name, count in value.items() if count}
    return value
