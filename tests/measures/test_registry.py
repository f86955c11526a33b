"""The registry of measures, and the example of CONTRIBUTING.md that adds one."""

from __future__ import annotations

import re
from collections import Counter
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
        {"op": ["read", "read", "write", "write"], "error": [0, 5, 5, 5], "nr_sectors": [8, 8, 16, 8], "pid": 1}
    ).with_columns(issue_ns=pl.lit(1), complete_ns=pl.lit(2))
    found = module["ERRORS"].of({"requests": requests.lazy()}, ())
    expected = Counter(op for op, error in requests.select("op", "error").iter_rows() if error)
    assert dict(found.filter(metric="count").select("op", "value").iter_rows()) == expected
    assert dict(found.filter(metric="bytes").select("op", "value").iter_rows()) == {"read": 4096, "write": 12288}


def test_every_measure_is_public_and_of_tables_that_schemas_name() -> None:
    elsewhere = {"bench", "replay", "samples", "starts"}  # in the packages of their tables
    assert compare.measures().keys() - elsewhere <= set(measures.__all__)
    assert {table for one in compare.measures().values() for table in one.needs} <= set(schema.names())
    assert DIMENSIONS.keys() <= set(schema.names())
