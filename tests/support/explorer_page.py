"""Show an explorer in a browser without JupyterLab; Python answers its messages as in JupyterLab."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, expect

from androstep_analysis import explore
from androstep_analysis.explore import Explorer

SITE = "http://explorer.test/"
PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="explorer.css">
<style>body {margin: 0}</style><div id="here"></div>
<script type="module">
  import explorer from "./explorer.js";
  const handlers = new Set();
  const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
  const model = {
    on: (_, handler) => handlers.add(handler),
    off: (_, handler) => handlers.delete(handler),
    send: async (message) => {
      document.body.dataset.asked = message.kind;
      for (const [content, buffers] of JSON.parse(await toPython(JSON.stringify(message))))
        for (const handler of handlers) handler(content, buffers.map(bytes));
    },
  };
  explorer.render({ model, el: document.getElementById("here") });
</script>"""

Answer = Callable[[dict[str, Any]], None]


def show(page: Page, explorer: Explorer, answer: Answer | None = None) -> None:
    """Open the page of an explorer; `answer` replaces Python's handling of a message."""
    sent: list[tuple[dict[str, Any], list[str]]] = []
    explorer.widget.send = lambda content, buffers=None: sent.append(
        (content, [base64.b64encode(one).decode() for one in buffers or ()])
    )

    def to_python(text: str) -> str:
        sent.clear()
        with suppress(ZeroDivisionError):  # ipywidgets would log it
            (answer or explorer._answer)(json.loads(text))
        return json.dumps(sent)

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix(SITE)
        root = Path(explore.__file__).parent
        text = (root / name).read_text("utf-8") if name in ("explorer.js", "explorer.css") else PAGE
        kinds = {"explorer.js": "text/javascript", "explorer.css": "text/css"}
        route.fulfill(body=text, content_type=kinds.get(name, "text/html"))

    page.clock.install()
    page.expose_function("toPython", to_python)
    page.route(f"{SITE}**", serve)
    page.goto(SITE)
    expect(page.locator("strong")).not_to_be_empty()


def settled(page: Page) -> dict[str, Any]:
    """Wait until no message is pending, and return what the canvas shows."""
    page.clock.run_for(500)
    handle = page.wait_for_function("document.querySelector('canvas').dataset.shown")
    view: dict[str, Any] = json.loads(handle.json_value())
    return view
