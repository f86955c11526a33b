"""Take a trace.dat apart into one row per record, to change it and write it again like the kernel."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from support import tracedat_files
from support.tracedat_files import File, Machine

from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import event_format, tracedat_file
from androstep_analysis.ingest.ftrace.event_format import Event

CLOCK, TGIDS = 4, 32
"""Options of a trace.dat: the trace clock, and the process of each thread."""

_ROOM = 1 << 20


@dataclass(frozen=True)
class Trace:
    """A recording by ftrace.

    `events` has a row per record in the order of the file: cpu, ts_ns, was_ns (as recorded), event (its name), tid and
    data (the record with its common fields). `lost` lists overwritten records: CPU, time before which they were lost,
    and count.
    """

    machine: Machine
    formats: tuple[tuple[str, str], ...]
    cmdlines: str
    tgids: str
    clock: str
    events: pl.DataFrame
    lost: tuple[tuple[int, int, int], ...] = ()

    @property
    def described(self) -> dict[str, Event]:
        """The kernel's description of every event by its name."""
        parsed = (event_format.parse(text, system, self.machine.long_bytes) for system, text in self.formats)
        return {event.name: event for event in parsed if event is not None}

    def having(self, *which: pl.Expr) -> Trace:
        """Return the recording with only these records."""
        return replace(self, events=self.events.filter(*which))

    def retimed(self, ts_ns: pl.Expr) -> Trace:
        """Return the recording with other times. Each CPU's records keep their order."""
        return replace(self, events=self.events.with_columns(ts_ns=ts_ns.cast(pl.Int64)))

    def field(self, name: str) -> pl.Series:
        """Return the number in field `name` of every record; null in events without it."""
        value = pl.lit(None, pl.Int64)
        for event in self.described.values():
            field = event.fields.get(name)
            if field is not None and not field.is_array and field.place is None:
                size = field.size_bytes
                kind = {1: pl.UInt8, 2: pl.UInt16, 4: pl.UInt32, 8: pl.Int64}[size]
                raw = pl.col("data").bin.slice(field.offset, size).bin.reinterpret(dtype=kind)
                value = pl.when(pl.col("event") == event.name).then(raw.cast(pl.Int64)).otherwise(value)
        return self.events.select(value.alias(name)).to_series()

    def with_field(self, name: str, values: pl.Series) -> Trace:
        """Return the recording with these numbers in field `name`, unless they are null."""
        places = {
            event.name: field
            for event in self.described.values()
            if (field := event.fields.get(name)) is not None and not field.is_array
        }
        data = [
            _put(record, places[event].offset, places[event].size_bytes, value)
            if value is not None and event in places
            else record
            for event, record, value in zip(self.events["event"], self.events["data"], values, strict=True)
        ]
        return replace(self, events=self.events.with_columns(data=pl.Series(data, dtype=pl.Binary)))

    def with_text(self, name: str, old: str, new: str) -> Trace:
        """Return the recording with `old` replaced by `new` in the fixed character arrays called `name`."""
        described, data = self.described, self.events["data"].to_list()
        for at, (event, record) in enumerate(zip(self.events["event"], data, strict=True)):
            field = described[event].fields.get(name)
            if field is not None and field.is_text and field.place is None:
                text = record[field.offset : field.offset + field.size_bytes].split(b"\0")[0]
                if text == old.encode():
                    filled = new.encode().ljust(field.size_bytes, b"\0")
                    data[at] = record[: field.offset] + filled + record[field.offset + field.size_bytes :]
        return replace(self, events=self.events.with_columns(data=pl.Series(data, dtype=pl.Binary)))

    @property
    def file(self) -> bytes:
        """Return the recording in trace-cmd's format, version 6."""
        cpus = range(int(self.events["cpu"].max()) + 1) if self.events.height else range(1)
        options = [(CLOCK, b"[" + self.clock.encode() + b"]")]
        options += [(TGIDS, self.tgids.encode())] if self.tgids else []
        return File(self.machine, self.formats, [self._pages(cpu) for cpu in cpus], self.cmdlines, options).v6()

    def _pages(self, cpu: int) -> bytes:
        """Return the pages of one CPU. A new page begins if time goes back, because a record cannot express that."""
        machine, lost = self.machine, [(ts, count) for of, ts, count in self.lost if of == cpu]
        room = machine.page_bytes - machine.data_at - 8
        pages: list[bytes] = []
        first = last = 0
        records = b""

        def end() -> None:
            nonlocal records
            if records:
                overwritten = [count for ts, count in lost if ts <= first]
                lost[:] = [(ts, count) for ts, count in lost if ts > first]
                pages.append(machine.page(first, records, sum(overwritten) if overwritten else None))
            records = b""

        for ts, data in self.events.filter(pl.col("cpu") == cpu).select("ts_ns", "data").iter_rows():
            record = machine.record(ts - last, data) if records and ts >= last else b""
            is_gap = any(last < at <= ts for at, _ in lost)
            if not record or is_gap or len(records) + len(record) > room:
                end()
                first, record = ts, machine.record(0, data)
            records += record
            last = ts
        end()
        return b"".join(pages)


def read(path: Path, tgids: str = "") -> Trace:
    """Read the trace.dat at `path`; `tgids` are the contents of ``saved_tgids`` if they were stored separately."""
    container = tracedat_file.open_container(source.load(path))
    machine = Machine(container.big_endian, container.long_bytes, container.page_bytes)
    names = {
        event.id: event.name
        for system, text in container.formats
        if (event := event_format.parse(text, system, container.long_bytes)) is not None
    }
    rows = []
    for stream in container.streams():
        for piece in stream.pieces(_ROOM):
            for page in tracedat_files.pages(machine, piece):
                for ts, number, data in tracedat_files.follow(machine, page):
                    rows.append((stream.cpu, ts, names.get(number, ""), struct.unpack_from("<i", data, 4)[0], data))
    schema = {"cpu": pl.Int32, "ts_ns": pl.Int64, "event": pl.String, "tid": pl.Int32, "data": pl.Binary}
    events = pl.DataFrame(rows, schema, orient="row").with_columns(was_ns="ts_ns")
    return Trace(machine, tuple(container.formats), container.cmdlines, tgids, container.clock, events)


def _put(record: bytes, offset: int, size: int, value: int) -> bytes:
    return record[:offset] + (value & (1 << 8 * size) - 1).to_bytes(size, "little") + record[offset + size :]
