"""Read the sources that a manifest lists, derive the tables of the capture, and cache them."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import ingest
from androstep_analysis.capture import cache, tool_results
from androstep_analysis.capture.derivation import ADDED_TO, TABLES, Evidence, Image, derive
from androstep_analysis.common import manifest, results
from androstep_analysis.common.errors import InputError, Loss, LossWarning, printable
from androstep_analysis.common.manifest import Manifest, Source
from androstep_analysis.common.results import Results
from androstep_analysis.ingest.staging import Staging

Find = Callable[[Source], Path]
"""Returns the path of a source; raises `InputError` if the file no longer matches the manifest."""


def in_place(source: Source) -> Path:
    """Return the path of a source without verifying it, because its digest was computed just before."""
    return Path(source.path)


def names(described: Manifest) -> tuple[str, ...]:
    """Return the names of the tables of a capture with this manifest."""
    of_results = (kind.tables for role, kind in tool_results.KINDS.items() if described.of_role(role))
    return (*TABLES, *itertools.chain.from_iterable(of_results))


def staging_of(described: Manifest, find: Find, results_by_role: Mapping[str, Results], spool: ingest.Spool) -> Staging:
    """Read the traces of a capture, or its results if it has no trace, and apply the facts of the manifest."""
    traces = [find(source) for source in described.of_role("trace")]
    programs = described.of_role("program")
    if programs and not results_by_role and not traces:
        raise InputError(f"{programs[0].path}: a replay program; replay it with `androstep replay`")
    samples = [find(source) for source in described.of_role("samples")]
    if not (traces or results_by_role or samples):
        named = ", ".join(source.path for source in described.sources) or "nothing"
        raise InputError(f"{printable(named)}: neither a trace nor results; ingest it with the recording it belongs to")
    if traces:
        staging = ingest.read(
            *traces,
            spool=spool,
            csv_columns=described.csv_columns,
            format=described.format,
            samples=samples,
            phone=[find(source) for source in described.of_role("phone")],
        )
    elif results_by_role:
        staging = ingest.with_samples(tool_results.alone(results_by_role), samples, spool)
    else:
        staging = ingest.read(*samples, spool=spool)
    stated_offset, moved_ns = described.realtime_offset_ns, described.realtime_moved_ns
    uncounted = _uncounted(described, staging)
    return replace(
        staging,
        realtime_offset_ns=staging.realtime_offset_ns if stated_offset is None else stated_offset,
        realtime_moved_ns=staging.realtime_moved_ns if moved_ns is None else moved_ns,
        window=described.window,
        clock=described.facts.get("clock") or staging.clock,
        facts=facts_of(staging, described),
        lost_events=max(described.lost_events or 0, staging.lost_events),
        losses=(*staging.losses, *uncounted),
        recorded=staging.recorded if described.events is None else frozenset(described.events),
    )


def _uncounted(described: Manifest, staging: Staging) -> tuple[Loss, ...]:
    """Return the losses that the recorder counted in addition to those visible in its files."""
    if described.lost_events is None:
        message = "iotrace was killed; the number of lost events is unknown"
        warnings.warn(message, LossWarning, stacklevel=4)
        return (Loss("uncounted", 1, message),)
    uncounted = described.lost_events - staging.lost_events
    message = f"the recorder counted {uncounted} more lost events than its trace shows"
    return (Loss("missing", uncounted, message),) if uncounted > 0 else ()


def facts_of(staging: Staging, described: Manifest) -> dict[str, Any]:
    """Return the facts of the machine from its recording, overridden by those of the manifest."""
    return {**staging.facts, **{name: value for name, value in described.facts.items() if value is not None}}


def results_of(described: Manifest, find: Find) -> dict[str, Results]:
    """Read the results of a capture, by role; lost parts are reported as a `LossWarning`."""
    return {
        role: results.read(kind, [find(source) for source in sources], of_folder=len(sources) > 1)
        for role, kind in tool_results.KINDS.items()
        if (sources := described.of_role(role))
    }


def derived(
    staging: Staging, results_by_role: Mapping[str, Results], evidence: Evidence, spool: ingest.Spool
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """Derive all tables and their description (`Capture.about`), including those of results."""
    return tool_results.add(results_by_role, *derive(staging, evidence, spool))


def evidence_of(described: Manifest, find: Find) -> Evidence:
    """Collect the evidence that the manifest lists in addition to traces: images, listings, names and devices."""

    def image(role: str) -> Image | None:
        return next((Image(find(source), source.dev) for source in described.of_role(role)), None)

    def listing(role: str) -> Path | None:
        return next((find(source) for source in described.of_role(role)), None)

    return Evidence(
        image("image_before"),
        image("image_after"),
        listing("listing_before"),
        listing("listing_after"),
        listing("names"),
        described.devices,
        described.mounts,
        described.swaps,
        frozenset(described.extents),
    )


def key(described: Manifest) -> str:
    """Return the cache key of the tables, from everything in the manifest that they depend on."""
    return cache.key(
        {
            "sources": [[source.role, source.sha256, source.dev] for source in described.sources],
            "realtime_offset_ns": described.realtime_offset_ns,
            **({} if described.realtime_moved_ns is None else {"realtime_moved_ns": described.realtime_moved_ns}),
            "devices": list(described.devices),
            "mounts": list(described.mounts),
            **({"swaps": list(described.swaps)} if described.swaps else {}),
            **{name: described.facts.get(name) for name in ("clock", "fs_type", "page_bytes")},
            "lost_events": described.lost_events,
            "extents": list(described.extents),
            "csv_columns": described.csv_columns,
            "format": described.format,
            **({} if described.window is None else {"window": described.window}),
            "events": None if described.events is None else list(described.events),
        }
    )


def store(
    staging: Staging,
    results_by_role: Mapping[str, Results],
    described: Manifest,
    directory: Path,
    table_directory: Path,
    spool: ingest.Spool,
    scratch_directory: Path | None,
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """Derive the tables of the capture in `directory` and store them in `table_directory`.

    `scratch_directory` is the directory of `spool`, or None if nothing can be written. In that case nothing is stored.
    """
    evidence = evidence_of(described, functools.partial(manifest.verify, directory=directory))
    tables, about = derived(staging, results_by_role, evidence, spool)
    if scratch_directory is None:
        return tables, about
    return cache.store(tables, about, scratch_directory, table_directory, key(described), ADDED_TO), about
