"""The capture: one recording of one device, opened from a capture directory or from any foreign file."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl
from tqdm.auto import tqdm

from androstep_analysis import analysis, cache, fs, ingest, link, manifest, schema, units
from androstep_analysis.errors import InputError, Loss
from androstep_analysis.ingest.staging import Staging, merge
from androstep_analysis.link.requests import Device
from androstep_analysis.link.requests import link as link_requests
from androstep_analysis.manifest import Manifest, Source
from androstep_analysis.markup import el, visible

TABLES = ("block_events", "fs_events", "tasks", "requests", "extents", "files", "io")


def open(path: str | PathLike[str]) -> Capture:
    """The capture in a directory, or a foreign trace file as a capture of its own.

    A directory's derived tables are used where they were made from the same sources by the same code, and made again
    otherwise. Raises `InputError` for what cannot be read; warns (`LossWarning`) of what was lost.
    """
    path = Path(path)
    if path.is_dir():
        return _open_directory(path)
    if not path.is_file():
        what = "not a regular file" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}; give a capture directory or a trace file")
    source = Source(str(path.absolute()), "trace", path.stat().st_size, manifest.sha256(path))
    described = Manifest(sources=(source,))
    tables, about = _derive(ingest.read(path), described, _Images())
    return Capture(path.name, described, {name: table.lazy() for name, table in tables.items()}, about)


def create(
    sources: Sequence[str | PathLike[str]],
    out: str | PathLike[str],
    *,
    image_before: str | PathLike[str] | None = None,
    image_after: str | PathLike[str] | None = None,
    device: str | None = None,
) -> Capture:
    """Make capture directory `out` from trace files, and the filesystem images before and after the recording.

    The traces are copied to ``raw/``; images stay where they are, named by path and sha256. `device` (``MAJ:MIN``)
    says whose image it is where the trace has requests of several devices. `out` must not exist yet; it appears only
    when everything is in it.
    """
    out = Path(out)
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name for the capture, or remove it first")
    for path in (*sources, *(image for image in (image_before, image_after) if image is not None)):
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
    out.parent.mkdir(parents=True, exist_ok=True)
    with _staged_directory(out) as directory:
        raw = directory / "raw"
        raw.mkdir()
        kept = [_keep(Path(path), raw, number) for number, path in enumerate(sources)]
        images = [
            Source(str(Path(image).absolute()), role, Path(image).stat().st_size, manifest.sha256(Path(image)), device)
            for role, image in (("image_before", image_before), ("image_after", image_after))
            if image is not None
        ]
        staging = merge([ingest.read(path) for path in sources])
        described = Manifest(
            sources=(*kept, *images),
            facts={"clock": staging.clock},
            realtime_offset_ns=staging.realtime_offset_ns,
            lost_events=staging.lost_events,
        )
        manifest.write(described, directory)
        _derive_and_store(staging, described, directory)
    return _open_directory(out)


class Capture:
    """One recording of one device, with every table that follows from it.

    `tables` maps each name of `TABLES` to a LazyFrame. `about` is what was found on reading: format, first_ns,
    last_ns, lost_events, losses, events (a count for every event name in the files), clock, rows (of each table) and
    coverage.
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
    def _span(self) -> tuple[int, int]:
        return self._window or (self.about["first_ns"], self.about["last_ns"])

    @property
    def lost_events(self) -> int:
        """Events that the recorder says it lost."""
        return int(self.about["lost_events"])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Everything that is missing or could not be read."""
        return tuple(Loss(**loss) for loss in self.about["losses"])

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
        """Shares of bytes that are matched, mapped, inferred and owned (`analysis.coverage`)."""
        if self._window is None:
            return pl.DataFrame(self.about["coverage"], schema=_COVERAGE)
        return analysis.coverage(self.requests, self.io)

    def window(self, start_ns: int, end_ns: int) -> Capture:
        """The requests (and their pieces and the events) that were issued in ``[start_ns, end_ns)`` of the clock."""
        time = analysis.order_ns()
        tables = dict(self.tables)
        for name in ("requests", "io"):
            tables[name] = tables[name].filter((time >= start_ns) & (time < end_ns))
        for name in ("block_events", "fs_events"):
            tables[name] = tables[name].filter(pl.col("ts_ns").is_between(start_ns, end_ns, "left"))
        return Capture(self.title, self.manifest, tables, self.about, (start_ns, end_ns))

    def with_filesystem(
        self,
        *,
        before: str | PathLike[str] | None = None,
        after: str | PathLike[str] | None = None,
        device: str | None = None,
    ) -> Capture:
        """The capture with other images of its filesystem: which file each request belonged to is told anew."""
        staging = Staging(
            format=self.format,
            block=self.block_events.collect(),
            fs_events=self.fs_events.collect(),
            events=self.events,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            tasks=self.tasks.collect(),
            clock=self.about["clock"],
            realtime_offset_ns=self.about["realtime_offset_ns"],
            lost_events=self.lost_events,
            losses=self.losses,
        )
        images = _Images(
            before=None if before is None else _Image(Path(before), device),
            after=None if after is None else _Image(Path(after), device),
        )
        tables, about = _derive(staging, self.manifest, images)
        return Capture(self.title, self.manifest, {name: table.lazy() for name, table in tables.items()}, about)

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
            yield "window", f"{(self.last_ns - self.first_ns) / 1e9:.3f} s"
        if self._window is None:
            yield "requests", f"{self.about['rows']['requests']:,}"
            yield "pieces", f"{self.about['rows']['io']:,}"
        yield "lost", f"{self.lost_events:,} events"
        if self._window is None:
            for metric, value in self.coverage.select("metric", "value").iter_rows():
                yield metric, "–" if value is None else f"{value:.1%}"


_COVERAGE = {"metric": pl.String, "value": pl.Float64, "unit": pl.String, "n": pl.Int64}


@dataclass(frozen=True)
class _Image:
    """An image file, and the device it is of, where that is known."""

    path: Path
    device: str | None


@dataclass(frozen=True)
class _Images:
    before: _Image | None = None
    after: _Image | None = None


def _open_directory(directory: Path) -> Capture:
    described = manifest.read(directory)
    known = cache.load(TABLES, directory / "tables", _key(described))
    if known is None:
        paths = [manifest.verify(source, directory) for source in described.of_role("trace")]
        staging = merge([ingest.read(path) for path in paths])
        told = described.realtime_offset_ns
        staging = replace(
            staging,
            realtime_offset_ns=staging.realtime_offset_ns if told is None else told,
            clock=described.facts.get("clock") or staging.clock,
            lost_events=max(described.lost_events, staging.lost_events),
        )
        known = _derive_and_store(staging, described, directory)
    return Capture(directory.name, described, *known)


def _key(described: Manifest) -> str:
    """Key of the tables: everything in the manifest that they depend on."""
    return cache.key(
        {
            "sources": [[source.role, source.sha256, source.dev] for source in described.sources],
            "realtime_offset_ns": described.realtime_offset_ns,
            "devices": list(described.devices),
            "clock": described.facts.get("clock"),
            "lost_events": described.lost_events,
        }
    )


def _derive_and_store(
    staging: Staging, described: Manifest, directory: Path
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    images = [
        next((_Image(manifest.verify(source, directory), source.dev) for source in described.of_role(role)), None)
        for role in ("image_before", "image_after")
    ]
    tables, about = _derive(staging, described, _Images(*images))
    try:
        cache.store(tables, about, directory / "tables", _key(described))
    except OSError:  # a capture on a medium that cannot be written is as good; its tables are only not kept
        return {name: table.lazy() for name, table in tables.items()}, about
    return {name: pl.scan_parquet(directory / "tables" / f"{name}.parquet") for name in TABLES}, about


def _derive(staging: Staging, described: Manifest, images: _Images) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """All tables, and what `Capture.about` tells of them."""
    with tqdm(total=3, desc="deriving tables", disable=None, delay=2, leave=False) as bar:
        linked = link_requests(staging.block, [_device(row) for row in described.devices])
        bar.update()
        with contextlib.ExitStack() as stack:
            given = link.Images(
                before=_read_image(stack, images.before, "image_before", linked.requests),
                after=_read_image(stack, images.after, "image_after", linked.requests),
            )
            bar.update()
            tables = link.tables(staging, linked, given)
        bar.update()
    filesystem = given.after or given.before
    losses = [*staging.losses, *(loss for image in (given.before, given.after) if image for loss in image.losses)]
    about = {
        "format": staging.format,
        "events": staging.events,
        "first_ns": staging.first_ns,
        "last_ns": staging.last_ns,
        "clock": staging.clock,
        "realtime_offset_ns": staging.realtime_offset_ns,
        "fs_type": filesystem.fs_type if filesystem is not None else None,
        "lost_events": staging.lost_events,
        "losses": [{"kind": loss.kind, "count": loss.count, "message": loss.message} for loss in losses],
        "rows": {name: table.height for name, table in tables.items()},
        "coverage": analysis.coverage(tables["requests"], tables["io"]).to_dicts(),
    }
    return tables, about


def _read_image(
    stack: contextlib.ExitStack, image: _Image | None, role: str, requests: pl.DataFrame
) -> fs.Filesystem | None:
    if image is None:
        return None
    dev = _device_of_image(image, requests)
    return link.classified(fs.read(stack.enter_context(fs.opened(image.path)), dev=dev, source=role))


def _device_of_image(image: _Image, requests: pl.DataFrame) -> int:
    """The device the image is of: the one named, else the only one the trace has requests of."""
    seen = requests.group_by("part_dev").len("count").sort("count", descending=True)
    listed = ", ".join(f"{units.format_dev(dev)} ({count} requests)" for dev, count in seen.iter_rows()) or "no request"
    if image.device is not None:
        dev = units.parse_dev(image.device)
        if dev not in seen["part_dev"]:
            raise InputError(f"{image.path}: said to be of device {image.device}, but the trace has {listed}")
        return dev
    if seen.height != 1:
        raise InputError(f"{image.path}: whose image is it? The trace has {listed}; name one with --device MAJ:MIN")
    return int(seen["part_dev"][0])


def _device(row: dict[str, Any]) -> Device:
    parent = row.get("parent")
    return Device(
        dev=units.parse_dev(row["dev"]),
        parent=units.parse_dev(parent) if parent else None,
        start_sector=row["start_sector"],
        nr_sectors=row["nr_sectors"],
    )


def _keep(path: Path, raw: Path, number: int) -> Source:
    """Copy a source into `raw/` under its own name, made unique by a number where two have the same."""
    name = path.name
    while (raw / name).exists():
        name = f"{number}-{name}"
    digest = manifest.sha256(path, copy_to=raw / name)
    return Source(f"raw/{name}", "trace", (raw / name).stat().st_size, digest)


@contextlib.contextmanager
def _staged_directory(out: Path) -> Iterator[Path]:
    """A directory beside `out` that becomes `out` at the end, and nothing at all if anything goes wrong."""
    staged = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield staged
        staged.chmod(0o755)
        staged.rename(out)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
