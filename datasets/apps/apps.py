"""The recorded apps: a browser with its site, an installer, a messenger. Each is a workload with steps."""

from __future__ import annotations

import http.server
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.device import Device
from androstep_analysis.device.workloads import Pages, Ran
from androstep_analysis.device.workloads.log import Log

CHROMIUM = "/usr/bin/chromium"
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--no-first-run", "--disable-dev-shm-usage", "--disable-sync", "--remote-debugging-port=0", "about:blank"),
)
_START_S = 120
_LOAD_S = 120.0


# -- pages ------------------------------------------------------------------------------------------------------------


class Site:
    """A site on this machine, determined by its seed: pages with a style sheet, scripts and pictures, all cacheable.

    The `count` pages are called /page-00 and so on. Each has about 350 KB in 13 files, as in Luo et al. (18 MB in 740
    files for 50).
    """

    def __init__(self, count: int, seed: int = 1) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.pages = [f"/page-{number:02}" for number in range(count)]
        for number, page in enumerate(self.pages):
            self._add(page, random.Random(f"{seed} {number}"))
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kind, content = site.files.get(self.path, ("text/plain", b""))
                self.send_response(200 if self.path in site.files else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "max-age=86400")
                self.send_header("Set-Cookie", f"visited={zlib.crc32(self.path.encode())}; Max-Age=86400")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Site:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _add(self, page: str, chance: random.Random) -> None:
        self.files[f"{page}.css"] = ("text/css", b"p { margin: 1em; color: #222 }\n" * chance.randrange(200, 800))
        scripts = [f"{page}-{number}.js" for number in range(3)]
        pictures = [f"{page}-{number}.png" for number in range(8)]
        for script in scripts:
            data = chance.randbytes(chance.randrange(5_000, 20_000)).hex()
            text = f'localStorage.setItem("{script}", "{data[:64]}"); var data = "{data}"; data.split("a").sort();\n'
            self.files[script] = ("text/javascript", text.encode())
        for picture in pictures:
            self.files[picture] = ("image/png", _picture(chance, chance.randrange(60, 130)))
        text = "".join(f"<p>{chance.randbytes(60).hex()}</p>\n" for _ in range(chance.randrange(150, 400)))
        links = f'<link rel="stylesheet" href="{page}.css">\n'
        links += "".join(f'<script src="{script}"></script>\n' for script in scripts)
        links += "".join(f'<img src="{picture}">\n' for picture in pictures)
        self.files[page] = ("text/html", f"<!DOCTYPE html>\n<title>{page}</title>\n{links}{text}".encode())


def _picture(chance: random.Random, side: int) -> bytes:
    """Return a PNG of noise, `side` pixels square."""
    rows = b"".join(b"\0" + chance.randbytes(3 * side) for _ in range(side))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@contextmanager
def browser(profile: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Run a headless browser with this profile directory; yield the port of its debugging socket."""
    process = subprocess.Popen(
        [CHROMIUM, f"--user-data-dir={profile}", *QUIET],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port_file, deadline = profile / "DevToolsActivePort", time.monotonic() + _START_S
        while not (port_file.exists() and "\n" in port_file.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{CHROMIUM}: did not start; install chromium")
            time.sleep(0.05)
        yield int(port_file.read_text().split("\n")[0])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclass(frozen=True)
class Web:
    """A browser with a new profile below `directory` that loads the pages of a site."""

    site: Site
    name: str
    directory: Path
    environment: Mapping[str, str]
    pause_s: float = 0

    def run(self, device: Device) -> Ran:
        """Load the pages. The label of a step is the page's path."""
        urls = tuple(self.site.address + page for page in self.site.pages)
        with browser(self.directory / "profile", self.environment) as port:
            pages = Pages(urls, self.name, pause_s=self.pause_s, timeout_s=_LOAD_S, browser=None, service=f"tcp:{port}")
            return pages.run(device)


# -- packages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packages:
    """dpkg, which installs packages one after the other into a new root below `directory`."""

    packages: Sequence[Path]
    name: str
    directory: Path
    environment: Mapping[str, str]

    def run(self, device: Device) -> Ran:
        """Install the packages."""
        root = self.directory / "installed"
        for part in ("updates", "info"):
            (root / "var/lib/dpkg" / part).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        log = Log(device, self.name)
        words = [f"{name}={value}" for name, value in self.environment.items()]
        for package in self.packages:
            options = [f"--root={root}", "--force-depends"]
            log.command("install", package.name, ["env", *words, "dpkg", *options, "--install", str(package)])
        return log.ran()


# -- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Messages:
    """The messenger, which sends its messages. Each run has a new directory below `directory`."""

    name: str
    directory: Path
    environment: Mapping[str, str]

    def run(self, device: Device) -> Ran:
        """Send the messages."""
        own = self.directory / f"messenger-{len(list(self.directory.glob('messenger-*')))}"
        own.mkdir()
        log = Log(device, self.name)
        command = [sys.executable, str(Path(__file__).with_name("messenger.py")), str(own)]
        words = [f"{name}={value}" for name, value in self.environment.items()]
        done = log.stamped(["env", *words, *command])
        if done.answer.status:
            sys.exit(f"messenger.py: {done.answer.complaint}")
        for number, line in enumerate(done.answer.text.splitlines()):
            begin_ns, end_ns = map(int, line.split())
            log.add("text", f"message {number}", begin_ns, end_ns)
        return log.ran()
