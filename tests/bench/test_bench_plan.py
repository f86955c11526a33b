"""The runs that a command line of `androstep bench` asks for, without iobench."""

from __future__ import annotations

from pathlib import Path

import pytest

from androstep_analysis.bench.plan import MOST_RUNS, plan
from androstep_analysis.common.errors import InputError


def runs(line: str) -> list[list[str]]:
    return [run.words for run in plan(line.split()).runs]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", ""),
        ("file --rw read -q", "file --rw read -q"),
        ("-f 64", "--size=65536"),
        ("-f64 -t 2", "--size=32768 -t 2"),
        ("-f 64 -t 2 --shared", "--size=65536 -t 2 --shared"),
        ("-f 64 -r 16", "--size=65536 --bs=16384"),
        ("-f 64 --bs many", "--size=65536 --bs many"),  # which iobench refuses
        ("-a 3 -y 10 -v 5", "--rw=randread --mode=fdatabarrier -v 5"),
        ("-a randread", "-a randread"),
        ("--rw=1", "--rw=randwrite"),
        ("-d 1 -j 3 -s 0 -R 1", "--sqlite-op=update --journal-mode=WAL --synchronous=OFF --random-order"),
        ("-i 3", "--thinktime=3000"),
        ("-a 00", "-a 00"),
        ("--output human --nosuch", "--nosuch"),
        ("-L /dev/null", "--log-ops"),
        ("-k /dev/null", "--interval=1000"),
        ("-k /dev/null --interval 5", "--interval 5"),
    ],
)
def test_one_run(line: str, words: str) -> None:
    assert runs(line) == [words.split()]


def test_a_sweep_is_a_run_for_every_value_with_every_other() -> None:
    found = plan(["--size", "64k", "--sweep", "bs=4k..16k", "--sweep", "rw=0,read", "-q"])
    assert [run.swept for run in found.runs] == [
        (f"bs={size}", f"rw={rw}") for size in (4096, 8192, 16384) for rw in ("0", "read")
    ]
    assert found.runs[0].words == ["--size", "64k", "-q", "--bs=4096", "--rw=write"]
    assert found.runs[5].words == ["--size", "64k", "-q", "--bs=16384", "--rw=read", "--point=5"]


def test_mobibenchs_size_is_shared_out_at_every_point() -> None:
    sizes = [words[0] for words in runs("-f 64 --sweep numjobs=1..4")]
    assert sizes == ["--size=65536", "--size=32768", "--size=16384"]


def test_what_is_printed_is_no_option_of_iobench(tmp_path: Path) -> None:
    found = plan(["--output=mobibench", "--to-fio", "-L", str(tmp_path / "a"), f"-k{tmp_path}/b"])
    assert (found.is_mobibench, found.is_to_fio) == (True, True)
    assert (found.latency_log, found.iops_log) == (tmp_path / "a", tmp_path / "b")
    assert found.runs[0].words == ["--log-ops", "--interval=1000"]


@pytest.mark.parametrize("word", ["--help", "-h", "--version", "--describe"])
def test_a_question_is_passed_on(word: str) -> None:
    found = plan(["sqlite", word, "--sweep", "bs"])
    assert found.is_question and found.runs[0].words == ["sqlite", word, "--sweep", "bs"]


def test_too_many_runs() -> None:
    numbers = ",".join(map(str, range(1, MOST_RUNS // 4)))
    with pytest.raises(InputError, match="more than 10000"):
        plan(["--sweep", "numjobs=1..16", "--sweep", f"randseed={numbers}"])
