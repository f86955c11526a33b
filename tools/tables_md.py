"""Write tables.md and definitions.md, the reference of every table and every measure, from schemas/.

usage: python tools/tables_md.py DIRECTORY

`make tables` runs it for docs/. tests/capture/test_schema.py fails if the pages are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from androstep_analysis import schema

TABLES = """\
# Tables

<!-- Written by `make tables` from schemas/; do not edit. -->

Begin with [requests](#requests) and [io](#io). Table `io` has a row for each piece of a request, with its file and
owner.

- Times are nanoseconds of the capture's own clock, sectors are 512 B, and `dev` is `major<<20|minor`.
- A nullable column is null if the value is not known.
- The values of an enum are listed in the order in which they sort.

[definitions.md](definitions.md) defines the measures that are computed from these tables.
"""

DEFINITIONS = """\
# Definitions

<!-- Written by `make tables` from schemas/definitions.toml; do not edit. -->

The definition of each measure, and of the evidence for each result. A report prints the definitions of the measures
that it shows. Version {version}.
"""


def cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def column_row(column: schema.Column) -> str:
    """Return the row of one column."""
    values = f" One of {', '.join(f'`{value}`' for value in column.values)}." if column.values else ""
    cells = [f"`{column.name}`", f"`{column.dtype}`", column.unit or "", "yes" if column.nullable else "no"]
    return f"| {' | '.join(cell(text) for text in [*cells, column.meaning + values])} |"


def table_section(table: schema.Table) -> str:
    """Return the section of one table."""
    rows = "\n".join(column_row(column) for column in table.columns)
    return f"""\
## {table.name}

{table.description} Version {table.version}.

| column | type | unit | null | meaning |
|---|---|---|---|---|
{rows}
"""


def definition_section(name: str, definition: dict[str, str]) -> str:
    """Return the section of one definition; its text is Markdown already."""
    source = f"\n\nSource: {definition['source']}." if "source" in definition else ""
    return f"## {definition['title']} (`{name}`)\n\n{definition['text']}{source}\n"


def tables() -> str:
    """Return the page of the tables."""
    return "\n".join([TABLES, *(table_section(schema.table(name)) for name in schema.names())])


def definitions() -> str:
    """Return the page of the definitions."""
    of = schema.definitions()
    sections = [definition_section(name, entry) for name, entry in of.items() if isinstance(entry, dict)]
    return "\n".join([DEFINITIONS.format(version=of["version"]), *sections])


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    (directory / "tables.md").write_text(tables(), encoding="utf-8")
    (directory / "definitions.md").write_text(definitions(), encoding="utf-8")
