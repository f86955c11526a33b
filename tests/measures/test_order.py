"""Results that depend on the order of requests, where a recording rounds its times: against all possible orders."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from support import made

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.compare.measures import measured
from androstep_analysis.measures import REGISTRY, blocks, order
from androstep_analysis.measures.locality import classify
from androstep_analysis.measures.recording import Recording
from androstep_analysis.measures.reuse import distances, stack
from androstep_analysis.present import headline

pytestmark = pytest.mark.unit

ERROR = 11_000
DISKS = {"sda": made.DEV, "sdb": made.DEV + 16}

Row = tuple[int, str, str, int]
"""Time in ns, disk, operation, sector."""


def some_rows(seed: int, count: int) -> list[Row]:
    """Return requests of which some are close, and some follow each other on the disk."""
    chance = random.Random(seed)
    found: list[Row] = []
    now, end = 1_000_000, 0
    for _ in range(count):
        now += chance.choice((0, 3_000, ERROR, ERROR + 1_000, 60_000, 500_000))
        sector = chance.choice((end, 8 * chance.randrange(4)))
        found.append((now, chance.choice((*DISKS,)), chance.choice(("read", "write")), sector))
        end = sector + 8
    return found


def table(rows: list[Row], error: int | None = ERROR) -> pl.DataFrame:
    return made.table(
        "requests",
        [
            {
                "request_id": row,
                "dev": DISKS[disk],
                "op": op,
                "sector": sector,
                "issue_ns": at,
                "complete_ns": at + 100_000,
            }
            | {"issue_error_ns": error, "matched": "full"}
            for row, (at, disk, op, sector) in enumerate(rows)
        ],
    )


def possible_orders(rows: list[Row]) -> Iterator[tuple[int, ...]]:
    """Yield the rows in each order in which no request comes before one that is certainly earlier."""
    for found in itertools.permutations(range(len(rows))):
        times = [rows[row][0] for row in found]
        if all(later >= at - ERROR for at, later in itertools.combinations(times, 2)):
            yield found


def classes(rows: list[Row], found: tuple[int, ...]) -> dict[int, str]:
    """Return the class of each request if they were issued in this order."""
    ends: dict[tuple[str, str], int] = {}
    of: dict[int, str] = {}
    for row in found:
        _, disk, op, sector = rows[row]
        of[row] = "consecutive" if ends.get((disk, op)) == sector else "random"
        ends[disk, op] = sector + 8
    return of


def reused(rows: list[Row], found: tuple[int, ...]) -> dict[int, int]:
    """Return the reuse distance of each request's block if they were issued in this order."""
    past: list[tuple[str, int]] = []
    of: dict[int, int] = {}
    for row in found:
        block = rows[row][1], rows[row][3]
        of[row] = len({*past[len(past) - past[::-1].index(block) :]}) if block in past else -1
        past.append(block)
    return of


def stated_classes(rows: list[Row]) -> dict[int, str | None]:
    (part,) = classify(table(rows))
    kind = pl.when("consecutive").then(pl.lit("consecutive")).when("random").then(pl.lit("random"))
    return dict(part.select("request_id", kind).iter_rows())


def stated_distances(rows: list[Row]) -> dict[int, int | None]:
    with stack() as handle:
        ordered = order.with_order(table(rows), ())
        touched = blocks.with_sure(blocks.touches(ordered, ["request_id", order.IS_ORDERED], 4096))
        (part,) = (one.with_columns(distance=distances(handle, one)) for one in touched)
    return dict(part.select("request_id", pl.when("is_sure").then("distance")).iter_rows())


@pytest.mark.parametrize(
    ("stated", "true"), [(stated_classes, classes), (stated_distances, reused)], ids=["locality", "reuse"]
)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_stated_holds_in_every_possible_order(
    stated: Callable[[list[Row]], dict[int, object]], true: Callable[..., dict[int, object]], seed: int
) -> None:
    rows = some_rows(seed, 7)
    possible = [true(rows, found) for found in possible_orders(rows)]
    for row, what in stated(rows).items():
        assert what is None or {one[row] for one in possible} == {what}, row


def test_one_close_pair_leaves_the_rest_known() -> None:
    """The pair, and the request after it, may follow either of the two."""
    rows = [(60_000 * row, "sda", "read", 8 * row) for row in range(10)]
    rows[5] = (rows[4][0] + ERROR, *rows[5][1:])
    assert [row for row, what in stated_classes(rows).items() if what is None] == [4, 5, 6]
    found = measures.locality(table(rows)).filter(metric="count_ratio")
    assert dict(found.select("class", "value").iter_rows()) == {
        "consecutive": 6 / 7, "forward": 6 / 7, "random": 1 / 7, "unknown": 0.3
    }  # fmt: skip
    assert found["coverage"].unique().to_list() == [0.7]


