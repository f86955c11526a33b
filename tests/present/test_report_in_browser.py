"""The report in a real browser: tables are sorted, searched and paged, time is zoomed, and names are harmless."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support import lab
from support.pages import HOSTILE

from androstep_analysis import advise, capture, report, slow
from androstep_analysis.common import markup
from androstep_analysis.present.report import cells, document
from androstep_analysis.present.report.cells import Column
from androstep_analysis.present.report.document import Part

DEMO = Path(__file__).parents[2] / "datasets" / "demo"
BENCH = Path(__file__).parents[2] / "datasets" / "bench" / "ext4_disk" / "modes.rec.xz"

pytestmark = pytest.mark.prove

PATIENCE_MS = 120_000
"""How long anything may take on a machine that is busy with other tests."""

SECTION = "#files .sheet"

MANY = 100_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with lab.browser() as started:
        yield started


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(DEMO, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(BENCH, tmp_path_factory.mktemp("bench"))


def written(source: Path, directory: Path) -> Path:
    path = directory / "report.html"
    report.write(capture.open(source), path)
    return path


@functools.cache
def many() -> pl.DataFrame:
    """So many files, hostile names among them, and what was moved of each."""
    names = [f"/data/app/number {i}" for i in range(MANY - len(HOSTILE))] + list(HOSTILE)
    sizes = [(i * 7919) % 1_000_003 for i in range(MANY)]
    return pl.DataFrame(
        {"path": names, "app": [f"app {i % 3}" if i % 4 else None for i in range(MANY)], "bytes": sizes}
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with a table of `many`."""
    columns = {"path": Column("File"), "app": Column("App", pick=True), "bytes": Column("Bytes", cells.size)}
    path = tmp_path_factory.mktemp("large") / "page.html"
    part = Part("files", "Which files?", [cells.table(many(), columns, "Files")])
    path.write_text(document.page("many", [], [part]), "utf-8")
    return path


