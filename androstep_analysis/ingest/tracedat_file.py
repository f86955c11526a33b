"""The container of trace-cmd's ``trace.dat``, versions 6 and 7: what is where in the file, nothing decoded.

The layout is that of the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5). Version 6 is one header after the
other and then the pages; version 7 is sections, found by a list of options, that may be compressed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from androstep_analysis.errors import InputError, Loss
from androstep_analysis.ingest.source import LIMIT_BYTES, Deflate, Source, Stream, drain, printable

MAGIC = b"\x17\x08\x44tracing"

_DONE, _DATE, _CPUSTAT, _BUFFER, _CLOCK, _OFFSET, _CPUCOUNT, _TSC = 0, 1, 2, 3, 4, 7, 8, 14
_HEADERS, _FTRACE, _EVENTS, _CMDLINES = 16, 17, 18, 21
_TGIDS = 32
"""Written by the trace-cmd that comes with GPUVis: the contents of tracefs' ``saved_tgids``."""

_COMPRESSED = 1
_SECTION_BYTES = 16

UNKNOWN_CPU = -1
"""In place of a CPU's number, where the table that tells it is lost."""
_SMALLEST_PAGE, _LARGEST_PAGE = 1 << 9, 1 << 24

_METHODS: dict[str, Callable[[memoryview], Stream]] = {
    "zstd": lambda body: pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), "zstd"),
    "zlib": lambda body: Deflate(body, 15),
}


@dataclass(frozen=True)
class Buffer:
    """The pages of one trace instance. `cpus` holds, for each CPU, its number and where in the file its pages are."""

    name: str
    page_bytes: int
    cpus: list[tuple[int, int, int]]
    is_compressed: bool


@dataclass
class Container:
    """What a file says of itself.

    `formats` holds (system, format file) of every event; `tsc` multiplier and shift that make nanoseconds of a
    clock that counts cycles; `offset_ns` what is to be added to every time. `losses` grows while pages are read.
    """

    source: Source
    version: int
    big_endian: bool
    long_bytes: int
    page_bytes: int
    compression: str = "none"
    header_page: str = ""
    formats: list[tuple[str, str]] = field(default_factory=list)
    cmdlines: str = ""
    tgids: str = ""
    clock: str = "unknown"
    realtime_offset_ns: int | None = None
    offset_ns: int = 0
    tsc: tuple[int, int] | None = None
    cpu_stats: list[str] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    sections: set[int] = field(default_factory=set)
    places: set[int] = field(default_factory=set)
    read_bytes: int = 0
    unpacked_bytes: int = 0

    def parts(self, buffer: Buffer) -> Iterator[tuple[int, bytes | memoryview]]:
        """The pages of `buffer` as (CPU, bytes), decompressed one part at a time.

        What the file no longer holds, or cannot be decompressed, is added to `losses`. No byte of the file is read
        twice: tables that point to the same place again and again could be endless.
        """
        data = memoryview(self.source.data)
        for cpu, offset, size in buffer.cpus:
            part = data[offset:] if buffer.is_compressed else data[offset : offset + size]
            if (size and offset in self.places) or self.read_bytes > len(data):
                self.losses.append(Loss("unreadable", 1, f"the pages of CPU {cpu} are said to be those of another"))
                return
            if size:
                self.places.add(offset)
            if buffer.is_compressed:
                yield from ((cpu, pages) for pages in self._chunks(part, cpu))
                continue
            if len(part) < size:
                message = f"the file ends {size - len(part)} bytes before the pages of CPU {cpu} do; they are lost"
                self.losses.append(Loss("torn", 1, message))
            self.read_bytes += len(part)
            yield cpu, part

    def _chunks(self, data: memoryview, cpu: int) -> Iterator[bytes]:
        """The pages of one CPU, which end with the last chunk: the size in the file's tables leaves out 4 bytes."""
        words = _Words(data, 0, self.big_endian)
        try:
            for _ in range(words.number(4)):
                packed, size = words.number(4), words.number(4)
                body = words.take(min(packed, words.left()))
                yield self.unpacked(body, size)
                if len(body) < packed:
                    return
        except _Damage:
            self.losses.append(Loss("torn", 1, f"the list of compressed pages of CPU {cpu} is cut short"))

    def unpacked(self, body: memoryview, size: int) -> bytes:
        """Compressed bytes of this file, at most the `size` that it states."""
        if self.unpacked_bytes >= LIMIT_BYTES:
            raise InputError(
                f"{self.source.name}: more than {LIMIT_BYTES >> 30} GiB once decompressed, which is the limit; "
                "cut it into parts with trace-cmd split"
            )
        if self.compression not in _METHODS:
            raise _Damage("compressed contents were not expected: it says that nothing is compressed")
        data, losses = drain(
            self.source.name, self.compression, lambda: _Limited(_METHODS[self.compression](body), size)
        )
        self.unpacked_bytes += len(data)
        self.losses.extend(losses)
        return data


