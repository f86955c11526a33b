"""A file that is not a recording is described in a sentence with the format that comes closest."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from androstep_analysis import capture, ingest
from androstep_analysis.common.errors import InputError, LossWarning

FILES = {
    "only comments": (b"# a\n#\n\n", "there are only comments and empty lines at its beginning"),
    "binary": (b"\x01\x02ELVES\x00", "it is binary, and starts with b'"),
    "events of another kind": (
        b" app-1 [000] 1.5: sched_wakeup: comm=a\n app-1 [000] 1.6: sched_wakeup: comm=b\n",
        "2 of its first 2 lines look like ftrace text, but none is a known event",
    ),
    "a table": (
        b"who;what;when\nme;this;now\n",
        "its 3 columns match no known table, and the first line is 'who;what;",
    ),
    "a log": (b"12:01 started\n12:02 ended\n", "it is text without events; it starts with '12:01 started'"),
    "escapes": (b"\x1b[31mred\nred\n", "it is text without events; it starts with '\\x1b[31mred'"),
}


TOOLS = {
    "Total DISK READ :       0.00 B/s | Total DISK WRITE :       0.00 B/s": "output of iotop",
    "10:00:01  1234 be/4 app         0.00 B/s   11.79 K/s  0.00 %  0.00 % java -jar x.jar": "output of iotop",
    "  500 be/3 root        0,00 B/s    3,93 K/s [jbd2/sda1-8]": "output of iotop",
    "COMM             PID     LATms   FD RVAL FILE": "output of fsyncsnoop",
    "TIME(s)            COMM             CALL": "output of syncsnoop",
    "[   12.345678] mmc0: starting CMD18 arg 00012000 flags 000000b5": "debug messages of the kernel's MMC driver",
    "=====[ partition info(dm-5). #0, RW]=====": "status of F2FS",
    "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms": "output of biotop",
    "TID    COMM             READS  WRITES R_Kb    W_Kb    T FILE": "output of filetop",
    "Device            r/s     w/s     rkB/s     wkB/s": "output of iostat",
    "Device:            tps    kB_read/s    kB_wrtn/s": "output of iostat",
    "10:00:01      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command": "output of pidstat",
    "12:00:01 AM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util": (
        "output of sar"
    ),
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st": "output of vmstat",
    '"pcp-dstat 5.3 CSV Output"': "output of dstat",
    "[12:00:00.000001000] (+?.?????????) host block_rq_issue: { cpu_id = 1 }, { dev = 8388608, sector = 64 }": (
        "events of LTTng as text"
    ),
    "[  123.456789] dd(1200): WRITE block 64 on sda1 (8 sectors)": "messages of the kernel's block_dump",
    "==================== All Devices ====================": "output of btt",
    " 259       0 nvme0n1 1000 0 8000 500 2000 0 16000 800 0 900 1300": "/proc/diskstats",
    "   8       3 sda3 1000 0 8000 500 2000 0 16000 800 0 900 1300 0 0 0 0 0 0": "/proc/diskstats",
    "Latency: 1ms [512B Data Write]": "output of dumpsys diskstats",
    "1567214981,1567215005": "output of dumpsys storaged",
    "% time     seconds  usecs/call     calls    errors syscall": "sums of strace -c",
    "1 20:40:43.973123456 0 cat (1234) < read res=4096": "output of sysdig",
    "825946 3364 (NetworkManager) access /etc/x read: 8190 write: 0": "output of iotime.stp",
    "10:00:00.123456 bash(1234): RO /etc/passwd": "output of fatrace",
    "PID    COMM               FD ERR PATH": "output of opensnoop",
    '     0.000 :0/0 block:block_rq_issue(dev: 8388608, sector: 8, rwbs: "WS", comm: "a")': "output of perf trace",
    "      dd-7     [000] d..1.     12345: block_rq_issue: 8,16 WS 4096 () 8 + 8 [dd]": "ftrace text with a clock",
    " 0)   fio-31     |               |  /* block_rq_issue: 8,0 WS 4096 () 8 + 8 [fio] */": (
        "output of the tracer function_graph"
    ),
    "8,0 Q WS 2048 + 8 0.000000001": "events of blktrace in another format",
    "108.544112927 I 15926+8": "events of blktrace in another format",
    "1, 123456, 0, 4096, 0, 0": "a log of latencies or rates of fio",
    "Attaching 1 probe...": "output of a program of bpftrace",
}
"""A line of the output of each tool that is not read, and how the message begins."""


@pytest.mark.parametrize("line", TOOLS)
def test_output_of_other_tools(line: str, tmp_path: Path) -> None:
    for text in (f"{line}\n", f"Linux 6.1.0 (host)\r\n\r\n{line}\r\n"):
        (tmp_path / "file").write_bytes(text.encode())
        with pytest.raises(InputError) as failed:
            ingest.read(tmp_path / "file")
        assert f"file: {TOOLS[line]}" in str(failed.value)
        assert re.search("record|open", str(failed.value)), "what to do instead"


@pytest.mark.parametrize(
    ("tracer", "line", "found"),
    [
        ("function_graph", " 0)    fio-31    |   0.512 us    |  blk_attempt_plug_merge();", "output of the tracer"),
        ("nop", "      dd-7     [000] d..1.     12345: block_rq_issue: 8,16 WS 4096 () 8 + 8 [dd]", "ftrace text with"),
    ],
)
def test_traces_whose_lines_are_not_read_are_named(tracer: str, line: str, found: str, tmp_path: Path) -> None:
    """The header alone is one of ftrace text."""
    (tmp_path / "file").write_text(f"# tracer: {tracer}\n#\n{line}\n")
    with pytest.raises(InputError, match=f"file: {found}.*; record again after echo "):
        ingest.read(tmp_path / "file")


EVENT = {
    **{"%D": "8,0", "%c": "1", "%s": "31", "%T.%t": "0.007787762", "%T %t": "0 007787762", "%T%t": "0007787762"},
    **{"%p": "14", "%a": "C", "%d": "WS", "%S": "24802960", "%n": "40", "%N": "20480", "%C": "ksoftirqd/1"},
}
"""The fields of blkparse's option -f, as it prints a completion."""


