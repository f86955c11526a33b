"""The panel: clicked through in JupyterLab by a real browser, and its calls of iobench, results and pages."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from adbd import PIXEL, phone
from playwright.sync_api import Page, expect
from support.devices import home
from support.lab import browser, lab, page_of, run_cell
from support.pages import HOSTILE

from androstep_analysis import capture, device, runs
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import connect
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present.panel import Job, Panel, history, shown
from androstep_analysis.present.panel.jobs import (
    ALL,
    FILE_TESTS,
    JOURNAL_MODES,
    PRESETS,
    SQLITE_TESTS,
    SYNC_MODES,
    SYNCHRONOUS,
    TITLES,
)
from androstep_analysis.present.panel.measuring import Progress, Stopped

DATASETS = Path(__file__).parents[2] / "datasets"

SMALL: dict[str, Any] = {"file_kib": 64, "records": 0, "seconds": 0, "transactions": 4, "repeats": 1}
WRITE = Job(tests=("Sequential write",), **SMALL)


# -- what is asked of iobench -----------------------------------------------------------------------------------------


@pytest.mark.prove
def test_every_choice_is_one_that_iobench_knows(tmp_path: Path) -> None:
    """Each sync mode, journal mode and level of synchronous is run once, and appears in the results."""
    for number in range(max(len(SYNC_MODES), len(JOURNAL_MODES))):
        job = Job(
            tests=("Sequential write", "SQLite insert"),
            sync_mode=SYNC_MODES[number % len(SYNC_MODES)],
            journal_mode=JOURNAL_MODES[number % len(JOURNAL_MODES)],
            synchronous=SYNCHRONOUS[number % len(SYNCHRONOUS)],
            **SMALL,
        )
        done = runs.bench(job.options(str(tmp_path)), tmp_path / f"{number}").capture
        assert done is not None
        of_files, of_statements = done.bench["bench_runs"].sort("workload").iter_rows(named=True)
        assert (of_files["sync_mode"], of_files["file_bytes"]) == (job.sync_mode, job.file_kib * 1024)
        assert of_statements["journal_mode"].upper() == job.journal_mode
        assert of_statements["synchronous"].upper() == job.synchronous


def test_a_test_that_is_not_chosen_is_not_run() -> None:
    assert Job(tests=()).options("/") == {}
    found = Job(tests=("Random read", "Sequential write")).options("/")
    assert {name: words[1] for name, words in found.items()} == {
        "writes": "--sweep=rw=write",
        "reads": "--sweep=rw=randread",
    }
    assert list(Job().options("/")) == ["writes", "reads", "sqlite"]


def test_a_limit_of_time_does_not_write_a_file_over_and_over() -> None:
    (words,) = Job(tests=("Random write",), records=0, seconds=1, file_kib=64, record_kib=4).options("/").values()
    assert {"--runtime=1000ms", "--number_ios=16"} <= set(words)
    (words,) = Job(tests=("Random write",), records=0, seconds=0).options("/").values()
    assert not any(word.startswith(("--runtime", "--number_ios")) for word in words)


def test_what_will_be_written_is_about_what_is(tmp_path: Path) -> None:
    """The estimate is exact for files, including files created in advance, and within a factor of three for SQLite."""
    job = Job(tests=ALL, file_kib=256, records=32, seconds=0, transactions=20, repeats=2)
    done = runs.bench(job.options(str(tmp_path)), tmp_path / "capture").capture
    assert done is not None
    of_runs = done.bench["bench_runs"]
    moved = (
        done.bench["bench"]
        .filter(thread=-1, part="op")
        .join(of_runs.select("run_id", "repeat"), on=["run_id", "repeat"])
    )
    written = moved.filter(pl.col("test").cast(pl.String).is_in(["seq_write", "rand_write"]))["bytes"].sum()
    files = of_runs.filter(workload="file")
    laid_out = files["file_bytes"].sum()
    of_sqlite = of_runs.filter(workload="sqlite")["process_write_bytes"].sum()
    rest = job.written_bytes - int(written) - int(laid_out)
    assert written == 2 * 2 * 32 * 4096
    assert of_sqlite / 3 < rest < of_sqlite * 3


def test_a_job_is_told_in_words() -> None:
    said = " ".join(PRESETS["All seven tests"].words())
    for words in (
        "Sequential and random write",
        "Sequential and random read",
        "SQLite insert, update and delete",
        "fsync",
    ):
        assert words in said
    fast, slow = Job().seconds_taken()
    assert 0 < fast < slow
    assert "made durable" not in " ".join(Job(sync_mode="buffered").words())


# -- where ------------------------------------------------------------------------------------------------------------


def test_what_is_there_is_told(tmp_path: Path) -> None:
    with connect("local") as target:
        place = target.place(str(tmp_path))
    assert place.path == str(tmp_path.resolve())
    said = [os.fsdecode(line).split() for line in Path("/proc/self/mounts").read_bytes().splitlines()]
    assert place.mount.fs_type in {row[2] for row in said if row[1] == place.mount.path}
    assert place.free_bytes is not None
    assert abs(place.free_bytes - shutil.disk_usage(tmp_path).free) < 1 << 32
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_phone_is_a_place_too(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path, model=PIXEL) as fake:
        panel = Panel(tmp_path / "home", devices=[fake.address])
        there = panel.measure._there.value
        assert panel.measure._directory.value == "/data/local/tmp"
        assert "/data" in panel.measure._directory.options
        for words in ("Pixel 6a", "f2fs on UFS", "fsync_mode=nobarrier", "free"):
            assert words in there
        assert not panel.measure._start.disabled


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("/proc/no/such/directory", "no such directory"),
        ("/proc", "no file can be created in it"),
        ("/dev/shm", "is in memory"),
        *((f"/{name}", "no such directory") for name in HOSTILE if "/" not in name),
    ],
)
def test_a_directory_that_cannot_be_measured_is_refused_in_a_sentence(directory: str, why: str, tmp_path: Path) -> None:
    panel = Panel(tmp_path / "home", devices=["local"], directory=directory)
    assert why in panel.measure._there.value
    assert "<script>" not in panel.measure._there.value and "<img" not in panel.measure._there.value
    assert panel.measure._start.disabled
    panel.measure._begin()
    assert panel.measure._measuring is None


def test_a_job_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    panel = Panel(
        tmp_path / "home", devices=["local"], directory=str(tmp_path), job=Job(file_kib=1 << 26, threads=1024)
    )
    assert "are free there" in panel.measure._plan.value
    assert panel.measure._start.disabled


# -- without a browser ------------------------------------------------------------------------------------------------


def panel_of(home: Path, directory: Path, job: Job = WRITE) -> Panel:
    return Panel(home, devices=["local"], directory=str(directory), job=job)


def measured(panel: Panel) -> str:
    """Run the measurement and return the final status of the panel."""
    panel.measure._begin()
    assert panel.measure._measuring is not None, panel.measure._there.value
    panel.measure._measuring.join()
    return str(panel.measure._status.value)


def test_a_device_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # "local" starts in this directory; the checkout may be on a tmpfs
    panel = panel_of(tmp_path / "home", tmp_path)
    panel.measure._where.value = "127.0.0.1:1"
    assert "127.0.0.1:1" in panel.measure._there.value
    assert panel.measure._start.disabled
    panel.measure._where.value = "local"
    assert not panel.measure._start.disabled
    assert not (tmp_path / "home").exists()


def test_a_second_click_starts_nothing(tmp_path: Path) -> None:
    """The browser may send a second click before it disables the button."""
    panel = panel_of(tmp_path / "home", tmp_path)
    panel.measure._begin()
    first = panel.measure._measuring
    panel.measure._begin()
    assert panel.measure._measuring is first
    assert first is not None
    first.join()
    assert len(list((tmp_path / "home").iterdir())) == 1


def test_a_stop_before_the_device_answered_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panel_of(tmp_path / "home", tmp_path)
    connect = device.connect

    def stopped_meanwhile(where: str, **choices: Any) -> device.Device:
        panel.measure._end()
        return connect(where, **choices)

    monkeypatch.setattr(device, "connect", stopped_meanwhile)
    said = measured(panel)
    assert "stopped" in said and "nothing was kept" in said
    assert [path.name for path in tmp_path.iterdir()] in ([], ["home"])
    assert not panel.measure._start.disabled and panel.measure._stop.disabled


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_program_leaves_a_panel_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    panel = panel_of(tmp_path / "home", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("androstep_analysis.present.panel.measuring.run_bench", broken)
        assert "the program failed" in measured(panel)
    assert "done; kept in" in measured(panel)


def test_names_in_results_are_text(tmp_path: Path) -> None:
    """The directory name, names and notes contain markup."""
    place = tmp_path / "<img src=x onerror=alert(1)>"
    place.mkdir()
    panel = panel_of(tmp_path / "home", place)
    assert "done; kept in" in measured(panel)
    assert "<img" not in panel.measure._result.value and "&lt;img src=x" in panel.measure._result.value
    (one,) = history.results(panel.home)
    for text in HOSTILE:
        history.annotate(one.directory, text, text)
        again = history.result(one.directory)
        assert (again.name, again.note) == (text.strip(), text)
        page = str(shown.outcome(again))
        assert set(re.findall(r"<([a-z0-9]+)", page)) <= {"div", "h3", "p", "pre", "table", "caption"} | {
            *("tr", "th", "td", "details", "summary"),
        }
        panel._refresh()
        ((title, _),) = panel.history._list.options
        assert title.isprintable()


def test_a_note_that_is_none_is_left_out(tmp_path: Path) -> None:
    panel = panel_of(tmp_path / "home", tmp_path)
    measured(panel)
    (one,) = history.results(panel.home)
    for text in ("{", "[]", '{"name": 1, "note": ""}', '{"name": "x"}', "\xff"):
        (one.directory / history.NOTE).write_bytes(text.encode("latin-1"))
        assert history.result(one.directory).name == one.directory.name


def test_configurations_are_not_mixed() -> None:
    """Each has a row of its own. Shares of CPU time are over all its repetitions together."""
    recorded = capture.open(DATASETS / "bench" / "ext4_disk" / "reads.rec.xz")
    of_runs = recorded.bench["bench_runs"]
    page = str(shown.outcome(history.Result(recorded, Path("x"), "x", "")))
    rows = re.findall(r"<tr><td[^>]*>(.*?)</td></tr>", page)
    assert len(rows) == of_runs.select("test", "sync_mode").n_unique() > of_runs["test"].n_unique()
    for row in rows:
        what, *_, active, waiting, _, _ = re.split(r"</td><td[^>]*>", row)
        title, mode = what.split(", ")
        test = next(name for name, words in TITLES.items() if words == title)
        same = (pl.col("test").cast(pl.String) == test) & (pl.col("sync_mode") == mode)
        of_test = of_runs.filter("valid", same)
        sums = [int(of_test[name].sum()) for name in ("cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns")]
        assert [active, waiting] == [f"{part / sum(sums) * 100:.1f} %" for part in (sums[0], sums[2])]


def test_a_bar_for_every_repetition() -> None:
    page = str(shown.progress(Progress(0.5, "", {"Random write": [100.0, 50.0], "SQLite insert": [10.0]}, True)))
    assert page.count("<tr class=") == 3 and page.count("goes-on") == 1
    assert re.findall(r"width:(\d+)%", page) == ["100", "50", "100"]


def test_a_program_that_says_nothing_is_ended_too() -> None:
    """iobench prints no progress for repetitions shorter than its interval, so Stop must not wait for a line."""

    def enough() -> None:
        raise Stopped

    with connect("local") as target:
        job = target.start(["sleep", "100000"])
        with pytest.raises(Stopped), target.ending(job):
            job.wait(meanwhile=enough)
        assert job.status == 128 + signal.SIGTERM


# -- results as files -------------------------------------------------------------------------------------------------


def test_history_leaves_out_what_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "capture.json").write_text("{")
    shutil.copytree(DATASETS / "demo", tmp_path / "demo")
    assert history.results(tmp_path) == []
    assert history.results(tmp_path / "nowhere") == []


def shared(tmp_path: Path) -> history.Result:
    capture.create([DATASETS / "bench" / "xfs_disk" / "modes.rec.xz"], tmp_path / "made" / "mine")
    history.annotate(tmp_path / "made" / "mine", "Mine", "a note")
    return history.result(tmp_path / "made" / "mine")


def test_a_shared_result_is_the_same_elsewhere(tmp_path: Path) -> None:
    mine = shared(tmp_path)
    packed = history.packed(mine.directory)
    assert packed == history.packed(mine.directory)
    theirs = history.result(history.receive(tmp_path / "theirs", "mine.tar.xz", packed))
    assert (theirs.name, theirs.note) == ("Mine", "a note")
    assert theirs.capture.facts == mine.capture.facts
    for name, table in mine.capture.bench.items():
        assert table.equals(theirs.capture.bench[name]), name


@pytest.mark.parametrize("name", ["../../mine.json", HOSTILE[0], "modes.rec.xz"])
def test_a_result_of_another_tool_is_opened_under_the_files_name(tmp_path: Path, name: str) -> None:
    content = (DATASETS / "bench" / "ext4_peers" / "writes-0.json.xz").read_bytes()
    made = history.receive(tmp_path / "home", name, content)
    assert made.parent == tmp_path / "home"
    assert history.result(made).name == Path(name).name
    assert set(history.result(made).capture.bench["bench_runs"]["tool"]) == {"fio"}


def again(packed: bytes, change: Any) -> bytes:
    """Return the archive with changed members:

    `change` maps name and content to new ones, or to None to drop the member.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(packed)) as old, tarfile.open(fileobj=content, mode="w:xz") as new:
        for member in old.getmembers():
            file = old.extractfile(member)
            assert file is not None
            if (changed := change(member.name, file.read())) is not None:
                made = tarfile.TarInfo(changed[0])
                made.size = len(changed[1])
                new.addfile(made, io.BytesIO(changed[1]))
    return content.getvalue()


