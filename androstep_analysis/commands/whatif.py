"""`androstep whatif`: predict request times of a trace on a device, also without journal or fsyncs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from androstep_analysis import bench, capture, measures, whatif
from androstep_analysis.capture import population
from androstep_analysis.commands.command import add_format, add_json, block_device, complete, keep_source
from androstep_analysis.common import files, units
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.measure import DIMENSIONS
from androstep_analysis.present import terminal, wide
from androstep_analysis.replay import device as device_replay
from androstep_analysis.whatif.flash import MAPPINGS, POLICIES

_WITHOUT = ("sqlite-fsync", "fs-journal")
"""The changes of --without, in the order in which they are applied. SQLite's fsyncs come first: they cause commits."""


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Counts the requests that a change removes and adds. With --model it also predicts the time of the requests
        before and after the change, on a device measured with `androstep model build`. docs/whatif.md lists the
        assumptions, and the errors of predictions against real replays.

        example: androstep whatif mycapture --without fs-journal --model mydevice
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file with block requests")
    add_format(command)
    command.add_argument(
        "--without",
        choices=_WITHOUT,
        action="append",
        default=[],
        help="remove the filesystem's journal, or the fsyncs of SQLite; repeat for both",
    )
    command.add_argument(
        "--flash",
        metavar="DIMENSION",
        choices=list(DIMENSIONS["io"]),
        help="simulate flash memory, and count its copies and erases by this (as --by of `androstep measure`)",
    )
    command.add_argument(
        "--mapping",
        choices=list(MAPPINGS),
        default=MAPPINGS[0],
        help="with --flash: map single pages, or whole blocks with a log as cheap devices do (default: %(default)s)",
    )
    command.add_argument(
        "--policy",
        choices=list(POLICIES),
        default=POLICIES[0],
        help="with --flash: which block a page-mapped device cleans first (default: %(default)s)",
    )
    command.add_argument(
        "--log-structured", action="store_true", help="simulate a controller that turns all writes into sequential ones"
    )
    command.add_argument(
        "--spare",
        metavar="PERCENT",
        type=_percent,
        default=7.0,
        help="with --flash or --log-structured: spare capacity (overprovisioning) in percent (default: 7)",
    )
    command.add_argument(
        "--model",
        metavar="MODEL",
        nargs="+",
        type=Path,
        help="predict times on this device: a capture of `androstep model build`, other results of iobench with direct"
        " I/O (captures or record files), or one table device_model (.parquet)",
    )
    command.add_argument(
        "--mode",
        choices=["as-fast", "as-recorded"],
        default="as-fast",
        help="issue requests as fast as possible, or at the recorded times (default: as-fast)",
    )
    command.add_argument("--device", metavar="MAJ:MIN", type=block_device, help="use only the requests of this device")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE.parquet",
        type=_parquet,
        help="write the requests after the change (table requests)",
    )
    add_json(command, "print one JSON object with the tables of all results")


class _Section(NamedTuple):
    """One section of the result: its name, its tables for JSON, and its text."""

    name: str
    tables: dict[str, Any]
    text: str


def run(arguments: argparse.Namespace) -> None:
    if not (arguments.without or arguments.log_structured or arguments.flash or arguments.model):
        arguments.wrong_usage("name a change (--without, --log-structured, --flash), a device (--model), or both")
    keep_source(arguments)
    opened = capture.open(arguments.path, format=arguments.format)
    before = _of_device(opened, arguments.device)
    model = device_model(arguments.model) if arguments.model else None
    after, changes = _changed(before, opened, arguments)
    if model is not None:
        changes.append(_predicted(before, after, model, arguments.mode.replace("-", "_")))
    counted = measures.population(before)
    if arguments.output is not None:
        with files.replacing(arguments.output) as new:
            after.write_parquet(new)
    if arguments.json:
        print(to_json({"population": counted, **{one.name: one.tables for one in changes}}))
        return
    parts = [population.sentence(counted, opened.losses, opened.lost_events), *(one.text for one in changes)]
    parts += [] if arguments.output is None else [f"{after.height:,} requests are in {arguments.output}"]
    print("\n\n".join(parts))


def _of_device(opened: capture.Capture, device: str | None) -> pl.DataFrame:
    requests = measures.counted(opened.requests).collect()
    if requests.is_empty():
        raise InputError(f"{opened.title}: no requests of block devices; record block events with iotrace")
    if device is None:
        return requests
    chosen = requests.filter(pl.col("dev") == units.parse_dev(device))
    if chosen.is_empty():
        names = ", ".join(units.format_dev(dev) for dev in requests["dev"].unique().sort())
        raise InputError(f"{opened.title}: no request of device {device}; the recording has {names}")
    return chosen


def device_model(paths: list[Path]) -> pl.DataFrame:
    """Return the device model that --model names."""
    if len(paths) == 1 and paths[0].suffix == ".parquet":
        return whatif.read_model(paths[0])
    return whatif.fit(bench.read(*paths).tables)


