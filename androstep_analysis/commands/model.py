"""`androstep model`: measure the request times of a device, for `androstep whatif`."""

from __future__ import annotations

import argparse

import polars as pl

from androstep_analysis import whatif
from androstep_analysis.commands.bench import benched
from androstep_analysis.commands.command import add_new_capture, add_on, complete, new_capture
from androstep_analysis.common.markup import visible
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Measures reads, writes, O_DSYNC writes and flushes in files below DIR, one at a time and several in
        parallel, without the page cache: four runs of iobench, at most five minutes. Saves the results as a capture,
        prints the times and removes the files. Leave the device idle during the measurement.

        example: androstep model build /data -o mydevice
        """,
    )
    command.add_argument("action", choices=["build"], help="measure, and save the results")
    command.add_argument("directory", metavar="DIR", help="where to measure, with 256 MiB free")
    add_on(command)
    add_new_capture(command, "model")


def run(arguments: argparse.Namespace) -> int:
    out = new_capture(arguments, "model")
    done = benched(arguments.on, whatif.experiments(arguments.directory), out)
    if done.capture is not None:
        directory = visible(str(out))
        if done.status:
            print(f"the measurement is incomplete; its results are kept in {directory}")
        else:
            print(_table(whatif.fit(done.capture.bench)))
            print(f"\nkept in {directory}; predict with `androstep whatif CAPTURE --model {directory}`")
    return done.status


def _table(model: pl.DataFrame) -> str:
    """Lay out the time of one request in ms, by kind of access and KiB; of flushes by the amount written before."""
    kinds = model["access"].cast(pl.String).unique(maintain_order=True).to_list()
    times = {
        (kind, size): f"{ns / 1e6:.3f}" for kind, size, ns in model.select("access", "block_bytes", "service_ns").rows()
    }
    sizes = sorted({size for _, size in times})
    rows = [[f"{size / 1024:g}", *(times.get((kind, size), "–") for kind in kinds)] for size in sizes]
    header = ["KiB", *(f"{kind} ms".replace("_", " ") for kind in kinds)]
    return f"Time of one request\n{terminal.table(header, rows, is_whole=True)}"
