"""A page of HTML that asks for nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from androstep_analysis.markup import Element, el


def page(title: str, body: Sequence[Element]) -> str:
    """The page of that title in one file that stands by itself."""
    # The policy stands beside the escaping, not in its place: a page without scripts can forbid them.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title} · AndroStep"),
        el("style", _CSS),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


# Free of line feeds and of the characters that HTML escapes: inside <style> nothing is unescaped again.
_CSS = " ".join(
    (
        "body {font: 15px/1.45 system-ui; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem}",
        "h1 {font-size: 1.6rem; overflow-wrap: anywhere}",
        "h2 {font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc}",
        "table {border-collapse: collapse; margin: 1rem 0; font-size: .9rem}",
        "th, td {padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #eee}",
        "td {overflow-wrap: anywhere; unicode-bidi: isolate}",
        "th.number, td.number {text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums}",
        "thead th {border-bottom: 1px solid #888}",
        "table.hashes td {font: .75rem ui-monospace, monospace}",
        "dl {font-size: .85rem; color: #444; border-left: 3px solid #ccc; padding-left: .8rem}",
        "dt {font-weight: 600}",
        "dd {margin: 0 0 .4rem}",
        "ul.losses {background: #fff3d6; padding: .6rem 2rem; overflow-wrap: anywhere}",
        ".figures {display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1.5rem}",
        "figure {margin: 0; break-inside: avoid}",
        "img {max-width: 100%; width: 26rem}",
        "figcaption {font-size: .85rem; color: #444}",
        "@media print {body {font-size: 10pt; max-width: none; margin: 0}}",
        "h2 {break-after: avoid} tr {break-inside: avoid}",
    )
)
