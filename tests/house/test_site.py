"""Defects of a site are found; `make docs` and its site are checked in test_make.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.site import dead, far, read


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ('<a href="b.html#there">', []),
        ('<a href="b.html">', []),
        ('<a href="https://example.org/none">', []),
        ('<a href="c.html">', ["a.html: c.html"]),
        ('<a href="b.html#gone">', ["a.html: b.html#gone"]),
        ('<a href="#gone">', ["a.html: #gone"]),
        ('<img src="gone.png">', ["a.html: gone.png"]),
    ],
)
def test_what_is_dead_is_found(tmp_path: Path, body: str, problems: list[str]) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="there">')
    assert dead(read(tmp_path)) == problems


def test_what_is_far_is_found(tmp_path: Path) -> None:
    for name, after in zip("abcd", "bcde", strict=True):
        (tmp_path / f"{name}.html").write_text(f'<a href="{after}.html">')
    assert far(read(tmp_path), tmp_path / "a.html") == {tmp_path / "d.html"}
