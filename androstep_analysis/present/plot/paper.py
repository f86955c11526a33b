"""Style of the figures: sizes, fixed colours and units on axes. It applies to one figure, never to the session."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Concatenate, Final, Literal, ParamSpec, cast

import matplotlib.style
import numpy as np
import polars as pl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import Bbox

from androstep_analysis.common import quantities
from androstep_analysis.measures.tables import MEASURES, Table, frame, inferred_share
from androstep_analysis.present.plot import text

P = ParamSpec("P")

COLUMN: Final = 3.5
"""Width of a figure in inches: one column of a two-column page (IEEE, ACM, USENIX: 3.3 to 3.5)."""

HEIGHT: Final = 2.3

_SHORTEST, _SHORT = 5, 300
"""Up to these ratios of its ends, a logarithmic axis has labels between its powers of ten."""

# Hues are those of Okabe and Ito (Color Universal Design, 2008). They are distinguishable with every common form of
# colour blindness. Related kinds share a hue and differ in lightness, which everyone can see.
OPS: Final = {
    "read": "#0072B2",
    "write": "#D55E00",
    "flush": "#BBBBBB",
    "discard": "#00573F",
    "secure_erase": "#F0E442",
    "zone": "#56B4E9",
    "other": "#B5739D",
}
BLOCK_TYPES: Final = {
    "data": "#0072B2",
    "directory": "#56B4E9",
    "journal": "#E69F00",
    "metadata": "#005C42",
    "free": "#DDDDDD",
    "unknown": "#777777",
}
COST_PARTS: Final = {
    "data": BLOCK_TYPES["data"],
    "rewritten": "#2E94CC",
    "directory": "#86C5EA",
    "journal": BLOCK_TYPES["journal"],
    "node": "#9C4500",
    "metadata": BLOCK_TYPES["metadata"],
    "unknown": BLOCK_TYPES["unknown"],
}
FILE_TYPES: Final = {
    "sqlite_db": "#004B75",
    "sqlite_journal": "#2E94CC",
    "sqlite_wal": "#86C5EA",
    "sqlite_shm": "#D0E8F7",
    "executable": "#9C4500",
    "package": "#F2A46B",
    "image": "#00573F",
    "video": "#14A37C",
    "audio": "#9ADBC6",
    "resource": "#E69F00",
    "temporary": "#F8DC9A",
    "log": "#8C3B66",
    "directory": "#D998BC",
    "symlink": "#F3DCE8",
    "other": "#BBBBBB",
    "unknown": "#777777",
}
FILE_TYPE_HATCHES: Final = dict.fromkeys(("package", "audio"), "-----") | dict.fromkeys(
    ("log", "directory", "symlink"), "/////"
)
"""Sixteen colours are not distinguishable for everyone, so these types are hatched as well."""
LOCALITY: Final = {"consecutive": "#00573F", "forward": "#9ADBC6", "random": "#E69F00", "unknown": "#777777"}
SYNC: Final = {"sync": "#8C3B66", "buffered": "#E8B7D2", "unknown": "#777777"}
FILESYSTEMS: Final = {
    "ext4": "#0072B2",
    "xfs": "#D55E00",
    "btrfs": "#14A37C",
    "f2fs": "#8C3B66",
    "nilfs2": "#E69F00",
    "tmpfs": "#777777",
}
SERIES: Final = ("#0072B2", "#D55E00", "#14A37C", "#E69F00", "#8C3B66", "#56B4E9", "#222222", "#B5739D")
"""Hues of Okabe and Ito for series without a colour of their own, in order."""
PUBLISHED: Final = "#D55E00"
"""Colour of a paper's numbers beside those of a table."""
DIAMONDS: Final[dict[str, Any]] = {
    **{"marker": "D", "linestyle": "", "markersize": 4.5, "color": PUBLISHED},
    **{"markeredgecolor": "#222222", "markeredgewidth": 0.5, "zorder": 4},
}
"""How a paper's numbers are drawn."""
FALLBACK: Final = "#444444"
"""Colour of a kind that is in no palette."""

_LEGEND_SIZE: Final = 7

RC: Final[Mapping[str, Any]] = {
    "font.family": text.FONT,
    "font.size": 7,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=SERIES),
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": _LEGEND_SIZE,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.handleheight": 0.8,
    "legend.labelspacing": 0.35,
    "legend.borderpad": 0,
    "legend.handletextpad": 0.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "hatch.linewidth": 0.4,
    "pdf.fonttype": 42,  # TrueType: publishers refuse matplotlib's default Type 3
}


