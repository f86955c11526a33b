"""Figures: one function per result, tidy table in, matplotlib Axes out.

Every function takes a result table of `androstep_analysis.measures` (or the table `requests` or `io`), those whose name
begins with bench, replay or compare one of that part of `androstep_analysis`, and `ax`, the axes to draw in; without
it, it makes a figure one column wide. Nothing is shown and no global style is changed. A notebook displays what a
function returns. An empty table gives axes that say "no data"; a table whose dimensions are not those of the figure is
refused with `ValueError`.
"""

from androstep_analysis.plot.bars import (
    block_types,
    file_types,
    locality,
    mix,
    rwbs_bars,
    size_histogram,
    sync_bars,
    top_volume,
)
from androstep_analysis.plot.bench import (
    bench_devices,
    bench_journal_modes,
    bench_latency,
    bench_series,
    bench_sizes,
    bench_sync_modes,
    bench_synchronous,
    bench_threads,
)
from androstep_analysis.plot.compare import compare_differences, compare_groups, compare_pairs, compare_ranking
from androstep_analysis.plot.output import save
from androstep_analysis.plot.paper import png, style
from androstep_analysis.plot.perceived import perceived_breakdown, perceived_in_flight, perceived_responses
from androstep_analysis.plot.replay import replay_io_time, replay_lateness, replay_timeline
from androstep_analysis.plot.samples import samples_cpu, samples_over_time
from androstep_analysis.plot.scatter import sector_over_time, size_over_time
from androstep_analysis.plot.series import cumulative, latency_cdf, rate
from androstep_analysis.plot.table import table
from androstep_analysis.plot.whatif import whatif_accuracy

__all__ = [
    "bench_devices",
    "bench_journal_modes",
    "bench_latency",
    "bench_series",
    "bench_sizes",
    "bench_sync_modes",
    "bench_synchronous",
    "bench_threads",
    "block_types",
    "compare_differences",
    "compare_groups",
    "compare_pairs",
    "compare_ranking",
    "cumulative",
    "file_types",
    "latency_cdf",
    "locality",
    "mix",
    "perceived_breakdown",
    "perceived_in_flight",
    "perceived_responses",
    "png",
    "rate",
    "replay_io_time",
    "replay_lateness",
    "replay_timeline",
    "rwbs_bars",
    "samples_cpu",
    "samples_over_time",
    "save",
    "sector_over_time",
    "size_histogram",
    "size_over_time",
    "style",
    "sync_bars",
    "table",
    "top_volume",
    "whatif_accuracy",
]