def test_what_was_not_recorded_is_not_taken_over(tmp_path: Path) -> None:
    """Results are computed from the recording.

    Neither the recording nor the tables of a shared file can be replaced.
    """
    mine = shared(tmp_path)
    packed = history.packed(mine.directory)

    def other_recording(name: str, content: bytes) -> tuple[str, bytes]:
        return name, content[:-1] + b"x" if "/raw/" in name else content

    def elsewhere(name: str, content: bytes) -> tuple[str, bytes]:
        if not name.endswith("capture.json"):
            return name, content
        read = json.loads(content)
        read["sources"][0]["path"] = str(mine.directory / read["sources"][0]["path"])
        return name, json.dumps(read).encode()

    def outside(name: str, content: bytes) -> tuple[str, bytes]:
        return f"../{name}", content

    for change in (other_recording, elsewhere, outside):
        with pytest.raises(InputError):
            history.receive(tmp_path / "theirs", "x", again(packed, change))
    for nothing in (b"", b"nonsense" * 100, (DATASETS / "demo" / "raw" / "trace.dat.zst").read_bytes()):
        with pytest.raises(InputError):
            history.receive(tmp_path / "theirs", "x", nothing)
    assert history.results(tmp_path / "theirs") == []
    assert not (tmp_path / "theirs").exists() or list((tmp_path / "theirs").iterdir()) == []


