"""Workloads on a fake phone that logs its programs, and in a real browser on this machine."""

from __future__ import annotations

import http.server
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apk_files
import polars as pl
import pytest
from adbd import EMMC, FakePhone, phone
from hypothesis import given, settings
from hypothesis import strategies as st
from support import fake_apps
from support.needs import needs
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

import androstep_analysis as androstep
from androstep_analysis import capture, perceived, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import connect, workloads
from androstep_analysis.device.transport import DeviceError
from androstep_analysis.device.workloads import Install, Pages, apk, clock, pages, script
from androstep_analysis.device.workloads.devtools import Load, first_page

HOSTILE = "a; rm -rf /"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


# --- clocks ----------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 1 << 32))
def test_the_relation_of_two_clocks_holds_the_truth(seed: int) -> None:
    choose = random.Random(seed)
    offset, step, now = choose.randrange(-(10**18), 10**18), choose.choice([1, 1000, 10_000_000]), 10**18
    fine, coarse = [now], []
    for _ in range(choose.randrange(1, 60)):
        now += choose.randrange(0, 3_000_000)
        coarse.append((now + offset) // step * step)
        now += choose.randrange(0, 3_000_000)
        fine.append(now)
    found = clock.bounded(fine, coarse, step)
    assert found.lo_ns <= offset <= found.hi_ns
    assert abs(found.offset_ns - offset) <= found.error_ns
    if len(coarse) > 40:
        assert found.error_ns < 5_000_000  # far better than one reading: half of 10 ms and of the time in between
    other = clock.Relation(offset - 7, offset + 10**12)
    assert found.with_other(other).lo_ns <= offset <= found.with_other(other).hi_ns


def test_clocks_that_contradict_themselves() -> None:
    with pytest.raises(ValueError, match="was set"):
        clock.bounded([0, 10, 20], [0, 10**9])
    early, late = clock.Relation(0, 10), clock.Relation(100, 120)
    assert early.with_other(late) == clock.Relation(0, 120)
    assert early.with_other(clock.Relation(5, 30)) == clock.Relation(5, 10)


def test_the_clocks_of_this_machine() -> None:
    with connect("local") as device:
        found = clock.relation(device)
    realtime = time.clock_gettime_ns(time.CLOCK_REALTIME)
    assert abs(boot_ns() - realtime - found.offset_ns) <= found.error_ns + 20_000_000  # time passes between readings


# --- scripts ---------------------------------------------------------------------------------------------------------

SCRIPT = f"""
name = "shop"
repeats = 2

[[step]]
start = "{HOSTILE}"

[[step]]
wait = 60

[[step]]
tap = [10, 20]
label = "Go"

[[step]]
wait = 60

[[step]]
swipe = [1, 2, 3, 4, 300]

[[step]]
text = "it's $(reboot) `x` a b"

[[step]]
key = "KEYCODE_BACK"

[[step]]
pause = 0.05
"""


def said(row: dict[str, object]) -> tuple[object, ...]:
    return row["what"], row["label"], row["outcome"]


@pytest.mark.root
def test_a_script_does_exactly_what_it_says_and_its_times_hold_the_truth(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SCRIPT)
    with phone(tmp_path) as fake, connect(fake.address) as device:
        for name in ("input", "am"):
            fake_apps.install(fake, name, delay_s=0.02, changes=[0.1])
        fake_apps.install(fake, "uiautomator", delay_s=0.01)
        ran = workloads.parse(f"script:{tmp_path / 'shop.toml'}").run(device)
        noted, changed = fake_apps.actions(fake), fake_apps.changes(fake)
    steps = schema.conform(ran.steps, "steps")
    assert steps["workload"].unique().to_list() == ["shop"] and steps["number"].to_list() == list(range(16))
    assert steps["repeat"].to_list() == [0] * 8 + [1] * 8
    assert set(steps["outcome"]) == {"completed"}
    assert steps["what"].to_list()[:8] == ["start", "wait", "tap", "wait", "swipe", "text", "key", "pause"]
    inputs = [one for one in noted if one.words[0] != "uiautomator"]
    launcher = ["-a", "android.intent.action.MAIN", "-c", "android.intent.category.LAUNCHER", "-p"]
    assert [one.words for one in inputs[:5]] == [
        ["am", "start", "-W", *(["-n", HOSTILE] if "/" in HOSTILE else [*launcher, HOSTILE])],
        ["input", "tap", "10", "20"],
        ["input", "swipe", "1", "2", "3", "4", "300"],
        ["input", "text", "it's%s$(reboot)%s`x`%sa%sb"],
        ["input", "keyevent", "KEYCODE_BACK"],
    ]
    # Each step contains the run time of its program, within the uncertainty of the clocks.
    acts = steps.filter(pl.col("what").is_in(["start", "tap", "swipe", "text", "key"]))
    assert acts.height == len(inputs) == 10
    for row, one in zip(acts.iter_rows(named=True), inputs, strict=True):
        assert row["ts_ns"] - row["error_ns"] <= one.begin_ns < one.end_ns <= row["end_ns"] + row["error_ns"]
        assert row["error_ns"] < 50_000_000
    dumps = [one for one in noted if one.words[0] == "uiautomator"]
    error = steps["error_ns"][0]
    for shot, one in zip(ran.snapshots, dumps, strict=True):
        assert shot.ts_ns - error <= one.begin_ns < one.end_ns <= shot.end_ns + error
    # The capture alone shows the effect of each tap.
    made = capture.create(ran.files(tmp_path), tmp_path / "capture")
    opened = androstep.open(tmp_path / "capture")
    assert opened.steps.equals(made.steps) and opened.steps.height == 16
    found = perceived.transitions(perceived.seen(opened.gui_states), perceived.inputs(opened.steps))
    taps = found.filter(label="Go")
    assert taps["outcome"].to_list() == ["stable", "stable"]
    for row, at in zip(taps.iter_rows(named=True), changed[::2], strict=True):
        tapped = next(one for one in reversed(inputs) if one.begin_ns < at and one.words[1] == "tap")
        # The input came while its program ran, and the screen changed at a logged time.
        assert row["latency_lo_ns"] <= at - tapped.begin_ns and at - tapped.end_ns <= row["latency_hi_ns"]
        assert row["stable_lo_ns"] - error <= at <= row["stable_hi_ns"] + error


@pytest.mark.root
def test_what_fails_is_in_the_table_and_the_rest_goes_on(tmp_path: Path) -> None:
    steps = [("start", "x/.Y"), ("key", "HOME"), ("wait", 0.2)]
    with phone(tmp_path) as fake, connect(fake.address) as device:
        fake.install("am", 'echo "Error: Activity class {x/.Y} does not exist."')
        fake.install("input", 'echo "no \033[31minput" >&2; exit 3')
        fake.install("uiautomator", 'echo "ERROR: could not get idle state."; exit 1')
        ran = script.Script("s", tuple(script.Step(what, value, what) for what, value in steps)).run(device)
    rows = list(ran.steps.iter_rows(named=True))
    assert [row["outcome"] for row in rows] == ["failed", "failed", "timeout"]
    assert "does not exist" in rows[0]["detail"] and "input" in rows[1]["detail"] and "not stable" in rows[2]["detail"]
    assert ran.snapshots == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no"),
        ("step = 1", "has no"),
        ("[[step]]", "says nothing"),
        ('[[step]]\nfly = "up"', "says fly"),
        ('[[step]]\ntap = [1, 2]\nkey = "HOME"', "says tap, key"),
        ("[[step]]\ntap = [1, -2]", r"tap = \[1, -2\]"),
        ("[[step]]\ntap = [1, true]", "tap = "),
        ('[[step]]\nkey = "HOME; reboot"', "key = "),
        ('[[step]]\ntext = "\\u001b[2J"', "text = "),
        ("[[step]]\npause = 1e9", "pause = "),
        ("[[step]]\nwait = nan", "wait = nan"),
        ('[[step]]\nstart = "a\\u0000b"', "start = "),
        ("[[step]]\nwait = 1\nlabel = 3", "label is not a text"),
        ("repeats = 0\n[[step]]\nwait = 1", "repeats is 0"),
        ("hidden = 1\n[[step]]\nwait = 1", "unknown key hidden"),
        ("[[", "is not valid TOML"),
        ('name = "\\u001b', "is not valid TOML"),
    ],
)
def test_a_script_that_is_none_is_refused_in_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InputError, match=message) as refused:
        script.read(tmp_path / "s.toml")
    assert str(refused.value).isprintable()


