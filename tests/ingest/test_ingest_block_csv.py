"""Block CSV files, compared with counts by awk and by a plain loop."""

from __future__ import annotations

import gzip
import random
import tempfile
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support import corpus, readers

import androstep_analysis as androstep
from androstep_analysis import ingest, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.block import csv
from androstep_analysis.ingest.source import load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import RWBS

FILES = ["pixel6a_cod_exec", "pixel6a_pubg_exec", "pixel6a_slideshow_exec", "pixel6a_telegram_precond"]
HEADER = "proces,device,rw_flag,sector,size,timestamp\r\n"


def nearest_ns(seconds: str) -> int:
    return int((Decimal(seconds) * 10**9).to_integral_value(ROUND_HALF_UP))


JUMPS = {"pixel6a_cod_exec": 2, "pixel6a_pubg_exec": 1, "pixel6a_slideshow_exec": 1}
"""Pairs of rows with days between them (15.9 hours in the last file)."""


@pytest.mark.parametrize("name", FILES)
def test_rows_and_repeats(name: str) -> None:
    path = corpus.path(f"block_csv/{name}.csv.gz")
    staging = readers.read(path)
    rows = [line.split(",") for line in gzip.decompress(path.read_bytes()).decode().split("\r\n")[1:-1]]
    rows.sort(key=lambda row: nearest_ns(row[5]))
    assert staging.block["ts_ns"].to_list() == [nearest_ns(row[5]) for row in rows]
    tasks = [row[0].rpartition("-") for row in rows]
    # Some processes are a name only ("PoolThread", "AsyncTask"), none of which has a dash in it.
    assert staging.block["tid"].to_list() == [int(tid) if dash else None for _, dash, tid in tasks]
    comms = [comm if dash else name for comm, dash, name in tasks]
    assert staging.block["comm"].to_list() == [None if comm == "<...>" else comm for comm in comms]
    last: dict[tuple[str, ...], int] = {}
    repeats = 0
    for _, dev, rw, sector, size, time in rows:
        now = nearest_ns(time)
        repeats += now - last.get((dev, rw, sector, size), -(10**18)) <= 50_000_000
        last[dev, rw, sector, size] = now
    jumps = JUMPS.get(name, 0)
    assert readers.losses(staging) == {"repeated": repeats} | ({"clock": jumps} if jumps else {})
    assert f"{repeats} of {len(rows)} rows ({repeats / len(rows):.1%})" in staging.losses[0].message
    assert staging.lost_events == 0


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        ("159273.83748699998", 159_273_837_487_000),
        ("49680.645025000005", 49_680_645_025_000),
        ("7", 7_000_000_000),
        ("7.5", 7_500_000_000),
        ("0.9999999996", 1_000_000_000),
    ],
)
def test_time_is_rounded_to_the_nearest_ns(tmp_path: Path, time: str, ns: int) -> None:
    staging = readers.read_bytes(tmp_path, f"{HEADER}a-1,8388608,R,8,16,{time}\r\n".encode())
    assert staging.first_ns == ns


def test_other_header(tmp_path: Path) -> None:
    text = "timestamp,process,device,rw_flag,sector,size\n1.5,a-b-7,1048577,W,8,16\n2.5,no thread,1048577,R,8,16\n"
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.block.select("ts_ns", "tid", "comm", "dev", "event", "action").rows() == [
        (1_500_000_000, 7, "a-b", units.dev(1, 1), "W", "queue"),
        (2_500_000_000, None, "no thread", units.dev(1, 1), "R", "queue"),
    ]


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    text = (
        HEADER + "a-1,8388608,R,8,16,1.0\r\n\r\na-1,8388608,R,x,16,1.0\r\na-1,8388608,R,8\r\nb-2,8388608,W,9,8,1.5\r\n"
    )
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.events == {"R": 1, "W": 1}
    assert readers.losses(staging) == {"unreadable": 2}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_truncation(tmp_path: Path, packed: bool) -> None:
    raw = corpus.path("block_csv/pixel6a_telegram_precond.csv.gz").read_bytes()
    raw = raw if packed else gzip.decompress(raw)
    pick = random.Random(packed)
    path = tmp_path / "cut"
    for cut in [pick.randrange(1, len(raw)) for _ in range(50)]:
        path.write_bytes(raw[:cut])
        left = readers.gunzip_what_is_there(raw[:cut]) if packed else raw[:cut]
        rows = left.count(b"\n") - 1
        if rows < 1:
            with pytest.raises(InputError):
                ingest.read(path)
            continue
        staging = readers.read(path)
        assert staging.block.height == rows
        assert sum(loss.kind == "torn" for loss in staging.losses) == packed + (not left.endswith(b"\n"))


