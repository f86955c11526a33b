"""The capture: one recording of one device, opened from a capture directory or from any foreign file."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from androstep_analysis import (
    analysis,
    beside,
    cache,
    ingest,
    losses,
    manifest,
    population,
    recording,
    results,
    schema,
    scratch,
    unrecorded,
)
from androstep_analysis.derivation import OF_WITNESSES, TABLES, Image, Witnesses, derive
from androstep_analysis.errors import InputError, Loss, LossWarning
from androstep_analysis.ingest import clock, procmon, record
from androstep_analysis.ingest.clock import Jumps
from androstep_analysis.ingest.source import head
from androstep_analysis.ingest.staging import TABLES as STAGED
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.manifest import Manifest, Source
from androstep_analysis.markup import el, visible
from androstep_analysis.replay import program
from androstep_analysis.results import Results


def open(path: str | PathLike[str], *, csv_columns: str | None = None) -> Capture:
    """The capture in a directory, or a foreign trace or a result as a capture of its own.

    A directory's derived tables are used where they were made from the same sources by the same code, and made again
    otherwise. A file that is a part of a capture, or of what iotrace recorded, stands for all of it. `csv_columns`
    tells what stands in the columns of a CSV (`ingest.block_csv.Columns`). Raises `InputError` for what cannot be read;
    warns (`LossWarning`) of what was lost.
    """
    path = Path(path)
    if (directory := _capture_of(path)) is not None:
        path = directory
    if path.is_dir() and not recording.is_one(path) and ingest.files(path) == (path,):
        return _open_directory(path)
    described = replace(_described([path]), csv_columns=csv_columns)
    found = _results(described, _in_place)
    spool = ingest.Spool()
    staging = _staging(described, _in_place, found, spool)
    tables, about = _derived(staging, found, _witnesses(described, _in_place), spool)
    return Capture(path.name, replace(described, facts=_facts(staging, described) | beside.facts(found)), tables, about)


def create(
    sources: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    image_before: str | PathLike[str] | None = None,
    image_after: str | PathLike[str] | None = None,
    listing_before: str | PathLike[str] | None = None,
    listing_after: str | PathLike[str] | None = None,
    device: str | None = None,
    extents: Iterable[str] = manifest.EXTENTS,
    facts: Mapping[str, Any] = MappingProxyType({}),
    csv_columns: str | None = None,
) -> Capture:
    """Make capture directory `out` from trace files or a directory of iotrace, and what is known of the filesystem.

    Results of benchmarks and of replays are sources like traces, alone or beside one, and so are the programs of the
    replays beside their results. Traces, results, programs and listings (of extmap) are copied to ``raw/``; images stay
    where they are, named by path and sha256. `device`
    (``MAJ:MIN``) says whose image it is where the trace has requests of several devices. `extents` names the kinds of
    evidence (`manifest.EXTENTS`) to attribute by, `facts` what is known of the recording (`manifest.FACTS`) and in no
    file; `csv_columns` is that of `open`. `out` must not exist yet; it appears only when everything is in it.
    """
    out = Path(out)
    refuse_existing(out)
    images = {"image_before": image_before, "image_after": image_after}
    listings = {"listing_before": listing_before, "listing_after": listing_after}
    given = {role: Path(path) for role, path in (images | listings).items() if path is not None}
    for path in given.values():
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    described = _described([Path(source) for source in sources], given, device)
    described = replace(described, extents=tuple(name for name in manifest.EXTENTS if name in set(extents)))
    described = replace(
        described, csv_columns=csv_columns, facts={**described.facts, **facts, "clock": described.facts.get("clock")}
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with staged_directory(out) as directory:
        raw = directory / "raw"
        raw.mkdir()
        found = _results(described, _in_place)
        with cache.scratch(directory / "tables") as place:
            spool = ingest.Spool(place)
            staging = _staging(described, _in_place, found, spool)
            described = replace(
                described,
                sources=tuple(
                    source if source.role in images else _keep(source, raw, number)
                    for number, source in enumerate(described.sources)
                ),
                facts=_facts(staging, described) | beside.facts(found) | {**facts, "clock": staging.clock},
                realtime_offset_ns=staging.realtime_offset_ns,
                lost_events=None if described.lost_events is None else staging.lost_events,
            )
            manifest.write(described, directory)
            _store(staging, found, described, directory, spool, place)
    return _open_directory(out)


def refuse_existing(out: Path) -> None:
    """Raises `InputError` where `out`, which is to become a capture, is there already."""
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name, or remove it first")


def _described(
    paths: Sequence[Path], given: Mapping[str, Path] = MappingProxyType({}), device: str | None = None
) -> Manifest:
    """The manifest of recordings (files, or a directory of iotrace) and of images and listings by role, in place."""
    paths = [file for path in paths for file in ingest.files(path)]
    paths = [recording.whole(path) for path in paths] if len(paths) == 1 else paths
    recordings = [path for path in paths if path.is_dir()]
    if len(recordings) > 1 or (recordings and len(paths) > 1):
        raise InputError(f"{recordings[0]}: a directory of iotrace is a recording of its own; ingest it alone")
    described = recording.described(recordings[0]) if recordings else _recorded_with(paths)
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file")
        if not path.is_file() and not path.is_dir():  # which may have no end
            raise InputError(f"{path}: a file was expected, and this is a pipe or a device; copy it into a file")
    traces = [manifest.in_place(path, _role(path)) for path in paths if not path.is_dir()]
    kept = [source for source in described.sources if source.role not in given]
    added = [
        manifest.in_place(path, role, device if role.startswith("image") else None) for role, path in given.items()
    ]
    return replace(described, sources=(*traces, *kept, *added))


def _capture_of(path: Path) -> Path | None:
    """The capture directory that file `path` is a recording of, as the manifest there says."""
    directory = path.absolute().parent.parent
    if path.is_dir() or not (directory / manifest.FILE_NAME).is_file():
        return None
    sources = manifest.read(directory).sources
    is_source = any(source.role == "trace" and Path(directory, source.path).samefile(path)
                    for source in sources if Path(directory, source.path).exists())  # fmt: skip
    return directory if is_source else None


def _recorded_with(paths: Sequence[Path]) -> Manifest:
    """What the recorder knew, if one of these files is the trace of a capture or of iotrace, without its sources."""
    for path in paths:
        if (directory := _capture_of(path)) is not None:
            return replace(manifest.read(directory), sources=(), extents=manifest.EXTENTS)
        if recording.whole(path) != path:
            return recording.known(path.parent)
    return Manifest(sources=())


def _role(path: Path) -> str:
    """What a file is: results, a replay program, or else a trace."""
    if record.is_of(head(path), program.PROBE):
        return "program"
    if procmon.sniff(head(path)):
        return "samples"
    return next((role for role, kind in beside.KINDS.items() if kind.sniff(path)), "trace")


class Capture:
    """One recording of one device, with every table that follows from it.

    `tables` maps each name of `TABLES` to a LazyFrame, and each of `bench.TABLES` and `replay.TABLES` where there are
    such results. `about` is what was found on reading: format, first_ns, last_ns, lost_events, losses, events (a count
    for every event name in the files), clock, rows (of each table), coverage, population, jumps and snapshots (of each
    image and listing role, proven, agreements, contradictions and kinds: `link.consistency`); bench is None, or the
    tests and the number of runs and of invalid runs; replay is None, or runs, fs_types, operations, done, diverged and
    interrupted;
    steps is None, or workloads, steps and completed; gui is None, or snapshots and states.
    """

    def __init__(
        self,
        title: str,
        described: Manifest,
        tables: dict[str, pl.LazyFrame],
        about: dict[str, Any],
        window: tuple[int, int] | None = None,
    ) -> None:
        self.title = title
        self.manifest = described
        self.tables = tables
        self.about = about
        self._window = window

    @property
    def block_events(self) -> pl.LazyFrame:
        """Table block_events: the block-layer events as recorded."""
        return self.tables["block_events"]

    @property
    def fs_events(self) -> pl.LazyFrame:
        """Table fs_events: the filesystem's own events as recorded."""
        return self.tables["fs_events"]

    @property
    def syscalls(self) -> pl.LazyFrame:
        """Table syscalls: the system calls of processes as recorded."""
        return self.tables["syscalls"]

    @property
    def commands(self) -> pl.LazyFrame:
        """Table commands: what the drivers below the block layer sent and got, as recorded."""
        return self.tables["commands"]

    @property
    def samples(self) -> pl.LazyFrame:
        """Table samples: counters over time as recorded."""
        return self.tables["samples"]

    @property
    def frames(self) -> pl.LazyFrame:
        """Table frames: Android's frames, as planned and as they came."""
        return self.tables["frames"]

    @property
    def requests(self) -> pl.LazyFrame:
        """Table requests."""
        return self.tables["requests"]

    @property
    def io(self) -> pl.LazyFrame:
        """Table io: every piece of every request with block type, file and owner."""
        return self.tables["io"]

    @property
    def extents(self) -> pl.LazyFrame:
        """Table extents."""
        return self.tables["extents"]

    @property
    def files(self) -> pl.LazyFrame:
        """Table files."""
        return self.tables["files"]

    @property
    def tasks(self) -> pl.LazyFrame:
        """Table tasks."""
        return self.tables["tasks"]

    @property
    def bench(self) -> dict[str, pl.DataFrame]:
        """The tables of benchmark results (`bench.TABLES`), read, as the functions of `androstep_analysis.bench` take.

        `InputError` where the capture has none.
        """
        return self._of_kind("bench")

    @property
    def replay(self) -> dict[str, pl.DataFrame]:
        """The tables of replays (`replay.TABLES`), read, as the functions of `androstep_analysis.replay` take.

        `InputError` where the capture has none.
        """
        return self._of_kind("replay")

    @property
    def steps(self) -> pl.DataFrame:
        """Table steps, read: what a workload did on the device, and when. `InputError` where the capture has none."""
        return self._of_kind("steps")["steps"]

    @property
    def gui_states(self) -> pl.DataFrame:
        """Table gui_states, read: what the device showed. `InputError` where the capture has none."""
        return self._of_kind("gui")["gui_states"]

    def _of_kind(self, role: str) -> dict[str, pl.DataFrame]:
        kind = beside.KINDS[role]
        if not self.about[role]:
            raise InputError(f"{self.title}: a capture without {kind.noun}; make one with `{kind.command}`")
        return {name: self.tables[name].collect() for name in kind.tables}

    @property
    def format(self) -> str:
        """Name of the format the recording came in."""
        return str(self.about["format"])

    @property
    def events(self) -> dict[str, int]:
        """Number of events by the format's own names."""
        return dict(self.about["events"])

    @property
    def first_ns(self) -> int | None:
        """Time of the first event, in the capture's clock."""
        return None if self._window is None and self.about["first_ns"] is None else self._span[0]

    @property
    def last_ns(self) -> int | None:
        """Time of the last event, in the capture's clock."""
        return None if self._window is None and self.about["last_ns"] is None else self._span[1]

    @property
    def jumps(self) -> Jumps:
        """Where the segments of its time meet: the last time of one and the first of the next."""
        if self.first_ns is None or self.last_ns is None:
            return ()
        every = ((before, after) for before, after in self.about["jumps"])
        return tuple((before, after) for before, after in every if self.first_ns <= before and after <= self.last_ns)

    @property
    def _span(self) -> tuple[int, int]:
        return self._window or (self.about["first_ns"], self.about["last_ns"])

    @property
    def lost_events(self) -> int:
        """Events that the recorder says it lost."""
        return int(self.about["lost_events"])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Everything that is missing or could not be read."""
        return tuple(losses.from_json(loss) for loss in self.about["losses"])

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The capture's row of table captures."""
        names = Counter(Path(source.path).name for source in self.manifest.sources)
        digests = {
            name if names[name] == 1 else f"{source.role}/{name}": source.sha256
            for source in self.manifest.sources
            for name in [Path(source.path).name]
        }
        known = {name: self.manifest.facts.get(name) for name in manifest.FACTS}
        row = {
            **known,
            "capture_id": self.manifest.capture_id,
            "clock": known["clock"] or self.about["clock"],
            "fs_type": known["fs_type"] or self.about["fs_type"],
            "t_start_ns": self.first_ns,
            "t_end_ns": self.last_ns,
            "lost_events": self.lost_events,
            "source_sha256": cache.canonical_json(digests),
        }
        return {column.name: row[column.name] for column in schema.table("captures").columns}

    @cached_property
    def coverage(self) -> pl.DataFrame:
        """Shares of the bytes of each operation that are matched, mapped, inferred and owned (`analysis.coverage`)."""
        if self._window is None:
            return pl.DataFrame(self.about["coverage"], schema=_COVERAGE)
        return analysis.coverage(self.requests, self.io)

    @property
    def compared(self) -> list[str]:
        """How far each image and listing agrees with the trace (`link.consistency`), a line each."""
        return [
            f"{_PROVEN[one['proven']].format(one['role'].replace('_', ' '))} "
            f"({one['agreements']:,} agreements, {one['contradictions']:,} contradictions)"
            for one in self.about.get("snapshots", ())
        ]

    @cached_property
    def lacking(self) -> list[unrecorded.Kind]:
        """The kinds of events of which the recording has none, with what is unknown for it (`unrecorded`)."""

        def is_told(table: str, column: str) -> bool:
            rows = self.tables.get(table)
            return rows is not None and bool(rows.select(pl.col(column).is_not_null().any()).collect().item())

        return unrecorded.unrecorded(self.events, self.manifest.events or (), is_told)

    @cached_property
    def population(self) -> dict[str, int]:
        """Of which requests all numbers are, and how many of them completed (`analysis.population`)."""
        return dict(self.about["population"]) if self._window is None else analysis.population(self.requests)

    def window(self, start_ns: int, end_ns: int) -> Capture:
        """The requests (and their pieces and the events) that were issued in ``[start_ns, end_ns)`` of the clock."""
        time = analysis.order_ns()
        tables = dict(self.tables)
        for name in ("requests", "io"):
            tables[name] = tables[name].filter((time >= start_ns) & (time < end_ns))
        for name in STAGED:
            tables[name] = tables[name].filter(pl.col("ts_ns").is_between(start_ns, end_ns, "left"))
        tables["samples"] = analysis.clipped(self.samples, start_ns, end_ns)
        return Capture(self.title, self.manifest, tables, self.about, (start_ns, end_ns))

    def with_filesystem(
        self,
        *,
        before: str | PathLike[str] | None = None,
        after: str | PathLike[str] | None = None,
        device: str | None = None,
        extents: Iterable[str] = manifest.EXTENTS,
    ) -> Capture:
        """The capture with other images of its filesystem: which file each request belonged to is told anew.

        `extents` leaves only these kinds of evidence (`manifest.EXTENTS`): what is each of them worth? Listings of a
        capture directory are not used.
        """
        staging = Staging(
            format=self.format,
            tables={name: self.tables[name] for name in STAGED if self.about["rows"][name]},
            events=self.events,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            tasks=self.tasks.collect(),
            clock=self.about["clock"],
            realtime_offset_ns=self.about["realtime_offset_ns"],
            lost_events=self.lost_events,
            losses=tuple(loss for loss in self.losses if loss.tables != OF_WITNESSES),
            jumps=self.jumps,
            recorded=None if self.manifest.events is None else frozenset(self.manifest.events),
            facts=self.manifest.facts,
        )
        witnesses = Witnesses(
            image_before=None if before is None else Image(Path(before), device),
            image_after=None if after is None else Image(Path(after), device),
            devices=self.manifest.devices,
            mounts=self.manifest.mounts,
            extents=frozenset(extents),
        )
        derived, about = derive(staging, witnesses, ingest.Spool())
        tables = self.tables | derived
        about = about | {role: self.about[role] for role in beside.KINDS}
        about["rows"] = self.about["rows"] | about["rows"]
        return Capture(self.title, self.manifest, tables, about)

    def __repr__(self) -> str:
        return visible(f"<Capture {'; '.join(f'{name} {value}' for name, value in self._described())}>")

    def _repr_html_(self) -> str:
        rows = (el("tr", el("th", name, style="text-align:left"), el("td", value)) for name, value in self._described())
        return str(el("table", *rows))

    def _described(self) -> Iterator[tuple[str, str]]:
        """What a reader wants to know first, from what is known without touching the data."""
        yield "of", self.facts["device"] or self.title
        yield "format", self.format
        if self.first_ns is not None and self.last_ns is not None:
            parts = f" in {len(self.jumps) + 1} parts" if self.jumps else ""
            yield "window", f"{(clock.continued(self.last_ns, self.jumps) - self.first_ns) / 1e9:.3f} s{parts}"
        if self.about["bench"]:
            yield "tests", ", ".join(self.about["bench"]["tests"])
            yield "runs", f"{self.about['bench']['runs']:,}"
            yield "invalid", f"{self.about['bench']['invalid']:,}"
        if told := self.about["replay"]:
            yield "replays", f"{told['runs']:,} on {', '.join(told['fs_types'])}"
            yield "operations", f"{told['done']:,} of {told['operations']:,} done, {told['diverged']:,} diverged"
        if told := self.about["steps"]:
            yield "workloads", ", ".join(told["workloads"])
            yield "steps", f"{told['steps']:,}, {told['completed']:,} completed"
        if told := self.about["gui"]:
            yield "snapshots", f"{told['snapshots']:,} of {told['states']:,} states"
        if not self.manifest.of_role("trace") and any(self.about[role] for role in beside.KINDS):
            return
        rows = self.about["rows"] if self._window is None else {}
        has_requests = rows.get("requests", 0) > 0
        named = {"requests": "requests", "pieces": "io", "system calls": "syscalls", "commands": "commands"}
        for name, table in (named | {"samples": "samples"}).items():
            if rows.get(table):
                yield name, f"{rows[table]:,}"
        if not any(rows.get(table) for table in (*named.values(), "samples")) and rows:
            yield "events", f"{sum(self.events.values()):,}, none of them block I/O"
        yield "lost", losses.in_words(self.losses) or "0 events"
        for one in self.about.get("snapshots", ()):
            if one["proven"] != "content":
                yield one["role"].replace("_", " "), "not proven to belong to the trace"
        if has_requests:
            counts = self.population
            if not population.is_whole(counts):
                yield "counted", population.brief(counts)
            for op, known in self.coverage.filter(pl.col("op") != "flush").group_by("op", maintain_order=True):
                shares = zip(known["metric"].cast(pl.String), known["value"], strict=True)
                yield str(op[0]), ", ".join(f"{metric} {value:.1%}" for metric, value in shares)


