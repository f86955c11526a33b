"""Derived tables as Parquet files, named by what they are and trusted by what they were made from.

Every file carries the key of its inputs in its Parquet metadata: digests of the sources and of the code and data
that turn sources into tables. ``SHA256SUMS`` beside them, in the format of `sha256sum`, has the digest of every file as
it was written. A file with another key or another digest is as good as absent.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from androstep_analysis import schema
from androstep_analysis.manifest import sha256

KEY = "androstep.key"
ABOUT = "androstep.about"
SUMS = "SHA256SUMS"

_PACKAGE = Path(__file__).parent

_DERIVING = ("*.py", "ingest/*.py", "fs/*.py", "link/*.py", "link/*.toml", "bench/*.py")
"""Parts of the package on which derived tables depend."""


@functools.cache
def code_token() -> str:
    """Digest of the code, schemas and rules that derive tables: a change of any of them makes old tables stale."""
    digest = hashlib.sha256()
    files = [path for pattern in _DERIVING for path in _PACKAGE.glob(pattern)]
    for path in sorted([*files, *schema.directory().glob("*.json")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def key(inputs: dict[str, Any]) -> str:
    """Key of tables made from `inputs` (JSON values) by this code."""
    return hashlib.sha256(f"{code_token()} {canonical_json(inputs)}".encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True)


def store(tables: dict[str, pl.DataFrame], about: dict[str, Any], directory: Path, table_key: str) -> None:
    """Write the tables to ``directory/<name>.parquet``, each whole or not at all, each with `about` in its metadata."""
    directory.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, table in tables.items():
        path = directory / f"{name}.parquet"
        with _replacing(path) as partial:
            table.write_parquet(partial, compression="zstd", metadata={KEY: table_key, ABOUT: json.dumps(about)})
            sums.append(f"{sha256(partial)}  {path.name}\n")
    with _replacing(directory / SUMS) as partial:
        partial.write_text("".join(sums), encoding="utf-8")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` at the end; no two writers of `path` share it."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(
    names: tuple[str, ...], directory: Path, table_key: str
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]] | None:
    """The tables as scans and what was stored about them; None unless every table is there, whole, with this key."""
    sums = _sums(directory / SUMS)
    metadata: dict[str, str] = {}
    for name in names:
        path = directory / f"{name}.parquet"
        metadata = _metadata(path)
        if metadata.get(KEY) != table_key or sums.get(path.name) != sha256(path):
            return None
    return {name: pl.scan_parquet(directory / f"{name}.parquet") for name in names}, json.loads(metadata[ABOUT])


def _sums(path: Path) -> dict[str, str]:
    """File name to digest; empty where there is no such list."""
    if not path.is_file():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {words[1]: words[0] for words in lines if len(words) == 2}


def _metadata(path: Path) -> dict[str, str]:
    """Key-value metadata of a Parquet file; empty where there is none or the file is damaged."""
    if not path.is_file():
        return {}
    try:
        raw = pq.read_metadata(path).metadata or {}
    except (OSError, ValueError):
        return {}
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in raw.items()}