# --- installation ----------------------------------------------------------------------------------------------------

NAMES = ("org.example.one", "org.example.two")


def listed(fake: FakePhone) -> set[str]:
    return {path.name for path in (fake.root / "data/app").iterdir() if path.name.startswith("org.example")}


@pytest.mark.root
@pytest.mark.parametrize("streamed", [False, True])
def test_packages_are_installed_timed_and_removed(streamed: bool, tmp_path: Path) -> None:
    paths = tuple(
        apk_files.write(tmp_path / f"{HOSTILE.replace('/', '')}{n}.apk", name) for n, name in enumerate(NAMES)
    )
    with phone(tmp_path, model=EMMC) as fake, connect(fake.address) as device:
        _install_by_contents(fake)
        ran = Install(paths, repeats=2, streamed=streamed).run(device)
        lines = [line for line in fake.commands if "pm install" in line or "install -S" in line]
        assert listed(fake) == set() and len(lines) == 4
    steps = ran.steps
    assert steps["outcome"].to_list() == ["completed"] * 12
    per_repeat = ["push", "install", "push", "install", "uninstall", "uninstall"]
    assert steps["what"].to_list() == per_repeat * 2
    assert steps["repeat"].to_list() == [0] * 6 + [1] * 6
    assert steps.filter(what="push")["bytes"].to_list() == [path.stat().st_size for path in paths] * 2
    assert steps.filter(what="install")["label"].to_list() == [path.name for path in paths] * 2
    assert (steps["end_ns"] > steps["ts_ns"]).all() and (steps["ts_ns"][1:] >= steps["end_ns"][:-1]).all()


