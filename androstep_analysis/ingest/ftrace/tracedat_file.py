"""Parse the container of trace-cmd's ``trace.dat``, versions 6 and 7: the locations of its parts. No event is decoded.

The layout is specified in the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5). Version 6 is a sequence of
headers followed by the pages. Version 7 consists of sections, which may be compressed, and a list of options with their
offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.ingest.compression import Deflate, Stream, drained
from androstep_analysis.ingest.ftrace import binary
from androstep_analysis.ingest.ftrace import pages as ftrace_pages
from androstep_analysis.ingest.ftrace.binary import UNKNOWN_CPU, Recording
from androstep_analysis.ingest.source import Source

MAGIC = b"\x17\x08\x44tracing"

_DONE, _DATE, CPUSTAT, _BUFFER, _CLOCK, _UNAME, _OFFSET, _CPUCOUNT, _TSC = 0, 1, 2, 3, 4, 5, 7, 8, 14
_HEADERS, _FTRACE, _EVENTS, _CMDLINES = 16, 17, 18, 21
_TGIDS = 32
"""The contents of tracefs' ``saved_tgids``, written by the trace-cmd that comes with GPUVis."""

_COMPRESSED = 1
_SECTION_BYTES = 16

_METHODS: dict[str, Callable[[bytes], Stream]] = {
    "zstd": lambda body: pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), "zstd"),
    "zlib": lambda body: Deflate(body, 15),
}

_LARGEST_BLOB = 256 << 20
_LARGEST_CHUNK = 64 << 20
_LARGEST_RATIO = 1 << 12
"""Limits for a text or section, for a chunk of pages, and for the compression ratio of pages. More indicates damage."""

_MOST_CPUS = 1 << 14
_WINDOW = 1 << 12
"""The number of bytes read at once to decode numbers."""


@dataclass(frozen=True)
class Buffer:
    """The pages of one trace instance. `cpus` holds CPU, file offset and size of the pages for each CPU."""

    name: str
    page_bytes: int
    cpus: list[tuple[int, int, int]]
    is_compressed: bool

    @property
    def holds_pages(self) -> bool:
        """Whether any CPU has pages."""
        return any(size for _, _, size in self.cpus)


