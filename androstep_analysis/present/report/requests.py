"""The report's sections on requests and their pieces, by question, and the results behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import measures
from androstep_analysis.common import units
from androstep_analysis.common.markup import Element
from androstep_analysis.ingest import clock
from androstep_analysis.present import headline, plot, sheets
from androstep_analysis.present.headline.requests import metadata_fraction
from androstep_analysis.present.plot.series import STEPS
from androstep_analysis.present.report import behaviour, cells, layouts
from androstep_analysis.present.report.section import Figure, Section
from androstep_analysis.present.sheets import Column

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

BINS: Final = 300
"""Maximum number of time bins of a rate."""


def results(capture: Capture) -> tuple[dict[str, str], dict[str, pl.DataFrame | pl.LazyFrame]]:
    """Return the words for captions, and the result tables of `QUESTIONS`.

    Tables with one row per request are lazy.
    """
    # Measures select the counted requests themselves; that is fastest on whole tables.
    requests, io, timed = capture.requests, capture.io, clock.on_one_axis(capture.requests, capture.jumps)
    drawn = _timed(capture)
    bin_ns = bin_length(capture.first_ns, clock.continued(capture.last_ns or 0, capture.jumps), BINS)
    of_device = drawn.group_by("dev").len()
    device = of_device.sort(["len", "dev"], descending=[True, False]).head(1).collect()
    busiest = device["dev"][0] if device.height else 0
    of_files = measures.counted(io).filter(pl.col("block_type") == "data")
    apps = measures.volume(of_files, by=("package",))
    distribution = measures.latency_distribution(requests, columns=STEPS)
    tables: dict[str, pl.DataFrame | pl.LazyFrame] = {
        "causes": headline.largest(capture),
        "mix": measures.mix(requests),
        "rwbs": measures.rwbs(requests),
        "sizes": measures.sizes(requests),
        "block_types": (block_types := measures.block_types(io)),
        "metadata_fraction": metadata_fraction(io, block_types),
        "file_types": measures.file_types(io),
        "apps": apps if apps["package"].count() else apps.clear(),
        "processes": measures.volume(io, by=("owner_comm",)),
        "files": (files := measures.volume(of_files, by=("path",))),
        "file_rows": _with_details(sheets.moved(files), of_files),
        "locality": measures.locality(requests),
        "cumulative": measures.cumulative(timed, columns=STEPS),
        "sync": measures.sync(io),
        "map_sources": measures.evidence(io, "map_source"),
        "owners_via": measures.evidence(io, "owner_via"),
        "latency": measures.latency(requests),
        **{f"latency_{step}": distribution.filter(pl.col("step") == step) for step in _STEPS},
        "rate": measures.rate(timed, bin_ns=bin_ns),
        "points": drawn.select(POINTS),
        "device": drawn.filter(pl.col("dev") == busiest).select(POINTS),
        **behaviour.results(capture, busiest, bin_ns),
    }
    return {"bin": cells.duration(bin_ns), "device": units.format_dev(busiest)}, tables


def _timed(capture: Capture) -> pl.LazyFrame:
    """Return the counted requests, on a time axis without gaps."""
    return clock.on_one_axis(measures.counted(capture.requests), capture.jumps)


POINTS: Final = ("dev", "sector", "nr_sectors", "op", "queue_ns", "issue_ns", "complete_ns")
"""Columns of `requests` that figures of single requests need."""


def bin_length(first_ns: int | None, last_ns: int | None, bins: int) -> int:
    """Return the shortest of 1, 2, 5 × 10^k ns that divides the span into at most `bins` bins."""
    span = max(1, (last_ns or 0) - (first_ns or 0))
    power: int = 10 ** max(0, len(str(span // bins)) - 1)
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power * bins >= span)


def _with_details(rows: pl.DataFrame, pieces: pl.LazyFrame) -> pl.DataFrame:
    """Return the known files of `sheets.moved` with the app and the type of each."""
    details = pieces.group_by("path").agg(pl.col("package").first(), pl.col("file_type").first()).collect()
    return rows.drop_nulls("path").join(details, on="path", how="left", maintain_order="left")


def _files(rows: pl.DataFrame) -> list[Element]:
    columns = {
        "path": Column("File"),
        "package": Column("App", pick=True),
        "file_type": Column("Type", pick=True),
        **sheets.MOVED,
    }
    return [cells.table(rows, columns, "Files")]


def _four(name: str, result: str, draw: Callable[..., Axes], what: str) -> tuple[Figure, ...]:
    """Return the four graphs of the MOST Viewer: requests and bytes, absolute and in per cent."""
    return tuple(
        Figure(
            f"{name}_{basis}{suffix}",
            result,
            draw,
            caption,
            {"basis": basis, "relative": relative},
            by_file_type=draw is plot.file_types,
            on_page=not relative,  # the table has the shares
        )
        for basis, noun in (("count", "Requests"), ("bytes", "Bytes"))
        for relative, suffix, caption in (
            (False, "", f"{noun} by {what}, without empty flushes."),
            (True, "_share", f"{noun} by {what}, in per cent of the operation."),
        )
    )


_STEPS: Final = {
    "Q2D": "from queueing to issue",
    "D2C": "from issue to completion",
    "Q2C": "from queueing to completion",
}

_IMAGE: Final = "Add an image or a listing of the filesystem (androstep ingest --image-after, --listing-after)."

_PROCESSES: Final = Section(
    "Processes",
    ("owner",),
    (("processes", layouts.volume("Process", "Processes")),),
    (
        Figure(
            "top_processes",
            "processes",
            plot.volume,
            "Bytes read and written on behalf of each process, by its name (the kernel keeps 15 characters). Threads "
            "of the filesystem are listed under their own names.",
            on_page=False,
        ),
    ),
    key="owner_comm",
    unknown="The processes that caused the requests are unknown: the trace names no thread for them. Record block "
    "events with bios, and filesystem events (androstep record).",
)
_APPS: Final = Section(
    "Apps",
    (),
    (("apps", layouts.volume("Package", "Apps")),),
    (
        Figure(
            "top_apps",
            "apps",
            plot.volume,
            "Bytes of data in the directories of each Android package. Files outside of them, such as shared media, "
            "and deleted files without a name are listed as unknown.",
            on_page=False,
        ),
    ),
    key="package",
    unknown="No known path is in the directory of an Android app. If paths are missing, add an image or a listing of "
    "the filesystem (androstep ingest --image-after, --listing-after).",
    unknown_if_empty=True,
)
_FILES: Final = Section(
    "Files",
    (),
    (("files", layouts.known), ("file_rows", _files)),
    (
        Figure(
            "top_files",
            "files",
            plot.volume,
            "Bytes of data blocks read from and written to each file. Long paths are shortened in the middle, and "
            "characters that the font lacks are boxes.",
            on_page=False,
        ),
    ),
    key="path",
    unknown=f"The files of the requests are unknown. {_IMAGE}",
    unknown_if_empty=True,
)
_BLOCK_TYPES: Final = Section(
    "Block types",
    ("block_type", "metadata_fraction", "image"),
    (("block_types", layouts.shares("Block types", "op", "block_type")), ("metadata_fraction", layouts.fraction)),
    _four("block_types", "block_types", plot.block_types, "block type"),
    key="block_type",
    unknown=f"It is unknown which requests were for data, directories, journal or metadata. {_IMAGE}",
)
_FILE_TYPES: Final = Section(
    "File types",
    ("file_type",),
    (("file_types", layouts.shares("File types", "op", "file_type")),),
    _four("file_types", "file_types", plot.file_types, "type of the file whose data moved"),
    key="file_type",
    unknown="The file types are unknown, because the names and contents of the files are. An image has them.",
    unknown_if_empty=True,
)
_MIX: Final = Section(
    "Reads, writes and the rest",
    (),
    (("mix", layouts.shares("Operations", "op")),),
    (
        Figure(
            "mix",
            "mix",
            plot.mix,
            "Shares of the operations in the requests other than flushes, and in their bytes.",
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
            "Requests by size. A bin has the sizes from its label to just below the next label.",
        ),
    ),
)
_LOCALITY: Final = Section(
    "Sequential and random",
    ("consecutive", "forward", "random", "cumulative"),
    (("locality", layouts.shares("Sequential and random", "op", "class")),),
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
            "Cumulative bytes over time of issue, sequential (consecutive) and random, on a logarithmic axis, as in "
            "Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.",
            in_time=True,
            whole=lambda capture: measures.cumulative(_timed(capture)),
        ),
        Figure(
            "sector_over_time",
            "device",
            plot.sector_over_time,
            "First sector of each request over time of issue, on device {device} (the one with the most requests). "
            "If there are very many requests, the figure shows their number per cell, and says so above it.",
            in_time=True,
            on_page=False,
        ),
    ),
)
_SYNC: Final = Section(
    "Synchronous and buffered writes",
    ("sync",),
    (("sync", layouts.shares("Synchronous and buffered writes", "class")),),
    (Figure("sync", "sync", plot.sync, "Shares of synchronous and buffered writes, by requests and bytes."),),
    key="class",
    unknown="It is unknown which writes were synchronous: the trace has no request flags. Traces of blktrace, ftrace "
    "and Perfetto have them.",
)
_LATENCY: Final = Section(
    "Latency",
    ("latency",),
    (("latency", layouts.quantiles),),
    tuple(
        Figure(
            f"latency_{step.lower()}",
            f"latency_{step}",
            plot.latency_distribution,
            f"Cumulative distribution of latency {step}: {words}. Time is logarithmic.",
            {"step": step},
            whole=lambda capture: measures.latency_distribution(capture.requests),
        )
        for step, words in _STEPS.items()
    ),
    unknown="The latency is unknown: no request has two of the times of queueing, issue and completion. "
    "Record the events block_rq_issue and block_rq_complete.",
    unknown_if_empty=True,
)
_RATE: Final = Section(
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
            on_page=False,
        ),
        Figure(
            "size_over_time",
            "points",
            plot.size_over_time,
            "Size of each request over time of issue. If there are very many requests, the figure shows their number "
            "per cell, and says so above it.",
            in_time=True,
            on_page=False,
        ),
    ),
)
QUESTIONS: Final = {
    "who": ("Who read and wrote?", (_APPS, _PROCESSES)),
    "files": ("Which files?", (_FILES,)),
    "kinds": ("Which kinds of block and file?", (_BLOCK_TYPES, _FILE_TYPES)),
    "pattern": ("In what pattern?", (_MIX, _LOCALITY, _SYNC)),
    "time": ("How long did it take?", (_LATENCY, _RATE, behaviour.QUEUE)),
    "data": ("What becomes of the data?", (behaviour.HOT, behaviour.LIVES, behaviour.COST)),
}
"""The questions in order, by the anchor of their part. To add a figure, add it to a section and its table to
`results`."""

EVIDENCE: Final = (
    Section(
        "Evidence for owners",
        ("owner",),
        (("owners_via", layouts.shares("Evidence for owners", "op", "owner_via")),),
        (),
    ),
    Section(
        "Evidence for block types and files",
        ("image",),
        (("map_sources", layouts.shares("Evidence for block types and files", "op", "map_source")),),
        (),
    ),
)
"""Sections on the evidence behind owners, files and block types."""
