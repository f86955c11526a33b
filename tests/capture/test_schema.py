"""Test that schema files are well-formed and equal in polars and pyarrow, and that `conform` rejects other tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from androstep_analysis import schema

ROOT = Path(__file__).resolve().parents[2]
FILES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "schemas").glob("*.json"))
}
TABLES = list(FILES)
COLUMNS = [(name, column) for name, raw in FILES.items() for column in raw["columns"]]

VALUE: dict[str, Any] = {"int64": 1 << 40, "int32": -1, "uint32": 0xFFFF_FFFF, "bool": True, "string": "ä"}
"""A value for each scalar type, near the end of its range."""


def value(column: dict[str, Any]) -> Any:
    """Return a valid value for the column."""
    if column["dtype"] == "enum":
        return column["values"][-1]
    if column["dtype"].startswith("list<"):
        return [VALUE[column["dtype"][5:-1]]]
    return VALUE[column["dtype"]]


def one_row(name: str) -> pl.DataFrame:
    """Return a row of table `name` without nulls."""
    return pl.DataFrame(
        [{column["name"]: value(column) for column in FILES[name]["columns"]}], schema=schema.table(name).polars
    )


# -- the files --------------------------------------------------------------------------------------------------------


def test_every_table_of_the_design_has_a_schema() -> None:
    assert set(TABLES) == {
        *("block_events", "fs_events", "captures", "requests", "extents", "files"),
        *("tasks", "io", "samples", "bench", "bench_runs", "bench_series", "bench_ops", "syscalls"),
        *("commands", "bios", "writebacks"),
        *("operations", "replay_files", "replay_threads", "replay_dependencies", "replay_runs", "replay_ops"),
        *("call_events", "frame_events", "frames", "importance", "steps", "gui_states", "device_model"),
        *("blocked", "switch_events"),
        "slow",
    }
    assert schema.names() == tuple(TABLES)


def test_files_have_the_stated_shape() -> None:
    for name, raw in FILES.items():
        assert set(raw) == {"table", "version", "description", "columns"}, name
        assert raw["table"] == name
        assert isinstance(raw["version"], int) and raw["version"] >= 1, name
        assert raw["description"].endswith("."), name
        column_names = [column["name"] for column in raw["columns"]]
        assert len(column_names) == len(set(column_names)), name


def test_columns_have_the_stated_shape() -> None:
    for name, column in COLUMNS:
        where = f"{name}.{column.get('name')}"
        keys = {"name", "dtype", "unit", "nullable", "meaning"}
        assert set(column) == (keys | {"values"} if column["dtype"] == "enum" else keys), where
        assert column["name"].isidentifier() and column["name"].islower(), where
        assert column["dtype"] in {*VALUE, "enum", "list<int64>", "list<string>"}, where
        assert isinstance(column["nullable"], bool), where
        assert column["meaning"].endswith("."), where
        values = column.get("values", [])
        assert len(values) == len(set(values)) and all(v.isidentifier() for v in values), where


def test_a_unit_suffix_states_the_unit() -> None:
    units = {"ns": "ns", "bytes": "B", "sectors": "512 B sectors", "sector": "512 B sectors", "ratio": "1"}
    for name, column in COLUMNS:
        suffix = column["name"].split("_")[-1]
        assert column["unit"] == units.get(suffix, column["unit"]), f"{name}.{column['name']}"


def test_device_numbers_and_times_have_one_type() -> None:
    for name, column in COLUMNS:
        if column["name"].split("_")[-1] == "dev":
            assert column["dtype"] == "uint32", f"{name}.{column['name']}"
        if column["unit"] in {"ns", "B", "512 B sectors"}:
            assert column["dtype"] in {"int64", "list<int64>"}, f"{name}.{column['name']}"


def test_an_enum_of_several_tables_has_the_same_values_everywhere() -> None:
    """Except `event`, because each table of events has its own events."""
    seen: dict[str, tuple[str, list[str]]] = {}
    for name, column in COLUMNS:
        if column["dtype"] == "enum" and column["name"] != "event":
            first, values = seen.setdefault(column["name"], (name, column["values"]))
            assert column["values"] == values, f"{column['name']} differs between {first} and {name}"


def test_the_pages_of_tables_and_definitions_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "tables_md.py", tmp_path], check=True)
    for page in ("tables.md", "definitions.md"):
        assert (ROOT / "docs" / page).read_text("utf-8") == (tmp_path / page).read_text("utf-8"), "run `make tables`"


def test_every_definition_has_a_text() -> None:
    definitions = schema.definitions()
    assert definitions.pop("version") >= 1
    for name, definition in definitions.items():
        assert set(definition) - {"source"} == {"title", "text"}, name
        assert definition["text"].endswith("."), name


# -- polars and pyarrow -----------------------------------------------------------------------------------------------


def value_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type of the values, regardless of their storage (dictionary, 64-bit offsets)."""
    if pa.types.is_dictionary(dtype):
        return value_type(dtype.value_type)
    if pa.types.is_large_list(dtype) or pa.types.is_list(dtype):
        return pa.list_(value_type(dtype.value_type))
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return pa.string()
    return dtype


