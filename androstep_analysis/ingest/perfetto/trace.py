"""Read Perfetto traces (`.pftrace`, `.perfetto-trace`): packets of Protocol Buffers, decoded without a library.

Relevant are the events of ftrace and the frames of Android. The ftrace events have the kernel's names and fields, and
yield the same rows as a `trace.dat`. Times stay in the trace clock.

The file is read twice: first for the names of threads, which may be at its end, then for the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss, LossWarning
from androstep_analysis.common.losses import SEVERAL_CLOCKS
from androstep_analysis.ingest import tasks, threads
from androstep_analysis.ingest.perfetto import block_io
from androstep_analysis.ingest.perfetto.blocked import blocked
from androstep_analysis.ingest.perfetto.decoder import EXEC, FORK, NEW, RENAME, SEEN, Decoder, Packet
from androstep_analysis.ingest.perfetto.fields import PACKETS
from androstep_analysis.ingest.perfetto.frames import frames
from androstep_analysis.ingest.perfetto.packets import Clocks, Processes, Readings, Recorder, Samples, walk
from androstep_analysis.ingest.source import Source, load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging
from androstep_analysis.ingest.syscalls.pairs import Machine, Pairs

_CLOCKS = {0: "boot", 2: "global", 3: "local", 4: "mono_raw"}
"""Names of FtraceClock as in tracefs. The default is CLOCK_BOOTTIME."""

_PACKET_KEY = 0x0A
"""The key of field 1 of a trace, a packet with a length."""

_NUMBERS = {3, 8, 10, 13, 41, 42, 58, 79, 87, 98}
"""The numeric fields of a packet: time, sequence, losses."""

_MESSAGES = {*PACKETS, 12, 59}
"""The message fields of a packet: data, interned strings, defaults."""

_SNIFFED_PACKETS = 4
_SHORTEST = 64
"""In a shorter file, two bytes of a packet are not sufficient to recognise it."""

_INNER = ("call_events", "frame_events", "switch_events")
"""The tables of events that can be processed only after the last one."""

_SAMPLES = 1 << 16
_NO_EVENTS = ("ftrace_events", "compressed_packets", "zstd_compressed_packets")


def sniff(head: bytes) -> bool:
    """Return whether `head` begins with packets that have only known fields of the right kind."""
    position = nr_fields = 0
    for _ in range(_SNIFFED_PACKETS):
        length, start = _length(head, position)
        if start < 0:
            return nr_fields > 0 and position == len(head)
        packet = memoryview(head[start : start + length])
        entries = list(walk(packet))
        if any(number not in (_NUMBERS if isinstance(value, int) else _MESSAGES) for number, value, _ in entries):
            return False
        nr_fields += len(entries)
        if len(packet) < length:  # it continues after the head
            return nr_fields > 0 or (len(head) > _SHORTEST and _begins_message(packet))
        if (entries and entries[-1][2] < length) or (not entries and length):
            return False
        position = start + length
    return nr_fields > 0


def _length(head: bytes, position: int) -> tuple[int, int]:
    """Return the length of the packet at `position` and the offset of its fields; -1 if there is none."""
    length = 0
    for shift, byte in enumerate(head[position + 1 : position + 6]):
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return length, position + 2 + shift if head[position] == _PACKET_KEY else -1
    return 0, -1


def _begins_message(packet: memoryview) -> bool:
    """Return whether a packet with an incomplete first field begins with the key of a message."""
    if len(packet) < 2 or packet[0] & 7 != 2:
        return False
    number = packet[0] >> 3 if packet[0] < 0x80 else (packet[0] & 0x7F) >> 3 | packet[1] << 4
    return number in _MESSAGES


def read(source: Source, spool: Spool) -> Staging:
    """Read the events of all packets of this machine.

    `events` counts the events of ftrace, including those of `compact_sched`, and all other packets by their type.
    `lost_events` is what the kernel counted during the recording. If it counted nothing, it is the number of gaps that
    the recorder detected.
    """
    first = _FirstPass()
    first.decoder.read(source.pieces(), lambda: None, first.take)
    events, totals = first.decoder.events(), first.decoder.totals
    names = first.versions()
    second = _SecondPass(spool, first, events, names)
    second.decoder.read(source.pieces(), second.flush, second.take)
    calls = second.finish()
    packets = {name: n for name, n in first.decoder.packets().items() if name not in _NO_EVENTS}
    realtime = first.clocks.realtime_offset_ns
    times = [*second.span, *((totals.first_ns, totals.last_ns) if totals.events else ())]
    lost = sum(first.recorder.lost(name) for name in ("overrun", "commit overrun", "dropped"))
    return Staging(
        format="perfetto",
        events=dict(sorted(events.items())) | packets,
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        tasks=_tasks(names, first.processes.attributes(totals.boot_offset)),
        clock=_CLOCKS.get(totals.clock, "unknown"),
        realtime_offset_ns=realtime + totals.boot_offset if realtime is not None else None,
        lost_events=max(lost, totals.lost_bundles),
        losses=(*_losses(first, second), *calls),
        facts=first.recorder.facts,
        flags=FLAGS,
    )


PHONE_TABLES = ("frames", "blocked")
"""The tables that a Perfetto trace adds to a recording of the same phone. Its tasks are added too."""


def with_phone(recorded: Staging, path: Path, spool: Spool) -> Staging:
    """Return `recorded` with the frames, sleeps and tasks of a Perfetto trace of the same phone and the same time.

    The kernel's events of that trace are not used, since the recording has them. `spool` is the spool of the recording.

    Raises
    ------
    InputError
        If the two have different clocks.
    """
    inner, source = Spool(), load(path)
    added = read(source, inner)
    if added.clock != recorded.clock:
        raise InputError(
            f"{source.name}: its clock is {added.clock} and that of the recording is {recorded.clock}; "
            "ingest each by itself"
        )
    for name in PHONE_TABLES:
        if inner.rows(name):
            spool.append(name, inner.table(name).collect())
    used = (*PHONE_TABLES, "tasks")
    losses = tuple(
        replace(loss, tables=tuple(name for name in used if loss.tables is None or name in loss.tables))
        for loss in (*source.losses, *added.losses)
    )
    if losses:
        message = "; ".join(loss.message for loss in losses)
        warnings.warn(LossWarning(f"{source.name}: {message}"), stacklevel=3)
    parts = [part.tasks for part in (recorded, added) if part.tasks is not None]
    return replace(
        recorded,
        events=added.events | recorded.events,
        tasks=pl.concat(parts).unique(maintain_order=True) if parts else None,
        losses=(*recorded.losses, *losses),
        facts={**added.facts, **recorded.facts},
    )


class _FirstPass:
    """The first pass: names of threads, counts, and all rare packets except counters."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self.clocks = Clocks()
        self.processes = Processes()
        self.recorder = Recorder()
        self._readers = {
            "clock_snapshot": self.clocks.read,
            "packages_list": self.processes.read_packages,
            "ftrace_stats": self.recorder.read_ftrace_statistics,
            "trace_stats": self.recorder.read_trace_statistics,
            "system_info": self.recorder.read_system,
        }

    def take(self, packet: Packet) -> None:
        """Read a rare packet."""
        name = PACKETS[packet.number]
        if reader := self._readers.get(name):
            reader(packet.data)
        elif name in ("process_tree", "process_stats"):
            boot_ns = None if packet.timestamp is None else self.clocks.to_boot(packet.clock, packet.timestamp)
            read = self.processes.read_tree if name == "process_tree" else self.processes.read_statistics
            read(packet.data, boot_ns)

    def versions(self) -> pl.DataFrame:
        """Return the names of threads over time (`threads.versions`)."""
        task_events = self.decoder.tasks()
        common = {"common_order": pl.col("order"), "common_ts_ns": pl.col("ts_ns"), "common_pid": pl.col("tid")}
        columns = {
            "task_newtask": (NEW, {"pid": "thread", "comm": "comm", "clone_flags": "flags"}),
            "sched_process_fork": (FORK, {"child_pid": "thread", "child_comm": "comm"}),
            "task_rename": (RENAME, {"pid": "thread", "oldcomm": "old_comm", "newcomm": "comm"}),
            "sched_process_exec": (EXEC, {"pid": "thread", "filename": "comm"}),
        }
        of_event = {
            event: task_events.filter(step=step).select(**common, **{name: pl.col(of) for name, of in names.items()})
            for event, (step, names) in columns.items()
        }
        return threads.versions(
            {event: frame for event, frame in of_event.items() if frame.height},
            task_events.filter(step=SEEN).select("ts_ns", "order", "tid", "comm"),
            self.processes.names,
            self.processes.processes(self.decoder.totals.boot_offset),
        )


