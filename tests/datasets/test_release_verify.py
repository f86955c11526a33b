"""`verify` finds every deviation from the release, reports it in one line, and reads nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from support.released import CAPTURES, contents

from androstep_analysis import datasets
from androstep_analysis.cli import main
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import sha256
from androstep_analysis.datasets.release import MANIFEST, SUMS, sums


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return datasets.release(CAPTURES[1:], tmp_path_factory.mktemp("releases") / "whole")


@pytest.fixture
def release(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "release"))


@pytest.fixture(scope="module")
def anonymised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("anonymised")
    (place / "key").write_bytes(bytes(range(32)))
    return datasets.release(CAPTURES[2:], place / "whole", key_file=place / "key")


@pytest.fixture
def hidden(anonymised: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(anonymised, tmp_path / "hidden"))


def first(release: Path, pattern: str) -> Path:
    return min(release.rglob(pattern))


def problems(release: Path) -> list[str]:
    return list(datasets.verify(release).problems)


def test_a_whole_release_has_no_problems(release: Path) -> None:
    found = datasets.verify(release)
    assert (found.problems, found.notes, found.files) == ((), (), len(contents(release)))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.999])
def test_one_flipped_byte_of_any_file_is_found(release: Path, share: float) -> None:
    for path in sorted(path for path in release.rglob("*") if path.is_file()):
        data = bytearray(path.read_bytes())
        data[int(len(data) * share)] ^= 1
        kept = path.read_bytes()
        path.write_bytes(data)
        found = problems(release)
        assert found, path
        assert path.name == "SHA256SUMS" or any(path.name in line for line in found)
        path.write_bytes(kept)
    assert problems(release) == []


def test_one_missing_file_is_found(release: Path) -> None:
    for path in sorted(path for path in release.rglob("*") if path.is_file()):
        away = path.rename(release.parent / "away")
        name = path.relative_to(release).as_posix()
        assert f"{name}: missing; fetch the release again" in problems(release)
        away.rename(path)


@pytest.mark.parametrize("name", ["extra", ".hidden", "tables/requests/extra.parquet", "a\nb", "\udcff", "readme.MD"])
def test_one_extra_file_is_found(release: Path, name: str) -> None:
    path = release / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("extra")
    assert f"{name}: not part of the release; remove it" in problems(release)


def test_names_that_collide_elsewhere_are_found(release: Path) -> None:
    for name in ("readme.md", "é", "e\u0301", "Tables"):
        (release / name).write_text("")
    message = " ".join(problems(release))
    assert "readme.md: the same name as README.md" in message
    assert "é: the same name as e\u0301" in message
    assert "tables: the same name as Tables" in message


def link(release: Path) -> str:
    (release / "link").symlink_to("/etc/passwd")
    return "link: a symbolic link"


def link_in_place(release: Path) -> str:
    path = release / "README.md"
    path.rename(release.parent / "outside")
    path.symlink_to(release.parent / "outside")
    return "README.md: a symbolic link"


def link_to_directory(release: Path) -> str:
    (release / "schemas").rename(release.parent / "schemas")
    (release / "schemas").symlink_to(release.parent / "schemas")
    return "schemas: a symbolic link"


def pipe(release: Path) -> str:
    os.mkfifo(release / "pipe")
    return "pipe: no regular file"


@pytest.mark.parametrize("spoil", [link, link_in_place, link_to_directory, pipe])
def test_links_and_pipes_are_found_and_not_opened(release: Path, spoil: Callable[[Path], str]) -> None:
    expected = spoil(release)
    assert any(line.startswith(expected) for line in problems(release))


def change_manifest(
    release: Path, change: Callable[[dict], object] = lambda manifest: None, *, reseal: bool = False
) -> None:
    """Change the manifest and recompute the sums, like an attacker.

    With `reseal` the manifest also lists the files as they are now.
    """
    path = release / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    if reseal:
        for row in manifest["files"]:
            row |= {"bytes": (release / row["path"]).stat().st_size, "sha256": sha256(release / row["path"])}
    listed = [dict(row) for row in manifest["files"]]
    change(manifest)
    path.write_text(json.dumps(manifest))
    (release / "SHA256SUMS").write_text(sums(listed, sha256(path)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda told: told["files"].pop(), "manifest.json and SHA256SUMS do not list the same files"),
        (lambda told: told["files"][0].update(sha256="0" * 64), "do not list the same files"),
        (lambda told: told["files"][0].update(bytes=1), "bytes, and 1 were expected"),
        (lambda told: told["tables"]["bench"].update(rows=1), "table bench: 1080 rows of version 2"),
        (lambda told: told["tables"].pop("bench"), "belongs to no table in manifest.json"),
        (lambda told: told["tables"].update(x={}), "schemas/x.json: missing"),
        (lambda told: told.update(tables=3), "not as `androstep release` writes it"),
        (lambda told: told.update(files=[{"path": "../x", "sha256": "", "bytes": 0}]), "do not list the same files"),
        (lambda told: told.clear(), "not as `androstep release` writes it"),
    ],
)
def test_a_changed_manifest_with_fitting_sums_is_found(
    release: Path, change: Callable[[dict], object], message: str
) -> None:
    change_manifest(release, change)
    assert any(message in line for line in problems(release))


@pytest.mark.parametrize(
    "line", ["x", "0" * 64 + "  /etc/passwd", "0" * 64 + "  a/../../b", "0" * 64 + "  ./README.md"]
)
def test_sums_that_lead_out_of_the_release_are_refused(release: Path, line: str) -> None:
    with (release / "SHA256SUMS").open("a") as file:
        file.write(f"{line}\n")
    (sentence,) = problems(release)
    assert sentence.startswith("SHA256SUMS: line ")


def test_a_file_of_other_columns_or_of_none_is_found_though_its_sum_fits(release: Path) -> None:
    path = first(release, "tables/bench/**/*.parquet")
    pl.read_parquet(path, glob=False, hive_partitioning=False).drop("ops").write_parquet(path)
    change_manifest(release, reseal=True)
    assert any("its columns are not those of its schema" in line for line in problems(release))
    path.write_bytes(b"PAR1 and no more")
    change_manifest(release, reseal=True)
    assert any(f"{path.name}: no Parquet file" in line for line in problems(release))


def test_what_a_writer_adds_to_a_file_is_found_though_its_sum_fits(release: Path) -> None:
    path = first(release, "tables/bench/**/*.parquet")
    table = pq.read_table(path, partitioning=None).replace_schema_metadata({"author": "alice"})
    pq.write_table(table, path)
    change_manifest(release, reseal=True)
    (sentence,) = problems(release)
    assert sentence.endswith(f"/{path.name}: has key-value metadata, which no release has; fetch the release again")


def test_a_newer_release_is_checked_as_far_as_it_is_known(release: Path) -> None:
    change_manifest(release, lambda told: told.update(androstep_release=2))
    found = datasets.verify(release)
    assert found.problems == ()
    assert found.notes == (
        "the release has form 2, made by a newer AndroStep than this, which knows 1: every file is as listed; update "
        "androstep to check schemas and rows too",
    )
    (release / "LICENSE").write_text("mine")
    assert any(line.startswith("LICENSE: changed") for line in problems(release))


def test_tables_of_another_version_are_checked_against_their_own_schema(release: Path) -> None:
    path = release / "schemas" / "bench_series.json"
    path.write_text(path.read_text("utf-8").replace('"version": 1', '"version": 9'))
    change_manifest(release, lambda told: told["tables"]["bench_series"].update(version=9), reseal=True)
    found = datasets.verify(release)
    assert found.problems == ()
    assert found.notes == ("table bench_series is of version 9, and this AndroStep has version 1; update it",)


def test_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        datasets.verify(tmp_path / "absent")
    with pytest.raises(InputError, match=r"neither manifest\.json nor SHA256SUMS"):
        datasets.verify(tmp_path)


def test_the_command_prints_a_line_for_each_and_fails(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(release)]) == 0
    assert capsys.readouterr().out == f"{release}: {len(contents(release))} files, all as released\n"
    (release / "a\x1b[31m\nb").write_text("")
    (release / "LICENSE").unlink()
    assert main(["verify", str(release)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "LICENSE: missing; fetch the release again",
        "a\\x1b[31m\\nb: not part of the release; remove it",
    ]


def test_names_of_captures_are_found_in_a_release_that_has_them(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(release), "--no-strings-of", str(CAPTURES[1])]) == 1
    assert '"modes.rec.xz" survives in provenance.json' in capsys.readouterr().out


# -- a malicious release, which lists everything as it is -------------------------------------------------------------


def sealed(release: Path) -> None:
    """List the files of the release as they are now."""
    paths = [path for path in sorted(release.rglob("*")) if path.is_file() and path.name not in (SUMS, MANIFEST)]
    files = [
        {"path": path.relative_to(release).as_posix(), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in paths
    ]
    manifest = json.loads((release / MANIFEST).read_text())
    (release / MANIFEST).write_text(json.dumps(manifest | {"files": files}))
    (release / SUMS).write_text(sums(files, sha256(release / MANIFEST)))


def broken_footer(part: Path) -> None:
    part.write_bytes(b"PAR1" + b"\xff" * 300 + b"PAR1")


def broken_pages(part: Path) -> None:
    data = bytearray(part.read_bytes())
    data[40:400] = bytes(byte ^ 0x55 for byte in data[40:400])
    part.write_bytes(data)


def broken_schema(part: Path) -> None:
    table = pq.read_table(part, partitioning=None)
    pq.write_table(table.replace_schema_metadata({"ARROW:schema": "zzz"}), part)


@pytest.mark.parametrize("spoil", [broken_footer, broken_pages, broken_schema])
def test_a_table_that_is_no_parquet_is_a_sentence(hidden: Path, spoil: Callable[[Path], None]) -> None:
    spoil(first(hidden, "tables/replay_ops/**/*.parquet"))
    sealed(hidden)
    assert "Parquet file" in problems(hidden)[0]


def test_parquet_files_may_lie_anywhere(hidden: Path) -> None:
    shutil.copy(first(hidden, "tables/replay_ops/**/*.parquet"), hidden / "more.parquet")
    sealed(hidden)
    assert problems(hidden) == []
    assert datasets.verify(hidden, without=[CAPTURES[2]]).problems == ()


def test_directories_without_end_and_lists_in_lists_are_sentences(hidden: Path) -> None:
    (hidden / "/".join(["d"] * 500)).mkdir(parents=True)
    assert len(problems(hidden)) == 1 and "deeper than any release" in problems(hidden)[0]
    shutil.rmtree(hidden / "d")
    (hidden / MANIFEST).write_text("[" * 100_000)
    listed = (hidden / SUMS).read_text().splitlines()[1:]
    (hidden / SUMS).write_text("\n".join([f"{sha256(hidden / MANIFEST)}  {MANIFEST}", *listed]) + "\n")
    assert "not as `androstep release` writes it" in problems(hidden)[0]
