"""A user's own types of files and names of apps, from a TOML file.

The rules apply to the tables of an open capture, never to the stored ones. A rule gives a file or an app another name;
it does not change which file or process a request is attributed to.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final

import polars as pl

from androstep_analysis.common import conditions, schema
from androstep_analysis.common.errors import InputError, printable

_KINDS: Final = ("directory", "symlink")
"""Types that the filesystem states. A rule neither changes nor gives them."""

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {"file_type": ("name", "glob", "colour"), "app": ("name", "glob")}
"""The kinds of rules, and the keys of each."""

_APP_COLUMNS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "io": {"package": ("package",), "owner_package": ("owner_package", "owner_comm")},
    "files": {"package": ("package",)},
    "tasks": {"package": ("package", "comm")},
    "gui_states": {"package": ("package",)},
}
"""For each table, the columns with apps, and the columns that the rules of an app match."""


@dataclass(frozen=True)
class Rule:
    """A name for everything that matches one of the patterns."""

    name: str
    globs: tuple[str, ...]


@dataclass(frozen=True)
class Classes:
    """Rules for types of files and for apps. The first rule that matches applies.

    Attributes
    ----------
    file_types : tuple of Rule
        Types of files, by patterns of their paths.
    apps : tuple of Rule
        Apps, by patterns of packages and processes.
    colours : dict of str
        The colours of types (``#rrggbb``) by their names, for figures.
    """

    file_types: tuple[Rule, ...] = ()
    apps: tuple[Rule, ...] = ()
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules."""
        return (*self.file_types, *self.apps)

    def applied(self, tables: Mapping[str, pl.LazyFrame]) -> dict[str, pl.LazyFrame]:
        """Return the tables of a capture with the names that the rules give."""
        named = dict(tables)
        for table in {"io", "files"} & named.keys() if self.file_types else ():
            named[table] = named[table].with_columns(self._file_types(table))
        for table in _APP_COLUMNS.keys() & named.keys() if self.apps else ():
            named[table] = named[table].with_columns(
                pl.coalesce(_first(self.apps, matched), app).alias(app) for app, matched in _APP_COLUMNS[table].items()
            )
        return named

    def _file_types(self, table: str) -> Iterable[pl.Expr]:
        """Yield the columns that depend on the type of a file. Their type has the names of the rules as well."""
        built_in = schema.enum(table, "file_type").categories.to_list()
        names = pl.Enum(list(dict.fromkeys([*built_in, *(rule.name for rule in self.file_types)])))
        file_type = pl.col("file_type").cast(pl.String)
        is_fixed = file_type.is_in(_KINDS).fill_null(False)
        own = pl.when(~is_fixed).then(_first(self.file_types, ["path"]))
        yield pl.coalesce(own, file_type).cast(names).alias("file_type")
        if table == "files":
            yield pl.coalesce("class:" + own, "file_type_rule").alias("file_type_rule")


def _first(rules: Sequence[Rule], columns: Sequence[str]) -> pl.Expr:
    """Return the name of the first rule that matches one of the columns of text, or null."""
    return pl.coalesce(
        pl.when(pl.any_horizontal(conditions.like(pl.col(name), glob) for name in columns for glob in rule.globs)).then(
            pl.lit(rule.name)
        )
        for rule in rules
    )


NO_CLASSES: Final = Classes()


def read(path: str | PathLike[str] | None) -> Classes:
    """Read rules from a TOML file (docs/classes.md), or return none without a path.

    Raises `InputError` that names the first invalid rule.
    """
    if path is None:
        return NO_CLASSES
    shown = printable(str(path))
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{shown}: is not valid TOML ({printable(str(error))}); docs/classes.md shows an example"
        ) from None
    if unknown := [name for name in table if name not in _KEYS]:
        raise InputError(f"{shown}: unknown table [[{printable(unknown[0])}]]; write [[file_type]] or [[app]]")
    try:
        colours: dict[str, str] = {}
        rules = {kind: tuple(_rules(kind, table.get(kind, []), colours)) for kind in _KEYS}
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None
    if not any(rules.values()):
        raise InputError(f"{shown}: has no rules; write [[file_type]] or [[app]], with a name and a glob")
    return Classes(rules["file_type"], rules["app"], colours)


def _rules(kind: str, rows: Any, colours: dict[str, str]) -> Iterable[Rule]:
    """Yield the rules of a kind and add their colours; `ValueError` says what is wrong with a rule."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{kind} is not a list of rules; write [[{kind}]] in two brackets before each rule")
    for number, row in enumerate(rows, 1):
        where = f"[[{kind}]] rule {number}"
        if unknown := [key for key in row if key not in _KEYS[kind]]:
            raise ValueError(f"{where} has {printable(unknown[0])}; it takes {', '.join(_KEYS[kind])}")
        name, globs, colour = row.get("name"), row.get("glob"), row.get("colour")
        if not _is_text(name):
            raise ValueError(f'{where} has no name; write name = "…", a text')
        if kind == "file_type" and name in (*_KINDS, "unknown"):
            raise ValueError(f"{where}: {name} is a type that the filesystem states; choose another name")
        globs = [globs] if isinstance(globs, str) else globs
        if not isinstance(globs, list) or not globs or not all(map(_is_text, globs)):
            raise ValueError(f'{where} has no glob; write glob = "*.pak", or a list of several')
        if colour is not None:
            if not isinstance(colour, str) or not re.fullmatch("#[0-9A-Fa-f]{6}", colour):
                raise ValueError(f"{where}: colour is {printable(repr(colour))}; write #rrggbb, as #c0392b")
            if colours.setdefault(name, colour) != colour:
                raise ValueError(f"{where}: {printable(name)} already has the colour {colours[name]}; leave one out")
        yield Rule(name, tuple(globs))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