def opened(place: str, directory: Path) -> history.Result:
    recorded = capture.open(DATASETS / "bench" / place / "journal_modes.rec.xz")
    return history.Result(recorded, directory, place, "")


def test_results_are_compared_in_words(tmp_path: Path) -> None:
    found = shown.compared([opened(place, tmp_path) for place in ("ext4_disk", "ext4_memory")])
    page = str(shown.comparison(found))
    assert page.count("<figure>") == found.compared.height == 18
    shown_ones = found.compared.filter(pl.col("verdict").is_in(["higher", "lower"]))
    assert shown_ones.height > 0
    assert page.count("ext4_memory is faster than ext4_disk") == shown_ones.filter(verdict="higher").height
    assert page.count("no difference shown</p>") == found.compared.filter(verdict="no difference shown").height


def test_results_are_ranked_beside_others_of_the_same_job(tmp_path: Path) -> None:
    """The ranks are those of `compare.ranking`. Results with other settings are left out."""
    own = opened("ext4_disk", tmp_path)
    places = ("xfs_disk", "btrfs_disk")
    others = [replace(Recording.of(opened(place, tmp_path).capture), title=place) for place in places]
    modes = capture.open(DATASETS / "bench" / "f2fs_guest" / "modes.rec.xz")
    found = shown.compared([own], [*others, Recording.of(modes)])
    assert set(found.measured["capture"]) == {"ext4_disk", *places}
    page = str(shown.ranking(found, ["ext4_disk"]))
    assert page.count("<figure>") == 18
    for first, last in found.ranked.filter(capture="ext4_disk").select("rank_from", "rank_to").iter_rows():
        rank = f"{first}" if first == last else f"{first} to {last}"
        assert f"ext4_disk: {rank}" in page


