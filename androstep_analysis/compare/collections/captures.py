"""Collections of captures: their facts, a measure of all, and comparisons of groups with a baseline."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from androstep_analysis import capture, compare, measures
from androstep_analysis.capture import Description
from androstep_analysis.capture.classes import NO_CLASSES, Classes, read
from androstep_analysis.common import manifest, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare.collections import places, work
from androstep_analysis.compare.collections.places import Place
from androstep_analysis.compare.collections.work import Failure
from androstep_analysis.compare.measures import Measured, known, measured, together
from androstep_analysis.compare.observed import Observed, observe

Executor: TypeAlias = Any
"""A `distributed.Client`, or an executor of `concurrent.futures`."""


def collection(*patterns: str | PathLike[str], classes: str | PathLike[str] | None = None) -> Collection:
    """Return the captures that paths, patterns and addresses name.

    Parameters
    ----------
    *patterns : path-like
        Directories, searched recursively for captures and released datasets; patterns with ``*``, ``**`` and ``?``;
        single traces; or addresses of fsspec, such as ``s3://bucket/captures``.
    classes : path-like, optional
        A TOML file with your own types of files and names of apps (``docs/classes.md``).

    Returns
    -------
    Collection
        The captures, which are not opened yet.

    Raises
    ------
    InputError
        If a path, pattern or address names no capture, or a rule of `classes` is invalid.

    Examples
    --------
    >>> len(androstep.collection("datasets/demo"))
    1
    """
    own = read(classes)
    return Collection(places.find([str(pattern) for pattern in patterns]), own)


class Collection:
    """Captures that are opened only when they are measured, in the process that measures them.

    If that is on another machine, they must have the same paths or addresses there.
    """

    def __init__(self, captures: Sequence[Place], classes: Classes = NO_CLASSES) -> None:
        self.places = tuple(captures)
        self.classes = classes

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        return f"<Collection of {len(self):,} captures>"

    def facts(self, *, jobs: int | None = None, executor: Executor = None) -> pl.DataFrame:
        """Return the facts of each capture: table captures, with the location of the capture.

        Parameters
        ----------
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        polars.DataFrame
            A row for each capture, in their order. Columns place (String: its location), error (String: the reason why
            it cannot be opened, else null), and those of table captures.

        Examples
        --------
        >>> androstep.collection("datasets/demo").facts()["fs_type"].to_list()
        ['ext4']
        """
        found = work.each(_facts, self.places, jobs=jobs, executor=executor, title="opening captures")
        rows = [
            {"place": str(place), **({"error": one.reason} if isinstance(one, Failure) else one)}
            for place, one in zip(self.places, found, strict=True)
        ]
        types: dict[str, Any] = {"place": pl.String, "error": pl.String, **schema.table("captures").polars}
        return pl.DataFrame([{name: row.get(name) for name in types} for row in rows], types)

    def measure(
        self,
        measure: str | compare.Measure,
        *,
        window_ns: int | None = None,
        jobs: int | None = None,
        executor: Executor = None,
    ) -> pl.DataFrame:
        """Return the table of `compare.measure_all` of all captures, and the reasons why some are missing.

        Parameters
        ----------
        measure : str or compare.Measure
            A name of `compare.measures`, or a measure of your own.
        window_ns : int, optional
            Length of a window, in ns; by default there are no windows.
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        polars.DataFrame
            The table of `compare.measure_all` with column error (String), which is null for measured captures. A
            capture that could not be measured has a single row with its location in capture and the reason in error;
            the other columns are null. The result does not depend on `jobs` or `executor`.

        Raises
        ------
        InputError
            If no capture can be measured.

        Examples
        --------
        >>> androstep.collection("datasets/demo").measure("mix").filter(metric="count", op="read")["value"].item()
        817.0
        """
        parts, failed = self.measured(measure, window_ns=window_ns, jobs=jobs, executor=executor)
        if not parts:
            raise InputError(next(iter(failed.values()), "no captures: make one with androstep.collection"))
        table = together(parts, known(measure, window_ns), window_ns).with_columns(error=pl.lit(None, pl.String))
        reasons = pl.DataFrame(list(failed.items()), {"capture": pl.String, "error": pl.String}, orient="row")
        return pl.concat([table, reasons], how="diagonal")

    def measured(
        self,
        measure: str | compare.Measure,
        *,
        window_ns: int | None = None,
        phases_ns: int | None = None,
        jobs: int | None = None,
        executor: Executor = None,
    ) -> tuple[list[Measured], dict[str, str]]:
        """Return the measure of each capture separately, and the reasons for those that cannot be measured.

        Parameters
        ----------
        measure : str or compare.Measure
            A name of `compare.measures`, or a measure of your own.
        window_ns : int, optional
            Length of a window, in ns; by default there are no windows.
        phases_ns : int, optional
            Split captures into phases with windows of this length (`compare.phases`). Each phase counts as a capture.
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        tuple of list and dict
            The measure of each capture, as input of `compare.measures.together`; and the reasons by location.

        Raises
        ------
        InputError
            If windows are requested for a measure with repetitions.

        Examples
        --------
        >>> parts, failed = androstep.collection("datasets/demo").measured("mix", jobs=1)
        >>> len(parts), failed
        (1, {})
        """
        known(measure, window_ns)
        one = functools.partial(
            _measured, classes=self.classes, measure=measure, window_ns=window_ns, phases_ns=phases_ns
        )
        found = work.each(one, self.places, jobs=jobs, executor=executor)
        parts, failed = dict[str, Measured](), dict[str, str]()
        for place, of_place in zip(self.places, found, strict=True):
            if isinstance(of_place, Failure):
                failed[str(place)] = of_place.reason
                continue
            for part in of_place:
                if (same := parts.setdefault(part.capture_id, part)) is not part:
                    failed[str(place)] = f"the same recording as {same.title} ({part.capture_id})"
        return list(parts.values()), failed

    def observed(self, *, jobs: int | None = None, executor: Executor = None) -> tuple[list[Observed], dict[str, str]]:
        """Return the data of each capture for `compare.overview`, and the reasons for those that cannot be measured.

        Parameters
        ----------
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        tuple of list and dict
            The result of `compare.observed.observe` for each capture; and the reasons by location.

        Examples
        --------
        >>> observed, failed = androstep.collection("datasets/demo").observed(jobs=1)
        >>> observed[0].title, failed
        ('demo', {})
        """
        one = functools.partial(_observed, classes=self.classes)
        found = work.each(one, self.places, jobs=jobs, executor=executor)
        pairs = list(zip(self.places, found, strict=True))
        failed = {str(place): one.reason for place, one in pairs if isinstance(one, Failure)}
        return [one for one in found if not isinstance(one, Failure)], failed

    def compare(
        self,
        measure: str | compare.Measure,
        *,
        by: Sequence[str],
        baseline: str,
        smallest: float | None = None,
        window_ns: int | None = None,
        jobs: int | None = None,
        executor: Executor = None,
    ) -> pl.DataFrame:
        """Compare every group with the baseline as in `compare.compare`, one comparison for each other group.

        Captures that could not be measured are left out; `measure` reports them.

        Parameters
        ----------
        measure : str or compare.Measure
            A name of `compare.measures`, or a measure of your own.
        by : sequence of str
            Facts. Captures with equal values of these are a group.
        baseline : str
            The group with which all others are compared.
        smallest : float, optional
            The smallest difference that matters, as in `compare.compare`.
        window_ns : int, optional
            Length of a window, in ns; by default there are no windows.
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        polars.DataFrame
            The result of `compare.compare`.

        Examples
        --------
        >>> collection = androstep.collection("datasets/demo")
        >>> collection.compare("mix", by=["fs_type"], baseline="ext4", jobs=1).height
        0
        """
        table = self.measure(measure, window_ns=window_ns, jobs=jobs, executor=executor)
        rows = table.filter(pl.col("error").is_null()).drop("error")
        return compare.compare(rows, by=by, baseline=baseline, smallest=smallest)

    @classmethod
    def ingest(
        cls,
        sources: Sequence[str | PathLike[str]],
        out: str | PathLike[str],
        description: Description | None = None,
        *,
        jobs: int | None = None,
        executor: Executor = None,
    ) -> tuple[Collection, dict[str, str]]:
        r"""Make a capture of each source. Directory `out` gets the directory tree of the sources.

        Parameters
        ----------
        sources : sequence of path-like
            Recordings, and directories that are searched recursively for recordings. Captures and hidden files are
            skipped.
        out : path-like
            The output directory. Existing captures are kept, so that an interrupted run can be continued.
        description : Description, optional
            Facts that no source has and that apply to all.
        jobs : int, optional
            Processes on this machine; by default one for each processor, or fewer if there are few captures.
        executor : optional
            A `distributed.Client`, or an executor of `concurrent.futures`, that does the work instead.

        Returns
        -------
        tuple of Collection and dict
            The captures that exist now, and for each source without one the reason.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from androstep_analysis.compare.collections import Collection
        >>> with tempfile.TemporaryDirectory() as place:
        ...     for app in ("mail", "game"):
        ...         _ = Path(place, f"{app}.csv").write_text(
        ...             "process,device,rw_flag,sector,size,timestamp\napp-1,8388608,W,8,8,1.5\n"
        ...         )
        ...     made, failed = Collection.ingest([place], Path(place, "captures"), jobs=1)
        ...     len(made), failed
        (2, {})
        """
        into = Path(out).resolve()
        pairs = [pair for source in sources for pair in places.recordings(Path(source), into)]
        one = functools.partial(_made, description=description or Description())
        found = work.each(one, pairs, jobs=jobs, executor=executor, title="making captures")
        failed = {
            str(source): one.reason for (source, _), one in zip(pairs, found, strict=True) if isinstance(one, Failure)
        }
        return cls([Place(str(path)) for source, path in pairs if str(source) not in failed]), failed


def _facts(place: Place) -> dict[str, Any]:
    with places.opened(place) as recording:
        return dict(recording.facts)


def _observed(place: Place, classes: Classes) -> Observed:
    with places.opened(place, classes) as recording:
        return observe(recording)


def _measured(
    place: Place, classes: Classes, measure: str | compare.Measure, window_ns: int | None, phases_ns: int | None
) -> list[Measured]:
    with places.opened(place, classes) as recording:
        parts = [recording] if phases_ns is None else compare.phases(recording, window_ns=phases_ns)
        return [
            measured(part, known(measure, window_ns), window_ns)._replace(population=_population(part.tables))
            for part in parts
        ]


def _population(tables: Mapping[str, pl.LazyFrame]) -> dict[str, int]:
    """Return the numbers of counted requests of a recording; empty if it has no requests."""
    counts = measures.population(tables["requests"]) if "requests" in tables else {}
    return counts if any(counts.values()) else {}


def _made(pair: tuple[Path, Path], description: Description) -> None:
    source, path = pair
    if not (path / manifest.FILE_NAME).is_file():
        capture.create([source], path, description)
