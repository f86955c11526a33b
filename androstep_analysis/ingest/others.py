"""Recognise files that are often found next to recordings but cannot be read, and suggest what to open instead."""

from __future__ import annotations

import functools
import re

from androstep_analysis.ingest import record
from androstep_analysis.ingest.block.blkparse import DEFAULT_OUTPUT
from androstep_analysis.ingest.ftrace import text

_IMAGE = re.compile(rb"(?s).{510}\x55\xaa|.{1024}\x10\x20\xf5\xf2|.{1080}\x53\xef")
"""The signatures of FAT, exFAT and whole disks, of F2FS, and of ext4 (`androstep_analysis.fs`)."""

_SUMS = "it has sums and no requests; record each request with biosnoop, or with androstep record"
_CALLS = "which is not read; record the calls with strace -f -ttt -T -y"

_FORMATTED_TEXT = (
    f"columns as blkparse prints them with option -f: nothing states what each number is; {DEFAULT_OUTPUT}; if each "
    "line is a request, name the columns with --csv-columns"
)

_LINES: tuple[tuple[str, str], ...] = (
    (r"Total DISK READ *:", f"output of iotop: {_SUMS}"),
    (
        r"(?:\d\d:\d\d:\d\d +)? *\d+ +(?:be|rt|idle|\?\w+)(?:/\d)? +\S+ +[\d.,]+ [BKMG]/s +[\d.,]+ [BKMG]/s ",
        f"output of iotop: {_SUMS}",
    ),
    (r" *PID +COMM +D +MAJ +MIN +DISK ", f"output of biotop: {_SUMS}"),
    (r" *(?:PID|TID) +COMM +READS +WRITES +R_Kb ", f"output of filetop: {_SUMS}"),
    (r"(?:.{0,40} )?Device:? +(?:.{0,80} )?(?:tps|r/s) ", f"output of iostat: {_SUMS}"),
    (r".* kB_rd/s +kB_wr/s ", f"output of pidstat: {_SUMS}"),
    (r"\d\d:\d\d:\d\d(?: [AP]M)? +DEV +tps ", f"output of sar: {_SUMS}"),
    (r" *r +b +swpd +free +buff ", f"output of vmstat: {_SUMS}"),
    (r'"?(?:pcp-)?[Dd]stat [\d.]+ CSV', f"output of dstat: {_SUMS}"),
    (r"=+ All Devices =+", f"output of btt: {_SUMS}"),
    (r" *\d+ +\d+ [a-z]\S*(?: \d+){11,}$", f"/proc/diskstats: {_SUMS}"),
    (r"Latency: \d+ms \[512B Data Write\]", f"output of dumpsys diskstats: {_SUMS}"),
    (r"\d{10},\d{10}$", f"output of dumpsys storaged: {_SUMS}"),
    (r"% time +seconds +usecs/call +calls ", f"sums of strace -c, {_CALLS}"),
    (r"\d+ \d\d:\d\d:\d\d\.\d{9} \d+ \S+ \(\d+\) [<>] ", f"output of sysdig, {_CALLS}"),
    (r"\d+ \d+ \(.*\) (?:access|iotime) ", f"output of iotime.stp, {_CALLS}"),
    (r"(?:\d\d:\d\d:\d\d\S* )?\S+\(\d+\): [RWCODMX+<>]+ +/", f"output of fatrace, {_CALLS}"),
    (r" *(?:TIME\S* +)?PID +COMM +FD +ERR +PATH", f"output of opensnoop, {_CALLS}"),
    (r"COMM +PID +LATms +FD +RVAL +FILE", f"output of fsyncsnoop, {_CALLS}"),
    (r"TIME\(s\) +(?:COMM|CALL) +(?:PID +)?(?:CALL|COMM|EVENT)", f"output of syncsnoop, {_CALLS}"),
    (r'"Time of Day","Process Name","PID",', f"a table of Process Monitor for Windows, {_CALLS}"),
    (
        r" *\d+\.\d{3} (?:\([^)\n]*\): )?\S[^(\n]*/\d+ +\S+\(",
        "output of perf trace without system calls; record with perf record and open the output of perf script",
    ),
    (
        r".{1,40}-\d+ +(?:\([ \d-]*\) +)?\[\d{3,}\] +(?:\S{4,7} +)?\d+: \w+:",
        "ftrace text with a clock that does not count seconds; record again after echo mono > trace_clock",
    ),
    (
        r"# tracer: function_graph|.{0,80}\| +/\* block_\w+: ",
        "output of the tracer function_graph; record again after echo nop > current_tracer",
    ),
    (
        r"(?:.*\s)?[QGIDC]\s+(?:\d+\+\d+$|[RWDFN][A-Z]*\s+\d+ \+ \d+)",
        f"events of blktrace in another format; {DEFAULT_OUTPUT}",
    ),
    (r"Input file .{1,200} added$", _FORMATTED_TEXT),
    (
        r"\d+, -?\d+, [012], \d+(?:, \w+)*$",
        "a log of latencies or rates of fio, without files; record the I/O with its option write_iolog",
    ),
    (
        r"\[\d\d:\d\d:\d\d\.\d{9}\] \(\+[\d?.]+\) \S+ \w+: \{ ",
        "events of LTTng as text, which is not read; record with trace-cmd, perf or androstep record",
    ),
    (
        r"(?:.*\] )?\S.{0,15}\(\d+\): (?:READ|WRITE) block \d+ on ",
        "messages of the kernel's block_dump, which have no latencies; record each request with biosnoop, or with"
        " androstep record",
    ),
    (
        r"(?:.*\s)?mmc\d+: (?:starting CMD\d+ arg |req done \(CMD\d+\): )",
        "debug messages of the kernel's MMC driver, which are not read; record its events, with androstep record",
    ),
    (r"=+\[ partition info\(", f"status of F2FS: {_SUMS}"),
    (
        r"Attach(?:ing|ed) \d+ probes?",
        "output of a program of bpftrace; open a list of biosnoop, or a table with --csv-columns",
    ),
)
"""A pattern for a line of the output of other tools, and what the file is."""

