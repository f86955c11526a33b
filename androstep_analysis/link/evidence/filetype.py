"""Derive the type and the package of a file from its path and its first bytes.

The rules are in filetypes.toml. Their order is here.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.common import schema

HEAD_BYTES = 32
"""The number of bytes at the beginning of a file that the rules use."""

Heads = Callable[[Sequence[int]], pl.DataFrame]
"""Return the first bytes of files by inode number: ino (Int64) and head (Binary), at most one row an inode."""

_ANDROID_PACKAGE = r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)+"
_ZEROED_HEADER_BYTES = 28  # what SQLite overwrites when it commits in PERSIST mode (pager.c, zeroJournalHdr)


@functools.cache
def rules() -> dict[str, Any]:
    """Return the content of filetypes.toml."""
    return tomllib.loads(Path(__file__).with_name("filetypes.toml").read_text(encoding="utf-8"))


def classify(files: pl.DataFrame, heads: Heads | None = None) -> pl.DataFrame:
    """Set `file_type` and `file_type_rule` in table `files`, except for directories and symbolic links.

    The first rule that applies decides:

    1. The name is encrypted, and therefore the content too: `unknown`.
    2. The suffix is that of a format (``.jpg``, ``.so``). Apps name files right far more often than a two-byte magic
       number is right.
    3. ``-journal``, ``-wal`` or ``-shm`` after the name of a database, by its suffix, or by its header if it is in
       `files`. The header of such a file proves less, because SQLite zeroes it after every transaction in PERSIST mode.
    4. The header is that of SQLite. Apps choose any name for databases (``Cookies``).
    5. ``-journal``, ``-wal`` or ``-shm``, if the header is zero or cannot be read.
    6. The suffix only states a purpose (``.dat``, ``.bak``).
    7. The header is that of another format.
    8. `other`, or `unknown` without a name. `file_type_rule` is null.

    `heads` reads the first `HEAD_BYTES` of files on the filesystem of `files`. It is called at most once, for the files
    whose names do not decide. Inode numbers of several files (incarnations, devices) are left out, because the result
    could belong to any of them. Without `heads`, only names decide.

    `file_type_rule` is for example ``suffix:.db``, ``suffix:-wal``, ``pattern:etilqs`` or ``magic:sqlite``.
    """
    named = files.with_columns(_name_columns()).with_columns(_suffix_columns())
    looked_into = _with_heads(named, heads).with_columns(_magic("_head").alias("_magic"))
    databases = looked_into.filter(
        (pl.col("_decided") & (pl.col("_suffix_type") == "sqlite_db")) | (pl.col("_magic") == "sqlite")
    )["path"]
    of_database = pl.col("_base").is_in(databases.implode())

    by_suffix = pl.struct(file_type="_suffix_type", file_type_rule="_suffix_rule")
    by_magic = pl.struct(
        file_type=pl.col("_magic").replace_strict({rule["name"]: rule["file_type"] for rule in rules()["magic"]}),
        file_type_rule="magic:" + pl.col("_magic"),
    )
    no_header = pl.col("_head").is_null() | (
        pl.col("_head").bin.head(_ZEROED_HEADER_BYTES).bin.encode("hex").str.strip_chars("0") == ""
    )
    decision = (
        pl.when(pl.col("_regular").not_())
        .then(pl.struct(pl.col("file_type").cast(pl.String), "file_type_rule"))
        .when(pl.col("name_encrypted"))
        .then(_fixed("unknown"))
        .when(pl.col("_decided") | of_database)
        .then(by_suffix)
        .when(pl.col("_magic").str.starts_with("sqlite"))
        .then(by_magic)
        .when(pl.col("_base").is_not_null() & no_header)
        .then(by_suffix)
        .when(pl.col("_base").is_null() & pl.col("_suffix_type").is_not_null())
        .then(by_suffix)
        .when(pl.col("_magic").is_not_null())
        .then(by_magic)
        .when(pl.col("path").is_null())
        .then(_fixed("unknown"))
        .otherwise(_fixed("other"))
        .alias("_decision")
    )
    decided = looked_into.with_columns(decision).with_columns(
        pl.col("_decision").struct.field("file_type").cast(schema.enum("files", "file_type")),
        pl.col("_decision").struct.field("file_type_rule"),
    )
    return schema.conform(decided.select(files.columns), "files")


def paper_class(file_type: pl.Expr) -> pl.Expr:
    """Return the class of a file type among the six of the AndroStep paper (Enum); null for `unknown`.

    Jeong et al., "Framework for Analyzing Android I/O Stack Behavior" (Future Internet 5(4), 2013): SQLite database,
    SQLite journal, executable, multimedia, resource, other. The paper names the classes without listing their files;
    the assignment is ours (filetypes.toml), with WAL and shm taken as journal.
    """
    classes = rules()["paper"]
    assignment = {name: paper for paper, names in classes.items() for name in names}
    return file_type.cast(pl.String).replace_strict(assignment, default=None, return_dtype=pl.Enum(list(classes)))


def most_viewer_class(path: pl.Expr) -> pl.Expr:
    """Return the class of a path in the MOST Viewer (test3.py with file_info2.txt), including its oddities (Enum).

    A token counts if its *first* occurrence in the whole path reaches to the end, with the token's number of further
    bytes, and follows ``.``, ``-`` or ``_``; case matters. So ``libsonivox.so`` is ETC_FILE, as is every file below a
    directory whose name has the token. A line without a path is NONE_FILE. Only for comparison with results of MOST.
    """
    tokens = [tuple(entry) for entry in rules()["most_viewer"]["tokens"]]
    size, raw = path.str.len_bytes().cast(pl.Int64), path.cast(pl.Binary)

    def matches(token: str, tail: int) -> pl.Expr:
        at = path.str.find(token, literal=True).cast(pl.Int64)
        before = raw.bin.slice(pl.max_horizontal(at - 1, 0), 1)
        return (at > 0) & (at + len(token) + tail == size) & before.is_in([b".", b"-", b"_"])

    matched = [pl.when(matches(token, tail)).then(pl.lit(name)) for token, tail, name in tokens]
    no_path = pl.when(path.is_null()).then(pl.lit("NONE_FILE"))
    matched_or_etc = pl.coalesce(no_path, *matched, pl.lit("ETC_FILE"))
    return matched_or_etc.cast(pl.Enum(rules()["most_viewer"]["classes"])).alias(path.meta.output_name())


def package(path: pl.Expr) -> pl.Expr:
    """Return the Android package of the directory that a path is in; null if it is in none.

    The path is absolute (``/data/user/0/PKG/…``) or relative to the root of the filesystem mounted at /data
    (``/user/0/PKG/…``). A package name is a Java package name with at least one dot (AOSP, validateName in
    FrameworkParsingPackageUtils); the directory of an installed app is PKG-suffix, since Android 11 in ``~~suffix==``.
    """
    data = "data|user/[0-9]+|user_de/[0-9]+|media/[0-9]+/Android/(?:data|obb|media)|misc/profiles/cur/[0-9]+"
    in_data = rf"^/?(?:data/)?(?:{data})/({_ANDROID_PACKAGE})(?:/|$)"
    in_app = rf"^/?(?:data/)?app/(?:~~[^/]+/)?({_ANDROID_PACKAGE})-[^/]+(?:/|$)"
    return pl.coalesce(path.str.extract(in_data), path.str.extract(in_app))


def _fixed(file_type: str) -> pl.Expr:
    return pl.struct(file_type=pl.lit(file_type), file_type_rule=pl.lit(None, dtype=pl.String))


def _name_columns() -> list[pl.Expr]:
    """Return `_regular`, `_name` (last component in lower case), and `_base` (path of the database of a companion)."""
    readable = pl.when(pl.col("name_encrypted").not_()).then(pl.col("path"))
    companions = "|".join(rules()["companions"].values())
    return [
        pl.col("file_type").is_in(["directory", "symlink"]).not_().alias("_regular"),
        readable.str.extract(r"([^/]*)$").str.to_lowercase().alias("_name"),
        readable.str.extract(rf"(?is)^(.*[^/])-(?:{companions})$").alias("_base"),
    ]


def _suffix_columns() -> list[pl.Expr]:
    """Return `_suffix_type` and `_suffix_rule` by the name, and `_decided`, whether no header is needed."""
    name = pl.col("_name")
    dot = name.str.extract(r"\.([^.]*)$")
    dash = pl.when(pl.col("_base").is_not_null()).then(name.str.extract(r"-([a-z]+)$"))
    types = {suffix: file_type for file_type, suffixes in rules()["suffixes"].items() for suffix in suffixes}
    companions = {suffix: file_type for file_type, suffix in rules()["companions"].items()}
    base_dot = pl.col("_base").str.to_lowercase().str.extract(r"\.([^./]*)$")

    dot_type = dot.replace_strict(types, default=None, return_dtype=pl.String)
    dash_type = dash.replace_strict(companions, default=None, return_dtype=pl.String)
    patterns = [
        (pl.when(name.str.contains(rule["regex"])), rule["file_type"], f"pattern:{rule['name']}")
        for rule in rules()["pattern"]
    ]
    pattern_type = pl.coalesce(*(when.then(pl.lit(file_type)) for when, file_type, _ in patterns))
    pattern_rule = pl.coalesce(*(when.then(pl.lit(rule)) for when, _, rule in patterns))
    return [
        pl.coalesce(pattern_type, dash_type, dot_type).alias("_suffix_type"),
        pl.coalesce(
            pattern_rule,
            pl.when(dash_type.is_not_null()).then("suffix:-" + dash),
            pl.when(dot_type.is_not_null()).then("suffix:." + dot),
        ).alias("_suffix_rule"),
        pl.when(dash_type.is_not_null())
        .then(base_dot.is_in(rules()["suffixes"]["sqlite_db"]).fill_null(False))
        .otherwise(
            pattern_type.is_not_null() | (dot_type.is_not_null() & dot.is_in(rules()["weak"]["suffixes"]).not_())
        )
        .alias("_decided"),
    ]


def _with_heads(named: pl.DataFrame, heads: Heads | None) -> pl.DataFrame:
    """Add `_head` if the name does not decide and the inode number is that of one file."""
    if heads is None:
        return named.with_columns(pl.lit(None, dtype=pl.Binary).alias("_head"))
    one_file = pl.struct("dev", "incarnation").n_unique().over("ino") == 1
    ask = named.select(
        "ino", ask=pl.col("_regular") & pl.col("name_encrypted").not_() & pl.col("_decided").not_() & one_file
    )
    inos = ask.filter("ask")["ino"].unique().sort()
    answer = heads(inos.to_list()) if inos.len() else pl.DataFrame(schema={"ino": pl.Int64, "head": pl.Binary})
    first_bytes = answer.select("ino", _head="head").filter(pl.col("ino").is_in(inos.implode()))
    return named.join(first_bytes, on="ino", how="left", validate="m:1", maintain_order="left")


def _magic(head: str) -> pl.Expr:
    """Return the name of the first magic rule that applies to column `head`, else null."""

    def holds(condition: dict[str, Any]) -> pl.Expr:
        wanted = [text.encode("latin-1") for text in condition["any"]]
        at = condition["at"]
        return pl.any_horizontal(pl.col(head).bin.slice(at, len(bytes_)) == pl.lit(bytes_) for bytes_ in wanted)

    matched = [
        pl.when(pl.all_horizontal(holds(condition) for condition in rule["all"])).then(pl.lit(rule["name"]))
        for rule in rules()["magic"]
    ]
    return pl.coalesce(*matched)
