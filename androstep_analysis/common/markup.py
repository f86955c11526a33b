"""HTML from elements, so that text from a device can never become markup.

Paths, task names and messages come from devices and files nobody vouches for. Everything that is shown as HTML is made
of `Element`s, which escape their text when they are written: there is no call to forget.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_VOID = ("meta", "img")
"""The elements used here that have no content and no end tag."""

_RAW = ("script", "style")
"""The elements in which a browser takes every character as it is, up to their end tag."""

_LEAVES_RAW = re.compile(r"</|<!--|<script", re.IGNORECASE)
"""What may end such an element, or change how its end is found."""


@dataclass(frozen=True)
class Element:
    """An HTML element; `str()` writes it. Text among its children is escaped, and so are attribute values.

    The text of a script or style cannot be escaped: `ValueError` where it holds what could end the element.
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
    """An element with its attributes as keywords.

    A trailing underscore is dropped (``class_``), the others become dashes (``http_equiv``).
    """
    return Element(tag, children, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})


def island(value: Any, name: str = "") -> Element:
    """A value as JSON inside of a page, for a script to read (by id `name`, if it has one); it never runs.

    What JSON can hold, with `visible` text: the script puts it on the page as it is. Of the characters that mean
    something to a parser of HTML none is left.
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
    if value is None or isinstance(value, int | float):  # most of what a page holds, and cheaper to tell than a mapping
        return value
    return {name: _shown(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def visible(text: str) -> str:
    r"""`text` with every character that shows nothing, or changes the order of others, written as an escape.

    That is Unicode category C (control, format with the bidirectional overrides, surrogate, private, unassigned),
    the line and paragraph separators, and what looks like no character at all. A line feed becomes the two
    characters ``\n``, U+202E becomes ``\u202e``. What remains is safe to show on a page, in a figure, on a terminal.
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
"""Letters and marks (by category) that are drawn as nothing: joiner, Hangul fillers, Khmer vowels, empty Braille."""


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
