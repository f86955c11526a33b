"""Cache derived tables as Parquet files, and load them only if this user derived them from the same inputs.

The files are in the directory `tables` of the capture. A capture that another user owns, or whose `tables` is a
symbolic link, is not trusted. Nothing is written there, and its tables are derived into this user's cache directory.

| file | content |
|---|---|
| ``NAME.parquet`` | a table |
| ``about.json`` | the cache key and the description of the capture |
| ``SHA256SUMS`` | the digest of every file, in the format of `sha256sum` |
| ``.seal`` | the HMAC of ``SHA256SUMS`` with a key that only this user has |
| ``.seen.json`` | size, inode and times of each file when its digest was last computed |

The cache key covers the digests of the sources and of the code and data that derive tables from them. Tables are
derived again if the key, a digest or the seal does not match. The seal is needed because anyone can forge a table
together with its digest. A digest is computed again only after its file has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.capture import code
from androstep_analysis.common import files, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import MALFORMED, sha256
from androstep_analysis.common.scratch import Scratch
from androstep_analysis.common.scratch import directory as new_directory

ABOUT = "about.json"
SUMS = "SHA256SUMS"
SEAL = ".seal"
TABLES = "tables"
SEEN = ".seen.json"
"""Size, inode and times of each file when its digest was last computed, with the digest."""
TICK_NS = 2_000_000_000
"""The coarsest resolution of a filesystem's timestamps (FAT)."""

_KEY_OF_PROCESS = secrets.token_bytes(32)


@functools.cache
def code_token() -> str:
    """Return the digest of the code, schemas and rules that derive tables. A change of it invalidates old tables."""
    digest = hashlib.sha256()
    for name, content in sorted(code.deriving().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def key(inputs: dict[str, Any]) -> str:
    """Return the cache key of tables derived from `inputs` (JSON values) by this code."""
    return hashlib.sha256(f"{code_token()} {canonical_json(inputs)}".encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True)


def directory_of(capture: Path) -> Path:
    """Return the directory for a capture's tables: inside a capture that this user owns, else in the user's cache."""
    capture = capture.resolve()
    tables = capture / TABLES
    is_own = files.is_own_directory(capture) and (not os.path.lexists(tables) or files.is_own_directory(tables))
    if is_own and os.access(tables if tables.exists() else capture, os.W_OK):
        return tables
    return files.cache_directory() / TABLES / hashlib.sha256(os.fsencode(capture)).hexdigest()[:32]


@contextlib.contextmanager
def scratch(directory: Path) -> Iterator[Path | None]:
    """Provide a temporary directory for new tables of `directory`, or None if nothing can be written there."""
    with contextlib.ExitStack() as stack:
        path = None
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            made = Scratch(directory, "tables")
            stack.callback(made.remove)
            path = made.path
        yield path


def store(
    tables: Mapping[str, pl.LazyFrame],
    about: dict[str, Any],
    staged: Path,
    directory: Path,
    table_key: str,
    added_to: Collection[str] = (),
) -> dict[str, pl.LazyFrame]:
    """Store the tables atomically as ``directory/<name>.parquet`` and return scans of the files.

    `staged` is a `scratch` of the directory. A table that an `ingest.Spool` has already written there as
    ``<name>.parquet`` is moved. It is written again only if it is in `added_to`, the tables with rows that did not go
    through the spool.
    """
    for name, table in tables.items():
        path = staged / f"{name}.parquet"
        if name in added_to or not path.exists():
            complete = path.with_suffix(".new")  # The table may still read its rows from `path`.
            table.sink_parquet(complete, compression="zstd")
            complete.replace(path)
    (staged / ABOUT).write_text(json.dumps({"key": table_key, "about": about}), encoding="utf-8")
    names = [*(f"{name}.parquet" for name in tables), ABOUT]
    sums = "".join(f"{sha256(staged / name)}  {name}\n" for name in names)
    (staged / SUMS).write_text(sums, encoding="utf-8")
    (staged / SEAL).write_text(_seal(sums), encoding="utf-8")
    with _locked(directory, fcntl.LOCK_EX):  # Another process may store the same tables, not identical byte for byte.
        for name in (*names, SUMS, SEAL):
            (staged / name).replace(directory / name)
    return {name: pl.scan_parquet(directory / f"{name}.parquet", glob=False) for name in tables}


def load(
    names: tuple[str, ...], directory: Path, table_key: str
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]] | None:
    """Return scans of the tables and their description; None unless all tables exist, are intact and have this key.

    The files may be forged. Links, files that are not regular, and tables with other columns count as missing.
    """
    if not directory.is_dir() or directory.is_symlink():
        return None
    try:
        with _locked(directory, fcntl.LOCK_SH), _Digests(directory) as digests:
            sums = _sealed_sums(directory)
            for name in (ABOUT, *(f"{name}.parquet" for name in names)):
                path = directory / name
                if not files.is_regular(path) or sums.get(name) != digests.of(path):
                    return None
                if name == ABOUT:
                    stated = json.loads(files.read_text(path))
                    if stated["key"] != table_key:
                        return None
        tables = {name: pl.scan_parquet(directory / f"{name}.parquet", glob=False) for name in names}
        if any(table.collect_schema() != schema.table(name).polars for name, table in tables.items()):
            return None
    except (OSError, InputError, RecursionError, pl.exceptions.PolarsError, *MALFORMED):
        return None
    return tables, stated["about"]


