"""Load pages one after the other (Kim et al.: WebBench), each until the browser reports that it is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport.forward import forwarded
from androstep_analysis.device.workloads import activity
from androstep_analysis.device.workloads.devtools import Page, first_page
from androstep_analysis.device.workloads.log import Log, Ran

CHROME = "com.android.chrome"
SOCKET = "localabstract:chrome_devtools_remote"
"""The debugging socket of Chrome on a phone, accessible by adb once USB debugging is allowed."""

_MAX_PAGES = 10_000


@dataclass(frozen=True)
class Pages:
    """Loads each of `urls`, `repeats` times, with `pause_s` in between (Luo et al.: 4 s).

    `signal` selects the end of a load:

    - ``devtools``: the browser's event ``load``, through its debugging socket `service`. A load is stopped after
      `timeout_s`, and is in the table as not completed.
    - ``displayed``: the framework's report that the browser's window was drawn, possibly long before the page is
      loaded.
      It is for browsers without a debugging socket.

    `browser` is the package to start on a phone, or None if it runs already.
    """

    urls: tuple[str, ...]
    name: str = "pages"
    repeats: int = 1
    pause_s: float = 0
    timeout_s: float = 60
    signal: Literal["devtools", "displayed"] = "devtools"
    service: str = SOCKET
    browser: str | None = CHROME

    def __post_init__(self) -> None:
        for url in self.urls:
            if urlsplit(url).scheme not in ("http", "https") or not url.isprintable():
                raise InputError(f"{printable(url)}: is not the address of a page; give http://… or https://…")
        if not self.urls or self.repeats < 1 or self.pause_s < 0 or self.timeout_s <= 0:
            raise InputError(
                "nothing to load; give at least one address, repeats of 1 or more, and times that are not negative"
            )

    def run(self, device: Session) -> Ran:
        """Load the pages on a device."""
        log = Log(device, self.name)
        if self.browser is not None:
            _view(log, "start", "about:blank", self.browser)
        if self.signal == "displayed":
            self._each(log, lambda url: _view(log, "load", url, self.browser))
        else:
            with forwarded(device.name, self.service) as (host, port), first_page(host, port) as page:
                self._each(log, lambda url: self._load(log, page, url))
        return log.ran()

    def _each(self, log: Log, load: Callable[[str], None]) -> None:
        is_first = True
        for log.repeat in range(self.repeats):
            for url in self.urls:
                if self.pause_s and not is_first:
                    time.sleep(self.pause_s)
                is_first = False
                load(url)

    def _load(self, log: Log, page: Page, url: str) -> None:
        requested_ns = log.now_ns()
        load = page.load(url, self.timeout_s)
        begin_ns = requested_ns if load.begin_ns is None else load.begin_ns
        if load.error is not None:
            log.add("load", url, begin_ns, log.now_ns(), outcome="failed", detail=load.error)
        elif load.end_ns is None:
            detail = f"not loaded within {self.timeout_s:g} s"
            log.add("load", url, begin_ns, log.now_ns(), outcome="timeout", detail=detail)
        else:
            log.add("load", url, begin_ns, load.end_ns)


def _view(log: Log, what: str, url: str, browser: str | None) -> None:
    """Open a page in the browser and wait until its window was drawn."""
    package = [] if browser is None else ["-p", browser]
    activity.start(log, what, url, ["-a", "android.intent.action.VIEW", "-d", url, *package])


def read(path: Path) -> tuple[str, ...]:
    """Read addresses from a text file, one in each line, without empty lines and lines that begin with ``#``."""
    shown = printable(str(path))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: cannot be read ({error}); give a text file with an address in each line") from None
    urls = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not 0 < len(urls) <= _MAX_PAGES:
        raise InputError(f"{shown}: has {len(urls):,} addresses; give 1 to {_MAX_PAGES:,}, each in a line")
    return urls
