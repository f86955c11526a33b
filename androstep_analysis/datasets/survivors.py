"""Search a release for names that should have been replaced.

There are three searches, which do not rely on the code that made the release:

1. Every value of an anonymised column must have the form of a replaced name, however short the name was.
2. All text (documents, file names, values and statistics of the other columns) is searched for names of at least
   `SHORTEST` characters, also as parts of words.
3. Binary data (decompressed dictionaries and pages, footers, indexes) is searched for names of at least
   `SHORTEST_IN_BYTES` characters.

Names are searched in UTF-8, UTF-16, hexadecimal and base64, without regard to case. A path is not searched if one of
its parts has at least `SHORTEST_IN_BYTES` characters, because that part is searched. Three kinds of hits are
coincidences and are ignored:

- a short name within a hash,
- in 2 and 3, a word that every release contains (`vocabulary`), such as `cache`,
- in 2 and 3, a number of fewer than `SHORTEST_IN_BYTES` digits.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common import pages, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import columns, parquet
from androstep_analysis.link.evidence import filetype

SHORTEST = 4
SHORTEST_IN_BYTES = 8

_NO_COINCIDENCE = re.compile("[0-9a-f]{12}")
"""A name with this many hexadecimal digits cannot occur in a hash by chance, so hashes are searched for it."""

_SMALL_NUMBER = re.compile(rf"[0-9]{{1,{SHORTEST_IN_BYTES - 1}}}")
"""Numbers that occur in any release as sizes, counts and dates."""

_HASHES = re.compile(rb"(?<![0-9A-Fa-f])(?:[0-9a-f]{16}|[0-9a-f]{64})(?![0-9A-Fa-f])")

_ESCAPED_BYTE = re.compile(r"\\x([0-9a-fA-F]{2})")


_BATCH_BYTES = 1 << 26


@dataclass(frozen=True)
class _Place:
    """A part of a release: its name for messages, and its data."""

    name: str
    data: bytes
    is_text: bool = True


@functools.cache
def vocabulary() -> str:
    """Return all text that every release contains regardless of its captures, in lower case."""
    own = Path(__file__).parent
    fixed = [
        *sorted(path for path in schema.directory().iterdir() if path.is_file()),
        *(own / name for name in ("columns.toml", "documents.py", "croissant.py", "release.py", "anonymise.py")),
        Path(filetype.__file__).with_name("filetypes.toml"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in fixed).lower()


def survivors(directory: Path, originals: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each part of a release that contains one of these names; `InputError` for a damaged file."""
    searched = {
        name
        for name in originals
        if len(name) >= SHORTEST and name.lower() not in vocabulary() and not _SMALL_NUMBER.fullmatch(name)
    }
    parts = {name for name in searched if len(name) >= SHORTEST_IN_BYTES and "/" not in name}
    forms = _forms(sorted(name for name in searched if name in parts or parts.isdisjoint(name.split("/"))))
    batch: list[_Place] = []
    for place in _places(directory):
        batch.append(place)
        if sum(len(place.data) for place in batch) > _BATCH_BYTES:
            yield from _found(batch, forms)
            batch = []
    yield from _found(batch, forms)


def unlike_anonymised(directory: Path) -> Iterator[str]:
    """Yield a sentence for each column with a value that does not have the form of a replaced name (search 1)."""
    for path in sorted(directory.rglob("*.parquet")):
        place = path.relative_to(directory)
        table = _table(place)
        for column, values in _texts(path, columns.hashed(table)).items():
            other = values.filter(~values.str.contains(columns.anonymised_form(columns.treatments(table)[column])))
            if not other.is_empty():
                yield f"{place.as_posix()}: column {column} holds {other[0]!r}, which is no replaced name"


def _table(place: Path) -> str:
    """Return the table of a file from its path in the release; "" for other files."""
    return place.parts[1] if place.parts[0] == parquet.DIRECTORY and len(place.parts) > 2 else ""