TIGHT: Final[Mapping[str, Any]] = {"bbox_inches": "tight", "pad_inches": 0.02}
"""How figures are cropped when saved: to their content, without a margin."""


class PaperAxes(Axes):
    """Axes that a notebook displays as their figure.

    pyplot would display figures too, but it keeps a list of all figures of the session.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture, and its display size: its letters are as large as those of the surrounding text."""
        picture = png(self)
        width, height = (int.from_bytes(picture[at : at + 4]) for at in (16, 20))
        return picture, {"width": width * 3 // 4, "height": height * 3 // 4}


def style() -> AbstractContextManager[None]:
    """Return a context manager with the style of the figures, for axes that you make yourself.

    It starts from matplotlib's defaults, so a figure does not depend on the session's settings.

    Returns
    -------
    context manager
        Within it, axes are made in the style.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> with plot.style():
    ...     _, ax = plt.subplots()
    >>> _ = plot.mix(measures.mix(capture.requests), ax=ax)
    """
    return cast(AbstractContextManager[None], matplotlib.style.context(["default", dict(RC)]))


def span(values: pl.Series) -> tuple[float, float]:
    """Return the smallest and the largest of the values. There must be at least one value.

    Integers stay integers: a clock in nanoseconds has more digits than a float.
    """
    array = values.to_numpy()
    return array.min().item(), array.max().item()


def png(ax: Axes, dpi: int = 200) -> bytes:
    """Return the figure of `ax` as a PNG file. The same figure gives the same bytes.

    Parameters
    ----------
    ax : Axes
        The axes of the figure.
    dpi : int
        Pixels for each inch.

    Returns
    -------
    bytes
        A PNG file.

    Examples
    --------
    >>> plot.png(plot.mix(measures.mix(capture.requests)))[1:4]
    b'PNG'
    """
    buffer = io.BytesIO()
    with style():
        settled(ax).savefig(buffer, format="png", dpi=dpi, metadata={"Software": None}, **TIGHT)
    return buffer.getvalue()


_DECIMALS: Final = re.compile(rb' d="[^"]*"')
_MORE_THAN_TWO: Final = re.compile(rb"(\.\d\d)\d+")


def svg(ax: Axes) -> bytes:
    """Return the figure of `ax` as an SVG file with a transparent background. The same figure gives the same bytes.

    Letters are outlines, so the figure looks the same if the font is missing.

    Parameters
    ----------
    ax : Axes
        The axes of the figure.

    Returns
    -------
    bytes
        An SVG file.

    Examples
    --------
    >>> b"<svg" in plot.svg(plot.mix(measures.mix(capture.requests)))
    True
    """
    buffer = io.BytesIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with style(), matplotlib.rc_context({"svg.hashsalt": "androstep"}):
        figure = settled(ax)
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata, bbox_inches=_cut(figure))
    # matplotlib writes coordinates with six decimals. Two are precise enough for any screen, and halve the size.
    return _DECIMALS.sub(lambda path: _MORE_THAN_TWO.sub(rb"\1", path[0]), buffer.getvalue())


_RENDERER: Final[Any] = RendererSVG  # has no type annotations


def _cut(figure: Figure) -> Bbox | str:
    """Return the crop box of an SVG file of the figure (`TIGHT`), in inches.

    With bbox_inches="tight", matplotlib would draw everything twice.
    """
    if figure.get_layout_engine() is not None:
        return "tight"  # the layout is only known after drawing
    dpi = figure.dpi
    figure.dpi = FigureCanvasSVG.fixed_dpi
    try:
        renderer = _RENDERER(*figure.get_size_inches() * figure.dpi, io.StringIO())
        return figure.get_tightbbox(renderer).padded(TIGHT["pad_inches"])
    finally:
        figure.dpi = dpi


def settled(ax: Axes) -> Figure:
    """Return the figure of `ax`, ready to be written.

    A figure made here is laid out once only. Constrained layout moves elements slightly at every drawing and
    resolution, and the same figure must give the same bytes whatever was drawn before.
    """
    figure = ax.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes belong to no figure")
    engine = figure.get_layout_engine()
    if isinstance(ax, PaperAxes) and isinstance(engine, ConstrainedLayoutEngine):
        engine.execute(figure)
        figure.set_layout_engine(None)
    return figure