class _SecondPass:
    """The second pass: rows of the tables, which are appended to the spool."""

    def __init__(self, spool: Spool, first: _FirstPass, events: dict[str, int], names: pl.DataFrame) -> None:
        self.decoder = Decoder(block_io.actions(events))
        self.decoder.name_threads(names)
        self.untimed = 0
        self.untimed_frames = 0
        self.span: tuple[int, ...] = ()
        self._spool = spool
        self._machine = Machine.of(first.recorder.machine)
        self._inner = Spool()  # events that can be processed only after the last one
        self._clocks = first.clocks
        self._boot_offset = first.decoder.totals.boot_offset
        self._readers: dict[str, tuple[str, Samples | Readings]] = {
            "sys_stats": ("samples", Samples()),
            "process_stats": ("importance", Readings()),
        }

    def take(self, packet: Packet) -> None:
        """Read a packet of counters or of process statistics."""
        if PACKETS[packet.number] not in self._readers:
            return
        table, reader = self._readers[PACKETS[packet.number]]
        boot_ns = self._clocks.to_boot(packet.clock, packet.timestamp) if packet.timestamp is not None else None
        if boot_ns is None:
            self.untimed += 1
            return
        ts_ns = boot_ns - self._boot_offset
        self._widen(ts_ns, ts_ns)
        reader.read(packet.data, ts_ns)
        if len(reader.rows) >= _SAMPLES:
            self._spool.append(table, reader.take())

    def flush(self) -> None:
        """Pass all settled rows to the spool."""
        settled_ns = self.decoder.totals.settled_ns
        self._append_rows(settled_ns)
        for name in ("block_events", "fs_events", "commands", "importance"):
            self._spool.settle(name, settled_ns)
        for name in ("call_events", "switch_events"):
            self._inner.settle(name, settled_ns)

    def finish(self) -> tuple[Loss, ...]:
        """Pass the remaining rows to the spool, and return the losses of system calls."""
        self._append_rows(None)
        for table, reader in self._readers.values():
            if reader.rows:
                self._spool.append(table, reader.take())
        calls = Pairs(self._spool, self._machine)
        if self._inner.rows("call_events"):
            # A thread migrates between CPUs, and its events must be in order of time.
            for rows in self._inner.table("call_events").collect_batches(maintain_order=True):
                calls.take_frame(rows)
        if self._inner.rows("switch_events"):
            self._spool.append("blocked", blocked(self._inner.table("switch_events")))
        if self._inner.rows("frame_events"):
            self._finish_frames(self._inner.table("frame_events").collect())
        return calls.finish()

    def _finish_frames(self, events: pl.DataFrame) -> None:
        rows, self.untimed_frames = frames(events, self._clocks, self._boot_offset)
        if rows.height:
            times = pl.concat([rows["ts_ns"], rows["end_ns"].drop_nulls()]).to_numpy()
            self._widen(int(times.min()), int(times.max()))
        self._spool.append("frames", rows)

    def _widen(self, first_ns: int, last_ns: int) -> None:
        self.span = (min(first_ns, *self.span), max(last_ns, *self.span)) if self.span else (first_ns, last_ns)

    def _append_rows(self, until_ns: int | None) -> None:
        for name in self.decoder.tables:
            # A counter event yields many rows, which may fill their table before anything is settled. Frames have
            # another clock than events.
            until = None if name in ("samples", "frame_events") else until_ns
            if (rows := self.decoder.take(name, until)) is not None:
                (self._inner if name in _INNER else self._spool).append(name, rows)


