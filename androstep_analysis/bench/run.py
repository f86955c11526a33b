"""Running the storage benchmark, here or elsewhere, and keeping what it found as a capture."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from androstep_analysis import capture
from androstep_analysis.bench.program import Runner, local
from androstep_analysis.capture import Capture
from androstep_analysis.errors import InputError
from androstep_analysis.markup import visible

_PROGRESS = re.compile(r"iobench: +(\d+) % (.*)")
_KEPT_HERE = ("-o", "--record")


@dataclass(frozen=True)
class Run:
    """What a run of iobench came to: its exit status (0: every repetition is valid), and its results, if it has any."""

    status: int
    capture: Capture | None


def run(
    options: Sequence[str],
    out: Path,
    *,
    runner: Runner = local,
    facts: Mapping[str, Any] | None = None,
) -> Run:
    """Run iobench with `options` and keep its results in the new capture directory `out`.

    `runner` says where it runs (`program.Runner`), by default on this machine; `facts` what is known of the machine
    (`manifest.FACTS`), by default of this one. A bar shows the progress. The capture holds ``raw/bench.rec``, also
    where repetitions are invalid; there is none where iobench wrote no results, or where the run was interrupted.
    Raises `InputError` where `out` exists, and for an option that only the caller can give.
    """
    if given := next((word for word in options if word.partition("=")[0] in _KEPT_HERE), None):
        raise InputError(f"{given}: the records are kept in the capture; name that with -o before --")
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name for the capture, or remove it first")
    known = _this_machine(options) if facts is None else facts
    with tempfile.TemporaryDirectory(prefix="androstep-bench-") as scratch:
        record = Path(scratch) / "bench.rec"
        with tqdm(total=100, unit="%", desc="iobench", disable=None, leave=False) as bar:
            status = runner(options, record, _show(bar))
        if not record.exists():
            return Run(status, None)
        return Run(status, capture.create([record], out, facts=known))


def _show(bar: tqdm[Any]) -> Callable[[str], None]:
    """Moves the bar by iobench's progress, and passes on everything else that it says."""

    def show(line: str) -> None:
        if found := _PROGRESS.fullmatch(line):
            bar.set_postfix_str(found[2], refresh=False)
            bar.update(int(found[1]) - bar.n)
        else:
            with bar.external_write_mode():
                print(visible(line), file=sys.stderr)

    return show


def _this_machine(options: Sequence[str]) -> dict[str, Any]:
    return {
        "device": platform.node() or None,
        "rooted": os.geteuid() == 0,
        "workload": " ".join(["iobench", *options]),
    }
