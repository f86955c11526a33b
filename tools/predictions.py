"""Write docs/predictions.md: predictions for the devices of datasets/whatif, and the measured replays.

python tools/predictions.py [FILE] writes to FILE, else to standard output. `make tables` calls it; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import polars as pl

sys.path.append(str(Path(__file__).resolve().parents[1] / "datasets" / "whatif"))
from programs import changes, in_order

from androstep_analysis import bench, whatif
from androstep_analysis.replay import device

STORED = Path(__file__).resolve().parents[1] / "datasets" / "whatif"

PAGE = """\
# Accuracy of predictions

<!-- Written by `make tables` from datasets/whatif; do not edit. -->

The requests of a messenger app (`datasets/whatif/messages`) were replayed as fast as possible on four kinds of devices,
as recorded and after each change. The predictions use the results of `androstep model build` on the same device.
`datasets/whatif/record.py` recorded everything on an idle virtual machine. No number is of a phone.

## Time

Predicted time divided by measured time, until the last request has completed. The interval combines both intervals.

{times}

## Effect of a change

Time after the change divided by time before it: predicted, measured, and the ratio of both with its interval.

{ratios}

## EasyCo's controller

Time of the same requests on the emulated card, and on the same card with the controller (`card.py --log-structured`).
Each request begins when the previous one has completed.

{easyco}
"""

DEVICES = {
    "disk": "disk",
    "memory": "memory",
    "throttled": "throttled by Linux",
    "card": "emulated card",
}

CHANGES = {
    "before": "as recorded",
    "no_journal": "no journal",
    "no_fsync": "no fsync",
    "log_structured": "log-structured",
}

IN_CARD = {"capacity_bytes": 96 << 20, "spare_ratio": 16 / 96, "segment_bytes": 1 << 20}
"""The controller of card.py. All of the device is in use at the start."""


class Times(NamedTuple):
    """Nanoseconds with an interval."""

    value: float
    lo: float
    hi: float

    def over(self, other: Times) -> Times:
        """Return the ratio and its bounds."""
        return Times(self.value / other.value, self.lo / other.hi, self.hi / other.lo)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.lo:.2f}, {self.hi:.2f}]"


def model(kind: str) -> pl.DataFrame:
    """Return the cost model of a device."""
    return whatif.fit(bench.read(*sorted((STORED / f"model_{kind}").glob("*.xz"))).tables)


def compared(kind: str, change: str, requests: pl.LazyFrame, costs: pl.DataFrame) -> tuple[Times, Times]:
    """Return the predicted time of the requests as fast as possible, and the measured time of that change's replays."""
    totals = whatif.predict(device.program(requests), costs).totals
    rows = pl.read_csv(STORED / f"replays_{kind}" / "measured.csv", schema_overrides={"quantile": pl.String})
    replays = rows.filter(trace="messages", change=change, mode="as_fast").rename({"value_ns": "value"})
    found = whatif.accuracy(totals, replays).filter(metric="elapsed")
    said, took = (found.select(name, f"{name}_lo", f"{name}_hi").row(0) for name in ("predicted", "measured"))
    return Times(*said), Times(*took)


def row(*cells: object) -> str:
    """Format a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(header: list[str], rows: list[list[object]]) -> str:
    """Format a Markdown table."""
    return "\n".join([row(*header), "|" + "---|" * len(header), *(row(*cells) for cells in rows)])


def page() -> str:
    """Return the whole page."""
    requests = changes(STORED / "messages")
    models = {kind: model(kind) for kind in DEVICES}
    absolute: list[list[object]] = []
    ratios: list[list[object]] = []
    for kind, name in DEVICES.items():
        sides = [compared(kind, change, requests[change], models[kind]) for change in CHANGES]
        absolute.append([name, *(said.over(took) for said, took in sides)])
        ratios.append([name, *(ratio(sides[0], side) for side in sides[1:])])
    return PAGE.format(
        times=table(["device", *CHANGES.values()], absolute),
        ratios=table(["device", *list(CHANGES.values())[1:]], ratios),
        easyco=table(["card", "predicted", "measured", "ratio"], easyco(requests["before"], models["card"])),
    )


def ratio(before: tuple[Times, Times], after: tuple[Times, Times]) -> str:
    """Format the effect of a change: predicted, measured, and predicted over measured."""
    said, took = (one.over(other) for one, other in zip(after, before, strict=True))
    return f"{said.value:.3f}, {took.value:.3f}: {said.over(took)}"


def easyco(requests: pl.LazyFrame, costs: pl.DataFrame) -> list[list[object]]:
    """Return the rows of the card without the controller, with it, and the ratio of both."""
    ordered = in_order(requests)
    layered = whatif.log_structured(ordered, **IN_CARD).requests.lazy()
    sides = [compared("card", "in_order", ordered, costs), compared("card_log", "in_order", layered, costs)]
    rows: list[list[object]] = [
        [name, f"{said.value / 1e9:.3f} s", f"{took.value / 1e9:.3f} s", said.over(took)]
        for name, (said, took) in zip(("without", "with the controller"), sides, strict=True)
    ]
    said, took = (after.over(before) for before, after in zip(*sides, strict=True))
    return [*rows, ["ratio", f"{said.value:.4f}", f"{took.value:.4f}", said.over(took)]]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
