"""``-o -``: standard output for one text, and a refusal for directories and files that are no text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from androstep_analysis import cli
from androstep_analysis.common import files

TRACE = " a-1 [000] .... 1.000000: block_rq_issue: 8,0 W 4096 () 8 + 8 [a]\n"
TEXTS = (
    ["tables", "trace.txt", "requests"],
    ["measure", "trace.txt", "mix"],
    ["sql", "trace.txt", "select * from requests"],
    ["export", "trace.txt", "--to", "blkparse"],
)
OTHERS = (
    ["ingest", "trace.txt"],
    ["export", "trace.txt", "--to", "perfetto"],
    ["program", "trace.txt"],
    ["record", "--", "true"],
    ["release", "trace.txt"],
)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trace.txt").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", TEXTS, ids=lambda words: words[0])
def test_a_text_goes_to_standard_output(
    words: list[str], directory: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = directory / ("out.csv" if words[0] != "export" else "out.txt")
    assert cli.main([*words, "-o", str(file)]) == 0
    capfdbinary.readouterr()
    assert cli.main([*words, "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == file.read_bytes() != b""
    assert not (directory / "-").exists()


@pytest.mark.parametrize("words", OTHERS, ids=lambda words: words[0])
def test_no_directory_and_no_binary_file_goes_there(
    words: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = words.index("--") if "--" in words else len(words)
    with pytest.raises(SystemExit) as ended:
        cli.main([*words[:output], "-o", "-", *words[output:]])
    assert ended.value.code == 2
    assert "name " in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in directory.iterdir()] == ["trace.txt"]


def test_standard_output_that_is_a_file_keeps_what_it_has(directory: Path) -> None:
    """Opening /dev/stdout would truncate the file, and replacing it would remove the link of the system."""
    code = (
        "from pathlib import Path; from androstep_analysis.common import files\n"
        "with files.replacing(files.STDOUT) as new: new.write_text('second')"
    )
    log = directory / "log"
    log.write_text("first ")
    with log.open("a") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert log.read_text() == "first second"
    assert files.STDOUT.is_symlink()