_PROVEN = {
    "content": "the {} belongs to the trace",
    "layout": "the {} is not proven to belong to the trace: all but its metadata at fixed places is inferred",
    "nothing": "the {} is not proven to belong to the trace: all that it says is inferred",
}

_COVERAGE: dict[str, Any] = {
    "op": schema.enum("requests", "op"),
    "metric": pl.Enum(["matched", "mapped", "inferred", "owned"]),
    **{"value": pl.Float64, "unit": pl.String, "n": pl.Int64},
}


def _open_directory(directory: Path) -> Capture:
    described = manifest.read(directory)
    known = cache.load(_names(described), directory / "tables", derivation_key(described))
    if known is None:
        find = functools.partial(manifest.verify, directory=directory)
        found = _results(described, find)
        with cache.scratch(directory / "tables") as place:
            spool = ingest.Spool(place)
            known = _store(_staging(described, find, found, spool), found, described, directory, spool, place)
    return Capture(directory.name, described, *known)


Find = Callable[[Source], Path]
"""Says where a source is, or raises `InputError` where it is no longer what the manifest says."""


def _in_place(source: Source) -> Path:
    """Where a source is of which the digest was taken just now."""
    return Path(source.path)


def _names(described: Manifest) -> tuple[str, ...]:
    """The tables of a capture with this manifest."""
    return (*TABLES, *(name for role, kind in beside.KINDS.items() if described.of_role(role) for name in kind.tables))


