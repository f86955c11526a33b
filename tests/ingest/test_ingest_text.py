"""Common properties of text readers: pieces that end anywhere, lines of any length, forms, names of threads."""

from __future__ import annotations

import functools
import itertools
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import corpus, readers

import androstep_analysis as androstep
from androstep_analysis import capture, schema
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.ingest.block import blkparse, csv, most
from androstep_analysis.ingest.ftrace import commands_text, forms, fs_events_text
from androstep_analysis.ingest.ftrace import text as ftrace_text
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import TABLES, Staging

HEAD = "          dd-77      [001] d..1.     5.000001: "
EVENT = f"{HEAD}block_plug: [x]\n".encode()


def read(reader: Callable[[Source, Spool], Staging], pieces: Iterator[bytes]) -> tuple[Staging, list[pl.DataFrame]]:
    """Return the result of a reader for a text in these pieces, and its tables."""
    first = next(pieces)
    source, spool = Source.of(Path("input"), first), Spool()
    with mock.patch.object(Source, "pieces", lambda _: itertools.chain((first,), pieces)):
        staging = reader(source, spool)
    return staging, [spool.table(name).collect() for name in TABLES]


TEXTS: dict[str, tuple[Callable[[Source, Spool], Staging], str]] = {
    "ftrace": (ftrace_text.read, "androstep/ftrace_sqlite.txt"),
    "markdown": (ftrace_text.read, "ftrace_text/novelinux_ext4-jbd2-open-write-fsync_traces.md"),
    "blkparse": (blkparse.read, "blkparse_text/leveldb_ram0_blk_data.txt"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_may_end_anywhere(name: str) -> None:
    reader, path = TEXTS[name]
    data = corpus.path(path).read_bytes()[:60_000]
    whole, tables = read(reader, iter([data]))
    assert sum(whole.events.values()) > 100
    for size in (1, 7, 100, 4096, 59_999):
        # The head is one piece, since it decides whether there are code blocks.
        pieces = [data[at : at + size] for at in range(1024, len(data), size)]
        parted, parted_tables = read(reader, iter([data[:1024], *pieces]))
        for a, b in zip(tables, parted_tables, strict=True):
            assert a.equals(b)
        assert (parted.events, parted.losses, parted.first_ns) == (whole.events, whole.losses, whole.first_ns)
        assert (parted.tasks is None) == (whole.tasks is None)
        assert parted.tasks is None or (whole.tasks is not None and parted.tasks.equals(whole.tasks))


@pytest.mark.parametrize(("length", "is_event"), [(1 << 16, True), ((1 << 16) + 1, False), (100 << 20, False)])
def test_long_line(length: int, is_event: bool) -> None:
    start = f"{HEAD}x: ".encode()

    def pieces() -> Iterator[bytes]:
        yield EVENT + start
        left = length - len(start)
        while left:
            yield b"x" * min(left, 1 << 20)
            left -= min(left, 1 << 20)
        yield b"\n" + EVENT

    staging, _ = read(ftrace_text.read, pieces())
    assert staging.events == {"block_plug": 2, **({"x": 1} if is_event else {})}
    assert readers.losses(staging) == ({} if is_event else {"unreadable": 1})
    if not is_event:
        assert "“          dd-77" in staging.losses[0].message


def test_long_last_line() -> None:
    staging, _ = read(ftrace_text.read, itertools.chain([EVENT], itertools.repeat(b"y" * (1 << 20), 30)))
    assert readers.losses(staging) == {"torn": 1}
    assert staging.losses[0].message.endswith(f"dropped: “{'y' * 60}…”")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    text = b"".join(
        [
            b"\0\0\0\n",
            b"\xff\xfe-77  [001]  5.000001: block_plug: [\xc3\xa9\xc3]\r\n",
            b"  a\0b-78  [001]  5.000002: block_plug: [a\0b]\n",
            b"  \xc3\xa9-79  [001]  5.000003: \xff: x\n",
        ]
    )
    staging = readers.read_bytes(tmp_path, text)
    assert staging.events == {"\\xff": 1, "block_plug": 2}
    assert staging.block["comm"].to_list() == ["é\\xc3", "a\0b"]
    assert staging.tasks is not None
    assert staging.tasks["comm"].to_list() == ["\\xff\\xfe", "a\0b", "é"]
    assert readers.losses(staging) == {"unreadable": 1}


def test_more_names_of_events_than_any_kernel_has() -> None:
    lines = (f"  a-7  [001]  5.{number:06d}: event{number}: x\n".encode() for number in range(70_000))
    staging, _ = read(ftrace_text.read, iter([EVENT, b"".join(lines)]))
    assert sum(staging.events.values()) + readers.losses(staging)["unreadable"] == 70_001
    assert 60_000 < len(staging.events) < 1 << 16


# --- names of threads ----------------------------------------------------------------------------------------------


@pytest.mark.prove
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "<...>"]), st.sampled_from(["-----", "5", "6"])),
        min_size=1,
        max_size=30,
    )
)
def test_names_of_threads(rows: list[tuple[int, str, str]]) -> None:
    lines = [f"  {comm}-{tid} ({pid}) [000]  {at}.000000: x: y\n" for at, (tid, comm, pid) in enumerate(rows)]
    staging, _ = read(ftrace_text.read, iter(["".join(lines).encode()]))
    assert staging.tasks is not None
    expected = []
    for tid in sorted({tid for tid, _, _ in rows}):
        own = [(at, comm, None if pid == "-----" else int(pid)) for at, (t, comm, pid) in enumerate(rows) if t == tid]
        named = [row for row in own if row[1] != "<...>"]
        runs = runs_of(named) or [(0, "<...>", None)]
        for n, (at, comm, pid) in enumerate(runs):
            pids = {other for _, name, other in own if name == comm and other is not None}
            known = pids.pop() if pid is None and len(pids) == 1 else pid
            end = None
            if n + 1 < len(runs):
                last = max(when for when, *_ in named if when < runs[n + 1][0])
                end = runs[n + 1][0] * 10**9 if runs[n + 1][1] == comm else last * 10**9 + 1
            name = None if comm == "<...>" else comm
            expected.append((tid, name, known, at * 10**9 if n else None, end))
    assert staging.tasks.select("tid", "comm", "pid", "valid_from_ns", "valid_to_ns").rows() == expected


