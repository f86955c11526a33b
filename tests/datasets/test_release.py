"""A release contains the captures' data, is readable by other tools, and is reproducible byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import yaml
from support.released import CAPTURES, HOSTILE, contents, hostile_capture, rows
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import capture, datasets, schema
from androstep_analysis.capture.tables import key as derivation_key
from androstep_analysis.cli import main
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import anonymise, parquet
from androstep_analysis.datasets.documents import LICENCES

DESCRIBED = datasets.Description(
    name="Some <b>captures</b> | of `mine`",
    version="2.1.0",
    creators=("Doe, Jane", 'The "Lab": #1'),
    licence="CC-BY-4.0",
    url="https://example.org/data?x=1",
    published="2026-01-31",
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [*CAPTURES, hostile_capture(tmp_path_factory.mktemp("hostile"))]


@pytest.fixture(scope="module")
def plain(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return datasets.release(sources, tmp_path_factory.mktemp("releases") / "plain", DESCRIBED)


@pytest.fixture(scope="module")
def hidden(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("releases")
    (directory / "key").write_bytes(bytes(range(32)))
    made = directory / "hidden"
    return datasets.release(sources, made, DESCRIBED, key_file=directory / "key", shift_times=True)


# -- what is in it -----------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_every_row_of_every_capture_is_in_it(plain: Path, sources: list[Path]) -> None:
    released = datasets.tables(plain)
    opened = [androstep.open(path) for path in sources]
    assert released["captures"].collect()["capture_id"].sort().to_list() == sorted(
        c.facts["capture_id"] for c in opened
    )
    for found in opened:
        for name, frame in anonymise.frames(found).items():
            if frame.is_empty():
                continue
            own = released[name].filter(pl.col("capture_id") == found.facts["capture_id"])
            kept = own.select(schema.table(name).polars.names()).collect()
            assert kept.schema == schema.table(name).polars
            pl.testing.assert_frame_equal(kept, frame, check_row_order=False)


def test_rows_are_in_the_order_of_their_columns(plain: Path) -> None:
    for path in plain.rglob("requests/**/*.parquet"):
        numbers = pl.read_parquet(path, glob=False, hive_partitioning=False)["request_id"]
        assert numbers.is_sorted()


def test_equal_rows_in_any_order_give_equal_bytes(tmp_path: Path) -> None:
    frame = rows("files", [{"ino": ino, "names": names} for ino in (3, 1, 1) for names in (["b"], ["a", "c"], [])])
    parquet.write(frame, "files", "c", tmp_path / "a")
    parquet.write(frame.sample(fraction=1, shuffle=True, seed=1), "files", "c", tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_hold_no_metadata_of_the_writer(plain: Path) -> None:
    for path in plain.rglob("*.parquet"):
        assert pq.read_schema(path).metadata is None, "neither Arrow's nor polars' schema"
        assert pq.read_schema(path).equals(parquet.arrow(schema.table(path.relative_to(plain).parts[1])))


def test_schemas_and_definitions_are_those_of_the_library(plain: Path) -> None:
    names = {path.stem for path in (plain / "schemas").iterdir()}
    assert names == {path.name for path in (plain / "tables").iterdir()}
    for path in [*(plain / "schemas").iterdir(), plain / "definitions.toml"]:
        assert path.read_bytes() == (schema.directory() / path.name).read_bytes()
    assert tomllib.loads((plain / "definitions.toml").read_text("utf-8"))


def test_provenance_tells_sources_and_derivation(plain: Path, sources: list[Path]) -> None:
    provenance = json.loads((plain / "provenance.json").read_text("utf-8"))
    assert provenance["made_by"]["polars"] == pl.__version__
    by_id = {row["capture_id"]: row for row in provenance["captures"]}
    for found in map(androstep.open, sources):
        row = by_id[found.manifest.capture_id]
        assert {s["sha256"] for s in row["sources"]} == {s.sha256 for s in found.manifest.sources}
        assert row["derivation_key"] == derivation_key(found.manifest)
        assert row["rows"]["captures"] == 1
    about = json.loads((CAPTURES[0] / "tables/about.json").read_text("utf-8"))
    assert about["key"] in {row["derivation_key"] for row in provenance["captures"]}, "as the cache of the capture says"


def test_the_summary_is_that_of_the_captures(plain: Path) -> None:
    page = (plain / "README.md").read_text("utf-8")
    demo = androstep.open(CAPTURES[0])
    counts = androstep.measures.mix(demo.requests)
    total = counts.filter((pl.col("metric") == "count") & pl.col("op").is_not_null())["value"].sum()
    line = next(line for line in page.splitlines() if line.startswith(f"| {demo.facts['capture_id']}"))
    assert line.split(" | ")[6] == f"{total:,.0f}"
    types = androstep.measures.block_types(demo.io)
    journal = types.filter((pl.col("block_type") == "journal") & (pl.col("metric") == "count"))["value"].sum()
    assert f"| write | journal | {journal:,.0f} |" in page
    assert "# Some &lt;b&gt;captures&lt;/b&gt; \\| of \\`mine\\`" in page
    assert "<b>" not in page


# -- the same bytes ----------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_made_again_elsewhere_it_is_the_same(hidden: Path, sources: list[Path], tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(range(32)))
    out = tmp_path / "other" / "another name"
    words = [
        *("release", *map(str, reversed(sources)), "--name", DESCRIBED.name, "--version", DESCRIBED.version),
        *(word for creator in DESCRIBED.creators for word in ("--creator", creator)),
        *("--licence", "CC-BY-4.0", "--url", str(DESCRIBED.url), "--published", str(DESCRIBED.published)),
        *("-o", str(out), "--anonymise", "key", "--shift-times"),
    ]
    variables = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "77", "POLARS_MAX_THREADS": "1"}
    program = "import os, sys; os.umask(0o077); from androstep_analysis.cli import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run(
        [sys.executable, "-c", program, *words],
        check=True,
        cwd=tmp_path,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
    )
    made, known = contents(out), contents(hidden)
    assert [name for name in made.keys() | known.keys() if made.get(name) != known.get(name)] == []
    rights = {path.name: path.stat().st_mode & 0o777 for path in (out, out / "README.md", out / "tables")}
    assert rights == {out.name: 0o755, "README.md": 0o644, "tables": 0o755}


# -- opened by others --------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("release", ["plain", "hidden"])
def test_four_readers_agree(release: str, request: pytest.FixtureRequest) -> None:
    directory = request.getfixturevalue(release)
    stated = json.loads((directory / "manifest.json").read_text("utf-8"))["tables"]
    assert len(stated) >= 12
    for name, entry in stated.items():
        place = str(directory / "tables" / name)
        glob = f"{place}/**/*.parquet"
        by_polars = pl.scan_parquet(glob, hive_partitioning=True, try_parse_hive_dates=False).collect()
        by_arrow = pa.dataset.dataset(place, partitioning="hive").to_table()
        by_pandas = pd.read_parquet(place, dtype_backend="numpy_nullable")
        by_duckdb = duckdb.sql(f"from read_parquet('{glob}', hive_partitioning = true)")
        assert by_polars.height == by_arrow.num_rows == len(by_pandas) == by_duckdb.shape[0] == entry["rows"]
        columns = set(by_polars.columns)
        assert columns == set(by_arrow.column_names) == set(by_pandas.columns) == set(by_duckdb.columns)
        assert columns >= {"capture_id", *parquet.PARTITIONS}
        for column in (c.name for c in schema.table(name).columns if c.dtype in ("int64", "int32", "uint32")):
            total = by_polars[column].cast(pl.Int128).sum()
            assert total == (pc.sum(by_arrow[column].cast(pa.decimal128(38, 0))).as_py() or 0), column
            assert total == sum(map(int, by_pandas[column].dropna())), column
            assert total == int(by_duckdb.aggregate(f'coalesce(sum("{column}"::hugeint), 0)').fetchall()[0][0]), column


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:mlcroissant")
def test_croissant_metadata_are_valid_and_load_records(plain: Path, hidden: Path) -> None:
    import mlcroissant

    for directory in (plain, hidden):
        dataset = mlcroissant.Dataset(jsonld=str(directory / "croissant.json"))
        assert not dataset.metadata.ctx.issues.errors
        assert not dataset.metadata.ctx.issues.warnings
        metadata = json.loads((directory / "croissant.json").read_text("utf-8"))
        assert metadata["conformsTo"] == "http://mlcommons.org/croissant/1.1"
        assert dataset.metadata.name == {"en": DESCRIBED.name} or dataset.metadata.name == DESCRIBED.name
        released = datasets.tables(directory)
        assert {record["@id"] for record in metadata["recordSet"]} == set(released)
        for name in ("captures", "files", "replay_runs"):
            frame = released[name].collect()
            records = list(dataset.records(name))
            assert len(records) == frame.height
            ids = sorted(record[f"{name}/capture_id"].decode() for record in records)
            assert ids == frame["capture_id"].sort().to_list()
        paths = {record["files/path"].decode() for record in dataset.records("files") if record["files/path"]}
        assert paths == set(released["files"].collect()["path"].drop_nulls())
        for file in metadata["distribution"]:
            if file["@type"] == "cr:FileObject":
                assert manifest.sha256(directory / file["contentUrl"]) == file["sha256"]


def test_sha256sum_finds_it_whole(plain: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=plain, check=True)


# -- documents ---------------------------------------------------------------------------------------------------------

CFF = {
    "cff-version": r"1\.2\.0",
    "message": r".+",
    "type": r"dataset|software",
    "title": r".+",
    "version": r".+",
    "license": "|".join(map(re.escape, LICENCES)),
    "url": r"(https|http|ftp|sftp)://.+",
    "date-released": r"[0-9]{4}-(0[1-9]|1[012])-(0[1-9]|[12][0-9]|3[01])",
}
"""The keys of schema.json of the Citation File Format 1.2.0 that are used here, and the form of their values."""


def check_citation(text: str) -> dict[str, Any]:
    """Check a CITATION.cff by the rules of its format and return it."""
    citation: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    assert {"authors", "cff-version", "message", "title"} <= citation.keys() <= CFF.keys() | {"authors"}
    assert all(re.fullmatch(form, citation[key]) for key, form in CFF.items() if key in citation)
    assert len(citation["authors"]) >= 1
    assert len({json.dumps(author) for author in citation["authors"]}) == len(citation["authors"])
    for author in citation["authors"]:
        assert author.keys() in ({"name"}, {"family-names", "given-names"})
        assert all(author.values())
    return citation


def test_the_citation_is_as_its_format_says(plain: Path) -> None:
    citation = check_citation((plain / "CITATION.cff").read_text("utf-8"))
    assert citation["authors"] == [{"family-names": "Doe", "given-names": "Jane"}, {"name": 'The "Lab": #1'}]
    assert (citation["title"], citation["version"], citation["license"]) == (DESCRIBED.name, "2.1.0", "CC-BY-4.0")
    assert "SPDX-License-Identifier: CC-BY-4.0\n" in (plain / "LICENSE").read_text("utf-8")


def test_a_release_that_says_nothing_of_itself_has_documents_too(tmp_path: Path) -> None:
    made = datasets.release([CAPTURES[1]], tmp_path / "r")
    assert check_citation((made / "CITATION.cff").read_text("utf-8"))["authors"] == [{"name": "Anonymous"}]
    assert "No licence was given" in (made / "LICENSE").read_text("utf-8")
    assert datasets.verify(made).problems == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": " "}, "name of the release is empty"),
        ({"version": "1.0"}, "write three numbers"),
        ({"version": "01.0.0"}, "write three numbers"),
        ({"licence": "CC-BY"}, "one of CC0-1.0, CC-BY-4.0"),
        ({"url": "javascript:alert(1)"}, "begins with https://"),
        ({"published": "2026-13-01"}, "write a date such as"),
        ({"creators": (" , ",)}, "--creator has no name"),
    ],
)
def test_a_description_that_no_citation_can_hold_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        datasets.Description(**given)


# -- names -------------------------------------------------------------------------------------------------------------


def test_hostile_facts_are_directories_inside_and_come_back(plain: Path) -> None:
    place = plain / "tables" / "syscalls"
    (directory,) = place.iterdir()
    assert directory.name == "capture_device=Pixel%206a%3B%20rm%20-rf%20%2F"
    found = pl.scan_parquet(f"{place}/**/*.parquet", hive_partitioning=True).collect()
    assert set(found["capture_device"]) == {HOSTILE["device"]}
    workload = found["capture_workload"][0]
    assert HOSTILE["workload"].startswith(workload.rpartition("~")[0])
    assert max(len(path.name) for path in plain.rglob("*")) < 200
    row = datasets.tables(plain)["captures"].filter(pl.col("workload") == HOSTILE["workload"]).collect()
    assert row["build_fingerprint"].to_list() == [HOSTILE["build_fingerprint"]], "whole in the table"


@pytest.mark.prove
def test_of_all_original_names_none_survives(hidden: Path, sources: list[Path]) -> None:
    files = contents(hidden)
    texts = [*files, *(data.decode() for name, data in files.items() if not name.endswith(".parquet"))]
    for path in hidden.rglob("*.parquet"):
        texts += [json.dumps(c.to_pylist(), ensure_ascii=False) for c in pq.read_table(path, partitioning=None).columns]
    everything = "\n".join(texts).lower()
    secrets = [
        "alice",
        "bob",
        "geheim",
        "urlaub",
        "pixel",
        "bluejay",
        "kludg",
        "deadbeef",
        "hyperlink",
        "naïve",
        "étude",
    ]
    secrets += ["com.example", ".example.mail", "wal.db-wal", "photo", "androstep demo", "phone.strace", "iobench file"]
    assert [word for word in secrets if word in everything] == []
    assert datasets.verify(hidden, without=sources).problems == ()


def test_what_is_no_name_is_as_it_was(plain: Path, hidden: Path) -> None:
    before, after = datasets.tables(plain), datasets.tables(hidden)
    for name, columns in {
        "requests": ["request_id", "sector", "nr_sectors", "op", "rwbs", "matched", "cpu"],
        "io": ["bytes", "block_type", "file_type", "owner_via", "map_source"],
        "syscalls": ["call", "flags", "bytes", "result", "error"],
        "bench_runs": ["test", "block_bytes", "sync_mode", "duration_ns"],
    }.items():
        kept = [table[name].select(columns).collect() for table in (before, after)]
        pl.testing.assert_frame_equal(*kept, check_row_order=False)
    files = after["files"].collect()
    assert files["path"].str.contains(r"/databases/[0-9a-f]{16}\.db(-wal|-journal|-shm)?\z").any()
    names = [table["io"].collect()["path"].n_unique() for table in (before, after)]
    assert names[0] == names[1]


def test_times_begin_at_0_and_intervals_stay(plain: Path, hidden: Path) -> None:
    captures = datasets.tables(hidden)["captures"].collect()
    assert captures["t_start_ns"].drop_nulls().unique().to_list() == [0]
    spans = [
        table["captures"].select(span=pl.col("t_end_ns") - pl.col("t_start_ns")).collect()["span"].sort().to_list()
        for table in (datasets.tables(plain), datasets.tables(hidden))
    ]
    assert spans[0] == spans[1]
    waits = [
        table["requests"].select(wait=pl.col("complete_ns") - pl.col("issue_ns")).collect()["wait"].sort().to_list()
        for table in (datasets.tables(plain), datasets.tables(hidden))
    ]
    assert waits[0] == waits[1]
    assert datasets.tables(hidden)["bench_runs"].select(pl.col("realtime_ns").min()).collect().item() == 0
    provenance = json.loads((hidden / "provenance.json").read_text("utf-8"))
    assert {row["realtime_offset_ns"] for row in provenance["captures"]} == {None}


def test_a_name_that_would_stay_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    made = hostile_capture(tmp_path)
    described = datasets.Description(creators=("Com.Alice.Diary",))
    with pytest.raises(InputError, match=r'would have stayed in it: "com\.alice\.diary" survives in CITATION\.cff'):
        datasets.release([made], tmp_path / "r", described, key_file=tmp_path / "key")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alice-phone.strace", "hostile", "key"]


def test_a_name_that_lies_there_by_chance_can_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    log = tmp_path / "x.strace"
    calls = ('openat(AT_FDCWD, "/bin/procmask", O_RDONLY) = 3', "rt_sigprocmask(SIG_SETMASK, [], NULL, 8) = 0")
    log.write_text("".join(f"1 1700000000.{n:06} {call} <0.000010>\n" for n, call in enumerate(calls, 1)))
    words = ["release", str(log), "-o", str(tmp_path / "r"), "--anonymise", str(tmp_path / "key")]
    assert main(words) == 1
    assert "exclude a name that occurs there by chance with --allow NAME" in capsys.readouterr().err
    assert main([*words, "--allow", "procmask"]) == 0
    assert "names in the captures, apart from procmask, 0 are left in it" in capsys.readouterr().out
    assert "/bin/procmask" not in datasets.tables(tmp_path / "r")["syscalls"].collect()["path"].to_list()
    again = ["verify", str(tmp_path / "r"), "--no-strings-of", str(log)]
    assert (main(again), main([*again, "--allow", "procmask"])) == (1, 0)


# -- what is refused, and the rest -------------------------------------------------------------------------------------


def test_what_cannot_be_released_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no capture was given"):
        datasets.release([], tmp_path / "r")
    with pytest.raises(InputError, match="the same capture as"):
        datasets.release([CAPTURES[1], shutil.copy(CAPTURES[1], tmp_path / "copy.rec.xz")], tmp_path / "r")
    with pytest.raises(InputError, match="exists already"):
        datasets.release([CAPTURES[1]], tmp_path)
    with pytest.raises(InputError, match="omit --raw"):
        datasets.release([CAPTURES[1]], tmp_path / "r", key_file=CAPTURES[1], raw=True)
    assert not (tmp_path / "r").exists()


def test_devices_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    made = []
    for number, device in enumerate(("Phone", "phone")):
        (tmp_path / device).write_text(f'{number}{number} openat(AT_FDCWD, "/x", O_RDONLY) = 3\n')
        capture.create([tmp_path / device], tmp_path / f"c{number}", capture.Description(facts={"device": device}))
        made.append(tmp_path / f"c{number}")
    with pytest.raises(InputError, match="the same name if case is ignored"):
        datasets.release(made, tmp_path / "r")


def test_raw_sources_are_copied_on_request(tmp_path: Path) -> None:
    made = datasets.release([CAPTURES[0]], tmp_path / "r", raw=True)
    kept = {manifest.sha256(path) for path in (made / "raw").rglob("*") if path.is_file()}
    assert kept == {source.sha256 for source in androstep.open(CAPTURES[0]).manifest.sources}
    assert datasets.verify(made).problems == ()


def test_no_release_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no directory tables"):
        datasets.tables(tmp_path)


def test_the_command_says_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_bytes(bytes(32))
    out = tmp_path / "r"
    source = str(ROOT / "datasets/replay/app.strace.xz")
    assert main(["release", source, "-o", str(out), "--anonymise", str(tmp_path / "key")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{out}: AndroStep captures 1.0.0"
    assert said[1] == f"sha256 of its SHA256SUMS: {manifest.sha256(out / 'SHA256SUMS')}"
    assert "--licence, --url, --published" in said[2]
    assert re.fullmatch(r"of \d+ names in the captures, 0 are left in it", said[3])
    assert main(["verify", str(out), "--no-strings-of", source]) == 0
    assert capsys.readouterr().out.endswith("files, all as released, and no name of the captures is in it\n")
