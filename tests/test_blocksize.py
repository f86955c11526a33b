"""The block size of a filesystem: told, or proven by its requests."""

from __future__ import annotations

import polars as pl
import pytest
from blocks import DEV

from androstep_analysis import schema
from androstep_analysis.link import blocksize, rwbs
from androstep_analysis.link.requests import Requests


def linked(*places: tuple[int, int]) -> Requests:
    """Writes of (sector, sectors) on one device."""
    rows = [
        {"request_id": at, "dev": DEV, "part_dev": DEV, "sector": sector, "part_sector": sector, "nr_sectors": length,
         "op": "write", "nr_bios": 1, "matched": "full", **dict.fromkeys(rwbs.FLAGS, False)}
        for at, (sector, length) in enumerate(places)
    ]  # fmt: skip
    requests = pl.DataFrame(rows, schema=schema.table("requests").polars)
    bios = requests.select("request_id", "sector", "nr_sectors")
    return Requests(requests.lazy(), schema.complete(bios, "bios").lazy())


@pytest.mark.parametrize(
    ("places", "known"),
    [
        ([(8, 8), (160, 16)], {DEV: 4096}),
        ([(8, 8), (162, 2)], {}),  # blocks of 1 KiB
        ([(16, 16), (160, 32)], {}),  # or of 8 KiB
        ([], {}),
    ],
)
def test_blocks_are_of_the_usual_size_only_where_requests_prove_it(places, known):
    assert blocksize.known({}, linked(*places)) == known


def test_what_is_told_needs_no_proof():
    assert blocksize.known({DEV: 1024}, linked((8, 8))) == {DEV: 1024}
