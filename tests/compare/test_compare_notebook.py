"""The numbers of notebooks/04_compare.ipynb are those that `androstep compare` prints, with the corpus and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import corpus
from support.notebooks import NOTEBOOKS, run

from androstep_analysis import cli

ROOT = Path(__file__).parents[2]
TOLD = """\
assert of_fsync["n"].to_list() == [9, 9, 9]
assert set(alone["verdict"]) > {"lower"}
results = {"bench": (rates, rate_pairs), "replay": (times, replay_pairs)}
results["bench_fsync"] = compare.ranking(fsync, by=["fs_type"]), alone
if apps:
    results |= {"locality": (locality, pairs), "mix": (mix, mix_pairs)}
assert times.height == 5 and times["repeats"].unique().to_list() == ["captures"]

import json
rows = lambda table: table.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
known = lambda row: {name: value for name, value in row.items() if value is not None}
found = {name: [[known(row) for row in rows(table)] for table in both] for name, both in results.items()}
Path(os.environ["ANDROSTEP_FIGURES"], "results.json").write_text(json.dumps(found))
"""

APPS = {
    "Call of Duty": "cod_exec",
    "PUBG": "pubg_exec",
    "slide show": "slideshow_exec",
    "Telegram's installation": "telegram_precond",
}


def executed(corpus: Path, tmp_path: Path) -> dict[str, Any]:
    """Run the notebook and return its `results`: of each comparison the groups and the comparisons, as JSON."""
    run(NOTEBOOKS / "04_compare.ipynb", tmp_path, TOLD, ANDROSTEP_CORPUS=str(corpus))
    return json.loads((tmp_path / "results.json").read_text())


def told(capsys: pytest.CaptureFixture[str], *words: object) -> list[Any]:
    """Return the same from the output of the command."""
    capsys.readouterr()
    assert cli.main(["compare", *map(str, words), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return [found["groups"], found["comparisons"]]


def filesystems(capsys: pytest.CaptureFixture[str]) -> dict[str, list[Any]]:
    """Return the results that need no corpus, from the command."""
    benches = [ROOT / "datasets/bench" / place / "modes.rec.xz" for place in ("ext4_disk", "xfs_disk", "btrfs_disk")]
    rates = (*benches, "--measure", "bench", "--metric", "iops", "--by", "fs_type")
    replays = sorted((ROOT / "datasets/replay").glob("*_guest/replay-*.rec.xz"))
    times = (*replays, "--measure", "replay", "--metric", "io_time", "--where", "call=", "--by", "fs_type")
    return {
        "bench": told(capsys, *rates),
        "bench_fsync": told(capsys, *rates, "--where", "sync_mode=fsync", "--where", "test=rand_write"),
        "replay": told(capsys, *times),
    }


def numbers(value: Any) -> int:
    """Count the numbers in a JSON value."""
    if isinstance(value, dict | list):
        return sum(map(numbers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float)


@pytest.mark.prove
def test_without_the_corpus(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = executed(tmp_path, tmp_path)
    expected = filesystems(capsys)
    assert found == expected
    assert numbers(found) > 1000


def test_with_the_corpus(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = {app: corpus.path(f"block_csv/pixel6a_{name}.csv.gz") for app, name in APPS.items()}
    found = executed(corpus.ROOT, tmp_path)
    paths = []
    for number, (app, file) in enumerate(files.items()):
        paths.append(tmp_path / f"c{number}")
        words = ("--fact", f"workload={app}", "--fact", "device=Pixel 6a", "-o", str(paths[-1]))
        assert cli.main(["ingest", str(file), *words]) == 0
    shares = ("--metric", "count_ratio", "--by", "workload", "--windows", "10s")
    expected = {name: told(capsys, *paths, "--measure", name, *shares) for name in ("locality", "mix")}
    assert {name: found[name] for name in expected} == expected
    assert numbers(expected) > 500
    verdicts = {
        (row["op"], row["group_first"], row["group_second"]): row["verdict"]
        for row in found["locality"][1]
        if row["class"] == "consecutive"
    }
    assert verdicts["read", "Call of Duty", "slide show"] == "lower"
    assert verdicts["read", "Call of Duty", "Telegram's installation"] == "only in the first"
    assert verdicts["write", "Call of Duty", "Telegram's installation"] == "no difference shown"
