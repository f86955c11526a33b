"""Test every command by its output and exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from support import corpus, readers
from support.tree import ROOT

import androstep_analysis
from androstep_analysis import capture, cli, fs, link
from androstep_analysis.capture import derivation
from androstep_analysis.device import doctor

DEMO = ROOT / "datasets/demo"
KEPT = [
    *("trace.dat.zst", "before.rec.zst", "after.rec.zst", "names.rec.zst", "recording.json"),
    *("before.img.zst", "after.img.zst"),
]
PROGRAM = Path(sys.executable).with_name("androstep")
COMMANDS = tuple(cli.COMMANDS)


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The error message, which is one line."""
        assert self.out == ""
        assert self.err.startswith("androstep: ") and self.err.count("\n") == 1, self.err
        return self.err


class Androstep:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Done:
        self._capsys.readouterr()
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as usage:
            status = int(usage.code or 0)
        return Done(status, *self._capsys.readouterr())


@pytest.fixture
def androstep(capsys: pytest.CaptureFixture[str]) -> Androstep:
    return Androstep(capsys)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """Return a copy of the demo capture, for tests that damage it."""
    return Path(shutil.copytree(DEMO, tmp_path / "demo"))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo's image after the recording, decompressed."""
    plain = tmp_path_factory.mktemp("image") / "after.img"
    with pa.input_stream(str(DEMO / "raw/after.img.zst"), compression="zstd") as stream, plain.open("wb") as out:
        shutil.copyfileobj(stream, out)
    return plain


# -- help -------------------------------------------------------------------------------------------------------------


def test_help_names_every_command(androstep: Androstep) -> None:
    done = androstep("--help")
    assert done.status == 0
    assert all(re.search(rf"(?m)^ +{command}\s", done.out) for command in COMMANDS)


def examples(text: str) -> list[list[str]]:
    """Return the command lines in a help text."""
    lines = re.findall(r"(?m)^ *(?:example: )?androstep ([\w-]+(?: .*?)?)(?:  .*)?$", text)
    return [shlex.split(line) for line in lines if line.split()[0] in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_an_example_that_its_parser_takes(androstep: Androstep, command: str) -> None:
    done = androstep(command, "--help")
    assert done.status == 0
    shown = "".join(done.out.partition("example:")[1:])
    assert f"androstep {command}" in shown
    found = examples(shown)
    assert found
    for example in found:
        cli._parsed(example)


def test_the_first_examples_are_taken_too(androstep: Androstep) -> None:
    shown = examples(androstep("--help").out)
    assert len(shown) == 16
    for example in shown:
        cli._parsed(example)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("words", "not_for_it"),
    [
        (["--help"], {"numpy", "polars", "pandas", "pyarrow", "matplotlib", "androstep_analysis.commands"}),
        (["summary", str(DEMO)], {"matplotlib", "pandas", "seaborn", "adb_shell", "IPython"}),
        (["report", str(DEMO), "-o", "page.html"], {"pandas", "seaborn", "matplotlib.pyplot", "IPython"}),
        (["ingest", "--help"], {"matplotlib", "pandas", "seaborn", "adb_shell", "IPython"}),
    ],
)
def test_a_command_imports_what_it_needs(words: list[str], not_for_it: set[str], tmp_path: Path) -> None:
    code = "import sys\nfrom androstep_analysis import cli\ntry: cli.main(sys.argv[1:])\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not_for_it.isdisjoint(done.stdout.splitlines()[-1].split())


def test_the_version_is_that_of_the_package(androstep: Androstep) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert androstep("--version").out == f"androstep {project['version']}\n"
    assert androstep_analysis.__version__ == project["version"]