@pytest.mark.parametrize(
    "form",
    [
        *("%T.%t %d %S %N", "%T.%t, %p, %C, %a, %S, %n, %N", "%D %a %d %S %n %C"),
        *("%a %d %T.%t %S %n", "%T.%t %a %S %n"),
        *("%D,%c,%s,%T.%t,%p,%a,%d,%S,%n,%C", "%c,%S,%N,%d,%T.%t", "%T.%t\t%p\t%a\t%d\t%S\t%n", "%T %t %d %S %n"),
        *("%T%t;%a;%d;%S;%n;%C", "%d %S %n %T.%t", "%C %T.%t %p %d %N", "%D %c %s %T.%t %p %a %d %S %n %C"),
        *("%D %c %s %T.%t %p %a %d %S %n", "%D %c %s %T.%t %p %a %d %N"),
    ],
)
@pytest.mark.parametrize("begin", ["", "Input file sda.blktrace.0 added\n"])
def test_output_of_blkparse_in_a_form_of_the_user_has_no_requests(form: str, begin: str, tmp_path: Path) -> None:
    """Nothing states which column is a length, and of what, so that none is guessed."""
    line = form
    for field in sorted(EVENT, key=len, reverse=True):
        line = line.replace(field, EVENT[field])
    (tmp_path / "file").write_text(begin + f"{line}\n" * 20)
    with pytest.raises((InputError, LossWarning), match="or the output of blkparse -i DEVICE without -f"):
        ingest.read(tmp_path / "file")


def test_a_table_with_names_of_columns_is_no_output_of_blkparse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("time_s,op,offset_b,size_b\n0.007787762,W,4096,8192\n")
    with pytest.raises(InputError, match="by their names time:s,op,offset:B,size:B"):
        ingest.read(tmp_path / "file")


def test_commas_that_are_also_decimal_points_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("time,op,offset,size,latency\n0,000123,R,4096,8192,0,35\n0,5,R,4096,8192,0,3\n")
    with pytest.raises(InputError, match="first line has 5 columns and the others have more, as if commas were also"):
        ingest.read(tmp_path / "file")


def test_output_of_other_tools_with_numbers_of_lines(tmp_path: Path) -> None:
    lines = [
        "% time     seconds  usecs/call     calls    errors syscall",
        " 22,02    0,528825           3    158904  write",
    ]
    (tmp_path / "file").write_text("".join(f"{n} {line}\n" for n, line in enumerate(lines, 832295)))
    with pytest.raises(InputError, match="file: sums of strace -c"):
        ingest.read(tmp_path / "file")


@pytest.mark.parametrize("name", FILES)
def test_what_is_found_is_said(name: str, tmp_path: Path) -> None:
    content, said = FILES[name]
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError) as failed:
        capture.open(tmp_path / "file")
    assert f"file: no known recording; {said}" in str(failed.value)
    assert "\x1b" not in str(failed.value)


