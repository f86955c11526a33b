"""Run JupyterLab with a notebook of one cell, and a browser for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.needs import needs
from support.notebooks import of_one_cell

CHROMIUM = shutil.which("chromium")
PATIENCE_S = 180
"""Time limit of any step on a machine that is busy with other tests, in seconds."""

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def lab(home: Path, cell: str) -> Iterator[str]:
    """Run a JupyterLab in `home` with a notebook of this cell, and yield its address.

    The server and its kernels end with the block.
    """
    root = home / "lab"
    root.mkdir()
    (root / "one.ipynb").write_text(of_one_cell(cell))
    homes = {name: str(home / name) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
            *("--ServerApp.port=0", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"),
            *("--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        ],
        env={**os.environ, **homes, "HOME": str(home), "MPLBACKEND": "agg"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield address(server, Path(homes["JUPYTER_RUNTIME_DIR"]), "lab/tree/one.ipynb")
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(PATIENCE_S)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)


def address(server: subprocess.Popen[bytes], runtime: Path, page: str) -> str:
    """Return the address of a page of JupyterLab, with its token, once the server has written its port."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            try:
                listening = json.loads(path.read_text())
            except ValueError:  # The server is still writing it.
                continue
            return f"{listening['url']}{page}?token={listening['token']}"
        time.sleep(0.2)
    raise AssertionError("JupyterLab did not start")


@contextmanager
@needs("browser")
def browser() -> Iterator[Browser]:
    """Start a headless browser for all tests of a module, because its start takes longer than most of them."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET) as started:
        yield started


@contextmanager
def page_of(browser: Browser) -> Iterator[Page]:
    """Open a page that shares nothing with the other pages of the browser."""
    with browser.new_context(viewport={"width": 1280, "height": 1400}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        expect.set_options(timeout=PATIENCE_S * 1000)
        try:
            yield page
        except Exception as error:
            error.add_note(f"The page shows: {page.locator('body').inner_text()[-2000:]}")
            raise


def run_cell(page: Page, address: str) -> None:
    """Open the notebook and run its first cell, until it has an output."""
    page.goto(address)
    # On a busy machine JupyterLab may not know its kernels in time and asks for one.
    page.add_locator_handler(page.get_by_role("button", name="Select Kernel"), lambda button: button.click())
    cell = page.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    cell.press("Shift+Enter")
    # An assertion also runs the handler for a late dialog, unlike waiting for a function of the page.
    expect(page.locator(".jp-Notebook .jp-OutputArea-output").first).to_be_attached()
