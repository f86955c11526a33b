"""Names in figures. Paths, process and package names come from the device and may contain anything."""

from __future__ import annotations

import functools

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from androstep_analysis.common.markup import visible

FONT = "DejaVu Sans"
"""The font of every figure. It comes with matplotlib, so a figure looks the same on every machine."""

NO_GLYPH = "□"


def elide(text: str, width: int) -> str:
    """Shorten `text` to at most `width` characters by replacing its middle by an ellipsis.

    The end of a path is the most specific part, and the beginning has the package, so both are kept.
    """
    if len(text) <= width:
        return text
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def label(text: str, width: int = 30) -> str:
    """Return `text` as a label: escaped, shortened, and with a box for each character that the font lacks.

    The caller must also pass ``parse_math=False``: a dollar sign is a legal character of a file name.
    """
    glyphs = _glyphs()
    return elide("".join(c if ord(c) in glyphs else NO_GLYPH for c in visible(text)), width)


def width(text: str, points: float) -> float:
    """Return the width of `text` in points, at a size of `points`."""
    font = _font()
    font.set_size(points, 72)
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64


@functools.cache
def _glyphs() -> frozenset[int]:
    """Return the code points for which `FONT` has a glyph."""
    return frozenset(_font().get_charmap())


def _font() -> FT2Font:
    return font_manager.get_font(font_manager.findfont(FONT, fallback_to_default=False))
