"""Figures: each function draws one result table into matplotlib Axes.

The functions take a result table of `androstep_analysis.measures`, or table `requests` or `io`. Functions whose name
begins with ``bench``, ``replay`` or ``compare`` take results of those modules. Tables may be those of polars, pandas or
Arrow. A function that draws one measure has the name of the measure. `ax` are the axes to draw in; without it, a figure
one column wide is created. No global style is changed, and nothing is displayed; a notebook displays the returned axes.
An empty table gives axes with the text "no data". A table with other dimensions than the figure raises `ValueError`.
"""

from androstep_analysis.present.plot.bars import (
    block_types,
    file_types,
    locality,
    mix,
    rwbs,
    sizes,
    sync,
    volume,
    write_cost,
)
from androstep_analysis.present.plot.bench import (
    bench_devices,
    bench_distribution,
    bench_journal_modes,
    bench_series,
    bench_sizes,
    bench_sync_modes,
    bench_synchronous,
    bench_threads,
    bench_tools,
)
from androstep_analysis.present.plot.bursts import bursts
from androstep_analysis.present.plot.cache import hotness, lifetimes, miss_ratio, readahead, working_set
from androstep_analysis.present.plot.compare import (
    compare_differences,
    compare_groups,
    compare_overview,
    compare_pairs,
    compare_ranking,
)
from androstep_analysis.present.plot.output import save
from androstep_analysis.present.plot.paper import png, style, svg
from androstep_analysis.present.plot.perceived import (
    perceived_breakdown,
    perceived_in_flight,
    perceived_requests,
    perceived_responses,
)
from androstep_analysis.present.plot.published import dots, published
from androstep_analysis.present.plot.queue import depth_over_time, queue, seek_distances
from androstep_analysis.present.plot.replay import replay_io_time, replay_lateness_distribution, replay_timeline
from androstep_analysis.present.plot.samples import cpu, samples_over_time
from androstep_analysis.present.plot.scatter import sector_over_time, size_over_time
from androstep_analysis.present.plot.series import cumulative, latency_distribution, rate, rate_panels
from androstep_analysis.present.plot.whatif import whatif_accuracy, whatif_sizes

__all__ = [
    "bench_devices",
    "bench_distribution",
    "bench_journal_modes",
    "bench_series",
    "bench_sizes",
    "bench_sync_modes",
    "bench_synchronous",
    "bench_threads",
    "bench_tools",
    "block_types",
    "bursts",
    "compare_differences",
    "compare_groups",
    "compare_overview",
    "compare_pairs",
    "compare_ranking",
    "cpu",
    "cumulative",
    "depth_over_time",
    "dots",
    "file_types",
    "hotness",
    "latency_distribution",
    "lifetimes",
    "locality",
    "miss_ratio",
    "mix",
    "perceived_breakdown",
    "perceived_in_flight",
    "perceived_requests",
    "perceived_responses",
    "png",
    "published",
    "queue",
    "rate",
    "rate_panels",
    "readahead",
    "replay_io_time",
    "replay_lateness_distribution",
    "replay_timeline",
    "rwbs",
    "samples_over_time",
    "save",
    "sector_over_time",
    "seek_distances",
    "size_over_time",
    "sizes",
    "style",
    "svg",
    "sync",
    "volume",
    "whatif_accuracy",
    "whatif_sizes",
    "working_set",
    "write_cost",
]
