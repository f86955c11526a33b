"""Build HTML from elements, so that text from a device never becomes markup.

Paths, task names and messages are untrusted. All HTML output is built from `Element`s, which escape their text when
they are converted to a string. No caller has to remember to escape.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_VOID = ("meta", "img", "wbr")
"""Elements without content and end tag; only those used here."""

_RAW = ("script", "style")
"""Elements whose content a browser does not unescape before the end tag."""

_LEAVES_RAW = re.compile(r"</|<!--|<script", re.IGNORECASE)
"""Text that may end such an element, or change how a parser finds its end."""


@dataclass(frozen=True)
class Element:
    """An HTML element; `str()` returns its HTML with text and attribute values escaped.

    The text of a script or style cannot be escaped. `str()` raises `ValueError` if it contains text that could end the
    element.
    """

    tag: str
    children: tuple[Element | str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        attributes = "".join(f' {name}="{_escape(value)}"' for name, value in self.attributes.items())
        if self.tag in _VOID:
            return f"<{self.tag}{attributes}>"
        if self.tag in _RAW:
            raw = "".join(map(str, self.children))
            if found := _LEAVES_RAW.search(raw):
                raise ValueError(f"{found[0]!r} inside of a {self.tag} would be taken for markup")
            return f"<{self.tag}{attributes}>{raw}</{self.tag}>"
        inside = "".join(str(child) if isinstance(child, Element) else _escape(child) for child in self.children)
        return f"<{self.tag}{attributes}>{inside}</{self.tag}>"


def el(tag: str, *children: Element | str, **attributes: str) -> Element:
    """Create an element with attributes from keywords.

    A trailing underscore is removed (``class_``); other underscores become dashes (``http_equiv``).
    """
    return Element(tag, children, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})


def island(value: Any, name: str = "") -> Element:
    """Embed a value as JSON in a page, in a script element that is not executed.

    Scripts find the element by its id `name`, if given. All strings are made `visible`, because scripts insert them
    into the page unchanged. Characters with a meaning in HTML are escaped.
    """
    written = json.dumps(_shown(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return el("script", written, type="application/json", **({"id": name} if name else {}))


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list | tuple):
        return [_shown(part) for part in value]
    if value is None or isinstance(value, int | float):  # The most frequent case; the test for Mapping is slower.
        return value
    return {name: _shown(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def visible(text: str) -> str:
    r"""Escape every character that is invisible or that reorders other characters.

    These are Unicode category C (control, format with the bidirectional overrides, surrogate, private, unassigned),
    the line and paragraph separators, spaces other than U+0020, and letters without a glyph. A line feed becomes the
    two characters ``\n``, and U+202E becomes ``\u202e``. The result is safe on pages, in figures and on terminals.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_code(character) if _is_invisible(character) else character for character in text)


def _escape(text: str) -> str:
    return html.escape(visible(text), quote=True)


def _is_invisible(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Zs":
        return character != " "
    return category[0] == "C" or category in ("Zl", "Zp") or character in _BLANK_LETTERS


_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks (by category) without a glyph: joiner, Hangul fillers, Khmer vowels, empty Braille."""


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
