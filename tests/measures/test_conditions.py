"""Conditions of --where: the rows that match, compared with plain Python, and refused conditions."""

from __future__ import annotations

import fnmatch

import polars as pl
import pytest

from androstep_analysis.common import conditions
from androstep_analysis.common.errors import InputError

MS = 10**6

PATHS = ["/data/a.db", "/data/b.db-wal", None, "/x[1].db", "/x1.db", "a\nb.db", "\u202e/ü.db", "", "&&", "]", "!"]

TABLE = pl.DataFrame(
    {
        "path": PATHS,
        "op": pl.Series(["read", "write", "write", None, "read", "flush", "read", "read", "read", "read", "read"]).cast(
            pl.Enum(["read", "write", "flush", "discard"])
        ),
        "sync": [True, False, None, True, False, True, True, True, True, True, True],
        "bytes": [4096, 65536, 0, None, 1 << 40, 512, 1, 2, 3, 4, (1 << 53) + 1],
        "issue_ns": [0, 2 * MS, 5 * MS - 1, 5 * MS, None, 9 * MS, 1, 2, 3, 4, (1 << 62) + 1],
        "dev": pl.Series([8 << 20 | 1] * 10 + [259 << 20 | 13], dtype=pl.UInt32),
        "names": [["a.db", "b"], [], None, ["c"], [None], ["b"], [], [], [], [], []],
        "share": [0.5, 0.25, None, 1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7],
        "row": range(11),
    }
)


def kept(*stated: str) -> list[int]:
    found = conditions.matching(TABLE, stated, {"app": pl.col("path"), "time": (pl.col("issue_ns") + MS).alias("t_ns")})
    lazily = conditions.matching(
        TABLE.lazy(), stated, {"app": pl.col("path"), "time": pl.col("issue_ns") + MS}
    ).collect()
    assert found.equals(lazily)
    return found["row"].to_list()


@pytest.mark.parametrize(
    ("stated", "rows"),
    [
        ("op=write", [1, 2]),
        ("op=*r*e*", [0, 1, 2, 4, 6, 7, 8, 9, 10]),
        ("op=", [3]),
        ("op!=", [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]),
        ("sync=false", [1, 4]),
        ("sync!=true", [1, 2, 4]),
        ("bytes=64KiB", [1]),
        ("bytes!=64k", [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("bytes>=1TiB", [4, 10]),
        ("bytes>9007199254740992", [10]),
        ("bytes<0.5KiB", [2, 6, 7, 8, 9]),
        ("bytes<=0.5KiB", [2, 5, 6, 7, 8, 9]),
        ("bytes>2.5", [0, 1, 4, 5, 8, 9, 10]),
        ("bytes=..512", [2, 6, 7, 8, 9]),
        ("issue_ns=2ms..5ms", [1, 2]),
        ("issue_ns=0.005s..", [3, 5, 10]),
        ("issue_ns>=4611686018427387905", [10]),
        ("time=3ms..6ms", [1, 2]),
        ("dev=259:13", [10]),
        ("dev!=8:1", [10]),
        ("names=b", [0, 5]),
        ("names=*.db", [0]),
        ("share>=0.6", [3, 9, 10]),
        ("app=/data/*", [0, 1]),
    ],
)
def test_which_rows_a_condition_keeps(stated: str, rows: list[int]) -> None:
    assert kept(stated) == rows


@pytest.mark.parametrize(
    "glob",
    ["*.db", "/data/?.db*", "*[0-9].db", "*[!0-9].db", "a*b*", "*ü*", "&&", "[&~]*", "[]]", "[!]]", "[!z-a]", "[z-"],
)
def test_a_pattern_matches_what_fnmatch_does(glob: str) -> None:
    expected = [row for row, path in enumerate(PATHS) if path is not None and fnmatch.fnmatchcase(path, glob)]
    others = [row for row in range(len(PATHS)) if row not in expected]
    for stated, rows in ((f"path={glob}", expected), (f"path!={glob}", others)):
        if rows:
            assert kept(stated) == rows
        else:
            with pytest.raises(InputError, match="no row matches"):
                kept(stated)


def test_what_has_the_name_itself_matches_too() -> None:
    assert kept("path=/x[1].db") == [3, 4]


def test_all_must_hold() -> None:
    assert kept("op=write", "bytes>0", "sync=false") == [1]


def test_an_empty_table_has_no_row_to_miss() -> None:
    assert conditions.matching(TABLE.clear(), ["op=read"]).is_empty()


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (["pth=a"], "there is no column pth (did you mean path?); columns are path, op, sync"),
        (["op=wriet"], "op is read or write or flush or discard"),
        (["op>=read"], "op is text; it takes = and !="),
        (["sync=1"], "sync is true or false"),
        (["sync<true"], "sync is true or false; it takes"),
        (["bytes=much"], "bytes takes a size such as 64KiB, not 'much'"),
        (["bytes=4ms"], "bytes takes a size"),
        (["bytes>="], "bytes takes a size"),
        (["bytes=999999999999999999TiB"], "is too large"),
        (["issue_ns>2MiB"], "issue_ns takes a time such as 10ms"),
        (["dev=sda"], "dev takes a device MAJOR:MINOR"),
        (["dev=7:0"], "no row matches; dev is 8:1, 259:13"),
        (["path=/data/a.bd"], "no row matches; path is /data/a.db, "),
        (["bytes=8k"], "no row matches; bytes is 0 B to 8,192 TiB"),
        (["op=write", "bytes=4k"], "each matches some rows, and no row matches all of them"),
        (["op"], "write COLUMN=VALUE"),
        (["=read"], "write COLUMN=VALUE"),
        (["path=\udcff"], "is not valid UTF-8"),
    ],
)
def test_what_is_refused(stated: list[str], said: str) -> None:
    with pytest.raises(InputError) as error:
        conditions.matching(TABLE, stated)
    assert said in str(error.value)
