"""Read raw pages of ftrace (tracefs: ``per_cpu/cpuN/trace_pipe_raw``) in a directory with the files that describe them.

A shell can copy them, so that nothing needs to be installed on a phone. (``/dev`` is in memory, so that copying causes
no I/O.)::

    adb shell su -c 'cd /sys/kernel/tracing; d=/dev/raw; mkdir $d; for c in per_cpu/cpu*; do \
        timeout 60 cat $c/trace_pipe_raw > $d/${c##*/}.raw & done; wait; cat per_cpu/cpu*/stats > $d/stats'
    adb shell su -c 'cd /sys/kernel/tracing; d=/dev/raw; cat events/*/*/format > $d/formats; \
        uname -m > $d/machine; \
        for f in events/header_page saved_cmdlines saved_tgids trace_clock; do cat $f > $d/${f##*/}; done'
    adb pull /dev/raw

The directory contains:

- ``cpuN.raw`` for each CPU: the concatenated pages.
- ``formats``: the concatenated format files of all events.
- ``machine`` (optional): the output of ``uname -m``. It determines numbers and flags of system calls.
- ``header_page``, ``saved_cmdlines``, ``saved_tgids``, ``trace_clock`` and ``stats`` (optional): files of tracefs.
  ``stats`` is the concatenation for all CPUs. ``saved_tgids`` is empty unless the option record-tgid was set while
  recording.

Given the directory, any of the files of pages, ``formats``, or a tar archive of all files, the whole set is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.ftrace import binary, pages
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_PAGES = re.compile(r"cpu(\d{1,5})\.raw(?:\.\w+)?")
_FORMATS = "formats"
_SAVED = ("header_page", "saved_cmdlines", "saved_tgids", "trace_clock", "stats", "machine")

_FORMAT = re.compile(rb"name: \S+\nID: \d+\nformat:\n")
_USUAL_PAGE = 4096
_USED = (1 << 27) - 1
"""The bits of the page header that contain the number of bytes in use (`struct buffer_data_page`,
kernel/trace/ring_buffer.c).
"""

_HEADERS = ((False, 8), (False, 4), (True, 8), (True, 4))
"""Combinations of byte order and bytes of a long, in the order in which they are tried."""


def sniff(head: bytes) -> bool:
    """Return whether `head` begins with an intact page of records, or with a format file."""
    return _FORMAT.match(head) is not None or _machine(head) is not None


def first_members(path: Path) -> list[Path]:
    """Return one file of the set in directory `path`; none if it is not such a directory."""
    return [path / _FORMATS] if (path / _FORMATS).is_file() else []


def members(source: Source) -> tuple[str, ...]:
    """Return the names of all files in the set of `source`."""
    siblings = source.siblings
    return tuple(name for name in siblings if _PAGES.fullmatch(name) or name in (_FORMATS, *_SAVED))


def read(source: Source, spool: Spool) -> Staging:
    """Read the events of all CPUs (`binary.read`). Raise `InputError` if formats or pages are missing."""
    return binary.read(_dump(source), spool, "raw ftrace pages")


@dataclass(kw_only=True)
class _Dump(binary.Recording):
    """Files of pages, by CPU."""

    page_bytes: int
    files: dict[int, Source] = field(default_factory=dict)

    @property
    def kernel_page_bytes(self) -> int | None:
        """The page size of the buffer if ``header_page`` is present.

        It is that of the kernel unless it was configured larger.
        """
        return self.page_bytes if self.header_page else None

    def streams(self) -> list[binary.Stream]:
        layout = pages.layout(self.header_page, self.big_endian, self.page_bytes, self.long_bytes)
        return [binary.Stream(cpu, layout, partial(self._pages, file)) for cpu, file in sorted(self.files.items())]

    def _pages(self, file: Source, piece_bytes: int) -> Iterator[bytes]:
        return file.pieces(max(piece_bytes // self.page_bytes, 1) * self.page_bytes)


def _dump(source: Source) -> _Dump:
    siblings = source.siblings
    files = {int(match[1]): source.load_sibling(name) for name in siblings if (match := _PAGES.fullmatch(name))}
    if (this := _PAGES.fullmatch(source.path.name)) is not None:
        files[int(this[1])] = source
    if not any(file.size for file in files.values()):
        raise InputError(f"{source.name}: event formats without pages; add the pages to its directory as cpu0.raw, ...")
    if _FORMATS not in siblings:
        raise InputError(
            f"{source.name}: pages of ftrace without the file 'formats' that describes them; "
            "save the output of cat events/*/*/format as that file"
        )
    texts = {name: _text(source.load_sibling(name)) for name in (_FORMATS, *_SAVED) if name in siblings}
    machines = (_machine(file.head) for _, file in sorted(files.items()))
    big_endian, long_bytes = next((machine for machine in machines if machine), _HEADERS[0])
    header = texts.get("header_page", "")
    fields = pages.header_fields(header)
    data_at, data_bytes = fields.get("data", (0, _USUAL_PAGE))
    page_bytes = data_at + data_bytes
    is_page = pages.SMALLEST_PAGE <= page_bytes <= pages.LARGEST_PAGE and page_bytes % 8 == 0
    dump = _Dump(
        name=source.name,
        big_endian=big_endian,
        long_bytes=fields.get("commit", (0, long_bytes))[1],
        page_bytes=page_bytes if is_page else _USUAL_PAGE,
        files=files,
        header_page=header,
        formats=[("", text) for text in re.split(r"(?m)^(?=name: )", texts[_FORMATS]) if text],
        cmdlines=texts.get("saved_cmdlines", ""),
        tgids=texts.get("saved_tgids", ""),
        clock=binary.clock_in_use(texts.get("trace_clock", "")),
        machine=texts.get("machine", "").strip() or None,
        cpu_stats=re.split(r"(?m)^(?=entries:)", texts.get("stats", "")),
    )
    for file in files.values():
        for loss in file.losses if file is not source else ():
            dump.lose(loss.kind, f"{file.path.name}: {loss.message}")
        if rest := file.size % dump.page_bytes:
            dump.lose("torn", f"{file.path.name} ends {dump.page_bytes - rest} bytes before its last page does")
    return dump


def _machine(head: bytes) -> tuple[bool, int] | None:
    """Return byte order and bytes of a long of the machine that wrote the first page; None if there is no page."""
    size = min(len(head), 1 << 16) // 8 * 8
    for big_endian, long_bytes in _HEADERS if size >= pages.SMALLEST_PAGE else ():
        # After lost events, bit 31 of an int is set. Sign extension then sets all upper bits of a 64-bit long.
        used = int.from_bytes(head[8 : 8 + long_bytes], "big" if big_endian else "little") & _USED
        if 0 < used <= size - 8 - long_bytes and used % 4 == 0:
            records = pages.records(pages.layout("", big_endian, size, long_bytes), head[:size])
            if len(records.start) and not records.broken:
                return big_endian, long_bytes
    return None


def _text(source: Source) -> str:
    return source.data.decode(errors="backslashreplace")