def runs_of(rows: list[tuple[int, str, int | None]]) -> list[tuple[int, str, int | None]]:
    """Return when a thread id got another name or process; the process is the first that is known until the next."""
    runs: list[tuple[int, str, int | None]] = []
    last: int | None = None
    for at, comm, pid in rows:
        if not runs or runs[-1][1] != comm or (None not in (pid, last) and pid != last):
            runs.append((at, comm, pid))
        elif runs[-1][2] is None:
            runs[-1] = (*runs[-1][:2], pid)
        last = last if pid is None else pid
    return runs


# --- forms ---------------------------------------------------------------------------------------------------------

# Each placeholder of a form, the equivalent regular expression, and texts that match. Numbers, words and optional parts
# match possessively: they never give characters back.
PLACES = {
    "{ino}": (r"(?P<ino>[0-9]++)", ["7", "007", str(2**63 - 1)]),
    "{parent}": (r"(?P<parent>[0-9]++)", ["0", "12", str(2**64)]),
    "{block:x}": (r"(?P<block_x>[0-9a-f]++)", ["0", "1f", "1g", "ffffffffffffffff"]),
    "{mode:o}": (r"(?P<mode_o>[0-7]++)", ["0", "18", "100644"]),
    "{error:s}": (r"(?P<error>-?[0-9]++)", ["-28", "0", "5"]),
    "{name:text}": (r"(?P<name>.*)", ["", "a", "x, y", '" "', "=,="]),
    "{new_name:quoted}": (r'(?:"(?P<new_name>.*)"|\(fault\))', ['"a"', '""', "(fault)", '"a" "b"', '"(fault)"']),
    "{*}": (r".*", ["", "what ever", "1,2"]),
    "{*w}": (r".*\b(?=\w)", ["", "what ever ", "1,"]),
    "{#}": (r"[0-9]++", ["1"]),
    "{w}": (r"\w++", ["a_1"]),
    "{?,}": (r",?+", ["", ","]),
    "{place}": (r"(?:\([^)]*\) *+)?+", ["", "(f+0x1/0x2) ", "(a) "]),
    "{end}": (r" *+(?:\r|\\n\\)?+\Z", ["", "  ", "\r", " \\n\\"]),
}
LITERALS = ["=", ", ", " ", "ino=", '"', "x"]


