"""Write trace.dat files and ring-buffer pages by hand, for every byte order and size of long."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

COMMON = """\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
"""


def event_format(name: str, number: int, fields: Sequence[tuple[str, int, int, int]], printed: str = '"x"') -> str:
    """Return a format file; fields are (declaration, offset, size, signed)."""
    lines = "".join(f"\tfield:{what};\toffset:{at};\tsize:{n};\tsigned:{signed};\n" for what, at, n, signed in fields)
    return f"name: {name}\nID: {number}\nformat:\n{COMMON}\n{lines}\nprint fmt: {printed}\n"


@dataclass(frozen=True)
class Machine:
    """The machine of the recording kernel: byte order, bytes of a long and of a page."""

    big_endian: bool = False
    long_bytes: int = 8
    page_bytes: int = 4096

    def pack(self, form: str, *values: object) -> bytes:
        return struct.pack((">" if self.big_endian else "<") + form, *values)

    @property
    def data_at(self) -> int:
        """Bytes of a page's header."""
        return 8 + self.long_bytes

    @property
    def header_page(self) -> bytes:
        long, data = self.long_bytes, self.data_at
        return (
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n"
            "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{data};\tsize:{self.page_bytes - data};\tsigned:0;\n"
        ).encode()

    def word(self, kind: int, delta: int) -> bytes:
        """Return the first word of a record: 5 bits of type and 27 of time, from the low end on little-endian."""
        return self.pack("I", kind << 27 | delta if self.big_endian else delta << 5 | kind)

    def record(self, delta: int, data: bytes) -> bytes:
        """Return a record with data, after a time extension if the time delta does not fit."""
        before = b""
        if delta >= 1 << 27:
            before, delta = self.extend(delta), 0
        data += bytes(-len(data) % 4)
        if len(data) > 28 * 4:
            return before + self.word(0, delta) + self.pack("I", len(data) + 4) + data
        return before + self.word(len(data) // 4, delta) + data

    def extend(self, delta: int) -> bytes:
        return self.word(30, delta & (1 << 27) - 1) + self.pack("I", delta >> 27)

    def stamp(self, time: int) -> bytes:
        return self.word(31, time & (1 << 27) - 1) + self.pack("I", time >> 27 & 0xFFFFFFFF)

    def padding(self, nr_bytes: int, delta: int = 1) -> bytes:
        """Return a discarded record of `nr_bytes` in total."""
        return self.word(29, delta) + self.pack("I", nr_bytes - 4) + bytes(nr_bytes - 8)

    def fields(self, number: int, tid: int, data: bytes) -> bytes:
        """Return the data of a record: its common fields and its own."""
        return self.pack("HBBi", number, 0, 0, tid) + data

    def page(self, time: int, records: bytes, lost: int | None = None) -> bytes:
        """Return a page; `lost` is the count in its header, 0 if records were lost but not counted."""
        room = self.page_bytes - self.data_at - len(records)
        assert room >= 0
        commit = len(records)
        if lost is not None:
            commit |= 1 << 31 | (1 << 30 if lost else 0)
            if lost:
                records += self.pack("QI"[self.long_bytes == 4], lost)
        return (self.pack("Q", time) + self.pack("QI"[self.long_bytes == 4], commit) + records).ljust(
            self.page_bytes, b"\0"
        )


@dataclass(frozen=True)
class File:
    """The contents of a trace.dat.

    formats are (system, format file), options (number, contents), cpus the pages of each CPU.
    """

    machine: Machine
    formats: Sequence[tuple[str, str]]
    cpus: Sequence[bytes]
    cmdlines: str = ""
    options: Sequence[tuple[int, bytes]] = ()
    instances: Sequence[tuple[str, Sequence[bytes]]] = field(default=())
    cmdlines_more: int = 0
    """How many bytes more version 7 states for the saved command lines than there are."""

    def v6(self) -> bytes:
        """Return version 6: headers, options, and then the pages, aligned to the page size."""
        pack = self.machine.pack
        out = self._start("6") + self._header_info() + self._formats("ftrace") + self._formats(None)
        out += pack("I", 0) + pack("I", 0) + pack("Q", len(self.cmdlines)) + self.cmdlines.encode()
        out += pack("I", len(self.cpus))
        options = [*self.options, *((3, bytes(8) + name.encode() + b"\0") for name, _ in self.instances)]
        head = len(out) + 10 + sum(6 + len(body) for _, body in options) + 2 + 10 + 16 * len(self.cpus)
        pages, place = b"", self._aligned(head)
        tables = []
        for _, cpus in [("", self.cpus), *self.instances]:
            tables.append(b"")
            for data in cpus:
                tables[-1] += pack("QQ", place + len(pages), len(data))
                pages += data
        behind, extra = place + len(pages), b""
        bodies = list(self.options)
        for (name, _), table in zip(self.instances, tables[1:], strict=True):
            bodies.append((3, pack("Q", behind + len(extra)) + name.encode() + b"\0"))
            extra += b"flyrecord\0" + table
        out += b"options  \0" + b"".join(pack("HI", n, len(body)) + body for n, body in bodies) + pack("H", 0)
        out += b"flyrecord\0" + tables[0]
        return out.ljust(place, b"\0") + pages + extra

    def v7(self, compression: str = "none") -> bytes:
        """Return version 7: sections located by a list of options at the end; compressed pages are in chunks of two."""
        pack = self.machine.pack
        start = self._start("7") + compression.encode() + b"\0" + b"1\0"
        out = start + bytes(8)
        options = list(self.options)
        sections = (
            (16, self._header_info()),
            (17, self._formats("ftrace")),
            (18, self._formats(None)),
            (21, pack("Q", len(self.cmdlines) + self.cmdlines_more) + self.cmdlines.encode()),
        )
        for number, body in sections:
            options.append((number, pack("Q", len(out))))
            out += self._section(number, body, compression)
        for name, cpus in [("", self.cpus), *self.instances]:
            at = len(out)
            out += pack("HHIQ", 3, compression != "none", 0, 0)
            table = b""
            for cpu, data in enumerate(cpus):
                out = out.ljust(self._aligned(len(out)), b"\0")
                packed = data if compression == "none" else self._chunks(data, compression)
                table += pack("IQQ", cpu, len(out), len(packed))
                out += packed
            body = pack("Q", at) + name.encode() + b"\0mono\0" + pack("II", self.machine.page_bytes, len(cpus)) + table
            options.append((3, body))
        listed = b"".join(pack("HI", number, len(body)) + body for number, body in options)
        place = len(out)
        out += self._section(0, listed + pack("HIQ", 0, 8, 0), compression)
        return start + pack("Q", place) + out[len(start) + 8 :]

    def _start(self, version: str) -> bytes:
        machine = self.machine
        flags = bytes([machine.big_endian, machine.long_bytes])
        return b"\x17\x08\x44tracing" + version.encode() + b"\0" + flags + machine.pack("I", machine.page_bytes)

    def _header_info(self) -> bytes:
        page, event = self.machine.header_page, b"# compressed entry header\n"
        sizes = [self.machine.pack("Q", len(text)) for text in (page, event)]
        return b"header_page\0" + sizes[0] + page + b"header_event\0" + sizes[1] + event

    def _formats(self, only: str | None) -> bytes:
        pack = self.machine.pack
        systems: dict[str, list[bytes]] = {}
        for system, text in self.formats:
            if (system == "ftrace") == (only == "ftrace"):
                systems.setdefault(system, []).append(pack("Q", len(text)) + text.encode())
        if only == "ftrace":
            texts = systems.get("ftrace", [])
            return pack("I", len(texts)) + b"".join(texts)
        named = (name.encode() + b"\0" + pack("I", len(texts)) + b"".join(texts) for name, texts in systems.items())
        return pack("I", len(systems)) + b"".join(named)

    def _section(self, number: int, body: bytes, compression: str) -> bytes:
        pack = self.machine.pack
        if compression != "none":
            packed = compress(body, compression)
            body = pack("II", len(packed), len(body)) + packed
        return pack("HHIQ", number, compression != "none", 0, len(body)) + body

    def _chunks(self, data: bytes, compression: str) -> bytes:
        step = 2 * self.machine.page_bytes
        parts = [data[at : at + step] for at in range(0, len(data), step)]
        packed = [compress(part, compression) for part in parts]
        sizes = [self.machine.pack("II", len(body), len(part)) + body for body, part in zip(packed, parts, strict=True)]
        return self.machine.pack("I", len(parts)) + b"".join(sizes)

    def _aligned(self, place: int) -> int:
        return -(-place // self.machine.page_bytes) * self.machine.page_bytes


def compress(data: bytes, method: str) -> bytes:
    """Compress `data` like trace-cmd."""
    if method == "zlib":
        return zlib.compress(data)
    packed = pa.Codec("zstd").compress(data, asbytes=True)
    assert isinstance(packed, bytes)
    return packed


def follow(machine: Machine, page: bytes) -> list[tuple[int, int, bytes]]:
    """Return the records of a page one by one: time, event id, data. Ends at a record that does not fit."""
    order = "big" if machine.big_endian else "little"
    time = int.from_bytes(page[:8], order)
    commit = int.from_bytes(page[8 : machine.data_at], order)
    data = page[machine.data_at : machine.data_at + (commit & (1 << 27) - 1)]
    found = []
    at = 0
    while at + 4 <= len(data):
        word = int.from_bytes(data[at : at + 4], order)
        kind, delta = (word >> 27, word & (1 << 27) - 1) if machine.big_endian else (word & 31, word >> 5)
        second = int.from_bytes(data[at + 4 : at + 8], order)
        if kind == 29 and not delta:
            break
        if kind == 31:
            time, at = time >> 59 << 59 | second << 27 | delta, at + 8
            continue
        time += delta + (second << 27 if kind == 30 else 0)
        if kind >= 29:
            at += 8 if kind == 30 else 4 + (second + 3) // 4 * 4
            continue
        start, end = (at + 4, at + 4 + 4 * kind) if kind else (at + 8, at + 4 + (second + 3) // 4 * 4)
        if end > len(data) or end < start:
            break
        found.append((time, int.from_bytes(data[start : start + 2], order), data[start:end]))
        at = end
    return found


def pages(machine: Machine, data: bytes) -> Iterable[bytes]:
    """Return the complete pages of a CPU."""
    size = machine.page_bytes
    return (data[at : at + size] for at in range(0, len(data) - size + 1, size))


# --- files of an event with fields of every kind ---------------------------------------------------------------------

MACHINES = [Machine(big, long, page) for big in (False, True) for long in (4, 8) for page in (4096, 16384)]
NUMBER = 700
FORMAT = event_format(
    "everything",
    NUMBER,
    [
        ("u8 c", 8, 1, 0),
        ("s16 d", 10, 2, 1),
        ("u32 a", 12, 4, 0),
        ("s64 b", 16, 8, 1),
        ("char fixed[8]", 24, 8, 0),
        ("__data_loc char[] name", 32, 4, 0),
        ("u32 list[3]", 36, 12, 0),
        ("__data_loc u16[] numbers", 48, 4, 0),
        ("__rel_loc char[] near", 52, 4, 0),
    ],
    '"c=%u d=%d a=%u b=%lld fixed=%s name=%s.", REC->c, REC->d, REC->a, REC->b, REC->fixed, __get_str(name)',
)


def everything(machine: Machine, tid: int, values: dict[str, Any]) -> bytes:
    """Return the data of an event `everything`."""
    name, near = values["name"].encode() + b"\0", values["near"].encode() + b"\0"
    numbers = machine.pack(f"{len(values['numbers'])}H", *values["numbers"])
    at = 56
    data = machine.pack("BxhIq", values["c"], values["d"], values["a"], values["b"])
    data += (values["fixed"].encode() + b"\0garbage")[:8].ljust(8, b"\0")
    data += machine.pack("I", len(name) << 16 | at)
    data += machine.pack("3I", *values["list"])
    data += machine.pack("I", len(numbers) << 16 | at + len(name))
    data += machine.pack("I", len(near) << 16 | len(name) + len(numbers))
    return machine.fields(NUMBER, tid, data + name + numbers + near)


def random_values(pick: random.Random) -> dict[str, Any]:
    text = "".join(pick.choices("abc/.-é", k=pick.choice([0, 1, 5, 40, 300])))
    return {
        "c": pick.randrange(256),
        "d": pick.randrange(-(1 << 15), 1 << 15),
        "a": pick.randrange(1 << 32),
        "b": pick.randrange(-(1 << 63), 1 << 63),
        "fixed": "".join(pick.choices("xyz", k=pick.randrange(9))),
        "name": text,
        "list": [pick.randrange(1 << 32) for _ in range(3)],
        "numbers": [pick.randrange(1 << 16) for _ in range(pick.randrange(5))],
        "near": text[::-1],
    }


def random_file(machine: Machine, seed: str) -> tuple[File, list[dict[str, Any]], int]:
    """Return a file of two CPUs with the event `everything` on many pages, its rows, and the number of lost ones."""
    pick = random.Random(seed)
    cpus, rows, lost = [], [], 0
    for cpu in range(2):
        data, time = b"", 1 << 40
        for _ in range(6):
            first, records, wrote = time, b"", 0
            missing = pick.choice([None, None, 0, 7, 1 << 20])
            lost += 0 if missing is None else max(missing, 1)
            while True:
                values, delta = random_values(pick), pick.choice([0, 5, (1 << 27) - 1, 1 << 27, 1 << 35])
                extra = pick.choice([b"", b"", machine.padding(24), machine.extend(0)])
                body = machine.record(delta, everything(machine, 10 + cpu, values))
                # Leave space for the count of lost records after the data.
                if len(records) + len(extra) + len(body) + machine.data_at + 8 > machine.page_bytes:
                    break
                time += delta + (extra == machine.padding(24))  # a discarded record advances the time, as in trace-cmd
                records += extra + body
                wrote += 1
                rows.append({"common_ts_ns": time, "common_cpu": cpu, "common_pid": 10 + cpu, **values})
            assert wrote
            data += machine.page(first, records, missing)
            time += 1000
        cpus.append(data)
    cmdlines = "10 one name\n11 two\n"
    return File(machine, [("made", FORMAT)], cpus, cmdlines, [(4, b"local [boot] mono")]), rows, lost
