"""The report has the results of the analyses, and no name in a capture can inject markup or scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support import corpus, waiting
from support.needs import needs
from support.pages import HOSTILE, TAGS, Page
from support.tree import ROOT

import androstep_analysis.capture
from androstep_analysis import measures, report, schema
from androstep_analysis.capture import Capture, derivation, tool_results
from androstep_analysis.capture.classes import Classes, Rule
from androstep_analysis.common import markup
from androstep_analysis.common.manifest import Manifest, Source
from androstep_analysis.present.report import behaviour, cells, definition
from androstep_analysis.present.report.requests import BINS, EVIDENCE, QUESTIONS, bin_length

DEMO = Path(__file__).parents[2] / "datasets" / "demo"
SECTIONS = [part for _, parts in QUESTIONS.values() for part in parts] + list(EVIDENCE)
HOSTILE_TYPE = "<i onload=alert(1)>\x1b[2J{bin}"
UNTOLD = (behaviour.QUEUE, behaviour.COST)
"""The hostile capture lost events nobody knows when, and has none of its filesystem."""


def table(name: str, columns: dict[str, Any]) -> pl.DataFrame:
    """Return table `name` with these columns. The others are null or False."""
    height = len(next(iter(columns.values())))
    frame = pl.DataFrame(columns)
    return schema.conform(
        frame.select(
            (
                pl.col(column.name)
                if column.name in columns
                else pl.repeat(False if column.dtype == "bool" else None, height)
            )
            .cast(column.polars)
            .alias(column.name)
            for column in schema.table(name).columns
        ),
        name,
    )


def hostile_capture(number: int = 400) -> Capture:
    """Return a capture in which all names that a device may choose are names of `HOSTILE`."""
    random = np.random.default_rng(1)
    ids = np.arange(number)
    names = [HOSTILE[i % len(HOSTILE)] for i in ids]
    issue = np.sort(random.integers(10**9, 10**10, number))
    common: dict[str, Any] = {
        "request_id": ids,
        "dev": np.full(number, 7 << 20),
        "sector": random.integers(0, 1 << 20, number),
        "nr_sectors": 8 << random.integers(0, 6, number),
        "op": random.choice(["read", "write"], number),
        "sync": random.random(number) < 0.5,
        "queue_ns": issue - 1000,
        "issue_ns": issue,
        "complete_ns": issue + random.integers(10**5, 10**7, number),
    }
    requests = table(
        "requests",
        common
        | {"part_dev": common["dev"], "rwbs": names, "nr_bios": np.ones(number, int), "matched": ["full"] * number},
    )
    io = table(
        "io",
        common
        | {"piece": np.zeros(number, int), "bytes": common["nr_sectors"] * 512, "block_type": ["data"] * number}
        | {"file_type": ["other"] * number, "map_source": ["tracepoint"] * number, "owner_via": ["submitter"] * number}
        | {
            "path": names,
            "owner_comm": names,
            "owner_package": names,
            "package": names,
            "owner_count": np.ones(number, int),
        },
    )
    facts = ("device", "soc", "kernel", "build_fingerprint", "storage_model", "workload", "android_release")
    sources = tuple(Source(f"raw/{name.replace('/', '|')}", "trace", 1, "ab" * 32) for name in HOSTILE)
    about = {
        "format": HOSTILE[0],
        "events": dict.fromkeys(HOSTILE, 1),
        "first_ns": int(issue[0]),
        "last_ns": int(issue[-1]),
        "clock": "boot",
        "fs_type": HOSTILE[1],
        "lost_events": 12345,
        "realtime_offset_ns": None,
        "jumps": [],
        "losses": [{"kind": "torn", "count": 678, "message": f"{name} is cut"} for name in HOSTILE],
        **dict.fromkeys(tool_results.KINDS),
        "rows": dict.fromkeys(derivation.TABLES, 0) | {"requests": number, "io": number},
        "coverage": measures.coverage(requests, io).to_dicts(),
        "population": measures.population(requests),
    }
    described = Manifest(sources=sources, facts=dict(zip(facts, HOSTILE, strict=False)))
    tables = {name: schema.empty(name) for name in derivation.TABLES} | {"requests": requests, "io": io}
    own = Classes((Rule(HOSTILE_TYPE, ("*",)),), (Rule(HOSTILE_TYPE, ("no such process",)),))
    return Capture(HOSTILE[4], described, {name: rows.lazy() for name, rows in tables.items()}, about, classes=own)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the report of the hostile capture, and its directory of figures."""
    out = tmp_path_factory.mktemp("hostile")
    report.write(hostile_capture(), out / "new" / "report.html", figures=out / "figures")
    return out / "new" / "report.html", out / "figures"