# -- wrong usage: 2 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "required: COMMAND"),
        ("frobnicate", "invalid choice"),
        ("summary", "required: PATH"),
        ("summary x --compat biosnoop", "invalid choice"),
        ("ingest x", "required: -o"),
        ("ingest x -o y --image-after z --device 8", "'8' is not a device number; write MAJOR:MINOR"),
        ("ingest x -o y --image-after z --device sda", "'sda' is not a device number"),
        ("tables x pages", "invalid choice"),
        ("tables x io -o io.txt", "must end in .parquet or .csv"),
        ("tables {demo} -o io.csv", "name it before -o"),
        ("export x", "required: --to"),
        ("export x --to csv", "invalid choice"),
        ("export x --to perfetto", "is no text; name a file with -o"),
        ("export x --to msr --op read --block-size 512", "msr takes no --block-size, --op: for oraclegeneral only"),
        ("export x --to oraclegeneral -o y --block-size 0", "is not a number of bytes"),
        ("report x", "required: -o"),
        ("lookup x", "required: SECTOR"),
        ("summary x --jsno", "androstep summary: error: unrecognized arguments: --jsno\n"),
        ("bench x --size 1m", "unrecognized arguments: --size 1m; options of iobench go after --"),
        ("replay x y --mode as-fast", "unrecognized arguments: --mode as-fast; options of ioreplay go after --"),
        ("record ls", "unrecognized arguments: ls; the command to record goes after --"),
        ("whatif x --log-structured -o x.csv", "'x.csv' must end in .parquet"),
    ],
)
def test_wrong_usage(androstep: Androstep, arguments: str, says: str) -> None:
    done = androstep(*arguments.format(demo=DEMO).split())
    assert (done.status, done.out) == (2, "")
    assert says in done.err
    assert done.err.startswith("usage: ")


def test_a_device_without_an_image_is_reported_as_unused(androstep: Androstep, tmp_path: Path) -> None:
    done = androstep("ingest", DEMO / "raw/trace.dat.zst", "--device", "7:0", "-o", tmp_path / "capture")
    assert done.status == 0
    assert "--device is ignored" in done.err


# -- input that cannot be used: 1 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["summary", "tables", "export", "report", "ingest"])
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "no such file"),
        ("empty", "the file is empty; a recording was expected"),
        ("garbage", "no known recording; it is "),
        ("image", "an image of a filesystem; pass it with --image-before"),
    ],
)
def test_files_that_are_not_recordings(
    androstep: Androstep, tmp_path: Path, command: str, kind: str, says: str
) -> None:
    path = tmp_path / "input"
    if kind != "missing":
        contents = {"empty": b"", "garbage": bytes(range(256)) * 20, "image": (DEMO / "raw/after.img.zst").read_bytes()}
        path.write_bytes(contents[kind])
    before = list(tmp_path.iterdir())
    options = {"export": ["--to", "most"], "report": ["-o", tmp_path / "x.html"], "ingest": ["-o", tmp_path / "x"]}
    done = androstep(command, path, *options.get(command, []))
    assert done.status == 1
    assert "input" in done.sentence and says in done.sentence
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "words", ["report {0} -o {0}", "whatif {0} --log-structured -o {0}", "export {0} --to msr -o {0}"]
)
def test_an_output_never_replaces_the_recording(androstep: Androstep, tmp_path: Path, words: str) -> None:
    path = Path(shutil.copy(DEMO / "raw/trace.dat.zst", tmp_path / "recording.parquet"))
    done = androstep(*words.format(path).split())
    assert done.status == 1
    assert "recording.parquet: is the input; name another file with -o" in done.sentence
    assert path.read_bytes() == (DEMO / "raw/trace.dat.zst").read_bytes()


