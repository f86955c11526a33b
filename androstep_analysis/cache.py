"""Derived tables as Parquet files, named by what they are and trusted by what they were made from.

Every file carries the key of its inputs in its Parquet metadata: digests of the sources and of the code and data
that turn sources into tables. A file with another key is as good as absent.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from androstep_analysis import schema

KEY = "androstep.key"
ABOUT = "androstep.about"

_PACKAGE = Path(__file__).parent

_DERIVING = ("*.py", "ingest/*.py", "fs/*.py", "link/*.py", "link/*.toml")
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
    for name, table in tables.items():
        partial = directory / f".{name}.parquet.part"
        table.write_parquet(partial, compression="zstd", metadata={KEY: table_key, ABOUT: json.dumps(about)})
        partial.replace(directory / f"{name}.parquet")


def load(
    names: tuple[str, ...], directory: Path, table_key: str
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]] | None:
    """The tables as scans and what was stored about them; None unless every table is there with this key."""
    about: dict[str, Any] = {}
    for name in names:
        metadata = _metadata(directory / f"{name}.parquet")
        if metadata.get(KEY) != table_key:
            return None
        about = json.loads(metadata[ABOUT])
    return {name: pl.scan_parquet(directory / f"{name}.parquet") for name in names}, about


def _metadata(path: Path) -> dict[str, str]:
    """Key-value metadata of a Parquet file; empty where there is none or the file is damaged."""
    if not path.is_file():
        return {}
    try:
        raw = pq.read_metadata(path).metadata or {}
    except (OSError, ValueError):
        return {}
    return {name.decode(): value.decode() for name, value in raw.items()}
