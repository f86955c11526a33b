"""Files from users, and the expected values for each (corpus, field/README.md). Variants are derived here."""

from __future__ import annotations

import gzip
import io
import itertools
import lzma
import re
import warnings
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from support import corpus
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.capture import Capture
from androstep_analysis.ingest.staging import RWBS, has_flags
from androstep_analysis.present import headline, terminal


def opened(name: str) -> Capture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", androstep.LossWarning)
        return androstep.open(corpus.path(f"field/{name}"))


def made(tmp_path: Path, text: str | bytes, name: str = "trace.txt") -> Capture:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return androstep.open(path)


def rows(capture: Capture, *columns: str) -> list[tuple[object, ...]]:
    return capture.requests.select(columns).collect().rows()


# -- the tracer blk ----------------------------------------------------------------------------------------------------

BLK_LINE = "     cat-7 [001] d..1. 5.{ns:06}: 8,16 {group}{rest}\n"


def blk_trace(*events: tuple[int, str], group: str = "") -> str:
    return "# tracer: blk\n#\n" + "".join(BLK_LINE.format(ns=ns, group=group, rest=rest) for ns, rest in events)


def test_blk_tracer_of_the_field() -> None:
    capture = opened("T01_blk_tracer.txt")
    assert rows(capture, "op", "nr_sectors", "submit_comm") == [("read", 8, "zsh")]
    assert capture.requests.select(pl.col("complete_ns") - pl.col("issue_ns")).collect().item() == 67_000


@pytest.mark.parametrize("group", ["", "1a,7   "])
def test_blk_tracer_with_remaps_splits_and_flushes(group: str, tmp_path: Path) -> None:
    events = (
        (1, "  A  WS 108 + 8 <- (8,17) 8"),
        (2, "  Q  WS 108 + 8 [cat]"),
        (3, "  D  WS 108 + 8 [cat]"),
        (4, "  m   N cfq queue"),
        (5, "  D  FN [kworker/0:1H]"),
        (6, "  C  WS 108 + 8 [0]"),
        (7, "  C  FN 0 [0]"),
        (8, "  U   N [cat] 1"),
        (9, "  D   R 300 + 16 [cat]"),
        (12, "  C   R 300 + 16 [-5]"),
    )
    capture = made(tmp_path, blk_trace(*events, group=group))
    assert rows(capture, "op", "sector", "nr_sectors", "error") == [
        ("write", 108, 8, 0),
        ("flush", None, 0, 0),
        ("read", 300, 16, -5),
    ]
    assert capture.about["losses"] == []
    assert capture.about["events"] == {"A": 1, "C": 3, "D": 3, "Q": 1, "U": 1, "m": 1}


# -- perf script -------------------------------------------------------------------------------------------------------


def test_perf_script_of_the_field() -> None:
    assert rows(opened("T13_perf_script_10.txt"), "op", "nr_sectors", "dev") == [
        ("read", n, (259 << 20) + 1) for n in (256, 256, 256, 8)
    ]


PERF = """\
# captured on: today
{name} {tid} [000]     1.000001: {period}ext4:ext4_da_write_begin: dev 8,16 ino 12 pos 0 len 4096
{name} {tid} [000]     1.000002: {period}block:block_bio_queue: 8,16 WS 8 + 8 [{comm}]
            ffffffff81a0 submit_bio+0x10 ([kernel.kallsyms])
        7f0011223344 [unknown] (/lib/libc.so)
{name} {tid} [000]     1.000003: {period}block:block_rq_issue: 8,16 WS 4096 () 8 + 8 be,0,4 [{comm}]

swapper     0 [001]     1.000009: {period}block:block_rq_complete: 8,16 WS () 8 + 8 be,0,4 [0]
{name} {tid}     1.000010:          1 major-faults:  7f00 memcpy+0x1 (/lib/libc.so)
"""


@pytest.mark.parametrize(
    ("name", "tid", "period", "has_cpus"),  # of a recording of one command, perf prints no CPU
    left_to_prove(
        itertools.product(["dd", "Binder:7_1 x", "a 12 [b"], ["7", "6/7"], ["", "       1     "], [True, False]),
        lambda case: case[0] == "a 12 [b" or (case[2] == "" and case[3]),
    ),
)
def test_perf_script_with_call_chains(name: str, tid: str, period: str, has_cpus: bool, tmp_path: Path) -> None:
    text = PERF if has_cpus else re.sub(r" \[00.\] +", "  ", PERF)
    capture = made(tmp_path, text.format(name=name, tid=tid, period=period, comm=name[:15]))
    assert rows(capture, "op", "sync", "sector", "nr_sectors", "submit_tid") == [("write", True, 8, 8, 7)]
    assert capture.requests.select(pl.col("complete_ns") - pl.col("issue_ns")).collect().item() == 6_000
    assert capture.fs_events.select("event", "ino").collect().rows() == [("ext4_da_write_begin", 12)]
    assert capture.about["losses"] == []


