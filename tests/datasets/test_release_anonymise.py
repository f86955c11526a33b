"""Names are replaced by keyed hashes: consistently, completely, and not guessable without the key."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.released import rows

from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import anonymise, columns, survivors
from androstep_analysis.datasets.anonymise import Anonymiser

KEY = b"a key of 32 bytes, more or less."
SUFFIXES = re.compile(r"\.db(-wal|-journal)?|\.xml|")


def expected(stem: str, key: bytes = KEY) -> str:
    """Return the hash of a name, from its definition (RFC 2104)."""
    return hmac.new(key, stem.encode(), hashlib.sha256).hexdigest()[:16]


@pytest.mark.parametrize(
    ("original", "treatment", "anonymised"),
    [
        ("/data/com.alice/databases/x.db", "path", f"/data/{expected('com.alice')}/databases/{expected('x')}.db"),
        ("x.db-wal", "path", f"{expected('x')}.db-wal"),
        ("a", "path", expected("a")),
        ("sh", "path", "sh"),
        ("data.bases", "path", expected("data.bases")),
        ("databas", "path", expected("databas")),
        (r"/data/\xff\xfe.jpg", "path", rf"/data/{expected(chr(92) + 'xff' + chr(92) + 'xfe')}.jpg"),
        ("kworker/u8:1", "path", "kworker/u8:1"),
        ("kworker/alice", "path", f"kworker/{expected('alice')}"),
        ("../../x", "path", f"../../{expected('x')}"),
        ("x.db\n", "path", expected("x.db\n")),
        ("cp /data/x 'y z'", "words", f"{expected('cp')} /data/{expected('x')} '{expected('y')} {expected('z')}'"),
        ("Alice's phone", "whole", expected("Alice's phone")),
        ("O_RDWR|O_CREAT", "constants", "O_RDWR|O_CREAT"),
        ("secret memfd", "constants", expected("secret memfd")),
        ("O_RDWR|alice", "constants", f"O_RDWR|{expected('alice')}"),
        ("5.10.43-android13-4-gabc-ab88", "version", "5.10.43-android13"),
        ("custom", "version", expected("custom")),
        ("12L", "version", "12L"),
        ("20240131 of Alice", "version", "2024"),
        ("0" * 64, "digest", hmac.new(KEY, b"0" * 64, hashlib.sha256).hexdigest()),
        ("0" * 16, "digest", expected("0" * 16)),
    ],
)
def test_a_text_is_replaced_as_its_treatment_says(original: str, treatment: str, anonymised: str) -> None:
    assert Anonymiser(KEY).value(original, treatment) == anonymised


def test_facts_that_anyone_may_have_written_tell_nothing_of_them() -> None:
    facts = {"android_release": "14", "fs_type": "f2fs", "encryption": "fbe", "clock": "boot", "capture_id": "0" * 16}
    facts["source_sha256"] = "{}"
    own = facts | {"android_release": "Alice 14", "fs_type": "f2fs of Alice", "encryption": "alice"}
    usual, unusual = Anonymiser(KEY).table(rows("captures", [facts, own]), "captures").iter_rows(named=True)
    assert {name: usual[name] for name in facts} == facts | {"capture_id": expected("0" * 16)}
    assert [unusual[name] for name in ("android_release", "fs_type", "encryption")] == [
        expected(own[name]) for name in ("android_release", "fs_type", "encryption")
    ]


@pytest.mark.parametrize("table", ["bench_runs", "replay_runs"])
def test_a_type_of_filesystem_is_kept_where_everyone_has_it(table: str) -> None:
    given = rows(table, [{"fs_type": name} for name in ("f2fs", "fuse.alice-vault")])
    assert Anonymiser(KEY).table(given, table)["fs_type"].to_list() == ["f2fs", expected("fuse.alice-vault")]


def test_digests_by_name_lose_name_and_digest() -> None:
    replaced = json.loads(Anonymiser(KEY).value(json.dumps({"alice.json": "1" * 64}), "digests"))
    assert replaced == {f"{expected('alice')}.json": hmac.new(KEY, b"1" * 64, hashlib.sha256).hexdigest()}


def test_a_name_has_one_hash_in_all_tables() -> None:
    hidden = Anonymiser(KEY)
    files = hidden.table(rows("files", [{"path": "/data/com.alice", "names": ["/data/com.alice"]}]), "files")
    tasks = hidden.table(rows("tasks", [{"comm": "com.alice", "package": "com.alice"}]), "tasks")
    assert files["path"][0] == files["names"][0][0] == f"/data/{tasks['comm'][0]}"
    assert tasks["comm"][0] == tasks["package"][0] == expected("com.alice")


def test_lists_keep_their_length_and_nulls_stay_null() -> None:
    given = [{"names": ["/a", "/b/c"]}, {"names": []}, {"path": None, "names": ["/a"]}]
    files = Anonymiser(KEY).table(rows("files", given), "files")
    a, b, c = (expected(name) for name in "abc")
    assert files["names"].to_list() == [[f"/{a}", f"/{b}/{c}"], [], [f"/{a}"]]
    assert files["path"].to_list() == [None, None, None]


def test_another_release_has_other_hashes(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    one, again, other, later = (
        Anonymiser.of_release(key, name, version).value("alice", "path")
        for name, version in (("a", "1.0.0"), ("a", "1.0.0"), ("b", "1.0.0"), ("a", "1.0.1"))
    )
    assert one == again
    assert len({one, other, later, expected("alice")}) == 4


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"short")
    with pytest.raises(InputError, match=r"5 bytes are too few for a key; make one of 32 bytes: head -c 32"):
        Anonymiser.of_release(key, "a", "1.0.0")


def test_users_of_apps_are_exchanged_and_those_of_the_system_stay() -> None:
    users = [0, 1000, 2000, 9999, 10000, 10123, 110123, 1010123, 20123, 99123, -1, None]
    found = Anonymiser(KEY).table(rows("tasks", [{"uid": user} for user in users]), "tasks")["uid"].to_list()
    assert found[:4] == users[:4]
    assert found[-2:] == [-1, None]
    app = found[5] % 10000
    assert [user % 10000 for user in found[5:9]] == [app] * 4, "one app in each user and range"
    assert [user // 10000 for user in found[4:10]] == [user // 10000 for user in users[4:10] if user is not None]
    everyone = rows("tasks", [{"uid": user} for user in range(10000, 20000)])
    exchanged = Anonymiser(KEY).table(everyone, "tasks")["uid"]
    assert exchanged.sort().to_list() == list(range(10000, 20000))
    assert (exchanged != everyone["uid"]).mean() > 0.99


def test_the_record_tells_what_was_done_and_no_name() -> None:
    hidden = Anonymiser(KEY)
    hidden.table(rows("tasks", [{"comm": "alice", "cmdline": "alice --secret bob"}]), "tasks")
    record = json.dumps(hidden.record())
    assert hidden.record()["names_replaced"] == len(hidden.originals) == 4
    assert hidden.originals == {"alice", "alice --secret bob", "--secret", "bob"}
    assert not [word for word in ("alice", "--secret", KEY.hex(), KEY.decode()) if word in record]


def test_a_name_that_is_the_value_of_a_kept_column_is_not_searched_for_unless_it_is_more_than_a_word() -> None:
    hidden = Anonymiser(KEY)
    calls = [{"call": "fsync", "comm": "openat"}, {"call": "com.alice", "comm": "com.alice"}, {"comm": "sync"}]
    hidden.table(rows("syscalls", calls), "syscalls")
    hidden.value("/data/fsync/x", "path")
    assert "fsync" not in hidden.originals
    assert {"openat", "com.alice", "sync", "/data/fsync/x"} <= hidden.originals


def test_times_are_moved_and_spans_are_not() -> None:
    runs = rows("replay_runs", [{"ts_ns": 1000, "realtime_ns": 5000, "duration_ns": 7, "cpu_user_ns": 3}])
    moved = anonymise.shifted(runs, "replay_runs", 900, 4900)
    assert moved.select("ts_ns", "realtime_ns", "duration_ns", "cpu_user_ns").row(0) == (100, 100, 7, 3)


NAMES = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
    | st.sampled_from(
        ["a", "sh", "dat", "databas", "data/", "/data/data", "cafe", "0123456789abcdef", "x.db", "a.DB-wal"]
    )
    | st.from_regex(r"\A(/(data|user|0|[a-z]{1,12}|\.\.)){1,6}\Z"),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60)
@given(NAMES)
def test_of_no_list_of_names_anything_survives(names: list[str]) -> None:
    hidden = Anonymiser(KEY)
    given = rows("block_events", [{"comm": name, "path": name[::-1]} for name in names])
    events = hidden.table(given, "block_events")
    for column in ("comm", "path"):
        assert events[column].str.contains(columns.anonymised_form("path")).all()
    assert events["comm"].n_unique() == given["comm"].n_unique()
    left = re.sub(r"[0-9a-f]{16}", "\0", "\1".join(events["comm"].to_list() + events["path"].to_list()))
    vocabulary = survivors.vocabulary()
    for original in hidden.originals:
        if len(original) >= survivors.SHORTEST and original.lower() not in vocabulary:
            assert original not in left or set(original) <= set("/.")