@pytest.mark.parametrize(
    ("magic", "said"),
    [(b"", "no known recording; "), (b"\x53\xef", "an image of a filesystem; pass it with --image-before")],
)
def test_the_begin_of_a_large_file_suffices(magic: bytes, said: str, tmp_path: Path) -> None:
    """Reading a terabyte for its digest would exceed the limit of a test."""
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1080)
        file.write(magic)
    with pytest.raises(InputError, match=f"file: {said}"):
        capture.open(tmp_path / "file")


HEADERS = {
    "time_us,op,sector,nr_sectors,latency_us": "time:us,op,offset:sectors,size:sectors,response:us",
    "Timestamp;Host;Type;Offset;Size;ResponseTime": "';time:s,-,op,offset:B,size:B,response:s'",
    "time\trw\toffset\tsize": r"$'\ttime:s,op,offset:B,size:B'",
    "time (ms),rw,lba,length (bytes),lat (µs)": "time:ms,op,offset:sectors,size:B,response:us",
    "ts [ns],device,operation,offset in kb,size_kb": "time:ns,dev,op,offset:1024,size:1024",
    "start_time,end_time,type,address,len,latency_ms": "time:s,done:s,op,offset:B,size:B,response:ms",
    "timestamp|type|offset|size": "'|time:s,op,offset:B,size:B'",
    "TIME(s),COMM,PID,DISK,T,SECTOR,BYTES,LAT(ms)": ("time:s,comm,pid,dev,op,offset:sectors,size:B,response:ms"),
    "Zeit (ms);Operation;Sektor;Größe (B);Gerät;Latenz (µs)": "';time:ms,op,offset:sectors,size:B,dev,response:us'",
    "time_s,op,lba(4096),size_bytes": "time:s,op,offset:4096,size:B",
    "Time[s],IOType,Start Sector,Num Sectors,PID,Process": "time:s,op,offset:sectors,size:sectors,pid,comm",
}


@pytest.mark.parametrize("header", HEADERS)
def test_names_of_columns_suggest_their_meaning(header: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    (separator,) = (mark for mark in ",;\t|" if mark in header)
    values = {"op": "R", "type": "W", "operation": "W", "iotype": "R", "rw": "R", "device": "8:0", "process": "app"}
    values |= {"gerät": "8:0", "t": "R", "disk": "8:0", "comm": "app"}
    row = separator.join(values.get(name.lower(), "4096") for name in header.split(separator))
    path.write_text(f"{header}\n{row}\n", "utf-8")
    with pytest.raises(InputError, match="by their names ") as refused:
        ingest.read(path)
    assert f"with --csv-columns, by their names {HEADERS[header]} (" in str(refused.value)
    assert "check the units)" in str(refused.value)
    words = subprocess.run(["bash", "-c", f"printf %s {HEADERS[header]}"], capture_output=True, text=True, check=True)
    staging = ingest.read(path, csv_columns=words.stdout)
    assert staging.block.select("sector").drop_nulls().collect().height


def test_a_unit_that_no_name_states_is_called_a_guess(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for header, guessed in (("time,op,offset_b,size", "time, size"), ("Zeit (s),op,sektor,len_bytes,dauer", "dauer")):
        path.write_text(f"{header}\n", "utf-8")
        with pytest.raises(InputError, match=rf"\(no name states the unit of {guessed}, which is a guess; check"):
            ingest.read(path)
    path.write_text("time_s,op,offset_bytes,size_bytes\n")
    with pytest.raises(InputError, match=r"size:B \(check the units\)"):
        ingest.read(path)


@pytest.mark.parametrize("number", ["4.096,5", "4,096", "1e3", "0x10", "8K", "nan", "inf", "--1", "4 096"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_number_in_another_form_is_refused_and_not_misread(number: str, separator: str, tmp_path: Path) -> None:
    """A size with thousands' separators, fractions, exponent, base or unit is no size."""
    path = tmp_path / "table.csv"
    path.write_text(separator.join(("0,5", "R", "0", number)) + "\n")
    columns = f"{separator}time:s,op,offset:B,size:B"
    with pytest.raises(InputError, match="check the columns and the form of their numbers"):
        ingest.read(path, csv_columns=columns)


@pytest.mark.parametrize(
    "header",
    ["time,op,offset,size,size", "time,rw,lba", "op,offset,size,pid", "a,b,c,d", "time,op,offset,size" + ",x" * 9000],
    ids=["two sizes", "no size", "no time", "nothing", "too many"],
)
def test_names_of_columns_that_are_not_enough(header: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(f"{header}\n", "utf-8")
    with pytest.raises(InputError, match="for example time:s,op,offset:B,size:B"):
        ingest.read(tmp_path / "table.csv")