def _changed(
    before: pl.DataFrame, opened: capture.Capture, arguments: argparse.Namespace
) -> tuple[pl.DataFrame, list[_Section]]:
    """Return the requests after all changes, and a section for each change."""
    io = opened.io.filter(pl.col("request_id").is_in(before["request_id"].implode())).collect()
    after, sections = before, list[_Section]()
    for name in _WITHOUT:
        if name not in arguments.without:
            continue
        extents = opened.extents.collect()
        changed = (
            whatif.without_journal(after, io) if name == "fs-journal" else whatif.without_fsync(after, io, extents)
        )
        after, io = changed.requests, changed.io
        text = f"Without {name}\n{_account(changed)}"
        sections.append(_Section(f"without_{name.replace('-', '_')}", {"account": changed.account}, text))
    if arguments.flash:
        sections.append(_flash(io, arguments))
    if arguments.log_structured:
        changed = whatif.log_structured(after, spare_ratio=arguments.spare / 100)
        amplified = whatif.write_amplification(changed)
        ratio = "" if amplified is None else f"; {amplified:.3f} bytes written for each one of the host"
        after = changed.requests
        text = f"Log-structured, {arguments.spare:g} % to spare{ratio}\n{_account(changed)}"
        tables = {"spare_ratio": arguments.spare / 100, "write_amplification": amplified, "account": changed.account}
        sections.append(_Section("log_structured", tables, text))
    return after, sections


def _flash(io: pl.DataFrame, arguments: argparse.Namespace) -> _Section:
    by = DIMENSIONS["io"][arguments.flash]
    options = {"mapping": arguments.mapping, "policy": arguments.policy}
    simulated = whatif.flash(io, by=[by], spare_ratio=arguments.spare / 100, **options)
    least, mean, most = simulated.erases.select(
        pl.col("erases").min().alias("least"),
        pl.col("erases").mean().alias("mean"),
        pl.col("erases").max().alias("most"),
    ).row(0)
    head = f"On flash, {arguments.spare:g} % to spare; a block is erased {mean:.2f} times ({least} to {most})"
    merges = "".join(f"; {count:,} {kind} merges" for kind, count in simulated.merges.iter_rows())
    erases = {"mean": mean, "least": least, "most": most}
    tables = {
        "spare_ratio": arguments.spare / 100,
        "erases": erases,
        "merges": simulated.merges,
        "costs": simulated.costs,
    }
    return _Section("flash", tables, f"{head}{merges}\n{wide.show(simulated.costs)}")


def _account(changed: whatif.Changed) -> str:
    rows = [
        [effect, change, op, f"{count:,}", f"{size / 1024:,.0f}"]
        for effect, change, op, count, size in changed.account.rows()
    ]
    return terminal.table(["", "what", "op", "requests", "KiB"], rows)


def _predicted(before: pl.DataFrame, after: pl.DataFrame, model: pl.DataFrame, mode: whatif.Mode) -> _Section:
    """Predict the times before and after the changes, and list the requests that the model does not cover."""
    sides = [whatif.predict(device_replay.program(requests.lazy()), model, mode) for requests in (before, after)]
    first, second = (side.totals.iter_rows(named=True) for side in sides)
    rows = []
    for one, other in zip(first, second, strict=True):
        name = one["metric"].replace("_", " ") + (f" {one['quantile']}" if one["quantile"] else "")
        cells = [_ms(side[value]) for side in (one, other) for value in ("value", "lo", "hi")]
        rows.append([name, *cells, f"{other['value'] / one['value']:.3f}" if one["value"] else "–"])
    header = ["ms", "before", "from", "to", "after", "from", "to", "ratio"]
    parts = [f"Predicted, {mode.replace('_', ' ')}\n{terminal.table(header, rows)}"]
    tables: dict[str, Any] = {"mode": mode}
    for name, side in zip(("before", "after"), sides, strict=True):
        unknown, extrapolated = whatif.unknown(side), whatif.extrapolated(side)
        tables[name] = {"totals": side.totals, "unknown": unknown, "extrapolated": extrapolated}
        for why, counts in ((_UNKNOWN, unknown), (_EXTRAPOLATED, extrapolated)):
            for call, access, count, size in counts.rows():
                is_flush = access == "flush"
                what = f"{count:,} × {call}" if is_flush else f"{count:,} × {call} ({(size or 0) / 1024:,.0f} KiB)"
                parts.append(f"{name}: {what} {why[is_flush]}")
    return _Section("predicted", tables, "\n".join(parts))


_UNKNOWN = (
    "of a kind that was not measured: they take no time in the prediction",
    "that were not measured: they take no time in the prediction; measure them with `androstep model build`",
)
"""Texts for requests and for flushes."""

_EXTRAPOLATED = (
    "of a size that was not measured: what they take is extrapolated",
    "behind more than was measured: what they take is extrapolated",
)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.3f}"


def _parquet(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".parquet":
        raise argparse.ArgumentTypeError(f"{text!r} must end in .parquet")
    return path


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1,000")
    return value
