"""The explorer's page in Chromium without JupyterLab: its search, and what it does when Python answers badly or not."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Page, Route, expect
from support.lab import browser_page

from androstep_analysis import capture, explore
from androstep_analysis.explore import Explorer

DEMO = Path(__file__).parents[2] / "datasets" / "demo"
SITE = "http://explorer.test/"
PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="explorer.css">
<button>before</button><div id="here"></div>
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


@pytest.fixture
def explorer() -> Explorer:
    return capture.open(DEMO).explore()


@contextmanager
def shown(explorer: Explorer, answer: Answer | None = None) -> Iterator[Page]:
    """The page of an explorer; `answer` stands in for what Python does with a message."""
    sent: list[tuple[dict[str, Any], list[str]]] = []
    explorer.widget.send = lambda content, buffers=None: sent.append(
        (content, [base64.b64encode(one).decode() for one in buffers or ()])
    )

    def to_python(text: str) -> str:
        sent.clear()
        with suppress(ZeroDivisionError):  # ipywidgets writes it into its log
            (answer or explorer._answer)(json.loads(text))
        return json.dumps(sent)

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix(SITE)
        root = Path(explore.__file__).parent
        text = (root / name).read_text("utf-8") if name in ("explorer.js", "explorer.css") else PAGE
        kinds = {"explorer.js": "text/javascript", "explorer.css": "text/css"}
        route.fulfill(body=text, content_type=kinds.get(name, "text/html"))

    with browser_page() as page:
        page.clock.install()
        page.expose_function("toPython", to_python)
        page.route(f"{SITE}**", serve)
        page.goto(SITE)
        expect(page.locator("strong")).not_to_be_empty()
        yield page


def settled(page: Page) -> dict[str, Any]:
    """What the canvas shows once nothing is on its way."""
    page.clock.run_for(500)
    handle = page.wait_for_function("document.querySelector('canvas').dataset.shown")
    view: dict[str, Any] = json.loads(handle.json_value())
    return view


def test_a_search_filters_as_a_brush_does(explorer: Explorer) -> None:
    whole = explorer.selection.height
    with shown(explorer) as page:
        settled(page)
        canvas, search = page.locator("canvas"), page.get_by_role("searchbox")
        canvas.press("/")
        expect(search).to_be_focused()
        page.keyboard.type("PERSIST.db-j")
        settled(page)
        files = page.get_by_role("list", name="Files")
        expect(files.locator(".name", has_text="persist.db-journal")).to_be_visible()
        assert [one for one in files.locator(".entry .name").all_inner_texts() if not one.endswith("/")] == [
            "persist.db-journal"
        ]
        expect(page.get_by_role("status")).to_contain_text("Selected: ")
        chosen = explorer.selection
        assert 0 < chosen.height < whole and set(chosen["path"]) == {
            "/data/com.example.mail/databases/persist.db-journal"
        }

        # The name of a process finds what it owns, with a brush it is both; without the text it is all again.
        search.fill("installd")
        settled(page)
        assert set(explorer.selection["owner_comm"]) == {"installd"}
        page.get_by_role("list", name="Operations").get_by_role("button", name="write").first.click()
        settled(page)
        assert set(explorer.selection["op"]) == {"write"}
        search.press("Escape")
        settled(page)
        expect(search).to_have_value("")
        assert explorer.selection.height == explorer.selection.filter(op="write").height > 1000
        search.fill("nothing has this name")
        settled(page)
        expect(page.get_by_role("status")).to_contain_text("Selected: 0 requests")
        page.get_by_role("button", name="Clear brushes").click()
        settled(page)
        expect(search).to_have_value("")
    assert explorer.selection.height == whole


def test_a_search_is_what_polars_finds(explorer: Explorer) -> None:
    io = explorer.selection
    for text in ("DB-journal", "/data/", "example.mail", "inode 1", "*", "(", "unknown"):
        explorer._pieces.search(text)
        named = pl.concat_str(pl.lit("inode "), pl.col("ino"))
        names = [
            pl.coalesce("path", named), pl.col("owner_package"),
            pl.col("owner_comm") + pl.concat_str(pl.lit(" ("), pl.col("owner_pid"), pl.lit(")")),
        ]  # fmt: skip
        holds = [name.str.to_lowercase().str.contains(text.lower(), literal=True).fill_null(False) for name in names]
        assert explorer.selection.equals(io.filter(pl.any_horizontal(holds))), text


def test_an_error_of_python_is_told_and_the_next_window_is_asked_for(explorer: Explorer) -> None:
    broken = []

    def answer(message: dict[str, Any]) -> None:
        explorer._on_picture = broken.pop() if broken else type(explorer)._on_picture.__get__(explorer)
        explorer._answer(message)

    with shown(explorer, answer) as page:
        before = settled(page)
        broken.append(lambda _: 1 // 0)
        page.locator("canvas").press("w")
        problem = page.locator(".problem[role=alert]")
        expect(problem).to_contain_text("Python could not answer (picture): ZeroDivisionError: ")
        page.locator("canvas").press("w")
        expect(problem).to_be_empty()
        after = settled(page)
        assert after["end_ns"] - after["begin_ns"] < before["end_ns"] - before["begin_ns"]


def test_an_answer_that_never_comes_does_not_freeze_the_page(explorer: Explorer) -> None:
    dropped: list[str] = []

    def answer(message: dict[str, Any]) -> None:
        if message["kind"] == "picture" and len(dropped) == 0 and message["view"]["begin_ns"] > 0:
            dropped.append(message["kind"])
        else:
            explorer._answer(message)

    with shown(explorer, answer) as page:
        settled(page)
        canvas = page.locator("canvas")
        canvas.press("w")
        canvas.press("w")  # waits for the first
        page.wait_for_function("document.body.dataset.asked.endsWith('picture')")
        assert dropped
        page.clock.run_for(9_000)
        expect(page.locator(".problem[role=alert]")).to_be_empty()
        page.clock.run_for(2_000)
        nearest = settled(page)
        assert nearest["begin_ns"] > 0
        canvas.press("Home")
        expect(page.locator(".problem[role=alert]")).to_be_empty()
        assert settled(page)["begin_ns"] < 0
