"""Writes tables.md and definitions.md, the reference of every table and every measure, from schemas/.

python tools/tables_md.py DIRECTORY    `make tables` calls it for docs/; a test compares
"""

from __future__ import annotations

import sys
from pathlib import Path

from androstep_analysis import schema

TABLES = """\
# Tables

<!-- Written by `make tables` from schemas/; do not edit. -->

Begin with [requests](#requests) and [io](#io), which has a row for each piece of a request, with its file and owner.
Times are nanoseconds of the capture's own clock, sectors are 512 B, and `dev` is `major<<20|minor`. A column that may
be null is null where the answer is not known. An enum's values are in the order in which they sort.
[definitions.md](definitions.md) says what is counted of tables.
"""

DEFINITIONS = """\
# Definitions

<!-- Written by `make tables` from schemas/definitions.toml; do not edit. -->

What each measure counts, and what each answer rests on. Every report prints those it uses. Version {version}.
"""


def cell(text: str) -> str:
    """`text` as it may stand in a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def column_row(column: schema.Column) -> str:
    """The line of one column."""
    values = f" One of {', '.join(f'`{value}`' for value in column.values)}." if column.values else ""
    cells = [f"`{column.name}`", f"`{column.dtype}`", column.unit or "", "yes" if column.nullable else "no"]
    return f"| {' | '.join(cell(text) for text in [*cells, column.meaning + values])} |"


def table_section(table: schema.Table) -> str:
    """The section of one table."""
    rows = "\n".join(column_row(column) for column in table.columns)
    return f"""\
## {table.name}

{table.description} Version {table.version}.

| column | type | unit | null | meaning |
|---|---|---|---|---|
{rows}
"""


def definition_section(name: str, definition: dict[str, str]) -> str:
    """The section of one definition."""
    source = f"\n\nSource: {definition['source']}." if "source" in definition else ""
    return f"## {definition['title']} (`{name}`)\n\n{definition['text']}{source}\n"


def tables() -> str:
    """The page of the tables."""
    return "\n".join([TABLES, *(table_section(schema.table(name)) for name in schema.names())])


def definitions() -> str:
    """The page of the definitions."""
    of = schema.definitions()
    sections = [definition_section(name, entry) for name, entry in of.items() if isinstance(entry, dict)]
    return "\n".join([DEFINITIONS.format(version=of["version"]), *sections])


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    (directory / "tables.md").write_text(tables(), encoding="utf-8")
    (directory / "definitions.md").write_text(definitions(), encoding="utf-8")