def test_an_unwritable_report_is_refused_before_the_work(androstep: Androstep, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a directory; name the page to write" in androstep("report", "none", "-o", tmp_path).sentence
    done = androstep("report", "none", "-o", tmp_path / "x.html", "--figures", tmp_path / "file")
    assert "file: is not a directory; name another with --figures" in done.sentence


def test_an_export_without_content_prints_a_note(androstep: Androstep) -> None:
    done = androstep("export", DEMO, "--to", "mobigen")
    assert (done.status, done.out) == (0, "")
    assert done.err == "androstep: note: table syscalls of demo has no rows: the mobigen file is empty\n"


def test_missing_results_are_a_missing_file(androstep: Androstep, tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert androstep("bench", "--compare", path, path).sentence == f"androstep: {path}: no such file\n"


def test_directories_that_are_no_capture(androstep: Androstep, demo: Path, tmp_path: Path) -> None:
    for command in ("summary", "doctor"):
        assert "a directory without capture.json is not a capture" in androstep(command, tmp_path).sentence
        (demo / "capture.json").write_text("{")
        assert "capture.json: not valid JSON" in androstep(command, demo).sentence
        (demo / "capture.json").write_text('{"androstep": 9}')
        assert "manifest version 9, expected 1; update androstep" in androstep(command, demo).sentence
    assert "no such directory" in androstep("doctor", tmp_path / "missing").sentence
    assert "no such directory" in androstep("doctor", demo / "README.md").sentence


def test_doctor_reports_missing_permissions(androstep: Androstep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A too long path replaces the tracefs of a user who is not root: accessing it fails even for root."""
    monkeypatch.setattr(doctor, "_TRACEFS", (Path("/", "x" * 300),))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    done = androstep("doctor")
    assert (done.status, done.err) == (0, "")
    assert "block tracepoints  only root can look for them" in done.out


@pytest.mark.parametrize("name", ["trace.dat.zst", "after.img.zst"])
def test_one_flipped_byte(androstep: Androstep, demo: Path, name: str) -> None:
    path = demo / "raw" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = androstep("doctor", demo)
    assert (done.status, done.err) == (1, "")
    lines = [line for line in done.out.splitlines() if name in line]
    assert len(lines) == 1 and lines[0].startswith("NO ") and "sha256" in lines[0] and "restore it" in lines[0]
    assert done.out.count("ok ") == len(KEPT) - 1

    (demo / "tables/io.parquet").unlink(missing_ok=True)
    assert f"raw/{name}: changed, its sha256 differs" in androstep("summary", demo).sentence


def test_doctor_of_a_whole_capture_and_of_this_machine(androstep: Androstep) -> None:
    done = androstep("doctor", DEMO)
    assert (done.status, done.err) == (0, "")
    assert [line.split()[:2] for line in done.out.splitlines()[2:]] == [["ok", f"raw/{name}"] for name in KEPT]
    machine = androstep("doctor")
    assert machine.status == 0  # the machine that runs the tests supports analysis
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in machine.out


@pytest.mark.parametrize(
    "arguments",
    [
        "tables {demo} io -o {bad}/io.csv",
        "tables {demo} io -o {bad}/io.parquet",
        "export {demo} --to most -o {bad}/x.po",
        "ingest {trace} -o {bad}/capture",
    ],
)
def test_an_output_that_cannot_be_written(androstep: Androstep, tmp_path: Path, arguments: str) -> None:
    bad = tmp_path / "in a long path".replace(" ", "-" * 20) / "file"
    bad.parent.mkdir()
    bad.touch()
    done = androstep(*arguments.format(demo=DEMO, trace=DEMO / "raw/trace.dat.zst", bad=bad).split())
    assert done.status == 1
    assert str(bad) in done.sentence and "Errno" not in done.sentence
    assert list(bad.parent.iterdir()) == [bad] and bad.stat().st_size == 0


def test_ingest_does_not_touch_what_is_there(androstep: Androstep, demo: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in demo.rglob("*"))
    assert "exists already" in androstep("ingest", DEMO / "raw/trace.dat.zst", "-o", demo).sentence
    assert sorted((path, path.stat().st_mtime_ns) for path in demo.rglob("*")) == before


@pytest.mark.prove
def test_images_that_do_not_fit(androstep: Androstep, tmp_path: Path) -> None:
    trace, image, out = DEMO / "raw/trace.dat.zst", DEMO / "raw/after.img.zst", tmp_path / "out"
    refused = androstep("ingest", trace, "--image-after", trace, "-o", out)
    assert "is not the start of a supported filesystem" in refused.sentence
    wrong = androstep("ingest", trace, "--image-after", image, "--device", "9:9", "-o", out)
    assert re.search(r"assigned to device 9:9, but the trace has 7:0 \(\d+ requests\)", wrong.sentence)
    two = tmp_path / "two.txt"
    two.write_text("  8,0 0 1 0.000000001 1 D W 8 + 8 [a]\n  8,16 0 2 0.000000002 1 D W 8 + 8 [a]\n")
    whose = androstep("ingest", two, "--image-after", image, "-o", out).sentence
    assert "8:0 (1 requests)" in whose and "8:16 (1 requests)" in whose and "--device MAJ:MIN" in whose
    assert androstep("ingest", two, "--image-after", image, "--device", "8:16", "-o", out).status == 0


# -- what was cut or damaged ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_truncated_trace_is_read_up_to_its_end(androstep: Androstep, tmp_path: Path, cut: float) -> None:
    data = corpus.path("kernel/ext4_host_6.18/trace.txt.gz").read_bytes()
    path = tmp_path / "cut.gz"
    path.write_bytes(data[: int(len(data) * cut)])
    left = readers.gunzip_what_is_there(path.read_bytes())
    whole_lines = left[: left.rindex(b"\n") + 1]
    done = androstep("summary", path, "--json")
    assert done.status == 0
    assert re.fullmatch(r"androstep: warning: .*cut\.gz: .*truncated.*\n", done.err)
    found = json.loads(done.out)
    assert sum(found["events"].values()) == len(readers.FTRACE_EVENT.findall(whole_lines))
    assert found["losses"] and all(loss["count"] > 0 for loss in found["losses"])
    assert found["losses"][0]["kind"] == "torn"


def test_an_unreadable_line_affects_no_other_line(androstep: Androstep, tmp_path: Path) -> None:
    text = corpus.path("androstep/ftrace_sqlite.txt")
    lines = text.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"block_rq_issue" in line)
    name = tmp_path / "trace\x1b[2J.txt"
    name.write_bytes(b"".join([*lines[:at], b"\xff\x00\x1b[2J nonsense\n", *lines[at + 1 :]]))
    done = androstep("summary", name, "--json")
    found, whole = json.loads(done.out), json.loads(androstep("summary", text, "--json").out)
    assert done.status == 0
    assert sum(found["events"].values()) == sum(whole["events"].values()) - 1
    # The line itself, and the count in the header that no longer fits.
    assert [loss["count"] for loss in found["losses"]] == [1, 1]
    assert "androstep: warning: " in done.err and "\x1b" not in done.err + done.out


@pytest.mark.prove
def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    command = f"{shlex.quote(str(PROGRAM))} export {shlex.quote(str(DEMO))} --to most | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


# -- tables -----------------------------------------------------------------------------------------------------------


def test_tables_lists_all_tables(androstep: Androstep) -> None:
    done = androstep("tables", DEMO)
    counted = {line.split()[0]: int(line.split()[1].replace(",", "")) for line in done.out.splitlines()[2:]}
    opened = capture.open(DEMO)
    assert counted == {name: opened.tables[name].collect().height for name in derivation.TABLES}


@pytest.mark.parametrize("table", derivation.TABLES)
def test_a_written_table_reads_back(androstep: Androstep, tmp_path: Path, table: str) -> None:
    expected = capture.open(DEMO).tables[table].collect()
    for suffix in (".parquet", ".csv"):
        done = androstep("tables", DEMO, table, "-o", tmp_path / f"x{suffix}")
        assert done == Done(0, "", "")
    assert_frame_equal(pl.read_parquet(tmp_path / "x.parquet"), expected)
    lists = {name: dtype for name, dtype in expected.schema.items() if isinstance(dtype, pl.List)}
    flat = pl.Schema({name: pl.String if name in lists else dtype for name, dtype in expected.schema.items()})
    text = pl.read_csv(tmp_path / "x.csv", schema=flat)
    empty_is_null = pl.col(pl.String).replace("", None)  # CSV writes both in the same way
    joined = expected.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join("\n") for name in lists)
    assert_frame_equal(text.with_columns(empty_is_null), joined.with_columns(empty_is_null))


def test_a_printed_table_is_twenty_rows(androstep: Androstep) -> None:
    for table in derivation.TABLES:
        shown, _, _ = androstep("tables", DEMO, table).out.partition("\n\n")
        height = capture.open(DEMO).tables[table].collect().height
        assert shown.splitlines() == ["no rows"] if height == 0 else len(shown.splitlines()) == 2 + min(20, height)


def test_a_printed_table_has_units_and_every_digit_of_times(androstep: Androstep) -> None:
    *blocks, rest = androstep("tables", DEMO, "requests").out.split("\n\n")
    shown = "\n".join(blocks)
    header, _, first, *_ = (line.split() for line in shown.splitlines())
    assert first[header.index("dev")] == "7:0" and "no" in first
    end_ns = capture.open(DEMO).requests.select("complete_ns").head(1).collect().item()
    assert f"{end_ns // 10**9:,}.{end_ns % 10**9:09d} s" in shown, "the end of the first request, to the nanosecond"
    assert rest.startswith("without a value in these rows: ") and "prio" in rest
    assert "4 KiB" in androstep("tables", DEMO, "io").out


EVIL = "e\x1b[2J\x9b1m"


@pytest.mark.prove
def test_names_stay_in_their_cell(androstep: Androstep, tmp_path: Path) -> None:
    """No command prints escape sequences in process names and paths to a terminal."""
    path = tmp_path / "evil.po"
    row = "    0.{:09}\t{}\tWS\t       8\t   8\t  10\t{:>20}\tD\t/d/{}\u202e\u2028.db\n"
    path.write_text("".join(row.format(n, action, EVIL, EVIL) for n, action in enumerate("QDC")))
    outputs = [
        androstep("summary", path),
        androstep("summary", path, "--json"),
        androstep("tables", path, "io"),
        androstep("tables", path, "tasks"),
        androstep("ingest", path, "-o", tmp_path / f"capture{EVIL}"),
        androstep("doctor", tmp_path / f"capture{EVIL}"),
        androstep("export", path, "--to", "most"),
    ]
    for done in outputs:
        assert (done.status, done.err) == (0, "")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.out)
    shown = outputs[0].out
    assert r"e\x1b[2J\x9b1m" in shown and r"\u202e\u2028" in shown
    assert len(outputs[2].out.partition("\n\n")[0].splitlines()) == 2 + 1


# -- lookup -----------------------------------------------------------------------------------------------------------


def test_lookup_agrees_with_the_library(androstep: Androstep, image: Path, tmp_path: Path) -> None:
    sectors = [0, 2, 8, 100, 1000, 20_000, 65_536, 131_071, 131_072, 10**15]
    expected = fs.lookup(link.classified(fs.read(image, dev=0, source="image_after")), sectors)
    rows = expected.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
    assert {row["block_type"] for row in rows} > {"metadata", "unknown"}
    (tmp_path / "list").write_text("\n".join(map(str, sectors[2:])) + "\n")
    for path in (image, DEMO / "raw/after.img.zst"):
        done = androstep("lookup", path, "0", "2", f"@{tmp_path / 'list'}", "--json")
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out) == rows
    lines = androstep("lookup", image, *sectors).out.splitlines()
    assert lines[0].split() == expected.columns
    assert [line.split()[:2] for line in lines[2:]] == [[str(row["sector"]), row["block_type"]] for row in rows]


@pytest.mark.parametrize(
    "name", ["ul_ext4.img.xz", "dissect_ext4.bin.gz", "ext4view_test_disk1.bin.zst", "pytsk_image.raw"]
)
def test_lookup_in_corpus_images(androstep: Androstep, name: str) -> None:
    path = corpus.path(f"fs_images/{name}")
    sectors = range(0, 4000, 37)
    with fs.opened(path) as plain:
        expected = fs.lookup(link.classified(fs.read(plain, dev=0, source="image_after")), sectors)
    done = androstep("lookup", path, "--json", *sectors)
    assert json.loads(done.out) == expected.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
    assert not set(expected["block_type"]) <= {"unknown"}


def test_lookup_against_debugfs(androstep: Androstep, image: Path) -> None:
    """Lookup names the same file of a block as debugfs icheck."""
    debugfs = shutil.which("debugfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if debugfs is None:
        pytest.skip("debugfs (e2fsprogs) is not installed")
    extents = fs.read(image, dev=0, source="image_after").extents.filter(pl.col("block_type") == "data")
    sectors = extents["sector"].gather_every(5).to_list()
    rows = json.loads(androstep("lookup", image, "--json", *sectors).out)
    blocks = " ".join(str(sector // 8) for sector in sectors)
    shown = subprocess.run(
        [debugfs, "-R", f"icheck {blocks}", image], capture_output=True, text=True, check=True
    ).stdout
    inode = {int(words[0]): words[1] for words in map(str.split, shown.splitlines()[1:])}
    assert [str(row["ino"]) for row in rows] == [inode[sector // 8] for sector in sectors]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("{image} x", "argument: 'x' is not a sector number; give whole numbers, or @FILE"),
        ("{image} 1.5", "'1.5' is not a sector number"),
        ("{image} ٣", "is not a sector number"),
        ("{image} 99999999999999999999", "is not a sector number"),
        ("{image} @{directory}/none", "none: No such file or directory"),
        ("{image} @{directory}", "Is a directory"),
        ("{image} @{directory}/words", "words: 'two' is not a sector number"),
        ("{directory}/missing 1", "missing: no such file; give a filesystem image"),
        ("{directory} 1", "neither a file nor a block device"),
        ("{directory}/words 1", "is not the start of a supported filesystem"),
        ("{directory}/words.zst 1", "/words.zst: byte 0 is not the start of a supported filesystem"),
        ("{directory}/cut.zst 1", "copy the file again"),
    ],
)
def test_lookup_of_invalid_input(androstep: Androstep, image: Path, tmp_path: Path, arguments: str, says: str) -> None:
    (tmp_path / "words").write_text("1 two 3")
    (tmp_path / "words.zst").write_bytes(pa.compress(b"1 two 3", codec="zstd", asbytes=True))
    (tmp_path / "cut.zst").write_bytes((DEMO / "raw/after.img.zst").read_bytes()[:100_000])
    done = androstep("lookup", *arguments.format(image=image, directory=tmp_path).split())
    assert done.status == 1
    assert says in done.sentence


def test_lookup_of_nothing(androstep: Androstep, image: Path, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("\n")
    done = androstep("lookup", image, f"@{tmp_path / 'none'}", "--json")
    assert (done.status, json.loads(done.out)) == (0, [])


# -- the commands that remain, and the program itself -----------------------------------------------------------------


@pytest.mark.prove
def test_ingest_and_report(androstep: Androstep, tmp_path: Path) -> None:
    raw = DEMO / "raw"
    images = ["--image-before", raw / "before.img.zst", "--image-after", raw / "after.img.zst", "--device", "7:0"]
    done = androstep("ingest", raw / "trace.dat.zst", *images, "-o", tmp_path / "deep/capture")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("<Capture of x86_64; format trace.dat;")
    assert sorted(path.name for path in (tmp_path / "deep/capture").iterdir()) == ["capture.json", "raw", "tables"]
    page = tmp_path / "pages/report.html"
    assert androstep("report", tmp_path / "deep/capture", "-o", page) == Done(0, "", "")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


TRACES = [
    "androstep/result.po",
    "blkparse_text/leveldb_ram0_blk_data.txt",
    "block_csv/pixel6a_telegram_precond.csv.gz",
    "ftrace_text/lisa_trace.txt",
    "ftrace_text/catapult_compressed_atrace_data.txt",
    "ftrace_text/systrace_wangzherongyao.html.zip",
]


@pytest.mark.parametrize("name", TRACES)
def test_every_command_takes_a_trace_as_it_is(androstep: Androstep, tmp_path: Path, name: str) -> None:
    path = corpus.path(name)
    for arguments in (
        ("summary", path),
        ("summary", path, "--json"),
        ("summary", path, "--compat", "most"),
        ("tables", path),
        ("tables", path, "requests"),
        ("export", path, "--to", "most", "-o", tmp_path / "x.po"),
        ("ingest", path, "-o", tmp_path / "capture"),
        ("summary", tmp_path / "capture"),
        ("doctor", tmp_path / "capture"),
    ):
        done = androstep(*arguments)
        assert done.status == 0, done.err
        assert done.out or "-o" in arguments
        assert all(line.startswith(("androstep: warning: ", "androstep: note: ")) for line in done.err.splitlines())


@pytest.mark.prove
def test_the_installed_program(tmp_path: Path) -> None:
    def run(*arguments: object) -> Any:
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)

    done = run("summary", DEMO, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["format"] == "trace.dat"
    done = run("summary", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("androstep: ") and "Traceback" not in done.stderr
    assert run("summary").returncode == 2


def test_too_little_address_space_is_one_sentence() -> None:
    """Without this check, a thread of polars that gets no memory would block forever."""
    limited = ["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", sys.executable, "-m", "androstep_analysis"]
    ran = subprocess.run([*limited, "summary", DEMO], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    [said] = ran.stderr.splitlines()
    assert said.startswith("androstep: this process may map only 976 MiB (ulimit -v) and needs ")
