"""The search for names finds every occurrence in every encoding, and ignores coincidences."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from androstep_analysis.common import pages
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import survivors

NAME = "Geheimnis"


def parquet(directory: Path, table: str = "samples") -> Path:
    """Return the path of a part of this table in a release."""
    path = directory / "tables" / table / "part.parquet"
    path.parent.mkdir(parents=True)
    return path


def text(content: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / "README.md").write_bytes(b"Some text " + content + b" and more.\n") and None


def column(directory: Path) -> None:
    pq.write_table(pa.table({"counter": ["a", f"x{NAME}y"]}), parquet(directory), store_schema=False)


def list_column(directory: Path) -> None:
    pq.write_table(pa.table({"counter": [["a"], ["b", NAME]]}), parquet(directory), compression="zstd")


def unused_dictionary(directory: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["a", NAME]))
    path = parquet(directory)
    pq.write_table(pa.table({"counter": values}), path, store_schema=False, write_statistics=False)
    assert NAME not in str(pq.read_table(path, partitioning=None))


def statistics(directory: Path) -> None:
    pq.write_table(pa.table({"comm": [NAME] * 3}), parquet(directory), use_dictionary=False)


def key_value(directory: Path) -> None:
    pq.write_table(pa.table({"value": [1]}).replace_schema_metadata({"made": f"by {NAME}"}), parquet(directory))


def column_name(directory: Path) -> None:
    pq.write_table(pa.table({NAME: [1]}), parquet(directory), store_schema=False)


def page_index(directory: Path) -> None:
    pq.write_table(pa.table({"counter": [NAME]}), parquet(directory), write_page_index=True, compression="gzip")


def second_page(directory: Path) -> None:
    values = [f"{number:06}" for number in range(20000)]
    values[15000] = NAME
    options = {"use_dictionary": False, "data_page_size": 1000, "row_group_size": 5000, "write_statistics": False}
    pq.write_table(pa.table({"counter": values}), parquet(directory), data_page_version="2.0", **options)


def directory_name(directory: Path) -> None:
    (directory / "tables" / f"capture_device={NAME.lower()}").mkdir(parents=True)


def encoded_directory_name(directory: Path) -> None:
    (directory / "tables" / "capture_device=%47%65heimnis").mkdir(parents=True)


@pytest.mark.parametrize(
    "hide",
    [
        *(text(NAME.encode()), text(NAME.upper().encode()), text(b"un" + NAME.encode() + b"voll")),
        *(text(NAME.encode("utf-16-le")), text(NAME.encode("utf-16-be")), text(NAME.encode().hex().encode())),
        *(text(base64.b64encode(b"x" * before + NAME.encode() + b"yz")) for before in range(4)),
        *(column, list_column, unused_dictionary, statistics, key_value, column_name, page_index, second_page),
        *(directory_name, encoded_directory_name),
    ],
    ids=lambda hide: hide.__name__.strip("<>"),
)
def test_a_name_is_found_wherever_it_is_hidden(tmp_path: Path, hide: Callable[[Path], None]) -> None:
    hide(tmp_path)
    found = list(survivors.survivors(tmp_path, {NAME, "another name"}))
    assert found
    assert all(sentence.startswith(f'"{NAME}" survives in ') for sentence in found)
    assert list(survivors.survivors(tmp_path, {"another name"})) == []


@pytest.mark.parametrize(
    "name", ["über", "ßtraße", "имя пользователя", r"\xe9t\xe9.jpg", "a\nb\tc", 'q"\\uote', "%41bc"]
)
def test_names_of_any_characters_are_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.json").write_text(f'{{"a": 1}} {name} b', encoding="utf-8")
    assert len(list(survivors.survivors(tmp_path, {name}))) == 1


def test_bytes_that_are_written_as_escapes_are_found_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"..\xff\xfename..")
    assert len(list(survivors.survivors(tmp_path, {r"\xff\xfename"}))) == 1


def test_a_short_name_within_a_hash_is_a_coincidence_and_a_long_one_is_not(tmp_path: Path) -> None:
    digests = "\n".join(hashlib.sha256(bytes([n])).hexdigest()[: 16 if n % 2 else 64] for n in range(256))
    (tmp_path / "x").write_text(digests)
    first = digests.splitlines()[1]
    assert list(survivors.survivors(tmp_path, {first[:4], first[3:9], "cafe"})) == []
    assert len(list(survivors.survivors(tmp_path, {first[:12]}))) == 1
    assert len(list(survivors.survivors(tmp_path, {first}))) == 1
    (tmp_path / "x").write_text(f"{digests}\nthe cafe\n")
    assert len(list(survivors.survivors(tmp_path, {"cafe"}))) == 1


def test_a_path_of_kept_words_that_ends_in_a_hash_is_a_coincidence(tmp_path: Path) -> None:
    path = parquet(tmp_path, "files")
    pq.write_table(pa.table({"path": ["/media/0/DCIM/5123456789abcdef.jpg"]}), path, store_schema=False)
    assert list(survivors.survivors(tmp_path, {"/media/0/DCIM/5"})) == []


def test_a_number_of_few_digits_is_a_coincidence_and_one_of_many_is_not(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"bytes": 20240131, "rows": 4711}')
    assert list(survivors.survivors(tmp_path, {"4711", "2024", "0240131"})) == []
    assert len(list(survivors.survivors(tmp_path, {"20240131"}))) == 1


def test_a_word_that_every_release_has_is_searched_for_in_names_only(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("the page cache")
    assert list(survivors.survivors(tmp_path, {"cache", "Metadata"})) == []
    path = parquet(tmp_path, "tasks")
    pq.write_table(pa.table({"comm": ["Metadata"]}), path, store_schema=False)
    (sentence,) = survivors.unlike_anonymised(tmp_path)
    assert sentence == "tables/tasks/part.parquet: column comm holds 'Metadata', which is no replaced name"


@pytest.mark.parametrize("value", ["a", "sh2", "0123456789abcde", "/data/x", "0123456789abcdef.db/x", "x\n", "☃"])
def test_a_name_of_any_length_in_a_column_of_names_is_found_by_its_form(tmp_path: Path, value: str) -> None:
    path = parquet(tmp_path, "tasks")
    pq.write_table(pa.table({"comm": ["0123456789abcdef", None, value]}), path)
    assert len(list(survivors.unlike_anonymised(tmp_path))) == 1


# -- pages -------------------------------------------------------------------------------------------------------------

WRITERS = [
    {"compression": "zstd"},
    {"compression": "gzip", "data_page_version": "2.0"},
    {"compression": "snappy", "use_dictionary": False},
    {"compression": "none", "write_page_index": True},
    {"compression": "brotli", "data_page_size": 500, "row_group_size": 700},
    {"compression": "lz4", "write_page_checksum": True, "data_page_version": "2.0", "data_page_size": 300},
]


@pytest.mark.parametrize("options", WRITERS, ids=lambda options: "-".join(map(str, options.values())))
def test_pages_hold_what_a_reader_gives(tmp_path: Path, options: dict[str, object]) -> None:
    values = [f"value {number * 7919 % 3001}" for number in range(3000)]
    table = pa.table({"n": range(3000), "s": values, "l": [[value, "z"] for value in values], "b": [True] * 3000})
    pq.write_table(table, tmp_path / "a", **options)
    parts = pages.read(tmp_path / "a")
    joined = b"\0".join(parts.texts)
    for value in set(values):
        assert len(value).to_bytes(4, "little") + value.encode() in joined, "as PLAIN encodes it"
    assert b"PAR1" == parts.around[:4] == parts.around[-4:]
    numbers = pl.Series(range(3000)).to_numpy().tobytes()
    assert numbers[:800] not in joined


@pytest.mark.parametrize("cut", [10, 1000, 3000])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, cut: int) -> None:
    pq.write_table(pa.table({"s": [f"value {number}" for number in range(1000)]}), tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[:cut])
    with pytest.raises(InputError, match="the Parquet file is damaged"):
        pages.read(tmp_path / "a")
    (tmp_path / "a").write_bytes(data[:4] + b"\xff" * 60 + data[64:])
    with pytest.raises(InputError, match="the Parquet file is damaged"):
        pages.read(tmp_path / "a")
