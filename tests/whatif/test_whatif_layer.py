"""The log-structured layer: against the plainest one, and that nothing that was written is lost in it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made import DEV, table
from support.whatif_oracles import PAGE_SECTORS, Layer

from androstep_analysis import whatif
from androstep_analysis.common.errors import InputError
from androstep_analysis.whatif.log_structured import accesses
from androstep_analysis.whatif.translation import PAGE_BYTES

PAGES, SEGMENT_PAGES, SEGMENTS = 24, 4, 8

Asked = list[tuple[str, int, int]]
"""Requests: op, first sector, number of sectors."""


def rows(asked: Asked) -> pl.DataFrame:
    return table(
        "requests",
        [
            {"request_id": number, "op": op, "sector": sector, "nr_sectors": length, "issue_ns": number}
            for number, (op, sector, length) in enumerate(asked)
        ],
    )


def done(asked: Asked, in_use: str = "all") -> list[tuple[Any, ...]]:
    found = accesses(
        rows(asked),
        capacity_bytes=PAGES * PAGE_BYTES,
        spare_ratio=0,
        segment_bytes=SEGMENT_PAGES * PAGE_BYTES,
        in_use="read" if in_use == "read" else "all",
    )
    return found.select("row", "kind", "op", "page", "sector", "nr_sectors").rows()


@st.composite
def request(draw: st.DrawFn) -> tuple[str, int, int]:
    sector = draw(st.integers(0, PAGES * PAGE_SECTORS - 1))
    longest = min(40, PAGES * PAGE_SECTORS - sector)
    return draw(st.sampled_from(["write", "write", "write", "read", "discard"])), sector, draw(st.integers(1, longest))


requests = st.lists(request(), max_size=60)


def joined(parts: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Join accesses of a request that continue the previous one."""
    found: list[tuple[Any, ...]] = []
    for row, kind, op, page, sector, length in parts:
        if found and found[-1][:3] == (row, kind, op) and found[-1][4] + found[-1][5] == sector:
            found[-1] = (*found[-1][:5], found[-1][5] + length)
        else:
            found.append((row, kind, op, page, sector, length))
    return found


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=200)
@given(requests)
def test_the_layer_does_what_the_plainest_one_does(asked: Asked) -> None:
    plain = Layer(PAGES, SEGMENT_PAGES, SEGMENTS, range(PAGES))
    for row, words in enumerate(asked):
        plain.request(row, *words)
    assert done(asked) == joined(plain.done)


