"""Pictures of reports for the docs, taken in Chromium: wide, narrow, dark and as printed.

python tools/screenshots.py                          of the datasets that come with the project, into docs/pictures/
python tools/screenshots.py -o DIR RECORDING ...     of these recordings, into DIR/
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from androstep_analysis import capture, report

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
    arguments = parser.parse_args()
    found = {path.name.split(".")[0]: path for path in arguments.recordings} or OWN
    arguments.directory.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, path in found.items():
            page = Path(scratch, f"{name}.html")
            report.write(capture.open(path), page)
            for view in VIEWS:
                picture = arguments.directory / f"report-{name}-{view}.png"
                picture.write_bytes(taken(browser, page, view))
                print(f"{picture}: {picture.stat().st_size:,} bytes")


def taken(browser: Browser, page: Path, view: str) -> bytes:
    """What is seen first of a page, as a PNG of 256 colours."""
    options, media = VIEWS[view]
    context = browser.new_context(**options)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.emulate_media(media=media)
    image = Image.open(io.BytesIO(opened.screenshot())).convert("RGB").quantize(256)
    context.close()
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    main()