@pytest.fixture(scope="module")
def most(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return the report of the capture that MOST's authors published."""
    out = tmp_path_factory.mktemp("most") / "report.html"
    report.write(androstep_analysis.capture.open(corpus.path("androstep/result.po")), out)
    return Page(out.read_text("utf-8"))


# -- safety -----------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_hostile_names_are_text_and_nothing_else(hostile: tuple[Path, Path]) -> None:
    page = Page(hostile[0].read_text("utf-8"))
    page.check_harmless()
    assert {tag for tag, _ in page.elements} == TAGS - {"i", "span"}
    text = "\n".join(page.text)
    for name in HOSTILE:
        assert f"{markup.visible(name)} is cut" in text, f"{name!r} stands in the report as it is"
    shown = Counter(row[0] for row in page.rows if any(cell.endswith(" %") for cell in row))
    assert {shown[markup.visible(name)] for name in HOSTILE} == {3}, "processes, apps, files"
    assert text.count(markup.visible(HOSTILE_TYPE)) > 3, "a type of files that the user named"


def test_the_style_asks_for_nothing(hostile: tuple[Path, Path]) -> None:
    (style,) = re.findall("<style>(.*?)</style>", hostile[0].read_text("utf-8"), re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    assert style.count("{") == style.count("}") > 10


def test_the_page_forbids_itself_other_scripts_and_the_network(hostile: tuple[Path, Path]) -> None:
    written = hostile[0].read_text("utf-8")
    (policy,) = [a["content"] for _, a in Page(written).elements if a.get("http-equiv") == "Content-Security-Policy"]

    def digest(tag: str) -> str:
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", written, re.DOTALL)
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest('style')}'; "
        f"script-src 'sha256-{digest('script')}'; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("text", ["</script>", "a</SCRIPT b", "<!-- x", "<script>"])
def test_a_script_cannot_hold_what_ends_it(text: str) -> None:
    with pytest.raises(ValueError, match="would be taken for markup"):
        str(markup.el("script", text))


@pytest.mark.parametrize("name", [*HOSTILE, "]]>", "\u2028", "<!--<script>"])
def test_an_island_holds_any_name_as_text(name: str) -> None:
    written = str(markup.island({"names": [name, None, 1.5]}))
    page = Page(f"<p>{written}</p>")
    assert [tag for tag, _ in page.elements] == ["p", "script"]
    assert json.loads(page.scripts[0]) == {"names": [markup.visible(name), None, 1.5]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\x1b[0m\x7f", r"a\nb\tc\x1b[0m\x7f"),
        ("\u202egpj.exe\u2066\u200b\ufeff", r"\u202egpj.exe\u2066\u200b\ufeff"),
        ("a\u00a0b\u2028c\u3164d\u2800", r"a\xa0b\u2028c\u3164d\u2800"),
        ("\U000e0041\ue000", r"\U000e0041\ue000"),
        ("Grüße 日本語 שלום 🎉", "Grüße 日本語 שלום 🎉"),
        ('plain <b> & "quoted"', 'plain <b> & "quoted"'),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert markup.visible(text) == shown


def test_an_element_escapes_its_text_and_its_attributes() -> None:
    element = markup.el("p", "<b>&", markup.el("i", '"'), class_="\"><script>'", data_name="x")
    assert str(element) == ('<p class="&quot;&gt;&lt;script&gt;&#x27;" data-name="x">&lt;b&gt;&amp;<i>&quot;</i></p>')


@needs("browser")
def browser() -> str:
    """Return a Chromium on this machine. Skip the test if there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")


def title_after_loading(page: Path, profile: Path) -> str:
    """Return the title of the page in a real browser after its scripts have run."""
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={profile}", "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout
    (title,) = re.findall("<title>(.*?)</title>", dom, re.DOTALL)
    return str(title)


def test_a_browser_runs_nothing_of_it(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    page = hostile[0].read_text("utf-8")
    without_policy = tmp_path / "open.html"
    without_policy.write_text(re.sub("<meta http-equiv[^>]*>", "", page), "utf-8")
    careless = tmp_path / "careless.html"
    careless.write_text(f"<title>safe</title><body><p>{HOSTILE[6]}</p></body>", "utf-8")
    assert title_after_loading(careless, tmp_path / "a") == "OWNED", "the names are able to do harm"
    for path in (hostile[0], without_policy):
        assert title_after_loading(path, tmp_path / "b").endswith("· AndroStep")


@pytest.mark.prove
def test_names_of_actions_and_of_apps_are_text_and_nothing_else(tmp_path: Path) -> None:
    labels = (HOSTILE[0], HOSTILE[3], HOSTILE[12])
    report.write(waiting.capture(labels, HOSTILE[1]), tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    page.check_harmless()
    for label in labels[:2]:
        assert len([row for row in page.rows if row and row[0] == label]) == 2, "its action and its wait"
    assert any(part.startswith(f"The app: {HOSTILE[1]}. ") for part in page.text)


# -- contents ---------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_oracle(most: Page) -> None:
    """MOST's own sample, counted by independent code (corpus: oracle_most.json), which counts completions.

    One write of 12 KiB of data was issued and did not complete within the trace.
    """
    oracle = json.loads(corpus.path("androstep/oracle_most.json").read_text("utf-8"))["result_po"]
    writes = oracle["completions_by_dir"]["W"]
    types = {"data": "D", "journal": "J", "metadata": "M"}
    for place, key, more in ((0, "count_by_block_nonzero", 1), (2, "KB_by_block", 12)):
        stated = [writes[key][letter] + more * (letter == "D") for letter in types.values()]
        shown = [most.row("write", kind) for kind in types]
        assert [row[place + 1] for row in shown] == [f"{100 * one / sum(stated):.1f} %" for one in stated]
        if key == "count_by_block_nonzero":
            assert [row[place] for row in shown] == [str(one) for one in stated]
    assert most.row("sync")[0] == str(writes["sync_count_nonzero"])
    assert most.row("write", "consecutive")[0] == str(writes["sequential_by_previous_end"])
    assert most.row("write", "random")[0] == str(writes["random_by_previous_end"] + 1)
    reads = oracle["completions_by_dir"]["R"]
    assert most.row("read", "consecutive")[0] == str(reads["sequential_by_previous_end"])


@pytest.mark.prove
def test_waits_are_told_as_worked_out_by_hand(tmp_path: Path) -> None:
    report.write(waiting.capture(), tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    text = " ".join(page.text)
    assert "What did the user wait for?" in text and "2 of 3 inputs led to a stable screen" in text
    assert printed("perceived_latency") in text
    waits = {row[0]: row[1:] for row in page.rows if row and row[0] in waiting.LABELS and len(row) == 6}
    assert waits == {
        "Go": ["390 ms", "890 ms", "56.2 %", "33.7 %", "100.0 %"],
        "Dialog": ["0 ns", "140 ms", "0.0 %", "0.0 %", "–"],
    }
    actions = {row[0]: row[1:] for row in page.rows if row and row[0] in waiting.LABELS and len(row) == 11}
    assert actions["Go"] == ["1", "1", "640 ms", "–", "–", "0", "1", "0", "0", "0"]
    assert actions["Dialog"] == ["1", "1", "70 ms", "–", "–", "0", "0", "0", "0", "1"]
    assert actions["Nothing"] == ["1", "0", "–", "–", "–", "0", "0", "0", "0", "0"]
    captions = [attributes["alt"] or "" for tag, attributes in page.elements if tag == "img"]
    told = ("Mean time from an input", "Share of each of the longest waits", "The longest wait")
    assert all(caption.startswith(begin) for caption, begin in zip(captions[:3], told, strict=True))
    drawn = next(island for island in map(json.loads, page.scripts[:-1]) if "waits" in island)
    assert len(drawn["waits"]) == 2, "the waits are shaded in the chart"


def test_waits_without_requests_say_that_nothing_is_known_of_storage(tmp_path: Path) -> None:
    report.write(waiting.capture(has_requests=False), tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert ["Go", "390 ms", "890 ms"] in page.rows
    assert "the I/O during the waits is unknown" in " ".join(page.text)
    assert "Who read and wrote?" not in page.text


def test_what_nobody_waited_for_has_no_section(most: Page) -> None:
    assert "What did the user wait for?" not in " ".join(most.text)


@pytest.mark.prove
def test_what_writing_costs_and_how_long_data_live_is_told(tmp_path: Path) -> None:
    demo = androstep_analysis.capture.open(DEMO)
    report.write(demo, tmp_path / "report.html", figures=tmp_path / "figures")
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    writes = demo.io.filter(pl.col("op") == "write").collect()
    cost = measures.write_cost(demo.tables, by=["owner_comm"]).filter(pl.col("part") != "discard")
    for process in (".example.mail", ".example.game"):
        of_process = cost.filter(owner_comm=process).group_by("metric").agg(pl.col("value").sum())
        values = dict(of_process.select("metric", "value").iter_rows())
        shown = next(row for row in page.rows if row[0] == process and len(row) >= 5 and "%" not in row[3])
        told = [cells.size(values["written"]), cells.size(values["cost"])]
        assert shown[1:4] == [*told, f"{values['cost'] / values['written']:.2f}"]
    logs = writes.filter(pl.col("file_type") == "log")
    blocks = Counter(
        block
        for sector, length in logs.select("sector", "nr_sectors").iter_rows()
        for block in range(sector // 8, (sector + length - 1) // 8 + 1)
    )
    ended = blocks.total() - len(blocks)
    assert page.row("log")[:2] == [f"{blocks.total()}", cells.per_cent(ended / blocks.total())], "none was discarded"
    assert {figure.name for figure in behaviour.QUEUE.figures + behaviour.COST.figures} <= {
        path.stem for path in (tmp_path / "figures").iterdir()
    }


@pytest.mark.prove
def test_figures_of_benchmarks_are_saved_as_those_of_requests_are(tmp_path: Path) -> None:
    capture = androstep_analysis.capture.open(ROOT / "datasets/bench/ext4_peers/reads-0.rec.xz")
    report.write(capture, tmp_path / "report.html", figures=tmp_path / "figures")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", (tmp_path / "report.html").read_text("utf-8"))
    saved = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "figures").glob("*.json")]
    assert captions and sorted(one["caption"] for one in saved) == sorted(captions)
    for one in saved:
        files = {path.suffix for path in (tmp_path / "figures").glob(f"{one['figure']}.*")}
        assert files == {".pdf", ".png", ".csv", ".json"}


def test_definitions_are_printed_once_and_as_they_are(hostile: tuple[Path, Path]) -> None:
    text = " ".join(Page(hostile[0].read_text("utf-8")).text)
    used = {name for part in SECTIONS if part not in UNTOLD for name in part.definitions} | {"coverage", "counted"}
    assert used <= schema.definitions().keys()
    assert {"consecutive", "forward", "random", "sync", "latency", "owner", "block_type", "file_type"} <= used
    for name in used:
        assert text.count(printed(name)) == 1, name


@pytest.mark.unit
def test_a_definition_has_paragraphs_and_lists() -> None:
    rendered = definition.blocks("First.\n\n1. One.\n2. Two: <b>.\n\nLast - 1. of all.\n- A.\n- B.")
    assert "".join(map(str, rendered)) == (
        "<p>First.</p><ol><li>One.</li><li>Two: &lt;b&gt;.</li></ol>"
        "<p>Last - 1. of all.</p><ul><li>A.</li><li>B.</li></ul>"
    )


def printed(name: str) -> str:
    """Return the text of a definition as a page shows it: the marks of list items are drawn by the browser."""
    lines = schema.definitions()[name]["text"].splitlines()
    return " ".join(re.sub(r"^(?:-|\d+\.) ", "", line) for line in lines if line)


def test_what_was_lost_is_said(hostile: tuple[Path, Path], most: Page) -> None:
    text = " ".join(Page(hostile[0].read_text("utf-8")).text)
    assert "lost 12,345 events" in text
    assert "<script>alert(1)</script>.txt is cut (678)" in text
    assert "no lost event" not in text
    assert "no lost event" in " ".join(most.text)


def test_provenance_names_the_source(most: Page) -> None:
    oracle = json.loads(corpus.path("androstep/oracle_most.json").read_text("utf-8"))
    assert most.row("result.po") == [oracle["sources"]["result.po"]]


def test_every_figure_of_the_report_is_saved(hostile: tuple[Path, Path]) -> None:
    path, directory = hostile
    names = [figure.name for part in SECTIONS for figure in part.figures]
    assert len(names) == len(set(names))
    absent = {figure.name for part in UNTOLD for figure in part.figures}
    names = [name for name in names if name not in absent]
    assert {file.name for file in directory.iterdir()} == {
        f"{name}{suffix}" for name in names for suffix in (".pdf", ".png", ".csv", ".json")
    }
    images = [attributes for tag, attributes in Page(path.read_text("utf-8")).elements if tag == "img"]
    on_page = {figure.name for part in SECTIONS for figure in part.figures if figure.on_page}
    assert len(images) == len(on_page - absent)
    assert all(image["alt"] for image in images)
    provenance = json.loads((directory / "locality.json").read_text("utf-8"))
    assert provenance["definitions"]["consecutive"] == schema.definitions()["consecutive"]["text"]
    assert provenance["capture_id"] == hostile_capture().facts["capture_id"]


@pytest.mark.prove
def test_the_same_capture_gives_the_same_page(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    report.write(hostile_capture(), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == hostile[0].read_bytes()


def test_a_capture_without_requests_has_a_report(tmp_path: Path) -> None:
    requests, io = schema.empty("requests"), schema.empty("io")
    about = {"format": "ftrace", "events": {}, "first_ns": None, "last_ns": None, "clock": "unknown", "fs_type": None}
    about |= {
        "lost_events": 0,
        "realtime_offset_ns": None,
        "losses": [],
        "jumps": [],
        **dict.fromkeys(tool_results.KINDS),
        "rows": dict.fromkeys(derivation.TABLES, 0),
        "coverage": measures.coverage(requests, io).to_dicts(),
        "population": measures.population(requests),
    }
    tables = {name: schema.empty(name).lazy() for name in derivation.TABLES}
    empty = Capture("empty", Manifest(sources=()), tables, about)
    report.write(empty, tmp_path / "report.html", figures=tmp_path / "figures")
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    titles = [title for title, _ in QUESTIONS.values()]
    assert not any(title in page.text for title in titles), "what is empty is absent"
    assert not any(attributes.get("class") == "unknown" for _, attributes in page.elements)
    assert page.row("Window") == ["no events"]
    assert not any(tag == "img" for tag, _ in page.elements)


def test_figures_in_time_count_from_the_start_of_the_capture(hostile: tuple[Path, Path]) -> None:
    timed = {figure.name for part in SECTIONS for figure in part.figures if figure.in_time}
    assert timed == {"cumulative", "sector_over_time", "size_over_time", "iops", "bandwidth", "depth_over_time"}


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1, "100.0 %"), (0.99999, "> 99.9 %"), (0.5, "50.0 %"), (1e-9, "< 0.1 %"), (0, "0.0 %"), (0.9994, "99.9 %")],
)
def test_a_share_says_all_only_when_it_is_all(ratio: float, text: str) -> None:
    assert cells.per_cent(ratio) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1327, "1.327 µs"), (14_760_000, "14.76 ms"), (7_152_101_611, "7.152 s")],
)
def test_durations(ns: int, text: str) -> None:
    assert cells.duration(ns) == text


@pytest.mark.parametrize("span_ns", [0, 1, 299, 300, 301, 123_456_789, 7_152_101_611, 10**10, 3 * 10**13])
def test_bins_are_round_and_not_too_many(span_ns: int) -> None:
    length = bin_length(5, 5 + span_ns, BINS)
    assert re.fullmatch("[125]0*", str(length))
    assert length * BINS >= span_ns
    shorter = length // 2 if str(length)[0] in "12" else length * 2 // 5
    assert length == 1 or shorter * BINS < span_ns, "the next shorter round length would be too many"
