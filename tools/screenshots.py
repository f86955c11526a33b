"""Pictures for the docs, taken in Chromium: reports wide, narrow, dark, printed; the explorer with and without brushes.

python tools/screenshots.py                          of the datasets that come with the project, into docs/pictures/
python tools/screenshots.py --corpus DIR             of recordings of others, too
python tools/screenshots.py -o DIR RECORDING ...     of these recordings, into DIR/
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from androstep_analysis import capture, report

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import explorer_page

ROOT = Path(__file__).resolve().parents[1]
OWN = {"demo": ROOT / "datasets" / "demo", "benchmark": ROOT / "datasets" / "bench" / "ext4_disk" / "modes.rec.xz"}

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
    arguments = parser.parse_args()
    found = {path.name.split(".")[0]: path for path in arguments.recordings} or OWN
    arguments.directory.mkdir(parents=True, exist_ok=True)
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
                save(taken(browser, page, view), arguments.directory / f"report-{name}-{view}.png")


def of_others(corpus: Path, scratch: Path) -> dict[str, Path]:
    """Two hours of a phone, and a blktrace of which a processor's file is missing."""
    missing = scratch / "missing"
    missing.mkdir()
    for cpu in (0, 2):
        shutil.copy(corpus / "blktrace_bin/centos7/sda.blktrace.0", missing / f"sda.blktrace.{cpu}")
    return {"phone": corpus / "block_csv/pixel6a_slideshow_exec.csv.gz", "missing": missing / "sda.blktrace.0"}


def explored(browser: Browser, path: Path, directory: Path) -> None:
    """The explorer before and after a box, an entry of a list, and a request's story."""
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    explorer_page.show(opened, capture.open(path).explore())
    explorer_page.settled(opened)
    save(opened.screenshot(), directory / "explore.png")
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
    save(opened.screenshot(), directory / "explore-brushed.png")
    opened.close()


def save(picture: bytes, path: Path) -> None:
    """A PNG of 256 colours."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256).save(path, "PNG", optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


def taken(browser: Browser, page: Path, view: str) -> bytes:
    """What is seen first of a page."""
    options, media = VIEWS[view]
    context = browser.new_context(**options)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.emulate_media(media=media)
    picture = opened.screenshot()
    context.close()
    return picture


if __name__ == "__main__":
    main()
