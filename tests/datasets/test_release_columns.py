"""Every column that might reveal a name or a time has a treatment in columns.toml."""

from __future__ import annotations

import re
import tomllib
from collections import Counter

import polars as pl
import pytest

from androstep_analysis import schema
from androstep_analysis.datasets import columns

TREATMENTS = {*columns.HASHED, "keep", "user", "time", "wall", "span"}


def test_every_column_that_needs_a_treatment_has_one() -> None:
    for name in schema.names():
        listed = columns.rules()["columns"].get(name, {})
        assert set(listed) <= TREATMENTS, name
        counts = Counter(column for group in listed.values() for column in group)
        needing = Counter(columns.needing(schema.table(name)))
        assert counts == needing, f"add the columns of {name} to datasets/columns.toml"


def test_a_treatment_fits_the_type_of_its_column() -> None:
    for name in schema.names():
        for column, treatment in columns.treatments(name).items():
            found = schema.table(name).column(column)
            text = found.dtype in ("string", "list<string>")
            assert text == (treatment in (*columns.HASHED, "keep")), f"{name}.{column}"
            assert (found.unit == "ns") == (treatment in ("time", "wall", "span")), f"{name}.{column}"


def test_a_column_that_is_not_listed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tomllib.loads(columns.FILE.read_text("utf-8"))
    del listed["columns"]["tasks"]["words"]
    monkeypatch.setattr(columns, "rules", lambda: listed)
    with pytest.raises(KeyError, match="cmdline of table tasks"):
        columns.treatments.__wrapped__("tasks")


def test_no_table_is_listed_that_does_not_exist() -> None:
    assert set(columns.rules()["columns"]) <= set(schema.names())


def test_words_that_are_kept_and_names_that_only_look_like_them() -> None:
    kept = [
        *columns.kept_words(),
        *("sda12", "dm-53", "dm-53-8", "mmcblk0p63", "nvme0n1p2", "zram0", "loop127", "md127"),
        *("u16:3H", "259:1048575", "0:0:0:49488", "wlan0", "cpu7"),
    ]
    hashed = [
        *("alice", "Data", "databases2", "xdata", "data\n", "loop0x", "dm-8-8-8", "u8:x", "kworker/0:1", "", "jbd"),
        *("ram4915112345678", "md19840131", "0:4915112345678", "eth4915112345678", "loop٤", "u٤:٢"),
    ]
    assert [word for word in kept if not columns.kept().fullmatch(word)] == []
    assert [word for word in hashed if columns.kept().fullmatch(word)] == []


@pytest.mark.prove
@pytest.mark.parametrize(
    ("treatment", "good", "bad"),
    [
        ("path", "/data/0123456789abcdef/databases/0123456789abcdef.db-wal", "/data/alice"),
        ("path", "", "0123456789abcdef\n"),
        ("path", "0123456789abcdef", "0123456789ABCDEF"),
        ("path", "0123456789abcdef.DB", "0123456789abcdef.alice"),
        ("path", "kworker/u8:1", "sh\\x00"),
        ("words", "0123456789abcdef 0123456789abcdef=/data", "a"),
        ("whole", "0123456789abcdef", "data"),
        ("constants", "O_RDWR|0x80000|SIGCHLD", "O_alice"),
        ("version", "5.10.43-android13", "5.10.43-alice"),
        ("digest", "ab" * 32, "ab" * 31),
        ("digests", '{"0123456789abcdef.json": "' + "ab" * 32 + '"}', '{"a": "' + "ab" * 32 + '"}'),
    ],
)
def test_the_form_of_what_is_anonymised(treatment: str, good: str, bad: str) -> None:
    form = columns.anonymised_form(treatment)
    assert pl.Series([good, bad]).str.contains(form).to_list() == [True, False]
    assert bool(re.search(form.replace(r"\z", r"\Z"), good))
