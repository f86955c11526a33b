"""The native library: the agreement of C and Python, and its string table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import native, schema
from androstep_analysis.ingest.staging import TABLES

ROOT = Path(__file__).resolve().parents[2]
CORE, LINK = "core/table.h", "link/requests.h"


def enumerators(header: str, tag: str) -> list[str]:
    """Return the names in ``enum tag`` of a header in native/, in order."""
    body = re.search(rf"enum {tag} \{{(.*?)\}}", (native.LIBRARY.parent / header).read_text(), re.DOTALL)
    assert body is not None
    return re.findall(r"\w+", re.sub(r"//.*", "", body[1]))


@pytest.mark.parametrize(
    ("header", "prefix", "name"),
    [(CORE, "block", "block_events"), (LINK, "request", "requests"), (LINK, "bio", "bios")],
)
def test_columns_are_those_of_the_schema(header: str, prefix: str, name: str) -> None:
    names = [f"{prefix}_{column.name}".replace("request_request_", "request_") for column in schema.table(name).columns]
    assert enumerators(header, f"{prefix}_column") == [name.upper() for name in names]


def test_actions_are_those_of_the_schema() -> None:
    values = schema.table("block_events").column("action").values
    assert enumerators(CORE, "action") == [f"ACTION_{value.upper()}" for value in values]


@given(st.lists(st.binary(max_size=40), max_size=600))
def test_strings_are_a_dictionary(texts: list[bytes]) -> None:
    strings = native.Strings()
    known: dict[bytes, int] = {}
    for text in texts:
        assert strings.add(text) == known.setdefault(text, len(known))
    assert len(strings) == len(known)
    assert strings.array().to_pylist() == [text.decode(errors="backslashreplace") for text in known]


def test_many_strings() -> None:
    strings = native.Strings()
    texts = [f"/data/file{number}" for number in range(200_000)]
    assert [strings.add(text.encode()) for text in texts] == list(range(200_000))
    assert [strings.add(text.encode()) for text in texts[::-1]] == list(range(199_999, -1, -1))
    assert strings.array().to_pylist() == texts


@pytest.mark.parametrize("name", TABLES)
def test_a_row_without_values_is_null_everywhere(name: str) -> None:
    table = native.Table(name, 3)
    table._c.rows = 2
    rows = table.arrow()
    assert rows.num_rows == 2
    assert rows.column_names == [column.name for column in schema.table(name).columns]
    assert {column.null_count for column in rows.columns} == {2}
    table.clear()
    assert table.rows == table.arrow().num_rows == 0


def test_what_a_table_gave_does_not_change() -> None:
    table = native.Table("block_events", 4)
    table._c.rows = 1
    table.column("ts_ns")[0] = 7
    table.column("sector")[0] = 8
    table.column("comm")[0] = table.strings.add(b"one")
    table.column("action")[0] = 3
    given = table.arrow()
    before = given.to_pylist()
    assert [before[0][name] for name in ("ts_ns", "sector", "comm", "action", "dev")] == [7, 8, "one", "issue", None]
    table.clear()
    assert given.to_pylist() == before