def _install_by_contents(fake: FakePhone, bad: str = "echo 'Failure [NO_CERTIFICATES]'; exit 0") -> None:
    """Install a package manager that reads the manifest, like Android's; `bad` runs for one package."""
    fake.install(
        "pm",
        f"""
answers=/system/answers/installed
touch $answers
case $1 in
list) while read -r name; do echo "package:$name"; done <$answers ;;
install)
    shift
    case $1 in -S) cat >/data/local/tmp/streamed; set -- /data/local/tmp/streamed ;; esac
    name=$(/usr/bin/tr -d '\\0' <"$1" | /usr/bin/grep -ao 'org.example.[a-z]*' | /usr/bin/head -n 1)
    if [ "$name" = org.example.bad ]; then {bad}; fi
    mkdir -p "/data/app/$name"; echo "$name" >>$answers; echo Success ;;
uninstall)
    rm -r "/data/app/$2"; /usr/bin/grep -vx "$2" $answers >$answers.new; mv $answers.new $answers; echo Success ;;
esac
""",
    )


@pytest.mark.root
def test_nothing_stays_and_nothing_that_was_there_goes(tmp_path: Path) -> None:
    good = apk_files.write(tmp_path / "good.apk", NAMES[0])
    bad = apk_files.write(tmp_path / "bad.apk", "org.example.bad")
    with phone(tmp_path, model=EMMC) as fake, connect(fake.address) as device:
        _install_by_contents(fake)
        ran = Install((good, bad)).run(device)
        outcomes = dict(zip(ran.steps["what"] + " " + ran.steps["label"], ran.steps["outcome"], strict=True))
        assert outcomes["install good.apk"] == "completed" and outcomes["install bad.apk"] == "failed"
        assert "NO_CERTIFICATES" in ran.steps.filter(label="bad.apk", what="install")["detail"][0]
        assert listed(fake) == set()
        # The user's own package is not replaced, and not removed.
        device.push(good, "/data/local/tmp/user.apk")
        assert device.sh(["pm", "install", "/data/local/tmp/user.apk"]).text.strip() == "Success"
        with pytest.raises(InputError, match=r"org\.example\.one is installed already"):
            Install((good,)).run(device)
        assert listed(fake) == {NAMES[0]}
        # An aborted run removes what it has installed so far.
        gone = apk_files.write(tmp_path / "gone.apk", NAMES[1])
        _install_by_contents(fake, bad="kill -9 $PPID")
        with pytest.raises(DeviceError):
            Install((gone, bad)).run(device)
        assert listed(fake) == {NAMES[0]}