QUOTED = """\
{0:>16}-7       [000] .....     1.000001: ext4_sync_file_enter: dev 8,16 ino 12 parent 2 datasync 0
{0:>16}-7       [000] .....     1.000002: block_rq_issue: 8,16 WS 4096 () 8 + 8 [{0}]
          <idle>-0       [001] d.h..     1.000009: block_rq_complete: 8,16 WS () 8 + 8 [0]
{0:>16}-7       [000] .....     1.000010: ext4_sync_file_exit: dev 8,16 ino 12 ret 0
"""


def test_marks_of_a_quotation_are_not_part_of_a_name(tmp_path: Path) -> None:
    names = ["dd", "a 12 [b", "> x", "/init", "123456789012345"]
    text = "".join(QUOTED.format(name).replace(" 1.0", f" {second}.0") for second, name in enumerate(names))
    plain = made(tmp_path, text)
    assert set(plain.fs_events.collect()["comm"]) == set(names)
    for mark in (">", "> ", "> > ", "// ", "|", "17:", "17-", "dir/trace.txt:", "trace.txt:17:"):
        quoted = made(tmp_path, "".join(mark + line for line in text.splitlines(keepends=True)))
        for table in ("block_events", "fs_events", "tasks"):
            assert quoted.tables[table].collect().equals(plain.tables[table].collect()), mark


