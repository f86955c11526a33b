"""blkparse text, compared with blkparse's own totals and with lines in blkparse's format."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import corpus, readers

from androstep_analysis import ingest, units
from androstep_analysis.common.errors import InputError

WRAPPED_SECONDS = 2**64 // 10**9 % 2**32
"""The seconds of 2^64 ns, as blkparse prints them."""


@pytest.mark.parametrize("name", readers.BLKPARSE_TEXTS)
def test_times_of_the_corpus(name: str) -> None:
    path = corpus.path(name)
    staging = readers.read(path)
    # 1266874889.… is from before the start and becomes negative.
    text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    printed = [readers.ns(t.decode()) for t in re.findall(rb"(?m)^ *\d+,\d+ +\d+ +\d+ +(\d+\.\d{9}) ", text)]
    repaired = [t - (WRAPPED_SECONDS - 2**64 // 10**9) * 10**9 - 2**64 if t > 10**18 else t for t in printed]
    assert staging.block["ts_ns"].to_list() == sorted(repaired)
    before = sum(t < 0 for t in repaired)
    assert readers.losses(staging) == ({"wrapped": before} if before else {})


def test_wrapped_time() -> None:
    staging = readers.read(corpus.path("blkparse_text/android_blktrace.flash.facebook.txt"))
    assert staging.first_ns == -14_276_668  # printed as 1266874889.695274948
    # In time order, the first two writes are queued before they complete.
    assert staging.block["event"].to_list()[:4] == ["Q", "Q", "C", "C"]


LINE = "  8,16   3       17     0.000001500   123 "
FORMS = [
    (" Q FWS [x]", ("queue", None, 0, "x", None)),
    (" Q  WS 80 + 16 [x]", ("queue", 80, 16, "x", None)),
    (" D  WS 80 + 16 (   35500) [x]", ("issue", 80, 16, "x", None)),
    (" D   R 36 (12 00 00 00 24 00 ..) [x]", ("issue", None, 0, "x", None)),
    (" D   R 4096 (28 00) [x]", ("issue", None, 8, "x", None)),
    (" C   R (12 00 00 00 24 00 ..) [-5]", ("complete", None, None, None, -5)),
    (" C  FN 18446744073709551615 [0]", ("complete", None, 0, None, 0)),
    (" C  WS 80 (     120) [0]", ("complete", 80, 0, None, 0)),
    (" C  WS 80 + 16 [-121]", ("complete", 80, 16, None, -121)),
    (" R  WS 80 + 16 [0]", ("requeue", 80, 16, None, None)),
    (" M   W 80 + 16 [x]", ("backmerge", 80, 16, "x", None)),
    (" F   W 80 + 16 [x]", ("frontmerge", 80, 16, "x", None)),
    (" B   W 80 + 16 [x]", ("bounce", 80, 16, "x", None)),
    (" S   W [x]", ("sleep", None, 0, "x", None)),
    (" P   N [x]", ("plug", None, None, "x", None)),
    (" U   N [x] 4", ("unplug", None, None, "x", None)),
    ("UT   N [x] 4", ("unplug", None, None, "x", None)),
    (" X   W 80 / 96 [x]", ("split", 80, 16, "x", None)),
    (" X   W 4294967290 / 4 [x]", ("split", 4_294_967_290, 10, "x", None)),  # the cut is printed modulo 2^32
    (" A   W 80 + 16 <- (253,0) 48", ("remap", 80, 16, None, None)),
]


def test_forms(tmp_path: Path) -> None:
    for tail, expected in FORMS:
        staging = readers.read_bytes(tmp_path, f"{LINE}{tail}\n".encode())
        (row,) = staging.block.iter_rows(named=True)
        assert (row["action"], row["sector"], row["nr_sectors"], row["comm"], row["error"]) == expected, tail
        at = (row["ts_ns"], row["dev"], row["cpu"], row["tid"], row["pid"])
        assert at == (1500, units.dev(8, 16), 3, 123, None), tail
        remapped = (units.dev(253, 0), 48) if row["action"] == "remap" else (None, None)
        assert (row["old_dev"], row["old_sector"]) == remapped, tail
        assert staging.losses == (), tail


def test_messages_and_summary(tmp_path: Path) -> None:
    text = f"""{LINE} m   N cfq123S / alloced [x]
{LINE} Q   W 8 + 8 [x]
what is this
CPU0 (8,16):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB

