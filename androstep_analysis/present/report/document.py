"""A page of HTML that stands by itself: it asks for nothing, and runs nothing but the script that is known here."""

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
    """A section of a page: `name` is where links lead, `title` the question that `body` answers."""

    name: str
    title: str
    body: Sequence[Element]


def page(title: str, first: Sequence[Element], parts: Sequence[Part]) -> str:
    """The page of that title in one file: `first` is what a reader sees first, `parts` stand in the contents.

    Parts without a body are left out.
    """
    shown = [part for part in parts if part.body]
    # The policy stands beside the escaping, not in its place: whatever a name managed to be would not run.
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
    """What a policy calls a script or style by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