@pytest.mark.parametrize(
    ("columns", "rows", "last", "is_whole"),
    [
        ("op,offset:B,size:B,time:s", "R,0,512,{}.25\n", "W,512,512,9.50", True),
        ("op,offset:B,size:B,time:s", "R,0,512,{}.25\n", "W,512,512,9.5", False),
        ("op,offset:B,size:B,time:s", "R,0,512,{}.25\n", "W,512,512,9", False),
        ("op,offset:B,size:B,time:s", "R,0,512,{}.25\n", "W,512,512,", False),
        ("op,offset:B,size:B,time:s", "R,0,512,{}.2\nR,0,512,5.25\n", "W,512,512,9.50", False),
        ("op,offset:B,time:s,size:B", "R,0,{},512\n", "W,512,9,512", False),
        ("op,offset:B,time:s,size:B", 'R,0,{},"512"\n', 'W,512,9,"512"', True),
        ("op,offset:B,time:s,size:B", 'R,0,{},"512"\n', 'W,512,9,"512', False),
        ("time:s,offset:B,size:B,op", "{},0,512,Read\n", "9,512,512,Write", True),
        ("time:s,offset:B,size:B,op", "{},0,512,Read\n", "9,512,512,Writ", False),
        ("time:s,offset:B,size:B,op", "{},0,512,RA\n", "9,512,512,R", False),
        ("time:s,op,offset:B,size:B,-", "{},R,0,512,x\n", "9,W,512,512,", True),
        ("time:s,op,offset:B,size:B,-", "{},R,0,512,x\n", "9,W,512,512", False),
        ("time:s,op,offset:B,size:B,...", "{},R,0,512,x\n", "9,W,512,512,y", True),
    ],
)
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_a_last_row_without_its_newline_counts_if_it_was_not_cut_off(
    tmp_path: Path, columns: str, rows: str, last: str, is_whole: bool
) -> None:
    path = tmp_path / "rows.csv"
    before = "".join(rows.format(number) for number in range(1, 5))
    path.write_text(before + last)
    staging = ingest.read(path, csv_columns=columns)
    assert sum(staging.events.values()) == before.count("\n") + is_whole
    assert ("torn" in {loss.kind for loss in staging.losses}) != is_whole


COMM = st.text(st.characters(exclude_characters='\n\0"', exclude_categories=["Cs"]), max_size=15)


@pytest.mark.prove
@given(st.lists(st.tuples(COMM, st.integers(0, 2**22), st.integers(0, 2**40)), min_size=1, max_size=8))
def test_names_may_hold_anything(tmp_path: Path, rows: list[tuple[str, int, int]]) -> None:
    text = HEADER + "".join(
        f"{comm}-{tid},8388608,R,{sector},8,{1000 + i}.25\r\n" for i, (comm, tid, sector) in enumerate(rows)
    )
    block = readers.read_bytes(tmp_path, text.encode()).block
    expected = [(None if comm in ("", "<...>") else comm, tid, sector) for comm, tid, sector in rows]
    assert block.select("comm", "tid", "sector").rows() == expected
    assert block.filter(pl.col("ts_ns") % 10**9 != 250_000_000).is_empty()


# --- traces of public repositories, and anybody's own --------------------------------------------------------------

