"""Write the documents of a release for readers: README.md, CITATION.cff and LICENSE."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible

LICENCES = (
    *("CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "CC-BY-NC-ND-4.0"),
    *("ODbL-1.0", "ODC-By-1.0", "PDDL-1.0", "CDLA-Permissive-1.0", "CDLA-Sharing-1.0", "GFDL-1.3-or-later"),
    *("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "GPL-2.0-only", "GPL-3.0-or-later", "0BSD"),
)
"""SPDX identifiers of licences for data. All of them are valid in the Citation File Format 1.2.0."""


@dataclass(frozen=True)
class Description:
    """The description of a release by its authors.

    `version` is MAJOR.MINOR.PATCH, `licence` one of `LICENCES`, `published` a day (YYYY-MM-DD). A creator is a name or
    ``Family, Given``. Raises `InputError` for invalid values.
    """

    name: str = "AndroStep captures"
    version: str = "1.0.0"
    creators: tuple[str, ...] = ()
    licence: str | None = None
    url: str | None = None
    published: str | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("the name of the release is empty; give one with --name")
        if not re.fullmatch(r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}", self.version, re.ASCII):
            raise InputError(f"version {self.version!r}: write three numbers, such as 1.0.0 (semver.org)")
        if self.licence is not None and self.licence not in LICENCES:
            raise InputError(f"licence {self.licence!r}: write one of {', '.join(LICENCES)}")
        if self.url is not None and not re.fullmatch(r"(?:https?|ftp|sftp)://[^\s\"<>\\]+", self.url):
            raise InputError(f"url {self.url!r}: write an address that begins with https://")
        if self.published is not None and not re.fullmatch(_DAY, self.published, re.ASCII):
            raise InputError(f"published {self.published!r}: write a date such as 2026-01-31")
        if any(not creator.strip(" ,") for creator in self.creators):
            raise InputError("--creator has no name; give one, or omit the option")

    @property
    def licence_url(self) -> str | None:
        """Address of the text of the licence."""
        return None if self.licence is None else f"https://spdx.org/licenses/{self.licence}.html"


_DAY = r"\d{4}-(?:0[1-9]|1[012])-(?:0[1-9]|[12]\d|3[01])"

_NAMELESS = "Anonymous"
"""Author in the citation if none is given: the Citation File Format requires one."""


def citation(described: Description) -> str:
    """Return CITATION.cff (Citation File Format 1.2.0). Texts are JSON strings, which are valid YAML."""
    lines = [
        "cff-version: 1.2.0",
        f"message: {_quoted('If you use this dataset, please cite it as below.')}",
        "type: dataset",
        f"title: {_quoted(described.name)}",
        f"version: {_quoted(described.version)}",
        "authors:",
    ]
    for creator in described.creators or (_NAMELESS,):
        family, comma, given = (part.strip() for part in creator.partition(","))
        if comma and family and given:
            lines += [f"  - family-names: {_quoted(family)}", f"    given-names: {_quoted(given)}"]
        else:
            lines += [f"  - name: {_quoted(creator.strip())}"]
    optional = {"license": described.licence, "url": described.url, "date-released": described.published}
    lines += [f"{key}: {_quoted(value)}" for key, value in optional.items() if value is not None]
    return "\n".join(lines) + "\n"


def cite_as(described: Description) -> str:
    """Return the reference to the dataset for a bibliography."""
    year = "" if described.published is None else f" ({described.published[:4]})"
    parts = [f"{'; '.join(described.creators or (_NAMELESS,))}{year}: {described.name}", f"version {described.version}"]
    return ", ".join([*parts, described.url] if described.url else parts)


def licence(described: Description) -> str:
    """Return the file LICENSE: the SPDX identifier and the address of its text, or that there is no licence."""
    if described.licence is None:
        return (
            "No licence was given for this dataset: nobody but its makers may copy it or build on it, except where\n"
            "the law allows it. Ask them.\n"
        )
    return (
        f"SPDX-License-Identifier: {described.licence}\n\n"
        f"The dataset in this directory is under the licence {described.licence}. Its text is at\n"
        f"{described.licence_url}\n"
    )


def creators(described: Description) -> list[dict[str, str]]:
    """Return the creators for Croissant."""
    kinds = {True: "sc:Person", False: "sc:Organization"}
    return [{"@type": kinds["," in creator], "name": creator.strip()} for creator in described.creators or (_NAMELESS,)]


def description(captures: int, anonymised: bool) -> str:
    """Return a description of the dataset in two sentences."""
    number = "one capture" if captures == 1 else f"{captures} captures"
    names = " Names are replaced by keyed hashes." if anonymised else ""
    return (
        f"Storage I/O of Android and Linux devices as tables, from {number} of AndroStep: what was read and written, "
        f"when, of which file and by whom, as far as each capture records it.{names}"
    )


def readme(
    described: Description,
    tables: Mapping[str, pl.LazyFrame],
    versions: Mapping[str, int],
    *,
    anonymised: bool,
    shifted: bool,
) -> str:
    """Return README.md, with figures counted from the release's own tables (whose first column is capture_id)."""
    captures = tables["captures"].collect()
    rows = {name: table.select(pl.len()).collect().item() for name, table in tables.items()}
    parts = [
        f"# {_cell(described.name)}",
        f"Version {described.version}. {description(captures.height, anonymised)}",
        _NAMES_REPLACED if anonymised else "",
        _TIMES_MOVED if shifted else "",
        "## Captures",
        _markdown(
            ["capture", "device", "Android", "kernel", "filesystem", "workload", "requests", "MiB read", "MiB written"],
            _captures(captures, tables),
        ),
        "## Tables",
        _markdown(["table", "rows", "schema version"], [[n, f"{rows[n]:,}", str(versions[n])] for n in tables]),
    ]
    if "io" in tables:
        parts += ["## Block types", _block_types(captures["capture_id"].to_list(), tables["io"])]
    parts += [_HOW_TO_OPEN, _FILES]
    return "\n\n".join(part for part in parts if part) + "\n"


