"""Derived tables as Parquet files, named by what they are and trusted by what they were made from.

They lie in the directory `tables` of the capture. A capture that another user owns, or whose `tables` is a link, may
have been made to mislead: nothing is written there, and its tables are derived into the cache directory of this user.

``about.json`` beside them has the key of their inputs, digests of the sources and of the code and data that turn
sources into tables, and what was found on reading. ``SHA256SUMS``, in the format of `sha256sum`, has the digest of
every file as it was written. ``.seal`` is the HMAC of these digests with a key that only this user has. Tables of
another key, a file of another digest, and what another user sealed are as good as absent: anybody can state anything in
a table, and compute its digest. A digest is worked out again when its file has changed (``.seen.json``).
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
"""What files were like when their digests were worked out last."""
TICK_NS = 2_000_000_000
"""No clock of a filesystem is coarser (FAT)."""

_KEY_OF_PROCESS = secrets.token_bytes(32)


@functools.cache
def code_token() -> str:
    """Digest of the code, schemas and rules that derive tables: a change of any of them makes old tables stale."""
    digest = hashlib.sha256()
    for name, content in sorted(code.deriving().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()


def key(inputs: dict[str, Any]) -> str:
    """Key of tables made from `inputs` (JSON values) by this code."""
    return hashlib.sha256(f"{code_token()} {canonical_json(inputs)}".encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True)


def directory_of(capture: Path) -> Path:
    """Return where the tables of a capture are derived: inside it where it is this user's, else in the user's cache."""
    capture = capture.resolve()
    inside = capture / TABLES
    is_own = files.is_own_directory(capture) and (not os.path.lexists(inside) or files.is_own_directory(inside))
    if is_own and os.access(inside if inside.exists() else capture, os.W_OK):
        return inside
    return files.cache_directory() / TABLES / hashlib.sha256(os.fsencode(capture)).hexdigest()[:32]


@contextlib.contextmanager
def scratch(directory: Path) -> Iterator[Path | None]:
    """A directory to make the tables of `directory` in, removed at the end; None where nothing can be written."""
    with contextlib.ExitStack() as stack:
        place = None
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            made = Scratch(directory, "tables")
            stack.callback(made.remove)
            place = made.path
        yield place


def store(
    tables: Mapping[str, pl.LazyFrame],
    about: dict[str, Any],
    place: Path,
    directory: Path,
    table_key: str,
    added_to: Collection[str] = (),
) -> dict[str, pl.LazyFrame]:
    """Make ``directory/<name>.parquet`` of the tables, each whole or not at all, and give them as scans.

    `place` is a `scratch` of the directory. A table that is there already as ``<name>.parquet`` (an `ingest.Spool` left
    it) is moved, not written again, unless it is `added_to`: has rows that the spool did not know.
    """
    for name, table in tables.items():
        path = place / f"{name}.parquet"
        if name in added_to or not path.exists():
            whole = path.with_suffix(".new")  # what it is made of may be read from the file at the path
            table.sink_parquet(whole, compression="zstd")
            whole.replace(path)
    (place / ABOUT).write_text(json.dumps({"key": table_key, "about": about}), encoding="utf-8")
    names = [*(f"{name}.parquet" for name in tables), ABOUT]
    sums = "".join(f"{sha256(place / name)}  {name}\n" for name in names)
    (place / SUMS).write_text(sums, encoding="utf-8")
    (place / SEAL).write_text(_seal(sums), encoding="utf-8")
    with _locked(directory, fcntl.LOCK_EX):  # two programs may have made them, and not byte for byte the same
        for name in (*names, SUMS, SEAL):
            (place / name).replace(directory / name)
    return {name: pl.scan_parquet(directory / f"{name}.parquet", glob=False) for name in tables}


def load(
    names: tuple[str, ...], directory: Path, table_key: str
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]] | None:
    """The tables as scans and what was stored about them; None unless every table is there, whole, with this key.

    What lies there may be forged: links, files that are not regular, and tables of other columns count as absent.
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
    """Digests of files, each worked out once after every change: by its size, inode and time of change.

    A file that changed just before it was read may change again within the same tick of the clock: it is read anew.
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
        is_free = files.is_regular(self._file) or not os.path.lexists(self._file)  # A pipe would be written to.
        if self._is_new and is_free and files.is_own_directory(self._file.parent):
            with contextlib.suppress(OSError):  # a medium that cannot be written is read anew each time
                files.write_text(self._file, json.dumps(self._seen))


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[None]:
    """Keeps other programs from changing the directory meanwhile, where the medium can do that."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _sealed_sums(directory: Path) -> dict[str, str]:
    """Return the digest of each file by its name; empty where this user has not sealed them."""
    text = files.read_text(directory / SUMS)
    if not hmac.compare_digest(files.read_bytes(directory / SEAL), _seal(text).encode()):
        return {}
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {words[1]: words[0] for words in lines if len(words) == 2}


def _seal(text: str) -> str:
    return hmac.digest(_own_key(), text.encode(), "sha256").hex()


def _own_key() -> bytes:
    """Return the key with which this user seals tables, made where there is none.

    Where none can be kept, each process has its own, and derives again what others have derived.
    """
    try:
        path = files.cache_directory() / "key"
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with new_directory("key", path.parent) as place, contextlib.suppress(FileExistsError):
                (place / "key").write_bytes(secrets.token_bytes(32))
                (place / "key").chmod(0o600)
                path.hardlink_to(place / "key")
        return files.read_bytes(path)
    except (OSError, RuntimeError):  # such as no home directory
        return _KEY_OF_PROCESS