READ, WRITE = "R", "W"
PRESETS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    # ts_ns, action, dev, sector, nr_sectors, rwbs, event, tid or pid, comm
    "MSR Cambridge": (
        "128166372003061629,src1,1,Read,7014609920,24576,41286\n128166372016382155,src1,0,Write,2512,1000,1\n",
        [
            (1_172_163_600_306_162_900, "queue", 1, 13_700_410, 48, READ, "Read", None, None),
            (1_172_163_600_310_291_500, "complete", 1, 13_700_410, 48, READ, "Read", None, None),
            (1_172_163_601_638_215_500, "queue", 0, 4, 3, WRITE, "Write", None, None),  # bytes 2512 to 3512
            (1_172_163_601_638_215_600, "complete", 0, 4, 3, WRITE, "Write", None, None),
        ],
    ),
    "MSR Cambridge of several machines": (
        "128166372003061629,a,1,Read,512,512,0\n128166372003061630,b,1,Read,512,512,0\n",
        [
            (1_172_163_600_306_162_900, "issue", 1, 1, 1, READ, "Read", None, None),  # 0: no response is known
            (1_172_163_600_306_163_000, "issue", units.dev(1, 1), 1, 1, READ, "Read", None, None),
        ],
    ),
    "MSR rows without the time of day": (
        "15,unknown,0,Write,4096,512,7\n",
        [
            (1_500, "queue", 0, 8, 1, WRITE, "Write", None, None),
            (2_200, "complete", 0, 8, 1, WRITE, "Write", None, None),
        ],
    ),
    "SYSTOR 2017": (
        "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.133076000,0.000806000,R,4,899056122368,131072\n"
        "1456095145.133077000,0.5,,4,512,1024\n",
        [
            (1_456_095_145_133_076_000, "queue", 4, 1_755_968_989, 256, READ, "R", None, None),
            (1_456_095_145_133_077_000, "issue", 4, 1, 2, "N", "N", None, None),  # no answer was seen
            (1_456_095_145_133_882_000, "complete", 4, 1_755_968_989, 256, READ, "R", None, None),
        ],
    ),
    "Alibaba Cloud": (
        "419,W,8792731648,16384,1577808144360767\r\n",
        [(1_577_808_144_360_767_000, "queue", 419, 17_173_304, 32, WRITE, "W", None, None)],
    ),
    "Tencent CBS": (
        "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n",
        [
            (1_538_323_200_000_000_000, "queue", 1063, 12_910_952, 128, READ, "0", None, None),
            (1_538_323_200_000_000_000, "queue", 1627, 6_338_688, 8, WRITE, "1", None, None),
        ],
    ),
    "FIU": (
        f"89968195792462 20782 a b 283193184 8 R 6 0 {'56f1' * 8}\n",
        [(89_968_195_792_462, "queue", units.dev(6, 0), 283_193_184, 8, READ, "R", 20782, "a b")],
    ),
    "SPC": (
        "0,20941264,8192,W,0.551706,Alpha/NT\n1,3436288,15872,r,1.250720\n",
        [
            (551_706_000, "queue", 0, 20_941_264, 16, WRITE, "W", None, None),
            (1_250_720_000, "queue", 1, 3_436_288, 31, READ, "r", None, None),
        ],
    ),
}
SEEN = ("ts_ns", "action", "dev", "sector", "nr_sectors", "rwbs", "event")


@pytest.mark.parametrize("name", PRESETS)
def test_preset(tmp_path: Path, name: str) -> None:
    text, expected = PRESETS[name]
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.block.select(*SEEN, pl.coalesce("tid", "pid"), "comm").rows() == expected
    is_plain = name in ("Alibaba Cloud", "Tencent CBS", "SPC")
    assert readers.losses(staging) == {
        **({"rounded": 1} if name == "MSR Cambridge" else {}),
        **({"assumed": 1} if is_plain else {}),
    }
    is_realtime = expected[0][0] > 10**18
    assert (staging.clock, staging.realtime_offset_ns) == (("realtime", 0) if is_realtime else ("unknown", None))


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3\n",
        "419,W,8792731648,16384,1577808144360767\nand then something else\n",
        "time,offset,size\n1,2,3\n",
        "128166372003061629,src1,1,Trim,7014609920,24576,41286\n",
    ],
)
def test_what_is_no_known_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no known recording"):
        readers.read_bytes(tmp_path, text.encode())