def test_an_unknown_order_of_all_states_no_share() -> None:
    found = measures.locality(table([(0, "sda", "read", 8), (1, "sda", "read", 16)]))
    shares = dict(found.filter(metric="count_ratio").select("class", "value").iter_rows())
    assert shares == {"consecutive": None, "forward": None, "random": None, "unknown": 1}


@pytest.mark.parametrize(
    ("columns", "row", "error"),
    [
        ("op,offset:sectors,size:B,done:ms,response:ms", "R,{n},512,{n}.25,0.50", 20_000),
        ("op,offset:sectors,size:B,done:ms,response:us", "R,{n},512,{n}.25,50", 11_000),
        ("op,offset:sectors,size:B,done:ns,response:ns", "R,{n},512,{n}000,50", None),
        ("op,offset:sectors,size:B,time:ms,response:ms", "R,{n},512,{n}.25,0.50", None),
        ("op,offset:sectors,size:B,time:ms", "R,{n},512,{n}.25", None),
    ],
)
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_a_table_of_completions_and_durations_rounds_both(
    columns: str, row: str, error: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("".join(f"{row.format(n=n)}\n" for n in range(1, 5)))
    capture = androstep.create([path], tmp_path / "capture", androstep.Description(csv_columns=columns))
    assert capture.requests.collect()["issue_error_ns"].to_list() == [error] * 4
    assert capture.io.collect()["issue_error_ns"].to_list() == [error] * 4


def test_a_depth_between_close_events_is_unknown() -> None:
    """A process that reads one block at a time: the next issue seems to come 5 µs before the completion."""
    rows = [(95_000 * row, "sda", "read", 8 * row) for row in range(20)]
    exact, rounded = (
        measures.depth(table(rows, error)).filter(metric="max")["value"].item() for error in (None, ERROR)
    )
    assert (exact, rounded) == (2, 1)
    assert measures.queue(table(rows)).filter(metric="issued")["depth"].to_list() in ([], [1])


def clusters(rows: list[Row]) -> list[list[int]]:
    """Return the rows of each run of requests that are close to the previous one."""
    runs: list[list[int]] = []
    for row, (at, *_) in enumerate(rows):
        if runs and at - rows[row - 1][0] <= ERROR:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


HEADER = "TIME(s)     COMM           PID     DISK   T SECTOR     BYTES   QUE(ms) LAT(ms)\n"


def listed(rows: list[Row]) -> str:
    """Return the list that bcc prints of these requests, each of which takes 100 µs and waits 50 µs."""
    line = "{done:<11.6f} {comm:<14} {pid:<7} {disk:<6} {op:<1} {sector:<10} {size:<7} {que:7.2f} {took:7.2f}\n"
    same = {"comm": "dd", "pid": 7, "size": 4096, "que": 0.05, "took": 0.10}
    return HEADER + "".join(
        line.format(done=(at + 100_000) / 1e9, disk=disk, op=op[0].upper(), sector=sector, **same)
        for at, disk, op, sector in rows
    )


OF_ORDER = (
    "locality",
    "seeks",
    "seek_distances",
    "queue",
    "depth",
    "idle",
    "bursts",
    "reuse",
    "miss_ratio",
    "lifetimes",
)


def results(text: str, path: Path) -> dict[str, object]:
    """Return everything that the summary and the measures state of a list."""
    path.write_text(text)
    capture = androstep.open(path)
    recording = Recording.of(capture)
    found = {name: measured(recording, REGISTRY[name], None).table.drop("capture_id").rows() for name in OF_ORDER}
    policies = {f"of {one}": measures.miss_ratio(capture.io, policy=one).rows() for one in ("fifo", "s3fifo", "arc")}
    said = "\n".join(map(str, headline.of(capture).sentences))
    return {**found, **policies, "summary": [line for line in said.splitlines() if "random" in line]}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_requests_that_are_closer_than_the_resolution_may_change_places(seed: int, tmp_path: Path) -> None:
    """On one disk, whose lists have no other order."""
    rows = [(at, "sda", op, sector) for at, _, op, sector in some_rows(seed, 120)]
    chance = random.Random(seed)
    whole = results(listed(rows), tmp_path / "list.txt")
    for _ in range(3):
        moved = [
            (rows[at][0], *rows[row][1:])
            for run in clusters(rows)
            for at, row in zip(run, chance.sample(run, len(run)), strict=True)
        ]
        assert moved != rows
        assert results(listed(moved), tmp_path / "list.txt") == whole
