"""The explorer: its results against polars and plain Python, the details of requests, and its page in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import expect
from support import made
from support.lab import browser, lab, page_of, run_cell
from support.pages import HOSTILE

from androstep_analysis import capture, measures, schema
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.common.markup import visible
from androstep_analysis.explore import Explorer
from androstep_analysis.explore.files import Entry, Files
from androstep_analysis.explore.pieces import NO_GROUP, PLANES, Pieces, View
from androstep_analysis.explore.story import Stories

pytestmark = pytest.mark.sanitized

DEMO = Path(__file__).parents[2] / "datasets" / "demo"


@pytest.fixture(scope="module")
def demo() -> Capture:
    return capture.open(DEMO)


@pytest.fixture
def pieces(demo: Capture) -> Pieces:
    return Pieces(demo.io)


@pytest.fixture
def io(demo: Capture, pieces: Pieces) -> pl.DataFrame:
    """Return the pieces from the table, in the order of the explorer."""
    return measures.counted(demo.io).collect()[pieces.row]


def whole(pieces: Pieces, of: str) -> View:
    return View(of, int(pieces.begin_ns[0]), int(pieces.begin_ns[-1]) + 1, *pieces.axes[of])


@pytest.mark.parametrize("sector", [None, 0])
@pytest.mark.parametrize("count", [1, 2])
def test_flushes_alone_lie_nowhere(sector: int | None, count: int) -> None:
    rows = [
        {"op": "flush", "sector": sector, "nr_sectors": 0, "issue_ns": number, "complete_ns": 500}
        for number in range(count)
    ]
    flushes = made.capture(rows)
    pieces = Pieces(flushes.io)
    assert pieces.axes.keys() == {"latency"}
    assert pieces.place.tolist() == [-1 if sector is None else 0] * count
    assert flushes.explore() is not None


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["sector", "file", "latency"])
def test_pictures_are_of_all_pieces_in_their_window(pieces: Pieces, io: pl.DataFrame, of: str) -> None:
    """Each piece in its cell; one right behind another of its request in the same cell is no second one."""
    begin, end, low, high = whole(pieces, of)[1:]
    view = View(of, begin + (end - begin) // 7, end - (end - begin) // 5, low + (high - low) / 9.1, high)
    pieces.choose("operation", [(0, 2)])
    took = (io["complete_ns"] - io["issue_ns"]).to_list()
    sectors, ops, requests = (io[name].to_list() for name in ("sector", "op", "request_id"))
    expected = np.zeros((len(PLANES), 30, 40), np.uint32)
    without, latest = 0, None
    for row, time_ns in enumerate(pieces.begin_ns.tolist()):
        if not view.begin_ns <= time_ns < view.end_ns or ops[row] not in ("read", "write"):
            continue
        value = {
            "sector": sectors[row],
            "latency": None if not took[row] else float(np.log10(np.float32(took[row]))),
            "file": int(pieces.files.numbers[pieces.row[row]]),
        }[of]
        if value is None:
            without += 1
        elif view.low <= value < view.high:
            x = int((time_ns - view.begin_ns) / (view.end_ns - view.begin_ns) * 40)
            y = int((value - view.low) / (view.high - view.low) * 30)
            here = (("read", "write").index(ops[row]), y, x), requests[row]
            expected[here[0]] += here != latest
            latest = here
    cells, untold = pieces.cells(view, 40, 30)
    assert expected.sum() > 500
    assert (cells.tolist(), untold) == (expected.tolist(), without)


def test_few_pieces_are_those_under_way(pieces: Pieces) -> None:
    """Also those that began before; not those of which no end is known."""
    at = int(np.argmax(pieces.took_ns))
    begin = int(pieces.begin_ns[at]) + int(pieces.took_ns[at]) // 2
    view = View("sector", begin, begin + 1_000_000, *pieces.axes["sector"])
    ends = pieces.begin_ns + np.nan_to_num(pieces.took_ns, nan=-1.0)
    expected = (pieces.begin_ns < view.end_ns) & (ends >= view.begin_ns) & (pieces.place >= 0)
    rows, is_all = pieces.rows(view, 1000)
    assert is_all and at in rows
    assert rows.tolist() == np.flatnonzero(expected).tolist()
    some, is_all = pieces.rows(whole(pieces, "sector"), 100)
    assert (len(some), is_all) == (100, False)


def test_nearest(pieces: Pieces) -> None:
    for row in range(0, len(pieces), 501):
        if pieces.place[row] < 0:
            continue
        begin, place = int(pieces.begin_ns[row]), float(pieces.place[row])
        view = View("sector", begin - 1000, begin + 1000, place - 40, place + 40)
        found = pieces.nearest(view)
        assert found is not None and abs(pieces.place[found] - place) <= 1
        assert found == row or pieces.begin_ns[found] <= begin
    nothing = View("sector", int(pieces.begin_ns[-1]) + 10**12, int(pieces.begin_ns[-1]) + 2 * 10**12, 0, 1e9)
    assert pieces.nearest(nothing) is None


def test_the_next_piece_is_one_that_is_selected(pieces: Pieces) -> None:
    pieces.choose("operation", [(0, 1)])
    reads = np.flatnonzero(pieces.plane == 0).tolist()
    assert pieces.neighbour(-1, 1) == reads[0]
    assert pieces.neighbour(reads[0], 1) == reads[1] and pieces.neighbour(reads[1], -1) == reads[0]
    assert pieces.neighbour(reads[-1], 1) is None and pieces.neighbour(reads[0], -1) is None


# -- lists and selection ----------------------------------------------------------------------------------------------

COLUMNS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "process": lambda row: None if row["owner_comm"] is None else (row["owner_comm"], row["owner_pid"]),
    "block type": lambda row: row["block_type"],
    "operation": lambda row: row["op"],
    "file": lambda row: row["path"] or (None if row["ino"] is None else (row["ino"], row["incarnation"])),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_lists_count_what_no_other_filter_excludes(pieces: Pieces, io: pl.DataFrame, name: str) -> None:
    """Requests and bytes of each entry, in the window, by all filters but the list's own."""
    pieces.choose("operation", [(0, 1), (1, 2)])
    pieces.choose("block type", [(0, 1), (2, 3)])
    pieces.choose(name, [(1, 3)])
    view = whole(pieces, "sector")._replace(end_ns=int(pieces.begin_ns[len(pieces) // 2]))
    allowed = {"operation": ("read", "write"), "block type": ("data", "journal")}
    expected: dict[Any, tuple[set[int], int]] = {}
    for row, time_ns in zip(io.iter_rows(named=True), pieces.begin_ns.tolist(), strict=True):
        others = [COLUMNS[other](row) in words for other, words in allowed.items() if other != name]
        if time_ns < view.end_ns and all(others):
            requests, nr_bytes = expected.get(COLUMNS[name](row), (set(), 0))
            expected[COLUMNS[name](row)] = requests | {row["request_id"]}, nr_bytes + row["bytes"]
    counts = pieces.counts(name, view)
    found = sorted((int(count), int(size)) for count, size in zip(*counts, strict=True) if count)
    assert len(found) > 1
    assert found == sorted((len(requests), nr_bytes) for requests, nr_bytes in expected.values())


def test_a_selection_is_what_polars_filters(demo: Capture) -> None:
    explorer = demo.explore()
    about = told(explorer, "about")
    assert explorer.selection.equals(measures.counted(demo.io).collect())
    lists = told(explorer, "lists", view=view_of(about, "sector"), open=[])["lists"]
    mail = next(row for row in lists["process"] if row["name"].startswith(".example.mail"))
    told(explorer, "brush", dimension="process", ranges=[(mail["first"], mail["last"])])
    box = view_of(about, "sector") | {"begin_ns": 1e9, "end_ns": 5e9, "low": 4000, "high": 20000}
    told(explorer, "box", view=box)
    begin = demo.first_ns
    assert begin is not None
    expected = measures.counted(demo.io).filter(
        pl.col("owner_comm") == ".example.mail",
        measures.order_ns().is_between(begin + 10**9, begin + 5 * 10**9, "left"),
        pl.col("sector").is_between(4000, 20000, "left"),
    )
    assert 0 < explorer.selection.height < 2000
    assert explorer.selection.equals(expected.collect())
    counts = told(explorer, "lists", view=view_of(about, "sector"), open=[])
    assert counts["selected"].startswith(f"{explorer.selection['request_id'].n_unique():,} requests")
    told(explorer, "clear")
    assert explorer.selection.height == measures.counted(demo.io).collect().height


def test_a_request_of_two_files_is_one_request(demo: Capture) -> None:
    """Of a directory that holds both, and in all."""
    table = rows_of_io([{"path": "/a/x"}, {"path": "/a/y", "piece": 1}, {"path": "/b", "request_id": 1}])
    explorer = Explorer(demo.tables | {"io": table}, "made")
    about = told(explorer, "about")
    lists = told(explorer, "lists", view=view_of(about, "sector"), open=[])
    assert lists["shown"] == "2 requests, 12 KiB"
    top = [row for row in lists["lists"]["file"] if row["requests"]]
    assert [(row["name"], row["requests"]) for row in top] == [("/", 2)]
    opened = told(explorer, "lists", view=view_of(about, "sector"), open=[(top[0]["first"], top[0]["last"])])
    rows = [(row["name"], row["depth"], row["requests"]) for row in opened["lists"]["file"] if row["requests"]]
    assert rows == [("/", 0, 2), ("a/", 1, 1), ("b", 1, 1)]


# -- files ------------------------------------------------------------------------------------------------------------


def tree(files: Files, most: int = 100) -> list[tuple[int, str]]:
    """Return all entries with their depth."""
    weights = np.ones(len(files), np.uint32)

    def below(entries: list[Entry]) -> list[tuple[int, str]]:
        found = []
        for entry in entries:
            found.append((entry.depth, entry.name))
            found += below(files.children(entry, weights, most)[0]) if entry.is_directory else []
        return found

    return below(files.top(weights, most)[0])


def test_the_tree_of_files() -> None:
    paths = ["/data/a", "/data/a-b/c", "/data/a/b", "/data/a/c/d", None, "/data/a", None, "name"]
    numbers = [None, None, None, None, None, None, 7, None]
    files = Files(rows_of_io([{"path": path, "ino": ino} for path, ino in zip(paths, numbers, strict=True)]))
    assert tree(files) == [
        (0, "no file known"),
        (0, "inodes without a known path"),
        (1, "inode 7"),
        (0, "/data/"),
        (1, "a/"),
        (2, "(the directory itself)"),
        (2, "b"),
        (2, "c/d"),
        (1, "a-b/c"),
        (0, "name"),
    ]
    assert [files.name(int(number)) for number in files.numbers] == [
        *paths[:4], "no file known", "/data/a", "inode 7", "name"
    ]  # fmt: skip


def test_a_large_directory_shows_those_with_most() -> None:
    files = Files(rows_of_io([{"path": f"/d/{number:03}"} for number in range(300)]))
    weights = np.zeros(len(files), np.uint32)
    weights[[5, 250, 299]] = 7
    (_, directory), _ = files.top(weights, 100)
    entries, more = files.children(directory, weights, 3)
    assert [entry.name for entry in entries] == ["004", "249", "298"] and more == 297


def test_groups_leave_out_what_is_in_none(pieces: Pieces) -> None:
    view = whole(pieces, "sector")
    single = pieces.counts("operation", view)
    groups = np.full(int(pieces.dimensions["operation"].codes.max()) + 1, NO_GROUP, np.uint32)
    groups[[0, 1]] = 0
    grouped = pieces.counts("operation", view, groups)
    assert grouped.requests.tolist() == [single.requests[:2].sum()]


# -- details of requests ----------------------------------------------------------------------------------------------


def rows_of_io(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    """Return table io with writes of one block each, one request after the other by default."""
    usual = {"piece": 0, "dev": 1 << 20, "nr_sectors": 8, "bytes": 4096, "op": "write", "block_type": "data"}
    made = [
        usual | {"request_id": 0, "sector": 8 * n, "issue_ns": 100, "owner_via": "unknown"} | row
        for n, row in enumerate(rows)
    ]
    return of_schema("io", made)


def of_schema(name: str, rows: list[dict[str, Any]]) -> pl.LazyFrame:
    columns = schema.table(name).columns
    return pl.DataFrame(
        [pl.Series(one.name, [row.get(one.name) for row in rows], strict=False).cast(one.polars) for one in columns]
    ).lazy()


def stories(events: list[dict[str, Any]], lost: Losses | None = None, **request: Any) -> dict[str, str]:
    """Return the details of a request that writes the second page of inode 12 at 1000 ns, after a write at 500 ns."""
    requests = [
        {"request_id": n, "dev": 1 << 20, "part_dev": 1 << 20, "sector": 8, "nr_sectors": 8, "op": "write"}
        | {"queue_ns": time, "issue_ns": time + 100, "nr_bios": 1, "matched": "no_complete", "submit_comm": "kworker"}
        for n, time in enumerate((500, 1000))
    ]
    piece = {"ino": 12, "file_offset_bytes": 4096}
    pieces = [piece | {"request_id": n, "queue_ns": time} for n, time in enumerate((500, 1000))]
    pieces[1] |= request
    events = [{"dev": 1 << 20, "ino": 12, "tid": 7, "comm": "app"} | event for event in events]
    tables = {
        "requests": of_schema("requests", requests),
        "io": rows_of_io(pieces),
        "fs_events": of_schema("fs_events", events),
    }
    told = Stories(tables, 4096, 0, Losses() if lost is None else lost).tell(1, 0)
    return {name: text for section in told for name, text in section.lines}


WRITE = {"event": "ext4_da_write_begin", "offset_bytes": 4000, "nr_bytes": 200}
DIRTY = {"event": "writeback_dirty_folio", "page": 1}


def test_a_story_tells_who_wrote_and_when_it_became_dirty() -> None:
    other = {"ts_ns": 700, "comm": "other", "tid": 8}
    told = stories([WRITE | {"ts_ns": 600}, DIRTY | {"ts_ns": 601}, WRITE | other, DIRTY | {"ts_ns": 900, "page": 2}])
    assert told["written by"] == (
        "other (8), app (7): 2 × write, the last at 0.000001 s since its writeback at 0.000000 s"
    )
    assert told["became dirty"] == "at 0.000001 s, by app (7)"
    assert told["waited in the cache"] == "399 ns until it was queued"
    assert told["submitted by"] == "kworker" and told["owner"].startswith("unknown")
    assert told["issue"] == "at 0.000001 s, 100 ns after queue"
    assert told["complete"].startswith("unknown") and told["result"].startswith("unknown")
    assert told["transaction"].startswith("unknown")


@pytest.mark.parametrize(
    "events",
    [
        [WRITE | {"ts_ns": 400}, DIRTY | {"ts_ns": 401}],  # before the previous writeback
        [WRITE | {"ts_ns": 1100}, DIRTY | {"ts_ns": 1101}],  # after it was queued
        [WRITE | {"ts_ns": 600, "offset_bytes": 8192}, DIRTY | {"ts_ns": 601, "page": 2}],  # of other bytes
        [WRITE | {"ts_ns": 600, "ino": 13}, DIRTY | {"ts_ns": 601, "ino": 13}],  # of another file
        [WRITE | {"ts_ns": 600}, DIRTY | {"ts_ns": 601}, {"event": "ext4_free_inode", "ts_ns": 700}],  # deleted file
    ],
)
def test_a_story_does_not_tell_of_other_writes(events: list[dict[str, Any]]) -> None:
    told = stories(events)
    assert told["written by"].startswith("unknown") and told["became dirty"].startswith("unknown")


def test_a_folio_of_several_pages_is_told_by_its_first() -> None:
    cached = {"event": "mm_filemap_add_to_page_cache", "page": 0, "page_order": 2, "ts_ns": 590}
    assert stories([cached, DIRTY | {"page": 0, "ts_ns": 600}])["became dirty"].startswith("at")
    assert stories([DIRTY | {"page": 0, "ts_ns": 600}])["became dirty"].startswith("unknown")


def test_what_left_the_cache_is_not_what_became_dirty() -> None:
    dropped = {"event": "mm_filemap_delete_from_page_cache", "page": 1, "ts_ns": 700}
    assert "left the page cache" in stories([DIRTY | {"ts_ns": 600}, dropped])["became dirty"]


def test_lost_events_are_told() -> None:
    loss = Loss("missing", 3, "3 events are missing", ("fs_events",), None, ((550, 650),))
    events = [WRITE | {"ts_ns": 600}]
    assert "lost" in stories(events, Losses([loss])) and "lost" not in stories(events)


def test_the_transaction_of_a_block_of_the_journal() -> None:
    commit = [
        {"event": "jbd2_start_commit", "ts_ns": 900, "transaction": 5, "comm": "jbd2"},
        {"event": "jbd2_end_commit", "ts_ns": 1100, "transaction": 5, "comm": "jbd2"},
        {"event": "jbd2_handle_stats", "ts_ns": 800, "transaction": 5, "nr_blocks": 2, "comm": "installd", "tid": 9},
        {"event": "jbd2_handle_stats", "ts_ns": 800, "transaction": 5, "nr_blocks": 0, "comm": "idle", "tid": 10},
    ]
    told = stories(commit, block_type="journal")
    assert told["transaction"].startswith("transaction 5, ") and told["changed in it by"] == "installd (9)"
    assert stories(commit)["being committed then"].startswith("transaction 5, ")
    early = [event | {"ts_ns": event["ts_ns"] - 500} for event in commit]
    assert stories(early, block_type="journal")["transaction"].startswith("unknown")
    assert stories(early)["being committed then"] == "none"


# -- what there is not ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "task", "reason"),
    [
        ({}, {}, "the processes that own the pieces are unknown"),
        ({"owner_pid": 7}, {}, "no listing of processes has the users"),
        (
            {"owner_pid": 7},
            {"pid": 8, "uid": 10_010, "package": "com.example"},
            "no listing of processes has the users",
        ),
        ({"owner_pid": 7}, {"pid": 7, "uid": 10_010}, "no list of packages was recorded"),
        ({"owner_pid": 7}, {"pid": 7, "uid": 1000, "package": "com.example"}, "no owner is a process of a listed"),
    ],
)
def test_why_apps_are_unknown(owner: dict[str, int], task: dict[str, Any], reason: str, demo: Capture) -> None:
    unknown = {"owner_pid": None, "owner_package": None} | owner
    types = {name: demo.io.collect_schema()[name] for name in unknown}
    io = demo.io.head(9).with_columns(pl.lit(value, types[name]).alias(name) for name, value in unknown.items())
    tasks = demo.tables["tasks"].head(0).collect()
    tasks = pl.concat([tasks, pl.DataFrame([task], tasks.schema)]) if task else tasks
    assert reason in Pieces(io, tasks.lazy()).dimensions["app"].absent
    named = io.with_columns(owner_package=pl.lit("com.example"))
    assert Pieces(named, tasks.lazy()).dimensions["app"].absent == ""


def test_a_recording_without_files_and_processes_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("".join(f"{n}.5,W,{n * 4096},4096\n" for n in range(9)))
    explorer = capture.open(path, csv_columns="time:s,op,offset:B,size:B").explore()
    about = told(explorer, "about")
    absent = {one["name"]: one["absent"] for one in about["dimensions"] if one["absent"]}
    assert absent.keys() >= {"file", "app", "process"}
    assert "file" not in about["axes"] and "latency" not in about["axes"]
    lists = told(explorer, "lists", view=view_of(about, "sector"), open=[])["lists"]
    assert lists.keys().isdisjoint(absent)
    story = dict(
        line for one in told(explorer, "story", row=None, begin_ns=0, by=1)["sections"] for line in one["lines"]
    )
    assert story["submitted by"] == "unknown" and story["complete"].startswith("unknown")


def test_without_requests_there_is_nothing_to_explore(demo: Capture) -> None:
    with pytest.raises(InputError, match="made: no requests to explore"):
        Explorer(demo.tables | {"io": schema.empty("io").lazy()}, "made")


# -- messages and the page --------------------------------------------------------------------------------------------


def told(explorer: Explorer, kind: str, **message: Any) -> dict[str, Any]:
    """Return Python's answer to a message of the page."""
    sent: list[dict[str, Any]] = []
    explorer.widget.send = lambda content, buffers=None: sent.append(content)
    explorer._answer({"kind": kind, "from": "a test", **message})
    (answer,) = sent
    assert answer["from"] == "a test"
    return answer


def view_of(about: dict[str, Any], of: str) -> dict[str, Any]:
    low, high = about["axes"][of]
    return {"of": of, "begin_ns": about["begin"], "end_ns": about["end"], "low": low, "high": high}


@pytest.mark.prove
def test_in_jupyterlab(tmp_path: Path) -> None:
    """Wheel, keys, box, lists, story and selection; names that want to be markup are text."""
    made = f"""
import polars as pl
import androstep_analysis as androstep
from androstep_analysis.explore import Explorer
capture = androstep.open({str(DEMO)!r})
names = {list(HOSTILE)!r}
hostile = "/hostile/" + pl.col("ino").replace_strict(dict(enumerate(names, 30)), default=None, return_dtype=pl.String)
comm = pl.when(pl.col("owner_comm") == ".example.mail").then(pl.lit(names[1])).otherwise("owner_comm")
io = capture.io.with_columns(path=pl.coalesce(hostile, "path"), owner_comm=comm)
explorer = Explorer(capture.tables | {{"io": io}}, names[0], begin_ns=capture.first_ns)
explorer
"""
    mail = capture.open(DEMO).io.filter(owner_comm=".example.mail").select("owner_pid").unique().collect().item()
    with lab(tmp_path, made.strip()) as address, browser() as started, page_of(started) as page:
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)) if "explorer" in str(error.stack) else None)
        run_cell(page, address)
        explorer = page.locator(".androstep-explorer")
        canvas = explorer.locator("canvas")

        def drawn(other: str = "") -> dict[str, Any]:
            handle = page.wait_for_function(
                "other => { const shown = document.querySelector('.androstep-explorer canvas')?.dataset.shown;"
                " return shown && shown !== other && JSON.parse(shown) }",
                arg=other,
            )
            found: dict[str, Any] = handle.json_value()
            return found

        def span(view: dict[str, Any]) -> float:
            return float(view["end_ns"] - view["begin_ns"])

        def pressed(key: str) -> dict[str, Any]:
            before = canvas.get_attribute("data-shown") or ""
            canvas.press(key)
            return drawn(before)

        all_of_it = drawn()
        status = explorer.get_by_role("status")
        expect(status).to_contain_text(f"{capture.open(DEMO).requests.collect().height:,} requests")
        expect(explorer.get_by_text(visible(HOSTILE[0]), exact=True)).to_be_visible()

        # As in Perfetto: w and s, a and d, and the wheel; JupyterLab takes none of these keys.
        nearer = pressed("w")
        assert span(nearer) < span(all_of_it)
        right = pressed("d")
        assert right["begin_ns"] > nearer["begin_ns"] and span(right) == pytest.approx(span(nearer))
        assert pressed("a")["begin_ns"] == pytest.approx(nearer["begin_ns"], abs=1000)
        assert span(pressed("s")) == pytest.approx(span(all_of_it), rel=0.01)
        place = canvas.bounding_box()
        assert place is not None
        before = canvas.get_attribute("data-shown") or ""
        page.mouse.move(place["x"] + 400, place["y"] + 100)
        page.mouse.wheel(0, -400)
        assert span(drawn(before)) < span(all_of_it)
        assert page.locator(".jp-Notebook .jp-CodeCell").count() == 2
        pressed("Home")
        page.wait_for_timeout(300)
        page.screenshot(path=tmp_path / "before.png")

        # A box filters the lists, an entry of a list the box.
        page.mouse.move(place["x"] + 300, place["y"] + 100)
        page.mouse.down()
        page.mouse.move(place["x"] + 500, place["y"] + 250, steps=4)
        page.mouse.up()
        expect(status).to_contain_text("in the box")
        hostile = explorer.get_by_role("button", name=visible(HOSTILE[1]))
        hostile.first.click()
        expect(explorer.locator(".entry[aria-pressed=true]")).to_have_count(1)
        expect(explorer.locator(".entry", has_text="data").first).to_be_visible()
        page.wait_for_timeout(300)
        page.screenshot(path=tmp_path / "after.png")
        selected = re.match(r"Selected: ([\d,]+) requests", status.inner_text())
        assert selected is not None

        # A story by key, of a request that is selected.
        canvas.press(".")
        expect(explorer.locator(".story")).to_contain_text("Before it was queued")
        expect(explorer.locator(".story")).to_contain_text(visible(HOSTILE[1]))

        # The selection in the kernel is the one that the page displays.
        code = page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(1)
        code.click()
        code.type("rows = explorer.selection; 'chosen', rows['request_id'].n_unique(), set(rows['owner_pid'])")
        code.press("Shift+Enter")
        expect(page.get_by_text(f"('chosen', {selected[1].replace(',', '')}, {{{mail}}})")).to_be_visible()

        # Names are text, in the tree too.
        canvas.press("Escape")
        explorer.get_by_role("button", name="Clear selection").click()
        explorer.get_by_role("button", name=re.compile(r"^open \/( \(|$)")).click()
        explorer.get_by_role("button", name="open hostile/").click()
        for name in HOSTILE:
            last = visible(name).split("/")[-1]
            expect(explorer.locator(".entry .name", has_text=last).first).to_be_attached()
        assert explorer.locator("script, img, iframe, svg, style").count() == 0
        assert "OWNED" not in page.title()
        assert failures == []
