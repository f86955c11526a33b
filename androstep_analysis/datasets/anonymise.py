"""Anonymise the tables of a release: replace names by keyed hashes, and move times.

columns.toml states the treatment of every column. Hashes are HMAC-SHA-256. Their key is derived from the key file and
from the name and version of the release: a name has the same hash throughout a release, and a different one in the next
release. Only the owner of the key file can test which name a hash belongs to, however short the name is.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.capture.cache import canonical_json
from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import columns
from androstep_analysis.replay import names

KEY_BYTES = 16
"""Minimum size of a key file."""

_APPS = 10000
"""Number of user ids of apps, and the first of them.

Android assigns each app one of these ids in each of several ranges (AIDs of android_filesystem_config.h: apps, SDK
sandboxes, shared groups, isolated processes).
"""

_PER_USER = 100000


class Anonymiser:
    """Replaces names in the tables of one release, and remembers the originals."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: set[str] = set()
        self._public: set[str] = set()

    @classmethod
    def of_release(cls, key_file: Path, name: str, version: str) -> Anonymiser:
        """Return the anonymiser for the release `name`, `version`; `InputError` if the key file is too short."""
        secret = key_file.read_bytes()
        if len(secret) < KEY_BYTES:
            raise InputError(
                f"{key_file}: {len(secret)} bytes are too few for a key; "
                "make one of 32 bytes: head -c 32 /dev/urandom > FILE"
            )
        return cls(hmac.digest(secret, canonical_json([name, version]).encode(), "sha256"))

    def capture(self, found: Capture, frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Return the tables of a capture with replaced names. Its sources and mounts are remembered as names too."""
        self._public.update(found.format.lower().split(", "))
        for path in (*(source.path for source in found.manifest.sources), *(m["path"] for m in found.manifest.mounts)):
            self.value(path, "path")
        return {name: self.table(frame, name) for name, frame in frames.items()}

    def table(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return the rows of table `name` with replaced names."""
        treated = {c: t for c, t in columns.treatments(name).items() if t in columns.HASHED}
        for column in columns.of_treatment(name, "keep"):
            self._public.update(word.lower() for word in frame[column].drop_nulls().unique() if word.isidentifier())
        changed = [self._column(frame[column], treatment) for column, treatment in treated.items()]
        users = [self._users(frame[column]).alias(column) for column in columns.of_treatment(name, "user")]
        return frame.with_columns(*changed, *users)

    def value(self, text: str, treatment: str) -> str:
        """Replace one text, treated like a column of `columns.HASHED`."""
        new = self._replaced(pl.Series([text]), treatment)[0]
        if new != text:
            self._remember(text, treatment)
        return str(new)

    @property
    def originals(self) -> set[str]:
        """The replaced names and texts, and their parts.

        A single word is left out if it is also a value of a column that is not replaced, because the release contains
        it as that value. An example is a directory ``getrandom`` and the system call of that name.
        """
        return {name for name in self._names if name.lower() not in self._public}

    def _remember(self, text: str, treatment: str) -> None:
        self._names.update((text, *_pieces(text, treatment)))

    def _column(self, column: pl.Series, treatment: str) -> pl.Series:
        is_list = isinstance(column.dtype, pl.List)
        values = column.explode(empty_as_null=False) if is_list else column
        distinct = values.drop_nulls().unique().sort()
        if distinct.is_empty():
            return column
        new = self._replaced(distinct, treatment)
        for original in distinct.filter(distinct != new).to_list():
            self._remember(original, treatment)
        if is_list:
            return column.list.eval(pl.element().replace_strict(distinct, new, return_dtype=pl.String))
        return column.replace_strict(distinct, new, return_dtype=pl.String)

    def _replaced(self, distinct: pl.Series, treatment: str) -> pl.Series:
        if treatment == "path":
            return names.hashed(distinct, self._key, columns.kept())["hashed"]
        replace: Callable[[str], str] = {
            "words": self._each_word,
            "whole": self._whole,
            "constants": self._constants,
            "version": self._version,
            "digest": self._digest,
            "digests": self._digests,
        }[treatment]
        return pl.Series([replace(text) for text in distinct.to_list()], dtype=pl.String)

    def _path(self, text: str) -> str:
        return str(names.hashed(pl.Series([text]), self._key, columns.kept())["hashed"][0])

    def _each_word(self, text: str) -> str:
        parts = re.split(rf"({columns.SIGNS})", text)
        return "".join(part if number % 2 else self._path(part) for number, part in enumerate(parts))

    def _whole(self, text: str) -> str:
        return names.digest(text, self._key)

    def _constants(self, text: str) -> str:
        return "|".join(part if columns.constant().fullmatch(part) else self._path(part) for part in text.split("|"))

    def _version(self, text: str) -> str:
        number = columns.version().match(text)
        return number[0] if number else names.digest(text, self._key)

    def _digest(self, text: str) -> str:
        full = hmac.digest(self._key, text.encode(), "sha256").hex()
        return full if len(text) == len(full) else names.digest(text, self._key)

    def _digests(self, text: str) -> str:
        return canonical_json({self._path(name): self._digest(digest) for name, digest in json.loads(text).items()})

    def _users(self, column: pl.Series) -> pl.Series:
        """Return user ids with the app's number permuted. Ids of the system are the same on all devices and stay."""
        own = column % _APPS
        exchange = pl.Series(_exchange(self._key)).gather(own.fill_null(0).clip(0))
        is_app = (column >= 0) & (column % _PER_USER >= _APPS)
        return pl.select(pl.when(is_app).then(column - own + exchange).otherwise(column).cast(column.dtype)).to_series()

    def record(self) -> dict[str, Any]:
        """Return what was done as JSON data, without the key and without any name."""
        return {
            "method": "HMAC-SHA-256, 16 hexadecimal digits (64 for digests), with a key of this release",
            "names_replaced": len(self.originals),
            "columns_sha256": hashlib.sha256(columns.FILE.read_bytes()).hexdigest(),
            "columns": columns.rules()["columns"],
            "kept": columns.rules()["kept"],
            "kept_suffixes": names.suffixes(),
            "left_out": ["raw sources", "names of sources", "messages of losses", "mounts", "offset to CLOCK_REALTIME"],
        }


@functools.cache
def _exchange(key: bytes) -> list[int]:
    """Return the numbers of apps in an order derived from the key."""
    return sorted(range(_APPS), key=lambda app: hmac.digest(key, app.to_bytes(4, "big"), "sha256"))


def _pieces(text: str, treatment: str) -> set[str]:
    """Return the names within an original text that must not survive either."""
    if treatment == "digests":
        stated: dict[str, str] = json.loads(text)
        return {*stated, *stated.values(), *_parts("/".join(stated))}
    if treatment not in ("path", "constants", "words", "whole"):
        return set()
    words = [word for word in re.split(columns.SIGNS, text) if not columns.constant().fullmatch(word)]
    return {word for word in words if _parts(word)}.union(*(_parts(word) for word in words))


def _parts(path: str) -> set[str]:
    """Return the parts of a path that are replaced, also without the suffixes that are not replaced."""
    parts = {part for part in path.split("/") if part not in ("", ".", "..") and not columns.kept().fullmatch(part)}
    return parts | {names.split(part)[0] for part in parts}


def names_of(captures: Iterable[str | PathLike[str]]) -> set[str]:
    """Return the names in these captures that an anonymised release of them must not contain."""
    hidden = Anonymiser(bytes(KEY_BYTES))
    for path in captures:
        found = capture.open(path)
        hidden.capture(found, frames(found))
    return hidden.originals


def frames(found: Capture) -> dict[str, pl.DataFrame]:
    """Read the tables of a capture, and add table `captures` with its row."""
    facts = pl.DataFrame([found.facts], schema=schema.table("captures").polars)
    return {"captures": facts} | {name: table.collect() for name, table in found.tables.items()}


def shifted(frame: pl.DataFrame, table: str, clock_ns: int, wall_ns: int) -> pl.DataFrame:
    """Return the rows of a table with all points in time moved back by the same amount."""
    clock = [pl.col(column) - clock_ns for column in columns.of_treatment(table, "time")]
    wall = [pl.col(column) - wall_ns for column in columns.of_treatment(table, "wall")]
    return frame.with_columns(*clock, *wall)
