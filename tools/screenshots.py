"""Take pictures for the docs in Chromium: reports (wide, narrow, dark, printed), the explorer, the panel.

python tools/screenshots.py                          of the datasets in the repository, into docs/pictures/
python tools/screenshots.py --corpus DIR             also of recordings in the tests' corpus
python tools/screenshots.py -o DIR RECORDING ...     of these recordings, into DIR/
python tools/screenshots.py --panel                  of the panel, which measures this machine at the same time
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from androstep_analysis import capture, report

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import explorer_page
from support.lab import browser, lab, page_of, run_cell

ROOT = Path(__file__).resolve().parents[1]
OWN = {"demo": ROOT / "datasets" / "demo", "benchmark": ROOT / "datasets" / "bench" / "ext4_disk" / "modes.rec.xz"}

MEASURED_MS = 400_000
"""The panel measures SQLite within this time on a busy machine."""

WIDE, NARROW, A4 = ({"width": width, "height": height} for width, height in ((1400, 900), (400, 800), (794, 1123)))
VIEWS: dict[str, tuple[dict[str, Any], Literal["screen", "print"]]] = {
    "wide": ({"viewport": WIDE}, "screen"),
    "narrow": ({"viewport": NARROW}, "screen"),
    "dark": ({"viewport": WIDE, "color_scheme": "dark"}, "screen"),
    "printed": ({"viewport": A4}, "print"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", metavar="RECORDING", type=Path)
    parser.add_argument("-o", dest="directory", metavar="DIR", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--corpus", metavar="DIR", type=Path, help="recordings of others, as the tests have them")
    parser.add_argument("--panel", action="store_true", help="of the panel")
    arguments = parser.parse_args()
    found = {path.name.split(".")[0]: path for path in arguments.recordings} or OWN
    arguments.directory.mkdir(parents=True, exist_ok=True)
    if arguments.panel:
        panel(arguments.directory)
        return
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        if arguments.corpus:
            found = found | of_others(arguments.corpus, Path(scratch))
        if not arguments.recordings:
            explored(browser, OWN["demo"], arguments.directory)
        for name, path in found.items():
            page = Path(scratch, f"{name}.html")
            report.write(capture.open(path), page)
            for view in VIEWS:
                keep(taken(browser, page, view), arguments.directory / f"report-{name}-{view}.png")


def of_others(corpus: Path, scratch: Path) -> dict[str, Path]:
    """Return two hours of a phone, and a blktrace without the file of one processor."""
    missing = scratch / "missing"
    missing.mkdir()
    for cpu in (0, 2):
        shutil.copy(corpus / "blktrace_bin/centos7/sda.blktrace.0", missing / f"sda.blktrace.{cpu}")
    return {"phone": corpus / "block_csv/pixel6a_slideshow_exec.csv.gz", "missing": missing / "sda.blktrace.0"}


def explored(browser: Browser, path: Path, directory: Path) -> None:
    """Show the explorer before and after a box selection, a click on a list entry, and the request details."""
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    explorer_page.show(opened, capture.open(path).explore())
    explorer_page.settled(opened)
    keep(opened.screenshot(), directory / "explore.png")
    canvas = opened.locator("canvas")
    place = canvas.bounding_box()
    assert place is not None
    opened.mouse.move(place["x"] + 520, place["y"] + 40)
    opened.mouse.down()
    opened.mouse.move(place["x"] + 1100, place["y"] + 330, steps=4)
    opened.mouse.up()
    explorer_page.settled(opened)
    opened.get_by_role("button", name=".example.mail").first.click()
    explorer_page.settled(opened)
    canvas.press(".")
    opened.locator(".story h3").first.wait_for()
    explorer_page.settled(opened)
    keep(opened.screenshot(), directory / "explore-brushed.png")
    opened.close()


def taken(browser: Browser, page: Path, view: str) -> bytes:
    """Return a screenshot of the top of a page."""
    options, media = VIEWS[view]
    context = browser.new_context(**options)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.emulate_media(media=media)
    picture = opened.screenshot()
    context.close()
    return picture


def keep(picture: bytes, path: Path, height: int = 2000) -> None:
    """Save the top `height` pixels of a picture as a PNG of 256 colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.crop((0, 0, image.width, min(height, image.height))).quantize(256).save(path, "PNG", optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


def panel(directory: Path) -> None:
    """Take the panel's pages: while it measures, a comparison of two results (light and dark), and the ranking."""
    with tempfile.TemporaryDirectory() as scratch:
        home, place = Path(scratch, "results"), Path(scratch, "measured")
        place.mkdir()
        cell = f"from androstep_analysis.present.panel import Panel\nPanel({str(home)!r}, directory={str(place)!r})"
        with shown(Path(scratch, "light"), cell) as (page, whole):
            page.get_by_label("What to measure").select_option("SQLite")
            for name in ("Before", "After"):
                page.get_by_label("Name").first.fill(name)
                page.get_by_role("button", name="Start", exact=True).click()
                if name == "After":
                    # The row of a repetition remains; the words of the current one may pass unseen on a busy machine.
                    row = page.locator(".androstep-panel .cards table", has_text="SQLite update").locator("tr").nth(4)
                    row.wait_for(state="detached")  # of the measurement before
                    row.wait_for(timeout=MEASURED_MS)
                    keep(whole.screenshot(), directory / "panel-measure.png")
                expect(page.locator(".jp-OutputArea h3", has_text=name)).to_be_visible(timeout=MEASURED_MS)
            compared(page)
            keep(whole.screenshot(), directory / "panel-history.png", 1150)
            page.get_by_role("tab", name="Ranking", exact=True).click()
            page.get_by_role("button", name="Rank", exact=True).click()
            page.locator(".androstep-panel figure img:visible").nth(2).wait_for()  # The other tabs have figures too.
            keep(whole.screenshot(), directory / "panel-ranking.png")
        with shown(Path(scratch, "dark"), cell, "JupyterLab Dark") as (page, whole):
            compared(page)
            keep(whole.screenshot(), directory / "panel-history-dark.png", 1150)


def compared(page: Page) -> None:
    page.get_by_role("tab", name="History", exact=True).click()
    page.get_by_label("Results", exact=True).select_option(index=[0, 1])
    page.locator(".androstep-panel figure img").nth(2).wait_for()


@contextlib.contextmanager
def shown(home: Path, cell: str, theme: str = "JupyterLab Light") -> Iterator[tuple[Page, Locator]]:
    """Open JupyterLab with the panel in a window 900 pixels wide."""
    settings = home / "JUPYTER_CONFIG_DIR" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": theme}))
    with lab(home, cell) as address, browser() as started, page_of(started) as page:
        page.set_viewport_size({"width": 900, "height": 2400})
        run_cell(page, address)
        page.keyboard.press("Control+b")  # hide the file browser
        yield page, page.locator(".androstep-panel")


if __name__ == "__main__":
    main()
