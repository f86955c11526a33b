"""The panel, clicked through in JupyterLab by a real browser, and what it asks of iobench and shows of results."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import expect
from support.lab import browser_page, lab, run_cell

from androstep_analysis import bench, capture, device
from androstep_analysis.device import connect
from androstep_analysis.panel import Panel, Settings, results
from androstep_analysis.panel.measuring import Stopped
from androstep_analysis.panel.settings import FILE_TESTS, JOURNAL_MODES, SQLITE_TESTS, SYNC_MODES, SYNCHRONOUS

SMALL = {"file_kib": 64, "transactions": 4, "repeats": 1}


# -- what is asked of iobench -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_choice_is_one_that_iobench_knows(tmp_path: Path) -> None:
    """Each sync mode, journal mode and level of synchronous is run once, and is found in what it measured."""
    from androstep_analysis import runs

    for number in range(max(len(SYNC_MODES), len(JOURNAL_MODES))):
        settings = Settings(
            directory=str(tmp_path),
            sync_mode=SYNC_MODES[number % len(SYNC_MODES)],
            journal_mode=JOURNAL_MODES[number % len(JOURNAL_MODES)],
            synchronous=SYNCHRONOUS[number % len(SYNCHRONOUS)],
            **SMALL,
        )
        files, statements = settings.options(["Sequential write", "SQLite insert"])
        found = [
            runs.bench(options, tmp_path / f"{kind}-{number}").capture
            for kind, options in (("file", files), ("sqlite", statements))
        ]
        of_files, of_statements = (one.bench["bench_runs"].row(0, named=True) for one in found if one is not None)
        assert (of_files["sync_mode"], of_files["file_bytes"]) == (settings.sync_mode, settings.file_kib * 1024)
        assert of_statements["journal_mode"].upper() == settings.journal_mode
        assert of_statements["synchronous"].upper() == settings.synchronous


def test_a_test_that_is_not_chosen_is_not_run() -> None:
    settings = Settings()
    assert settings.options([]) == []
    [files] = settings.options(["Random read", "Sequential write"])
    assert "--sweep=rw=write,randread" in files
    assert len(settings.options([*FILE_TESTS, *SQLITE_TESTS])) == 2


# -- without a browser ------------------------------------------------------------------------------------------------


def panel(home: Path, directory: Path) -> Panel:
    return Panel(home, devices=["local"], settings=Settings(directory=str(directory), **SMALL))


def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    shown = panel(tmp_path / "home", tmp_path)
    shown._where.value = "127.0.0.1:1"
    shown._starts[0].click()
    shown._measuring.join()
    assert "127.0.0.1:1" in shown._status.value and "nothing was kept" in shown._status.value
    assert not (tmp_path / "home").exists()
    assert not shown._starts[0].disabled and shown._stop.disabled


def test_a_second_click_starts_nothing(tmp_path: Path) -> None:
    """The browser sends it before it knows that the button is disabled."""
    shown = panel(tmp_path / "home", tmp_path)
    shown._start(["Sequential write"])
    first = shown._measuring
    shown._starts[0].click()
    assert shown._measuring is first
    first.join()
    assert len(list((tmp_path / "home").iterdir())) == 1


def test_a_stop_before_the_device_answered_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = panel(tmp_path / "home", tmp_path)
    connect = device.connect

    def stopped_meanwhile(where: str) -> device.Device:
        shown._stop.click()
        return connect(where)

    monkeypatch.setattr(device, "connect", stopped_meanwhile)
    shown._start(["Sequential write"])
    shown._measuring.join()
    assert "stopped" in shown._status.value and "nothing was kept" in shown._status.value
    assert not (tmp_path / "home").exists()
    assert not shown._starts[0].disabled and shown._stop.disabled


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_program_leaves_a_panel_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> device.Device:
        raise ZeroDivisionError

    shown = panel(tmp_path / "home", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(device, "connect", broken)
        shown._start(["Sequential write"])
        shown._measuring.join()
    assert "the program failed" in shown._status.value
    shown._start(["Sequential write"])
    shown._measuring.join()
    assert "done; kept in" in shown._status.value


def test_names_in_results_are_text(tmp_path: Path) -> None:
    """A directory with markup in its name, which stands in the command that is shown."""
    place = tmp_path / "<img src=x onerror=alert(1)>"
    place.mkdir()
    shown = panel(tmp_path / "home", place)
    shown._start(["Sequential write"])
    shown._measuring.join()
    assert "done; kept in" in shown._status.value
    assert "<img" not in shown._results.value and "&lt;img src=x" in shown._results.value


def test_configurations_are_not_mixed(tmp_path: Path) -> None:
    """A row for each; shares of CPU time are of all its repetitions together, and add up."""
    recorded = capture.open(Path(__file__).parents[2] / "datasets" / "bench" / "ext4_disk" / "reads.rec.xz")
    runs = recorded.bench["bench_runs"]
    shown = re.findall(r"<tr><td[^>]*>(.*?)</td></tr>", str(results.outcome(recorded)))
    assert len(shown) == runs.select("test", "sync_mode").n_unique() > runs["test"].n_unique()
    for row in shown:
        test, mode, *_, active, idle, waiting, _, _ = re.split(r"</td><td[^>]*>", row)
        same = (pl.col("test").cast(pl.String) == test.replace(" ", "_")) & (pl.col("sync_mode") == mode)
        of_test = runs.filter("valid", same)
        sums = [int(of_test[name].sum()) for name in ("cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns")]
        assert [active, idle, waiting] == [f"{part / sum(sums):.1%}"[:-1] for part in sums]


def test_results_of_several_machines_are_not_compared() -> None:
    places = [Path(__file__).parents[2] / "datasets" / "bench" / place for place in ("ext4_disk", "xfs_disk")]
    one, other = (capture.open(place / "modes.rec.xz") for place in places)
    assert "the second is" in str(results.comparison(one, other))
    mixed = {name: pl.concat([one.bench[name], other.bench[name]]) for name in one.bench}
    one.tables |= {name: table.lazy() for name, table in mixed.items()}
    assert "one side holds results of several fs_type" in str(results.comparison(one, other))


def test_a_program_that_says_nothing_is_ended_too() -> None:
    """iobench tells no progress of repetitions that are shorter than its interval: Stop must not wait for a line."""

    def enough() -> None:
        raise Stopped

    with connect("local") as target:
        job = target.start(["sleep", "100000"])
        with pytest.raises(Stopped), target.ending(job):
            job.wait(meanwhile=enough)
        assert job.status == 128 + signal.SIGTERM


def test_history_leaves_out_what_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "capture.json").write_text("{")
    shutil.copytree(Path(__file__).parents[2] / "datasets" / "demo", tmp_path / "demo")
    assert results.kept(tmp_path) == {}
    assert results.kept(tmp_path / "nowhere") == {}


# -- with one ---------------------------------------------------------------------------------------------------------


def test_clicked_through_in_jupyterlab(tmp_path: Path) -> None:
    cell = (
        "from androstep_analysis.panel import Panel, Settings\n"
        f"Panel({str(tmp_path / 'home')!r}, devices=['local'], settings=Settings(directory={str(tmp_path)!r},"
        " file_kib=64, transactions=4, repeats=1))"
    )
    with lab(tmp_path, cell) as address, browser_page() as page:
        run_cell(page, address)

        def tab(title: str) -> None:
            page.get_by_role("tab", name=title).click()

        # Measure: a choice of one's own, with the settings of the third tab.
        tab("Settings")
        page.get_by_label("File sync mode").select_option("fdatasync")
        page.get_by_label("SQLite journal mode").select_option("WAL")
        tab("Measure")
        page.get_by_role("button", name="SQLite", exact=True).click()
        expect(page.get_by_text("done; kept in")).to_be_visible()
        expect(page.get_by_role("cell", name="insert")).to_be_visible()
        page.get_by_label("Custom").select_option(["Random write", "Sequential read"])
        page.get_by_role("button", name="Custom", exact=True).click()
        expect(page.get_by_role("cell", name="rand write")).to_be_visible()
        expect(page.get_by_role("cell", name="seq read")).to_be_visible()

        # Stop: the measurement ends, and nothing of it is kept.
        tab("Settings")
        page.get_by_label("Repetitions").fill("1000")
        page.get_by_label("Repetitions").press("Enter")
        tab("Measure")
        page.get_by_role("button", name="All", exact=True).click()
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.get_by_text("stopped; what was being measured is not kept")).to_be_visible()

        # History: both are there with their settings, and are compared.
        tab("History")
        names = sorted(path.name for path in (tmp_path / "home").iterdir())
        assert len(names) == 2
        page.screenshot(path=tmp_path / "panel.png")
        listed = page.locator("select[multiple]:visible")
        listed.select_option(index=0)
        expect(page.get_by_role("cell", name="rand write").last).to_be_visible()
        listed.select_option(index=[0, 1])
        expect(page.get_by_text(f"{names[0]} and {names[1]}")).to_be_visible()
        expect(page.get_by_role("cell", name="only in the first").first).to_be_visible()

        # What was clicked is what was measured.
        of_statements, of_files = (capture.open(tmp_path / "home" / name).bench["bench_runs"] for name in names)
        assert set(of_statements["journal_mode"].str.to_uppercase()) == {"WAL"} and of_statements.height == 3
        assert set(of_files["test"].cast(str)) == {"rand_write", "seq_read"}
        assert set(of_files.filter(test="rand_write")["sync_mode"].cast(str)) == {"fdatasync"}
        assert bench.read(tmp_path / "home" / names[1]).tables["bench_runs"].height == of_files.height
