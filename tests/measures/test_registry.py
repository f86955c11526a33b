"""The registry of measures, and the example of CONTRIBUTING.md that adds one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import compare, measures
from androstep_analysis.common import schema
from androstep_analysis.measures.measure import DIMENSIONS

ROOT = Path(__file__).parents[2]


def added(markdown: str) -> dict[str, str]:
    """Return the lines that the diff in a page adds to each file."""
    diff = re.search(r"```diff\n(.*?)```", markdown, re.DOTALL)
    assert diff is not None
    parts = re.split(r"(?m)^\+\+\+ (.+)\n", diff[1])
    return {path: re.sub(r"(?m)^\+", "", text) for path, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_the_example_of_a_measure_measures() -> None:
    files = added((ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Add a measure")[1])
    code, *others = files
    assert others == ["androstep_analysis/measures/__init__.py", "schemas/definitions.toml"]
    module: dict[str, Any] = {}
    exec(compile(files[code], code, "exec"), module)
    requests = pl.DataFrame(
        {
            "op": ["read", "write", "write", "write", "write", "flush", None],
            "preflush": [False, True, False, True, None, True, None],
            "fua": [False, False, True, True, None, False, True],
        }
    ).with_columns(issue_ns=pl.lit(1), complete_ns=pl.lit(2))
    found = module["BARRIERS"].of({"requests": requests.lazy()}, ())
    assert dict(found.select("op", "value").iter_rows()) == {None: 1, "read": 0, "write": 3, "flush": 1}
    assert dict(found.select("op", "n").iter_rows()) == {None: 1, "read": 1, "write": 4, "flush": 1}


def test_every_measure_is_public_and_of_tables_that_schemas_name() -> None:
    elsewhere = {"bench", "replay", "samples", "starts"}  # in the packages of their tables
    assert compare.measures().keys() - elsewhere <= set(measures.__all__)
    assert {table for one in compare.measures().values() for table in one.needs} <= set(schema.names())
    assert DIMENSIONS.keys() <= set(schema.names())