Throughput (R/W): 0KiB/s / 4KiB/s
Events (8,16): 2 entries
Skips: 2 forward (1,234 -  99.8%)
"""
    staging = readers.read_bytes(tmp_path, text.encode())
    assert staging.events == {"Q": 1, "m": 1}
    assert staging.block["event"].to_list() == ["Q"]
    assert staging.lost_events == 1234
    assert readers.losses(staging) == {"dropped": 1234, "unreadable": 1}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_truncation(tmp_path: Path, packed: bool) -> None:
    data = corpus.path("blkparse_text/leveldb_ram0_blk_data.txt").read_bytes()
    raw = gzip.compress(data) if packed else data
    pick = random.Random(packed)
    for cut in [pick.randrange(1, len(raw)) for _ in range(50)]:
        left = readers.gunzip_what_is_there(raw[:cut]) if packed else raw[:cut]
        # A line without its newline is whole if it ends in "]".
        lines = [line for line in left.split(b"\n") if re.fullmatch(rb" +1,0 .* \+ [0-9]+ \[0\]", line)]
        path = tmp_path / "cut"
        path.write_bytes(raw[:cut])
        if not lines:
            with pytest.raises(InputError):
                ingest.read(path)
            continue
        staging = readers.read(path)
        printed = [(int(line.split()[4]), int(line.split()[7])) for line in lines]
        assert sorted(staging.block.select("tid", "sector").rows()) == sorted(printed)
        torn = packed + (not left.endswith((b"\n", b"]")))
        assert sum(loss.kind == "torn" for loss in staging.losses) == torn


@pytest.mark.parametrize(("end", "events"), [("[IntentService[]", 1), ("[sh]", 2), ("[sh", 1), ("[sh]\n", 2)])
def test_line_without_newline(tmp_path: Path, end: str, events: int) -> None:
    # A name with a bracket in it may be truncated at that bracket: "IntentService[E" is a real one.
    staging = readers.read_bytes(tmp_path, f"{LINE} P   N [x]\n{LINE} Q   W 8 + 8 {end}".encode())
    assert staging.block.height == events
    assert readers.losses(staging) == ({} if events == 2 else {"torn": 1})


COMM = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=15)


@pytest.mark.prove
@given(
    st.integers(-(10**12), 10**13),
    st.lists(
        st.tuples(
            st.sampled_from("QGIDMFXPC"),
            st.integers(-30 * 10**9, 30 * 10**9),  # further apart, they would be of a clock that was set back
            COMM,
            st.integers(1, 2**40),
            st.integers(1, 2**20),
        ),
        min_size=1,
        max_size=8,
    ),
)
@example(0, [("Q", 0, "] 3", 1, 1), ("P", 0, "[x] 3", 1, 1), ("D", -1, "a-1 [000] b", 1, 1), ("X", 0, "(8,0) 1", 1, 1)])
def test_what_blkparse_writes_is_read_back(
    tmp_path: Path, since: int, events: list[tuple[str, int, str, int, int]]
) -> None:
    text, expected = "", []
    distinct = {(action, later, sector, length): comm for action, later, comm, sector, length in events}
    in_order = sorted(distinct.items(), key=lambda event: event[0][1])
    for (action, later, sector, length), comm in in_order:
        ns = since + later
        unsigned = ns % 2**64
        seconds = (unsigned // 10**9 + 2**31) % 2**32 - 2**31
        text += f"{8:3d},{0:<3d} {1:2d} {5:8d} {seconds:5d}.{unsigned % 10**9:09d} {77:5d} {action:>2} {'WS':>3} "
        text += {
            "X": f"{sector} / {(sector + length) % 2**32} [{comm}]",
            "P": f"[{comm}]",
            "C": f"{sector} + {length} [-5]",
        }.get(action, f"{sector} + {length} [{comm}]") + "\n"
        place = (None, None) if action == "P" else (sector, length)
        expected.append((ns, action, *place, None if action == "C" else comm))
    staging = readers.read_bytes(tmp_path, text.encode())
    rows = staging.block.select("ts_ns", "event", "sector", "nr_sectors", "comm").rows()
    assert rows == sorted(expected, key=lambda row: row[0])
    before = sum(row[0] < 0 for row in expected)
    assert readers.losses(staging) == ({"wrapped": before} if before else {})
