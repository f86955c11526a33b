"""Export the averages that btt prints by default (blktrace: btt/output.c), from table block_events.

Plugs, active periods and ranges of activity are omitted. Medians are exact; btt's depend on the shape of its tree and
may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Final

import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common import units
from androstep_analysis.measures import bio_steps, parts

_MAPPED: Final = (9, 253, 254)
"""Major numbers that btt treats as md and device-mapper.

The kernel may assign them to other drivers (virtio disks: 254).
"""

_NS: Final = 1e9

_OVERHEAD: Final = ("Q2G", "G2I", "Q2M", "I2D", "D2C")


def write(capture: Capture, file: BinaryIO) -> None:
    """Write the tables; write nothing if the capture has no block events.

    Memory holds the incomplete bios, and a count for each distance of a seek.
    """
    sums, distances = _counted(capture.block_events)
    if sums:
        # Devices are in order of their first event. btt does so even if it ignores that event because it precedes the
        # device's first bio.
        first = bio_steps.events(capture.block_events).group_by("dev").agg(pl.col("ts_ns").min()).sort("ts_ns", "dev")
        devices = first.collect()["dev"].to_list()
        file.write("".join(f"{line}\n" for line in _lines(sums, distances, devices)).encode())


Sums = dict[tuple[int, str], dict[str, int]]
"""n, min, max and total by device and step."""

Distances = dict[tuple[int, str], list[tuple[int, int]]]
"""Each seek distance with its count, sorted, by device and kind of seek."""


def _counted(block_events: pl.LazyFrame) -> tuple[Sums, Distances]:
    """Compute all figures in one pass."""
    by, value = ["dev", "step"], pl.col("value").abs()
    sums: Sums = {}
    counts: pl.DataFrame | None = None
    for batch in bio_steps.rows(block_events):
        found = batch.group_by(by, maintain_order=True).agg(
            n=pl.len(), min=value.min(), max=value.max(), total=value.sum()
        )
        for row in found.iter_rows(named=True):
            _add(sums.setdefault((row["dev"], row["step"]), {"n": 0, "total": 0}), row)
        seeks = batch.filter(pl.col("step").is_in(bio_steps.SEEKS)).group_by(*by, value).agg(n=pl.len().cast(pl.Int64))
        counts = parts.summed([seeks] if counts is None else [counts, seeks], [*by, "value"])
    distances: Distances = {}
    if counts is not None:
        for dev, step, distance, n in counts.sort("value").select(*by, "value", "n").iter_rows():
            distances.setdefault((dev, step), []).append((distance, n))
    return sums, distances


def _add(known: dict[str, int], more: Mapping[str, int]) -> None:
    known["min"] = min(known.get("min", more["min"]), more["min"])
    known["max"] = max(known.get("max", more["max"]), more["max"])
    known["n"] += more["n"]
    known["total"] += more["total"]


def _lines(sums: Sums, distances: Distances, devices: Sequence[int]) -> Iterator[str]:
    yield from _section("All Devices", _all(sums, devices))
    yield from _section("Device Overhead", _overhead(sums, devices))
    yield from _section("Device Merge Information", _merges(sums, devices))
    yield from _section("Device Q2Q Seek Information", _seeks(distances, devices, "Q2Q seek"))
    yield from _section("Device D2D Seek Information", _seeks(distances, devices, "D2D seek"))
    yield from _section("Active Requests At Q Information", _active(sums, devices))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"==================== {title} ===================="
    yield ""
    yield from lines
    yield ""


def _is_mapped(dev: int) -> bool:
    return dev >> units.MINOR_BITS in _MAPPED


def _name(dev: int) -> str:
    return f"({dev >> units.MINOR_BITS:3},{dev & (1 << units.MINOR_BITS) - 1:3})"


def _all(sums: Sums, devices: Sequence[int]) -> Iterator[str]:
    yield f"{'ALL':>15} {'MIN':>13} {'AVG':>13} {'MAX':>13} {'N':>11}"
    yield "--------------- ------------- ------------- ------------- -----------"
    mapped = [dev for dev in devices if _is_mapped(dev)]
    plain = [dev for dev in devices if not _is_mapped(dev)]
    for step in ("Q2Q", "Q2A", "Q2C"):
        yield from _average(f"{step}dm", sums, mapped, _of_all(step))
    yield ""
    for step in ("Q2Q", "Q2A", "Q2G", "S2G", "G2I", "Q2M", "I2D", "M2D", "D2C", "Q2C"):
        yield from _average(step, sums, plain if step in ("Q2Q", "Q2A", "Q2C") else devices, _of_all(step))


def _of_all(step: str) -> str:
    return "Q2Q all" if step == "Q2Q" else step


def _average(title: str, sums: Sums, devices: Sequence[int], step: str) -> Iterator[str]:
    """Yield the line of a step, unless no device has it."""
    found = {"n": 0, "total": 0}
    for dev in devices:
        if (dev, step) in sums:
            _add(found, sums[dev, step])
    if found["n"]:
        average = _seconds(found["total"]) / found["n"]
        numbers = f"{_seconds(found['min']):13.9f} {average:13.9f} {_seconds(found['max']):13.9f}"
        yield f"{title:<15} {numbers} {found['n']:11}"


def _seconds(ns: int) -> float:
    return ns // 10**9 + ns % 10**9 / _NS


def _total(sums: Sums, dev: int, step: str) -> int:
    return sums[dev, step]["total"] if (dev, step) in sums else 0


def _overhead(sums: Sums, devices: Sequence[int]) -> Iterator[str]:
    rule = "---------- | --------- --------- --------- --------- ---------"
    yield f"{'DEV':>10} | " + " ".join(f"{step:>9}" for step in _OVERHEAD)
    yield rule
    shown = [dev for dev in devices if not _is_mapped(dev) and _total(sums, dev, "Q2C")]
    for dev in shown:
        yield _shares(_name(dev), sums, [dev])
    if any(_count(sums, dev, step) > 0 for dev in shown for step in _OVERHEAD):
        yield rule
        yield _shares("Overall", sums, shown)


def _shares(title: str, sums: Sums, devices: Sequence[int]) -> str:
    whole = sum(_total(sums, dev, "Q2C") for dev in devices)
    shares = (100 * (sum(_total(sums, dev, step) for dev in devices) / whole) for step in _OVERHEAD)
    return f"{title:>10} | " + " ".join(f"{share:8.4f}%" for share in shares)


def _count(sums: Sums, dev: int, step: str) -> int:
    return sums[dev, step]["n"] if (dev, step) in sums else 0


def _queued(sums: Sums, dev: int) -> int:
    """Return the number of queued bios, or of issued requests if that is larger, as btt does."""
    queued, issued = _count(sums, dev, bio_steps.ACTIVE), _count(sums, dev, "D2D seek")
    return max(queued, issued) if queued else 0


def _merges(sums: Sums, devices: Sequence[int]) -> Iterator[str]:
    titles = ("#Q", "#D", "Ratio", "BLKmin", "BLKavg", "BLKmax", "Total")
    header = "{:>10} | {:>8} {:>8} {:>7} | {:>8} {:>8} {:>8} {:>8}".format("DEV", *titles)
    rule = "---------- | -------- -------- ------- | -------- -------- -------- --------"
    yield header
    yield rule
    shown = [dev for dev in devices if _queued(sums, dev) and _count(sums, dev, "D2D seek")]
    none = {"n": 0, "min": 0, "max": 0, "total": 0}
    blocks = [sums.get((dev, bio_steps.BLOCKS), none) for dev in shown]
    rows = [(_queued(sums, dev), _count(sums, dev, "D2D seek")) for dev in shown]
    for dev, (queued, issued), of in zip(shown, rows, blocks, strict=True):
        yield _merged(_name(dev), queued, issued, (of["min"], of["max"], of["total"]))
    if len(shown) > 1:
        whole = (min(of["min"] for of in blocks), max(of["max"] for of in blocks), sum(of["total"] for of in blocks))
        yield rule
        yield header
        yield _merged("TOTAL", sum(queued for queued, _ in rows), sum(issued for _, issued in rows), whole)


def _merged(title: str, queued: int, issued: int, blocks: tuple[int, int, int]) -> str:
    least, most, total = blocks
    counts = f"{queued:8} {issued:8} {queued / issued:7.1f}"
    return f"{title:>10} | {counts} | {least:8} {total // issued:8} {most:8} {total:8}"


def _seeks(distances: Distances, devices: Sequence[int], step: str) -> Iterator[str]:
    columns = ("NSEEKS", "MEAN", "MEDIAN", "MODE")
    rule = "---------- | --------------- --------------- --------------- | ---------------"
    row = "{:>10} | {:>15} {:>15} {:>15} | {:<15}".format
    yield row("DEV", *columns)
    yield rule
    by_device = {dev: distances[dev, step] for dev in devices if (dev, step) in distances}
    counts = {dev: sum(n for _, n in of) for dev, of in by_device.items()}
    sectors = {dev: float(sum(distance * n for distance, n in of)) for dev, of in by_device.items()}
    medians = {dev: _median(of) for dev, of in by_device.items()}
    modes = {dev: _modes(of) for dev, of in by_device.items()}
    for dev in by_device:
        yield from _seek_lines(_name(dev), counts[dev], sectors[dev] / counts[dev], medians[dev], modes[dev])
    if by_device:
        whole = sum(counts.values())
        median = sum(medians[dev] * counts[dev] for dev in by_device) // whole
        yield rule
        yield row("Overall", *columns)
        yield from _overall(whole, sum(sectors.values()) / whole, median, list(modes.values()))


def _median(of: Sequence[tuple[int, int]]) -> int:
    """Return the smallest distance that at least half of the seeks did not exceed."""
    wanted = sum(n for _, n in of) // 2
    for distance, n in of:
        wanted -= n
        if wanted <= 0:
            return distance
    return 0


Modes = tuple[list[int], int]
"""The most frequent distances, and their count."""


def _modes(of: Sequence[tuple[int, int]]) -> Modes:
    most = max(n for _, n in of)
    return [distance for distance, n in of if n == most], most


def _seek_head(title: str, count: int, mean: float, median: int, mode: int, most: int) -> str:
    return f"{title:>10} | {count:15} {mean:15.1f} {median:15} | {mode}({most})"


def _more(count: int) -> str:
    return f"{'...(':>67}{count} more)"


def _seek_lines(title: str, count: int, mean: float, median: int, modes: Modes) -> Iterator[str]:
    values, most = modes
    head = _seek_head(title, count, mean, median, values[0], most)
    if len(values) > 2:
        yield head
        yield _more(len(values) - 1)
        yield ""
    else:
        yield " ".join([head, *(str(value) for value in values[1:])])


def _overall(count: int, mean: float, median: int, modes: Sequence[Modes]) -> Iterator[str]:
    """Yield the line for all devices. A distance that is a mode of several devices has the sum of their counts."""
    known: dict[int, int] = {}
    for values, most in modes:
        for value in values:
            known[value] = known.get(value, 0) + most
    most = max(known.values())
    best = [value for value, n in known.items() if n == most]
    yield _seek_head("Average", count, mean, median, best[0], most)
    if len(best) > 1:
        yield _more(len(best) - 1)
        yield ""


def _active(sums: Sums, devices: Sequence[int]) -> Iterator[str]:
    rule = "---------- | -------------"
    yield f"{'DEV':>10} | {'Avg Reqs @ Q':>13}"
    yield rule
    shown = [dev for dev in devices if not _is_mapped(dev) and _queued(sums, dev) > 0]
    for dev in shown:
        yield f"{_name(dev):>10} | {_total(sums, dev, bio_steps.ACTIVE) / _queued(sums, dev):13.1f}"
    if len(shown) > 1:
        whole = sum(_total(sums, dev, bio_steps.ACTIVE) for dev in shown) / sum(_queued(sums, dev) for dev in shown)
        yield rule
        yield f"{'Overall':>10} | {'Avgs Reqs @ Q':>13}"
        yield f"{'Average':>10} | {whole:13.1f}"
