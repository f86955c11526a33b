"""Test SQL over a capture: compare the queries of docs/sql.md with DuckDB and the measures, and refuse file access."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import InputError, cli, measures, schema
from androstep_analysis.capture import Capture

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
QUESTIONS = re.findall(r'^\d+\. (.*?)\n\n```python\ncapture\.sql\("+(.*?)"+\)', PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def demo() -> Capture:
    return androstep.open(ROOT / "datasets" / "demo")


@pytest.fixture(scope="module")
def beside(demo: Capture) -> duckdb.DuckDBPyConnection:
    """Return the same tables in DuckDB, created with the capture's own DDL."""
    connection = duckdb.connect()
    for name, table in demo.tables.items():
        connection.execute(schema.table(name).ddl)
        rows = table.with_columns(pl.col(pl.Enum).cast(pl.String)).collect().to_arrow()
        connection.register("rows", rows)
        connection.execute(f"insert into {name} select * from rows")
    return connection


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20


@pytest.mark.parametrize(("question", "query"), QUESTIONS, ids=range(1, 21))
def test_a_question_has_the_answer_that_duckdb_gives(
    question: str, query: str, demo: Capture, beside: duckdb.DuckDBPyConnection
) -> None:
    ours, theirs = demo.sql(query), pl.DataFrame(beside.sql(query).to_arrow_table())
    assert ours.height, question
    numbers = {name: pl.Float64 for name, dtype in ours.schema.items() if dtype.is_numeric()}
    assert_frame_equal(ours.cast(numbers), theirs.cast(numbers), check_exact=False, rel_tol=1e-6)


def test_answers_are_those_of_the_measures(demo: Capture) -> None:
    def asked(number: int) -> pl.DataFrame:
        return demo.sql(QUESTIONS[number - 1][1])

    written = measures.volume(demo.io, by=["owner_comm"]).filter(metric="bytes", op="write")
    most = written.drop_nulls("owner_comm").sort("value")[-1]
    assert asked(1).row(0) == (most["owner_comm"].item(), most["value"].item())
    latency = measures.latency(demo.requests).filter(step="D2C", op="flush")
    taken = dict(latency.select(pl.col("quantile").cast(pl.String), "value").rows())
    assert asked(5).row(0) == (taken["p50"], taken["max"])
    placed = measures.locality(demo.requests).filter(op="write", metric="count_ratio")
    consecutive = placed.filter(pl.col("class") == "consecutive")["value"].item()
    assert asked(9).item() == pytest.approx(consecutive, abs=1e-3)  # the first one has no predecessor here
    types = measures.file_types(demo.io).filter(metric="bytes", op="write", file_type="sqlite_journal")
    assert asked(11).filter(file_type="sqlite_journal")["bytes"].item() == types["value"].sum()


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{file}')",
        "select * from READ_PARQUET('{file}')",
        "select * from \"read_csv\"('{file}')",
        "select * from read_csv/**/('{file}')",
        "select 1 as x, $$'$$ as y union all select * from read_csv('{file}') -- '",
        "select * from '{file}'",
        "select * from scan_csv('{file}')",
        "copy requests to '{file}'",
        "create table x as select * from io",
        "drop table io",
        "delete from io",
        "attach '{file}' as x",
        "select 1; select 2",
        "selec",
        "",
        "-- nothing",
    ],
)
def test_nothing_but_the_tables_is_read_and_nothing_is_changed(query: str, demo: Capture, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(InputError):
        demo.sql(query.format(file=file))
    assert file.read_text() == "a,b\n1,2\n" and [*tmp_path.iterdir()] == [file]
    assert demo.sql("select count(*) as n from io").item() == demo.about["rows"]["io"]


def test_an_unknown_name_in_a_query_is_reported_with_the_known_ones(demo: Capture) -> None:
    with pytest.raises(InputError, match='unable to find column "nope"; io has request_id, piece, dev'):
        demo.sql("select nope from io")
    with pytest.raises(InputError, match="relation 'nope' was not found; the tables are block_events"):
        demo.sql("select * from nope")


def test_a_window_is_asked_as_the_whole_is(demo: Capture) -> None:
    assert demo.first_ns is not None and demo.last_ns is not None
    half = demo.window(demo.first_ns, (demo.first_ns + demo.last_ns) // 2)
    assert half.sql("/* all */ (select count(*) as n from requests)").item() == half.population["count"]


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sql", str(ROOT / "datasets" / "demo"), "select op, sum(bytes) as bytes from io group by op order by op"]
    assert cli.main(asked) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "discard  19.14 MiB",
        "flush          0 B",
        "read     13.88 MiB",
        "write    35.52 MiB",
    ]
    assert cli.main([*asked, "-o", str(tmp_path / "answer.parquet")]) == 0
    assert pl.read_parquet(tmp_path / "answer.parquet")["bytes"].sum() == 71_864_320
    assert cli.main([*asked[:2], "select path from nowhere"]) == 1
    assert capsys.readouterr().err.startswith("androstep: the query failed: relation 'nowhere'")


def test_every_table_can_be_made_by_its_ddl() -> None:
    connection = duckdb.connect()
    for name in schema.names():
        connection.execute(schema.table(name).ddl)
        described = connection.execute(f"describe {name}").fetchall()
        assert [row[0] for row in described] == [column.name for column in schema.table(name).columns]