def open_container(source: Source) -> Container:
    """What the file says of itself. `InputError` where it is no trace.dat of version 6 or 7.

    A header that is cut short or damaged is a loss: what stands before the damage is kept.
    """
    words = _Words(memoryview(source.data), len(MAGIC), big_endian=False)
    try:
        version = words.text()
        if version not in ("6", "7"):
            raise InputError(
                f"{source.name}: a trace.dat of version 6 or 7 was expected, and this is version "
                f"{printable(version)[:20]!r}; convert it with trace-cmd convert --file-version 7"
            )
        words.big_endian = words.number(1) == 1
        container = Container(source, int(version), words.big_endian, words.number(1), words.number(4))
        if container.long_bytes not in (4, 8):
            raise _Damage(f"a long of 4 or 8 bytes was expected in its header, not of {container.long_bytes}")
        _check_page(container.page_bytes)
    except _Damage as damage:
        raise InputError(f"{source.name}: the header of this trace.dat is damaged: {damage}; record it again") from None
    try:
        if container.version == 6:
            _read_headers(container, words)
        else:
            _read_sections(container, words)
    except _Damage as damage:
        message = f"the header of this trace.dat is damaged: {damage}; what it should say from there on is lost"
        container.losses.append(Loss("torn", 1, message))
    return container


def _check_page(page_bytes: int) -> None:
    if not _SMALLEST_PAGE <= page_bytes <= _LARGEST_PAGE or page_bytes % 8:
        raise _Damage(f"a page of {_SMALLEST_PAGE} to {_LARGEST_PAGE} bytes was expected, not of {page_bytes}")


# --- version 6 ---------------------------------------------------------------------------------------------------


def _read_headers(container: Container, words: _Words) -> None:
    _read_header_info(container, words)
    _read_ftrace_formats(container, words)
    _read_formats(container, words)
    words.take(words.number(4))  # addresses of the kernel's functions
    words.take(words.number(4))  # formats of trace_printk
    container.cmdlines = words.blob(8)
    cpus = words.number(4)
    _read_tables(container, words, "", cpus)


def _read_tables(container: Container, words: _Words, name: str, cpus: int) -> None:
    """Options, and where the pages of each CPU are; also of another instance, which has the same at its own place."""
    instances = []
    kind = bytes(words.take(10))
    while kind.startswith(b"options"):
        while (option := words.number(2)) != _DONE:
            body = _Words(words.take(words.number(4)), 0, container.big_endian)
            if option == _BUFFER:
                instances.append((body.number(8), body.text()))
            elif option == _CPUCOUNT and name:
                cpus = body.number(4)
            else:
                _read_option(container, option, body)
        kind = bytes(words.take(10))
    if kind.startswith(b"latency"):
        raise _Damage("it holds the text of a latency tracer, no events; save it with trace-cmd report")
    if not kind.startswith(b"flyrecord"):
        raise _Damage(f"options or flyrecord was expected, not {kind!r}")
    places = [(cpu, words.number(8), words.number(8)) for cpu in range(cpus)]
    container.buffers.append(Buffer(name, container.page_bytes, places, is_compressed=False))
    for offset, instance in instances if not name else ():
        at = _Words(words.data, min(offset, len(words.data)), container.big_endian)
        _read_tables(container, at, instance or "another", cpus)