@pytest.mark.parametrize("name", ["dd", "kworker/0:1H"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_last_line_that_was_pasted_without_its_end(name: str, is_whole: bool, tmp_path: Path) -> None:
    """A line that ends in its last bracket is whole without a newline; other lines may have been cut."""
    text = "".join(QUOTED.format(name).splitlines(keepends=True)[:3])
    cut = text.removesuffix("\n") if is_whole else text.removesuffix("]\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", androstep.LossWarning)
        capture = made(tmp_path, cut)
    assert rows(capture, "matched") == [("full" if is_whole else "no_complete",)]
    assert [loss["kind"] for loss in capture.about["losses"]] == ([] if is_whole else ["torn"])


def test_a_long_name_of_a_converted_trace_remains(tmp_path: Path) -> None:
    name = "/vendor/bin/hw with a long name"
    assert made(tmp_path, QUOTED.format(name)).fs_events.collect()["comm"].to_list() == 2 * [name]


def test_zeroes_are_no_written_data(tmp_path: Path) -> None:
    """Linux 6.19 writes WZ for REQ_OP_WRITE_ZEROES, which was N before."""
    text = QUOTED.format("blkdiscard")
    before, now = (made(tmp_path, text.replace(" WS ", f" {rwbs} "), f"{rwbs}.txt") for rwbs in ("NS", "WZS"))
    for capture in (before, now):
        assert rows(capture, "op", "sync") == [("other", True)]


@pytest.mark.parametrize("letters", ["R", "W", "WZ", "D", "DE", "F", "N", "Z", "ZR", "ZRA", "ZA"])
def test_letters_of_an_operation_alone_state_no_flags(letters: str) -> None:
    assert RWBS.fullmatch(letters)
    assert not has_flags(letters)
    assert has_flags(f"{letters}S")


# -- text of Windows ---------------------------------------------------------------------------------------------------

TEXTS = {
    "ftrace": blk_trace((1, "  D   R 8 + 8 [cat]"), (2, "  C   R 8 + 8 [0]")),
    "blkparse": "  8,16 0 1 1.000000000 7 D R 8 + 8 [cat]\n  8,16 0 2 1.000001000 0 C R 8 + 8 [0]\n",
    "perf": PERF.format(name="dd", tid="7", period="", comm="dd"),
    "strace": '7 1700000000.000001 openat(AT_FDCWD, "/a", O_RDONLY) = 3 <0.000001>\n'
    '7 1700000000.000009 read(3, "x", 1) = 1 <0.000001>\n',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_that_powershell_wrote(kind: str, tmp_path: Path) -> None:
    plain = made(tmp_path, TEXTS[kind])
    for codec in ("utf-16-le", "utf-16-be", "utf-8-sig", "utf-8"):
        for mark in ("", "\ufeff") if codec.startswith("utf-16") else ("",):
            capture = made(tmp_path, (mark + TEXTS[kind].replace("\n", "\r\n")).encode(codec))
            for name in ("block_events", "syscalls", "fs_events"):
                assert capture.tables[name].collect().equals(plain.tables[name].collect()), (codec, mark)
            assert capture.about["losses"] == []


OF_CORPUS = {
    "androstep/result.po": 300,
    "androstep/mobigen.out.twitter": 300,
    "androstep/ftrace_sqlite.txt": 300,
    "blkparse_text/android_swapcache_2.txt": 300,
    "strace/17461-com.android.settings.txt": 300,
    "field/T31_cachemon_ds.csv": 300,
    "field/T08_biosnoop.txt": 300,
    "field/T07_mmc.txt": 300,
    "field/T21_f2fs_precache.txt": 300,
}
"""Text files, and how many of their first lines are read."""


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-8-sig", "utf-8"])
@pytest.mark.parametrize("name", OF_CORPUS)
def test_ends_of_lines_of_windows_change_nothing(name: str, codec: str, tmp_path: Path) -> None:
    lines = corpus.path(name).read_text("utf-8").splitlines()[: OF_CORPUS[name]]
    plain = made(tmp_path, "\n".join([*lines, ""]))
    (tmp_path / "windows").mkdir()
    capture = made(tmp_path / "windows", "\r\n".join([*lines, ""]).encode(codec))
    for table in ("block_events", "syscalls", "fs_events", "commands"):
        assert capture.tables[table].collect().equals(plain.tables[table].collect()), table
    assert capture.about["events"] == plain.about["events"]
    assert capture.about["losses"] == plain.about["losses"]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "zip": lambda data: zipped({"trace.txt": data}),
    "zip of two": lambda data: zipped({"readme.txt": b"hello\n", "trace.txt": data}),
}


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("inner", "outer"),
    left_to_prove(
        itertools.product(["gzip", "xz", "UTF-16"], ["gzip", "xz", "zip", "zip of two"]),
        {("gzip", "zip"), ("xz", "zip of two"), ("UTF-16", "gzip")}.__contains__,
    ),
)
def test_one_compression_in_another(inner: str, outer: str, tmp_path: Path) -> None:
    """A tracker of issues takes only zip archives, into which people put what they have."""
    plain = made(tmp_path, TEXTS["ftrace"])
    packed = made(tmp_path, PACKERS[outer](PACKERS[inner](TEXTS["ftrace"].encode())), "packed")
    assert packed.requests.collect().equals(plain.requests.collect()) and packed.about["losses"] == []


def test_a_file_that_unpacks_to_itself_is_refused(tmp_path: Path) -> None:
    data = TEXTS["ftrace"].encode()
    for _ in range(50):
        data = gzip.compress(data)
    with pytest.raises(androstep.InputError, match="no known recording"):
        made(tmp_path, data)


@pytest.mark.parametrize("magic", [b"BZh91AY&SY", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\0", b"\x04\x22\x4d\x18"])
def test_a_compression_that_is_not_read_is_named(magic: bytes, tmp_path: Path) -> None:
    with pytest.raises(androstep.InputError, match="which is not read; unpack it"):
        made(tmp_path, magic + bytes(range(256)))


def test_a_pointer_to_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(androstep.InputError, match="a pointer of Git LFS"):
        made(tmp_path, "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n")


def test_spaces_at_the_ends_of_lines(tmp_path: Path) -> None:
    """A terminal may pad what is copied from it."""
    for kind, text in TEXTS.items():
        plain = made(tmp_path, text, f"{kind}.txt")
        padded = made(tmp_path, text.replace("\n", "   \n"), f"{kind}.padded.txt")
        assert padded.requests.collect().equals(plain.requests.collect()) and padded.about["losses"] == []


def test_utf_16_of_the_field() -> None:
    told, plain = opened("T17_utf16.txt"), opened("T12b_mtk.txt")
    assert told.requests.collect().equals(plain.requests.collect())
    assert told.requests.collect().height > 0


# -- lists of requests -------------------------------------------------------------------------------------------------


def test_biosnoop_of_the_field() -> None:
    capture = opened("T08_biosnoop.txt")
    times = capture.requests.select("nr_sectors", "issue_ns", "complete_ns").collect().rows()
    assert times[:3] == [(8, -3_210_000, 0), (8, 138_000, 348_000), (16, 384_000, 524_000)]
    assert len(times) == 6 and capture.requests.collect()["sync"].null_count() == 6


LISTS = {
    "libbpf-tools": """\
Tracing block device I/O... Hit Ctrl-C to end.
TIME(s)     COMM           PID     DISK    T      SECTOR     BYTES   QUE(ms) LAT(ms)
0.003456    my proc a      1234567 nvme0n1 WS     2406576    4096      0.010   3.210
0.010000    x              7       sdb     RA     8          8192      0.010   1.000
""",
    "bcc": """\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
0.003456    my proc a      1234567 nvme0n1 W 2406576    4096      3.21
0.010000    x              7      sdb     R 8          8192      1.00
""",
    "perf-tools": """\
Tracing block I/O. Ctrl-C to end.
STARTs         ENDs           COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
0.000246 0.003456 my proc a    1234567 W    259,0    2406576      4096       3.21
0.009000 0.010000 x            7      RA   8,16     8            8192       1.00
""",
}


@pytest.mark.parametrize("tool", LISTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_lists_of_requests(tool: str, end: str, tmp_path: Path) -> None:
    capture = made(tmp_path, LISTS[tool].replace("\n", end))
    found = rows(capture, "op", "sector", "nr_sectors", "issue_ns", "complete_ns")
    assert found == [("write", 2406576, 8, 246_000, 3_456_000), ("read", 8, 16, 9_000_000, 10_000_000)]
    dev = [dev for (dev,) in rows(capture, "dev")]
    assert dev == ([259 << 20, (8 << 20) + 16] if tool == "perf-tools" else [0, 1])
    assert [sync for (sync,) in rows(capture, "sync")] == (
        [None, None] if tool == "bcc" else [tool != "perf-tools", False]
    )
    queued = [queue_ns for (queue_ns,) in rows(capture, "queue_ns")]
    assert queued == ([236_000, 8_990_000] if tool == "libbpf-tools" else [None, None])
    who = [(None, None)] * 2 if tool == "perf-tools" else [("my proc a", 1234567), ("x", 7)]
    assert rows(capture, "submit_comm", "submit_pid") == who
    assert all(loss["kind"] == "numbered" for loss in capture.about["losses"])


def test_disks_of_a_list_may_be_numbers(tmp_path: Path) -> None:
    text = LISTS["bcc"].replace("nvme0n1", "259,0  ").replace("sdb ", "8,16")
    capture = made(tmp_path, text)
    assert rows(capture, "dev", "sector") == [(259 << 20, 2406576), ((8 << 20) + 16, 8)]
    assert capture.about["losses"] == []


@pytest.mark.parametrize("tool", LISTS)
@pytest.mark.parametrize("missing", range(4))
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_a_last_row_of_a_list_without_its_newline_is_read_if_it_is_whole(
    tool: str, missing: int, tmp_path: Path
) -> None:
    """A duration with fewer decimals than the one before was cut off."""
    text = LISTS[tool].rstrip("\n")
    capture = made(tmp_path, text[: len(text) - missing])
    kinds = {loss["kind"] for loss in capture.about["losses"]}
    assert (len(rows(capture, "op")), "torn" in kinds) == ((1, True) if missing else (2, False))


ROW = "{done} dd             77      sda    R {sector:<10} 4096    {took}\n"


@pytest.mark.parametrize(
    ("time", "digits", "took", "apart_us", "is_ordered"),
    [
        *(("TIME(s)", 6, "0.10", apart, apart > 11) for apart in (0, 3, 11, 12)),
        *(("TIME(s)", 6, "0.100", apart, apart > 2) for apart in (0, 2, 3)),
        *(("TIMESTAMP", 3, "0.100", apart, apart > 1001) for apart in (1000, 2000)),
    ],
)
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_the_order_of_issues_that_a_list_rounds_is_unknown(
    time: str, digits: int, took: str, apart_us: int, is_ordered: bool, tmp_path: Path
) -> None:
    """The last digits of completion and latency add up; a TIMESTAMP has only three."""
    begin = "00:00:0" if time == "TIMESTAMP" else ""
    lines = [
        ROW.format(done=f"{begin}{1 + apart_us * row / 1e6:.{digits}f}", sector=8 * row, took=took) for row in range(2)
    ]
    capture = made(tmp_path, f"{time}     COMM           PID     DISK   T SECTOR     BYTES   LAT(ms)\n{''.join(lines)}")
    kinds = {loss["kind"]: loss["count"] for loss in capture.about["losses"]}
    assert kinds == {"numbered": 1} | ({} if is_ordered else {"unordered": 2})
    text = "\n".join(map(str, headline.of(capture).sentences))
    assert ("random 50" in text) == is_ordered
    assert ("unknown" in terminal.tables(capture).partition("Locality")[2].partition("\n\n")[0]) != is_ordered
    assert ("order of 2 requests (the list rounds the time of issue)" in text) != is_ordered


@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_two_lists_in_one_file_state_no_order(tmp_path: Path) -> None:
    """Their times begin anew, so that nothing orders the requests of one among those of the other."""
    sentences = headline.of(made(tmp_path, LISTS["bcc"] * 2)).sentences
    text = "\n".join(map(str, sentences))
    assert "pattern" not in [sentence.about for sentence in sentences]
    assert "times (times come from several clocks), order of requests, and so what is random (times come from" in text


@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_columns_that_are_separated_by_tabs(tmp_path: Path) -> None:
    cells = [line.split() for line in LISTS["bcc"].replace("my proc a", "my_proc").splitlines()]
    plain, tabs = (
        made(tmp_path, "".join(f"{mark.join(line)}\n" for line in cells), name)
        for mark, name in ((" ", "plain.txt"), ("\t", "tabs.txt"))
    )
    assert tabs.requests.collect().equals(plain.requests.collect()) and len(rows(tabs, "op")) == 2
    assert [loss["kind"] for loss in tabs.about["losses"]] == ["numbered"]


@pytest.mark.parametrize("name", ["?", " "])
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_a_process_that_a_tool_did_not_see_has_no_name(name: str, tmp_path: Path) -> None:
    """bcc prints ``?`` for an unknown process, libbpf-tools nothing. Both print PID 0."""
    header, first, second = LISTS["bcc"].splitlines()
    text = f"{header}\n{first}\n{second.replace('x ', f'{name} ', 1).replace(' 7 ', ' 0 ', 1)}\n"
    assert rows(made(tmp_path, text), "sector", "submit_comm", "submit_pid") == [
        (2406576, "my proc a", 1234567), (8, None, None)
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_what_a_tool_prints_between_the_rows_of_a_list(tmp_path: Path) -> None:
    begin, header, first, second = ("Tracing block device I/O... Hit Ctrl-C to end.", *LISTS["bcc"].splitlines())
    capture = made(tmp_path, f"{begin}\n{header}\n{first}\nPossibly lost 33 samples\n\n^C{second}\nDetaching...\n")
    assert rows(capture, "op", "sector", "issue_ns") == [("write", 2406576, 246_000), ("read", 8, 9_000_000)]
    told = [(loss["kind"], loss["count"]) for loss in capture.about["losses"]]
    assert told == [("numbered", 2), ("dropped", 33)] and capture.about["lost_events"] == 33
    again = made(tmp_path, f"{begin}\n{header}\n{first}\n\n{begin}\n{header}\n{second}\n", "again.txt")
    assert rows(again, "op") == [("write",), ("read",)]
    assert [loss["kind"] for loss in again.about["losses"]] == ["numbered", "clocks"]


@pytest.mark.parametrize("queue", [None, 0.01, 1234.5])
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_columns_of_bcc_that_touch(queue: float | None, tmp_path: Path) -> None:
    """bcc prints BYTES with %-7s and the duration behind it with %7.2f. Where both may end differently is unknown."""
    sizes = (1_048_576, 4096, 1_048_576, 2_097_152)
    took = (9999.99, 1234.56, 1.5, 123456.78)
    text = f"TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  {'QUE(ms) ' if queue else ''}LAT(ms)\n"
    for n, (size, ms) in enumerate(zip(sizes, took, strict=True)):
        name = "<unknown>" if n == 1 else "sda"
        text += f"{1000 + n:<11.6f} {'dd':<14.14s} {7:<7d} {name:<9s} {'W':<1s} {n * 8:<10d} {size:<7d}"
        text += f"{f'{queue:7.2f} ' if queue else ''}{ms:7.2f}\n"
    capture = made(tmp_path, text)
    found = capture.requests.sort("sector").select(
        "nr_sectors", "dev", ms=(pl.col("complete_ns") - pl.col("issue_ns")) / 1e6
    )
    devices = (0, (1 << 20) - 1, 0, 0)
    assert found.collect().rows() == [
        (size // 512, dev, ms) for size, dev, ms in zip(sizes, devices, took, strict=True)
    ]
    last = "dd             7       sda       W 8          "
    either = made(
        tmp_path, f"{text.splitlines()[0]}\n1.000000    {last}10485765121234.56\n2.000000    {last}4096      1.00\n"
    )
    assert rows(either, "nr_sectors") == [(8,)]  # the other row is of 1048576 or of 1048576512 bytes


@pytest.mark.parametrize(("tool", "end"), list(zip(LISTS, ("\n", "\r\n", "\n"), strict=True)))
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_rows_of_a_list_that_grep_selected(tool: str, end: str, tmp_path: Path) -> None:
    """A list without its header is the same list."""
    whole = made(tmp_path, LISTS[tool])
    begin = re.search(r"(?m)^0", LISTS[tool])
    assert begin is not None
    rows_only = made(tmp_path, LISTS[tool][begin.start() :].replace("\n", end), "rows.txt")
    assert rows_only.requests.collect().equals(whole.requests.collect())
    assert rows_only.about["losses"] == whole.about["losses"]


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_what_a_list_does_not_know(tmp_path: Path) -> None:
    """An unknown disk is none of the others, a flush has no sector, and -1 is no time in the queue."""
    text = """\
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
1.000000    a              7       sde     WSM  800        4096     -1.000   1.000
1.000001    b              8       Unknown W    900        4096      0.500   1.000
1.000002    c              9       sde     FF   -1         0         0.500   1.000
1.000003    ?              0               R    -1         8         0.500   1.000
"""
    capture = made(tmp_path, text)
    assert rows(capture, "dev", "op", "sector", "nr_sectors", "queue_ns") == [
        (0, "write", 800, 8, None),
        ((1 << 20) - 1, "write", 900, 8, 998_501_000),
        (0, "flush", None, 0, None),  # the queueing of a flush is not related to it
    ]
    losses = {loss["kind"]: loss["count"] for loss in capture.about["losses"]}
    assert losses == {"numbered": 1, "deviceless": 1, "diskless": 1}


@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_a_list_with_times_of_day_continues_after_midnight(tmp_path: Path) -> None:
    text = """\
TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)
23:59:59.900 mount          7       sde     WSM  800        4096     1.000
00:00:00.100 mount          7       sde     RA   1600       4096     2.000
"""
    day = 86_400_000_000_000
    assert rows(made(tmp_path, text), "sector", "issue_ns", "complete_ns") == [
        (800, day - 101_000_000, day - 100_000_000), (1600, day + 98_000_000, day + 100_000_000)
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["S", " "])
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_a_list_with_patterns(pattern: str, tmp_path: Path) -> None:
    text = f"""\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P LAT(ms)
11.269319   kworker/u16:4  2784813 nvme0n1p3 W 113638304  8192   {pattern}    5.49
"""
    assert rows(made(tmp_path, text), "sector", "nr_sectors", "complete_ns") == [(113638304, 16, 11_269_319_000)]


def test_long_lines_of_spaces_and_words(tmp_path: Path) -> None:
    """Lines that nearly match take no time: a pattern with nested choices would take hours."""
    for filling in (b" " * 60_000, b"a " * 30_000, b"1 " * 30_000, b"(): " * 15_000, b"Q " * 30_000):
        (tmp_path / "list.txt").write_bytes(b"1.000 " + filling + b"\n")
        with pytest.raises(androstep.InputError, match="no known recording"):
            androstep.open(tmp_path / "list.txt")
        (tmp_path / "list.txt").write_bytes(LISTS["bcc"].encode() + b"1.000 " + filling + b"\n")
        with pytest.warns(androstep.LossWarning, match="1 line cannot be read"):
            assert androstep.open(tmp_path / "list.txt").requests.collect().height == 2


def test_a_list_without_times_is_refused(tmp_path: Path) -> None:
    text = "COMM PID TYPE DEV BLOCK        BYTES  LATms\nsupervise 1809 W 202,1 17039600 4096 0.62\n"
    with pytest.raises(androstep.InputError, match="the list has no times"):
        made(tmp_path, text)


def test_io_tracer_of_the_field() -> None:
    found = rows(opened("T31_cachemon_ds.csv"), "op", "sector", "issue_ns", "complete_ns")
    assert found == [("write", 2048, 10_000_000_000, 10_002_000_000), ("read", 4096, 10_003_500_000, 10_004_000_000)]


IO_TRACER = {
    "timestamp": "2026-07-01 10:00:10.002000",
    **{"pid": "100", "command": "app", "sector": "2048", "operation": "write", "size": "4096", "latency_ms": "2.0"},
    **{"tid": "101", "nr_sectors": "8", "cpu_id": "3", "ppid": "1", "device": "259:0", "queue_latency_ms": "0.1"},
    **{"command_flags": "REQ_SYNC|REQ_META", "operation_code": "1", "request_id": "9", "mono_ns": "10002000000"},
}
"""A column of io-tracer, and its value."""

OPTIONAL = ("pid", "command", "tid", "nr_sectors", "cpu_id", "ppid", "device", "queue_latency_ms", "command_flags")


@pytest.mark.parametrize(
    ("left_out", "form"), [((), ","), (OPTIONAL, "quoted"), (("device",), "reversed"), (("pid", "tid"), ";")]
)
@pytest.mark.parametrize("has_mono", [True, False])
def test_versions_of_io_tracer(left_out: tuple[str, ...], has_mono: bool, form: str, tmp_path: Path) -> None:
    """Columns may be missing or in another order. Without mono_ns, timestamp is the completion."""
    names = [name for name in IO_TRACER if name not in left_out and (has_mono or name != "mono_ns")]
    names = names[::-1] if form == "reversed" else names
    values = [IO_TRACER[name] for name in names]
    if form == "quoted":
        names, values = ([f'"{cell}"' for cell in cells] for cells in (names, values))
    mark = form if len(form) == 1 else ","
    path = tmp_path / "ds.csv"
    path.write_text(f"{mark.join(names)}\n{mark.join(values)}\n")
    end_ns = 10_002_000_000 if has_mono else 1_782_900_010_002_000_000
    assert rows(androstep.open(path), "op", "sector", "nr_sectors", "dev", "issue_ns", "complete_ns") == [
        ("write", 2048, 8, 0 if "device" in left_out else 259 << 20, end_ns - 2_000_000, end_ns)
    ]


def test_io_tracer_without_a_header(tmp_path: Path) -> None:
    text = (
        "2024-01-15 10:30:45.123456,12,app,2048,write,8192,1.5,13,16,0,1\n"
        "2024-01-15 10:30:46,12,app,0,flush,0,2,13,0,2,1\n"
    )
    assert rows(made(tmp_path, text, "ds.csv"), "op", "sector", "complete_ns") == [
        ("write", 2048, 1_705_314_645_123_456_000),
        ("flush", None, 1_705_314_646_000_000_000),
    ]


MSR = ("Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime")
MSR_ROW = ("128166372003061629", "hm", "0", "Write", "7014912", "4096", "26")
SPELLINGS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "the same": (str, str),
    "capitals": (str.upper, str),
    "quoted": ('"{}"'.format, '"{}"'.format),
    "spaces": (" {}".format, " {}".format),
    "separate words": (lambda name: re.sub("(?!^)([A-Z])", r"_\1", name), str),
    "decimals": (str.lower, lambda value: re.sub(r"^(\d+)$", r"\1.0", value)),
}
"""How other programs write a header and a value."""


@pytest.mark.parametrize(
    ("mark", "order", "spelling"),
    list(zip(",;\t|,;", ["6543210", "3160254", "0123456"] * 2, SPELLINGS, strict=True)),
)
def test_a_header_in_other_orders_and_spellings(mark: str, order: str, spelling: str, tmp_path: Path) -> None:
    """The header decides on the columns: their order, separator, quotation marks and spelling change nothing."""
    name, value = SPELLINGS[spelling]
    places = [int(place) for place in order]
    plain = made(tmp_path, f"{','.join(MSR)}\n{','.join(MSR_ROW)}\n", "plain.csv").requests.collect()
    header, row = mark.join(name(MSR[at]) for at in places), mark.join(value(MSR_ROW[at]) for at in places)
    assert made(tmp_path, f"{header}\n{row}\n", "other.csv").requests.collect().equals(plain)
    assert plain.height == 1


ZONES = {"": 0, "Z": 0, "+00:00": 0, "+0200": 120, "-05:30": -330, " +01": 60}
"""Minutes that the time is ahead of UTC."""


@pytest.mark.filterwarnings("ignore:.*earlier than the previous one")
@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y/%m/%d %H:%M:%S"])
def test_dates(form: str, tmp_path: Path) -> None:
    """Compare with Python's calendar."""
    years = (1970, 1999, 2000, 2024, 2100, 2199)
    times = [datetime(year, month, day, 5, 4, 5) for year in years for month in range(1, 13) for day in (2, 28)]
    path = tmp_path / "own.csv"
    lines = [f"{time.strftime(form)}{zone},R,0,4096\n" for time in times for zone in ZONES]
    path.write_text("".join(lines))
    found = rows(androstep.open(path, csv_columns="time:ms,op,offset:B,size:B"), "queue_ns")
    ahead = [timedelta(minutes=minutes) for minutes in ZONES.values()]
    expected = [
        (time - zone - datetime(1970, 1, 1)) // timedelta(seconds=1) * 10**9 for time in times for zone in ahead
    ]
    assert [queue_ns for (queue_ns,) in found] == sorted(expected)


NO_DATES = ("2024-13-01 00:00:00", "2024-01-01 24:00:00", "2024-01-01", "1:2:3", "1:30:00 PM", "::")


def test_no_dates(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("".join(f"{text},R,0,4096\n" for text in ("2024-01-01 00:00:00", *NO_DATES)))
    with pytest.warns(androstep.LossWarning, match=f"{len(NO_DATES)} lines cannot be read"):
        capture = androstep.open(path, csv_columns="time:s,op,offset:B,size:B")
    assert len(rows(capture, "queue_ns")) == 1


@pytest.mark.parametrize("header", ["", "time,op,offset,size\n", "# a comment\n", "# time\nµs;op;offset;size\n"])
@pytest.mark.parametrize("first", ["-1,R,0,4096", "1,rd,0,4096", "1,R,0x10,4096", "1,R,4K,4096", '"1",R,"1,024",4096'])
def test_a_first_row_that_cannot_be_read_is_no_header(first: str, header: str, tmp_path: Path) -> None:
    """Names of columns contain no number in a cell of its own. A comment is neither a header nor a row."""
    path = tmp_path / "own.csv"
    path.write_text(f"{header}{first}\n2,R,0,4096\n# end\n")
    with pytest.warns(androstep.LossWarning, match="1 line cannot be read"):
        capture = androstep.open(path, csv_columns="time:us,op,offset:B,size:B")
    assert rows(capture, "queue_ns") == [(2000,)]


@pytest.mark.filterwarnings("ignore:.*durations are negative")
def test_durations_that_are_none(tmp_path: Path) -> None:
    """A negative or empty duration leaves the other time alone, and no duration is ever negative."""
    path = tmp_path / "own.csv"
    path.write_text("1000,R,0,4096,-5\n2000,R,8192,4096,\n3000,R,4096,4096,0\n4000,R,4096,4096,-0.0\n5000,flush,0,0,\n")
    for start in ("time", "done"):
        capture = androstep.open(path, csv_columns=f"{start}:us,op,offset:B,size:B,response:us")
        known, other = ("start", "complete_ns")[:: 1 if start == "time" else -1]
        times = capture.requests.with_columns(start=pl.coalesce("queue_ns", "issue_ns"))
        assert sorted(times.select(known, other).collect().rows()) == [
            (1_000_000, None), (2_000_000, None), (3_000_000, 3_000_000), (4_000_000, 4_000_000), (5_000_000, None)
        ]  # fmt: skip
        assert measures.counted(capture.requests).collect().height == 5
        assert [(loss["kind"], loss["count"]) for loss in capture.about["losses"]] == [("negative", 1)]


@pytest.mark.parametrize(("first", "other"), [("sda", "sdb"), ("8:0", "8:16"), ("0", "1")])
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_a_row_without_a_device_is_of_no_other_one(first: str, other: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"1,R,{first},0,4096\n2,R,,4096,4096\n3,R,{other},0,4096\n")
    capture = androstep.open(path, csv_columns="time:s,op,dev,offset:B,size:B")
    assert len({dev for (dev,) in rows(capture, "dev")}) == 3
    assert [loss["count"] for loss in capture.about["losses"] if loss["kind"] == "deviceless"] == [1]


def test_rows_with_three_events_at_the_end_of_a_table(tmp_path: Path) -> None:
    """A table of 65,536 rows has no room for the third event of a request if two rows are left."""
    path = tmp_path / "own.csv"
    row = "{0}.5,R,0:1,{1},512,{2},{3}\n"
    path.write_text("".join(row.format(n, n * 512, 100 if n % 2 else "", 5) for n in range(60_000)))
    capture = androstep.open(path, csv_columns="time:s,op,dev,offset:B,size:B,response:us,wait:us")
    requests = capture.requests.select("sector", "queue_ns", "issue_ns", "complete_ns").collect()
    assert requests["sector"].to_list() == list(range(60_000))
    assert (requests["issue_ns"] - requests["queue_ns"]).unique().to_list() == [5_000]
    assert requests["complete_ns"].null_count() == 30_000


@pytest.mark.parametrize(
    ("columns", "row", "times"),
    [
        ("done:ms,response:us,op,dev,offset:B,size:B", "5,1000,R,sdb,4096,512", (4_000_000, None, 5_000_000)),
        ("done:ms,op,dev,offset:B,size:B", "5,R,sdb,4096,512", (None, None, 5_000_000)),
        ("time:ms,done:ms,op,dev,offset:B,size:B", "4,5,R,dm-0,4096,512", (4_000_000, None, 5_000_000)),
        ("time:ms,response:us,op,dev,offset:B,size:B", "4,1000,R,8:0,4096,512", (4_000_000, None, 5_000_000)),
        ("time:ms,op,dev,offset:B,size:B", "4,R,loop7,4096,512", (4_000_000, None, None)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*names of disks")
def test_a_table_may_tell_completions_and_disks(
    columns: str, row: str, times: tuple[int | None, ...], tmp_path: Path
) -> None:
    path = tmp_path / "own.csv"
    path.write_text(row + ",a process\n")
    capture = androstep.open(path, csv_columns=columns + ",comm")
    assert rows(capture, "queue_ns", "issue_ns", "complete_ns") == [times]
    assert rows(capture, "submit_comm") == [("a process",)]
    assert rows(capture, "dev") == [((8 << 20) if "8:0" in row else 0,)]


# -- other events ------------------------------------------------------------------------------------------------------


def test_pages_of_a_buffer_that_ran_over() -> None:
    capture = opened("T32_own")
    assert (sum(capture.about["events"].values()), capture.about["lost_events"]) == (480, 2)


def test_f2fs_of_linux_6_17() -> None:
    capture = opened("T21_f2fs_precache.txt")
    found = capture.fs_events.filter(pl.col("event") == "f2fs_submit_folio_bio").select("ino", "file_block", "block")
    assert found.collect().rows() == [(1, 5, 0x5553)]
    assert capture.about["losses"] == []


def test_mmc_commands_before_linux_4_15() -> None:
    commands = opened("T07_mmc.txt").commands.select("step", "ts_ns", "opcode", "nr_bytes").collect().rows()
    assert commands == [("send", 474_223_072_000, 25, 4096), ("complete", 474_492_701_000, 25, 4096)]