def test_a_result_of_which_only_tests_differ_has_a_report_too(tmp_path: Path) -> None:
    panel = panel_of(tmp_path / "home", tmp_path, replace(WRITE, tests=("Random write", "SQLite update")))
    assert "done; kept in" in measured(panel)
    panel.history._list.value = list(panel.history._results)
    panel.history._offer()
    assert re.findall(r'download="bench-[-0-9]+(\.[a-z.]+)"', panel.history._files.value) == [".tar.xz", ".html"]


# -- with one ---------------------------------------------------------------------------------------------------------


def start(page: Page, name: str) -> None:
    """Start a measurement and wait until it is done."""
    page.get_by_label("Name").first.fill(name)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("done; kept in")).to_be_visible()
    expect(page.locator(".jp-OutputArea h3", has_text=name).first).to_be_visible()


@pytest.mark.prove
@pytest.mark.prove
def test_clicked_through_in_jupyterlab(tmp_path: Path) -> None:
    """Choose a directory, measure twice, name, compare, rank, share, open, and delete."""
    hostile = HOSTILE[6]
    cell = (
        "from androstep_analysis.present.panel import Panel\n"
        f"Panel({str(tmp_path / 'home')!r}, devices=['local'], directory='/proc/no/such/directory')"
    )
    place = tmp_path / "<b>place"
    place.mkdir()
    with lab(tmp_path, cell) as address, browser() as started, page_of(started) as page:
        page.set_viewport_size({"width": 900, "height": 1400})
        run_cell(page, address)
        is_owned = "() => document.title.includes('OWNED')"

        def tab(title: str) -> None:
            page.get_by_role("tab", name=title, exact=True).click()

        # Where: a directory that cannot be measured is refused, the storage below another one is described.
        expect(page.get_by_text("no such directory")).to_be_visible()
        expect(page.get_by_role("button", name="Start", exact=True)).to_be_disabled()
        page.get_by_label("Directory").fill(str(place))
        page.get_by_label("Directory").press("Tab")
        expect(page.get_by_text("Mounted on")).to_be_visible()

        # What: a custom job, entered by keyboard, and its description.
        page.get_by_label("What to measure").select_option("A job of your own")
        page.get_by_label("Tests").select_option(["Random write", "SQLite update"])
        for title, value in {"File size, KiB": "64", "Records at most": "16", "Transactions": "4"}.items():
            page.get_by_label(title).fill(value)
            page.get_by_label(title).press("Tab")
        expect(page.get_by_text("SQLite update: 4 transactions")).to_be_visible()
        start(page, "before")
        expect(page.get_by_role("cell", name="Random write").first).to_be_visible()
        expect(page.get_by_role("table", name="SQLite update").get_by_role("row")).to_have_count(7)
        start(page, hostile)

        # Stop: the measurement ends, and its results are discarded.
        page.get_by_label("Repetitions").fill("1000")
        page.get_by_label("Repetitions").press("Tab")
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.get_by_text("stopped; the unfinished test is not kept")).to_be_visible()
        assert list(place.iterdir()) == []
        assert len(list((tmp_path / "home").iterdir())) == 2

        # History: named and noted, compared.
        tab("History")
        listed = page.get_by_label("Results", exact=True)
        listed.select_option(index=0)
        page.get_by_label("Note").fill(hostile)
        page.get_by_role("button", name="Save name and note").click()
        expect(page.locator("pre", has_text=hostile)).to_be_visible()
        listed.select_option(index=[0, 1])
        expect(page.get_by_role("heading", name="Comparison")).to_be_visible()
        expect(page.locator(".androstep-panel figure img")).to_have_count(2)
        expect(page.locator(".card").first).to_contain_text("before")

        # Ranking.
        tab("Ranking")
        page.get_by_role("button", name="Rank", exact=True).click()
        expect(page.get_by_text("No results there are of the same job")).to_be_visible()

        # Shared, deleted, and opened again.
        tab("History")
        listed.select_option(index=0)
        expect(page.get_by_role("heading", name="Comparison")).to_have_count(0)  # the kernel knows the selection
        page.get_by_role("button", name="Share as files").click()
        with page.expect_download() as download:
            page.get_by_role("link", name=".tar.xz").click()
        download.value.save_as(tmp_path / "shared.tar.xz")
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Keep").click()
        expect(listed.locator("option")).to_have_count(2)
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Delete for good").click()
        expect(listed.locator("option")).to_have_count(1)
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open a shared file").click()
        chooser.value.set_files(tmp_path / "shared.tar.xz")
        expect(page.get_by_text("opened, and kept in")).to_be_visible()
        expect(listed.locator("option")).to_have_count(2)
        expect(page.locator("pre", has_text=hostile)).to_be_visible()
        assert not page.evaluate(is_owned)
        assert page.locator("img[src=x], .jp-OutputArea script").count() == 0

    # The measured job is the one that was clicked.
    first, second = sorted(history.results(tmp_path / "home"), key=lambda one: one.when + one.directory.name)
    assert {first.name, second.name} == {"before", hostile}
    for one in (first, second):
        of_runs = one.capture.bench["bench_runs"]
        assert of_runs["valid"].all() and of_runs.height == 12
        assert set(of_runs["test"].cast(str)) == {"rand_write", "sqlite_update"}
        assert set(of_runs["directory"]) == {str(place)}


