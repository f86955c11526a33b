"""Read slices, counters and tracks of a Perfetto trace with Google's protobuf and the rules of trace_processor.

The code is independent of the writer. Field numbers: google/perfetto, protos/perfetto/trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "u": _F.TYPE_UINT64,
    "i": _F.TYPE_INT64,
    "b": _F.TYPE_BOOL,
    "s": _F.TYPE_STRING,
    "x": _F.TYPE_FIXED64,
}
_MESSAGES = {
    "Trace": "1:packet:*TracePacket",
    "TracePacket": "8:timestamp:u 10:sequence:u 13:flags:u 6:clocks:ClockSnapshot 11:event:TrackEvent"
    " 12:interned:InternedData 59:defaults:Defaults 60:track:TrackDescriptor",
    "ClockSnapshot": "1:clocks:*Clock 2:primary:u",
    "Clock": "1:id:u 2:timestamp:u",
    "Defaults": "58:clock:u",
    "InternedData": "1:categories:*Interned 2:names:*Interned 3:arguments:*Interned 29:texts:*Interned",
    "Interned": "1:iid:u 2:text:s",
    "TrackDescriptor": "1:uuid:u 2:name:s 3:process:Process 5:parent:u 8:counter:Counter",
    "Process": "1:pid:i 6:name:s",
    "Counter": "3:unit:u",
    "TrackEvent": "3:categories:*u 4:arguments:*Argument 9:type:u 10:name:u 11:track:u 30:value:i 47:flows:*x"
    " 48:last_flows:*x",
    "Argument": "1:name:u 2:bool:b 4:int:i 17:text:u",
}


def _trace_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="slices.proto", package="t", syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, name, kind in (text.split(":") for text in fields.split()):
            added = described.field.add(name=name, number=int(number))
            added.label = _F.LABEL_REPEATED if kind.startswith("*") else _F.LABEL_OPTIONAL
            if (kind := kind.removeprefix("*")) in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = _F.TYPE_MESSAGE, f".t.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Trace"))


@dataclass
class Slice:
    """A slice; `end` is None for an instant."""

    category: str
    name: str
    begin: int
    end: int | None
    track: tuple[str, ...]
    arguments: dict[str, Any]
    flows: list[int] = field(default_factory=list)
    last_flows: list[int] = field(default_factory=list)
    root: int = 0
    """The id of the topmost track."""


@dataclass
class Trace:
    """The contents of a trace. Tracks are named with their parents, a process by pid and name."""

    slices: list[Slice]
    counters: dict[tuple[str, ...], list[tuple[int, int]]]
    clocks: list[dict[int, int]]
    primary: list[int]
    clock: int
    sequences: set[int]


def read(path: Path) -> Trace:
    """Return the trace in a file; fail if slices of a track do not nest, or an id is used before it is defined."""
    raw = _trace_class()()
    raw.ParseFromString(path.read_bytes())
    texts: dict[str, dict[int, str]] = {"categories": {}, "names": {}, "arguments": {}, "texts": {}}
    tracks: dict[int, Any] = {}
    open_slices: dict[int, list[Slice]] = {}
    found = Trace([], {}, [], [], 0, set())
    events = []
    for number, packet in enumerate(raw.packet):
        assert (packet.flags == 1) == (number == 0)
        found.sequences.add(packet.sequence)
        for kind, known in texts.items():
            for entry in getattr(packet.interned, kind):
                assert entry.iid not in known
                known[entry.iid] = entry.text
        found.clock = packet.defaults.clock or found.clock
        if packet.HasField("clocks"):
            found.clocks.append({clock.id: clock.timestamp for clock in packet.clocks.clocks})
            found.primary.append(packet.clocks.primary)
        if packet.HasField("track"):
            assert packet.track.uuid not in tracks
            assert not packet.track.parent or packet.track.parent in tracks
            tracks[packet.track.uuid] = packet.track
        if packet.HasField("event"):
            assert packet.flags == 2 and packet.timestamp < 1 << 63
            events.append((packet.timestamp, number, packet.event))

    def way(uuid: int) -> tuple[str, ...]:
        track = tracks[uuid]
        name = f"{track.process.pid} {track.process.name}" if track.HasField("process") else track.name
        return (*(way(track.parent) if track.parent else ()), name)

    def root(uuid: int) -> int:
        return root(tracks[uuid].parent) if tracks[uuid].parent else uuid

    def value(argument: Any) -> Any:
        kind = next(kind for kind in ("bool", "int", "text") if argument.HasField(kind))
        return texts["texts"][argument.text] if kind == "text" else getattr(argument, kind)

    for time, _, event in sorted(events, key=lambda one: one[:2]):
        stack = open_slices.setdefault(event.track, [])
        if event.type == 4:
            assert tracks[event.track].HasField("counter")
            found.counters.setdefault(way(event.track), []).append((time, event.value))
        elif event.type == 2:
            stack.pop().end = time
        else:
            assert not stack or event.type == 3, "slices of a lane do not overlap"
            names = [texts["arguments"][argument.name] for argument in event.arguments]
            assert len(names) == len(set(names))
            slice_ = Slice(
                texts["categories"][event.categories[0]],
                texts["names"][event.name],
                time,
                None,
                way(event.track),
                dict(zip(names, map(value, event.arguments), strict=True)),
                list(event.flows),
                list(event.last_flows),
                root(event.track),
            )
            found.slices.append(slice_)
            if event.type == 1:
                stack.append(slice_)
    assert not any(open_slices.values())
    return found
