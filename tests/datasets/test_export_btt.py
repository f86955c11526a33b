"""Our averages of btt against the real btt, to the last digit."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support import corpus, made

from androstep_analysis import capture, measures, units
from androstep_analysis.capture import Capture
from androstep_analysis.datasets import export

RECORDINGS = {
    "blktrace_bin/centos7": "sda",
    "kernel/ext4_guest_6.1/blktrace.tgz": "vda",
    "kernel/f2fs_guest_6.1/blktrace.tgz": "vda",
    "kernel/vfat_guest_6.1/blktrace.tgz": "vda",
}

LEFT_OUT = ("Plug Information", "I/O Active Period Information")

_MEDIAN = re.compile(r"^(( \([ \d]+,[ \d]+\)|   Average) \| +\d+ +[\d.]+) +\d+ \| ")


def exported(opened: Capture) -> str:
    written = io.BytesIO()
    export.write(opened, "btt", written)
    return written.getvalue().decode()


def averages(text: str) -> list[str]:
    """Return the lines of our tables without medians of seeks, because btt's depend on the shape of its tree."""
    sections = re.split(r"^={20} (.+) ={20}\n", text.split("\n# Total System")[0] + "\n", flags=re.MULTILINE)[1:]
    tables = dict(zip(sections[::2], sections[1::2], strict=True))
    lines = [line for title, table in tables.items() if title not in LEFT_OUT for line in [title, *table.split("\n")]]
    comparable = [_MEDIAN.sub(r"\1 | ", line) for line in lines if line]
    return [_without_first(line, below) for line, below in zip(comparable, [*comparable[1:], ""], strict=True)]


def _without_first(line: str, below: str) -> str:
    """Return the line with equally frequent modes in a fixed order."""
    head, _, modes = line.rpartition("| ")
    if below.lstrip().startswith("...("):
        return head + modes[modes.index("(") :]
    if match := re.fullmatch(r"(\d+)(\(\d+\)) (\d+)", modes):
        return f"{head}{sorted([match[1], match[3]])}{match[2]}"
    return line


def program(name: str) -> str:
    """Return a program of package blktrace; skip the calling test if it is not installed."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def printed_by_btt(merged: Path) -> str:
    command = [program("btt"), "-i", merged]
    return subprocess.run(command, cwd=merged.parent, capture_output=True, check=True, text=True).stdout


def merged(name: str, tmp_path: Path) -> Path:
    """Merge the recording into one file, as btt needs it."""
    directory = source = corpus.path(name)
    if source.suffix == ".tgz":
        unpacked = tmp_path / "unpacked"
        unpacked.mkdir()
        subprocess.run(["tar", "-xzf", source, "-C", unpacked], check=True)
        directory = next(unpacked.rglob("*.blktrace.0")).parent
    command = [program("blkparse"), "-q", "-O", "-D", directory, "-i", RECORDINGS[name], "-d", tmp_path / "merged"]
    subprocess.run(command, capture_output=True, check=True)
    return tmp_path / "merged"


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_seek_is_btts(name: str, tmp_path: Path) -> None:
    """btt writes a line with time, distance and direction of each seek."""
    subprocess.run(
        [program("btt"), "-i", merged(name, tmp_path), "-s", "x"], cwd=tmp_path, check=True, capture_output=True
    )
    distances = measures.seek_distances(capture.open(corpus.path(name)).block_events, by=["dev"])
    found = distances.filter(metric="count").select("step", "dev", "distance_up_to_sectors", "value").rows()
    theirs: Counter[tuple[str, int, int]] = Counter()
    for file in tmp_path.glob("x_*_c.dat"):
        _, dev, step, _ = file.stem.split("_")
        for line in file.read_text().splitlines():
            distance = int(line.split()[1])
            up_to = (1 << (abs(distance) - 1).bit_length()) * (1 if distance > 0 else -1) if distance else 0
            theirs[step.upper(), units.parse_dev(dev.replace(",", ":")), up_to] += 1
    assert min(Counter(up_to > 0 for _, _, up_to in theirs).values()) > 3
    assert {tuple(row[:3]): row[3] for row in found} == theirs


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_number_is_btts(name: str, tmp_path: Path) -> None:
    theirs = averages(printed_by_btt(merged(name, tmp_path)))
    ours = averages(exported(capture.open(corpus.path(name))))
    assert len(theirs) > 25
    assert ours == theirs


BLOCK = 8

ACTIONS = ("queue", "getrq", "insert", "backmerge", "frontmerge", "issue", "requeue", "complete", "sleep")

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.integers(0, 5),
        st.integers(1, 3),
        st.sampled_from([8 << 20, 8 << 20 | 16, 253 << 20, 259 << 20]),
        st.integers(0, 3_000_000_000),
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.sanitized
@settings(max_examples=60, phases=[Phase.generate])
@given(EVENTS)
def test_whatever_the_events(tmp_path: Path, events: list[tuple[str, int, int, int, int]]) -> None:
    """Each bio is one block, so that no bio contains another: btt's choice would then depend on its tree."""
    rows, now = [], 0
    for number, (action, block, blocks, dev, wait) in enumerate(events):
        now += wait + 1
        is_request = action in ("issue", "complete")
        rows.append(
            {
                **{"ts_ns": now, "cpu": 0, "tid": number % 3 + 1, "pid": number % 3 + 1, "comm": "x", "action": action},
                **{"event": export.blkparse.LETTERS[action], "dev": dev, "sector": block * BLOCK, "rwbs": "W"},
                **{"nr_sectors": (blocks if is_request else 1) * BLOCK, "error": 0},
            }
        )
    opened = made.capture(events=rows)
    with (tmp_path / "merged").open("w+b") as file:
        export.write(opened, "blktrace", file)
    ours = exported(opened)
    if ours:
        assert averages(ours) == averages(printed_by_btt(tmp_path / "merged"))