def _staging(described: Manifest, find: Find, found: Mapping[str, Results], spool: ingest.Spool) -> Staging:
    """The recording as its traces and the manifest tell it, or as results do where there is no trace."""
    traces = [find(source) for source in described.of_role("trace")]
    programs = described.of_role("program")
    if programs and not found and not traces:
        raise InputError(f"{programs[0].path}: a replay program; replay it with `androstep replay`")
    samples = [find(source) for source in described.of_role("samples")]
    if traces:
        staging = ingest.read(*traces, spool=spool, csv_columns=described.csv_columns, samples=samples)
    elif found:
        staging = ingest.with_samples(beside.alone(found), samples, spool)
    else:
        staging = ingest.read(*samples, spool=spool)
    told = described.realtime_offset_ns
    uncounted = _uncounted(described, staging)
    return replace(
        staging,
        realtime_offset_ns=staging.realtime_offset_ns if told is None else told,
        clock=described.facts.get("clock") or staging.clock,
        facts=_facts(staging, described),
        lost_events=max(described.lost_events or 0, staging.lost_events),
        losses=(*staging.losses, *uncounted),
        recorded=None if described.events is None else frozenset(described.events),
    )


def _uncounted(described: Manifest, staging: Staging) -> tuple[Loss, ...]:
    """What the recorder lost by its own word and its files do not show."""
    if described.lost_events is None:
        message = "iotrace was killed; nobody knows how many events were lost"
        warnings.warn(message, LossWarning, stacklevel=4)
        return (Loss("uncounted", 1, message),)
    more = described.lost_events - staging.lost_events
    message = f"{more} more events were lost than the trace itself shows, by the recorder's count"
    return (Loss("missing", more, message),) if more > 0 else ()


