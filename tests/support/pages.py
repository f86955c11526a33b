"""Parse HTML pages like a browser, and hostile names for them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources

HOSTILE = (
    "<script>alert(1)</script>.txt",
    '"><img src=x onerror=1>',
    "'onmouseover='alert(1)",
    "</td></table><iframe src=https://example.org/>",
    "</style><script>document.title='OWNED'</script>",
    "<svg onload=\"document.title='OWNED'\">",
    "<img src=x onerror=\"document.title='OWNED'\">",
    r"$\frac{",
    "two\nlines\r\t\x1b[31m",
    "\u202egpj.exe",
    "javascript:alert(1)",
    "&lt;b&gt; &amp;",
    "{bin} {0} %s",
)

TAGS = {"html", "head", "meta", "title", "style", "body", "nav", "header", "main", "section", "h1", "h2", "h3", "p"} | {
    *(
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "div",
        "span",
        "a",
        "i",
        "details",
        "summary",
        "noscript",
        "script",
        "code",
    ),
    *("script", "table", "thead", "tbody", "tr", "th", "td", "figure", "img", "figcaption", "svg", "rect", "wbr"),
}

ATTRIBUTES = {"class", "id", "scope", "src", "alt", "lang", "charset", "name", "content", "http-equiv", "href"} | {
    *("tabindex", "role", "title", "type", "x", "width", "height", "aria-label", "aria-hidden", "data-chart"),
}


class Page(HTMLParser):
    """Elements with attributes, and the text of each kind of element, as a browser's parser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "wbr"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "every element is closed where it should be"

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
            return
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def row(self, *first: str) -> list[str]:
        """Return the cells after `first` in the one row that begins with them."""
        (found,) = [row for row in self.rows if tuple(row[: len(first)]) == first]
        return found[len(first) :]

    def check_harmless(self) -> None:
        """Check that the page fetches nothing, and runs only the script of the package."""
        assert {tag for tag, _ in self.elements} <= TAGS
        kinds = [attributes.get("type") for tag, attributes in self.elements if tag == "script"]
        assert set(kinds) <= {None, "application/json"} and kinds.count(None) == 1
        known = resources.files("androstep_analysis.present.report").joinpath("page.js").read_text("utf-8")
        for kind, script in zip(kinds, self.scripts, strict=True):
            assert script == known if kind is None else json.loads(script)
        for tag, attributes in self.elements:
            assert attributes.keys() <= ATTRIBUTES
            if "src" in attributes:
                assert tag == "img"
                assert re.fullmatch(r"data:image/svg\+xml;base64,[A-Za-z0-9+/]+=*", attributes["src"] or "")
            if "href" in attributes:
                target = (attributes["href"] or "").removeprefix("#")
                is_time = re.fullmatch(r"t=\d+,\d+", target)  # page.js shows it in the figures over time.
                places = {other.get("id") for _, other in self.elements}
                assert is_time or target in places, "a link leads to a place of the page"
        assert self.open == [], "every element is closed"