_TOKEN = r"(?=(?:.*[\s,;|:])?(?:{})(?:[\s,;|:]|$))"
_FORMATTED = re.compile(
    "".join(
        map(
            _TOKEN.format,
            (
                r"\d+[.:, ]?\d{9}|[QGIDCMFAXUPBST][\s,;|:]+[RWDFN][FWASM]{0,3}",  # time, or action and operation
                r"[QGIDCMFAXUPBST]|UT|R|W|[RWDFN][FWASM]{1,3}",
                r"\d{3,}",
            ),
        )
    ).encode()
)
"""The columns of an event in any order: seconds with nanoseconds, an action or operation, and a sector or length."""

_SOME = 50
"""The number of lines at the beginning that are examined."""

_UNPACK = "which is not read; unpack it, or compress it with gzip, xz, zstd or zip"

_KINDS = (
    (re.compile(rb"\ABZh[1-9]1AY&SY"), f"compressed with bzip2, {_UNPACK}"),
    (re.compile(rb"\A(?:\x04\x22\x4d\x18|\x02\x21\x4c\x18)"), f"compressed with lz4, {_UNPACK}"),
    (re.compile(rb"\A7z\xbc\xaf\x27\x1c"), f"a 7z archive, {_UNPACK}"),
    (re.compile(rb"\Aversion https://git-lfs"), "a pointer of Git LFS to the file; get the file itself (git lfs pull)"),
    (re.compile(rb"\ARar!\x1a\x07"), f"a RAR archive, {_UNPACK}"),
    (
        re.compile(rb"(?m)\A(?:[^\n]*\n){0,20}?(?:READS|WRITES) :\r?\n_+\r?\n"),
        "a report of ioblame: it has sums and no events; open the trace that it was made from",
    ),
    (
        re.compile(rb"\A(?:#[^\n]*\n|\s)*packet\s*:?\s*\{"),
        "a Perfetto trace as text; open the binary one (protoc --encode=perfetto.protos.Trace makes it)",
    ),
    (re.compile(rb"\APERFILE2"), "a recording of perf; open the output of perf script, or record with trace-cmd"),
    (re.compile(rb"\A\s*[\[{]\s*[\"\[{\]}]"), "JSON, which is not a format of block I/O traces; open the trace itself"),
    (_IMAGE, "an image of a filesystem; pass it with --image-before or --image-after and a trace, or to lookup"),
    (
        re.compile(rb"\A" + re.escape(record.MAGIC)),
        "records of extmap, iotrace or iobench; pass a listing with --listing-before or --listing-after and a trace",
    ),
)


def document(head: bytes) -> str | None:
    """Return a description of a document with text that a word processor has marked up, and advice; None for others."""
    is_one = head.startswith(b"{\\rtf")
    return "a document of a word processor (RTF); save the text in it as plain text" if is_one else None


def kind(head: bytes) -> str | None:
    """Return a description of a file that begins with `head`, and advice; None if it is unknown."""
    if text.is_latency_format(head):
        return (
            "ftrace text in latency format, which truncates the names of threads; use trace-cmd report without -l, or "
            "record again after echo nolatency-format > trace_options"
        )
    kind = next((what for pattern, what in _KINDS if pattern.match(head)), None)
    kind = kind or next((what for pattern, what in _compiled() if pattern.search(head)), None)
    return kind or (_FORMATTED_TEXT if _is_formatted(head) else None)


def _is_formatted(head: bytes) -> bool:
    """Return whether the lines are events of blkparse in a form of the user, without names of columns."""
    lines = [line for line in head.splitlines()[:_SOME] if line.strip()]
    matches = [_FORMATTED.match(line) is not None for line in lines]
    return matches[:1] == [True] and 2 * sum(matches) > len(matches)


@functools.cache
def _compiled() -> list[tuple[re.Pattern[bytes], str]]:
    return [(re.compile(rb"(?m)^(?:" + line.replace("$", r"\r?$").encode() + rb")"), what) for line, what in _LINES]