# --- version 7 ---------------------------------------------------------------------------------------------------


def _read_sections(container: Container, words: _Words) -> None:
    container.compression = words.text()
    words.text()
    if container.compression != "none" and container.compression not in _METHODS:
        raise InputError(
            f"{container.source.name}: compressed with {printable(container.compression)[:20]}; zstd, zlib or none was "
            "expected; convert it with trace-cmd convert --compression none"
        )
    place = words.number(8)
    seen: set[int] = set()
    try:
        while place and place not in seen:
            seen.add(place)
            place = _read_options(container, _section(container, place))
    except _Damage as damage:
        message = f"its list of contents is damaged: {damage}; contents were searched for, and CPUs are not known"
        container.losses.append(Loss("torn", 1, message))
        container.buffers.clear()
        _search_sections(container, words.place)


def _read_options(container: Container, words: _Words) -> int:
    """Reads a list of options and the sections they point to; returns where the next list is, 0 for nowhere."""
    while True:
        option = words.number(2)
        body = _Words(words.take(words.number(4)), 0, container.big_endian)
        if option == _DONE:
            return body.number(8) if body.left() >= 8 else 0
        if option == _BUFFER:
            _read_buffer(container, body)
        elif option in _SECTIONS:
            if option not in container.sections:
                container.sections.add(option)
                _SECTIONS[option](container, _section(container, body.number(8)))
        else:
            _read_option(container, option, body)


def _read_buffer(container: Container, words: _Words) -> None:
    offset, name, clock, page_bytes = words.number(8), words.text(), words.text(), words.number(4)
    _check_page(page_bytes)
    if container.clock == "unknown":
        container.clock = _clock(clock)
    places = [(words.number(4), words.number(8), words.number(8)) for _ in range(words.number(4))]
    flags = _Words(memoryview(container.source.data), offset + 2, container.big_endian)
    is_compressed = flags.left() >= 2 and bool(flags.number(2) & _COMPRESSED)
    container.buffers.append(Buffer(name, page_bytes, places, is_compressed))


def _search_sections(container: Container, place: int) -> None:
    """Reads the sections one after the other from `place` on: trace-cmd writes the last list of contents at the end."""
    words = _Words(memoryview(container.source.data), place, container.big_endian)
    while words.left() >= _SECTION_BYTES:
        place = words.place
        kind, flags, _, size = words.number(2), words.number(2), words.number(4), words.number(8)
        if kind == _BUFFER:
            container.buffers.append(_found_buffer(container, words.place, size, bool(flags & _COMPRESSED)))
        elif kind in _SECTIONS and kind not in container.sections:
            container.sections.add(kind)
            _SECTIONS[kind](container, _section(container, place))
        words.take(min(size, words.left()))