@pytest.mark.prove
def test_the_job_of_a_preset_is_ranked_beside_the_released_results(tmp_path: Path) -> None:
    """It is ranked in every test with the same job: the SQLite tests, and the writes of all five."""
    done = runs.bench(PRESETS["SQLite"].options(str(tmp_path)), tmp_path / "home" / "mine").capture
    assert done is not None
    panel = Panel(tmp_path / "home", devices=["local"], directory=str(tmp_path))
    panel.ranking._show()
    page = panel.ranking._shown.value
    assert page.count("<figure>") == len(SQLITE_TESTS)
    assert len(re.findall(r"mine: \d( to \d)?</b> of 6", page)) == len(SQLITE_TESTS)


def test_the_writes_of_a_preset_are_the_released_job() -> None:
    """The iobench commands in the released files equal those of the preset, except for the directory."""
    recorded = capture.open(DATASETS / "bench" / "xfs_disk" / "modes.rec.xz").bench["bench_runs"]
    asked = recorded.filter(sync_mode="fsync").row(0, named=True)
    (words,) = Job(tests=tuple(test for test in FILE_TESTS if "write" in test)).options("/").values()
    assert asked["file_bytes"] == Job().file_kib * 1024
    assert (asked["ops_asked"], asked["duration_asked_ns"]) == (Job().records, round(Job().seconds * 1e9))
    assert f"--number_ios={asked['ops_asked']}" in words
