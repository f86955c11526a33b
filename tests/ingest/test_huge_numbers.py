"""Lengths that no request has are unknown, in every format, so that no sum of bytes overflows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis import measures

TEXTS = {
    "ftrace": "     dd-7 [000] ..... 1.000000: block_rq_issue: 8,0 R 4096 () 8 + {} [dd]\n"
    "     dd-7 [000] ..... 1.100000: block_rq_complete: 8,0 R () 8 + {} [0]\n",
    "blkparse": "  8,0    0        1     1.000000000    10  D   R 8 + {} [dd]\n"
    "  8,0    0        2     1.100000000    10  C   R 8 + {} [0]\n",
    "MOST": "    0.000000000\tQ\tWS\t23004888\t   {}\t4767\t     a\n"
    "    0.000000001\tD\tWS\t23004888\t   {}\t4767\t     a\n",
    "biosnoop": "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n"
    "0.003456    my proc a      1234567 nvme0n1 W 2406576    {}      3.21\n",
    "SPC": "0,8,{},R,0.000000\n0,8,{},R,0.000000\n",
    "MSR": "128166372003061629,web,0,Read,0,{},500\n",
    "Pixel": "proces,device,rw_flag,sector,size,timestamp\ndd-1,8388608,W,8,{},1.0\ndd-1,8388608,W,8,8,2.0\n",
}


@pytest.mark.parametrize(
    "number",
    left_to_prove(
        [1 << 41, 1 << 54, (1 << 55) + 8, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
        {1 << 41, (1 << 55) + 8, (1 << 63) - 1, 1 << 63}.__contains__,
    ),
)
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_no_sum_overflows(kind: str, number: int, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(TEXTS[kind].format(number, number))
    try:
        capture = androstep.open(path)
    except androstep.InputError:
        return
    assert all(0 <= size < 1 << 41 for size in capture.io.collect()["bytes"].to_list())
    assert 0 <= capture.population["bytes"] < 1 << 41
    values = measures.mix(capture.requests).filter(metric="bytes")["value"].to_list()
    assert all(value >= 0 for value in values)
    # Tools print minus one, an unknown length, as an unsigned number.
    assert number >= 1 << 63 or any(loss.kind == "unreadable" for loss in capture.losses)