@st.composite
def lines_of_a_form(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a form, the equivalent regular expression, and a line that may match."""
    places = draw(st.lists(st.sampled_from([p for p in PLACES if p != "{end}"]), min_size=1, max_size=6, unique=True))
    places += ["{end}"] * draw(st.booleans())
    form, pattern, line = "", "^", ""
    for place in places:
        literal = draw(st.sampled_from(LITERALS))
        expression, texts = PLACES[place]
        form, pattern = form + literal + place, pattern + re.escape(literal) + expression
        line += draw(st.one_of(st.just(literal), st.sampled_from(LITERALS))) + draw(st.sampled_from(texts))
    return form, pattern, line


@pytest.mark.prove
@given(lines_of_a_form())
@example(("x{name:text}, {*}{end}", r"^x(?P<name>.*), .*" + PLACES["{end}"][0], "xa, b, c"))
@settings(max_examples=150)
def test_forms_match_as_regular_expressions_do(made: tuple[str, str, str]) -> None:
    form, pattern, line = made
    with mock.patch.dict(fs_events_text.FIELDS, {"ext4_write_begin": (form,)}):
        staging, tables = read(ftrace_text.read, iter([f"{HEAD}ext4_write_begin:{line}\n".encode()]))
    rows = tables[TABLES.index("fs_events")]
    match = re.search(pattern, line.lstrip(" "))  # spaces behind the colon do not count
    if match is None or ("ino" in match.groupdict() and int(match["ino"]) >= 2**63):
        assert rows.is_empty()
        assert readers.losses(staging) == {"unreadable": 1}
        return
    (row,) = rows.rows(named=True)
    bases = {"ino": 10, "parent": 10, "block_x": 16, "mode_o": 8, "error": 10}
    limits = {"mode_o": 2**31, "error": 2**31}
    for group, value in match.groupdict().items():
        column = group.partition("_")[0] if group.endswith(("_x", "_o")) else group
        if group in bases:
            number = int(value, bases[group])
            assert row[column] == (number if number < limits.get(group, 2**63) else None)
        else:
            assert row[column] == (value or None)


def test_a_line_against_a_form_takes_no_longer_than_its_length_times_its_places() -> None:
    # Eight names that do not end at the start of the next. Exhaustive backtracking would take years.
    line = f'{HEAD}name_moved: dev=1 ino=2 parent=3 d0="a' + '" d1="" d2="" d3="" d4="' * 2000
    staging, _ = read(ftrace_text.read, iter([line.encode() + b"\n"]))
    assert readers.losses(staging) == {"unreadable": 1}


@pytest.mark.parametrize(("first", "fits"), [(4093, True), (4094, False), (4095, False), (9000, False)])
def test_a_path_is_no_longer_than_linux_has_them(first: int, fits: bool) -> None:
    names = ["b", "a" * first, "/", "/", "/", "/", "/", "/"]
    levels = "".join(f' d{level}="{name}"' for level, name in enumerate(names))
    staging, tables = read(ftrace_text.read, iter([f"{HEAD}name_found: dev=1 ino=2 parent=3{levels}\n".encode()]))
    assert readers.losses(staging) == {}
    assert tables[TABLES.index("fs_events")]["name"].to_list() == [f"/{'a' * first}/b" if fits else None]


@pytest.mark.parametrize("table", ["fs_events", "commands"])
def test_all_forms_can_be_compiled(table: str) -> None:
    fields = {"fs_events": fs_events_text.FIELDS, "commands": commands_text.FIELDS}[table]
    for form in itertools.chain.from_iterable(fields.values()):
        assert len(forms.compiled(form, table)) <= 64
    with pytest.raises(ValueError, match="no such column"):
        forms.compiled("{nonsense}", table)


def test_columns_of_a_csv_are_kept_in_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("12,R,8:3,4096,8192,350\n90,W,7,65536,4096,120\n91,W,9999:0,65536,4096,120\n")
    words = "time:us,op,dev,offset:B,size:B,response:us"
    with pytest.warns(LossWarning, match="1 line cannot be read"):
        opened = androstep.open(path, csv_columns=words)
    with pytest.warns(LossWarning, match="1 line cannot be read"):
        made = capture.create([path], tmp_path / "made", capture.Description(csv_columns=words))
    assert made.manifest.csv_columns == words
    shutil.rmtree(tmp_path / "made" / "tables")
    with pytest.warns(LossWarning, match="1 line cannot be read"):
        again = androstep.open(tmp_path / "made")
    for one in (opened, made, again):
        rows = one.requests.select("dev", "sector", "nr_sectors", "queue_ns", "complete_ns").collect().rows()
        assert rows == [(8 << 20 | 3, 8, 16, 12_000, 362_000), (7, 128, 8, 90_000, 210_000)]
    with pytest.raises(InputError, match="column size is missing"):
        androstep.open(path, csv_columns="time:us,op,dev,offset:B")


# --- commands ------------------------------------------------------------------------------------------------------

COMMANDS: dict[str, dict[str, Any]] = {
    # Linux 4.4, 5.10 and 6.6
    "ufshcd_command: scsi_send: 624000.ufshc: tag: 3, DB: 0x8, size: 4096, IS: 0, LBA: 1954, opcode: 0x2a": {
        **{"step": "send", "device": "624000.ufshc", "tag": 3, "opcode": 0x2A, "lba": 1954, "nr_bytes": 4096}
    },
    "ufshcd_command: complete: 1d84000.ufshc: tag: 31, DB: 0x0, size: 524288, IS: 1, LBA: 8, opcode: 0x28 (READ_10),"
    " group_id: 0x0": {
        **{"step": "complete", "device": "1d84000.ufshc", "tag": 31, "opcode": 0x28, "lba": 8, "nr_bytes": 524288}
    },
    "ufshcd_command: send_req: 0:0:0:1: tag: 0, DB: 0x1, size: -1, IS: 0, LBA: 18446744073709551615, opcode: 0x35"
    " (SYNC), group_id: 0x0, hwq_id: 2": {
        **{"step": "send", "device": "0:0:0:1", "tag": 0, "opcode": 0x35, "lba": None, "nr_bytes": None}
    },
    # The driver reads neither location nor size of this command.
    "ufshcd_command: complete_rsp: 0:0:0:1: tag: 9, DB: 0x0, size: -1, IS: 0, LBA: 0, opcode: 0x8a (WRITE_16),"
    " group_id: 0x0, hwq_id: 3": {
        **{"step": "complete", "device": "0:0:0:1", "tag": 9, "opcode": 0x8A, "lba": None, "nr_bytes": None}
    },
    "ufshcd_command: send_req: 0:0:0:1: tag: 9, DB: 0x0, size: 4096, IS: 0, LBA: 0, opcode: 0x28 (READ_10),"
    " group_id: 0x0, hwq_id: 3": {
        **{"step": "send", "device": "0:0:0:1", "tag": 9, "opcode": 0x28, "lba": 0, "nr_bytes": 4096}
    },
    "ufshcd_command: dev_complete: x: tag: 0, DB: 0x1, size: 4, IS: 0, LBA: 1, opcode: 0x0": {
        **{"step": "other", "device": "x", "tag": 0, "opcode": 0, "lba": 1, "nr_bytes": 4}
    },
    "mmc_request_start: mmc0: start struct mmc_request[00000000c5a2b0a4]: cmd_opcode=25 cmd_arg=0x2c1b0 cmd_flags=0xb5"
    " cmd_retries=0 stop_opcode=12 stop_arg=0x0 stop_flags=0x49d stop_retries=0 sbc_opcode=23 sbc_arg=0x8"
    " sbc_flags=0x15 sbc_retires=0 blocks=8 block_size=512 blk_addr=180656 data_flags=0x100 tag=-1 can_retune=0"
    " doing_retune=0": {
        **{"step": "send", "device": "mmc0", "tag": -1, "opcode": 25, "lba": 180656, "nr_blocks": 8, "nr_bytes": 4096}
    },
    "mmc_request_start: mmc1: start struct mmc_request[ffffffc0]: cmd_opcode=13 cmd_arg=0x10000 cmd_flags=0x195"
    " cmd_retries=0 stop_opcode=0 stop_arg=0x0 stop_flags=0x0 stop_retries=0 sbc_opcode=0 sbc_arg=0x0 sbc_flags=0x0"
    " sbc_retires=0 blocks=0 block_size=0 blk_addr=0 data_flags=0x0 can_retune=0 doing_retune=0": {
        **{"step": "send", "device": "mmc1", "opcode": 13, "nr_blocks": 0, "nr_bytes": 0}
    },
    "mmc_request_done: mmc0: end struct mmc_request[00000000c5a2b0a4]: cmd_opcode=25 cmd_err=0 cmd_resp=0x900 0x0 0x0"
    " 0x0 cmd_retries=0 stop_opcode=12 stop_err=-110 stop_resp=0x0 0x0 0x0 0x0 stop_retries=0 sbc_opcode=23 sbc_err=0"
    " sbc_resp=0x900 0x0 0x0 0x0 sbc_retries=0 bytes_xfered=4096 data_err=-84 tag=7 can_retune=0 doing_retune=0": {
        **{"step": "complete", "device": "mmc0", "tag": 7, "opcode": 25, "nr_bytes": 4096, "result": -84}
    },
    # Linux 6.18, 5.4 and 4.19
    "scsi_dispatch_cmd_start: host_no=2 channel=0 id=1 lun=3 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL"
    " driver_tag=11 scheduler_tag=5 cmnd=(READ_10 lba=4096 txlen=8 protect=0 raw=28 00 00 00 10 00 00 00 08 00)": {
        **{"step": "send", "device": "2:0:1:3", "tag": 11, "opcode": 0x28, "lba": 4096, "nr_blocks": 8}
    },
    "scsi_dispatch_cmd_done: host_no=0 channel=0 id=0 lun=0 data_sgl=0 prot_sgl=0 prot_op=SCSI_PROT_NORMAL"
    " driver_tag=-1 scheduler_tag=-1 cmnd=(TEST_UNIT_READY - raw=00 00 00 00 00 00) result=(driver=DRIVER_OK"
    " host=DID_OK message=COMMAND_COMPLETE status=SAM_STAT_CHECK_CONDITION) sense=(key=0x6 asc=0x29 ascq=0x0)": {
        **{"step": "complete", "device": "0:0:0:0", "tag": -1, "opcode": 0, "result": 2}
    },
    "scsi_dispatch_cmd_timeout: host_no=1 channel=0 id=0 lun=0 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL"
    " cmnd=(WRITE_6 lba=70658 txlen=256 raw=0a 01 14 02 00 00) result=(driver=DRIVER_TIMEOUT host=DID_TIME_OUT"
    " message=COMMAND_COMPLETE status=SAM_STAT_GOOD)": {
        **{"step": "other", "device": "1:0:0:0", "opcode": 10, "lba": 0x11402, "nr_blocks": 256, "result": 0x06030000}
    },
    "scsi_dispatch_cmd_done: host_no=1 channel=0 id=0 lun=0 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL"
    " cmnd=(UNKNOWN raw=c1 ff) result=(driver=DRIVER_OK host=DID_NEW message=COMMAND_COMPLETE status=SAM_STAT_GOOD)": {
        **{"step": "complete", "device": "1:0:0:0", "opcode": 0xC1}
    },
    "scsi_dispatch_cmd_error: host_no=0 channel=0 id=0 lun=0 data_sgl=1 prot_sgl=0 prot_op=SCSI_PROT_NORMAL"
    " cmnd=(SYNCHRONIZE_CACHE - raw=35 00 00 00 00 00 00 00 00 00) rtn=4181": {
        **{"step": "other", "device": "0:0:0:0", "opcode": 0x35, "lba": 0, "nr_blocks": 0, "result": 4181}
    },
}


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: str(line)[:30])
def test_command(line: str) -> None:
    staging, tables = read(ftrace_text.read, iter([f"{HEAD}{line}\n".encode()]))
    (row,) = tables[TABLES.index("commands")].rows(named=True)
    base: dict[str, Any] = dict.fromkeys(schema.table("commands").polars)
    seen = {"ts_ns": 5_000_001_000, "cpu": 1, "tid": 77, "comm": "dd", "event": line.partition(":")[0]}
    assert row == base | COMMANDS[line] | seen
    assert staging.losses == ()


@pytest.mark.parametrize(
    "line",
    [
        *("ufshcd_command: send", "mmc_request_done: mmc0", "mmc_request_start: x: start"),
        *("scsi_dispatch_cmd_start: host_no=1 channel=0 id=0 lun=", "scsi_dispatch_cmd_done"),
        "scsi_dispatch_cmd_start: host_no=1 channel=0 id=0 lun=0 cmnd=(READ_10 raw=28 0",
        "scsi_dispatch_cmd_start: host_no=1 channel=0 id=0 lun=0 cmnd=(READ_10 raw=)",
    ],
)
def test_command_of_an_unknown_form_is_counted(line: str) -> None:
    staging, _ = read(ftrace_text.read, iter([f"{HEAD}{line}\n".encode()]))
    assert readers.losses(staging) == {"unreadable": 1}


# --- garbage -------------------------------------------------------------------------------------------------------

COLUMNS = csv.Columns.parse("time:s,op,task,offset:B,size:B,response:us,major,minor,cpu,tid")
READERS: Sequence[Callable[[Source, Spool], Staging]] = (
    ftrace_text.read,
    blkparse.read,
    most.read,
    functools.partial(csv.read, columns=COLUMNS),
)


@pytest.mark.prove
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=5))
@settings(max_examples=50)
def test_garbage(pieces: list[bytes]) -> None:
    for reader in READERS:
        staging, _ = read(reader, iter(pieces))
        lines = b"".join(pieces).count(b"\n")
        # a last line without an end may be whole all the same
        assert sum(loss.count for loss in staging.losses if loss.kind == "unreadable") <= lines + 1
