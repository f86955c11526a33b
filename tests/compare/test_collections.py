"""Collections: finding captures, equal results on all executors, and captures that fail separately."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from support.blktrace_files import WRITE, Q, Record, action
from support.collected import captures_of_apps, trace

import androstep_analysis as androstep
from androstep_analysis import cli, compare, datasets
from androstep_analysis.compare.collections import Collection


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten captures of two apps, in directories of their own."""
    return captures_of_apps(tmp_path_factory.mktemp("captures"), 10)


def titles(*patterns: str | Path) -> list[str]:
    return [Path(place.address).name for place in androstep.collection(*patterns).places]


def test_captures_are_found_below_directories_and_by_patterns(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [*"13579", *"02468"]
    assert titles(captures) == titles(f"{captures}/**") == titles(f"{captures}/*/*") == everything
    assert titles(f"{captures}/mail/[0-4]") == titles(captures / "mail", captures / "mail" / "2")[:3] == [*"024"]
    monkeypatch.chdir(captures)
    assert titles("**") == titles(".") == everything
    with pytest.raises(androstep.InputError, match="nowhere: contains no capture"):
        androstep.collection("nowhere")
    with pytest.raises(androstep.InputError, match="invalid pattern"):
        androstep.collection("a**b")


def test_a_set_of_files_is_one_recording(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    for cpu in (0, 1):
        record = Record(action(Q, WRITE), time=1 + cpu, sequence=1, sector=8 * cpu, cpu=cpu)
        (tmp_path / "trace" / f"sda.blktrace.{cpu}").write_bytes(record.packed())
    for name in ("trace", "trace/sda"):
        [place] = androstep.collection(tmp_path / name).places
        assert Path(place.address).name == Path(name).name
    assert titles(tmp_path) == ["trace"]
    made, failed = Collection.ingest([tmp_path], tmp_path / "captures", jobs=1)
    assert (titles(tmp_path / "captures"), len(made), failed) == (["trace"], 1, {})


def test_facts_are_a_table_of_all(captures: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("junk")
    found = androstep.collection(captures, broken).facts()
    assert found["workload"].to_list() == ["game"] * 5 + ["mail"] * 5 + [None]
    assert found["error"].null_count() == 10 and "no known recording" in found["error"][-1]
    assert Path(found["place"][0]) == captures / "game" / "1"


def test_one_by_one_is_what_measure_all_gives(captures: Path) -> None:
    opened = [androstep.open(path) for path in sorted(captures.glob("*/*"))]
    for window_ns in (None, 10_000_000_000):
        told = androstep.collection(captures).measure("locality", window_ns=window_ns, jobs=1)
        assert told["error"].null_count() == told.height
        assert_frame_equal(
            told.drop("error"), compare.measure_all(opened, "locality", window_ns=window_ns), check_exact=True
        )


def test_a_released_dataset_is_a_collection(captures: Path, tmp_path: Path) -> None:
    released = datasets.release(sorted(captures.glob("*/*")), tmp_path / "released")
    found = androstep.collection(tmp_path)
    assert len(found) == 10
    told = found.measure("mix", jobs=1)
    assert_frame_equal(
        told.drop("error"), compare.measure_all(compare.of_release(released), "mix"), check_row_order=False
    )


def test_a_file_of_a_dataset_may_hold_several_captures(captures: Path, tmp_path: Path) -> None:
    """As others pack them."""
    fsspec = pytest.importorskip("fsspec")
    released = datasets.release(sorted(captures.glob("*/*")), tmp_path / "released")
    for name, table in datasets.parquet.tables(released).items():
        place = tmp_path / "packed" / "tables" / name / "all.parquet"
        place.parent.mkdir(parents=True)
        table.collect().write_parquet(place)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "packed"), "/elsewhere/packed", recursive=True)
    told = androstep.collection(released).measure("mix", jobs=1)
    for packed in (tmp_path / "packed", "memory://elsewhere/packed"):
        assert_frame_equal(androstep.collection(packed).measure("mix", jobs=1), told, check_row_order=False)


def test_captures_at_an_address(captures: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(captures), "/bucket/captures", recursive=True)
    near, far = androstep.collection(captures), androstep.collection("memory://bucket/captures/**")
    assert len(far) == len(near) == len(androstep.collection("memory://bucket"))
    assert_frame_equal(far.measure("mix", jobs=1), near.measure("mix", jobs=1), check_row_order=False)
    with pytest.raises(androstep.InputError, match="cannot be reached"):
        androstep.collection("nothing://bucket")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_lost_is_warned_of(jobs: int, captures: Path, tmp_path: Path) -> None:
    torn = trace(tmp_path / "torn.csv", 5)
    with torn.open("a") as file:
        file.write("torn,")
    with pytest.warns(androstep.LossWarning, match=r"torn\.csv"):
        found = androstep.collection(captures / "mail", torn).measure("mix", jobs=jobs)
    assert found["capture"].n_unique() == 6 and found["error"].null_count() == found.height


def test_the_same_recording_counts_once(captures: Path, tmp_path: Path) -> None:
    shutil.copytree(captures / "mail" / "0", tmp_path / "copy")
    found = androstep.collection(captures / "mail", tmp_path / "copy").measure("mix", jobs=1)
    assert found["capture_id"].n_unique() == 6  # with null
    assert "the same recording as 0" in found.drop_nulls("error")["error"].item()


def test_comparisons_grow_with_the_groups(captures: Path) -> None:
    found = androstep.collection(captures).compare("mix", by=["workload"], baseline="game")
    assert set(found["group_first"]) == {"game"} and set(found["group_second"]) == {"mail"}


def test_a_folder_of_traces_becomes_captures(tmp_path: Path) -> None:
    trace(tmp_path / "traces" / "a" / "trace.csv", 1)
    trace(tmp_path / "traces" / "b" / "trace.csv", 2)
    (tmp_path / "traces" / "notes.txt").write_text("no trace")
    made, failed = Collection.ingest([tmp_path / "traces"], tmp_path / "captures", jobs=1)
    assert [place.address for place in made.places] == [str(tmp_path / f"captures/{name}/trace.csv") for name in "ab"]
    assert list(failed) == [str(tmp_path / "traces" / "notes.txt")] and made.facts(jobs=1)["error"].null_count() == 2
    again, _ = Collection.ingest([tmp_path / "traces"], tmp_path / "captures", jobs=1)
    assert again.places == made.places
    with pytest.raises(androstep.InputError, match="does not exist"):
        Collection.ingest([tmp_path / "elsewhere"], tmp_path / "captures")


def test_the_command_makes_a_capture_of_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        trace(tmp_path / "traces" / f"{seed}.csv", seed)
    words = ["ingest", "--each", str(tmp_path / "traces"), "-o", str(tmp_path / "made"), "--fact", "workload=mail"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == f"3 captures in {tmp_path}/made\n"
    assert androstep.collection(tmp_path / "made").facts()["workload"].to_list() == ["mail"] * 3
    (tmp_path / "traces" / "notes").write_text("no trace")
    assert cli.main(words) == 1
    said = capsys.readouterr()
    assert said.out.startswith("3 captures in ") and "notes: no known recording" in said.err
    assert "1 of 4 recordings failed" in said.err
    with pytest.raises(SystemExit):
        cli.main([*words, "--image-after", "a.img"])


def test_a_capture_is_pickled_by_its_path(captures: Path) -> None:
    opened = androstep.open(captures / "mail" / "0")
    again = pickle.loads(pickle.dumps(opened))
    assert again.facts == opened.facts and again.io.collect().equals(opened.io.collect())
    with pytest.raises(TypeError, match="only a whole capture can be pickled"):
        pickle.dumps(opened.window(0, 1))
