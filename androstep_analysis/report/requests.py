"""What a report tells of requests and their pieces: its sections in order, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import measures, plot, units
from androstep_analysis.ingest import clock
from androstep_analysis.plot.series import STEPS
from androstep_analysis.report import cells, layouts
from androstep_analysis.report.section import Figure, Section

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

BINS: Final = 300
"""Time bins a rate is drawn in, at most."""


def results(capture: Capture) -> tuple[dict[str, str], dict[str, pl.DataFrame | pl.LazyFrame]]:
    """The words that captions need, and the result tables of `SECTIONS`; those with a row per request are not read."""
    requests, io, timed = measures.counted(capture.requests), measures.counted(capture.io), _timed(capture)
    bin_ns = bin_length(capture.first_ns, clock.continued(capture.last_ns or 0, capture.jumps))
    device = requests.group_by("dev").len().sort(["len", "dev"], descending=[True, False]).head(1).collect()
    busiest = device["dev"][0] if device.height else 0
    of_files = io.filter(pl.col("block_type") == "data")
    apps = measures.volume(of_files, by=("package",))
    tables: dict[str, pl.DataFrame | pl.LazyFrame] = {
        "mix": measures.mix(requests),
        "rwbs": measures.rwbs(requests),
        "sizes": measures.sizes(requests),
        "block_types": measures.block_types(io),
        "metadata_fraction": measures.metadata_fraction(io),
        "file_types": measures.file_types(io),
        "apps": apps if apps["package"].count() else apps.clear(),
        "processes": measures.volume(io, by=("owner_comm",)),
        "files": measures.volume(of_files, by=("path",)),
        "locality": measures.locality(requests),
        "cumulative": measures.cumulative(timed, columns=STEPS),
        "sync": measures.sync(io),
        "map_sources": measures.evidence(io, "map_source"),
        "owners_via": measures.evidence(io, "owner_via"),
        "latency": measures.latency(requests),
        "latency_distribution": measures.latency_distribution(requests, columns=STEPS),
        "rate": measures.rate(timed, bin_ns=bin_ns),
        "points": timed.select(POINTS),
        "device": timed.filter(pl.col("dev") == busiest).select(POINTS),
    }
    return {"bin": cells.duration(bin_ns), "device": units.format_dev(busiest)}, tables


def _timed(capture: Capture) -> pl.LazyFrame:
    """The counted requests on an axis without jumps."""
    return clock.on_one_axis(measures.counted(capture.requests), capture.jumps)


POINTS: Final = ("dev", "sector", "nr_sectors", "op", "queue_ns", "issue_ns", "complete_ns")
"""Columns of `requests` that the figures of single requests are drawn from."""


def bin_length(first_ns: int | None, last_ns: int | None) -> int:
    """The shortest of 1, 2, 5 × 10^k ns that divides the window into at most `BINS` bins."""
    span = max(1, (last_ns or 0) - (first_ns or 0))
    power: int = 10 ** max(0, len(str(span // BINS)) - 1)
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power * BINS >= span)


def _four(name: str, result: str, draw: Callable[..., Axes], what: str) -> tuple[Figure, ...]:
    """The four graphs of the MOST Viewer: requests and bytes, as they are and in per cent."""
    return tuple(
        Figure(f"{name}_{basis}{suffix}", result, draw, caption, {"basis": basis, "relative": relative})
        for basis, noun in (("count", "Requests"), ("bytes", "Bytes"))
        for relative, suffix, caption in (
            (False, "", f"{noun} by {what}, without empty flushes."),
            (True, "_share", f"{noun} by {what}, in per cent of the operation's."),
        )
    )


SECTIONS: Final = (
    Section(
        "Reads, writes and the rest",
        (),
        (("mix", layouts.shares("op")),),
        (
            Figure(
                "mix",
                "mix",
                plot.mix,
                "Shares of the operations in the requests that carry data, and in their bytes.",
            ),
            Figure(
                "rwbs",
                "rwbs",
                plot.rwbs,
                "Requests by operation and flag letters as the kernel prints them (rwbs): R read, W write, D discard, "
                "a leading F preflush, a trailing F FUA, S sync, M meta, A readahead; FF is an empty flush.",
            ),
            Figure(
                "sizes",
                "sizes",
                plot.sizes,
                "Requests by size. A bin holds the sizes from its own to just below that of the next one.",
            ),
        ),
    ),
    Section(
        "Block types",
        ("block_type", "metadata_fraction", "image"),
        (("block_types", layouts.shares("op", "block_type")), ("metadata_fraction", layouts.fraction)),
        _four("block_types", "block_types", plot.block_types, "block type"),
    ),
    Section(
        "File types",
        ("file_type",),
        (("file_types", layouts.shares("op", "file_type")),),
        _four("file_types", "file_types", plot.file_types, "type of the file whose data moved"),
    ),
    Section(
        "Processes",
        ("owner",),
        (("processes", layouts.volume("Process")),),
        (
            Figure(
                "top_processes",
                "processes",
                plot.volume,
                "Bytes read and written on behalf of each process, by its name (the kernel keeps 15 characters); the "
                "filesystem's own threads stand under theirs.",
            ),
        ),
    ),
    Section(
        "Apps",
        (),
        (("apps", layouts.volume("Package")),),
        (
            Figure(
                "top_apps",
                "apps",
                plot.volume,
                "Bytes of data in the directories of each Android package; files of none, such as shared media, and "
                "deleted files without a name are unknown here.",
            ),
        ),
    ),
    Section(
        "Files",
        (),
        (("files", layouts.volume("File")),),
        (
            Figure(
                "top_files",
                "files",
                plot.volume,
                "Bytes of data read from and written to each file; data blocks only. Long paths lose their middle, "
                "and characters the font lacks are boxes.",
            ),
        ),
    ),
    Section(
        "Sequential and random",
        ("consecutive", "forward", "random", "cumulative"),
        (("locality", layouts.shares("op", "class")),),
        (
            Figure(
                "locality",
                "locality",
                plot.locality,
                "Share of consecutive, forward and random requests. Forward includes consecutive; consecutive and "
                "random add up to 100 %.",
            ),
            Figure(
                "cumulative",
                "cumulative",
                plot.cumulative,
                "Bytes moved so far over time of issue, sequentially (consecutive) and at random; logarithmic, as in "
                "Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.",
                in_time=True,
                whole=lambda capture: measures.cumulative(_timed(capture)),
            ),
            Figure(
                "sector_over_time",
                "device",
                plot.sector_over_time,
                "First sector of each request over time of issue, on device {device}, which served most requests. "
                "Of very many requests the figure shows the number per cell, and says so above it.",
                in_time=True,
            ),
        ),
    ),
    Section(
        "Synchronous and buffered writes",
        ("sync",),
        (("sync", layouts.shares("class")),),
        (Figure("sync", "sync", plot.sync, "Shares of synchronous and buffered writes, by requests and bytes."),),
    ),
    Section(
        "Latency",
        ("latency",),
        (("latency", layouts.quantiles),),
        tuple(
            Figure(
                f"latency_{step.lower()}",
                "latency_distribution",
                plot.latency_distribution,
                f"Cumulative distribution of latency {step}: {words}. Time is logarithmic.",
                {"step": step},
                whole=lambda capture: measures.latency_distribution(capture.requests),
            )
            for step, words in (
                ("Q2D", "from queueing to issue"),
                ("D2C", "from issue to completion"),
                ("Q2C", "from queueing to completion"),
            )
        ),
    ),
    Section(
        "Over time",
        ("rate",),
        (),
        (
            Figure("iops", "rate", plot.rate, "Requests completed per second, in bins of {bin}.", in_time=True),
            Figure(
                "bandwidth",
                "rate",
                plot.rate,
                "Bytes completed per second, in bins of {bin}.",
                {"metric": "bandwidth"},
                in_time=True,
            ),
            Figure(
                "size_over_time",
                "points",
                plot.size_over_time,
                "Size of each request over time of issue. Of very many requests the figure shows the number per cell, "
                "and says so above it.",
                in_time=True,
            ),
        ),
    ),
    Section(
        "What block types and files rest on", ("image",), (("map_sources", layouts.shares("op", "map_source")),), ()
    ),
    Section("What owners rest on", ("owner",), (("owners_via", layouts.shares("op", "owner_via")),), ()),
)
"""The report, in order. To add a figure, add it here and its table to `results`."""
