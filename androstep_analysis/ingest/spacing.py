"""Restore a text that was copied from a terminal, a web page, a table, a log or a mail.

On the way, the text gets colours, markup, other spaces, and the marks of a quotation or of a log on each line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from androstep_analysis.ingest.source import HEAD_BYTES, Source, unpacked

_Change: TypeAlias = Callable[[bytes], bytes]

_COLOURS: Final = re.compile(rb"\x1b(?:\[[\d;]*[mK]|\([AB0])")
_RESET: Final = re.compile(rb"\x1b\[0?m")
_CARRIAGES: Final = re.compile(rb"\r+\n?")
_PROMPT: Final = rb"(?:\[?[\w.-]+@[\w.-]+[ :][^\n]{0,200}?[#$]|[$%])"
_ABOVE: Final = re.compile(rb"\A(?:[ \t]*\r?\n|```[^\n`]*\n|" + _PROMPT + rb" [^\n]*\n)+")
_BELOW: Final = re.compile(rb"(?m)^(?:```|" + _PROMPT + rb")[ \r]*$\n?")
"""The marks of a block of code (Markdown), and a command with the prompt of a shell, above and below a text."""

_SEPARATOR: Final = re.compile(rb"(?i)\A(?:\xef\xbb\xbf)?sep=[^\w\s]\r?\n")

_WIDE_SPACES: Final = re.compile(rb"\t|\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80")
_NO_SPACES: Final = re.compile(rb"\xe2\x80[\x8b-\x8d]|\xe2\x81\xa0|\xef\xbb\xbf")
_ZERO_WIDTH: Final = re.compile(rb"(?m)^(?:" + _NO_SPACES.pattern + rb")+")
_MARKS: Final = re.compile(rb"(?m)^[ >]+")

_PAGE: Final = re.compile(rb"(?i)\s*<(?:!doctype html|html|body|pre|p|div|table)\b")
_NEW_LINES: Final = re.compile(rb"(?i)<(?:br|pre|code|/pre|/p|/div|/tr|/li)\b[^<>\n]*>")
_TAGS: Final = re.compile(
    rb"(?i)</?(?:html|head|body|meta|title|link|p|div|span|code|a|b|i|em|strong|font|table|tbody|thead|t[rdh]|ul|ol|li"
    rb"|h[1-6]|hr|main|article|section|!doctype)\b[^<>\n]*>"
)
_ENTITIES: Final = (
    *((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&#34;", b'"'), (b"&#39;", b"'"), (b"&#x27;", b"'")),
    *((b"&nbsp;", b" "), (b"&amp;", b"&")),
)
_ENTITY: Final = re.compile(rb"&(?:[lg]t|quot);")
_LETTERS: Final = re.compile(rb"[<>\"]")

_TIME: Final = rb"\d\d:\d\d:\d\d"
_PREFIXES: Final = tuple(
    re.compile(rb"(?m)^" + prefix)
    for prefix in (
        rb"\[ *\d+\.\d+\] ",  # dmesg
        rb"\[\w{3} \w{3} [ \d]\d " + _TIME + rb" \d{4}\] ",  # dmesg -T
        rb"\d\d-\d\d " + _TIME + rb"\.\d+ +\d+ +\d+ [VDIWEF] [^:\n]*: ",  # logcat
        rb"(?:\d\d-\d\d " + _TIME + rb"\.\d+ )?[VDIWEF]/[^(\n]*\( *\d+\): ",  # logcat -v time, brief
        rb"(?:\w{3} [ \d]\d " + _TIME + rb"|\d{4}-\d\d-\d\dT\S+) [^ \n]+ [^ :\n]+(?:\[\d+\])?: ",  # syslog, journalctl
        rb"\w{3} [ \d]\d " + _TIME + rb" ",  # ts
        rb" *(?P<number>\d+)(?:\t|[:-]|  | )",  # nl, cat -n, less -N, grep -n
        rb"[^\s:]+[:-](?P<number>\d+)[:-]",  # grep -n of several files
        rb"(?:[*-] |\+)",  # lists and differences
        rb"\|+ ",  # tables
        rb"[\"'](?=.*[\"'],?\r?$)",  # quotation marks; the closing ones are `_CLOSING`
    )
)
_ALIGNED: Final = re.compile(rb"(?m)^[^\n]{16}-\d+ ")
"""The begin of a line as the kernel prints it: a thread's name in 16 columns. Nothing precedes it."""

_CLOSING: Final = re.compile(rb"(?m)[\"'],?(?=\r?$)")
_DOUBLED: Final = re.compile(rb"\"\"|\\\"")
_BAR: Final = re.compile(rb"(?m) \|[ \r]*$")
_QUOTATION: Final = _PREFIXES[-1]
_MOST_PREFIXES: Final = 3