def test_polars_and_arrow_agree() -> None:
    for name, raw in FILES.items():
        stated = schema.table(name).arrow
        exported = schema.empty(name).to_arrow().schema
        assert exported.names == stated.names == [column["name"] for column in raw["columns"]], name
        assert [value_type(dtype) for dtype in exported.types] == [value_type(dtype) for dtype in stated.types], name


def test_a_row_goes_through_arrow_and_back() -> None:
    for name, raw in FILES.items():
        row, stated = one_row(name), schema.table(name).arrow
        table = pa.Table.from_pylist(row.to_dicts(), schema=stated)
        assert table.to_pylist() == row.to_dicts(), name
        assert [field.nullable for field in stated] == [column["nullable"] for column in raw["columns"]], name
        meanings = [field.metadata[b"meaning"].decode() for field in stated]
        assert meanings == [column["meaning"] for column in raw["columns"]], name
        back = pl.DataFrame(table).cast(dict(schema.table(name).polars))
        assert schema.conform(back, name).equals(row), name


# -- the gate ---------------------------------------------------------------------------------------------------------


def test_conform_puts_columns_in_order() -> None:
    for name in TABLES:
        row = one_row(name)
        assert schema.conform(row.select(reversed(row.columns)), name).equals(row), name
        assert schema.conform(schema.empty(name), name).schema == row.schema, name


def test_conform_refuses_a_missing_column() -> None:
    for name, column in COLUMNS:
        with pytest.raises(schema.SchemaError, match=rf"schemas/{name}\.json: missing {column['name']}$"):
            schema.conform(schema.empty(name).drop(column["name"]), name)


def test_conform_refuses_another_type() -> None:
    for name, column in COLUMNS:
        other = pl.Binary() if column["dtype"] != "int64" else pl.Int32()
        frame = schema.empty(name).with_columns(pl.lit(None, other).alias(column["name"]))
        with pytest.raises(schema.SchemaError, match=rf"\b{column['name']} is {other!r}, not "):
            schema.conform(frame, name)


def test_conform_refuses_nulls_exactly_where_the_schema_has_none() -> None:
    for name, column in COLUMNS:
        row = one_row(name)
        nulled = row.with_columns(pl.lit(None, row.schema[column["name"]]).alias(column["name"]))
        frame = pl.concat([row, nulled, nulled])
        if column["nullable"]:
            assert schema.conform(frame, name).equals(frame), f"{name}.{column['name']}"
        else:
            with pytest.raises(schema.SchemaError, match=rf"\b{column['name']} has 2 nulls"):
                schema.conform(frame, name)


def test_conform_refuses_an_unexpected_column() -> None:
    with pytest.raises(schema.SchemaError, match=r"unexpected colour$"):
        schema.conform(one_row("requests").with_columns(colour=pl.lit("red")), "requests")


def test_conform_refuses_an_enum_with_other_values_or_another_order() -> None:
    ops = schema.enum("requests", "op").categories.to_list()
    for values in (ops[:-1], [*ops, "erase"], ops[::-1]):
        frame = one_row("requests").with_columns(op=pl.lit(ops[1]).cast(pl.Enum(values)))
        with pytest.raises(schema.SchemaError, match=r"\bop is Enum"):
            schema.conform(frame, "requests")


def test_conform_names_every_problem_at_once() -> None:
    frame = one_row("requests").drop("sector", "rwbs").with_columns(pl.col("dev").cast(pl.Int64), colour=pl.lit(1))
    with pytest.raises(schema.SchemaError) as caught:
        schema.conform(frame, "requests")
    assert str(caught.value).endswith("missing sector, rwbs; unexpected colour; dev is Int64, not UInt32")


def test_conform_does_not_run_a_lazy_frame() -> None:
    def explode(frame: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError("the frame was run")

    row = one_row("requests")
    lazy = row.lazy().map_batches(explode, schema=row.schema)
    conformed = schema.conform(lazy, "requests")
    assert isinstance(conformed, pl.LazyFrame) and conformed.collect_schema() == row.schema
    with pytest.raises(schema.SchemaError, match=r"missing sector$"):
        schema.conform(lazy.drop("sector"), "requests")
    with pytest.raises(AssertionError, match="the frame was run"):
        conformed.collect()


def test_an_unknown_table_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no table called '\.\./request'; there are bench, bench_ops, "):
        schema.table("../request")


def test_a_table_of_an_earlier_version_is_completed_with_columns_and_values() -> None:
    earlier = schema.empty("requests").drop("rwbs").with_columns(pl.col("matched").cast(pl.Enum(["full", "split"])))
    assert schema.complete(earlier, "requests").schema == schema.table("requests").polars
    with pytest.raises(schema.SchemaError, match="matched is"):
        schema.complete(earlier.with_columns(matched=pl.lit("lost", pl.Enum(["lost"]))), "requests")
