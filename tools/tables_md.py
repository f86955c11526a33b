"""Writes docs/tables.md, the reference of every table and definition, from schemas/.

python tools/tables_md.py [FILE]: to FILE, else to standard output. `make tables` calls it; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from androstep_analysis import schema

INTRODUCTION = """\
# Tables and definitions

<!-- Written by `make tables` from schemas/; do not edit. -->

Times are nanoseconds of the capture's own clock, sectors are 512 B, and `dev` is `major<<20|minor`. A column that may
be null is null where the answer is not known. An enum's values are in the order in which they sort.
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
    return f"### {definition['title']} (`{name}`)\n\n{definition['text']}{source}\n"


def markdown() -> str:
    """The whole page."""
    definitions = schema.definitions()
    return "\n".join(
        [
            INTRODUCTION,
            *(table_section(schema.table(name)) for name in schema.names()),
            f"## Definitions\n\nVersion {definitions['version']}. Every report prints those it uses.\n",
            *(definition_section(name, entry) for name, entry in definitions.items() if isinstance(entry, dict)),
        ]
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
    else:
        sys.stdout.write(markdown())
