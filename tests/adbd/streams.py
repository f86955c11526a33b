"""A connection from a host: its authentication, and its streams, each with flow control."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable

from adbd.auth import Doorkeeper
from adbd.faults import Faults
from adbd.messages import (
    AUTH,
    AUTH_PUBLIC_KEY,
    AUTH_SIGNATURE,
    AUTH_TOKEN,
    CLSE,
    CNXN,
    OKAY,
    OPEN,
    VERSION,
    WRTE,
    Lost,
    Message,
    receive,
)

MAX_PAYLOAD = 1 << 20
_SMALLEST_PAYLOAD = 4096


class Stream:
    """A stream of a service. The service runs in its own thread, and the connection feeds it."""

    def __init__(self, connection: Connection, own: int, others: int) -> None:
        self._connection, self._own, self._others = connection, own, others
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._rest = memoryview(b"")
        self._may_write = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.ended = threading.Event()

    def accept(self) -> None:
        """Confirm that the service is open."""
        self._connection.send(Message(OKAY, self._own, self._others))
        self._may_write.release()

    def write(self, data: bytes) -> None:
        """Send data, each message after the host acknowledged the last one; `Lost` if it closed the stream."""
        for start in range(0, len(data), self._connection.max_payload):
            self._may_write.acquire()
            if self.ended.is_set():
                self._may_write.release()
                raise Lost("the host closed the stream")
            part = data[start : start + self._connection.max_payload]
            self._connection.send(Message(WRTE, self._own, self._others, part))

    def read(self) -> bytes:
        """Return the next data of the host and acknowledge it; `Lost` at the end."""
        part, self._rest = self._rest or self._next(), memoryview(b"")
        return bytes(part)

    def exactly(self, nr_bytes: int) -> bytes:
        """Return this many bytes, or raise `Lost`."""
        parts: list[memoryview] = []
        while nr_bytes:
            part = self._rest or self._next()
            parts.append(part[:nr_bytes])
            self._rest = part[nr_bytes:]
            nr_bytes -= len(parts[-1])
        return b"".join(parts)

    def _next(self) -> memoryview:
        arrived = self._arrived.get()
        if arrived is None:
            self._arrived.put(None)
            raise Lost("the host closed the stream")
        self._connection.send(Message(OKAY, self._own, self._others))
        return memoryview(arrived)

    def close(self) -> None:
        """End the stream, and inform the host."""
        with self._lock:
            if self.ended.is_set():
                return
            self.end()
        with contextlib.suppress(Lost):
            self._connection.send(Message(CLSE, self._own, self._others))

    def end(self) -> None:
        """Stop reading and writing."""
        self.ended.set()
        self._arrived.put(None)
        self._may_write.release()

    def arrive(self, data: bytes) -> None:
        """Accept data from the host."""
        self._arrived.put(data)

    def go_on(self) -> None:
        """Handle an acknowledgement of the last message."""
        self._may_write.release()


Service = Callable[[str, Stream], Callable[[], None] | None]
"""Maps a service's name and a stream to the function of a thread, or None for no such service."""


class Connection:
    """A TCP connection."""

    def __init__(
        self, link: socket.socket, banner: bytes, faults: Faults, doorkeeper: Doorkeeper | None, service: Service
    ) -> None:
        self._link, self._banner, self._faults = link, banner, faults
        self._doorkeeper, self._service = doorkeeper, service
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._version = VERSION
        self._sent = 0
        self._token = b""
        self.max_payload = _SMALLEST_PAYLOAD
        self.threads: list[threading.Thread] = []

    def serve(self) -> None:
        """Answer until the connection ends."""
        try:
            while True:
                message = receive(self._link)
                self._wait_for(len(message.payload))
                self._answer(message)
        except Lost:
            pass
        finally:
            self.drop()
            self._link.close()

    def drop(self) -> None:
        """End the connection now, with all streams."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        for stream in list(self._streams.values()):
            stream.end()

    def send(self, message: Message) -> None:
        """Send a message; `Lost` if the connection has ended."""
        with self._lock:
            self._sent += len(message.payload)
            after = self._faults.silent_after
            if self._faults.silent or (after is not None and self._sent > after):
                return
            self._wait_for(len(message.payload))
            try:
                self._link.sendall(message.packed(self._version))
            except OSError as error:
                raise Lost(str(error)) from None

    def _wait_for(self, nr_bytes: int) -> None:
        """Sleep for the time that a slow link takes for this many bytes."""
        if self._faults.bytes_per_s and nr_bytes:
            time.sleep(nr_bytes / self._faults.bytes_per_s)

    def _answer(self, message: Message) -> None:
        if message.command == CNXN:
            self._version = min(VERSION, message.first)
            self.max_payload = max(_SMALLEST_PAYLOAD, min(MAX_PAYLOAD, message.second))
            self._greet_or_ask()
        elif message.command == AUTH:
            self._judge(message)
        elif message.command == OPEN:
            self._open(message.first, message.payload.rstrip(b"\0").decode("utf-8", "surrogateescape"))
        else:
            self._feed(message)

    def _greet_or_ask(self) -> None:
        if self._doorkeeper is None:
            self._greet()
        else:
            self._token = self._doorkeeper.token()
            self.send(Message(AUTH, AUTH_TOKEN, 0, self._token))

    def _greet(self) -> None:
        self.send(Message(CNXN, self._version, MAX_PAYLOAD, self._banner))

    def _judge(self, message: Message) -> None:
        assert self._doorkeeper is not None
        if message.first == AUTH_SIGNATURE and not self._doorkeeper.knows(self._token, message.payload):
            self._greet_or_ask()
        elif message.first == AUTH_SIGNATURE or (
            message.first == AUTH_PUBLIC_KEY and self._doorkeeper.is_offered(message.payload)
        ):
            self._greet()

    def _open(self, others: int, name: str) -> None:
        stream = Stream(self, next(self._numbers), others)
        work = self._service(name, stream)
        if work is None:
            self.send(Message(CLSE, 0, others))
            return
        self._streams[stream._own] = stream
        stream.accept()
        thread = threading.Thread(target=self._run, args=(work, stream), daemon=True)
        self.threads.append(thread)
        thread.start()

    def _run(self, work: Callable[[], None], stream: Stream) -> None:
        try:
            work()
        except Lost:
            pass
        finally:
            stream.close()

    def _feed(self, message: Message) -> None:
        stream = self._streams.get(message.second)
        if stream is None:
            if message.command == WRTE:
                self.send(Message(CLSE, 0, message.first))
        elif message.command == WRTE:
            stream.arrive(message.payload)
        elif message.command == OKAY:
            stream.go_on()
        elif message.command == CLSE:
            with contextlib.suppress(Lost):
                if not stream.ended.is_set():
                    self.send(Message(CLSE, stream._own, message.first))
            stream.end()
            del self._streams[message.second]