def _found_buffer(container: Container, place: int, size: int, is_compressed: bool) -> Buffer:
    """The pages in a section: the table that tells where those of each CPU are is not in it. They begin at a page."""
    page = container.page_bytes
    end = min(place + size, len(container.source.data)) if size else len(container.source.data)
    start = -(-place // page) * page
    places = []
    while start < end:
        places.append((UNKNOWN_CPU, start, end - start))
        if not is_compressed:
            break
        words = _Words(memoryview(container.source.data), start, container.big_endian)
        for _ in range(words.number(4)):
            if words.left() < 8:
                break
            packed, _ = words.number(4), words.number(4)
            words.take(min(packed, words.left()))
        start = -(-words.place // page) * page
    return Buffer("", page, places, is_compressed)


def _section(container: Container, offset: int) -> _Words:
    """The contents of the section at `offset`, decompressed."""
    words = _Words(memoryview(container.source.data), offset, container.big_endian)
    words.number(2)
    flags = words.number(2)
    words.number(4)
    size = words.number(8)
    body = words.take(min(size, words.left()))
    if flags & _COMPRESSED:
        inner = _Words(body, 0, container.big_endian)
        packed, unpacked = inner.number(4), inner.number(4)
        body = memoryview(container.unpacked(inner.take(min(packed, inner.left())), unpacked))
    return _Words(body, 0, container.big_endian)


# --- common ------------------------------------------------------------------------------------------------------


def _read_header_info(container: Container, words: _Words) -> None:
    words.expect(b"header_page\0")
    container.header_page = words.blob(8)
    words.expect(b"header_event\0")
    words.blob(8)


def _read_ftrace_formats(container: Container, words: _Words) -> None:
    for _ in range(words.number(4)):
        container.formats.append(("ftrace", words.blob(8)))


def _read_formats(container: Container, words: _Words) -> None:
    for _ in range(words.number(4)):
        system = words.text()
        for _ in range(words.number(4)):
            container.formats.append((system, words.blob(8)))


def _read_cmdlines(container: Container, words: _Words) -> None:
    container.cmdlines = words.blob(8)


_SECTIONS: dict[int, Callable[[Container, _Words], None]] = {
    _HEADERS: _read_header_info,
    _FTRACE: _read_ftrace_formats,
    _EVENTS: _read_formats,
    _CMDLINES: _read_cmdlines,
}


def _read_option(container: Container, option: int, body: _Words) -> None:
    """One option; those that say nothing of use are skipped."""
    if option == _TSC and body.left() >= 16:
        container.tsc = (body.number(4), body.number(4))
    elif option == _TGIDS:
        container.tgids = body.rest()
    elif option == _CPUSTAT:
        container.cpu_stats.append(body.rest())
    elif option == _CLOCK:
        container.clock = _clock(body.rest())
    elif option == _OFFSET:
        container.offset_ns += _number(body.rest())
    elif option == _DATE:
        # trace-cmd record --date: the time of day less that of the trace, in microseconds.
        container.realtime_offset_ns = _number(body.rest()) * 1000


def _clock(text: str) -> str:
    """The clock in use, of the contents of tracefs' trace_clock (``local [mono] boot``) or of its bare name."""
    match = re.search(r"\[([\w-]+)\]", text) or re.match(r"\s*([\w-]+)", text)
    return match[1] if match else "unknown"


def _number(text: str) -> int:
    """A number as C writes it; 0 for what is none or does not fit in 64 bits."""
    match = re.match(r"\s*([-+]?)(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", text)
    if match is None:
        return 0
    value = int(match[2], 16 if match[2][:2].lower() == "0x" else 10)
    value = value - (1 << 64) if value >= 1 << 63 else value
    return -value if match[1] == "-" else value


class _Damage(Exception):
    """The file does not go on as it should; the message says what was expected."""


class _Words:
    """Numbers and strings one after the other."""

    def __init__(self, data: memoryview, place: int, big_endian: bool) -> None:
        self.data = data
        self.place = place
        self.big_endian = big_endian

    def left(self) -> int:
        return max(len(self.data) - self.place, 0)

    def take(self, size: int) -> memoryview:
        if size > self.left():
            raise _Damage(f"{size} bytes were expected at byte {self.place}, and there are {self.left()}")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big" if self.big_endian else "little")

    def text(self) -> str:
        """A string up to its NUL."""
        start = self.place
        raw = bytes(self.data[start : start + _LONGEST_NAME])
        end = raw.find(b"\0")
        if end < 0:
            raise _Damage(f"the end of a name was expected behind byte {start}")
        self.place += end + 1
        return raw[:end].decode(errors="backslashreplace")

    def blob(self, size: int) -> str:
        """Text behind its length, which has `size` bytes."""
        return bytes(self.take(self.number(size))).decode(errors="backslashreplace")

    def rest(self) -> str:
        """All that follows, as text up to a NUL."""
        return bytes(self.take(self.left())).split(b"\0")[0].decode(errors="backslashreplace")

    def expect(self, word: bytes) -> None:
        if bytes(self.take(len(word))) != word:
            raise _Damage(f"{word[:-1].decode()} was expected at byte {self.place - len(word)}")


_LONGEST_NAME = 4096


class _Limited:
    """The first bytes of a stream."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int, /) -> bytes:
        if not self._left:
            return b""
        piece = self._stream.read(min(size, self._left))
        self._left -= len(piece)
        return piece
