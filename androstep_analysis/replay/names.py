"""Names replaced by hashes, so that a program can be given away: who has the salt gets the same names again."""

from __future__ import annotations

import functools
import hmac
import re

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.link.evidence.filetype import rules

_HASH_BYTES = 8


def hashed(names: pl.Series, salt: bytes, kept: re.Pattern[str] | None = None) -> pl.DataFrame:
    """Columns name, hashed: each of these distinct paths, or texts of links, with its components hashed.

    ``/``, ``.`` and ``..`` stay. Of a component stay the suffixes by which files are told apart (filetypes.toml): what
    SQLite appends (``-journal``, ``-wal``, ``-shm``) and a known extension before it, so that the files of one database
    still have one name. Everything else becomes 16 hexadecimal digits of HMAC-SHA-256 with key `salt`; names that do
    not begin with the same suffix, such as that of a package, do not show it. Components that `kept` matches whole
    stay. Raises `InputError` for an empty salt.
    """
    if not salt:
        raise InputError("the salt for names is empty; give a file with some random bytes")
    parts = pl.DataFrame({"name": names}).with_columns(part=pl.col("name").str.split("/"))
    distinct = parts["part"].explode(empty_as_null=False).unique(maintain_order=True)
    known = pl.DataFrame({"part": distinct, "own": [_component(part, salt, kept) for part in distinct]})
    rows = parts.with_row_index().explode("part").join(known, on="part", how="left", maintain_order="left")
    return (
        rows.group_by("index", maintain_order=True)
        .agg(pl.col("name").first(), hashed=pl.col("own").str.join("/"))
        .drop("index")
    )


def digest(text: str, salt: bytes) -> str:
    """16 hexadecimal digits of HMAC-SHA-256 of the text with key `salt`."""
    return hmac.digest(salt, text.encode(), "sha256")[:_HASH_BYTES].hex()


def _component(name: str, salt: bytes, kept: re.Pattern[str] | None) -> str:
    if name in ("", ".", "..") or (kept is not None and kept.fullmatch(name)):
        return name
    stem, suffix = split(name)
    return digest(stem, salt) + suffix


def split(name: str) -> tuple[str, str]:
    """What identifies a file, and the suffixes that only say what it is."""
    at_the_end = _at_the_end().search(name)
    return (name[: at_the_end.start()], at_the_end[0]) if at_the_end else (name, "")


def suffixes() -> str:
    """The suffixes that stay, as a regular expression that also matches no suffix at all; upper case is the same."""
    extensions = sorted({suffix for group in rules()["suffixes"].values() for suffix in group})
    companions = sorted(rules()["companions"].values())
    return rf"(?:\.(?:{'|'.join(extensions)}))?(?:-(?:{'|'.join(companions)}))?"


@functools.cache
def _at_the_end() -> re.Pattern[str]:
    return re.compile(rf"(?<=.){suffixes()}\Z", re.I | re.S)