def _tasks(names: pl.DataFrame, attributes: pl.DataFrame) -> pl.DataFrame:
    """Return table `tasks` of the threads' names, with the attributes of their processes.

    Attributes of a process do not apply to an earlier or later process with the same id.
    """
    table = threads.table(names)
    if attributes.is_empty():
        return table
    names = names.filter(~pl.col("is_between"))
    read = threads.in_lifetimes(attributes, names, "pid")
    last = [pl.col(name).drop_nulls().last() for name in ("cmdline", "uid", "package")]
    of_process = read.group_by("pid", "lifetime", maintain_order=True).agg(last)
    rows = table.drop("cmdline", "uid", "package").with_row_index("nth").with_columns(ts_ns=names["from_ns"])
    rows = threads.in_lifetimes(rows, names, "pid").join(of_process, on=["pid", "lifetime"], how="left").sort("nth")
    listed = tasks.listed(rows.with_columns(started_ns="valid_from_ns"), clock_offset_ns=0)
    return schema.conform(listed.with_columns(table["valid_to_ns"]), "tasks")


def _losses(first: _FirstPass, second: _SecondPass) -> Iterator[Loss]:
    """Yield the losses before and in the file."""
    totals = first.decoder.totals
    yield from first.recorder.losses()
    unreadable = totals.unreadable_packets + first.decoder.unreadable_packets
    counted = (
        ("overwritten", totals.lost_bundles, "times the kernel lost events of a CPU before they were read"),
        ("dropped", totals.dropped, "times the recorder lost packets of a sequence"),
        ("torn", totals.torn, "packets are truncated at the end of the file"),
        ("unreadable", unreadable, "packets are damaged; their contents are lost"),
        ("unreadable", totals.unreadable_events, "events are damaged"),
        ("unreadable", totals.page_errors, "pages of the kernel's buffer could not be read by the recorder"),
        ("missing", totals.stateless, "packets refer to data of an earlier packet that is lost"),
        ("unread", totals.foreign, "packets come from another machine", ()),
        (
            "clock",
            second.untimed,
            "packets of counters have times in a clock that cannot be converted",
            ("samples", "importance"),
        ),
        (
            "clock",
            second.untimed_frames,
            "frames have times in a clock that cannot be converted",
            ("frames",),
        ),
        (SEVERAL_CLOCKS, totals.mixed_clocks, "event bundles use another clock than the first: their times are wrong"),
    )
    for kind, count, what, *tables in counted:
        if count:
            yield Loss(kind, count, f"{count} {what}", *tables)
