"""Fetch datasets by name: those of the repository, and releases from the network, a mirror or the cache.

Environment variables:

- ANDROSTEP_DATASETS: a directory or an address (http, https, file) with the archives, which is tried first.
- ANDROSTEP_DATASETS_CACHE: the directory of the cache.
- ANDROSTEP_OFFLINE=1: do not use the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname, urlopen

from tqdm.auto import tqdm

from androstep_analysis.capture import staged_directory
from androstep_analysis.common import files, manifest, scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets.release import SUMS
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.datasets.verify import verify

REGISTRY = Path(__file__).with_name("registry.json")

MIRROR = "ANDROSTEP_DATASETS"
CACHE = "ANDROSTEP_DATASETS_CACHE"
OFFLINE = "ANDROSTEP_OFFLINE"

_TIMEOUT_S = 60
"""Time limit without any data, in seconds."""

_LEAST_BYTES_PER_S = 10_000
"""A download with a lower average speed is aborted, after the first `_TIMEOUT_S`."""


@dataclass(frozen=True)
class Entry:
    """A dataset in the registry.

    Either `place` is its directory in the repository, or `file` is the name of a release's archive with `bytes` and
    `sha256`, available at `urls`. The archive unpacks to at most `unpacked_bytes`.
    """

    name: str
    version: str
    about: str
    licence: str
    citation: str
    place: str | None = None
    file: str | None = None
    bytes: int = 0
    sha256: str | None = None
    unpacked_bytes: int = 0
    urls: tuple[str, ...] = ()


def entries(registry: Path = REGISTRY) -> dict[str, Entry]:
    """Return the datasets of a registry by name; `InputError` if it is damaged."""
    try:
        raw = json.loads(registry.read_text(encoding="utf-8"))
        return {name: _entry(name, row) for name, row in raw["datasets"].items()}
    except manifest.MALFORMED as error:
        raise InputError(f"{registry}: not a valid registry, see docs/datasets.md ({error!r}); correct it") from None


def _entry(name: str, row: dict[str, Any]) -> Entry:
    entry = Entry(name=name, **{**row, "urls": tuple(row.get("urls", ()))})
    texts = (entry.version, entry.about, entry.licence, entry.citation)
    if not all(type(text) is str for text in texts) or (entry.place is None) == (entry.file is None):
        raise ValueError(f"{name}: version, about, licence, citation and either place or file were expected")
    in_cache = (str(entry.file), f"{name}-{entry.version}")
    sizes = (entry.bytes, entry.unpacked_bytes)
    has_sizes = all(type(size) is int and size > 0 for size in sizes)
    is_file = entry.file is None or (all(Path(own).name == own for own in in_cache) and has_sizes)
    if not is_file or (entry.file is not None and not re.fullmatch("[0-9a-f]{64}", str(entry.sha256))):
        raise ValueError(f"{name}: a file name, its bytes, sha256 and unpacked_bytes were expected")
    return entry


def fetch(name: str, *, registry: Path = REGISTRY) -> Path:
    """Return the directory of a dataset: in the repository, or of a verified release in the cache.

    Raises `InputError` for an unknown name, and if the dataset is unavailable or damaged.
    """
    known = entries(registry)
    if name not in known:
        raise InputError(f"there is no dataset {name!r}; datasets are {', '.join(known)}")
    entry = known[name]
    if entry.place is not None:
        return _in_repository(entry, entry.place)
    unpacked = _cache() / f"{entry.name}-{entry.version}"
    if not unpacked.exists():
        try:
            _unpack(entry, _archive(entry), unpacked)
        except OSError:
            if not unpacked.exists():  # else another process has unpacked it
                raise
    if problems := verify(unpacked).problems:
        raise InputError(
            f"{unpacked}: differs from the release ({problems[0]}); remove the directory and fetch it again"
        )
    return unpacked


def _in_repository(entry: Entry, place: str) -> Path:
    mirror = _mirror_directory()
    nearby = [] if mirror is None else [mirror / Path(place).name]
    for directory in (*nearby, Path(__file__).parents[2] / place):
        if directory.is_dir():
            return directory
    raise InputError(
        f"dataset {entry.name} is directory {place} of AndroStep's repository, which is not here; clone it, "
        f"and let {MIRROR} name the directory datasets in it"
    )


def _unpack(entry: Entry, archive: Path, directory: Path) -> None:
    """Unpack a release, which may be in a single top-level directory of the archive."""
    with staged_directory(directory) as staged:
        unpack(archive, staged, entry.unpacked_bytes)
        inside = list(staged.iterdir())
        if len(inside) == 1 and (inside[0] / SUMS).is_file():
            outer = staged / ".outer"
            inside[0].rename(outer)
            for path in outer.iterdir():
                path.rename(staged / path.name)
            outer.rmdir()
        if problems := verify(staged).problems:
            raise InputError(f"{archive}: the release is incomplete ({problems[0]}); fetch it again")


def _archive(entry: Entry) -> Path:
    """Return the archive in the cache; fetch it if it is missing."""
    cache = _cache()
    assert entry.file is not None and entry.sha256 is not None
    kept = cache / entry.file
    if kept.is_file() and manifest.sha256(kept) == entry.sha256:
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    tried = []
    for url in _urls(entry):
        local = _local(url)
        try:
            if local is None and os.environ.get(OFFLINE):
                continue
            with scratch.directory("fetch", cache) as place:
                if local is not None:
                    _copy(local, place / entry.file, entry)
                else:
                    _download(url, place / entry.file, entry)
                (place / entry.file).replace(kept)
        except (OSError, ValueError) as error:
            tried.append(f"{url}: {str(error).splitlines()[0]}")
        else:
            return kept
    why = "; ".join(tried) or f"{OFFLINE} is set, and no mirror in a directory has it"
    raise InputError(
        f"dataset {entry.name} is not here: file {entry.file} with sha256 {entry.sha256} is missing ({why}); put it "
        f"into {cache}, or into a directory that {MIRROR} names"
    )


def _copy(source: Path, target: Path, entry: Entry) -> None:
    """Copy a file; `InputError` if its size or digest is not the expected one."""
    if not source.is_file():
        raise FileNotFoundError("no such file")
    if (size := source.stat().st_size) != entry.bytes:
        raise InputError(f"it has {size} bytes, and {entry.bytes} were expected")
    if (digest := manifest.sha256(source, copy_to=target)) != entry.sha256:
        raise InputError(f"its sha256 is {digest}")


def _download(url: str, target: Path, entry: Entry) -> None:
    """Download a file; `ValueError` or `OSError` if it is not the expected one or arrives too slowly."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("neither http nor https")
    print(f"androstep: fetching {entry.name} {entry.version}: {entry.bytes:,} bytes, {entry.licence}", file=sys.stderr)
    end = time.monotonic() + _TIMEOUT_S + entry.bytes / _LEAST_BYTES_PER_S
    digest = hashlib.sha256()
    bar = tqdm(total=entry.bytes, unit="B", unit_scale=True, desc=entry.file, disable=None, delay=2, leave=False)
    with urlopen(url, timeout=_TIMEOUT_S) as answer, target.open("xb") as file, bar:
        while block := answer.read1(1 << 16):
            if file.tell() + len(block) > entry.bytes:
                raise ValueError(f"more than the {entry.bytes} bytes that were expected")
            if time.monotonic() > end:
                raise TimeoutError(f"slower than {_LEAST_BYTES_PER_S} bytes a second, after {file.tell()} bytes")
            file.write(block)
            digest.update(block)
            bar.update(len(block))
    if digest.hexdigest() != entry.sha256:
        raise ValueError(f"its sha256 is {digest.hexdigest()}")


def _urls(entry: Entry) -> Iterator[str]:
    """Yield the addresses of the archive, the mirror first."""
    mirror = os.environ.get(MIRROR)
    if mirror:
        yield f"{mirror.rstrip('/')}/{entry.file if _is_path(mirror) else quote(str(entry.file))}"
    yield from entry.urls


def _local(url: str) -> Path | None:
    """Return the local file of an address; None for a network address."""
    if _is_path(url):
        return Path(url)
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _is_path(text: str) -> bool:
    return "://" not in text


def _mirror_directory() -> Path | None:
    mirror = os.environ.get(MIRROR)
    return _local(mirror) if mirror else None


def _cache() -> Path:
    return Path(os.environ.get(CACHE) or files.cache_directory())
