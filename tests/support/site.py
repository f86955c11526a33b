"""Check the site that `make docs` builds: no dead link, and every page is near the first."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import androstep_analysis
from androstep_analysis import cli, schema
from support.tree import ROOT

FIRST = "notebooks/01_explore"
"""The notebook that the site shows with its figures."""

CLICKS = 2
"""Maximum number of links from the first page to any other."""


@dataclass
class Page(HTMLParser):
    """The links, resources and anchors of a page."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and value is not None:
                (self.links if tag == "a" else self.loads).append(value)
            elif name == "src" and value:
                self.loads.append(value)


def read(site: Path) -> dict[Path, Page]:
    """Return the pages of a site."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" not in path.relative_to(site).parts:
            pages[path] = Page()
            pages[path].feed(path.read_text("utf-8"))
    return pages


def target(page: Path, link: str) -> tuple[Path, str] | None:
    """Return the file and anchor of a link; None for another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, unquote(parts.fragment)


def dead(pages: dict[Path, Page]) -> list[str]:
    """Return links to and resources of the site that do not exist."""
    found = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            if aim := target(path, link):
                file, anchor = aim
                has_anchor = not anchor or file not in pages or anchor in pages[file].anchors
                found += [] if file.is_file() and has_anchor else [f"{path.name}: {link}"]
    return found


def far(pages: dict[Path, Page], first: Path) -> set[Path]:
    """Return pages that are more than `CLICKS` links away from the first."""
    reached = {first}
    for _ in range(CLICKS):
        aims = [target(path, link) for path in reached for link in pages[path].links]
        reached |= {aim[0] for aim in aims if aim and aim[0] in pages}
    return pages.keys() - reached


def check(site: Path) -> None:
    """Check the links of a site, and that it has the first notebook's pictures, all commands, tables and functions."""
    pages = read(site)
    assert dead(pages) == []
    elsewhere = {site / "index.html", site / "search.html"}  # redirect; linked by a form
    assert far(pages, site / "docs" / "index.html") == elsewhere
    assert any("_images" in file for file in pages[site / f"{FIRST}.html"].loads)
    anchors = {path.relative_to(site).as_posix(): page.anchors for path, page in pages.items()}
    assert cli.COMMANDS.keys() <= anchors["docs/options.html"]
    assert {name.replace("_", "-") for name in schema.names()} <= anchors["docs/tables.html"]
    for part in {path.stem for path in (ROOT / "docs" / "api").glob("*.md")} - {"index", "androstep"}:
        module = getattr(androstep_analysis, part)
        functions = {name for name in module.__all__ if inspect.isfunction(getattr(module, name))}
        assert {f"{module.__name__}.{name}" for name in functions} <= anchors[f"docs/api/{part}.html"]
