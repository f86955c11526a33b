"""ftrace text in all containers, compared with counts by grep and with lines in the kernel's format."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus, readers, tracing

from androstep_analysis import ingest, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.ftrace import systrace
from androstep_analysis.ingest.ftrace import text as ftrace_text
from androstep_analysis.ingest.source import load


@pytest.mark.parametrize(
    "name", [name for name in readers.FTRACE_TEXTS if "systrace_" in name and name.endswith(".zip")]
)
def test_cpus_of_block_events(name: str) -> None:
    data = load(corpus.path(f"ftrace_text/{name}")).data
    cpus = re.findall(rb"\[([0-9]{3})\] .{4} +[0-9.]+: block_rq_", data)
    staging = readers.read(corpus.path(f"ftrace_text/{name}"))
    assert sorted(staging.block["cpu"]) == sorted(int(cpu) for cpu in cpus)


def test_losses_of_the_corpus() -> None:
    def losses(name: str) -> dict[str, int]:
        return readers.losses(readers.read(corpus.path(f"ftrace_text/{name}")))

    # Headers "69657/223807" over 139 event lines, and "109218/109218" over 4454; notes between the lines of the last.
    assert losses("tracecompass_trace-android-sched-irq") == {"overwritten": 154_150, "missing": 69_518}
    assert losses("tracecompass_atrace-test") == {"missing": 104_764}
    assert losses("catapult_decompressed_atrace_data.txt") == {}
    assert losses("novelinux_ext4-jbd2-open-write-fsync_traces.md").keys() == {"unreadable"}


def test_compressed_atrace_is_what_it_decompresses_to() -> None:
    packed = readers.read(corpus.path("ftrace_text/catapult_compressed_atrace_data.txt"))
    plain = readers.read(corpus.path("ftrace_text/catapult_decompressed_atrace_data.txt"))
    assert (packed.format, plain.format) == ("atrace", "ftrace_text")
    assert (packed.events, packed.first_ns, packed.last_ns) == (plain.events, plain.first_ns, plain.last_ns)
    assert packed.tasks.equals(plain.tasks)
    # …: realtime_ts=3720325137 (ms) at 683201.354926 s
    assert packed.realtime_offset_ns == 3_720_325_137_000_000 - 683_201_354_926_000


def awk(path: Path, program: str) -> dict[str, int]:
    """Return counts by zcat and awk. The key is all but the last word of each output line."""
    command = ["bash", "-c", 'zcat -f "$1" | awk "$2"', "awk", str(path), program]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return {key: int(n) for key, n in (line.rsplit(" ", 1) for line in out.splitlines())}


@pytest.mark.parametrize(
    ("name", "dev_field"), [("kernel/ext4_host_6.18/trace.txt.gz", 5), ("androstep/ftrace_sqlite.txt", 8)]
)
def test_block_traces_of_linux_6_18(name: str, dev_field: int) -> None:
    path = corpus.path(name)
    staging = readers.read(path)
    # The thread names of these traces have no spaces, so that awk can count fields from the left.
    names = awk(
        path,
        r"""match($0, /[0-9]\.[0-9]+: +[^ :(]+/) {
        s = substr($0, RSTART, RLENGTH); sub(/.*: */, "", s); n[s]++ } END { for (k in n) print k, n[k] }""",
    )
    assert staging.events == names
    at = f"$({dev_field}-1)"
    plus = 'for (i = 1; i <= NF; i++) if ($i == "+") break; sub(":", "", ' + at + ")"
    block = staging.block.with_columns(device=pl.lit("7,0"))
    assert set(block["dev"]) == {units.dev(7, 0)}
    key = f"{at}, ${dev_field}, $({dev_field}+1)"
    assert readers.tally(block, "event", "device", "rwbs") == awk(
        path, f"/: block_/ {{ {plus}; n[{key.replace(', ', ' FS ')}]++ }} END {{ for (k in n) print k, n[k] }}"
    )
    assert readers.total(block, "nr_sectors", "event", "device", "rwbs") == awk(
        path, f"/: block_/ {{ {plus}; n[{key.replace(', ', ' FS ')}] += $(i+1) }} END {{ for (k in n) print k, n[k] }}"
    )
    # Empty flushes complete at the all-ones sector, which becomes null.
    flushes = awk(path, "/18446744073709551615/ { n++ } END { print n + 0 }".replace("print n", 'print "n", n'))
    assert block["sector"].null_count() == flushes["n"]
    completed = block["event"] == "block_rq_complete"
    assert block.filter(completed)["error"].to_list() == [0] * completed.sum()
    assert block.filter(~completed)["error"].null_count() == (~completed).sum()


def test_tgid_column() -> None:
    staging = readers.read(corpus.path("androstep/ftrace_sqlite.txt"))
    rows = staging.block.filter(pl.col("comm") == "mobibench_O0")
    assert set(rows["tid"]) == {18525}
    assert set(rows["pid"]) == {18523}
    kinds = dict(staging.tasks.select("comm", pl.col("kind").cast(pl.String)).rows())
    assert kinds["jbd2/loop0-8"] == "journal"
    assert kinds["ksoftirqd/0"] == "kernel"
    assert kinds["mobibench_O0"] == "other"


# --- every block tracepoint, as the kernels print it ---------------------------------------------------------------

HEAD = "          dd-77      [001] d..1.     5.000001: "
FORMS = [
    # Linux 3.4: no I/O priority; rq_abort and bio_bounce still exist
    ("block_rq_abort: 179,0 W () 8 + 16 [-5]", ("other", 8, 16, "W", -5)),
    ("block_bio_bounce: 179,0 W 8 + 16 [x]", ("bounce", 8, 16, "W", None)),
    ("block_sleeprq: 179,0 WS 8 + 16 [x]", ("sleep", 8, 16, "WS", None)),
    ("block_rq_issue: 179,0 WS 8192 () 8 + 16 [x]", ("issue", 8, 16, "WS", None)),
    ("block_rq_insert: 179,0 R 36 (12 00 00 00 24 00) 0 + 0 [x]", ("insert", 0, 0, "R", None)),
    ("block_rq_complete: 179,0 R (12 00 00 00 24 00) 0 + 0 [-121]", ("complete", 0, 0, "R", -121)),
    ("block_bio_queue: 179,0 FWFSM 8 + 16 [x]", ("queue", 8, 16, "FWFSM", None)),
    ("block_getrq: 179,0 RA 8 + 16 [x]", ("getrq", 8, 16, "RA", None)),
    ("block_bio_backmerge: 179,0 DE 8 + 16 [x]", ("backmerge", 8, 16, "DE", None)),
    ("block_bio_frontmerge: 179,0 WB 8 + 16 [x]", ("frontmerge", 8, 16, "WB", None)),
    ("block_rq_complete: 179,0 R () 8 + 16 [65536]", ("complete", 8, 16, "R", None)),
    ("block_bio_complete: 179,0 R 8 + 16 [-5]", ("complete", 8, 16, "R", -5)),
    ("block_split: 179,0 W 8 / 16 [x]", ("split", 8, 8, "W", None)),
    ("block_plug: [x]", ("plug", None, None, None, None)),
    ("block_unplug: [x] 3", ("unplug", None, None, None, None)),
    # Linux 6.5 and later: I/O priority; zone operations
    ("block_rq_issue: 179,0 ZR 0 () 8 + 16 be,0,4 [x]", ("issue", 8, 16, "ZR", None)),
    ("block_rq_merge: 179,0 W 8192 () 8 + 16 none,0,0 [x]", ("rqmerge", 8, 16, "W", None)),
    ("block_rq_requeue: 179,0 W () 8 + 16 rt,7,4 [0]", ("requeue", 8, 16, "W", None)),
    ("block_rq_error: 179,0 W () 8 + 16 be,0,4 [-5]", ("other", 8, 16, "W", -5)),
    ("block_io_start: 179,0 N 0 () 8 + 16 0x2,0,4 [x]", ("other", 8, 16, "N", None)),
    ("block_io_done: 179,0 W 0 () 8 + 0 be,0,4 [x]", ("other", 8, 0, "W", None)),
    ("block_rq_complete: 179,0 FF () 18446744073709551615 + 0 none,0,0 [0]", ("complete", None, 0, "FF", 0)),
    # trace-cmd report pads the name
    ("block_rq_issue:       179,0 RM 4096 () 8 + 16 0x2,0,4 [x]", ("issue", 8, 16, "RM", None)),
]  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n\\\n"])
def test_forms(tmp_path: Path, end: str) -> None:
    block = readers.read_bytes(tmp_path, "".join(f"{HEAD}{fields}{end}" for fields, _ in FORMS).encode()).block
    for (fields, expected), row in zip(FORMS, block.iter_rows(named=True), strict=True):
        found = (row["action"], row["sector"], row["nr_sectors"], row["rwbs"], row["error"])
        assert found == expected, fields
        assert row["event"] == fields.split(":")[0]
        assert row["dev"] == (units.dev(179, 0) if row["rwbs"] else None), fields
        assert row["comm"] == ("x" if "[x]" in fields else "dd"), fields
        assert (row["ts_ns"], row["cpu"], row["tid"], row["pid"]) == (5_000_001_000, 1, 77, None), fields


@pytest.mark.parametrize(
    ("priority", "expected"),
    [("none,0,0 ", 0), ("rt,0,7 ", 1 << 13 | 7), ("be,5,4 ", 2 << 13 | 5 << 3 | 4), ("idle,0,0 ", 3 << 13), ("", None),
     ("0x2,0,4 ", 2 << 13 | 4), ("0x4,0,0 ", 4 << 13), ("0x8,0,0 ", None), ("rt,1024,0 ", None), ("rt,0,8 ", None)],
)  # fmt: skip
def test_priority(tmp_path: Path, priority: str, expected: int | None) -> None:
    printed = f"{HEAD}block_rq_issue: 8,0 W 4096 () 8 + 8 {priority}[x]\n"
    assert readers.read_bytes(tmp_path, printed.encode()).block["ioprio"].to_list() == [expected]


@pytest.mark.parametrize(
    "fields", ["block_bio_remap: 8,0 R 2056 + 8 <- (8,1) 8", "block_rq_remap: 8,0 R 2056 + 8 <- (8,1) 8 1"]
)
def test_remap(tmp_path: Path, fields: str) -> None:
    (row,) = readers.read_bytes(tmp_path, f"{HEAD}{fields}\n".encode()).block.iter_rows(named=True)
    assert (row["action"], row["dev"], row["sector"], row["nr_sectors"]) == ("remap", units.dev(8, 0), 2056, 8)
    assert (row["old_dev"], row["old_sector"], row["comm"]) == (units.dev(8, 1), 8, "dd")


def test_block_event_of_an_unknown_form_is_counted(tmp_path: Path) -> None:
    lines = [HEAD + "block_rq_issue: 8,0 W 4096", HEAD + "block_rq_issue: what?", HEAD + "block_plug: [x]"]
    staging = readers.read_bytes(tmp_path, "".join(line + "\n" for line in lines).encode())
    assert staging.events == {"block_plug": 1, "block_rq_issue": 2}
    assert staging.block["event"].to_list() == ["block_plug"]
    assert readers.losses(staging) == {"unreadable": 2}


def test_lost_events(tmp_path: Path) -> None:
    def read(header: str, *gaps: str) -> tuple[int, dict[str, int]]:
        text = "".join(line + "\n" for line in [header, *gaps, HEAD + "block_plug: [x]"])
        staging = readers.read_bytes(tmp_path, text.encode())
        return staging.lost_events, readers.losses(staging)

    entries = "# entries-in-buffer/entries-written: 1/{}   #P:2".format
    assert read(entries(1)) == (0, {})
    assert read(entries(101)) == (100, {"overwritten": 100})
    assert read("#", "CPU:0 [LOST 30 EVENTS]", "CPU:1 [LOST 12 EVENTS]") == (42, {"overwritten": 42})
    assert read("cpus=2", "CPU:0 [7 EVENTS DROPPED]") == (7, {"overwritten": 7})
    assert read("#", "CPU:0 [LOST EVENTS]") == (1, {"overwritten": 1})
    # Both count the events that were overwritten before they were read.
    assert read(entries(101), "CPU:0 [LOST 100 EVENTS]") == (100, {"overwritten": 100})


def test_names_of_a_thread_over_time(tmp_path: Path) -> None:
    heads = [("<...>", 1), ("sh", 2), ("ls", 3), ("ls", 4), ("sh", 5)]
    lines = [f"  {comm}-7  [000]  {s}.000000: sched_waking: x\n" for comm, s in heads]
    lines += ["  <...>-9  [000]  6.000000: sched_waking: x\n"]
    tasks = readers.read_bytes(tmp_path, "".join(lines).encode()).tasks
    s = 1_000_000_000
    assert tasks.select("tid", "comm", "valid_from_ns", "valid_to_ns").rows() == [
        (7, "sh", None, 2 * s + 1),
        (7, "ls", 3 * s, 4 * s + 1),
        (7, "sh", 5 * s, None),
        (9, None, None, None),
    ]


def test_a_name_that_was_not_saved_is_in_a_block_event(tmp_path: Path) -> None:
    bracketed = "block_rq_issue: 8,0 W 4096 () 1 + 8 [{}]"
    events = [("sched_waking: x", 1), (bracketed.format("1.io"), 2), (bracketed.format("<...>"), 3)]
    events += [("block_rq_complete: 8,0 W () 1 + 8 [0]", 4), (bracketed.format("2.io"), 5)]
    lines = [f"  <...>-7  [000]  {s}.000000: {event}\n" for event, s in events]
    tasks = readers.read_bytes(tmp_path, "".join(lines).encode()).tasks
    s = 1_000_000_000
    assert tasks.select("tid", "comm", "valid_from_ns", "valid_to_ns").rows() == [
        (7, "1.io", None, 2 * s + 1),
        (7, "2.io", 5 * s, None),
    ]


# --- containers ----------------------------------------------------------------------------------------------------

LINES = [
    f"          dd-77      [001] d..1     {i}.000001: block_rq_issue: 8,0 W 4096 () {i} + 8 [dd]" for i in range(1, 6)
]
TRACE = "".join(line + "\n" for line in ["# tracer: nop", "#", *LINES])


def systrace_page(*parts: str) -> str:
    elements = "".join(f'  <script class="trace-data" type="application/text">\n{p}  </script>\n' for p in parts)
    return f"<!DOCTYPE html>\n<html>\n<body>\n<script>var x;</script>\n{elements}</body>\n</html>\n"


def test_systrace_pages(tmp_path: Path) -> None:
    plain = readers.read_bytes(tmp_path, TRACE.encode())
    assert plain.block["sector"].to_list() == [1, 2, 3, 4, 5]
    processes = "USER PID PPID NAME\nroot 1 0 init\n"
    old = TRACE.replace("\n", "\\n\\\n")
    pages = {
        "new": systrace_page(processes, TRACE, '{"traceEvents": []}\n'),
        "without a last newline": systrace_page(TRACE.rstrip("\n")),
        "old": f'<!DOCTYPE HTML>\n<html>\n<script>\n  var linuxPerfData = "\\\n{old}\\n";\n</script></html>\n',
    }
    for page in pages.values():
        staging = readers.read_bytes(tmp_path, page.encode())
        assert staging.format == "systrace_html"
        assert staging.block.equals(plain.block)
        assert readers.losses(staging) == {}


@pytest.mark.parametrize("piece_bytes", [200, 333, 1000])
def test_systrace_pages_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    path = tmp_path / "page.html"
    path.write_text(systrace_page("1 init\n", TRACE, '{"traceEvents": []}\n', TRACE))
    whole = readers.read(path)
    monkeypatch.setattr(systrace, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(systrace, "_LONGEST", 100)
    cut = readers.read(path)
    assert whole.events == cut.events and whole.block.equals(cut.block)
    assert whole.block.height == 2 * len(LINES)


def test_cut_systrace_page(tmp_path: Path) -> None:
    page = systrace_page(TRACE).encode()
    cut = page[: page.index(b"3.000001: block")]
    staging = readers.read_bytes(tmp_path, cut)
    assert staging.block["sector"].to_list() == [1, 2]
    assert readers.losses(staging) == {"torn": 1}


@pytest.mark.parametrize(
    "before", ["TRACE:\n", "capturing trace... done\nTRACE:\n", "capturing trace... done TRACE:\r\n"]
)
def test_atrace(tmp_path: Path, before: str) -> None:
    plain = readers.read_bytes(tmp_path, TRACE.encode())
    packed = zlib.compress(TRACE.encode())
    for body in (TRACE.encode(), packed):
        staging = readers.read_bytes(tmp_path, before.encode() + body)
        assert staging.format == "atrace"
        assert staging.block.equals(plain.block)
    cut = readers.read_bytes(tmp_path, before.encode() + packed[:-20])
    assert plain.block[: cut.block.height].equals(cut.block)
    assert cut.losses[0].kind == "torn"


def test_markdown(tmp_path: Path) -> None:
    text = f"# Notes\n\nsome-1 prose\n```c\nint x;\n```\nmore\n```\n{TRACE}```\nend\n"
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.block["sector"].to_list() == [1, 2, 3, 4, 5]
    assert readers.losses(staging) == {}


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["androstep/ftrace_sqlite.txt", "ftrace_text/lisa_trace.txt"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_truncation(tmp_path: Path, name: str, packed: bool) -> None:
    data = corpus.path(name).read_bytes()
    raw = gzip.compress(data) if packed else data
    pick = random.Random(f"{name} {packed}")
    for cut in [pick.randrange(1, len(raw)) for _ in range(40)]:
        left = readers.gunzip_what_is_there(raw[:cut]) if packed else raw[:cut]
        whole = left[: left.rfind(b"\n") + 1]
        events = sum(readers.FTRACE_EVENT.search(line) is not None for line in whole.splitlines())
        path = tmp_path / "cut"
        path.write_bytes(raw[:cut])
        if not events:
            with pytest.raises(InputError):
                ingest.read(path)
            continue
        staging = readers.read(path)
        assert sum(staging.events.values()) == events
        sectors = re.findall(rb"block_rq_[a-z]+: 7,0 .*?([0-9]+) \+ ", whole)
        assert staging.block["sector"].fill_null(2**63 - 1).to_list() == [min(int(s), 2**63 - 1) for s in sectors]
        # The compressed stream, and the line it ends in.
        torn = packed + (len(left) > len(whole))
        assert sum(loss.kind == "torn" for loss in staging.losses) == torn


@pytest.mark.prove
@given(st.integers(0, 137_000), st.binary(min_size=1, max_size=40))
@settings(max_examples=60)
def test_overwritten_bytes_cost_only_their_lines(tmp_path: Path, place: int, junk: bytes) -> None:
    data = corpus.path("androstep/ftrace_sqlite.txt").read_bytes()
    damaged = data[:place] + junk + data[place + len(junk) :]
    touched = damaged.count(b"\n", place, place + len(junk) + 1) + data.count(b"\n", place, place + len(junk) + 1) + 2
    staging = readers.read_bytes(tmp_path, damaged)
    assert 1144 - touched <= sum(staging.events.values()) <= 1144 + touched


# --- lines as the kernel writes them -------------------------------------------------------------------------------

ALPHABET = st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])
HOSTILE = ["a-1 [000] b", "]", "b]", "[x] 3", "IntentService[E", "\t-\t", "\r", "\x1b[2J", " lead", "trail ", "٣-٣"]
HOSTILE += ["<...>", "<idle>", "a-1 [000] 1.0: ", "x-1 (-----) [0", ": block_plug: [", "8,0 W 1 + 1 [a]"]
COMM = st.one_of(
    st.text(ALPHABET, max_size=15).map(lambda s: s.encode()[:15].decode(errors="ignore")),
    st.sampled_from(HOSTILE),
)


@st.composite
def kernel_lines(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    with_tgid, with_flags, digits = draw(st.booleans()), draw(st.sampled_from([0, 4, 5])), draw(st.sampled_from([6, 9]))
    lines = []
    # The clock of a CPU does not go back. Another test covers clocks that do.
    moments = draw(st.lists(st.tuples(st.integers(0, 1023), st.integers(0, 10**16)), min_size=1, max_size=8))
    in_order = {cpu: iter(sorted(time for of, time in moments if of == cpu)) for cpu, _ in moments}
    for cpu, _ in moments:
        comm, printed = draw(COMM), draw(COMM)
        tid = draw(st.integers(0, 4_194_304))
        tgid = draw(st.one_of(st.none(), st.integers(1, 4_194_304))) if with_tgid else None
        ns = next(in_order[cpu]) // 10 ** (9 - digits) * 10 ** (9 - digits)
        sector, length = draw(st.integers(0, 2**63 - 1)), draw(st.integers(0, 2**32 - 1))
        rwbs = draw(st.sampled_from(["R", "RA", "WS", "FWFS", "FF", "DS", "N", "WSM"]))
        head = f"{comm:>16}-{tid:<7d} "
        head += (f"({tgid:7d}) " if tgid is not None else "(-------) ") if with_tgid else ""
        head += f"[{cpu:03d}] " + "d.s1."[:with_flags] + " " * bool(with_flags)
        head += f"{ns // 10**9:5d}.{ns % 10**9:09d}"[: digits - 9 or None] + ": "
        has_error = draw(st.booleans())
        error = draw(st.integers(-4095, 0))
        if has_error:
            fields = f"block_rq_complete: 8,16 {rwbs} () {sector} + {length} be,0,4 [{error}]"
        else:
            fields = f"block_rq_issue: 8,16 {rwbs} 4096 () {sector} + {length} be,0,4 [{printed}]"
        line_comm = comm.lstrip(" ")
        expected = {
            "ts_ns": ns,
            "cpu": cpu,
            "tid": tid,
            "pid": tgid,
            "comm": (None if line_comm == "<...>" else line_comm) if has_error else printed,
            "event": fields.split(":")[0],
            "dev": units.dev(8, 16),
            "sector": sector,
            "nr_sectors": length,
            "rwbs": rwbs,
            "error": error if has_error else None,
        }
        lines.append((head + fields, expected))
    return lines


@pytest.mark.prove
@given(kernel_lines())
def test_what_the_kernel_writes_is_read_back(tmp_path: Path, lines: list[tuple[str, dict[str, Any]]]) -> None:
    staging = readers.read_bytes(tmp_path, "".join(line + "\n" for line, _ in lines).encode())
    expected = sorted((fields for _, fields in lines), key=lambda fields: fields["ts_ns"])
    assert staging.block.select(list(expected[0])).to_dicts() == expected
    assert staging.losses == ()


def test_name_that_is_no_utf8(tmp_path: Path) -> None:
    staging = readers.read_bytes(tmp_path, HEAD.encode() + b"block_plug: [\xff\xfe]\n")
    assert staging.block["comm"].to_list() == ["\\xff\\xfe"]


@contextlib.contextmanager
def recording(directory: Path) -> Iterator[tuple[Path, Path]]:
    """Create a loop device over a file, and a tracefs instance that records its block events."""
    backing = directory / "backing"
    backing.write_bytes(bytes(1 << 20))
    with contextlib.ExitStack() as undo:

        def run(*command: str | Path) -> str:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{command[0]} is not possible here: {done.stderr}")
            return done.stdout.strip()

        device = run("losetup", "-f", "--show", backing)
        undo.callback(run, "losetup", "-d", device)
        instance = undo.enter_context(tracing.instance(directory))
        # Other tests use disks at the same time: without the filter, their events would fill the buffer.
        rdev = Path(device).stat().st_rdev
        (instance / "events/block/filter").write_text(f"dev == {os.major(rdev) << 20 | os.minor(rdev)}")
        (instance / "events/block/enable").write_text("1")
        undo.callback((instance / "events/block/enable").write_text, "0")
        yield Path(device), instance


WRITER = """
import mmap, os, sys
open("/proc/self/comm", "w").write("a-1 [000] b]")
page = mmap.mmap(-1, 4096)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
for block in (3, 1, 2):
    os.pwritev(fd, [page], block * 4096)
os.fsync(fd)
"""


@pytest.mark.root
def test_what_this_kernel_prints(tmp_path: Path) -> None:
    with recording(tmp_path) as (device, instance):
        subprocess.run([sys.executable, "-c", WRITER, device], check=True)
        (instance / "events/block/enable").write_text("0")
        staging = readers.read_bytes(tmp_path, (instance / "trace").read_bytes())
        rdev = device.stat().st_rdev
    assert readers.losses(staging) == {}
    block = staging.block.filter(pl.col("dev") == units.dev(os.major(rdev), os.minor(rdev)))
    queued = block.filter((pl.col("action") == "queue") & pl.col("rwbs").str.contains("^W"))
    assert queued.select("sector", "nr_sectors", "comm").rows() == [(s, 8, "a-1 [000] b]") for s in (24, 8, 16)]
    done = block.filter(
        (pl.col("action") == "complete") & (pl.col("nr_sectors") > 0) & pl.col("rwbs").str.contains("^W")
    )
    assert sorted(done["sector"]) == [8, 16, 24]
    assert set(done["error"]) == {0}
    unknown = [event for event in staging.events if event.startswith("block_") and event not in ftrace_text.ACTIONS]
    assert set(unknown) <= {"block_touch_buffer", "block_dirty_buffer"}


# --- latency format --------------------------------------------------------------------------------------------------

HEADER = """\
# tracer: nop
#
# nop latency trace v1.1.5 on 6.1.0
# --------------------------------------------------------------------
# latency: 0 us, #2/2, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:2)
"""
EVENT = "block_rq_issue: 8,0 WS 4096 () 64 + 8 [app]"


@pytest.mark.parametrize(
    "text",
    [
        HEADER,
        f"{HEADER}     app-1234      0d..2.   12us : {EVENT}\n",
        f"{HEADER}  kworke-77        1....  1092us+: {EVENT}\n",
        f"{HEADER}     app  1234 0 d..2. 00000001 00000012 [001000.000012] 12us : {EVENT}\n",
        f"     app-1234      0d..2.   12us!: {EVENT}\n",
        f"cpus=2\n iotrace-13732   0..... 35972.088152: {EVENT}\n",
        f"cpus=2\n   <...>-13733   1d.h1. 35972.084149331: {EVENT}\n",
    ],
)
def test_the_latency_format_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "trace.txt").write_text(text)
    with pytest.raises(InputError, match=r"trace\.txt: ftrace text in latency format, .*; use trace-cmd report with"):
        ingest.read(tmp_path / "trace.txt")


@pytest.mark.parametrize("time", ["35972.088152", "35972.088152339"])
@pytest.mark.parametrize("head", ["cpus=2\n", HEADER])
def test_other_reports_of_trace_cmd_are_read(tmp_path: Path, head: str, time: str) -> None:
    """``trace-cmd report -t`` prints nanoseconds, ``-F`` only leaves events out."""
    (tmp_path / "trace.txt").write_text(f"{head}             app-1234  [000] {time}: {EVENT}\n")
    assert ingest.read(tmp_path / "trace.txt").events == {"block_rq_issue": 1}


def test_differences_of_trace_cmd_are_skipped(tmp_path: Path) -> None:
    """``trace-cmd report --ts-diff`` prints the time since the last event after the time."""
    head = "             app-1234  [000]  3597.0881"
    text = f"cpus=2\n{head}52: {EVENT}\n{head}62: (+10) {EVENT}\n"
    read = readers.read_bytes(tmp_path, text.encode())
    assert (read.events, read.losses) == ({"block_rq_issue": 2}, ())


@pytest.mark.parametrize("header", ["", "# tracer: nop\n#\n"])
@pytest.mark.parametrize("flags", ["", "d..1 ", "d..1. ", "dNh.1. ", "dn.h2.. "])
def test_flags_of_all_kernels(tmp_path: Path, flags: str, header: str) -> None:
    """PREEMPT_RT had seven (irqs-off to migrate-disable, two of them lazy), other kernels have four or five."""
    text = f"{header}          app-1234  [000] {flags}  597.088152: {EVENT}\n"
    (tmp_path / "trace.txt").write_text(text)
    assert ingest.read(tmp_path / "trace.txt").events == {"block_rq_issue": 1}


@pytest.mark.parametrize("period", ["", "1 ", "        4096 "])
@pytest.mark.parametrize("cpu", ["", "[001] "])
@pytest.mark.parametrize(("ids", "pid"), [("77", None), ("   77", None), ("1264623/77", 1264623)])
def test_perf_script_without_names(tmp_path: Path, ids: str, pid: int | None, cpu: str, period: str) -> None:
    """Fields ``tid,time,event,trace`` of perf script. A line of the kernel's log has no system of an event."""
    text = f"{ids} {cpu} 12.000001: {period}block:{EVENT}\n{ids} 12.000002: usb: {EVENT}\n".encode()
    read = readers.read_bytes(tmp_path, text)
    assert (read.events, readers.losses(read)) == ({"block_rq_issue": 1}, {"unreadable": 1})
    expected = [(12_000_001_000, 77, pid, "app", 1 if cpu else None)]
    assert read.block.select("ts_ns", "tid", "pid", "comm", "cpu").rows() == expected


@pytest.mark.parametrize("quote", ["", "> "])
@pytest.mark.parametrize("function", [" => submit_bio", "=> submit_bio (ffffffff8147e1aa)", "^C"])
def test_stack_traces_are_skipped(tmp_path: Path, function: str, quote: str) -> None:
    """The kernel indents the functions, ``trace-cmd report`` does not."""
    head = "             app-1234  [000]  3597.0881"
    lines = [f"{head}52: {EVENT}", f"{head}53: kernel_stack:         <stack trace >", function, function]
    read = readers.read_bytes(tmp_path, "".join(f"{quote}{line}\n" for line in lines).encode())
    assert (read.events, read.losses) == ({"block_rq_issue": 1, "kernel_stack": 1}, ())


@pytest.mark.parametrize("cpu", ["", "[001] "])
def test_perf_script_without_threads(tmp_path: Path, cpu: str) -> None:
    """Fields ``time,event,trace`` of perf script. The kernel's log has a time, too, but no system of an event."""
    text = f"{cpu}  12.000001: block:{EVENT}\n{cpu}12.000002: usb: {EVENT}\n".encode()
    read = readers.read_bytes(tmp_path, text)
    assert (read.events, readers.losses(read)) == ({"block_rq_issue": 1}, {"unreadable": 1})
    assert read.block.select("ts_ns", "tid", "cpu").rows() == [(12_000_001_000, None, 1 if cpu else None)]


def test_a_dump_to_the_log_of_the_kernel_is_refused_by_name(tmp_path: Path) -> None:
    """ftrace_dump_on_oops prints the latency format, and dmesg a time before each line."""
    line = "      dd-1234    1d..1 100000001us : block_rq_issue: 8,16 R 4096 () 1000 + 8 [dd]\n"
    (tmp_path / "trace.txt").write_text(f"[   55.1] Dumping ftrace buffer:\n[   55.300000] {line}[12345.300000]{line}")
    with pytest.raises(InputError, match="ftrace text in latency format"):
        ingest.read(tmp_path / "trace.txt")
