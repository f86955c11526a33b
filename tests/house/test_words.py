"""Private words do not come back: prose and names say what engineers of the field say (CONTRIBUTING.md, Style)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from support.tree import ROOT, files

INSTEAD = {
    "told": "recorded, reported, known",
    "tells": "records, reports, states",
    "telling": "recording, reporting",
    "maker": "dirtier, creator",
    "fate": "write outcome",
    "fates": "write outcomes",
    "shelf": "partition spill",
    "torn": "truncated, partial",
    "witness": "evidence",
    "witnesses": "evidence",
    "standing": "check result",
    "standings": "check results",
    "births": "creations",
    "forgetful": "without a listing",
    "mended": "repaired, fixed",
    "complain": "print an error, warn",
    "complains": "prints an error, warns",
    "nobody": "no process, unknown",
    "reborn": "reused",
}
"""Words of this repository's former vocabulary, and the field's words for them."""

WORD = re.compile(r"(?<![A-Za-z_`\"'-])(" + "|".join(INSTEAD) + r")(?![A-Za-z_`\"'-])", re.IGNORECASE)
"""A word of prose: not a part of a name, and not quoted, as released names are."""


def python_prose(source: str) -> Iterator[str]:
    """Yield docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def c_prose(source: str) -> Iterator[str]:
    """Yield comments."""
    yield from re.findall(r"/\*.*?\*/|//[^\n]*", source, flags=re.DOTALL)


def page_prose(source: str) -> Iterator[str]:
    """Yield a page without its blocks of code and without code in lines."""
    yield re.sub(r"```.*?```|``.*?``|`[^`\n]*`|\]\([^)]*\)", "", source, flags=re.DOTALL)


PROSE = {".py": python_prose, ".c": c_prose, ".h": c_prose, ".md": page_prose}

PLACES = ("androstep_analysis", "probes", "docs", "tools", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the prose of each file, a piece at a time."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in PROSE and name.startswith(PLACES):
            yield from ((name, prose) for prose in PROSE[path.suffix](path.read_text("utf-8")))


def test_no_private_word_in_prose() -> None:
    found = [
        f"{name}: “{word}” (say: {INSTEAD[word.lower()]})"
        for name, prose in texts()
        for word in WORD.findall(re.sub(r"``.*?``|`[^`\n]*`", "", prose, flags=re.DOTALL))
    ]
    assert found == []