@dataclass(kw_only=True)
class Container(Recording):
    """The description in a file, and the locations of its pages.

    `cmdlines_at` is the offset of `cmdlines` (version 6).
    """

    source: Source
    version: int
    page_bytes: int
    compression: str = "none"
    buffers: list[Buffer] = field(default_factory=list)
    sections: set[int] = field(default_factory=set)
    cmdlines_at: int | None = None

    @property
    def kernel_page_bytes(self) -> int:
        """The page size in the header. Since Linux 6.8, pages of a buffer may be larger than those of the kernel."""
        return self.page_bytes

    def streams(self) -> list[binary.Stream]:
        """Return the pages of all CPUs of all instances. Pages beyond the end of the file are a loss.

        No byte of the file is read twice. Otherwise tables with many entries for the same location could make reading
        endless.
        """
        streams: list[binary.Stream] = []
        places: set[int] = set()
        used = 0
        for buffer in self.buffers:
            layout = ftrace_pages.layout(self.header_page, self.big_endian, buffer.page_bytes, self.long_bytes)
            for cpu, offset, size in buffer.cpus:
                left = max(self.source.size - offset, 0)
                if (size and offset in places) or used > self.source.size:
                    self.lose("unreadable", f"the pages of CPU {cpu} have the same location as those of another CPU")
                    break
                if size:
                    places.add(offset)
                used += min(size, left)
                pages: Callable[[int], Iterator[bytes]]
                if buffer.is_compressed:
                    pages = partial(self._unpacked_pages, cpu, offset, size)
                else:
                    if left < size:
                        message = f"the file is truncated: {size - left} bytes of the pages of CPU {cpu} are lost"
                        self.lose("torn", message)
                    pages = partial(self._pages, layout.page_bytes, offset, min(size, left))
                streams.append(binary.Stream(cpu, layout, pages))
        return streams

    def _pages(self, page_bytes: int, offset: int, size: int, piece_bytes: int) -> Iterator[bytes]:
        step = max(piece_bytes // page_bytes, 1) * page_bytes
        for start in range(0, size, step):
            yield self.source.read(offset + start, min(step, size - start))

    def _unpacked_pages(self, cpu: int, offset: int, size: int, _piece_bytes: int) -> Iterator[bytes]:
        """Yield the pages of one CPU chunk by chunk.

        The size in the tables of the file excludes the number of chunks.
        """
        words = _Words(self.source, offset, self.big_endian, offset + size + 4)
        packed_bytes = unpacked_bytes = 0
        try:
            for _ in range(words.number(4)):
                packed, unpacked = words.number(4), words.number(4)
                body = words.take(min(packed, words.left()))
                data = self.unpacked(body, unpacked)
                packed_bytes += len(body)
                unpacked_bytes += len(data)
                if unpacked_bytes > _LARGEST_CHUNK + _LARGEST_RATIO * packed_bytes:
                    raise _Damage("the compression ratio of pages is implausible")
                if data:
                    yield data
                if len(body) < packed:
                    return
        except _Damage as damage:
            self.lose("torn", f"the list of compressed pages of CPU {cpu} is damaged: {damage}")

    def unpacked(self, body: bytes, size: int) -> bytes:
        """Decompress bytes of this file, up to the `size` that it states. Truncation and damage are losses."""
        if self.compression not in _METHODS:
            raise _Damage("compressed contents were not expected: the header states no compression")
        if size > _LARGEST_BLOB:
            raise _Damage(f"at most {_LARGEST_BLOB} bytes were expected at once, not {size}")
        data, losses = drained(self.name, self.compression, lambda: _Limited(_METHODS[self.compression](body), size))
        for loss in losses:
            self.lose(loss.kind, loss.message)
        return data


def open_container(source: Source) -> Container:
    """Parse the description in a trace.dat file.

    A truncated or damaged header is a loss. The part before the damage is used.

    Raises
    ------
    InputError
        If the file is not a trace.dat of version 6 or 7.
    """
    words = _Words(source, len(MAGIC), big_endian=False)
    try:
        version = words.text()
        if version not in ("6", "7"):
            raise InputError(
                f"{source.name}: only versions 6 and 7 of trace.dat can be read, not version "
                f"{printable(version)[:20]!r}; convert it with trace-cmd convert --file-version 7"
            )
        words.big_endian = words.number(1) == 1
        container = Container(
            name=source.name,
            source=source,
            version=int(version),
            big_endian=words.big_endian,
            long_bytes=words.number(1),
            page_bytes=words.number(4),
        )
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
        message = f"the header of this trace.dat is damaged: {damage}; the rest of the header is lost"
        container.lose("torn", message)
    return container


def _check_page(page_bytes: int) -> None:
    smallest, largest = ftrace_pages.SMALLEST_PAGE, ftrace_pages.LARGEST_PAGE
    if not smallest <= page_bytes <= largest or page_bytes % 8:
        raise _Damage(f"a page of {smallest} to {largest} bytes was expected, not of {page_bytes}")


def _check_cpus(cpus: int) -> None:
    if cpus > _MOST_CPUS:
        raise _Damage(f"at most {_MOST_CPUS} CPUs were expected, not {cpus}")


# --- version 6 ---------------------------------------------------------------------------------------------------


def _read_headers(container: Container, words: _Words) -> None:
    _read_header_info(container, words)
    _read_ftrace_formats(container, words)
    _read_formats(container, words)
    words.skip(words.number(4))  # addresses of the kernel's functions
    words.skip(words.number(4))  # formats of trace_printk
    container.cmdlines_at = words.position
    container.cmdlines = words.blob(8)
    cpus = words.number(4)
    _read_tables(container, words, "", cpus)


def _read_tables(container: Container, words: _Words, name: str, cpus: int) -> None:
    """Read the options, and the locations of the pages of each CPU. Another instance has tables of its own."""
    instances = []
    kind = words.take(10)
    while kind.startswith(b"options"):
        while (option := words.number(2)) != _DONE:
            body = _Words(words.take(words.number(4)), 0, container.big_endian)
            if option == _BUFFER:
                instances.append((body.number(8), body.text()))
            elif option == _CPUCOUNT and name:
                cpus = body.number(4)
            else:
                _read_option(container, option, body)
        kind = words.take(10)
    if kind.startswith(b"latency"):
        raise _Damage("it holds the text of a latency tracer, no events; save it with trace-cmd report")
    if not kind.startswith(b"flyrecord"):
        raise _Damage(f"options or flyrecord was expected, not {kind!r}")
    _check_cpus(cpus)
    places = [(cpu, words.number(8), words.number(8)) for cpu in range(cpus)]
    container.buffers.append(Buffer(name, container.page_bytes, places, is_compressed=False))
    for offset, instance in instances if not name else ():
        at = _Words(container.source, min(offset, container.source.size), container.big_endian)
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
    position = words.number(8)
    seen: set[int] = set()
    try:
        while position and position not in seen:
            seen.add(position)
            position = _read_options(container, _section(container, position))
    except _Damage as damage:
        message = f"its list of sections is damaged: {damage}; sections were searched for, and CPUs are unknown"
        container.lose("torn", message)
        container.buffers.clear()
        _search_sections(container, words.position)


def _read_options(container: Container, words: _Words) -> int:
    """Read a list of options and the sections that it refers to.

    Return the offset of the next list, 0 if there is none.
    """
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
    cpus = words.number(4)
    _check_cpus(cpus)
    places = [(words.number(4), words.number(8), words.number(8)) for _ in range(cpus)]
    is_first = not any(buffer.holds_pages for buffer in container.buffers)
    flags = _Words(container.source, offset + 2, container.big_endian)
    is_compressed = flags.left() >= 2 and bool(flags.number(2) & _COMPRESSED)
    buffer = Buffer(name, page_bytes, places, is_compressed)
    container.buffers.append(buffer)
    if container.clock == "unknown" or (name and is_first and buffer.holds_pages):
        container.clock = binary.clock_in_use(clock)  # each instance has its own


def _search_sections(container: Container, position: int) -> None:
    """Read all sections from `position` on.

    A damaged file may lack the last list of options, which trace-cmd writes at the end.
    """
    words = _Words(container.source, position, container.big_endian)
    while words.left() >= _SECTION_BYTES:
        position = words.position
        kind, flags, _, size = words.number(2), words.number(2), words.number(4), words.number(8)
        if kind == _BUFFER:
            container.buffers.append(_buffer_at(container, words.position, size, bool(flags & _COMPRESSED)))
        elif kind in _SECTIONS and kind not in container.sections:
            container.sections.add(kind)
            _SECTIONS[kind](container, _section(container, position))
        words.skip(size)


def _buffer_at(container: Container, position: int, size: int, is_compressed: bool) -> Buffer:
    """Return the pages in a section without its table of CPUs. They begin at a multiple of the page size."""
    page = container.page_bytes
    end = min(position + size, container.source.size) if size else container.source.size
    start = -(-position // page) * page
    places = []
    while start < end:
        places.append((UNKNOWN_CPU, start, end - start))
        if not is_compressed:
            break
        words = _Words(container.source, start, container.big_endian)
        for _ in range(words.number(4)):
            if words.left() < 8:
                break
            packed, _ = words.number(4), words.number(4)
            words.skip(packed)
        start = -(-words.position // page) * page
    return Buffer("", page, places, is_compressed)


def _section(container: Container, offset: int) -> _Words:
    """Return the contents of the section at `offset`, decompressed."""
    words = _Words(container.source, offset, container.big_endian)
    words.number(2)
    flags = words.number(2)
    words.number(4)
    size = words.number(8)
    body = words.take(min(size, words.left()))
    if flags & _COMPRESSED:
        inner = _Words(body, 0, container.big_endian)
        packed, unpacked = inner.number(4), inner.number(4)
        body = container.unpacked(inner.take(min(packed, inner.left())), unpacked)
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
    """Read the names of threads, whatever length is stated.

    trace-cmd measures the kernel's file before it copies it (`save_tracing_file_data`), and names may change meanwhile.
    A name whose line is truncated is left out.
    """
    words.number(8)
    text = words.rest()
    container.cmdlines = text[: text.rfind("\n") + 1]


_SECTIONS: dict[int, Callable[[Container, _Words], None]] = {
    _HEADERS: _read_header_info,
    _FTRACE: _read_ftrace_formats,
    _EVENTS: _read_formats,
    _CMDLINES: _read_cmdlines,
}


def _read_option(container: Container, option: int, body: _Words) -> None:
    """Read one option. Irrelevant ones are skipped."""
    if option == _TSC and body.left() >= 16:
        container.tsc = (body.number(4), body.number(4))
    elif option == _TGIDS:
        container.tgids = body.rest()
    elif option == CPUSTAT:
        container.cpu_stats.append(body.rest())
    elif option == _UNAME:
        # System, host, release and machine. The host name is private and is not stored.
        words = body.rest().split()
        container.kernel = next(iter(words[2:3]), None)
        container.machine = words[-1] if len(words) > 3 else None
    elif option == _CLOCK:
        container.clock = binary.clock_in_use(body.rest())
    elif option == _OFFSET:
        container.offset_ns += _number(body.rest())
    elif option == _DATE:
        # trace-cmd record --date: the time of day less that of the trace, in microseconds.
        container.realtime_offset_ns = _number(body.rest()) * 1000


def _number(text: str) -> int:
    """Return a number in C syntax; 0 if it is not a number or does not fit in 64 bits."""
    match = re.match(r"\s*([-+]?)(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", text)
    if match is None:
        return 0
    value = int(match[2], 16 if match[2][:2].lower() == "0x" else 10)
    value = value - (1 << 64) if value >= 1 << 63 else value
    return -value if match[1] == "-" else value


class _Damage(Exception):
    """The file is not as expected. The message says what was expected."""


class _Words:
    """Consecutive numbers and strings, up to byte `end`."""

    def __init__(self, data: Source | bytes, position: int, big_endian: bool, end: int | None = None) -> None:
        size = len(data) if isinstance(data, bytes) else data.size
        self.position = position
        self.big_endian = big_endian
        self._data = data
        self._end = size if end is None else min(end, size)
        self._window = b""
        self._window_at = 0

    def left(self) -> int:
        return max(self._end - self.position, 0)

    def take(self, size: int) -> bytes:
        if size > self.left():
            raise _Damage(f"{size} bytes were expected at byte {self.position}, and there are {self.left()}")
        if size > _LARGEST_BLOB:
            raise _Damage(f"at most {_LARGEST_BLOB} bytes were expected at byte {self.position}, not {size}")
        taken = self._peek(size)
        self.position += size
        return taken

    def skip(self, size: int) -> None:
        """Skip `size` bytes, at most to the end."""
        self.position += min(size, self.left())

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big" if self.big_endian else "little")

    def text(self) -> str:
        """Return a NUL-terminated string."""
        raw = self._peek(min(_LONGEST_NAME, self.left()))
        end = raw.find(b"\0")
        if end < 0:
            raise _Damage(f"the end of a name was expected after byte {self.position}")
        self.position += end + 1
        return raw[:end].decode(errors="backslashreplace")

    def blob(self, size: int) -> str:
        """Return a text that follows its length, which has `size` bytes."""
        return self.take(self.number(size)).decode(errors="backslashreplace")

    def rest(self) -> str:
        """Return the remaining bytes as text, up to a NUL."""
        return self.take(self.left()).split(b"\0")[0].decode(errors="backslashreplace")

    def expect(self, word: bytes) -> None:
        if self.take(len(word)) != word:
            raise _Damage(f"{word[:-1].decode()} was expected at byte {self.position - len(word)}")

    def _peek(self, size: int) -> bytes:
        if isinstance(self._data, bytes):
            return self._data[self.position : self.position + size]
        start = self.position - self._window_at
        if start < 0 or start + size > len(self._window):
            self._window, self._window_at, start = self._data.read(self.position, max(size, _WINDOW)), self.position, 0
        return self._window[start : start + size]


_LONGEST_NAME = _WINDOW


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
