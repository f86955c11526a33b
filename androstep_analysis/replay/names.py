"""Replacement of names by hashes, so that a program can be published. The same salt gives the same names."""

from __future__ import annotations

import functools
import hmac
import re

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.link.evidence.filetype import rules

_HASH_BYTES = 8


def hashed(names: pl.Series, salt: bytes, kept: re.Pattern[str] | None = None) -> pl.DataFrame:
    """Return columns name and hashed: each of these distinct paths, or link targets, with its components hashed.

    ``/``, ``.`` and ``..`` are preserved. So are suffixes of components that determine the file type (filetypes.toml):
    SQLite's (``-journal``, ``-wal``, ``-shm``), and a known extension before it. The files of one database therefore
    still share a name. The rest becomes 16 hexadecimal digits of HMAC-SHA-256 with key `salt`. Components that begin
    with the same text, such as a package's name, do not get a common prefix. Components that `kept` matches completely
    are preserved. Raises `InputError` for an empty salt.
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
    """Return 16 hexadecimal digits of HMAC-SHA-256 of the text with key `salt`."""
    return hmac.digest(salt, text.encode(), "sha256")[:_HASH_BYTES].hex()


def _component(name: str, salt: bytes, kept: re.Pattern[str] | None) -> str:
    if name in ("", ".", "..") or (kept is not None and kept.fullmatch(name)):
        return name
    stem, suffix = split(name)
    return digest(stem, salt) + suffix


def split(name: str) -> tuple[str, str]:
    """Split a name into the part that identifies a file, and the suffixes that determine its type."""
    at_the_end = _at_the_end().search(name)
    return (name[: at_the_end.start()], at_the_end[0]) if at_the_end else (name, "")


def suffixes() -> str:
    """Return the preserved suffixes as a regular expression for case-insensitive use, which also matches no suffix."""
    extensions = sorted({suffix for group in rules()["suffixes"].values() for suffix in group})
    companions = sorted(rules()["companions"].values())
    return rf"(?:\.(?:{'|'.join(extensions)}))?(?:-(?:{'|'.join(companions)}))?"


@functools.cache
def _at_the_end() -> re.Pattern[str]:
    return re.compile(rf"(?<=.){suffixes()}\Z", re.I | re.S)
