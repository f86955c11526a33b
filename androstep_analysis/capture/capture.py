"""Define the capture: one recording of one device, with its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from androstep_analysis import ingest, measures
from androstep_analysis.capture import cache, population, tool_results
from androstep_analysis.capture import query as sql
from androstep_analysis.capture.classes import NO_CLASSES, Classes
from androstep_analysis.capture.derivation import EVIDENCE_TABLES, Evidence, Image, derive
from androstep_analysis.capture.window import Window, within
from androstep_analysis.common import losses, manifest, schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.manifest import Manifest
from androstep_analysis.common.markup import el, visible
from androstep_analysis.ingest import clock
from androstep_analysis.ingest.clock import Jumps
from androstep_analysis.ingest.staging import TABLES as STAGED
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import unrecorded

if TYPE_CHECKING:
    from androstep_analysis.explore import Explorer


class Capture:
    """One recording of one device, with all tables derived from it.

    `tables` maps the names in `TABLES` to LazyFrames, and also those of `bench.TABLES` and `replay.TABLES` if there are
    such results. `about` is a summary made while reading, with these keys:

    - format, clock, first_ns, last_ns, jumps, lost_events, losses
    - window: begin and end of the part that was asked for, or None (definitions.toml, window)
    - events: the count of each event name in the files
    - rows: the number of rows of each table
    - coverage, population
    - snapshots: role, proven, agreements, contradictions and kinds of each image and listing (`link.consistency`)
    - bench: None, or the tests and the numbers of runs and of invalid runs
    - replay: None, or runs, fs_types, operations, done, diverged and interrupted
    - steps: None, or workloads, steps and completed
    - gui: None, or snapshots and states

    `classes` are the user's own types of files and apps (`capture.classes`), which `tables` have.
    """

    def __init__(
        self,
        title: str,
        described: Manifest,
        tables: dict[str, pl.LazyFrame],
        about: dict[str, Any],
        part: Window | None = None,
        classes: Classes = NO_CLASSES,
    ) -> None:
        self.title = title
        self.manifest = described
        self.classes = classes
        self.about = about
        self._part = part
        self._recorded = tables
        self._counted = within(tables, self._stated if part is None else None)
        self.tables = classes.applied(self._counted)
        self.opened_by: tuple[Callable[..., Capture], tuple[Any, ...]] | None = None
        """The function and arguments with which another process opens the same capture (pickle)."""

    def __reduce__(self) -> tuple[Callable[..., Capture], tuple[Any, ...]]:
        if self.opened_by is None:
            raise TypeError(
                f"{self.title}: only a whole capture can be pickled (by its path); call window() after unpickling"
            )
        return self.opened_by

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
        """Table syscalls: the system calls as recorded."""
        return self.tables["syscalls"]

    @property
    def commands(self) -> pl.LazyFrame:
        """Table commands: commands and responses of the drivers below the block layer, as recorded."""
        return self.tables["commands"]

    @property
    def samples(self) -> pl.LazyFrame:
        """Table samples: counters over time as recorded."""
        return self.tables["samples"]

    @property
    def frames(self) -> pl.LazyFrame:
        """Table frames: Android's frames with their planned and actual times."""
        return self.tables["frames"]

    @property
    def importance(self) -> pl.LazyFrame:
        """Table importance: the importance of processes to the system, as recorded (`measures.states`)."""
        return self.tables["importance"]

    @property
    def blocked(self) -> pl.LazyFrame:
        """Table blocked: the uninterruptible sleeps of main threads."""
        return self.tables["blocked"]

    @property
    def requests(self) -> pl.LazyFrame:
        """Table requests."""
        return self.tables["requests"]

    @property
    def io(self) -> pl.LazyFrame:
        """Table io: the pieces of all requests, each with one block type, file and owner."""
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
        """The tables of benchmark results (`bench.TABLES`) as DataFrames, the input of `androstep_analysis.bench`.

        Raises `InputError` if the capture has none.
        """
        return self._of_kind("bench")

    @property
    def replay(self) -> dict[str, pl.DataFrame]:
        """The tables of replays (`replay.TABLES`) as DataFrames, the input of `androstep_analysis.replay`.

        Raises `InputError` if the capture has none.
        """
        return self._of_kind("replay")

    @property
    def steps(self) -> pl.DataFrame:
        """Table steps as a DataFrame: the steps of workloads and their times. `InputError` if the capture has none."""
        return self._of_kind("steps")["steps"]

    @property
    def gui_states(self) -> pl.DataFrame:
        """Table gui_states as a DataFrame: the states of the GUI. `InputError` if the capture has none."""
        return self._of_kind("gui")["gui_states"]

    def _of_kind(self, role: str) -> dict[str, pl.DataFrame]:
        kind = tool_results.KINDS[role]
        if not self.about[role]:
            raise InputError(f"{self.title}: a capture without {kind.noun}; make one with `{kind.command}`")
        return {name: self.tables[name].collect() for name in kind.tables}

    @property
    def format(self) -> str:
        """Name of the recording's format."""
        return str(self.about["format"])

    @property
    def events(self) -> dict[str, int]:
        """Number of events of the whole recording, by the format's own names."""
        return dict(self.about["events"])

    @property
    def first_ns(self) -> int | None:
        """Begin of the window (definitions.toml, window), else the time of the first event, in the capture's clock."""
        return self._span[0]

    @property
    def last_ns(self) -> int | None:
        """End of the window, else the time of the last event, in the capture's clock."""
        return self._span[1]

    @property
    def jumps(self) -> Jumps:
        """Jumps between the recording's segments of time: the last time of one and the first time of the next."""
        return self._jumps(*self._span)

    def _jumps(self, first_ns: int | None, last_ns: int | None) -> Jumps:
        if first_ns is None or last_ns is None:
            return ()
        every = ((before, after) for before, after in self.about["jumps"])
        return tuple((before, after) for before, after in every if first_ns <= before and after <= last_ns)

    @property
    def _span(self) -> tuple[int | None, int | None]:
        return self._part or self._stated or self._recorded_span

    @property
    def _stated(self) -> Window | None:
        """The window that the recorder stated."""
        start_ns, end_ns = self.about.get("window") or (None, None)
        return None if start_ns is None or end_ns is None else (start_ns, end_ns)

    @property
    def _recorded_span(self) -> tuple[int | None, int | None]:
        return self.about["first_ns"], self.about["last_ns"]

    @property
    def recorded_ns(self) -> int | None:
        """Length of the whole recording, if the recorder stated that its window is a part of it; else None."""
        first_ns, last_ns = self._recorded_span
        if self._part is not None or self._stated is None or first_ns is None or last_ns is None:
            return None
        return int(clock.continued(last_ns, self._jumps(first_ns, last_ns))) - first_ns

    @property
    def lost_events(self) -> int:
        """Number of lost events, as the recorder counted them."""
        return int(self.about["lost_events"])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All parts of the input that are missing or could not be read."""
        return tuple(losses.from_json(loss) for loss in self.about["losses"])

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The capture's row in table captures."""
        names = Counter(Path(source.path).name for source in self.manifest.sources)
        digests = {
            name if names[name] == 1 else f"{source.role}/{name}": source.sha256
            for source in self.manifest.sources
            for name in [Path(source.path).name]
        }
        facts = {name: self.manifest.facts.get(name) for name in manifest.FACTS}
        row = {
            **facts,
            "capture_id": self.manifest.capture_id,
            "clock": facts["clock"] or self.about["clock"],
            "fs_type": facts["fs_type"] or self.about["fs_type"],
            "t_start_ns": self.first_ns,
            "t_end_ns": self.last_ns,
            "lost_events": self.lost_events,
            "source_sha256": cache.canonical_json(digests),
        }
        return {column.name: row[column.name] for column in schema.table("captures").columns}

    @cached_property
    def coverage(self) -> pl.DataFrame:
        """Share of each operation's bytes that is matched, mapped, inferred and owned (`measures.coverage`)."""
        if self._part is None:
            return pl.DataFrame(self.about["coverage"], schema=_COVERAGE)
        return measures.coverage(self.requests, self.io)

    @property
    def compared(self) -> list[str]:
        """One line for each image and listing on its agreement with the trace (`link.consistency`)."""
        return [
            f"{_PROVEN[one['proven']].format(one['role'].replace('_', ' '))} "
            f"({one['agreements']:,} agreements, {one['contradictions']:,} contradictions)"
            for one in self.about.get("snapshots", ())
        ]

    @cached_property
    def lacking(self) -> list[unrecorded.Kind]:
        """The kinds of events that the recording lacks, with the information that is missing as a result."""

        def has_value(table: str, column: str) -> bool:
            rows = self.tables.get(table)
            return rows is not None and bool(rows.select(pl.col(column).is_not_null().any()).collect().item())

        recorded = {*(self.manifest.events or ()), *(("fanotify",) if self.about.get("names") else ())}
        return unrecorded.unrecorded(self.events, recorded, has_value)

    @cached_property
    def population(self) -> dict[str, int]:
        """Counts of the requests that all measures include, and of those that completed (`measures.population`)."""
        return dict(self.about["population"]) if self._part is None else measures.population(self.requests)

    def table(self, name: str, as_: Literal["polars", "pandas", "pyarrow"] = "polars") -> Any:
        """Return one of the capture's tables as a polars, pandas or pyarrow object.

        Parameters
        ----------
        name : str
            Name of the table (docs/tables.md), such as ``"io"``. `tables` has the names of this capture's tables.
        as_ : {"polars", "pandas", "pyarrow"}
            The library of the result.

        Returns
        -------
        polars.LazyFrame, pandas.DataFrame or pyarrow.Table
            The table with the columns of ``schemas/NAME.json``. Only polars leaves it unread (lazy).

        Raises
        ------
        KeyError
            If there is no such table.

        Examples
        --------
        >>> capture.table("requests", as_="pandas").shape
        (4555, 27)
        """
        rows = self.tables[name]
        if as_ == "polars":
            return rows
        return rows.collect().to_pandas() if as_ == "pandas" else rows.collect().to_arrow()

    def sql(self, query: str) -> pl.DataFrame:
        """Run a SQL query over the capture's tables (docs/tables.md).

        Parameters
        ----------
        query : str
            A query in polars' SQL: joins, subqueries, window functions, ``quantile_cont``.

        Returns
        -------
        polars.DataFrame
            The rows of the result.

        Raises
        ------
        InputError
            If the text is not a query, names a table or column that does not exist, or reads a file.

        References
        ----------
        polars, SQL interface. docs/sql.md has twenty example queries.

        Examples
        --------
        >>> capture.sql("select op, count(*) as requests from requests group by op order by op").rows()
        [('discard', 208), ('flush', 1195), ('read', 817), ('write', 2335)]
        """
        return sql.run(query, self.tables)

    def window(self, start_ns: int, end_ns: int) -> Capture:
        """Return the part of the capture in the interval ``[start_ns, end_ns)``.

        Parameters
        ----------
        start_ns, end_ns : int
            Begin and end in the capture's clock, in ns. The time of a request is its issue, else its queueing, else its
            completion (`measures.order_ns`). Counters (`samples`) get values at both ends of the interval.

        Returns
        -------
        Capture
            The same recording with fewer rows in `requests`, `io`, `samples` and the tables of events. `importance`
            also has the earlier rows, which state the importance at the begin. `files`, `extents`, `tasks` and the
            results of tools are not filtered.

        Examples
        --------
        >>> half = capture.window(capture.first_ns, (capture.first_ns + capture.last_ns) // 2)
        >>> half.population["count"] < capture.population["count"]
        True
        """
        part = (start_ns, end_ns)
        return Capture(self.title, self.manifest, within(self._counted, part), self.about, part, self.classes)

    def explore(self) -> Explorer:
        """Create an explorer of the capture's requests for JupyterLab: a timeline, filters and request details.

        Returns
        -------
        androstep_analysis.explore.Explorer
            JupyterLab displays it as the last line of a cell. Its `selection` is the selected part of table `io`.

        Raises
        ------
        InputError
            If the capture has no requests.
        ModuleNotFoundError
            If the packages of ``androstep[notebook]`` are not installed.

        References
        ----------
        ``docs/explore.md``.

        Examples
        --------
        >>> explorer = capture.explore()
        >>> explorer.selection.height == measures.counted(capture.io).collect().height
        True
        """
        from androstep_analysis.explore import Explorer

        return Explorer(
            self.tables,
            self.title,
            begin_ns=self.first_ns,
            page_bytes=self.facts["page_bytes"],
            lost=losses.Losses(self.losses, self.lost_events),
        )

    def with_filesystem(
        self,
        *,
        before: str | PathLike[str] | None = None,
        after: str | PathLike[str] | None = None,
        device: str | None = None,
        extents: Iterable[str] = manifest.EXTENTS,
    ) -> Capture:
        """Derive the tables again with other images of the filesystem, or with fewer kinds of evidence.

        The listings of a capture directory are not used.

        Parameters
        ----------
        before, after : path-like, optional
            Images of the filesystem from before and after the recording.
        device : str, optional
            The device (``MAJ:MIN``) of the images. Required if the trace has requests of several devices.
        extents : iterable of str
            The kinds of evidence (`manifest.EXTENTS`) to use, for example to find the contribution of each. By default
            all.

        Returns
        -------
        Capture
            A capture with new derived tables. The recorded tables are the same.

        Raises
        ------
        InputError
            If an image cannot be read.

        References
        ----------
        ``schemas/definitions.toml``, map_source and image.

        Examples
        --------
        >>> without_evidence = capture.with_filesystem(extents=())
        >>> without_evidence.io.select(pl.col("path").is_not_null().any()).collect().item()
        False
        """
        first_ns, last_ns = self._part or self._recorded_span
        staging = Staging(
            format=self.format,
            tables={name: self._recorded[name] for name in STAGED if not _is_empty(self._recorded[name])},
            events=self.events,
            first_ns=first_ns,
            last_ns=last_ns,
            window=self.manifest.window if self._part is None else None,
            tasks=self._recorded["tasks"].collect(),
            clock=self.about["clock"],
            realtime_offset_ns=self.about["realtime_offset_ns"],
            realtime_moved_ns=self.manifest.realtime_moved_ns,
            lost_events=self.lost_events,
            losses=tuple(loss for loss in self.losses if loss.tables != EVIDENCE_TABLES),
            jumps=self._jumps(first_ns, last_ns),
            recorded=None if self.manifest.events is None else frozenset(self.manifest.events),
            facts=self.manifest.facts,
            flags=frozenset(self.about["flags"]),
            words=frozenset(self.about["words"]),
            names_submitters=self.about["names_submitters"],
        )
        evidence = Evidence(
            image_before=None if before is None else Image(Path(before), device),
            image_after=None if after is None else Image(Path(after), device),
            devices=self.manifest.devices,
            mounts=self.manifest.mounts,
            swaps=self.manifest.swaps,
            extents=frozenset(extents),
        )
        derived, about = derive(staging, evidence, ingest.Spool())
        tables = self._recorded | derived
        about = about | {role: self.about[role] for role in tool_results.KINDS}
        about["rows"] = self.about["rows"] | about["rows"]
        return Capture(self.title, self.manifest, tables, about, classes=self.classes)

    def __repr__(self) -> str:
        return visible(f"<Capture {'; '.join(f'{name} {value}' for name, value in self._described())}>")

    def _repr_html_(self) -> str:
        rows = (el("tr", el("th", name, style="text-align:left"), el("td", value)) for name, value in self._described())
        return str(el("table", *rows))

    def _described(self) -> Iterator[tuple[str, str]]:
        """Yield names and values of the overview, mostly without reading a table."""
        yield "of", self.facts["device"] or self.title
        yield "format", self.format
        if self.first_ns is not None and self.last_ns is not None:
            parts = f" in {len(self.jumps) + 1} parts" if self.jumps else ""
            whole = "" if self.recorded_ns is None else f" of {self.recorded_ns / 1e9:.3f} s recorded"
            length = clock.continued(self.last_ns, self.jumps) - self.first_ns
            yield "window", f"{length / 1e9:.3f} s{parts}{whole}"
        if self.about["bench"]:
            yield "tests", ", ".join(self.about["bench"]["tests"])
            yield "runs", f"{self.about['bench']['runs']:,}"
            yield "invalid", f"{self.about['bench']['invalid']:,}"
        if counts := self.about["replay"]:
            yield "replays", f"{counts['runs']:,} on {', '.join(counts['fs_types'])}"
            yield "operations", f"{counts['done']:,} of {counts['operations']:,} done, {counts['diverged']:,} diverged"
        if counts := self.about["steps"]:
            yield "workloads", ", ".join(counts["workloads"])
            yield "steps", f"{counts['steps']:,}, {counts['completed']:,} completed"
        if counts := self.about["gui"]:
            yield "snapshots", f"{counts['snapshots']:,} of {counts['states']:,} states"
        if not self.manifest.of_role("trace") and any(self.about[role] for role in tool_results.KINDS):
            return
        rows = self.about["rows"] if self._part is None else {}
        has_requests = rows.get("requests", 0) > 0
        named = {"requests": "requests", "pieces": "io", "system calls": "syscalls", "commands": "commands"}
        for name, table in (named | {"samples": "samples"}).items():
            if rows.get(table):
                yield name, f"{rows[table]:,}"
        if not any(rows.get(table) for table in (*named.values(), "samples")) and rows:
            where = "" if self.recorded_ns is None else " of the window"
            yield "events", f"{sum(self.events.values()):,}, none of them a request{where}"
        yield "lost", losses.in_words(loss for loss in self.losses if loss.tables != ()) or "0 events"
        if noted := losses.in_words(loss for loss in self.losses if loss.tables == ()):
            yield "noted", noted
        for one in self.about.get("snapshots", ()):
            if one["proven"] != "content":
                yield one["role"].replace("_", " "), "not proven to belong to the trace"
        if has_requests:
            counts = self.population
            if not population.is_whole(counts):
                yield "counted", population.brief(counts)
            for op, shares_of_op in self.coverage.filter(pl.col("op") != "flush").group_by("op", maintain_order=True):
                shares = zip(shares_of_op["metric"].cast(pl.String), shares_of_op["value"], strict=True)
                yield str(op[0]), ", ".join(f"{metric} {value:.1%}" for metric, value in shares)


def _is_empty(table: pl.LazyFrame) -> bool:
    return table.head(1).collect().is_empty()


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
