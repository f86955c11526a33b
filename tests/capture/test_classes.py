"""A user's own types of files and apps: which rule applies, where the names appear, and what a wrong rule is told."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import polars as pl
import pytest
from matplotlib.colors import to_hex
from polars.testing import assert_frame_equal
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import InputError, cli, compare, measures, plot, schema, whatif
from androstep_analysis.capture import Capture
from androstep_analysis.capture.classes import Classes, Rule, read
from androstep_analysis.compare.measures import known, measured
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import terminal
from androstep_analysis.present.plot import paper

DEMO = ROOT / "datasets" / "demo"

RULES = """
[[file_type]]
name = "game level"
glob = "*.obb"
colour = "#cc3311"

[[file_type]]
name = "log"
glob = ["*.jour?al", "*/save.dat"]

[[file_type]]
name = "never"
glob = "*.obb"

[[app]]
name = "Game"
glob = "*.example.game*"
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "mine.toml"
    path.write_text(RULES)
    return path


@pytest.fixture(scope="module")
def plain() -> Capture:
    return androstep.open(DEMO)


@pytest.fixture(scope="module")
def own(rules: Path) -> Capture:
    return androstep.open(DEMO, classes=rules)


def expected_type(path: str | None, built_in: str | None) -> str | None:
    """Return what `RULES` make of a file; the slow version."""
    if path is None or built_in in ("directory", "symlink"):
        return built_in
    if path.endswith(".obb"):
        return "game level"
    return "log" if re.search(r"\.jour.al$|/save\.dat$", path) else built_in


@pytest.mark.parametrize("table", ["io", "files"])
def test_the_first_rule_that_matches_a_path_gives_the_type(table: str, plain: Capture, own: Capture) -> None:
    before, after = (one.table(table).collect() for one in (plain, own))
    wanted = [expected_type(*row) for row in before.select("path", "file_type").iter_rows()]
    assert after["file_type"].to_list() == wanted
    assert {"game level", "log", "directory", None} <= {*wanted} | {None}
    assert "never" not in wanted
    changed = {"file_type", "file_type_rule", "package", "owner_package"}
    assert_frame_equal(before.drop(changed, strict=False), after.drop(changed, strict=False))


def test_the_rule_is_named(own: Capture) -> None:
    rule = own.files.filter(file_type="game level").select("file_type_rule").unique().collect()
    assert rule["file_type_rule"].to_list() == ["class:game level"]


def test_processes_and_packages_of_an_app_are_one_app(plain: Capture, own: Capture) -> None:
    is_game = pl.col("owner_comm").str.contains(r"\.example\.game").fill_null(False)
    before = plain.io.select(is_game.sum(), package=(pl.col("package") == "com.example.game").sum()).collect()
    after = own.io.select((pl.col("owner_package") == "Game").sum(), (pl.col("package") == "Game").sum()).collect()
    assert after.row(0) == before.row(0) != (0, 0)
    assert own.tasks.filter(package="Game").collect().height > 0
    assert "Game" in measures.largest(own.tables, 3)["owner"].to_list()


def test_every_measure_takes_the_names(own: Capture, plain: Capture) -> None:
    for name in compare.measures():
        one = known(name, None)
        words = [word for word in ("file_type", "app", "owner_app") if word in one.dimensions]
        by = tuple(column for word in words if (column := one.dimensions[word]) not in one.own)
        recording = Recording.of(own)
        if {"requests", "io", "fs_events"} & {*one.needs} and {*one.needs} <= {*recording.tables}:
            rows = measured(recording, one, None, by, []).table
            assert rows.height or measured(Recording.of(plain), one, None, by, []).table.is_empty(), name


def test_shares_of_types_and_their_sums_are_as_before(plain: Capture, own: Capture) -> None:
    sums = [
        measures.file_types(one.io).filter(metric="bytes").group_by("op").agg(pl.col("value").sum()).sort("op")
        for one in (plain, own)
    ]
    assert_frame_equal(*sums)
    named = measures.file_types(own.io).filter(metric="bytes", file_type="game level")
    of_levels = plain.io.filter(pl.col("path").str.ends_with(".obb")).select(pl.col("bytes").sum()).collect().item()
    assert named["value"].sum() == of_levels > 0


