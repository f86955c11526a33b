"""Control a page of a browser over its debugging port (Chrome DevTools Protocol) and time its loads."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from androstep_analysis.common.errors import printable
from androstep_analysis.device.transport import DeviceError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_ANSWER_S = 60.0
_CLOSE_S = 1.0
_MOST_SECONDS = 1 << 32
_MAX_BYTES = 16 << 20
_MAX_MESSAGE_BYTES = 64 << 20
_MAX_WAITING = 4
"""Messages to buffer. A browser must not be able to fill this machine's memory."""


@dataclass(frozen=True)
class Load:
    """Times of a page load in the device's CLOCK_REALTIME, as the browser reports them.

    `end_ns` is None if the page did not load in time. `error` is the browser's error code if there is no page.
    """

    begin_ns: int | None
    end_ns: int | None
    error: str | None = None


@contextlib.contextmanager
def first_page(host: str, port: int) -> Iterator[Page]:
    """Yield the first page of the browser with debugging port `host`:`port`; `DeviceError` if it is closed."""
    try:
        from websockets.exceptions import ConnectionClosed, WebSocketException
        from websockets.sync.client import connect
    except ModuleNotFoundError as error:
        raise DeviceError(f"this needs the Python package {error.name}; `pip install 'androstep[device]'`") from None
    where = f"{host}:{port}"
    try:
        link = connect(
            f"ws://{where}{_path(host, port)}",
            compression=None,
            proxy=None,
            open_timeout=_ANSWER_S,
            ping_interval=None,
            close_timeout=_CLOSE_S,
            max_size=_MAX_MESSAGE_BYTES,
            max_queue=_MAX_WAITING,
        )
    except (OSError, WebSocketException) as error:
        why = printable(str(error))
        raise DeviceError(f"{where}: no browser's debugging port answers ({why}); is it a browser's?") from None
    with link:
        try:
            yield Page(link)
        except ConnectionClosed as closed:
            why = printable(str(closed))
            raise DeviceError(f"{where}: the browser's page does not exist any more ({why}); was it closed?") from None


class Page:
    """A page of a browser, connected by its debugging socket."""

    def __init__(self, link: ClientConnection) -> None:
        self._socket = link
        self._number = 0
        for domain in ("Page", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self._frame = str(_inner(self.call("Page.getFrameTree"), "frameTree", "frame").get("id"))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; `DeviceError` if the browser refuses or does not answer.

        Events that arrive before the answer are dropped.
        """
        number = self._send(method, parameters)
        deadline = time.monotonic() + _ANSWER_S
        while (message := self._next(deadline)) is not None:
            if message.get("id") == number:
                return _result(method, message)
        raise DeviceError(f"the browser did not answer {method} in {_ANSWER_S:.0f} s; is its window open?")

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        return self._number

    def _next(self, deadline: float) -> dict[str, Any] | None:
        try:
            text = self._socket.recv(deadline - time.monotonic(), decode=False)
        except TimeoutError:
            return None
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}

    def load(self, url: str, timeout_s: float) -> Load:
        """Load a page and wait for its event ``load``, which follows the last of its resources."""
        deadline = time.monotonic() + timeout_s
        number = self._send("Page.navigate", {"url": url})
        watch = _Watch(self._frame)
        while (message := self._next(deadline)) is not None:
            if message.get("id") == number:  # arrives once the server has answered
                if error := _result("Page.navigate", message).get("errorText"):
                    return Load(watch.realtime_ns(watch.begin), None, str(error)[:200])
            else:
                watch.see(message)
            if watch.end is not None:
                return Load(watch.realtime_ns(watch.begin), watch.realtime_ns(watch.end))
        self.call("Page.stopLoading")
        return Load(watch.realtime_ns(watch.begin), None)


class _Watch:
    """Follows the events of one navigation, which begins with the request for the page.

    The browser's times are seconds of CLOCK_MONOTONIC. A request is reported with both that and CLOCK_REALTIME.
    """

    def __init__(self, frame: str) -> None:
        self.begin: float | None = None
        self.end: float | None = None
        self._wall = 0.0
        self._frame = frame
        self._loader: object = object()

    def see(self, event: dict[str, Any]) -> None:
        """Process an event."""
        parameters = _inner(event, "params")
        stamp, wall = _seconds(parameters.get("timestamp")), _seconds(parameters.get("wallTime"))
        loader = parameters.get("loaderId")
        if parameters.get("frameId") != self._frame or stamp is None:
            return
        if event.get("method") == "Network.requestWillBeSent":
            # The request for the page itself has the loader's id as its own.
            if self.begin is None and parameters.get("requestId") == loader and wall is not None:
                self.begin, self._wall, self._loader = stamp, wall - stamp, loader
        elif (event.get("method"), parameters.get("name"), loader) == ("Page.lifecycleEvent", "load", self._loader):
            self.end = stamp

    def realtime_ns(self, stamp: float | None) -> int | None:
        """Convert a time of the browser to CLOCK_REALTIME; None before the navigation has begun."""
        return None if stamp is None or self.begin is None else round((stamp + self._wall) * 1e9)


def _seconds(value: Any) -> float | None:
    """Return a time in seconds that a browser stated; None for anything else, such as NaN."""
    return float(value) if isinstance(value, float | int) and abs(value) < _MOST_SECONDS else None


def _result(method: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a message; raise `DeviceError` if it is an error."""
    if "error" in message:
        raise DeviceError(f"the browser refused {method}: {str(message['error'])[:200]}")
    return _inner(message, "result")


def _inner(message: dict[str, Any], *path: str) -> dict[str, Any]:
    """Return a nested object of a message, or an empty one if it is missing."""
    inner: Any = message
    for name in path:
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) else {}


def _path(host: str, port: int) -> str:
    """Return the path of the first page's debugging socket."""
    pages = [target for target in _requested(host, port, "GET", "/json/list") if target.get("type") == "page"]
    if not pages:
        pages = _requested(host, port, "PUT", "/json/new?about:blank")
    for page in pages:
        url = page.get("webSocketDebuggerUrl")
        if isinstance(url, str) and "/devtools/" in url:
            return "/devtools/" + url.split("/devtools/", 1)[1]
    raise DeviceError(f"{host}:{port}: the browser has no page that can be watched; open one")


def _requested(host: str, port: int, method: str, path: str) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    limit = threading.Timer(_ANSWER_S, lambda: _end(link))
    try:
        connection.connect()
        link = connection.sock
        limit.start()  # `timeout` limits one read, and an answer may come byte by byte
        # Browsers accept only an address as host name.
        connection.request(method, path, headers={"Host": f"{host}:{port}"})
        answer = json.loads(connection.getresponse().read(_MAX_BYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise DeviceError(
            f"{host}:{port}: no browser's debugging port answers ({error or type(error).__name__}); start the browser, "
            "and on a phone allow USB debugging"
        ) from None
    finally:
        limit.cancel()
        connection.close()
    rows = answer if isinstance(answer, list) else [answer]
    return [row for row in rows if isinstance(row, dict)]


def _end(link: socket.socket) -> None:
    """Shut down a socket, so that its reader sees the end of the data."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