def printed(source: Source) -> Source:
    """Return the text as a terminal prints it: without escapes of colours, carriage returns and HTML's entities.

    These would be mistaken for parts of names, so that they are removed before anything is read. So is the first line
    of a CSV that names the separator to Excel (``sep=;``).
    """
    changes: list[_Change] = []
    if _SEPARATOR.match(source.head):
        changes.append(lambda lines: _SEPARATOR.sub(b"", lines))
    if _RESET.search(source.head):
        changes.append(lambda lines: _COLOURS.sub(b"", lines))
    if b"\r\r\n" in source.head or (source.head.count(b"\r") > 1 and b"\n" not in source.head):
        changes.append(lambda lines: _CARRIAGES.sub(b"\n", lines))
    if _ZERO_WIDTH.search(source.head):
        changes.append(lambda lines: _ZERO_WIDTH.sub(b"", lines))
    if _ENTITY.search(source.head) and not _LETTERS.search(source.head):
        changes.append(_without_entities)
    return source if b"\0" in source.head or not changes else _changed(source, changes)


@dataclass(frozen=True)
class Copy:
    """What was probably done to a text, undone.

    `head` is its begin. `is_enclosed` is whether it is more than other spaces: markup, or what each line begins with.
    """

    head: bytes
    is_enclosed: bool
    _changes: tuple[_Change, ...]

    def of(self, source: Source) -> Source:
        """Return the whole text."""
        return _changed(source, self._changes)


def copies(head: bytes) -> Iterator[Copy]:
    """Yield the text that begins with `head` with the usual spaces and without markup, then without what begins lines.

    Lines above and below the text (`_ABOVE`, `_BELOW`) are left out.

    A text that would not differ is left out.
    """
    if b"\0" in head:
        return
    is_page = _PAGE.match(head) is not None and b"<script" not in head
    changes = (_without_lines_around, *((_without_tags, _without_entities) if is_page else ()), _with_usual_spaces)
    if (restored := _after(changes, head)) != head:
        yield Copy(restored, is_page, changes)
    if _begins_lines(_ALIGNED, head):
        return
    for _ in range(_MOST_PREFIXES):
        prefix = next((prefix for prefix in _PREFIXES if _begins_lines(prefix, restored)), None)
        if prefix is None:
            return
        changes += (_without(prefix),)
        restored = changes[-1](restored)
        yield Copy(restored, True, changes)


def _without_lines_around(lines: bytes) -> bytes:
    return _BELOW.sub(b"", _ABOVE.sub(b"", lines))


def _without_tags(lines: bytes) -> bytes:
    return _TAGS.sub(b"", _NEW_LINES.sub(b"\n", lines))


def _without_entities(lines: bytes) -> bytes:
    for entity, letter in _ENTITIES:
        lines = lines.replace(entity, letter)
    return lines


def _with_usual_spaces(lines: bytes) -> bytes:
    return _MARKS.sub(b"", _NO_SPACES.sub(b"", _WIDE_SPACES.sub(b" ", lines)))


def _begins_lines(prefix: re.Pattern[bytes], head: bytes) -> bool:
    """Return whether more than half of the lines begin so, and numbers of lines ascend."""
    matches = list(prefix.finditer(head))
    if 2 * len(matches) <= sum(1 for line in head.splitlines() if line.strip()):
        return False
    numbers = [int(match["number"]) for match in matches] if "number" in prefix.groupindex else []
    return all(number < following for number, following in itertools.pairwise(numbers))


def _without(prefix: re.Pattern[bytes]) -> _Change:
    if prefix is _QUOTATION:
        return lambda lines: _DOUBLED.sub(b'"', _CLOSING.sub(b"", prefix.sub(b"", lines)))
    return lambda lines: _BAR.sub(b"", prefix.sub(b"", lines))


def _after(changes: Sequence[_Change], lines: bytes) -> bytes:
    for change in changes:
        lines = change(lines)
    return lines


def _changed(source: Source, changes: Sequence[_Change]) -> Source:
    return unpacked(source, "text", lambda: _Stream(source, changes))


class _Stream:
    """The changed text as a `compression.Stream`."""

    def __init__(self, source: Source, changes: Sequence[_Change]) -> None:
        self._pieces = _whole_lines(source)
        self._changes = changes
        self._ready = b""

    def read(self, size: int) -> bytes:
        while not self._ready and (lines := next(self._pieces, b"")):
            self._ready = _after(self._changes, lines)
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready


def _whole_lines(source: Source) -> Iterator[bytes]:
    """Yield pieces that end with a line, apart from lines that are longer than `HEAD_BYTES`."""
    rest = b""
    for piece in source.pieces():
        lines, newline, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > HEAD_BYTES:
            lines, newline, rest = lines + newline + rest, b"", b""
        if lines or newline:
            yield lines + newline
    if rest:
        yield rest
