"""IOzone's tables, reports and throughput summaries: each cell gives the right test, size and rate."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from androstep_analysis import bench
from androstep_analysis.common.errors import InputError, LossWarning

ABOVE = """\
\tIozone: Performance Test of File I/O
\t        Version $Revision: 3.471 $
\tRun began: Sat Nov 28 11:42:56 2026

{modes}\tCommand line used: iozone -a
{unit}\tTime Resolution = 0.000001 seconds.
"""
UNIT = "\tOutput is in kBytes/sec\n"

# The names of the columns as versions 3.471 and 3.327 print them.
NEW = (
    "                                                              random    random     bkwd    record    stride\n"
    "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read"
    "   fwrite frewrite    fread  freread\n"
)
OLD = (
    "                                                            random  random    bkwd   record   stride\n"
    "              KB  reclen   write rewrite    read    reread    read   write    read  rewrite     read"
    "   fwrite frewrite   fread  freread\n"
)
WIDTHS = {NEW: [16, 8, *[9] * 13], OLD: [16, 8, 8, 8, 9, 9, 8, 8, 8, 9, 9, 9, 9, 9, 9]}

TESTS = (
    *(("seq_write", "sync"), ("seq_write", "sync"), ("seq_read", "sync"), ("seq_reread", "sync")),
    *(("rand_read", "sync"), ("rand_write", "sync"), ("backward_read", "sync"), ("record_rewrite", "sync")),
    *(("stride_read", "sync"), ("seq_write", "stdio"), ("seq_write", "stdio"), ("seq_read", "stdio")),
    ("seq_reread", "stdio"),
)
LAYOUTS = ("empty", "written", None, None, None, "written", None, "written", None, "empty", "written", None, None)


def rates(tmp_path: Path, text: str, metric: str = "bandwidth") -> pl.DataFrame:
    path = tmp_path / "iozone.txt"
    path.write_text(text)
    return bench.measures(bench.read(path).tables).filter(metric=metric)


@pytest.mark.parametrize("header", [NEW, OLD])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("seed", range(10))
def test_every_cell_of_a_table(header: str, end: str, seed: int, tmp_path: Path) -> None:
    """Tests may be left out, so that cells are empty; long numbers touch each other."""
    choose = random.Random(seed)
    made = [index for index in range(13) if index < 2 or choose.random() < 0.7]
    text, want = ABOVE.format(modes="\tAuto Mode\n", unit=UNIT) + header, []
    for file_kb in (64, 131_072):
        for record_kb in (4, 64):
            values = [choose.randrange(10 ** choose.randrange(1, 6), 10**7) for _ in range(13)]
            if choose.random() < 0.5:
                values[3] = choose.randrange(10**8, 10**9 - 1)
            cells = [file_kb, record_kb, *(value if index in made else "" for index, value in enumerate(values))]
            text += "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS[header], strict=True)) + "\n"
            want += [(*TESTS[i], LAYOUTS[i], file_kb << 10, record_kb << 10, values[i] * 1024.0) for i in made]
    found = rates(tmp_path, text.replace("\n", end) + f"{end}iozone test complete.{end}")
    names = ("test", "engine", "layout", "file_bytes", "block_bytes", "value")
    assert (
        found.select(pl.col("test", "layout").cast(pl.String), pl.exclude("test", "layout")).select(names).rows()
        == want
    )
    assert found["threads"].unique().to_list() == [1] and found["tool_version"][0] == "3.471"


def test_a_row_that_does_not_fit_its_columns_is_a_loss(tmp_path: Path) -> None:
    row = "".join(f"{cell:>{width}}" for cell, width in zip([64, 4, *range(100, 113)], WIDTHS[NEW], strict=True))
    shifted = row.replace("     100", " 1234567890100")
    with pytest.warns(LossWarning, match="1 lines of IOzone are unknown"):
        found = rates(tmp_path, ABOVE.format(modes="", unit=UNIT) + NEW + f"{row}\n{row}\n{shifted}\n")
    assert found.height == 26


@pytest.mark.parametrize(
    ("unit", "iops"),
    [
        (UNIT, 1000 / 4),
        ("\tOPS Mode. Output is in operations per second.\n", 1000),
        ("\tMicroseconds/op Mode. Output is in microseconds per operation.\n", 1000),
    ],
)
def test_units(unit: str, iops: float, tmp_path: Path) -> None:
    text = ABOVE.format(modes="", unit=unit) + NEW + f"{64:>16}{4:>8}{1000:>9}\n"
    assert rates(tmp_path, text, "iops")["value"].to_list() == [iops]
    assert rates(tmp_path, text)["value"].to_list() == [iops * 4096]


def test_a_table_without_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="IOzone's table has no unit"):
        rates(tmp_path, NEW + f"{64:>16}{4:>8}{1000:>9}\n")


@pytest.mark.parametrize(
    ("modes", "sync_mode", "final_sync"),
    [
        ("", "buffered", False),
        ("\tO_DIRECT feature enabled\n", "direct", False),
        ("\tSYNC Mode. \n\tInclude fsync in write timing\n", "osync", True),
        ("\tO_DIRECT feature enabled\n\tSYNC Mode. \n", "direct_osync", False),
        ("\tUsing mmap files\n", "mmap", False),
    ],
)
def test_modes(modes: str, sync_mode: str, final_sync: bool, tmp_path: Path) -> None:
    found = rates(tmp_path, ABOVE.format(modes=modes, unit=UNIT) + NEW + f"{64:>16}{4:>8}{1000:>9}\n")
    assert found.select("sync_mode", "final_sync").rows() == [(sync_mode, final_sync)]


REPORT = """\
Excel output is below:

"Writer report"
        "4"  "8"  "16"
"64"   842003  1002351  0
"128"   921183

"Re-reader report"
        "4"  "8"  "16"
"64"   5  6
"""


def test_the_report_for_excel_counts_where_there_is_no_table(tmp_path: Path) -> None:
    names = ("test", "file_bytes", "block_bytes", "value")
    found = rates(tmp_path, ABOVE.format(modes="", unit=UNIT) + REPORT).select(names)
    assert found.with_columns(pl.col("test").cast(pl.String)).rows() == [
        ("seq_write", 65_536, 4096, 842_003 * 1024.0),
        ("seq_write", 65_536, 8192, 1_002_351 * 1024.0),
        ("seq_write", 131_072, 4096, 921_183 * 1024.0),
        ("seq_reread", 65_536, 4096, 5 * 1024.0),
        ("seq_reread", 65_536, 8192, 6 * 1024.0),
    ]
    table = NEW + f"{64:>16}{4:>8}{842003:>9}\n"
    assert rates(tmp_path, ABOVE.format(modes="", unit=UNIT) + table + REPORT).height == 1


def test_repetitions_in_one_file_and_sizes_below_the_timer(tmp_path: Path) -> None:
    one = ABOVE.format(modes="", unit=UNIT) + NEW + f"{64:>16}{4:>8}{10:>9}\n{128:>16}{4:>8}{20:>9}\n"
    one += "Timer resolution is poor. Some small transfers may have \n"
    one += "reported inaccurate results. Sizes 64 kBytes and below.\n"
    found = rates(tmp_path, one * 3)
    assert found.select("file_bytes", "valid").rows() == [(65_536, False), (131_072, True)] * 3
    summary = bench.summarise(bench.read(tmp_path / "iozone.txt").tables).filter(metric="bandwidth", file_bytes=131_072)
    assert summary.select("value", "n").rows() == [(20 * 1024.0, 3)]


@pytest.mark.parametrize(("kind", "processes"), [("process", True), ("thread", False)])
def test_throughput_mode(kind: str, processes: bool, tmp_path: Path) -> None:
    text = (
        ABOVE.format(modes="", unit=UNIT)
        + f"""\
\tThroughput test with 2 {kind}es
\tEach {kind} writes a 256 kByte file in 4 kByte records

\tChildren see throughput for  2 initial writers \t= 1007446.19 kB/sec
\tParent sees throughput for  2 initial writers \t=   47127.41 kB/sec
\tMin throughput per {kind} \t\t\t=       0.00 kB/sec
\tMin xfer \t\t\t\t\t=       0.00 kB

\tChildren see throughput for 2 mixed workload \t= 8.00 kB/sec
\tChildren see throughput for  2 readers \t\t= 0.00 kB/sec
\tChildren see throughput for 2 unheard of \t= 1.00 kB/sec

"  Initial write " 1007446.19
"""
    )
    with pytest.warns(LossWarning, match="1 lines of IOzone are unknown: “Children see throughput for 2 unheard of"):
        found = rates(tmp_path, text)
    names = ("test", "threads", "processes", "file_bytes", "block_bytes", "valid", "value")
    assert found.with_columns(pl.col("test").cast(pl.String)).select(names).rows() == [
        ("seq_write", 2, processes, 262_144, 4096, True, float(round(1_007_446.19 * 1024))),
        ("rand_mixed", 2, processes, 262_144, 4096, True, 8192.0),
        ("seq_read", 2, processes, 262_144, 4096, False, 0.0),
    ]