def _places(directory: Path) -> Iterator[_Place]:
    """Yield every part of a release."""
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        yield _Place(f"the name of {name}", unquote_to_bytes(os.fsencode(name)))
        if path.is_file() and path.suffix != ".parquet":
            yield _Place(name, path.read_bytes())
        elif path.is_file():
            parts = pages.read(path)
            yield _Place(f"pages of {name}", b"\0".join(parts.texts), is_text=False)
            yield _Place(f"metadata of {name}", parts.around, is_text=False)
            yield _Place(f"statistics of {name}", b"\0".join(_statistics(path)))
            others = set(pq.read_schema(path).names) - set(columns.hashed(_table(Path(name))))
            for column, values in _texts(path, others).items():
                yield _Place(f"column {column} of {name}", "\0".join(values).encode())


def _texts(path: Path, names: Collection[str]) -> dict[str, pl.Series]:
    """Return the distinct values of those of the columns `names` that hold text; `InputError` for a damaged file."""
    try:
        wanted = [name for name in pq.read_schema(path).names if name in names]
        table = pl.read_parquet(path, columns=wanted, glob=False)
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: the Parquet file is damaged ({error}); fetch the release again") from None
    flat = {c.name: c.explode(empty_as_null=False) if isinstance(c.dtype, pl.List) else c for c in table}
    return {name: column.drop_nulls().unique().sort() for name, column in flat.items() if column.dtype == pl.String}


def _statistics(path: Path) -> Iterator[bytes]:
    """Yield the texts in a footer: names, key-value metadata, minima and maxima."""
    metadata = pq.read_metadata(path)
    yield str(metadata.created_by).encode()
    for key, value in (metadata.metadata or {}).items():
        yield key + b" " + value
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            yield chunk.path_in_schema.encode()
            if chunk.physical_type == "BYTE_ARRAY" and chunk.statistics is not None:
                yield from (str(value).encode() for value in (chunk.statistics.min, chunk.statistics.max))


def _forms(names: Collection[str]) -> dict[str, str]:
    """Return the search strings for all names, in lower case with a character for each byte, to the original name."""
    forms: dict[str, str] = {}
    for name in names:
        cases = {name} if name.isascii() else {name, name.lower(), name.upper()}
        written = {case.encode(how) for case in cases for how in ("utf-8", "utf-16-le", "utf-16-be")}
        raw = _ESCAPED_BYTE.sub(lambda match: chr(int(match[1], 16)), name)
        if raw != name and max(raw) <= "\xff":
            written.add(raw.encode("latin-1"))
        plain = name.encode()
        written.add(plain.hex().encode())
        written.update(form for form in _base64(plain) if len(form) >= SHORTEST_IN_BYTES)
        forms |= dict.fromkeys((form.lower().decode("latin-1") for form in written), name)
    return forms


def _base64(data: bytes) -> Iterator[bytes]:
    """Yield the base64 text that any data containing these bytes must contain, for each of the three alignments."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data)
        first = (0, 2, 3)[before]
        yield text[first : (before + len(data)) * 8 // 6]


def _found(places: Sequence[_Place], forms: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each part and each name that occurs in it in any form."""
    texts = [place.data.lower() for place in places]
    for data, has_hash in ((texts, True), ([_HASHES.sub(b" ", text) for text in texts], False)):
        searched = [form for form in forms if bool(_NO_COINCIDENCE.search(form)) == has_hash]
        if not searched:
            continue
        hits = pl.Series([text.decode("latin-1") for text in data], dtype=pl.String)
        for place, matches in zip(places, hits.str.extract_many(searched, overlapping=True).to_list(), strict=True):
            least = SHORTEST if place.is_text else SHORTEST_IN_BYTES
            for name in sorted({forms[form] for form in matches if len(form) >= least}):
                yield f"{json.dumps(name)} survives in {place.name}"
