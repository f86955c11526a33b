"""`androstep top`: show live which apps, processes and files use the storage of a device."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from androstep_analysis import device
from androstep_analysis.commands.command import add_json, add_on, add_traced_device, complete, positive
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.present import terminal
from androstep_analysis.present.live import KEYS, SORTS, Live, Moment, ranking, totals
from androstep_analysis.present.live.words import cells, cost, header, headline
from androstep_analysis.present.terminal.text import table


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Records the device and shows the apps, processes, files and block types of the last seconds: rates, share of
        synchronous writes, time in the device. They are attributed like those of `androstep record`. Needs root on the
        device, and leaves no files on it.

        Keys: a, p, f, t and d rank apps, processes, files, block types and devices; s changes the order; space pauses;
        q or Ctrl-C quits.

        example: androstep top --on usb --by file
        """,
    )
    add_on(command)
    command.add_argument("--by", choices=list(KEYS), default="process", help="rank these (default: process)")
    command.add_argument(
        "--sort", choices=list(SORTS), default="bytes", help="order by this, largest first (default: bytes)"
    )
    command.add_argument(
        "--interval", metavar="S", type=positive, default=2, help="update every S seconds (default: 2)"
    )
    command.add_argument("--count", metavar="N", type=positive, help="end after N updates")
    command.add_argument(
        "--rows", metavar="N", type=positive, default=20, help="with --batch: print N rows (default: 20)"
    )
    command.add_argument("--batch", action="store_true", help="print one table per update, for scripts and logs")
    add_json(command, "with --batch: print one line of JSON per update")
    add_traced_device(command)
    command.add_argument("--save", metavar="CAPTURE", type=Path, help="also save the recording as this capture")


def run(arguments: argparse.Namespace) -> int:
    if arguments.json and not arguments.batch:
        raise InputError("--json needs --batch")
    if not arguments.batch and not (sys.stdout.isatty() and sys.stderr.isatty()):  # Textual draws on stderr
        raise InputError("the output is not a terminal; use --batch for lines of text, or --batch --json")
    signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))  # closing the terminal also ends it
    ended_by = 0
    with device.connect(arguments.on) as connected:
        live = Live(connected, interval_s=arguments.interval, keep=arguments.save, trace=arguments.device)
        with live:
            moments = itertools.islice(live, arguments.count)
            if arguments.batch:
                with _ended_by_signals(live) as caught:
                    _print(moments, arguments)
                ended_by = next((128 + number for number in caught if number != signal.SIGINT), 0)
            else:
                from androstep_analysis.present.live.screen import Screen

                Screen(connected.name, moments, live.end, by=arguments.by, sort=arguments.sort).show()
            if arguments.save is not None:
                notify("making the capture")
    if live.capture is not None:
        print(f"{terminal.summary(live.capture, str(arguments.save))}\n\nkept in {visible(str(arguments.save))}")
    return ended_by


@contextlib.contextmanager
def _ended_by_signals(live: Live) -> Iterator[list[int]]:
    """Stop the live view at the first signal and append the signal to the yielded list. The second one raises as usual.

    Polars aborts with an error message of its own if a signal handler raises in Python code that polars calls.
    """
    caught: list[int] = []

    def end(number: int, _: object) -> None:
        caught.append(number)
        signal.signal(number, before[number])
        live.end()

    before = {int(number): signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(moments: Iterator[Moment], arguments: argparse.Namespace) -> None:
    for moment in moments:
        rows = ranking(moment, arguments.by, arguments.sort).head(arguments.rows)
        print(_json(moment, rows) if arguments.json else _text(moment, rows, arguments.by), flush=True)


def _text(moment: Moment, rows: pl.DataFrame, by: str) -> str:
    return "\n".join([headline(moment), cost(moment), "", table(header(by), cells(rows, by)), ""])


def _json(moment: Moment, rows: pl.DataFrame) -> str:
    about = {name: getattr(moment, name) for name in ("start_ns", "end_ns", "events", "lost_events", "history_s")}
    cost = {name: getattr(moment, name) for name in ("recorder_ratio", "analysis_ratio")}
    return to_json({**about, **cost, "totals": totals(moment), "rows": rows}, indent=None)
