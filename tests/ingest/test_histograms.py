"""Histograms of biolatency and related tools are described in a sentence and yield no table."""

from __future__ import annotations

from pathlib import Path

import pytest

import androstep_analysis as androstep
from androstep_analysis.common.errors import InputError

ROWS = {0: 0, 1: 0, 3: 2, 7: 5, 15: 90, 31: 2, 63: 1}
"""The greatest value of each interval, and the number of values in it: half of 100 are at most 15, 99 at most 31."""


def histogram(unit: str = "usecs", rows: dict[int, int] = ROWS) -> str:
    text = f"     {unit:<19} : count    distribution\n"
    return text + "".join(
        f"{(most + 1) // 2:>10} -> {most:<10} : {count:<8} |****    |\n" for most, count in rows.items()
    )


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "biolatency.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        androstep.open(path)
    return str(error.value)


BEGIN = "Tracing block device I/O... Hit Ctrl-C to end.\n^C\n"


@pytest.mark.parametrize("unit", ["usecs", "msecs"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_histogram(unit: str, end: str, tmp_path: Path) -> None:
    told = refused(tmp_path, (BEGIN + histogram(unit)).replace("\n", end))
    assert (
        f"biolatency prints them: 100 values, half of them at most 15 {unit}, 99 % at most 31, all at most 63;" in told
    )
    assert "record each request with biosnoop" in told


@pytest.mark.parametrize(
    "above", ["disk = sda", "flags = Sync-Write", "disk = sda\tflags = Read", "operation = 'read'"]
)
def test_what_histograms_are_of_and_that_those_of_several_times_add_up(above: str, tmp_path: Path) -> None:
    one = f"\n06:20:16\n\n{above}\n{histogram()}"
    told = refused(tmp_path, BEGIN + one + f"\ndisk = vda\n{histogram('usecs', {1: 7})}" + one)
    of = " ".join(above.split())
    assert f"{of}: 200 values, half of them at most 15 usecs" in told
    assert "disk = vda: 7 values, half of them at most 1 usecs, 99 % at most 1, all at most 1" in told


def test_dictionaries(tmp_path: Path) -> None:
    rows = [{"interval-start": (most + 1) // 2, "interval-end": most, "count": count} for most, count in ROWS.items()]
    told = {"ts": "2026-11-28 10:00:00", "val_type": "usecs", "data": rows}
    text = "".join(f"{told | {'Bucket ptr': name}}\n" for name in (b"sda", b"sdb", b"sdc", b"sdd", b"sde"))
    assert "sda: 100 values, half of them at most 15 usecs" in refused(tmp_path, text)
    assert "and 2 more" in refused(tmp_path, text + "{'ts': 1, 'val_type': 'usecs', 'data': [{'interval-start': (((\n")


def test_a_histogram_without_values(tmp_path: Path) -> None:
    assert "biolatency prints them; they contain no requests" in refused(tmp_path, BEGIN + histogram(rows={}))


BPFTRACE = {
    "[0]": 0,
    "[1]": 1,
    "[2, 4)": 3,
    "[512, 1K)": 1023,
    "[1K, 2K)": 2047,
    "[8M, 16M)": 16 * 1024**2 - 1,
}
"""The greatest value of each interval that bpftrace prints."""


@pytest.mark.parametrize(("begin", "last"), [("", "[1]"), (f"Attaching 3 probes...\n{BEGIN}\n", "[8M, 16M)")])
@pytest.mark.parametrize(("key", "of"), [("usecs", "99"), ("usecs[259, 0]", "[259, 0]: 99"), ("[dd]", "[dd]: 99")])
def test_histograms_of_bpftrace(begin: str, last: str, key: str, of: str, tmp_path: Path) -> None:
    rows = {label: most for label, most in BPFTRACE.items() if most <= BPFTRACE[last]}
    counts = {label: 99 - len(rows) + 1 if label == last else 1 for label in rows}
    text = "".join(f"{label:<16} {count:>8} |@@@@   |\n" for label, count in counts.items())
    told = refused(tmp_path, f"{begin}@{key}: \n{text}\n")
    unit = " usecs" if key.startswith("usecs") else ""
    most = f"{BPFTRACE[last]:,}"
    assert (
        f"prints them: {of} values, half of them at most {most}{unit}, 99 % at most {most}, all at most {most}" in told
    )


def test_histograms_of_bpftrace_with_open_ends_and_stacks(tmp_path: Path) -> None:
    rows = "(..., 0)               1 |@   |\n[0, 10)                3 |@@  |\n[10, ...)              6 |@@@@|\n"
    told = refused(tmp_path, f"@ms[\n    submit_bio+1\n    ksys_read+2\n]:\n{rows}")
    assert "10 values, half of them at most unlimited, 99 % at most unlimited, all at most unlimited" in told


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("TIME(ms)     COMM             PID    LAT(ms)", "{0}          cksum            4179   {1:>7}"),
        ("TIME(ms)     DISK    COMM             PID    LAT(ms)", "{0}  nvme0n1 my proc 4179 {1:>7}"),
        (
            "TIME(ms)     DISK ID        COMM     PID    LAT(ms)\n             MAJOR MINOR",
            "{0} 259 0 cksum 4179 {1:>7}",
        ),
        ("TIME(s)            T  BYTES    LAT(ms)", "16458043.43{0}    W  4096        {1}.00"),
    ],
)
def test_lists_without_locations(header: str, row: str, tmp_path: Path) -> None:
    """bpftrace rounds to whole milliseconds, so that 3 may be 3.999."""
    text = "".join(row.format(610 + n, n) + "\n" for n in range(1, 5))
    told = refused(tmp_path, f"Attached 4 probes\n{header}\n{text}")
    rest = "009" if ".00" in row else "999"
    assert f"4 values, half of them at most 2,{rest} us, 99 % at most 4,{rest}, all at most 4,{rest}; they" in told
    assert "record each request with biosnoop of bcc" in told