@contextmanager
def drawing(ax: Axes | None, height: float = HEIGHT) -> Iterator[Axes]:
    """Yield the axes to draw in, within the style: `ax`, or new ones, one column wide and `height` inches high."""
    with style():
        if ax is None:
            figure = Figure(figsize=(COLUMN, height), layout="constrained")
            ax = figure.add_subplot(axes_class=PaperAxes)
        # Ticks are created when the figure is drawn, outside of this context, so set their style now.
        if isinstance(ax, PaperAxes):
            ax.tick_params(labelsize=7, width=0.6, length=2.5)
        yield ax


def of_any_table(draw: Callable[Concatenate[pl.DataFrame, P], Axes]) -> Callable[Concatenate[Table, P], Axes]:
    """Return `draw` for tables of polars, pandas or Arrow instead of polars DataFrames."""

    @functools.wraps(draw)
    def draw_any(table: Table, /, *args: P.args, **kwargs: P.kwargs) -> Axes:
        return draw(frame(table), *args, **kwargs)

    return draw_any


def label_decades(axis: Axis) -> None:
    """Label powers of ten on a logarithmic axis, also 2 and 5 if it is short, and other round numbers if need be."""
    low, high = sorted(axis.get_view_interval())
    if high / low < _SHORTEST:
        axis.set_major_locator(MaxNLocator(5))
    elif high / low < _SHORT:
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5), numticks=20))
    else:
        axis.set_major_locator(LogLocator(10, numticks=8))
    axis.set_minor_formatter(NullFormatter())