@pytest.mark.parametrize("utf8", [False, True])
def test_the_package_of_a_package_file(utf8: bool, tmp_path: Path) -> None:
    for name in ("org.example.app", "a" * 200):
        assert apk.package(apk_files.write(tmp_path / "a.apk", name, utf8=utf8)) == name


@pytest.mark.parametrize("name", ["", HOSTILE, "-r", "ü.b", "a..b", "a\x1b"])
def test_a_package_of_another_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which is not a valid name") as refused:
        apk.package(apk_files.write(tmp_path / "a.apk", name))
    assert str(refused.value).isprintable()


@pytest.mark.prove
def test_package_files_that_are_damaged_are_refused(tmp_path: Path) -> None:
    whole = apk_files.manifest(NAMES[0])
    cuts = [whole[:length] for length in range(0, len(whole) - 1, 3)]
    choose = random.Random(1)
    for data in cuts + [_flipped(whole, choose) for _ in range(300)]:
        with zipfile.ZipFile(tmp_path / "a.apk", "w") as archive:
            archive.writestr("AndroidManifest.xml", data)
        try:
            assert apk.package(tmp_path / "a.apk").isascii()
        except InputError as refused:
            assert str(refused).isprintable()
    for contents in (b"", b"PK", b"\0" * 100):
        (tmp_path / "a.apk").write_bytes(contents)
        with pytest.raises(InputError, match="Android package"):
            apk.package(tmp_path / "a.apk")
    with zipfile.ZipFile(tmp_path / "a.apk", "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(InputError, match=r"no AndroidManifest\.xml"):
        apk.package(tmp_path / "a.apk")


def _flipped(data: bytes, choose: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.randrange(1, 4)):
        changed[choose.randrange(len(changed))] = choose.randrange(256)
    return bytes(changed)


def test_packages_of_a_directory(tmp_path: Path) -> None:
    for name in ("b.apk", "a.apk", "notes.txt"):
        (tmp_path / name).touch()
    found = workloads.parse(f"install:{tmp_path}")
    assert isinstance(found, Install) and [path.name for path in found.packages] == ["a.apk", "b.apk"]
    for text in (f"install:{tmp_path / 'none'}", "install:", "pages:", "fly:x", "x", f"script:{tmp_path / 'none'}"):
        with pytest.raises(InputError):
            workloads.parse(text)


# --- pages -----------------------------------------------------------------------------------------------------------


class Site:
    """Pages on this machine: /page has a picture that takes 0.2 s, /never does not end; `served` logs the times."""

    def __init__(self) -> None:
        self.served: list[tuple[str, int, int]] = []
        self.over = threading.Event()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                begin = boot_ns()
                if self.path.startswith("/never"):
                    site.over.wait(120)
                    return
                if self.path.startswith("/picture"):
                    site.over.wait(0.2)
                page = f"<html><body><img src='/picture?{self.path}'></body></html>" if "page" in self.path else ""
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page)))
                # Before the answer is sent: on a busy machine the browser may get it before this thread continues.
                site.served.append((self.path, begin, boot_ns()))
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