def columns(tmp_path: Path, words: str, text: str) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Return rows and losses of `text`, read with these columns."""
    path, spool = tmp_path / "input.csv", Spool()
    path.write_text(text)
    staging = csv.read(load(path), spool, csv.Columns.parse(words))
    rows = spool.table("block_events").select("ts_ns", "action", "dev", "sector", "nr_sectors", "rwbs").collect()
    return rows.rows(), readers.losses(staging)


def test_own_columns(tmp_path: Path) -> None:
    words = "-,op:load=R;store=WS,offset:4096,size:4096,response:us,time:ms,major,minor"
    text = "id,op,block,blocks,us,ms,a,b\n1,load,2,1,1.5,0.25,8,16\n2,store,3,2,7,1,8,16\n3,what,3,2,7,1,8,16\n"
    dev = units.dev(8, 16)
    assert columns(tmp_path, words, text) == (
        [
            (250_000, "queue", dev, 16, 8, "R"),
            (251_500, "complete", dev, 16, 8, "R"),
            (1_000_000, "queue", dev, 24, 16, "WS"),
            (1_007_000, "complete", dev, 24, 16, "WS"),
        ],
        {"unreadable": 1},  # the line with names is none
    )
    # Words that everybody uses, and letters as they are; further columns do not count.
    words = "\ttime:ns,op,offset:B,size:sectors,..."
    rows = "".join(f"{ns}\t{op}\t512\t1\tx\ty\n" for ns, op in enumerate(["read", "Write", "w", "FWS"]))
    expected = [(ns, "queue", None, 1, 1, rwbs) for ns, rwbs in enumerate(["R", "W", "W", "FWS"])]
    assert columns(tmp_path, words, rows) == (expected, {})


def test_cells_in_quotation_marks_may_contain_the_separator(tmp_path: Path) -> None:
    """A spreadsheet quotes numbers with decimal commas if commas separate columns, and names with commas."""
    expected = [(123_000, "queue", None, 8, 2, "R"), (473_000, "complete", None, 8, 2, "R")]
    for order in range(4):
        cells = ['"0,000123"', "R", "4096", '"1024"', '"0,35"', '"a, b"']
        words = ["time:s", "op", "offset:B", "size:B", "response:ms", "comm"]
        cells, words = (row[order:] + row[:order] for row in (cells, words))
        assert columns(tmp_path, ",".join(words), ",".join(cells) + "\r\n") == (expected, {})
    # Quotation marks within a name mean nothing.
    for name in ('a"b', '"a', 'a"', '"a"b', '""'):
        assert columns(tmp_path, "time:ns,comm,op,offset:B,size:B", f"7,{name},R,512,512\n") == (
            [(7, "queue", None, 1, 1, "R")],
            {},
        )


@pytest.mark.parametrize("separator", [" ", "\t", ";", "|"])
def test_a_separator_before_the_first_word(tmp_path: Path, separator: str) -> None:
    row = separator.join(["7", "store", "512", "1"])
    words = f"{separator}time:ns,op:store=W,offset:B,size:sectors"
    assert columns(tmp_path, words, f"{row}\n{row.replace('store', 'read')}\n") == (
        [(7, "queue", None, 1, 1, "W"), (7, "queue", None, 1, 1, "R")],
        {},
    )


@pytest.mark.parametrize(
    "words",
    [
        "",
        "time:s,op,offset:B",
        "time:s,time:ms,op,offset:B,size:B",
        "time:h,op,offset:B,size:B",
        "time:s,op,offset:0,size:B",
        "time:s,op,offset:B,size:B,dev:8",
        "time:s,op,offset:B,size:B,comm,task",
    ],
)
def test_columns_that_make_no_sense(words: str) -> None:
    with pytest.raises(InputError, match="write for example time:us"):
        csv.Columns.parse(words)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1),
            st.integers(0, 999_999),
            st.integers(0, 2**64),
            st.integers(0, 2**64),
            st.sampled_from(["R", "W"]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from(["B", "sectors", "4096"]),
)
def test_numbers_of_any_size(tmp_path: Path, rows: list[tuple[int, int, int, int, str]], unit: str, block: str) -> None:
    text = "".join(f"{time}.{part:06d},{op},{offset},{size}\n" for time, part, offset, size, op in rows)
    read, losses = columns(tmp_path, f"time:{unit},op,offset:{block},size:{block}", text)
    to_ns = 10**9 // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    each = {"B": 1, "sectors": 512, "4096": 4096}[block]
    expected = []

    def length(sectors: int) -> int | None:
        return sectors if sectors < 2**32 else None

    for time, part, offset, size, op in rows:
        ns = int((Decimal(f"{time}.{part:06d}") * to_ns).to_integral_value(ROUND_HALF_UP))
        fits = ns < 2**63 - to_ns and (block == "sectors" or max(offset, size) * each < 2**63)
        start, end = offset * each // 512, -((offset + size) * each // -512)
        if fits and block == "sectors":
            expected.append((ns, "queue", None, offset if offset < 2**63 else None, length(size), op))
        elif fits:
            expected.append((ns, "queue", None, start, length(end - start), op))
    # The first row that does not fit passes for a line with names. A length of over 2 TiB is unknown, which is a loss.
    assert read == sorted(expected, key=lambda row: row[0])
    assert losses.get("unreadable", 0) in (len(rows) - len(expected), max(0, len(rows) - len(expected) - 1))


def test_a_name_before_more_columns(tmp_path: Path) -> None:
    """The name then contains no separator, and every column is found.

    Earlier, all columns after the name were unset.
    """
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{n}.5,name,8,R,{n * 512},4096,more,{n}\n" for n in range(20)))
    block = ingest.read(path, csv_columns="time:s,comm,dev,op,offset:B,size:B,...").block.collect()
    assert block.select("comm", "dev", "nr_sectors").unique().rows() == [("name", 8, 8)]
    assert block["sector"].to_list() == list(range(20))


LETTERS = st.text("WRDEFNZAOCSMUBX", min_size=1, max_size=6).filter(lambda word: word != "READ")


@given(st.lists(LETTERS, min_size=1, max_size=40))
def test_words_are_letters_by_the_same_rule_in_c_and_python(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        text = "".join(f"{at},{word},0,1\n" for at, word in enumerate(words))
        rows, losses = columns(Path(directory), "time:ns,op,offset:sectors,size:sectors", text)
    assert [row[-1] for row in rows] == [word if RWBS.fullmatch(word) else None for word in words]
    assert losses == {}


# --- a row is a request ------------------------------------------------------------------------------------------

ROW_OF_A_REQUEST = st.tuples(
    st.integers(0, 20), st.sampled_from("RW"), st.integers(0, 3), st.integers(1, 3), st.none() | st.integers(0, 20)
)
ROWS_OF_A_FILE = st.lists(st.lists(ROW_OF_A_REQUEST, min_size=1, max_size=8), min_size=20, max_size=80)
"""Many groups of rows, a millisecond after one another: to open one file of them takes as long as to open one row."""


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("columns", ["time:us", "done:us", "time:us,wait:us", "tid,time:us"])
@settings(max_examples=8, phases=[Phase.generate])  # to make a failing file smaller takes minutes
@given(groups=ROWS_OF_A_FILE)
def test_each_row_is_a_request_with_its_own_times(
    columns: str,
    groups: list[list[tuple[int, str, int, int, int | None]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Rows may be at the same sectors at the same time, in any order."""
    path = tmp_path_factory.mktemp("rows") / "own.csv"
    rows = [(100 + 1000 * group + at, *rest) for group, rows in enumerate(groups) for at, *rest in rows]
    expected = []
    with path.open("w") as file:
        for at, op, sector, length, took in rows:
            start, end = at, None if took is None else at + took
            if columns == "done:us":
                start, end = (None if took is None else at - took), at
            first = {"time:us,wait:us": f"{at},5", "tid,time:us": f"7,{at}"}.get(columns, str(at))
            file.write(f"{first},{op},{sector * 512},{length * 512},{'' if took is None else took}\n")
            expected.append(({"R": "read", "W": "write"}[op], sector, length, start, end))
    capture = androstep.open(path, csv_columns=f"{columns},op,offset:B,size:B,response:us")
    times = [pl.coalesce("issue_ns", "queue_ns") // 1000, pl.col("complete_ns") // 1000]
    found = capture.requests.select(pl.col("op").cast(pl.String), "sector", "nr_sectors", *times).collect().rows()
    assert Counter(found) == Counter(expected)