def no_data(ax: Axes) -> Axes:
    """Write "no data" into the axes."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, "no data", transform=ax.transAxes, ha="center", va="center", color="#777777")
    return ax


def note(ax: Axes, words: str) -> None:
    """Write a small line above the axes (and the legend), for facts that a reader needs."""
    legend = ax.get_legend()
    if legend is None:
        ax.set_title(words, fontsize=6, color="#555555", loc="left", pad=3, parse_math=False)
    else:
        legend.set_title(words)
        legend.get_title().set(fontsize=6, color="#555555", parse_math=False)
        legend.set_alignment("left")


def grid(ax: Axes, axis: Literal["x", "y", "both"]) -> None:
    """Draw a thin grid behind the data, across the value axis `axis`."""
    ax.grid(visible=True, axis=axis, color=RC["grid.color"], linewidth=RC["grid.linewidth"])
    ax.set_axisbelow(True)


def legend(ax: Axes, *, above: bool = False, columns: int = 4, **options: Any) -> None:
    """Draw a legend that never covers data: to the right of the axes, or above them in `columns` columns.

    A legend above the axes has fewer columns if they would be too wide for the figure; the figure then becomes higher.
    """
    if not above:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    else:
        handles = options.get("handles") or ax.get_legend_handles_labels()[0]
        labels = [str(handle.get_label()) for handle in handles]
        fitting = _fitting([text.width(label, _LEGEND_SIZE) for label in labels], columns)
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "ncols": fitting, "columnspacing": _BETWEEN}
        if isinstance(ax, PaperAxes) and fitting < columns:
            more = -(-len(labels) // fitting) - -(-len(labels) // columns)
            figure = cast(Figure, ax.get_figure(root=True))
            figure.set_figheight(figure.get_figheight() + more * _ROW)
    for label in ax.legend(**place, borderaxespad=0.0, **options).get_texts():
        label.set_parse_math(False)


_BETWEEN: Final = 1.2
"""Space between two columns of a legend, in units of the font size."""

_HANDLE: Final = 1.4 + 0.5
"""Width of a handle in a legend and of the space after it, in units of the font size."""

_ROW: Final = _LEGEND_SIZE * 1.5 / 72
"""Height of a row of a legend, in inches."""

_WIDEST: Final = (COLUMN - 0.6) * 72
"""Maximum width of a legend in points. It leaves space for the labels of an axis."""


def _fitting(widths: Sequence[float], columns: int) -> int:
    """Return how many columns of texts of these widths (points) fit above the axes, at most `columns`."""

    def width(count: int) -> float:
        of_columns = [max(part, default=0.0) for part in np.array_split(np.array(widths), min(count, len(widths)))]
        return sum(of_columns) + (len(of_columns) * (_HANDLE + _BETWEEN) - _BETWEEN) * _LEGEND_SIZE

    return next((count for count in range(columns, 1, -1) if width(count) <= _WIDEST), 1) if widths else columns


def error_bars(ax: Axes, x: np.ndarray, line: pl.DataFrame, scale: float, colour: str) -> None:
    """Draw the intervals of rows that have one (columns value, lo, hi, in units of `scale`), at positions `x`."""
    if "lo" not in line.columns:
        return
    known = (line["lo"].is_not_null() & line["hi"].is_not_null()).to_numpy()
    rows = line.filter(known)
    value, lo, hi = (rows[name].to_numpy() / scale for name in ("value", "lo", "hi"))
    if len(value):
        ax.errorbar(
            x[known], value, yerr=[value - lo, hi - value], fmt="none", ecolor=colour, elinewidth=0.7, capsize=1.5
        )


def count_axis(ax: Axes, axis: str) -> None:
    """Format `axis` ("x" or "y") as whole numbers with thousands separators."""
    target = ax.xaxis if axis == "x" else ax.yaxis
    target.set_major_locator(MaxNLocator(5, integer=True))
    target.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def ordered(kinds: Iterable[str], palette: Mapping[str, str]) -> list[str]:
    """Return the distinct `kinds` in the order of `palette`. Kinds that are not in it follow, sorted."""
    present = set(kinds)
    return [kind for kind in palette if kind in present] + sorted(present - set(palette))


def first_known(values: Iterable[object], known: Iterable[str]) -> list[str]:
    """Return the distinct values: those in `known` in its order, then the others in their own order."""
    present = dict.fromkeys(str(value) for value in values)
    known = list(known)
    return [value for value in known if value in present] + [value for value in present if value not in known]


def colour(kind: str, palette: Mapping[str, str]) -> str:
    """Return the fixed colour of `kind`."""
    return palette.get(kind, FALLBACK)


def words(kind: str) -> str:
    """Return a kind in words (``sqlite_db``: ``SQLite db``)."""
    return text.label(kind.replace("sqlite_", "SQLite ").replace("_", " "))


byte_unit, size = quantities.byte_unit, quantities.size


def per_cent(ratio: float) -> str:
    """Format a ratio in whole per cent. Nonzero ratios are never rounded to 0, and ratios below 1 never to 100."""
    if 0 < ratio < 0.005:
        return "<1"
    if 0.995 <= ratio < 1:
        return ">99"
    return f"{ratio:.0%}".removesuffix("%")


def time_unit(span_ns: float) -> tuple[int, str]:
    """Return divisor and name of the most readable unit for a span of `span_ns` nanoseconds."""
    minute = 60_000_000_000
    if span_ns > 10 * minute:
        return minute, "min"
    return quantities.largest_unit(span_ns / 2, ((1, "ns"), (10**3, "µs"), (10**6, "ms"), (10**9, "s")))


def rows(table: pl.DataFrame, metric: str, dims: Sequence[str]) -> pl.DataFrame:
    """Return the rows of a result table with `metric` and a value. Enums in `dims` become strings.

    Raises `ValueError` if one of `dims` is missing, or if another dimension varies: summing over it would draw a number
    that no measure computed.
    """
    missing = [name for name in ("metric", *dims, "value") if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    selected = table.filter(pl.col("metric").cast(pl.String) == metric, pl.col("value").is_not_null())
    others = [name for name in table.columns if name not in (*MEASURES, *dims)]
    varying = [name for name in others if selected[name].n_unique() > 1]
    if varying:
        raise ValueError(f"the figure does not show {', '.join(varying)}: keep one value or compute without it")
    return selected.with_columns(pl.col(name).cast(pl.String) for name in dims if table[name].dtype == pl.Enum)


def labels(data: pl.DataFrame, name: str, called: Callable[[str], str] = text.label) -> dict[str | None, str]:
    """Return the label of each value of a dimension, with its inferred share (rows of one metric)."""
    share = inferred_share() if "inferred" in data.columns else pl.lit(None, pl.Float64)
    shares = data.group_by(name).agg(inferred=share)
    return {
        key: "(unknown)" if key is None else quantities.marked(called(str(key)), inferred)
        for key, inferred in shares.select(name, "inferred").iter_rows()
    }


def counted(table: pl.DataFrame) -> str:
    """Return the unit of the counts of a result table ("requests")."""
    units = table.filter(pl.col("metric") == "count").get_column("unit").drop_nulls()
    return str(units[0]) if len(units) else "requests"