class Opened:
    """A page in a browser, with its console errors and its network requests."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert self.said == [], "no error, and no violation of the policy"
        assert all(url.startswith(("file:", "data:image/svg+xml")) for url in self.asked)

    def names(self, sheet: str = SECTION) -> list[str]:
        return self.page.locator(f"{sheet} tbody th").all_text_contents()


def test_the_script_shows_what_the_page_shows_without_it(browser: Browser, demo: Path) -> None:
    rows = "[...document.querySelectorAll('.sheet tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    with Opened(browser, demo, java_script_enabled=False) as plain, Opened(browser, demo) as scripted:
        # Without scripts nothing can be asked of the page, but what it holds can be read.
        still = [row.locator("th, td").all_text_contents() for row in plain.page.locator(".sheet tbody tr").all()]
        assert scripted.page.evaluate(rows) == still
        assert len(still) > 50
        expect(plain.page.get_by_text(re.compile("more rows are shown where scripts run")).first).to_be_visible()


def test_a_table_is_sorted_by_its_numbers_and_names(browser: Browser, large: Path) -> None:
    table = many()
    by_size = table.with_row_index().sort("bytes", "index", descending=[True, False])["path"]
    with Opened(browser, large) as opened:
        header = opened.page.get_by_role("columnheader", name="Bytes")
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", "descending")
        assert opened.names() == [markup.visible(name) for name in by_size.head(cells.PAGE)]
        header.get_by_role("button").click()
        expect(header).to_have_attribute("aria-sort", "ascending")
        least = table.sort("bytes", maintain_order=True)["path"].head(cells.PAGE)
        assert opened.names() == [markup.visible(name) for name in least]
        opened.page.get_by_role("columnheader", name="App").get_by_role("button").click()
        expect(header).not_to_have_attribute("aria-sort", re.compile("."))
        assert opened.page.locator(f"{SECTION} tbody td:nth-child(2)").first.text_content() == "app 0"


def test_all_rows_are_found_and_paged(browser: Browser, large: Path) -> None:
    with Opened(browser, large) as opened:
        status = opened.page.get_by_role("status")
        expect(status).to_have_text(f"1–25 of {MANY:,}")
        opened.page.get_by_role("button", name="Next").click()
        assert opened.names()[0] == many()["path"][cells.PAGE]
        search = opened.page.get_by_role("searchbox", name="Search Files")
        search.fill("NUMBER 9998")
        found = [name for name in many()["path"] if "number 9998" in name]
        expect(status).to_have_text(f"1–{len(found)} of {len(found)} ({MANY:,} in all)")
        assert opened.names() == found
        for name in HOSTILE:
            search.fill(markup.visible(name))
            expect(status).to_have_text(f"1–1 of 1 ({MANY:,} in all)")
            assert opened.names() == [markup.visible(name)], "a name is text"
        search.fill("no such file")
        expect(status).to_have_text("no row")
        assert opened.page.title() == "many · AndroStep"


def test_a_table_is_limited_to_a_value(browser: Browser, large: Path) -> None:
    with Opened(browser, large) as opened:
        for label, value in (("app 1", "app 1"), ("unknown", None)):
            opened.page.get_by_label("App of Files").select_option(label=label)
            rows = many().filter(pl.col("app").eq_missing(value))
            expect(opened.page.get_by_role("status")).to_have_text(f"1–25 of {rows.height:,} ({MANY:,} in all)")
            assert opened.names() == [markup.visible(name) for name in rows["path"].head(cells.PAGE)]


def labels(chart: Locator) -> list[str]:
    return chart.locator("svg > text").all_text_contents()


def test_time_is_zoomed_in_all_figures_at_once(browser: Browser, demo: Path) -> None:
    with Opened(browser, demo) as opened:
        rate, requests = (opened.page.locator(f"[data-chart={kind}]") for kind in ("rate", "requests"))
        for chart, last in ((rate, "8 s"), (requests, "9 s")):  # drawn again once the page has its width
            expect(chart.locator("svg > text").filter(has_text=re.compile(f"^{last}$"))).to_be_attached()
        whole = labels(rate), labels(requests)
        rate.scroll_into_view_if_needed()
        box = rate.locator("svg").first.bounding_box()
        assert box is not None
        opened.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
        opened.page.mouse.down()
        opened.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
        opened.page.mouse.up()
        assert "8 s" not in labels(rate) and "9 s" not in labels(requests)
        rate.locator("svg").first.dblclick()
        assert (labels(rate), labels(requests)) == whole
        rate.get_by_role("button", name="Zoom in").click()
        assert "8 s" not in labels(rate)
        rate.get_by_role("button", name="Whole time").click()
        assert labels(rate) == whole[0]
        requests.locator("svg").first.focus()
        opened.page.keyboard.press("+")
        assert labels(requests) != whole[1]
        opened.page.keyboard.press("0")
        assert labels(requests) == whole[1]


def test_a_finding_links_to_its_time(demo: Path) -> None:
    found = advise(capture.open(DEMO)).filter(trigger="temporary", status="found").row(0, named=True)
    begin, end = (found[name] - (capture.open(DEMO).first_ns or 0) for name in ("begin_ns", "end_ns"))
    assert f'href="#t={begin},{end}">at 1.961 s</a>' in demo.read_text("utf-8")


def test_a_slow_operation_leads_to_its_time(browser: Browser, demo: Path) -> None:
    """By a click, and by the page's address: the axis has that time, and little else."""
    slowest = slow(capture.open(DEMO), top=1).row(0, named=True)
    begin, end = slowest["at_ns"], slowest["at_ns"] + slowest["duration_ns"]
    with Opened(browser, demo) as opened:
        rate = opened.page.locator("[data-chart=rate]")
        whole = labels(rate)
        opened.page.get_by_role("link", name="80.99 ms", exact=True).first.click()
        shown = labels(rate)
        assert opened.page.url.endswith(f"#t={begin},{end}")
        assert shown != whole
        opened.page.reload()
        assert labels(rate) == shown
        expect(rate).to_be_in_viewport()
        seconds = [float(label.removesuffix(" s")) * 1e9 for label in shown if label.endswith(" s")]
        span = end - begin
        assert len(seconds) > 1 and begin - span < seconds[0] <= seconds[-1] < end + span


def test_pointing_at_a_mark_names_its_file(browser: Browser, demo: Path) -> None:
    """The largest read of the demo is of one file, and stands where its time and sector are."""
    io = capture.open(DEMO).io.filter(pl.col("op") == "read", pl.col("path").is_not_null()).collect()
    largest = io.sort("bytes", descending=True).row(0, named=True)
    first = capture.open(DEMO).first_ns or 0
    with Opened(browser, demo) as opened:
        chart = opened.page.locator("[data-chart=requests]")
        chart.scroll_into_view_if_needed()
        at = (largest["issue_ns"] - first, largest["sector"])
        x, y = opened.page.evaluate(
            """([time, sector]) => {
                 const marks = JSON.parse(document.getElementById("timeline").textContent).requests;
                 const span = JSON.parse(document.getElementById("timeline").textContent).span;
                 const box = document.querySelector("[data-chart=requests] svg").getBoundingClientRect();
                 const [least, most] = [Math.min(...marks.sector), Math.max(...marks.sector)];
                 const [wide, high] = [box.width - 84, box.height - 38];
                 return [box.x + 74 + (time / span + 0.005) / 1.01 * wide,
                         box.y + 12 + 6 + (high - 12) * (1 - (sector - least) / (most - least))];
               }""",
            at,
        )
        opened.page.mouse.move(x, y)
        told = chart.locator(".told")
        expect(told).to_contain_text(f"file {largest['path']}")
        expect(told).to_contain_text("read of")
        rate = opened.page.locator("[data-chart=rate]")
        rate.scroll_into_view_if_needed()
        box = rate.locator("svg").first.bounding_box()
        assert box is not None
        span = (capture.open(DEMO).last_ns or 0) - first
        part = ((largest["complete_ns"] - first) / span + 0.005) / 1.01
        opened.page.mouse.move(box["x"] + 74 + part * (box["width"] - 84), box["y"] + 60)
        expect(rate.locator(".told")).to_contain_text("read ")
        opened.page.get_by_label("Vertical axis of the requests").select_option(label="How long")
        assert any("ms" in label for label in labels(chart))


