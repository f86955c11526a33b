"""Test file types, classes and packages from paths and first bytes, also with the MOST oracle and real SQLite files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus

from androstep_analysis import schema
from androstep_analysis.link.evidence.filetype import classify, most_viewer_class, package, paper_class, rules

SQLITE = b"SQLite format 3\0"
JOURNAL = bytes.fromhex("d9d505f920a163d7")
WAL = bytes.fromhex("377f0682")
SHM = bytes.fromhex("18e22d0000000000")
JPEG = bytes.fromhex("ffd8ffe0")
ZERO = bytes(32)


def files(*paths: str | None, **columns: Sequence[object]) -> pl.DataFrame:
    """Return table `files` with one regular file for each path; `columns` overrides values."""
    count = len(paths)
    given_columns = {
        "dev": [7 << 20] * count,
        "ino": range(12, 12 + count),
        "incarnation": [0] * count,
        "path": paths,
        "names": [[path] if path else [] for path in paths],
        "name_encrypted": [False] * count,
        "file_type": ["unknown"] * count,
        "source": ["image_after"] * count,
        **columns,
    }
    types = schema.table("files").polars
    return pl.DataFrame(
        {name: pl.Series(name, given_columns.get(name, [None] * count), dtype) for name, dtype in types.items()}
    )


def heads(content: dict[int, bytes]) -> Callable[[Sequence[int]], pl.DataFrame]:
    """Return a reader of first bytes for the inodes of `content`."""

    def read(inos: Sequence[int]) -> pl.DataFrame:
        found = {ino: content[ino] for ino in inos if ino in content}
        return pl.DataFrame({"ino": found.keys(), "head": found.values()}, schema={"ino": pl.Int64, "head": pl.Binary})

    return read


def results(table: pl.DataFrame) -> list[tuple[str, str | None]]:
    return list(table.select(pl.col("file_type").cast(pl.String), "file_type_rule").iter_rows())


NAMES = [
    ("/data/com.a/databases/x.db", "sqlite_db", "suffix:.db"),
    ("/data/com.a/databases/X.DB", "sqlite_db", "suffix:.db"),
    ("/x.sqlite3", "sqlite_db", "suffix:.sqlite3"),
    ("/http_example.org_0.localstorage", "sqlite_db", "suffix:.localstorage"),
    ("/x.db-journal", "sqlite_journal", "suffix:-journal"),
    ("/Cookies-journal", "sqlite_journal", "suffix:-journal"),
    ("/x.sqlite3-wal", "sqlite_wal", "suffix:-wal"),
    ("/x.db-shm", "sqlite_shm", "suffix:-shm"),
    ("/x.db-mj0123AB9CD", "sqlite_journal", "pattern:super_journal"),
    ("/cache/etilqs_0a1B2c3D4e5F6g7", "temporary", "pattern:etilqs"),
    ("/lib/libsonivox.so", "executable", "suffix:.so"),
    ("/oat/arm64/base.vdex", "executable", "suffix:.vdex"),
    ("/app/~~x==/com.a-y==/base.apk", "package", "suffix:.apk"),
    ("/a.dm", "package", "suffix:.dm"),
    ("/VID_1.3GP", "video", "suffix:.3gp"),
    ("/IMG_1.heic", "image", "suffix:.heic"),
    ("/.thumbdata3--1967290299", "image", "pattern:thumbdata"),
    ("/a.opus", "audio", "suffix:.opus"),
    ("/main.1.com.a.obb", "resource", "suffix:.obb"),
    ("/settings.xml.bak", "temporary", "suffix:.bak"),
    ("/movie.mp4.crdownload", "temporary", "suffix:.crdownload"),
    ("/x.log", "log", "suffix:.log"),
    ("/x.log.3", "log", "pattern:log_number"),
    ("/com.db/x.xml", "resource", "suffix:.xml"),
    ("/com.db/data_1", "other", None),
    ("/db", "other", None),
    ("/-journal", "other", None),
    ("/x.journal", "other", None),
    ("/<script>alert(1)</script>.txt", "other", None),
    ("/new\nline.db", "sqlite_db", "suffix:.db"),
    ("", "other", None),
    (None, "unknown", None),
]


def test_names() -> None:
    for path, file_type, rule in NAMES:
        assert results(classify(files(path))) == [(file_type, rule)], path


HEADS = [
    ("/Cookies", SQLITE, "sqlite_db", "magic:sqlite"),
    ("/cookies.dat", SQLITE, "sqlite_db", "magic:sqlite"),
    ("/mmssms.db.bak", SQLITE, "sqlite_db", "magic:sqlite"),
    ("/x.dat", JPEG, "resource", "suffix:.dat"),
    ("/x.db", JPEG, "sqlite_db", "suffix:.db"),  # not looked into
    ("/x.png", SQLITE, "image", "suffix:.png"),  # not looked into
    ("/notes-journal", JOURNAL, "sqlite_journal", "magic:sqlite_journal"),
    ("/notes-journal", ZERO, "sqlite_journal", "suffix:-journal"),
    ("/notes-journal", b"", "sqlite_journal", "suffix:-journal"),
    ("/notes-journal", b"Dear diary, today I slept late.", "other", None),
    ("/notes-journal", SQLITE, "sqlite_db", "magic:sqlite"),
    ("/notes-wal", WAL + b"\0\x2d\xe2\x18", "sqlite_wal", "magic:sqlite_wal"),
    ("/notes-shm", SHM, "sqlite_shm", "magic:sqlite_shm"),
    ("/f_000001", JPEG, "image", "magic:jpeg"),
    ("/f_000001", b"RIFF\x24\0\0\0WEBPVP8 ", "image", "magic:webp"),
    ("/f_000001", b"RIFF\x24\0\0\0WAVEfmt ", "audio", "magic:wave"),
    ("/f_000001", b"RIFF\x24\0\0\0ACON", "other", None),
    ("/f_000001", b"\0\0\0\x18ftypheic", "image", "magic:heif"),
    ("/f_000001", b"\0\0\0\x18ftypavif", "image", "magic:heif"),
    ("/f_000001", b"\0\0\0\x18ftypM4A ", "audio", "magic:m4a"),
    ("/f_000001", b"\0\0\0\x18ftyp3gp4", "video", "magic:mp4"),
    ("/f_000001", bytes.fromhex("1a45dfa3"), "video", "magic:ebml"),
    ("/f_000001", bytes.fromhex("fffb9064"), "audio", "magic:mp3"),
    ("/f_000001", b"PK\3\4\x14\0", "other", "magic:zip"),
    ("/base.apk", b"PK\3\4\x14\0", "package", "suffix:.apk"),
    ("/libx.so.1", b"\x7fELF\2\1\1", "executable", "magic:elf"),
    ("/packages", b"ABX\0\x10", "resource", "magic:xml"),
    ("/SQLite", b"SQLite format 3", "other", None),  # truncated before the NUL
    ("/empty", b"", "other", None),
    (None, SQLITE, "sqlite_db", "magic:sqlite"),
    (None, b"anything", "unknown", None),
]


def test_heads() -> None:
    for path, head, file_type, rule in HEADS:
        assert results(classify(files(path), heads({12: head}))) == [(file_type, rule)], path


def test_companion_of_a_known_database_needs_no_header() -> None:
    table = files("/a/Cookies", "/a/Cookies-journal", "/b/Cookies-journal")
    text = b"whatever is in there, it is no zero"
    assert results(classify(table, heads({12: SQLITE, 13: text, 14: text}))) == [
        ("sqlite_db", "magic:sqlite"),
        ("sqlite_journal", "suffix:-journal"),
        ("other", None),
    ]


def test_only_undecided_files_of_one_inode_are_looked_into() -> None:
    asked: list[int] = []

    def read(inos: Sequence[int]) -> pl.DataFrame:
        asked.extend(inos)
        return pl.DataFrame({"ino": [*inos, 99], "head": [SQLITE] * (len(inos) + 1)})

    table = files(
        *("/Cookies", "/x.jpg", "/x.db-wal", "/secret", "/dir", "/link", "/reused", "/gone", "/x.dat", "/Cookies2"),
        ino=[20, 21, 22, 23, 24, 25, 26, 26, 28, 20],
        incarnation=[0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
        name_encrypted=[False, False, False, True, False, False, False, False, False, False],
        file_type=["unknown"] * 4 + ["directory", "symlink"] + ["unknown"] * 4,
    )
    types = [file_type for file_type, _ in results(classify(table, read))]
    assert asked == [20, 28]
    assert types == [
        *("sqlite_db", "image", "sqlite_wal", "unknown", "directory", "symlink", "other", "other", "sqlite_db"),
        "sqlite_db",  # another name of the first one, at another time
    ]


def test_rows_and_other_columns_stay() -> None:
    table = files("/b.db", "/a", "/c.so", size_bytes=[1, 2, 3], package=["p", None, "q"])
    classified = classify(table, heads({13: SQLITE}))
    kept = [name for name in table.columns if name not in ("file_type", "file_type_rule")]
    assert classified.select(kept).equals(table.select(kept))
    assert classify(files()).equals(files())


@pytest.mark.parametrize("mode", ["DELETE", "PERSIST", "WAL"])
def test_files_of_sqlite_are_recognised(mode: str, tmp_path: Path) -> None:
    """The files of a real database without a suffix are recognized during a transaction and after it."""
    connection = sqlite3.connect(tmp_path / "Cookies", isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA cache_size=1")
    connection.execute("CREATE TABLE t(x)")
    seen: list[dict[str, tuple[str, str | None]]] = []
    for statement in ("BEGIN", "INSERT INTO t SELECT zeroblob(9000) FROM (VALUES (1), (2), (3), (4))", "COMMIT"):
        connection.execute(statement)
        paths = sorted(tmp_path.iterdir())
        table = files(*(f"/{path.name}" for path in paths))
        content = {12 + number: path.read_bytes()[:32] for number, path in enumerate(paths)}
        seen.append(dict(zip((path.name for path in paths), results(classify(table, heads(content))), strict=True)))
    connection.close()
    companions = {"DELETE": set(), "PERSIST": {"-journal"}, "WAL": {"-wal", "-shm"}}[mode]
    assert set(seen[-1]) == {"Cookies", *(f"Cookies{suffix}" for suffix in companions)}
    expected = {"": "sqlite_db", "-journal": "sqlite_journal", "-wal": "sqlite_wal", "-shm": "sqlite_shm"}
    assert {name: file_type for step in seen for name, (file_type, _) in step.items()} == {
        f"Cookies{suffix}": expected[suffix] for suffix in expected if any(f"Cookies{suffix}" in step for step in seen)
    }


def test_rules_name_only_known_types_and_each_suffix_once() -> None:
    known = set(schema.table("files").column("file_type").values)
    table = rules()
    suffixes = [suffix for names in table["suffixes"].values() for suffix in names]
    assert len(suffixes) == len(set(suffixes))
    assert set(table["weak"]["suffixes"]) <= set(suffixes)
    used = {
        *table["suffixes"],
        *table["companions"],
        *(rule["file_type"] for rule in table["pattern"] + table["magic"]),
    }
    assert used <= known
    assert sorted(name for names in table["paper"].values() for name in names) == sorted(known - {"unknown"})


def test_paper_class() -> None:
    types = ["sqlite_db", "sqlite_wal", "package", "video", "resource", "log", "directory", "unknown", None]
    frame = pl.DataFrame({"file_type": pl.Series(types, dtype=schema.enum("files", "file_type"))})
    classes = frame.select(paper_class(pl.col("file_type")))["file_type"]
    assert classes.to_list() == [
        *("SQLite database", "SQLite journal", "executable", "multimedia", "resource", "other", "other"),
        *(None, None),
    ]
    assert isinstance(classes.dtype, pl.Enum)
    assert classes.dtype.categories.len() == 6


def viewer(paths: Sequence[str | None]) -> list[str]:
    frame = pl.DataFrame({"path": pl.Series(paths, dtype=pl.String)})
    return frame.select(most_viewer_class(pl.col("path")).cast(pl.String))["path"].to_list()


# Expected values printed by the original test3.py under Python 2.7.18.
VIEWER_CASES = {
    "/a.db": "SQLITE_DB_FILE",
    "/a.DB": "ETC_FILE",
    "/data/com.db/x.db": "ETC_FILE",
    "/lib/libsonivox.so": "ETC_FILE",
    "/libx.so": "EXEC_FILE",
    "/a.db-journal": "SQLITE_JOURNAL_FILE",
    "/a.db-wal": "SQLITE_WAL_FILE",
    "/a.db-shm": "SQLITE_TEMP_FILE",
    "/a.db-mj012345678": "SQLITE_TEMP_FILE",
    "/a.db-mj0123456789": "SQLITE_TEMP_FILE",
    "/a.sqlite3-journal": "SQLITE_JOURNAL_FILE",
    "/a.sqlite3": "ETC_FILE",
    "/x.3gp": "ETC_FILE",
    "/x.3pg": "MULTI_FILE",
    "/x.JPG": "ETC_FILE",
    "/jpg.jpg": "ETC_FILE",
    "/Cache/cache": "ETC_FILE",
    "/a_cache": "RESOURCE_FILE",
    "/.thumbdata3--1967290299": "ETC_FILE",
    "/http_x_0.localstorage": "RESOURCE_FILE",
    "/a.db-jx.temp": "TEMP_FILE",
    "/a.db-mj12345.mp3": "MULTI_FILE",
    "/a.db-mj123456.xml": "SQLITE_TEMP_FILE",
    "/x.umd": "UDROID_MEMDETAIL_FILE",
    "/é.db": "SQLITE_DB_FILE",
    "file-NONE": "NONE_FILE",
    "db": "ETC_FILE",
}


def test_most_viewer_class_agrees_with_the_original() -> None:
    assert dict(zip(VIEWER_CASES, viewer(list(VIEWER_CASES)), strict=True)) == VIEWER_CASES
    assert viewer([None]) == ["NONE_FILE"]


def naive_viewer_class(path: bytes) -> str:
    found = "ETC_FILE"
    for token, tail, name in reversed(rules()["most_viewer"]["tokens"]):
        at = path.find(token.encode())
        if at > 0 and len(path) - at == len(token) + tail and path[at - 1 : at] in (b".", b"-", b"_"):
            found = name
    return found


PIECES = [
    "db",
    "db-j",
    "db-mj",
    "journal",
    "wal",
    "so",
    "um",
    "umd",
    "locals",
    "jpg",
    "x",
    "é",
    "/",
    ".",
    "-",
    "_",
    "123456",
]


@pytest.mark.prove
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=20))
def test_most_viewer_class_equals_a_loop_over_paths(paths: list[str]) -> None:
    assert viewer(paths) == [naive_viewer_class(path.encode()) for path in paths]


def test_most_viewer_tokens_are_those_of_its_table() -> None:
    lines = corpus.path("androstep/file_info2.txt").read_text().splitlines()
    table = {(token, name) for name, *tokens in map(str.split, lines) for token in tokens}
    ours = {(f"{token}${tail}" if tail else token, name) for token, tail, name in rules()["most_viewer"]["tokens"]}
    assert ours == table
    assert rules()["most_viewer"]["classes"] == [*(line.split()[0] for line in lines), "ETC_FILE"]


def test_most_viewer_class_reproduces_the_viewer_s_own_output() -> None:
    """Counts and sizes of result.po by class and direction equal the Viewer's files file_rwbs*.dat."""
    rows = [line.split("\t") for line in corpus.path("androstep/result.po").read_text().splitlines()]
    completions = pl.DataFrame(
        {
            "op": ["R" if "R" in row[2] else "W" for row in rows if row[1] == "C" and row[7] == "D"],
            "kb": [int(row[4]) // 2 for row in rows if row[1] == "C" and row[7] == "D"],
            "class": [row[8] for row in rows if row[1] == "C" and row[7] == "D"],
        }
    ).with_columns(most_viewer_class(pl.col("class")))
    ours = completions.group_by("op", "class").agg(pl.len().alias("count"), pl.col("kb").sum())
    totals = completions.group_by("op").agg(pl.len().alias("count"), pl.col("kb").sum())

    def stated(number: int) -> dict[tuple[str, str], float]:
        header, *lines = corpus.path(f"androstep/file_rwbs{number}.dat").read_text().splitlines()
        cells = ((line.split("\t")[0][0], line.split("\t")[1:]) for line in lines)
        return {
            (op, name): float(value)
            for op, values in cells
            for name, value in zip(header.split("\t")[1:], values, strict=True)
            if float(value)
        }

    for measure, counted, share in (("count", 1, 2), ("kb", 3, 4)):
        values = {(op, name): value for op, name, value in ours.select("op", "class", measure).iter_rows()}
        total = dict(totals.select("op", measure).iter_rows())
        assert values == stated(counted)
        assert {key: 100 * value / total[key[0]] for key, value in values.items()} == pytest.approx(stated(share))


def test_most_viewer_class_of_every_file_of_the_oracle() -> None:
    oracle = json.loads(corpus.path("androstep/oracle_most.json").read_text())
    for trace in ("result_po", "result3_po"):
        names = {path: entry["type"] for path, entry in oracle[trace]["file_names"].items()}
        assert names
        assert dict(zip(names, viewer(list(names)), strict=True)) == names


PACKAGES = [
    ("/data/com.android.chrome/cache/Cache/data_1", "com.android.chrome"),
    ("/data/data/com.android.chrome/cache", "com.android.chrome"),
    ("/data/com.android.chrome", "com.android.chrome"),
    ("data/com.a_b.c2/x", "com.a_b.c2"),
    ("/user/10/com.example.mail/databases/x.db", "com.example.mail"),
    ("/data/user/0/com.example.mail/databases/x.db", "com.example.mail"),
    ("/data/user_de/0/com.example.mail/x", "com.example.mail"),
    ("/app/com.example.game-1/base.apk", "com.example.game"),
    ("/app/com.example.game-1.apk", "com.example.game"),
    ("/data/app/~~9xQ_w==/com.example.game-Zm9v-YmFy==/base.apk", "com.example.game"),
    ("/media/0/Android/data/com.example.game/files/x", "com.example.game"),
    ("/data/media/0/Android/obb/com.example.game/main.obb", "com.example.game"),
    ("/media/10/Android/media/com.example.game/x", "com.example.game"),
    ("/misc/profiles/cur/0/com.example.game/primary.prof", "com.example.game"),
    ("/app/vmdl123.tmp/base.apk", None),
    ("/app/com.example.game/base.apk", None),
    ("/data/local/tmp/x", None),
    ("/data/nodots/x", None),
    ("/data/1com.example/x", None),
    ("/data/com..example/x", None),
    ("/data/com.example<script>/x", None),
    ("/media/0/DCIM/Camera/com.example.jpg", None),
    ("/system/data/com.example.mail/x", None),
    ("/user/x/com.example.mail/x", None),
    (None, None),
]


def test_package() -> None:
    paths = pl.DataFrame({"path": [path for path, _ in PACKAGES]})
    assert list(paths.select("path", package=package(pl.col("path"))).iter_rows()) == PACKAGES
