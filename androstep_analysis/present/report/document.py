"""A self-contained HTML page: no network requests, and no scripts except page.js."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from androstep_analysis.common.markup import Element, el


@dataclass(frozen=True)
class Part:
    """A section of a page: `name` is the anchor, `title` the question that `body` answers."""

    name: str
    title: str
    body: Sequence[Element]


def page(title: str, first: Sequence[Element], parts: Sequence[Part]) -> str:
    """Return a page as one HTML file: `first` is the overview, `parts` are listed in the contents.

    Parts without a body are omitted.
    """
    shown = [part for part in parts if part.body]
    # The policy is a second line of defence: even a name that escaped the escaping would not run as a script.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(_file('page.css'))}'; "
        f"script-src '{_digest(_file('page.js'))}'; base-uri 'none'; form-action 'none'"
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title} · AndroStep"),
        el("style", _file("page.css")),
    )
    contents = [el("li", el("a", part.title, href=f"#{part.name}")) for part in shown]
    body = el(
        "body",
        el("nav", el("ul", *contents), aria_label="Contents"),
        el("header", el("h1", title), *first),
        el("main", *(_section(part) for part in shown)),
        el("script", _file("page.js")),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _section(part: Part) -> Element:
    return el("section", el("h2", part.title), *part.body, id=part.name)


@functools.cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """Return the hash by which a content security policy identifies a script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