def _facts(staging: Staging, described: Manifest) -> dict[str, Any]:
    """What is known of the machine: what its recording says, unless the manifest knows better."""
    return {**staging.facts, **{name: value for name, value in described.facts.items() if value is not None}}


def _results(described: Manifest, find: Find) -> dict[str, Results]:
    """The results of a capture by their role; warns of what was lost of them."""
    return {
        role: results.read(kind, [find(source) for source in sources])
        for role, kind in beside.KINDS.items()
        if (sources := described.of_role(role))
    }


def _derived(
    staging: Staging, found: Mapping[str, Results], witnesses: Witnesses, spool: ingest.Spool
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """All tables, and what is told of them."""
    return beside.add(found, *derive(staging, witnesses, spool))


def _witnesses(described: Manifest, find: Find) -> Witnesses:
    """What the manifest names beside the traces."""

    def image(role: str) -> Image | None:
        return next((Image(find(source), source.dev) for source in described.of_role(role)), None)

    def listing(role: str) -> Path | None:
        return next((find(source) for source in described.of_role(role)), None)

    return Witnesses(
        image("image_before"),
        image("image_after"),
        listing("listing_before"),
        listing("listing_after"),
        described.devices,
        described.mounts,
        frozenset(described.extents),
    )


def derivation_key(described: Manifest) -> str:
    """Key of the tables: everything in the manifest that they depend on."""
    return cache.key(
        {
            "sources": [[source.role, source.sha256, source.dev] for source in described.sources],
            "realtime_offset_ns": described.realtime_offset_ns,
            "devices": list(described.devices),
            "mounts": list(described.mounts),
            **{name: described.facts.get(name) for name in ("clock", "fs_type", "page_bytes")},
            "lost_events": described.lost_events,
            "extents": list(described.extents),
            "csv_columns": described.csv_columns,
            "events": None if described.events is None else list(described.events),
        }
    )


def _store(
    staging: Staging,
    found: Mapping[str, Results],
    described: Manifest,
    directory: Path,
    spool: ingest.Spool,
    place: Path | None,
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """The tables of the capture, kept in it where it can be written; `place` is where `spool` leaves its own."""
    witnesses = _witnesses(described, functools.partial(manifest.verify, directory=directory))
    tables, about = _derived(staging, found, witnesses, spool)
    if place is None:
        return tables, about
    return cache.store(tables, about, place, directory / "tables", derivation_key(described)), about


def _keep(source: Source, raw: Path, number: int) -> Source:
    """Copy a source into `raw/` under its own name, made unique by a number where two have the same."""
    path = Path(source.path)
    name = path.name
    while (raw / name).exists():
        name = f"{number}-{name}"
    digest = manifest.sha256(path, copy_to=raw / name)
    return replace(source, path=f"raw/{name}", bytes=(raw / name).stat().st_size, sha256=digest)


@contextlib.contextmanager
def staged_directory(out: Path) -> Iterator[Path]:
    """A directory beside `out` that becomes `out` at the end, and nothing at all if anything goes wrong."""
    with scratch.directory(out.name, out.parent) as staged:
        yield staged
        staged.chmod(0o755)
        staged.rename(out)