@pytest.mark.sanitized
@pytest.mark.prove
@settings(max_examples=200)
@given(requests, st.sampled_from(["all", "read"]))
def test_every_sector_reads_back_what_was_written_last(asked: Asked, in_use: str) -> None:
    """A device that stores the layer's writes returns the host's data."""
    host: dict[int, Any] = {}
    device: dict[int, Any] = {sector: ("old", sector) for sector in range(PAGES * PAGE_SECTORS)}
    unread = {sector: ("old", sector) for sector in range(PAGES * PAGE_SECTORS)}
    found = done(asked, in_use)
    for row, (op, first, length) in enumerate(asked):
        sectors = range(first, first + length)
        before = unread | host
        if op == "write":
            host |= {sector: (row, sector) for sector in sectors}
        pages: dict[int, Any] = {}  # what was read of a page in part, or to move it
        queue: list[Any] = []
        read: list[Any] = []
        for _, kind, what, page, place, size in (access for access in found if access[0] == row):
            if what == "read" and kind == "host":
                read += [device[sector] for sector in range(place, place + size)]
            elif what == "read" and kind == "unmapped":
                read += [None] * size
            elif what == "read" and kind == "cleaning":
                queue += [device[sector] for sector in range(place, place + size)]
            elif what == "read":
                pages |= {page * PAGE_SECTORS + number: device[place + number] for number in range(size)}
            elif kind == "cleaning":
                for number in range(size):
                    device[place + number] = queue.pop(0)
            else:
                for number in range(size):
                    sector = page * PAGE_SECTORS + number
                    device[place + number] = (row, sector) if sector in sectors else pages.get(sector)
        assert not queue, "all that is read to clean is written again"
        if op == "discard":
            inside = range(-(-first // PAGE_SECTORS), (first + length) // PAGE_SECTORS)
            gone = {page * PAGE_SECTORS + number for page in inside for number in range(PAGE_SECTORS)}
            host |= dict.fromkeys(gone)
        if op == "read":
            assert read == [before.get(sector) for sector in sectors]


def test_writes_are_appended_and_a_sequential_read_becomes_random() -> None:
    asked = [("write", 80, 8), ("write", 0, 8), ("write", 88, 8), ("read", 80, 16)]
    assert done(asked) == [
        (0, "host", "write", 10, 24 * 8, 8),
        (1, "host", "write", 0, 25 * 8, 8),
        (2, "host", "write", 11, 26 * 8, 8),
        (3, "host", "read", 10, 24 * 8, 8),
        (3, "host", "read", 11, 26 * 8, 8),
    ]


@pytest.mark.sanitized
def test_write_amplification_counts_what_cleaning_writes() -> None:
    asked = [("write", 8 * (number % 2), 8) for number in range(64)]
    made = whatif.log_structured(
        rows(asked), capacity_bytes=PAGES * PAGE_BYTES, spare_ratio=0, segment_bytes=SEGMENT_PAGES * PAGE_BYTES
    )
    plain = Layer(PAGES, SEGMENT_PAGES, SEGMENTS, range(PAGES))
    for row, words in enumerate(asked):
        plain.request(row, *words)
    written = sum(length for _, _, op, _, _, length in plain.done if op == "write")
    assert written > 64 * 8
    assert whatif.write_amplification(made) == written / (64 * 8)


@pytest.mark.sanitized
def test_long_requests_are_cut_at_a_mebibyte() -> None:
    made = whatif.log_structured(rows([("write", 0, 8192)]), segment_bytes=4 << 20)
    assert made.requests["nr_sectors"].to_list() == [2048] * 4
    assert made.requests["sector"].to_list() == [8192, 10240, 12288, 14336]


def test_flushes_stay_and_flags_stand_once() -> None:
    row = {"op": "write", "sector": 24, "nr_sectors": 16, "preflush": True, "fua": True, "issue_ns": 5, "rwbs": "FWFS"}
    flush = {"op": "flush", "sector": None, "nr_sectors": 0, "issue_ns": 9, "request_id": 1}
    flush |= {"preflush": False, "fua": False}
    made = whatif.log_structured(
        table("requests", [row, flush]), capacity_bytes=64 << 10, spare_ratio=0, segment_bytes=4096, in_use="read"
    )
    assert made.requests.select("op", "preflush", "fua", "nr_sectors").rows() == [
        ("write", True, True, 16),
        ("flush", False, False, 0),
    ]


def test_no_requests_are_none_afterwards() -> None:
    made = whatif.log_structured(rows([]))
    assert made.requests.is_empty()
    assert whatif.write_amplification(made) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [({"capacity_bytes": 4096}, "beyond the capacity"), ({"capacity_bytes": 1 << 44}, "less than 8 TiB")],
)
def test_a_capacity_that_does_not_fit_is_refused(options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        whatif.log_structured(rows([("write", 16, 8)]), capacity_bytes=options["capacity_bytes"])


@pytest.mark.parametrize("place", [(-8, 8), (0, -8), (2**62, 2**62), (2**63 - 1, 1), (0, 2**60)])
def test_a_place_that_no_device_has_is_refused(place: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="which is impossible"):
        accesses(rows([("write", 0, 8), ("read", *place)]))


def test_several_devices_are_refused() -> None:
    asked = rows([("write", 0, 8), ("read", 0, 8)])
    both = asked.with_columns(dev=pl.Series([DEV, DEV + 1], dtype=pl.UInt32))
    with pytest.raises(InputError, match="several devices"):
        whatif.log_structured(both)