@pytest.mark.prove
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_screen(browser: Browser, demo: Path, bench: Path, width: int) -> None:
    for path in (demo, bench):
        with Opened(browser, path, viewport={"width": width, "height": 800}) as opened:
            assert opened.page.evaluate("document.documentElement.scrollWidth") == width, path


def test_contents_lead_to_every_section(browser: Browser, demo: Path) -> None:
    with Opened(browser, demo) as opened:
        links = opened.page.get_by_role("navigation", name="Contents").get_by_role("link")
        assert links.count() == opened.page.locator("main > section").count() > 5
        for link in links.all():
            link.click()
            section = opened.page.locator(f"section{link.get_attribute('href')}")
            expect(section.get_by_role("heading", level=2)).to_be_in_viewport()


def test_a_link_to_a_definition_opens_its_fold(browser: Browser, demo: Path) -> None:
    with Opened(browser, demo) as opened:
        expect(opened.page.locator("#means-image")).not_to_be_visible()
        opened.page.evaluate("location.hash = '#means-image'")
        expect(opened.page.locator("#means-image")).to_be_in_viewport()


def test_on_paper_nothing_is_cut_and_folds_are_open(browser: Browser, demo: Path, tmp_path: Path) -> None:
    """A4 has 182 mm, which are 688 pixels, between the margins of the page."""
    with Opened(browser, demo, viewport={"width": 688, "height": 1000}) as opened:
        opened.page.emulate_media(media="print")
        opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 688
        assert opened.page.locator("details:not([open])").count() == 0
        expect(opened.page.get_by_role("navigation")).not_to_be_visible()
        kept = opened.page.evaluate(
            "[...document.querySelectorAll('tr, figure, .tiles > div')]"
            ".every(one => getComputedStyle(one).breakInside === 'avoid')"
        )
        assert kept, "nothing that belongs together is torn apart"
        opened.page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
        pages = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes()))
        assert 3 < pages < 32


_UNREADABLE = """() => {
  const channel = (value) => ((value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number).map(channel)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const below = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return colour === "rgba(0, 0, 0, 0)" && element.parentElement ? below(element.parentElement) : colour;
  };
  return [...document.querySelectorAll("body *")].filter((element) => {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.checkVisibility() || element.disabled || element.closest("svg, script")) return false;
    const [one, other] = [light(getComputedStyle(element).color), light(below(element))].sort((a, b) => b - a);
    return (one + 0.05) / (other + 0.05) < 4.5;
  }).map((element) => `${element.tagName} ${element.textContent.slice(0, 40)}`);
}"""
"""Texts with less contrast than WCAG 2.2 wants (1.4.3, level AA)."""

_UNNAMED = """() => [...document.querySelectorAll("table, img, svg[role=img], input, select, button, nav, .scroll")]
  .filter((one) => !(one.getAttribute("aria-label") || one.alt || (one.tagName === "BUTTON" && one.textContent.trim())))
  .map((one) => one.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_and_has_a_name(browser: Browser, demo: Path, scheme: str) -> None:
    with Opened(browser, demo, color_scheme=scheme) as opened:
        assert opened.page.evaluate(_UNREADABLE) == []
        assert opened.page.evaluate(_UNNAMED) == []
        heads = opened.page.locator("th").evaluate_all("heads => heads.map(head => head.scope)")
        assert heads and set(heads) == {"col", "row"}
        levels = opened.page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3')].map(head => Number(head.tagName[1]))"
        )
        assert levels[0] == 1 and all(after - before <= 1 for before, after in itertools.pairwise(levels))
        paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_demo_is_small(demo: Path) -> None:
    assert demo.stat().st_size < 2_000_000