class _Digests:
    """Digests of files, computed again only when size, inode or times of a file change.

    The digest of a file that changed less than `TICK_NS` ago is not cached. A second change within the same clock tick
    would not be visible in its times.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / SEEN
        self._seen: dict[str, list[Any]] = {}
        self._is_new = False

    def __enter__(self) -> _Digests:
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads(files.read_text(self._file))
            self._seen = seen if isinstance(seen, dict) else {}
        return self

    def of(self, path: Path) -> str:
        stat = path.stat()
        state = [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]
        seen = self._seen.get(path.name)
        if isinstance(seen, list) and seen[:-1] == state:
            return str(seen[-1])
        begun_ns = time.time_ns()
        digest = sha256(path)
        if stat.st_ctime_ns + TICK_NS < begun_ns:
            self._seen[path.name] = [*state, digest]
            self._is_new = True
        return digest

    def __exit__(self, *_: object) -> None:
        is_free = files.is_regular(self._file) or not os.path.lexists(self._file)  # Do not write into a pipe.
        if self._is_new and is_free and files.is_own_directory(self._file.parent):
            with contextlib.suppress(OSError):  # A read-only filesystem: compute the digests every time.
                files.write_text(self._file, json.dumps(self._seen))


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    """Lock the directory against other processes, if the filesystem supports locks."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _sealed_sums(directory: Path) -> dict[str, str]:
    """Return the digest of each file by its name; empty if the seal is not this user's."""
    text = files.read_text(directory / SUMS)
    if not hmac.compare_digest(files.read_bytes(directory / SEAL), _seal(text).encode()):
        return {}
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {words[1]: words[0] for words in lines if len(words) == 2}


def _seal(text: str) -> str:
    return hmac.digest(_own_key(), text.encode(), "sha256").hex()


def _own_key() -> bytes:
    """Return this user's key for sealing tables, and create it on first use.

    If no key can be stored, each process uses a key of its own and derives all tables again.
    """
    try:
        path = files.cache_directory() / "key"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with new_directory("key", path.parent) as directory, contextlib.suppress(FileExistsError):
                (directory / "key").write_bytes(secrets.token_bytes(32))
                (directory / "key").chmod(0o600)
                path.hardlink_to(directory / "key")
        return files.read_bytes(path)
    except (OSError, RuntimeError):  # For example, there is no home directory.
        return _KEY_OF_PROCESS