def test_a_table_of_arrow_has_the_names(own: Capture) -> None:
    of_arrow = measures.file_types(own.table("io", as_="pyarrow"))
    assert_frame_equal(of_arrow, measures.file_types(own.io))


def test_a_window_other_evidence_and_another_process_have_the_names(own: Capture) -> None:
    middle = (own.first_ns + own.last_ns) // 2
    for one in (own.window(own.first_ns, middle), own.with_filesystem(), pickle.loads(pickle.dumps(own))):
        assert one.classes == own.classes
        assert one.io.collect_schema()["file_type"] == own.io.collect_schema()["file_type"]
        assert "Game" in one.io.select("owner_package").collect()["owner_package"]


@pytest.mark.parametrize("place", ["datasets/demo", "datasets/kernels/tables/.."])
def test_captures_and_released_datasets_of_a_collection_have_the_names(place: str, tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text("[[file_type]]\nname = 'any'\nglob = '*'\n")
    found = androstep.collection(ROOT / place, classes=tmp_path / "all.toml")
    found.places = found.places[:1]
    types = found.measure("file_types", jobs=1).get_column("file_type").cast(pl.String)
    assert {*types.drop_nulls()} <= {"any", "unknown"}
    assert "any" in types
    observed, failed = found.observed(jobs=1)
    assert failed == {}
    assert "any" in observed[0].tables["by_file_type"].table["file_type"]


def test_an_app_is_matched_by_what_was_recorded_and_never_by_a_name_that_a_rule_gave(plain: Capture) -> None:
    rules = Classes(apps=(Rule("Other", ("Game",)), Rule("Game", ("*.example.game*",))))
    one = Capture(plain.title, plain.manifest, plain.tables, plain.about, classes=rules)
    for of_rules in (one, one.window(one.first_ns, one.last_ns)):
        assert {"Game"} == {*of_rules.io.select("owner_package").collect()["owner_package"].drop_nulls()}


def test_stored_tables_and_a_capture_without_rules_keep_their_types(plain: Capture, own: Capture) -> None:
    again = androstep.open(DEMO)
    assert again.io.collect_schema() == schema.table("io").polars == plain.io.collect_schema()
    assert own.io.collect_schema() != schema.table("io").polars
    assert plain.classes == Classes()


def test_predictions_and_advice_are_as_before(plain: Capture, own: Capture) -> None:
    one, two = (whatif.without_fsync(of.requests, of.io, of.extents) for of in (plain, own))
    assert_frame_equal(one.requests, two.requests)
    names = [whatif.without_journal(of.requests, of.io).io for of in (plain, own)]
    assert_frame_equal(*(rows.drop("file_type", "package", "owner_package") for rows in names))
    assert androstep.advise(own).height == androstep.advise(plain).height


def test_only_types_of_files_may_have_more_values(own: Capture, plain: Capture) -> None:
    assert schema.conform(own.io, "io").collect_schema()["file_type"] == own.io.collect_schema()["file_type"]
    ops = pl.Enum([*schema.enum("io", "op").categories, "more"])
    with pytest.raises(schema.SchemaError, match="op is Enum"):
        schema.conform(plain.io.with_columns(pl.col("op").cast(ops)), "io")
    fewer = pl.Enum([*schema.enum("io", "file_type").categories][::-1])
    with pytest.raises(schema.SchemaError, match="file_type is Enum"):
        schema.conform(plain.io.with_columns(pl.col("file_type").cast(fewer)), "io")


@pytest.mark.parametrize("by", [(), ("owner_comm",)])
def test_figures_have_the_colours(own: Capture, by: tuple[str, ...]) -> None:
    table = measures.file_types(own.io, by=by)
    ax = plot.file_types(table, colours=own.classes.colours)
    fills = {str(bars.get_label()): bars.patches[0].get_facecolor() for bars in ax.containers}
    assert fills["game level"] == pytest.approx((0.8, 0.2, 1 / 15, 1))
    without = plot.file_types(table)
    other = {str(bars.get_label()): bars.patches[0].get_facecolor() for bars in without.containers}
    assert to_hex(other["game level"]) != paper.FALLBACK
    assert len({*other.values()}) == len(other), "each type has a colour of its own, also without one in the rules"


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "\x1b[2J\x07", "$\\frac", "\u202edb.exe", "a\nb"])
def test_hostile_names_are_escaped(hostile: str, plain: Capture) -> None:
    rules = Classes((Rule(hostile, ("*.obb",)),), (Rule(hostile, ("*game*",)),), {hostile: "#000000"})
    one = Capture(plain.title, plain.manifest, plain.tables, plain.about, classes=rules)
    shown = terminal.tables(one)
    assert shown.replace("\n", "").isprintable()
    assert plot.png(plot.file_types(measures.file_types(one.io), colours=rules.colours))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no rules; write [[file_type]] or [[app]], with a name and a glob"),
        ("[[file_type]", "is not valid TOML (.*); docs/classes.md shows an example"),
        ("[file_type]\nname='a'", "file_type is not a list of rules; write [[file_type]] in two brackets"),
        ("file_type = 'a'", "file_type is not a list of rules"),
        ("[[file_types]]", "unknown table [[file_types]]; write [[file_type]] or [[app]]"),
        ("[[file_type]]\nglob='*'", '[[file_type]] rule 1 has no name; write name = "…", a text'),
        ("[[file_type]]\nname=' '\nglob='*'", "[[file_type]] rule 1 has no name"),
        ("[[app]]\nname='a'\nglob='*'\n[[app]]\nname='b'", "[[app]] rule 2 has no glob; write glob"),
        ("[[app]]\nname='a'\nglob=[]", "[[app]] rule 1 has no glob"),
        ("[[app]]\nname='a'\nglob=['a', 1]", "[[app]] rule 1 has no glob"),
        ("[[app]]\nname='a'\nglob='*'\ncolour='#ffffff'", "[[app]] rule 1 has colour; it takes name, glob"),
        ("[[file_type]]\nname='a'\nglob='*'\nmagic='a'", "[[file_type]] rule 1 has magic; it takes name, glob, colour"),
        ("[[file_type]]\nname='a'\nglob='*'\ncolour='red'", "rule 1: colour is 'red'; write #rrggbb, as #c0392b"),
        ("[[file_type]]\nname='a'\nglob='*'\ncolour=7", "rule 1: colour is 7; write #rrggbb"),
        ("[[file_type]]\nname='unknown'\nglob='*'", "rule 1: unknown is a type that the filesystem states"),
        (
            "[[file_type]]\nname='a'\nglob='b'\ncolour='#000000'\n[[file_type]]\nname='a'\nglob='c'\ncolour='#111111'",
            "[[file_type]] rule 2: a already has the colour #000000; leave one out",
        ),
    ],
)
def test_a_wrong_rule_is_told_in_one_sentence(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert re.search(re.escape(told).replace(r"\.\*", ".*"), message)


def test_a_file_that_is_not_there_or_not_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["summary", str(DEMO), "--classes", str(tmp_path / "none.toml")]) == 1
    assert capsys.readouterr().err.strip().endswith("none.toml: cannot be read: No such file or directory")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not valid TOML"):
        read(tmp_path / "bytes.toml")


@pytest.mark.parametrize("command", ["measure", "summary", "sql", "slow"])
def test_commands_take_the_rules(command: str, rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = {
        "measure": ["volume", "--by", "file_type,owner_app", "--where", "file_type=game level"],
        "summary": ["--all"],
        "sql": ["select file_type, owner_package, sum(bytes) from io where file_type = 'game level' group by 1, 2"],
        "slow": ["--top", "50"],
    }[command]
    assert cli.main([command, str(DEMO), *more, "--classes", str(rules)]) == 0
    printed = capsys.readouterr().out
    assert "Game" in printed
    assert command == "slow" or "game level" in printed


def test_a_trace_without_files_and_an_empty_one_take_the_rules(rules: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("0,read,8,4096\n1,write,16,8192\n")
    one = androstep.open(trace, csv_columns="time:s,op,offset:sectors,size:B", classes=rules)
    assert measures.file_types(one.io).is_empty()
    assert terminal.tables(one)