@needs("browser")
@contextmanager
def browser(directory: Path) -> Iterator[int]:
    """Run a headless browser, and yield the port of its debugging socket."""
    assert CHROMIUM is not None
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    words += ["--remote-debugging-port=0", f"--user-data-dir={directory}", "--disable-dev-shm-usage", "about:blank"]
    process = subprocess.Popen(
        [CHROMIUM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port_file = directory / "DevToolsActivePort"
        deadline = time.monotonic() + 120
        while not (port_file.exists() and "\n" in port_file.read_text()):
            assert process.poll() is None and time.monotonic() < deadline, "chromium did not start"
            time.sleep(0.05)
        yield int(port_file.read_text().split("\n")[0])
    finally:
        os.killpg(process.pid, 9)
        process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_pages_are_loaded_when_the_browser_says_so(tmp_path: Path) -> None:
    site = Site()
    try:
        with browser(tmp_path / "profile") as port, connect("local") as device:
            service = f"tcp:{port}"
            urls = tuple(f"{site.address}{path}" for path in ("/page1", "/page2?a=%27;rm%20-rf%20/"))
            begun = boot_ns()
            ran = Pages(urls, repeats=2, pause_s=0.01, browser=None, service=service).run(device)
            ended = boot_ns()
            requested = boot_ns()
            never = Pages((f"{site.address}/never",), browser=None, service=service, timeout_s=1).run(device)
            with socket.create_server(("127.0.0.1", 0)) as closed:
                refused = f"http://127.0.0.1:{closed.getsockname()[1]}/"
            failed = Pages((refused, urls[0]), browser=None, service=service).run(device)
    finally:
        site.close()
    steps = schema.conform(ran.steps, "steps")
    assert steps["label"].to_list() == [*urls, *urls] and steps["repeat"].to_list() == [0, 0, 1, 1]
    assert set(steps["outcome"]) == {"completed"} and set(steps["what"]) == {"load"}
    for row in steps.iter_rows(named=True):
        error = row["error_ns"] + 5_000_000  # the browser's two clocks agree within some milliseconds
        path = row["label"].removeprefix(site.address)
        requests = [
            one for one in site.served if path in one[0] and row["ts_ns"] - error <= one[1] <= row["end_ns"] + error
        ]
        assert begun - error <= row["ts_ns"] and row["end_ns"] <= ended + error
        assert requests[0][0] == path and "/picture" in requests[-1][0], "the page, and then what it consists of"
        assert row["end_ns"] + error >= requests[-1][2], "not loaded before the last of it was on its way"
        assert row["end_ns"] - row["ts_ns"] >= 200_000_000 - 2 * error
    assert never.steps.select("outcome", "detail").row(0) == ("timeout", "not loaded within 1 s")
    # Counted from the request: a busy browser begins later and has less time for the page.
    assert never.steps["end_ns"][0] - requested >= 1_000_000_000 - never.steps["error_ns"][0]
    assert failed.steps["outcome"].to_list() == ["failed", "completed"]
    assert "ERR_CONNECTION_REFUSED" in failed.steps["detail"][0]
    waits = perceived.windows(ran.steps)
    assert waits["label"].to_list() == [*urls, *urls]


@pytest.mark.root
def test_pages_by_what_the_framework_displays(tmp_path: Path) -> None:
    answer = "Status: ok\nLaunchState: COLD\nTotalTime: 412\nComplete"
    with phone(tmp_path) as fake, connect(fake.address) as device:
        fake_apps.install(fake, "am", delay_s=0.02, said=answer)
        ran = Pages(("https://example.org/'$(reboot)",), browser=HOSTILE, signal="displayed").run(device)
        noted = fake_apps.actions(fake)
        view = ["am", "start", "-W", "-a", "android.intent.action.VIEW", "-d"]
        assert [one.words for one in noted] == [
            [*view, "about:blank", "-p", HOSTILE],
            [*view, "https://example.org/'$(reboot)", "-p", HOSTILE],
        ]
        assert [said(row) for row in ran.steps.iter_rows(named=True)] == [
            ("start", "about:blank", "completed"),
            ("load", "https://example.org/'$(reboot)", "completed"),
        ]
        fake.install("am", "echo 'Status: timeout'")
        ran = Pages(("https://example.org/",), browser=None, signal="displayed").run(device)
        assert ran.steps["outcome"].to_list() == ["timeout"]
        with pytest.raises(DeviceError, match="through the program adb only"):
            Pages(("https://example.org/",), browser=None).run(device)


def test_addresses_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("# top\n\nhttp://a.example/\n  https://b.example/x  \n")
    found = workloads.parse(f"pages:{tmp_path / 'urls.txt'}")
    assert isinstance(found, Pages) and found.urls == ("http://a.example/", "https://b.example/x")
    for text in ("", "# nothing\n", "\xff\xfe"):
        (tmp_path / "urls.txt").write_text(text, encoding="latin-1")
        with pytest.raises(InputError):
            pages.read(tmp_path / "urls.txt")
    for url in ("file:///etc/passwd", "javascript:alert(1)", "-d", "http://a/\x1b", ""):
        with pytest.raises(InputError, match="is not the address of a page") as refused:
            Pages((url,))
        assert str(refused.value).isprintable()


# --- browsers that are none ------------------------------------------------------------------------------------------


@contextmanager
def debugged(serve_page: Callable[[ServerConnection], None], *, is_socket: bool = True) -> Iterator[int]:
    """Run something like a browser and yield its port: it lists one page, with debugging socket `serve_page`."""

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        listing = [{"type": "page", "webSocketDebuggerUrl": "ws://elsewhere/devtools/page/1"}]
        is_page = request.path == "/devtools/page/1"
        return None if is_page and is_socket else connection.respond(200, json.dumps(listing))

    with serve(serve_page, "127.0.0.1", 0, process_request=answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join(60)


def answering(*before: str | list[str]) -> Callable[[ServerConnection], None]:
    """Return a page that answers each call with its parameters, after these texts; a list is one text in fragments."""

    def serve_page(page: ServerConnection) -> None:
        for text in page:
            call = json.loads(text)
            for other in before:
                page.send(other)
            page.ping()
            page.send(json.dumps({"id": call["id"], "result": call["params"]}))

    return serve_page


def requested(stamp: str) -> str:
    """Return an event of the page, whose frame is called None, at a possibly invalid time."""
    about = f'"frameId": "None", "requestId": "1", "loaderId": "1", "timestamp": {stamp}, "wallTime": {stamp}'
    return f'{{"method": "Network.requestWillBeSent", "params": {{{about}}}}}'


def test_a_page_answers_between_all_that_it_says_besides() -> None:
    nonsense: list[str | list[str]] = [
        "",
        "no JSON",
        "[" * 100_000,
        "[1]",
        '{"id": "1"}',
        '{"method": 3, "params": []}',
        ["[", '"ä"', "]"],
    ]
    nonsense += [requested(stamp) for stamp in ("NaN", "Infinity", "1e300", "1" * 400, "1" * 5000, "[]")]
    text = "x" * 100_000 + "ä"
    with debugged(answering(*nonsense)) as port, first_page("127.0.0.1", port) as page:
        assert page.call("Echo", text=text) == {"text": text}
        assert page.load("http://a.example/", timeout_s=0.2) == Load(None, None)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("serve_page", "message"),
    [
        (lambda page: page.close(), "page does not exist any more"),
        (lambda page: page.send("x" * ((64 << 20) + 1)), "page does not exist any more .*too big"),
        (lambda page: page.close(reason="\x1b[2J"), "page does not exist any more"),
    ],
)
def test_a_page_that_goes_away_is_one_sentence(serve_page: Callable[[ServerConnection], None], message: str) -> None:
    with (
        debugged(serve_page) as port,
        pytest.raises(DeviceError, match=message) as refused,
        first_page("127.0.0.1", port),
    ):
        pass
    assert str(refused.value).isprintable()


def test_ports_of_no_browser() -> None:
    with (
        debugged(answering(), is_socket=False) as port,
        pytest.raises(DeviceError, match="no browser's debugging"),
        first_page("127.0.0.1", port),
    ):
        pass
    with pytest.raises(DeviceError, match="no browser's debugging"), first_page("127.0.0.1", 9):
        pass


def test_an_answer_byte_by_byte_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("androstep_analysis.device.workloads.devtools._ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            link, _ = listener.accept()
            with link, suppress(OSError):
                link.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                while True:
                    link.sendall(b" ")
                    time.sleep(0.1)

        dripping = threading.Thread(target=drip)
        dripping.start()
        port = listener.getsockname()[1]
        with pytest.raises(DeviceError, match="no browser's debugging"), first_page("127.0.0.1", port):
            pass
        dripping.join()


def test_without_websockets_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    with pytest.raises(DeviceError, match=r"pip install 'androstep\[device\]'"), first_page("127.0.0.1", 9):
        pass
