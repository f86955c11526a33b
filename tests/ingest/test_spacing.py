"""Texts as people copy and store them, with colours, markup, other spaces and marks, are read like the original."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import readers

from androstep_analysis.common.errors import InputError

FTRACE = b"""# tracer: nop
#
# entries-in-buffer/entries-written: 3/4   #P:4
          <idle>-0       [001] d..1.     5.000104: block_rq_complete: 259,0 WS () 64 + 8 [0]
    kworker/u8:1-77      [001] d..1.     5.000108: block_rq_issue: 259,0 R 4096 () 128 + 8 [kworker/u8:1]
    kworker/u8:1-77      [001] .....     5.000109: ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 1
"""
BLKPARSE = b"""  8,0    1        1     0.000000000  1534  Q   W 64 + 8 [dd]
  8,0    1        2     0.000003000  1534  D   W 64 + 8 [dd]
"""
STRACE = b"""1534  1700000000.000001 write(3, "a", 1) = 1 <0.000012>
1534  1700000000.000101 fsync(3) = 0 <0.000512>
"""
BIOSNOOP = b"""TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)
0.000000    dd             1200    sda       R 2048       131072     0.75
0.000500    dd             1200    sda       W 4096       4096       0.75
"""
TEXTS = {"ftrace": FTRACE, "blkparse": BLKPARSE, "strace": STRACE, "biosnoop": BIOSNOOP}

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "tabs": lambda text: re.sub(b" +", b"\t", text),
    "tabs for several spaces": lambda text: re.sub(b"  +", b"\t", text),
    "no-break spaces": lambda text: text.replace(b" ", b"\xc2\xa0"),
    "every second one": lambda text: text.replace(b"  ", b" \xc2\xa0"),
    "a tab at the end": lambda text: text.replace(b"\n", b"\t\n"),
    "a quotation": lambda text: re.sub(b"(?m)^", b"> ", text).removesuffix(b"> "),
    "a quotation of a quotation": lambda text: re.sub(b"(?m)^", b">> ", text).removesuffix(b">> "),
    "indentation": lambda text: re.sub(b"(?m)^", b"\t", text).removesuffix(b"\t"),
    "narrow no-break spaces": lambda text: text.replace(b" ", "\u202f".encode()),
    "zero-width spaces": lambda text: of_lines(text, "\u200b{}"),
    "colours of grep": lambda text: text.replace(b"00", b"\x1b[01;31m\x1b[K00\x1b[m\x1b[K"),
    "colours of lines": lambda text: of_lines(text, "\x1b[32m{}\x1b[0m"),
    "carriage returns": lambda text: text.replace(b"\n", b"\r"),
    "two carriage returns": lambda text: text.replace(b"\n", b"\r\r\n"),
    "other ends of lines in turn": lambda text: re.sub(b"(.*\n.*)\n", b"\\1\r\n", text),
    "a mark before each line": lambda text: of_lines(text, "\ufeff{}"),
    "entities": lambda text: html.escape(text.decode()).encode(),
    "a page": lambda text: f"<html><body>\n<pre>{html.escape(text.decode())}</pre></body></html>\n".encode(),
    "a page of code": lambda text: f"<!DOCTYPE html><pre><code>{html.escape(text.decode())}</code></pre>\n".encode(),
    "a page of lines": lambda text: of_lines(html.escape(text.decode(), quote=False).encode(), "<p>{}</p>"),
    "bars": lambda text: of_lines(text, "| {}"),
    "a table": lambda text: of_lines(text, "| {} |"),
}
LINES = {
    "quotation marks": '"{}"',
    "a list of texts": '"{}",',
    "single quotation marks": "'{}'",
    "dmesg": "[   12.345678] {}",
    "dmesg -T": "[Mon Nov 30 09:00:00 2026] {}",
    "logcat": "11-30 09:00:00.123  1234  1240 I tracer  : {}",
    "logcat -v brief": "I/tracer  ( 1234): {}",
    "logcat -v time": "11-30 09:00:00.123 I/tracer  ( 1234): {}",
    "syslog": "Nov 30 09:00:00 host tracer[77]: {}",
    "journalctl": "2026-11-30T09:00:00+0100 host tracer: {}",
    "ts": "Nov 30 09:00:00 {}",
    "grep -n": "{n}:{}",
    "grep -n -A": "{n}-{}",
    "grep -n of several files": "log.txt:{n}:{}",
    "nl": "{n:6d}\t{}",
    "an editor": "{n:4d}  {}",
    "a list": "* {}",
    "a difference": "+{}",
}
"""What begins or encloses the lines."""


def of_lines(text: bytes, form: str) -> bytes:
    lines = text.decode().splitlines()
    return "".join(form.format(line, n=n) + "\n" for n, line in enumerate(lines, 1)).encode()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", TEXTS)
def test_other_spaces(tmp_path: Path, name: str, change: str) -> None:
    text = TEXTS[name]
    want, got = (readers.read_bytes(tmp_path, data) for data in (text, CHANGES[change](text)))
    assert (got.format, got.events, got.losses) == (want.format, want.events, want.losses)
    assert sum(want.events.values()) >= 2
    for table in ("block", "fs_events", "syscalls"):
        without = [name for name in ("line",) if name in getattr(want, table).columns]  # a page has more lines
        assert getattr(got, table).drop(without).equals(getattr(want, table).drop(without))


TABLES = {
    "MSR": b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,a,0,Read,512,1024,9\n",
    "MSR without a header": b"128166372003061629,a,0,Read,512,1024,9\n",
    "biosnoop without a header": BIOSNOOP.partition(b"\n")[2],
}


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("\n\r\n", ""),
        ("```\n", "```\n"),
        ("```text\n", "```\n\n"),
        ("root@host:~# cat trace\n", "root@host:~# \n"),
        ("[me@host dir]$ cat trace\n", "[me@host dir]$\n"),
        ("$ cat trace\n", "$\n"),
    ],
)
@pytest.mark.parametrize("name", [*TEXTS, *TABLES])
def test_what_stands_above_and_below_a_text(tmp_path: Path, name: str, above: str, below: str) -> None:
    """The command that printed the text, and the marks of a block of code, are no part of it."""
    text = (TEXTS | TABLES)[name]
    want, got = (readers.read_bytes(tmp_path, data) for data in (text, above.encode() + text + below.encode()))
    assert got.format == want.format and len(want.block) + len(want.syscalls) >= 1
    assert got.block.equals(want.block) and got.syscalls.drop("line").equals(want.syscalls.drop("line"))


@pytest.mark.parametrize("change", LINES)
@pytest.mark.parametrize("name", [*TEXTS, "biosnoop without a header"])
def test_what_stands_before_each_line(tmp_path: Path, name: str, change: str) -> None:
    text = (TEXTS | TABLES)[name]
    want, got = (readers.read_bytes(tmp_path, data) for data in (text, of_lines(text, LINES[change])))
    assert (got.format, got.events, got.losses) == (want.format, want.events, want.losses)
    for table in ("block", "fs_events", "syscalls"):
        without = [name for name in ("line",) if name in getattr(want, table).columns]  # a page has more lines
        assert getattr(got, table).drop(without).equals(getattr(want, table).drop(without))


@pytest.mark.parametrize(
    "table",
    [
        b"1 0 20941264 8192 W 0.5\n2 0 20939840 8192 W 0.5\n",
        b"".join(b"%d\t%d,2,%d,8,1,0\n" % (n, n, n * 64) for n in range(1, 30)),
        b"".join(b"%d: %d.5 0 %d 8 1\n" % (n, n, n * 64) for n in range(1, 30)),
    ],
)
def test_a_number_before_a_row_of_numbers_is_no_number_of_a_line(tmp_path: Path, table: bytes) -> None:
    """It may be a column, which says what the others are."""
    with pytest.raises(InputError):
        readers.read_bytes(tmp_path, table)


def test_entities_stay_if_the_text_has_such_letters(tmp_path: Path) -> None:
    text = b'1534  1700000000.000001 openat(AT_FDCWD, "/a&lt;b", O_RDONLY) = 3 <0.000012>\n' * 2
    assert set(readers.read_bytes(tmp_path, text).syscalls["path"]) == {"/a&lt;b"}


def test_a_document_of_a_word_processor_is_named(tmp_path: Path) -> None:
    text = b"{\\rtf1\\ansi\n" + FTRACE.replace(b"\n", b"\\\n") + b"}"
    with pytest.raises(InputError, match="save the text in it as plain text"):
        readers.read_bytes(tmp_path, text)


@pytest.mark.parametrize("first", [b"sep=;\r\n", b"\xef\xbb\xbfSEP=;\n"])
def test_a_line_that_names_the_separator_to_excel_is_no_header(tmp_path: Path, first: bytes) -> None:
    with pytest.raises(InputError, match="first line is 'Zeit;Op;Sektor;Bytes'"):
        readers.read_bytes(tmp_path, first + b"Zeit;Op;Sektor;Bytes\r\n0,001;W;100;4096\r\n0,002;R;200;8192\r\n")


def test_a_tab_in_a_name_stays_if_other_lines_have_spaces(tmp_path: Path) -> None:
    text = FTRACE.replace(b"kworker/u8:1-77", b"a\tb-77").replace(b"[kworker/u8:1]", b"[a\tb]")
    assert "a\tb" in readers.read_bytes(tmp_path, text).block["comm"].to_list()


@pytest.mark.parametrize("name", ["\t-\t", "* x", "12  x", '"x'])
def test_a_thread_may_be_named_like_a_mark(tmp_path: Path, name: str) -> None:
    """Lines that begin as the kernel prints them, with the name in 16 columns, have no marks before them."""
    line = f"{name:>16}-7       [000] .....     5.000104: block_rq_complete: 8,0 R () 8 + 8 [0]\n"
    assert readers.read_bytes(tmp_path, line.encode()).block["comm"].to_list() == [name]


def test_long_lines_are_read_in_parts(tmp_path: Path) -> None:
    text = re.sub(b" +", b"\t", FTRACE) + b"\t" * (3 << 20) + b"\n" + re.sub(b" +", b"\t", FTRACE)
    assert readers.read_bytes(tmp_path, text).events["block_rq_issue"] == 2


@pytest.mark.parametrize(
    "start", [b"<p", b"\x1b[1m", b" |", b"| ", b"&lt;", b"-1-", b"a:1:", b'"', b"> ", b"+", b"1: "]
)
@pytest.mark.parametrize("before", [b"", b"<html><pre>"])
def test_long_lines_of_marks_take_linear_time(tmp_path: Path, before: bytes, start: bytes) -> None:
    """A pattern that begins anew at each mark, and searches the whole line, would take minutes."""
    for text in (start * (1 << 19), start * (1 << 14) + b"\n" + BLKPARSE):
        try:
            readers.read_bytes(tmp_path, before + text + b"\n")
        except InputError:
            continue
