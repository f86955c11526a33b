"""Read columns.toml, which states the treatment of each column of each table in a release."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from androstep_analysis.common import schema
from androstep_analysis.replay import names

FILE = Path(__file__).with_name("columns.toml")

HASHED = ("path", "words", "whole", "constants", "version", "digest", "digests")
"""The treatments of text that replace names."""

SIGNS = r"[\s,;=|'\"]+"
"""Separators between the names in a column treated as words."""

_TOKEN = "[0-9a-f]{16}"


@functools.cache
def rules() -> dict[str, Any]:
    """Return the contents of columns.toml."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@functools.cache
def treatments(table: str) -> Mapping[str, str]:
    """Return column to treatment for a table.

    Raises `KeyError` if columns.toml lacks a column that needs a treatment (`needing`), because it might reveal a name.
    """
    listed = rules()["columns"].get(table, {})
    found = {column: treatment for treatment, columns in listed.items() for column in columns}
    if unlisted := [column for column in needing(schema.table(table)) if column not in found]:
        raise KeyError(f"columns.toml lacks the treatment of {', '.join(unlisted)} of table {table}")
    return found


def needing(table: schema.Table) -> list[str]:
    """Return the columns of a table that columns.toml must list: text, times and user ids."""
    return [c.name for c in table.columns if c.dtype in ("string", "list<string>") or c.unit == "ns" or c.name == "uid"]


def of_treatment(table: str, *wanted: str) -> list[str]:
    """Return the columns of the table with one of these treatments."""
    return [column for column, treatment in treatments(table).items() if treatment in wanted]


def hashed(table: str) -> list[str]:
    """Return the columns whose names are replaced; none for a table that this version does not know."""
    return of_treatment(table, *HASHED) if table in schema.names() else []


_KEPT_WORDS = ("directories", "packages", "threads", "filesystems", "mount_options", "encryption", "clocks")


def kept_words() -> list[str]:
    """Return the parts of names that are not replaced, without the patterns."""
    kept = rules()["kept"]
    return [word for words in _KEPT_WORDS for word in kept[words]]


@functools.cache
def kept() -> re.Pattern[str]:
    """Return a pattern for a whole part of a path that is not replaced."""
    return re.compile(_kept())


@functools.cache
def constant() -> re.Pattern[str]:
    """Return a pattern for one constant of the kernel, or a number."""
    return re.compile(_constant())


@functools.cache
def version() -> re.Pattern[str]:
    """Return a pattern for the version number at the start of a text."""
    return re.compile(rules()["kept"]["version"])


@functools.cache
def anonymised_form(treatment: str) -> str:
    """Return a regular expression for the anonymised values of a column of this treatment (of `HASHED`)."""
    part = rf"(?:{_TOKEN}(?i:{names.suffixes()})|{_kept()}|\.|\.\.|)"
    path = rf"{part}(?:/{part})*"
    words = rf"(?:{path})(?:{SIGNS}(?:{path}))*"
    either = rf"(?:{_constant()}|{path})"
    form = {
        "path": path,
        "words": words,
        "whole": _TOKEN,
        "constants": rf"{either}(?:\|{either})*",
        "version": rf"{rules()['kept']['version'].removeprefix('^')}|{_TOKEN}",
        "digest": rf"{_TOKEN}|[0-9a-f]{{64}}",
        "digests": rf'\{{(?:"{part}(?:/{part})?": "[0-9a-f]{{64}}"(?:, )?)*\}}',
    }[treatment]
    return rf"\A(?:{form})\z"


def _constant() -> str:
    return "|".join(rules()["kept"]["constants"])


def _kept() -> str:
    words = "|".join(re.escape(word) for word in sorted(kept_words()))
    return f"(?:{words}|{'|'.join(rules()['kept']['patterns'])})"
