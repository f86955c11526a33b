"""The explorer's page in Chromium without JupyterLab: its search, and what it does when Python answers badly or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, expect
from support import lab
from support.explorer_page import Answer, settled, show

from androstep_analysis import capture
from androstep_analysis.explore import Explorer

DEMO = Path(__file__).parents[2] / "datasets" / "demo"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with lab.browser() as started:
        yield started


@contextmanager
def shown(browser: Browser, explorer: Explorer, answer: Answer | None = None) -> Iterator[Page]:
    with lab.page_of(browser) as page:
        show(page, explorer, answer)
        yield page


@pytest.fixture
def explorer() -> Explorer:
    return capture.open(DEMO).explore()


def test_a_search_filters_as_a_brush_does(browser: Browser, explorer: Explorer) -> None:
    whole = explorer.selection.height
    with shown(browser, explorer) as page:
        settled(page)
        canvas, search = page.locator("canvas"), page.get_by_role("searchbox")
        canvas.press("/")
        expect(search).to_be_focused()
        page.keyboard.type("PERSIST.db-j")
        settled(page)
        files = page.get_by_role("list", name="Files")
        expect(files.locator(".name", has_text="persist.db-journal")).to_be_visible()
        # On a busy machine the page may have answered a part of what was typed.
        expect(files.locator(".entry .name", has_text=re.compile(r"persist\.db( |$)"))).to_have_count(0)
        names = [name.partition(" (")[0] for name in files.locator(".entry .name").all_inner_texts()]
        assert [name for name in names if not name.endswith("/")] == ["persist.db-journal"]
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
        page.get_by_role("button", name="Clear selection").click()
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


def test_an_error_of_python_is_told_and_the_next_window_is_asked_for(browser: Browser, explorer: Explorer) -> None:
    broken = []

    def answer(message: dict[str, Any]) -> None:
        explorer._on_picture = broken.pop() if broken else type(explorer)._on_picture.__get__(explorer)
        explorer._answer(message)

    with shown(browser, explorer, answer) as page:
        before = settled(page)
        broken.append(lambda _: 1 // 0)
        page.locator("canvas").press("w")
        problem = page.locator(".problem[role=alert]")
        expect(problem).to_contain_text("Python could not answer (picture): ZeroDivisionError: ")
        page.locator("canvas").press("w")
        expect(problem).to_be_empty()
        after = settled(page)
        assert after["end_ns"] - after["begin_ns"] < before["end_ns"] - before["begin_ns"]


def test_an_answer_that_never_comes_does_not_freeze_the_page(browser: Browser, explorer: Explorer) -> None:
    dropped: list[str] = []

    def answer(message: dict[str, Any]) -> None:
        if message["kind"] == "picture" and len(dropped) == 0 and message["view"]["begin_ns"] > 0:
            dropped.append(message["kind"])
        else:
            explorer._answer(message)

    with shown(browser, explorer, answer) as page:
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