def _captures(captures: pl.DataFrame, tables: Mapping[str, pl.LazyFrame]) -> list[list[str]]:
    """Return a row for each capture. Requests are counted as in `androstep summary`."""
    lines = []
    for row in captures.select(_DESCRIBING).iter_rows():
        moved = {"read": 0.0, "write": 0.0}
        requests = 0.0
        if "requests" in tables:
            counts = measures.mix(tables["requests"].filter(pl.col("capture_id") == row[0]))
            sizes = counts.filter(pl.col("metric") == "bytes")
            moved |= dict(sizes.select(pl.col("op").cast(pl.String), "value").iter_rows())
            of_each = counts.filter((pl.col("metric") == "count") & pl.col("op").is_not_null())
            requests = float(of_each["value"].sum())
        known = ["–" if value is None else textwrap.shorten(str(value), _WIDTH, placeholder=" …") for value in row]
        lines.append([*known, f"{requests:,.0f}", *(f"{moved[op] / (1 << 20):,.1f}" for op in ("read", "write"))])
    return lines


_WIDTH = 70
"""Limit of characters in a table cell."""

_DESCRIBING = ("capture_id", "device", "android_release", "kernel", "fs_type", "workload")


def _block_types(captures: Sequence[str], io: pl.LazyFrame) -> str:
    """Return requests and bytes by block type, summed over the captures (`measures.block_types` for each)."""
    dimensions = ["op", "block_type", "metric"]
    counted = pl.concat([measures.block_types(io.filter(pl.col("capture_id") == capture)) for capture in captures])
    added = counted.filter(pl.col("metric").is_in(["count", "bytes"])).group_by(dimensions).agg(pl.col("value").sum())
    wide = added.sort(dimensions).pivot("metric", index=["op", "block_type"], values="value", maintain_order=True)
    rows = [
        [str(op), "–" if kind is None else str(kind), f"{count:,.0f}", f"{size / (1 << 20):,.1f}"]
        for op, kind, count, size in wide.select("op", "block_type", "count", "bytes").iter_rows()
    ]
    return _markdown(["operation", "block type", "requests", "MiB"], rows)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[_cell(cell) for cell in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{'---|' * len(header)}", *lines[1:]])


def _cell(text: str) -> str:
    """Escape text for a table cell in Markdown."""
    return re.sub(r"([\\`*_{}\[\]()#+!|~])", r"\\\1", html.escape(visible(text)))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_NAMES_REPLACED = """\
Names of files, packages, processes and devices are replaced by hashes with a key that is not published: the same name
has the same hash throughout this release, and no other release has it. What was done is in `anonymisation.json`."""

_TIMES_MOVED = """\
Times are moved by a constant for each capture, so that its first event is at 0; what lies between two times is as it
was recorded. What began before the first event has a time less than 0."""

_HOW_TO_OPEN = """\
## How to open it

Column `capture_id` says which capture a row is of; row numbers such as `request_id` count within a capture. The
directories repeat device, Android release and workload of the capture as columns `capture_device`, `capture_release`
and `capture_workload`, the last one shortened where it is long; where one is not known it is `unknown`.

```python
import duckdb, pandas, polars, pyarrow.dataset

polars.scan_parquet("tables/requests/**/*.parquet", hive_partitioning=True, try_parse_hive_dates=False)
pyarrow.dataset.dataset("tables/requests", partitioning="hive").to_table()
pandas.read_parquet("tables/requests", dtype_backend="numpy_nullable")
duckdb.sql("from read_parquet('tables/requests/**/*.parquet', hive_partitioning = true)")
```

With AndroStep, `androstep_analysis.datasets.tables(".")` gives all tables with enums in their order."""

_FILES = """\
## Files

- `tables/`: the tables as Parquet; `schemas/` explains their columns, `definitions.toml` what is counted how.
- `provenance.json`: from which sources, and with which version of AndroStep, the tables were made.
- `croissant.json`: the same for machines (Croissant 1.1). `CITATION.cff`: how to cite this. `LICENSE`.
- `manifest.json`: size and SHA-256 of every file; `SHA256SUMS` the same for `sha256sum --check`. To check all of it:
  `androstep verify DIRECTORY`."""
