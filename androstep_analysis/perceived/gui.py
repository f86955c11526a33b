"""The state of a GUI in a dump of ``uiautomator dump``, as a set of objects, properties and values.

A dump is XML with an element ``node`` for each object. It contains what an app displays and is therefore not trusted: a
document type is refused, and with it every entity. Depth, length and number of objects are limited.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from xml.parsers import expat

import polars as pl

from androstep_analysis.common import schema

Triple: TypeAlias = tuple[str, str, str]
"""An object, a property and a value."""

MAX_BYTES = 16 << 20
"""The longest dump that is read."""

MAX_OBJECTS = 100_000
MAX_DEPTH = 500

_IDENTITY = ("index", "class", "resource-id")
"""The attributes that identify an object. The others are its properties."""


@dataclass(frozen=True)
class Rules:
    """The parts of a dump that belong to the state (definitions.toml, gui_state).

    Objects of `packages` and of `classes` are left out with everything below them. The `properties` are left out too.
    An object of a class with a name that ends with one of `busy` shows work in the background.
    """

    packages: frozenset[str] = frozenset({"com.android.systemui"})
    classes: frozenset[str] = frozenset(
        f"android.widget.{name}" for name in ("TextClock", "DigitalClock", "AnalogClock", "Chronometer")
    )
    properties: frozenset[str] = frozenset()
    busy: tuple[str, ...] = ("ProgressBar",)


DEFAULT = Rules()


@dataclass(frozen=True)
class State:
    """The state in one dump."""

    triples: frozenset[Triple]
    is_busy: bool
    package: str | None

    @property
    def objects(self) -> frozenset[str]:
        """The objects of the state."""
        return frozenset(name for name, _, _ in self.triples)

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of its sorted triples. XML has no NUL, which separates them."""
        lines = "\0\0".join("\0".join(triple) for triple in sorted(self.triples))
        return hashlib.sha256(lines.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Snapshot:
    """A dump, with the begin (`ts_ns`) and the end (`end_ns`) of taking it, in ns of the device's clock."""

    ts_ns: int
    end_ns: int
    xml: bytes


def parse(xml: bytes, rules: Rules = DEFAULT) -> State:
    """Return the state in a dump. Raises `ValueError` if it is not a dump."""
    reader = _Reader(rules)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    if len(xml) > MAX_BYTES:
        raise ValueError(f"{len(xml):,} bytes, where a dump has at most {MAX_BYTES:,}")
    try:
        parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise ValueError(f"incomplete XML ({error})") from None
    if not reader.is_dump:
        raise ValueError("no element `hierarchy`: not a dump of uiautomator")
    packages = reader.packages.most_common(1)
    return State(frozenset(reader.triples), reader.is_busy, packages[0][0] if packages else None)


class _Reader:
    """Callbacks of expat that collect the triples of a dump."""

    def __init__(self, rules: Rules) -> None:
        self.triples: set[Triple] = set()
        self.packages: Counter[str] = Counter()
        self.is_busy = False
        self.is_dump = False
        self._rules = rules
        self._path: list[str] = []
        self._children = [0]
        self._left_out: int | None = None  # depth from which on objects are left out
        self._objects = 0

    def doctype(self, *_: object) -> None:
        raise ValueError("a document type, which dumps do not have")

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._objects += 1
        if self._objects > MAX_OBJECTS or len(self._path) >= MAX_DEPTH:
            raise ValueError(f"more than {MAX_OBJECTS:,} objects, or more than {MAX_DEPTH} within each other")
        if not self._path:
            self.is_dump = tag == "hierarchy"
        name = attributes.get("class", tag)
        self._path.append(f"{self._children[-1]}:{name}:{attributes.get('resource-id', '')}")
        self._children[-1] += 1
        self._children.append(0)
        if self._left_out is not None:
            return
        package = attributes.get("package", "")
        if package in self._rules.packages or name in self._rules.classes:
            self._left_out = len(self._path)
            return
        self.is_busy |= name.endswith(self._rules.busy)
        if package:
            self.packages[package] += 1
        object_path = "/".join(self._path)
        self.triples.add((object_path, "class", name))
        for key, value in attributes.items():
            if key not in _IDENTITY and key not in self._rules.properties:
                self.triples.add((object_path, key, value))

    def end(self, _: str) -> None:
        if self._left_out == len(self._path):
            self._left_out = None
        self._path.pop()
        self._children.pop()


def states(snapshots: Iterable[Snapshot], rules: Rules = DEFAULT) -> tuple[pl.DataFrame, int]:
    """Return table `gui_states` of snapshots, sorted by time, and the number of unreadable snapshots."""
    rows = []
    unreadable = 0
    before: State | None = None
    for snapshot in sorted(snapshots, key=lambda one: (one.ts_ns, one.end_ns)):
        try:
            state = parse(snapshot.xml, rules)
        except ValueError:
            unreadable += 1
            continue
        differing = None if before is None else state.triples ^ before.triples
        rows.append(
            {
                "ts_ns": snapshot.ts_ns,
                "end_ns": snapshot.end_ns,
                "state": state.digest,
                "busy": state.is_busy,
                "objects": len(state.objects),
                "properties": len(state.triples),
                "changed_objects": None if differing is None else len({name for name, _, _ in differing}),
                "changed_properties": None if differing is None else len(differing),
                "package": state.package,
            }
        )
        before = state
    return pl.DataFrame(rows, schema=schema.table("gui_states").polars), unreadable
