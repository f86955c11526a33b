"""The options behind `androstep bench --`: refusals, sweeps, Mobibench's letters, and the same job for fio."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import benched, built

from androstep_analysis import runs
from androstep_analysis.bench import plan as planning
from androstep_analysis.bench import write_fio_job, write_mobibench
from androstep_analysis.bench.plan import HELP, plan
from androstep_analysis.common.errors import InputError

SMALL = ("--size", "64k", "--cache", "any", "-q")


def iobench(*words: str | Path, status: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return built.run(built.program("iobench"), *words, status=status, cwd=cwd)


def jobs(*words: str | Path) -> list[dict[str, Any]]:
    """Return the measured repetitions."""
    return benched.measured(built.program("iobench"), *words)[0]


def to_fio(*words: str | Path) -> str:
    """Return the job file of fio."""
    return write_fio_job.write(runs.described([str(word) for word in words]) or [])


def sections(*words: str | Path) -> list[dict[str, str]]:
    """Return the options in each section of --to-fio."""
    found: list[dict[str, str]] = []
    for line in to_fio(*words).splitlines():
        if line.startswith("["):
            found.append({})
        elif line and not line.startswith(";"):
            name, _, value = line.partition("=")
            found[-1][name] = value
    return found


def helped() -> Iterator[tuple[str, str, str]]:
    """Return heading, name (or letter) and argument of each option in the help."""
    heading = ""
    for line in f"{iobench('--help').stdout.decode()}\n{HELP}".splitlines():
        if match := re.fullmatch(r"(\S.*):", line):
            heading = match[1]
        elif match := re.match(r"  (?:-(\w), |    |-(?=\w ))(?:--)?(?<=[- ])([\w-]+)(?: (\S+))?(?:  |$)", line):
            yield heading, match[2], match[3] or ""


def refusal(*words: str, cwd: Path) -> str:
    """Return the message with which a command line is refused, here or by iobench, before any file is created."""
    try:
        (run, *_) = plan(words).runs
    except InputError as error:
        return str(error)
    done = iobench(*run.words, status=1, cwd=cwd)
    assert done.stdout == b""
    return done.stderr.decode().removeprefix("iobench: ").removesuffix("\n")


REFUSED = {
    "--numjobs": [["-t", "0"], ["-t", "-1"], ["-t", "1025"], ["--numjobs", "two"], ["-t", ""], ["--numjobs"]],
    "--thread": [["--thread", "2"]],
    "--runtime": [["--runtime", "0"], ["--runtime=-1"], ["--runtime", "1x"], ["--loops", "2", "--runtime", "1"]],
    "--ramp_time": [["--ramp_time", "1"], ["--ramp_time", "-1", "--runtime", "1"]],
    "--rate_iops": [["--rate_iops", "0"], ["--rate_iops", "10", "--thinktime", "5"]],
    "--thinktime": [["--thinktime", "-5"], ["--thinktime", "5", "-i", "1"]],
    "-i": [["-i", "-1"], ["-i", "10001"]],
    "--randseed": [["--randseed", "-1"], ["--compat-rng", "--randseed", "3", "--rw", "randread"]],
    "--compat-rng": [
        *(["--compat-rng"], ["--compat-rng", "--rw", "randrw"]),
        *(["postmark", "--compat-rng"], ["sqlite", "--random-order", "--compat-rng"]),
    ],
    "--cache": [["--cache", "hot"]],
    "--end_fsync": [["--end_fsync", "2"], ["--rw", "read", "--end_fsync", "1"], ["postmark", "--end_fsync", "-1"]],
    "--rw": [["--rw", "trim"], ["-a", "5"], ["-a", "-1"], ["-a", "00"], ["--rw", ""]],
    "--rwmixread": [["--rw", "rw", "--rwmixread", "101"], ["--rw", "write", "--rwmixread", "50"]],
    "--size": [
        *(["--size", "0"], ["--size", "-4k"], ["--size", "4q"], ["--size", "1k"], ["--size", "10k"]),
        *(["--size", "4k", "-f", "4"], ["--size", "99999999999999999999"]),
    ],
    "-f": [["-f", "0"], ["-f", "-5"], ["-f", "1"], ["-f", "100", "-r", "64"], ["-f", "1024", "-t", "3"], ["-f", "4k"]],
    "--bs": [
        ["--bs", "0"],
        ["--bs", "-1"],
        ["--bs", "4k", "-r", "4"],
        ["--bs", "100", "--size", "200", "--direct", "1"],
    ],
    "-r": [["-r", "0"], ["-r", "-4"], ["-r", "4k"]],
    "--mode": [
        *(["-y", "11"], ["-y", "-1"], ["--mode", "sync"], ["--mode", "fsync", "--direct", "1"]),
        *(["--mode", "mmap", "--ioengine", "psync"], ["--mode", "direct", "--ioengine", "mmap"]),
    ],
    "--ioengine": [["--ioengine", "libaio"]],
    "--direct": [["--direct", "2"], ["--direct", "yes"]],
    "--sync": [["--sync", "1"], ["--sync", "on"]],
    "--fsync": [["--fsync", "-1"], ["--fsync", "1", "--fdatasync", "1"]],
    "--fdatasync": [["--fdatasync", "-1"], ["--sync_file_range", "write:1", "--fdatasync", "1"]],
    "--sync_file_range": [["--sync_file_range", words] for words in ("write", "write:0", "write:", ":1", "all:1", "")],
    "--iodepth": [["--iodepth", "0"], ["--iodepth", "2"], ["--iodepth", "4097", "--ioengine", "io_uring"]],
    "--overwrite": [["--overwrite", "2"], ["--overwrite", "0", "--rw", "read"], ["--overwrite", "1", "--rw", "append"]],
    "--verify": [["--verify", "none"], ["--verify", "all", "--rw", "read"]],
    "--fallocate": [["--fallocate", "posix"], ["--fallocate", "native", "--rw", "randrw"]],
    "--overlap": [
        *(["-v", "100", "-a", "1"], ["-v", "101", "-a", "1"], ["-v", "-1", "-a", "1"], ["-v", "10", "-a", "0"]),
    ],
    "--loops": [
        *(["--loops", "0"], ["--loops", "2", "--number_ios", "5"]),
        ["--loops", str(1 << 40), "--size", "1t", "--bs", "512"],
    ],
    "--number_ios": [["--number_ios", "0"], ["--number_ios", "3", "-t", "4"]],
    "--buffer_compress_percentage": [
        *(["--buffer_compress_percentage", "101"], ["--rw", "read", "--buffer_compress_percentage", "1"]),
    ],
    "--dedupe_percentage": [["--dedupe_percentage", "-1"], ["--rw", "read", "--dedupe_percentage", "1"]],
    "--filename": [
        *(["--filename", "/proc/nonexistent"], ["--filename", "/dev/null", "--rw", "read"]),
        *(["--filename", __file__, "--size", "4k"], ["sqlite", "--filename", __file__]),
        *(["--filename", __file__, "--keep", "--rw", "read"], ["--filename", __file__, "-p", "/tmp", "--rw", "read"]),
    ],
    "--raw": [["--raw"], ["--raw", "--filename", __file__, "--rw", "read", "--size", "4k"]],
    "--transactions": [
        *(["-d", "0", "-n", "0"], ["-d", "0", "-n", "-1"], ["-d", "0", "-n", "3", "-t", "4"]),
        *(["postmark", "-n", "1", "-t", "2", "--files", "10"], ["-n", "5"], ["file", "--transactions", "5"]),
    ],
    "--sqlite-op": [["-d", "3"], ["-d", "-1"], ["sqlite", "--sqlite-op", "upsert"], ["file", "-d", "0"]],
    "--journal-mode": [["-d", "0", "-j", "6"], ["sqlite", "--journal-mode", "wal2"], ["-j", "3"]],
    "--synchronous": [["-d", "0", "-s", "4"], ["sqlite", "-s", "-1"], ["-s", "2"], ["postmark", "-s", "2"]],
    "--tables": [["-d", "0", "-T", "0"], ["-d", "0", "-T", "-2"], ["-T", "1"]],
    "--databases": [["-d", "0", "-D", "0"], ["-d", "0", "-D", "100"], ["-D", "1"]],
    "--rows": [["sqlite", "--rows", "0"]],
    "--value-size": [["sqlite", "--value-size", "0"], ["sqlite", "--value-size", "-1"]],
    "--prefilled": [["sqlite", "--prefilled", "-1"]],
    "--page-size": [
        ["sqlite", "--page-size", "1000"],
        ["sqlite", "--page-size", "256"],
        ["sqlite", "--page-size", "1m"],
    ],
    "--random-order": [["-d", "1", "--random-order"], ["--random-order"], ["-R", "1"], ["-d", "2", "-R", "1"]],
    "--checkpoint": [
        *(["sqlite", "--checkpoint", "auto"], ["sqlite", "-j", "WAL", "--checkpoint", "0"]),
        *(["sqlite", "-j", "WAL", "--checkpoint", "often"],),
    ],
    "--mix": [
        *(
            ["sqlite", "--sqlite-op", "mixed", "--mix", words]
            for words in ("1:1:1", "0:0:0:0", "1:1:1:-1", "1:1:1:1:1")
        ),
        ["sqlite", "--mix", "1:1:1:1"],
    ],
    "--sqlite-library": [["sqlite", "--sqlite-library", "/proc/nonexistent/libsqlite3.so"], ["--sqlite-library", "x"]],
    "--files": [["postmark", "--files", "0"], ["postmark", "--files", "1", "-t", "2"], ["--files", "5"]],
    "--file-size": [["postmark", "--file-size", words] for words in ("5:4", "0:4", "5", "5:", "-1:4", "1:2:3", "")],
    "--read-block": [["postmark", "--read-block", "0"]],
    "--write-block": [["postmark", "--write-block", "-1"]],
    "--bias-read": [["postmark", "--bias-read", "11"], ["postmark", "--bias-read", "-2"]],
    "--bias-create": [["postmark", "--bias-create", "11"]],
    "--subdirectories": [["postmark", "--subdirectories", "-1"]],
    "--unbuffered": [["--unbuffered"], ["sqlite", "--unbuffered"]],
    "--shared": [["postmark", "--shared"]],
    "--repeats": [["--repeats", "0"], ["--repeats", "-1"]],
    "--sweep": [
        *(["--sweep", words] for words in ("bs", "bs=", "bs=4k,", "bs=0..8k", "bs=3k..64k", "bs=8k..4k", "x=1,2")),
        *(["--sweep", words] for words in ("shared=1", "keep=1", "repeats=1,2", "output=mobibench,human", "mode=a..b")),
        *(["--sweep", words] for words in ("sweep=1",)),
        ["--sweep", "bs=4k,8k", "--sweep", "bs=16k"],
        ["--sweep", "numjobs=1..1024", "--sweep", "randseed=" + ",".join(map(str, range(1000)))],
    ],
    "--point": [["--point", "-1"]],
    "--interval": [["--interval", "1", "--runtime", "365d"], ["--interval", "0"], ["--interval", "-1"]],
    "--output": [["--output", "json"]],
    "--record": [["--record", "-"], ["-o", "/proc/nonexistent/file"], ["-o", "/"]],
    "-L": [["-L", "/proc/nonexistent/file"]],
    "-k": [["-k", "/proc/nonexistent/file"], ["-k", "/"]],
    "-g": [["-g", "script"]],
    "--log-ops": [["--log-ops=1"]],
    "--quiet": [["--quiet=1"]],
}
"""Command lines that are refused, by the option that the one sentence must name."""


@pytest.mark.prove
@pytest.mark.parametrize("option", REFUSED)
def test_a_bad_value_is_refused_with_one_sentence(option: str, tmp_path: Path) -> None:
    for words in REFUSED[option]:
        said = refusal(*words, cwd=tmp_path)
        assert said and "\n" not in said
        assert option in said
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [[], ["files"], ["file", "file"], ["--bs", "4k", "sqlite"], ["--nosuch"], ["-x"], ["--", "x"], ["--help=1"]],
)
def test_words_that_are_no_options_are_refused(words: list[str], tmp_path: Path) -> None:
    done = iobench(*words, status=1, cwd=tmp_path)
    assert re.fullmatch(rb"iobench: [^\n]+\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_every_option_has_a_refusal_or_takes_anything() -> None:
    anything = {"directory", "i-know", "keep", "to-fio", "dry-run", "describe", "version", "help", *"aydjsR"}
    named = {name for _, name, _ in helped()}
    assert len(named) > 60
    assert {option.lstrip("-") for option in REFUSED} >= named - anything


def test_the_plan_knows_letters_and_flags() -> None:
    """Options without a value, and abbreviations by letters, agree with iobench's own."""
    assert {name for _, name, argument in helped() if not argument and len(name) > 1} == planning._FLAGS
    letters = re.findall(r"^  -(\w), --([\w-]+)", iobench("--help").stdout.decode(), re.MULTILINE)
    assert dict(letters) == planning._LETTERS


def test_help_teaches(tmp_path: Path) -> None:
    text = iobench("--help").stdout.decode()
    assert text.startswith("usage: iobench [file|sqlite|postmark]")
    for heading in (
        "where:",
        "workers and time:",
        "iobench file:",
        "iobench sqlite:",
        "statistics:",
        "output:",
        "examples:",
    ):
        assert f"\n{heading}\n" in text
    assert "Exit status: 0 " in text
    assert max(map(len, text.splitlines())) <= 110
    examples = re.findall(r"^  (iobench .*)$", text, re.M)
    assert len(examples) >= 4
    for example in examples:
        words = example.split()[1:]
        iobench(*words, "--dry-run", cwd=tmp_path)
    assert not (tmp_path / "results.rec").exists() or len(list(tmp_path.iterdir())) == 1
    examples = re.findall(r"^  androstep bench /mnt .*-- (.*)$", HELP, re.M)
    assert len(examples) >= 4
    for example in examples:
        assert runs.described(example.split())


@pytest.mark.parametrize("words", ["--help", "--version", "--describe", "file"])
def test_what_cannot_be_printed_fails(words: str, tmp_path: Path) -> None:
    command = [built.program("iobench"), *words.split(), *(() if words.startswith("--") else SMALL)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stderr) == (1, b"iobench: standard output: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_version_and_description() -> None:
    assert re.match(rb"iobench \d+\.\d+\.\d+\nSQLite 3\.\d+\.\d+[^\n]*\n$", iobench("--version").stdout)
    assert json.loads(iobench("--describe").stdout)


# -- what is measured -------------------------------------------------------------------------------------------------


def parts_of_workers(job: dict[str, Any], part: str = "op") -> list[int]:
    return sorted(thread["parts"][part]["ops"] for thread in job["workers"] if part in thread["parts"])


def test_operations_are_spread_over_the_workers(tmp_path: Path) -> None:
    (job,) = jobs(*SMALL, "-p", tmp_path, "-t", "3", "--number_ios", "11")
    assert parts_of_workers(job) == [3, 4, 4]
    assert job["parts"]["op"]["ops"] == 11


def test_pauses_are_made_and_taken_off(tmp_path: Path) -> None:
    (job,) = jobs(*SMALL, "-p", tmp_path, "--number_ios", "10", "--thinktime", "2000")
    (thread,) = job["workers"]
    assert thread["paused_ns"] >= 9 * 2_000_000
    assert job["duration_ns"] >= thread["paused_ns"]
    assert job["parts"]["op"]["paused_ns"] == thread["paused_ns"]


def test_operations_come_no_sooner_than_they_are_due(tmp_path: Path) -> None:
    (job,) = jobs(*SMALL, "-p", tmp_path, "-t", "2", "--number_ios", "20", "--rate_iops", "100")
    assert job["parts"]["op"]["ops"] == 20
    assert job["duration_ns"] >= 19 * 10_000_000


@pytest.mark.prove
def test_what_is_done_to_warm_up_does_not_count(tmp_path: Path) -> None:
    words = ("--rw", "read", *SMALL, "-p", tmp_path, "--runtime", "2s", "--ramp_time", "200ms", "--rate_iops", "200")
    out = tmp_path / "run.rec"
    made = benched.calls(tmp_path / "calls", "pread64", *words, "-o", out)
    read = sum(call.result == 4096 for call in made if "test.dat" in call.path)
    assert 0 < benched.tallies(out)["op"][0] < read


def test_without_the_sync_at_the_end_there_is_none(tmp_path: Path) -> None:
    with_it, without = jobs(*SMALL, "-p", tmp_path, "--sweep", "end_fsync=1,0")
    assert (parts_of_workers(with_it, "finish"), parts_of_workers(without, "finish")) == ([1], [])


def test_each_repetition_is_there(tmp_path: Path) -> None:
    found = jobs(*SMALL, "-p", tmp_path, "--repeats", "3", "--sweep", "bs=4k,8k")
    assert [(job["point"], job["repeat"]) for job in found] == [
        *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)),
    ]


@pytest.mark.prove
def test_progress_is_told_in_whole_per_cent(tmp_path: Path) -> None:
    words = ("--size", "64k", "--cache", "any", "-p", tmp_path, "--runtime", "500ms", "--repeats", "2")
    lines = iobench(*words).stderr.decode().splitlines()
    told = [re.fullmatch(r"iobench: (\d+) % repeat ([12])/2 \d+ ops/s(, done)?", line) for line in lines]
    assert told
    assert all(told)
    per_cent = [int(match[1]) for match in told if match and not match[3]]
    assert per_cent == sorted(set(per_cent))
    assert [(match[1], match[2]) for match in told if match and match[3]] == [("50", "1"), ("100", "2")]
    assert [match[2] for match in told if match] == sorted(match[2] for match in told if match)
    assert iobench(*words, "-q").stderr == b""


# -- sweeps -----------------------------------------------------------------------------------------------------------

SQLITE = ("sqlite", "-n", "2", "--cache", "any", "-q")
POSTMARK = ("postmark", "--files", "4", "-n", "4", "--cache", "any", "-q")
SWEPT: dict[str, tuple[tuple[str, ...], str]] = {
    "thread": (SMALL, "0,1"),
    "numjobs": (SMALL, "1..2"),
    "runtime": (SMALL, "1s,2s"),  # long enough for an operation also where others have the CPU
    "ramp_time": ((*SMALL, "--runtime", "1s"), "0,5ms"),
    "rate_iops": ((*SMALL, "--number_ios", "8"), "1000,2000"),
    "thinktime": ((*SMALL, "--number_ios", "4"), "1,2"),
    "end_fsync": (SMALL, "0,1"),
    "randseed": (SMALL, "1,2"),
    "cache": (("--size", "64k", "-q"), "any,any"),
    "rw": (SMALL, "write,randwrite,read,randread,append,rw,randrw"),
    "rwmixread": ((*SMALL, "--rw", "rw"), "0,100"),
    "size": (("--cache", "any", "-q"), "4k,8k"),
    "bs": (SMALL, "4k..16k"),
    "mode": (SMALL, "buffered,osync,fsync,mmap,mmap_async,mmap_sync,fdatasync,odsync,sync_file_range"),
    "ioengine": (SMALL, "psync,mmap"),
    "direct": (SMALL, "0,0"),
    "sync": (SMALL, "none,sync,dsync"),
    "fsync": (SMALL, "0,1,5"),
    "fdatasync": (SMALL, "0,1,5"),
    "sync_file_range": (SMALL, "write:1,wait_after:2"),
    "iodepth": (SMALL, "1"),
    "overwrite": (SMALL, "0,1"),
    "fallocate": (SMALL, "none,native"),
    "overlap": ((*SMALL, "--rw", "randwrite"), "0,50"),
    "verify": (SMALL, "sample,all"),
    "loops": (SMALL, "1..4"),
    "number_ios": (SMALL, "1..32"),
    "buffer_compress_percentage": (SMALL, "0,100"),
    "dedupe_percentage": (SMALL, "0,100"),
    "transactions": (("sqlite", "--cache", "any", "-q"), "1..4"),
    "sqlite-op": (SQLITE, "insert,update,delete,select,mixed"),
    "journal-mode": (SQLITE, "DELETE,TRUNCATE,PERSIST,WAL,MEMORY,OFF"),
    "synchronous": (SQLITE, "OFF,NORMAL,FULL,EXTRA"),
    "tables": (SQLITE, "1..4"),
    "databases": (SQLITE, "1..2"),
    "rows": (SQLITE, "1..4"),
    "value-size": (SQLITE, "100,1k"),
    "prefilled": (SQLITE, "0,10"),
    "page-size": (SQLITE, "512..4k"),
    "checkpoint": ((*SQLITE, "--journal-mode", "WAL"), "auto,none,1"),
    "mix": ((*SQLITE, "--sqlite-op", "mixed"), "1:0:0:0,1:1:1:1"),
    "files": (("postmark", "-n", "4", "--cache", "any", "-q"), "2..4"),
    "file-size": (POSTMARK, "1:10,10:100"),
    "read-block": (POSTMARK, "512,1k"),
    "write-block": (POSTMARK, "512,1k"),
    "bias-read": (POSTMARK, "0,10"),
    "bias-create": (POSTMARK, "0,10"),
    "subdirectories": (POSTMARK, "0,2"),
}
"""What can be swept, each with a command line and values; `SWEPT_APART` is tested by itself."""

SWEPT_APART = {"directory", "filename", "sqlite-library"}


def test_the_table_has_all_that_can_be_swept() -> None:
    jobs_options = {
        name
        for heading, name, argument in helped()
        if argument and len(name) > 1 and heading not in ("statistics", "output") and "androstep" not in heading
    }
    assert set(SWEPT) | SWEPT_APART == jobs_options


@pytest.mark.prove
@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_measures_every_value(name: str, tmp_path: Path) -> None:
    words, values = SWEPT[name]
    found = jobs(*words, "-p", tmp_path, "--sweep", f"{name}={values}")
    if ".." in values:
        assert len(found) >= 2
    else:
        assert len(found) == len(values.split(","))
    assert list(tmp_path.iterdir()) == []


def test_directories_and_files_can_be_swept(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other..one"
    for file in (one, other):
        file.write_bytes(b"x" * 65536)
    assert len(jobs("--rw", "read", *SMALL[2:], "--sweep", f"filename={one},{other}")) == 2
    assert len(jobs(*SMALL, "--sweep", f"directory={tmp_path / 'new'},{tmp_path}")) == 2


def test_sweeps_are_multiplied_and_the_last_runs_fastest() -> None:
    found = sections("--size", "64k", "--sweep", "bs=4k..16k", "--sweep", "numjobs=1,2", "--repeats", "2")
    assert [(part["bs"], part["numjobs"]) for part in found] == [
        (bs, numjobs) for bs in ("4096", "8192", "16384") for numjobs in ("1", "2") for _ in range(2)
    ]
    assert found[0]["description"] == "seq_write bs=4096 numjobs=1"


# -- Mobibench --------------------------------------------------------------------------------------------------------

SAME = [
    ("-f 64", "--size 64k"),
    ("-f 64 -t 2", "--size 32k --numjobs 2"),
    ("-f 64 -t 2 --shared", "--size 64k --numjobs 2 --shared"),
    ("-r 16", "--bs 16k"),
    *(
        (f"-a {number}", f"--rw {word}")
        for number, word in enumerate(["write", "randwrite", "read", "randread", "append"])
    ),
    *((f"-y {number}", f"--mode {word}") for number, word in enumerate(["buffered", "osync", "fsync", "direct"])),
    *((f"-y {number}", f"--mode {word}") for number, word in ((4, "direct_osync"), (5, "mmap"), (7, "mmap_sync"))),
    ("-y 8", "--fdatasync 1"),
    ("-y 4", "--sync sync --direct 1"),
    ("-y 2", "--fsync 1"),
    ("--mode odsync", "--sync dsync"),
    ("--mode sync_file_range", "--sync_file_range wait_before,write,wait_after:1"),
    ("-i 3", "--thinktime 3000"),
    ("-p /tmp -q -L /dev/null -k /dev/null", "--directory /tmp --quiet"),
]


@pytest.mark.parametrize(("letters", "words"), SAME, ids=[letters for letters, _ in SAME])
def test_a_letter_means_what_it_meant(letters: str, words: str) -> None:
    assert sections("file", *letters.split()) == sections("file", *words.split())


def test_the_defaults_are_those_that_mobibench_documents() -> None:
    (job,) = sections("file")
    assert {name: job[name] for name in ("rw", "size", "bs", "numjobs", "ioengine", "end_fsync")} == {
        **{"rw": "write", "size": "1048576", "bs": "4096", "numjobs": "1", "ioengine": "psync", "end_fsync": "1"},
    }
    assert not job.keys() & {"direct", "sync", "fsync", "fdatasync", "thinktime", "runtime"}


def mobibench_lines(place: Path, *words: str) -> dict[str, str]:
    ran = runs.bench([*words, "-q", "--cache", "any", "-p", str(place)], place / "out")
    assert ran.capture is not None
    lines = write_mobibench.lines(ran.capture.bench).splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_the_defaults_of_its_database_test(tmp_path: Path) -> None:
    said = mobibench_lines(tmp_path, "-d", "0")
    assert said["Operation"] == "0"
    assert said["Transactions per thread"] == "10"
    assert said["# of Tables"] == "3"
    assert said["# of Databases"] == "1"
    assert said["# of Threads"] == "1"


def test_its_database_options(tmp_path: Path) -> None:
    words = "-d 1 -n 8 -t 2 -j 3 -s 1 -T 2 -D 2 -i 1"
    said = mobibench_lines(tmp_path, *words.split())
    assert said["Operation"] == "1"
    assert said["Transactions per thread"] == "4"
    assert said["# of Tables"] == "2"
    assert said["# of Databases"] == "2"
    assert said["# of Threads"] == "2"


# -- fio --------------------------------------------------------------------------------------------------------------

FIO = [
    "",
    "--rw randwrite --bs 8k --mode direct --numjobs 4 --thread 0",
    "--rw randread --ioengine io_uring --direct 1 --iodepth 32 --runtime 300ms --ramp_time 100ms",
    "--rw randrw --rwmixread 70 --rate_iops 100 --number_ios 512 --size 4m",
    "--rw append --mode fdatasync --cache any",
    "--sync_file_range wait_before,write:8 --fallocate native",
    "--sync_file_range wait_after:2 --overwrite 0",
    "--mode mmap_sync --cache warm",
    "--sync dsync --fsync 16 --end_fsync 0 --thinktime 100 --randseed 18446744 --loops 2",
    "--buffer_compress_percentage 50 --dedupe_percentage 20 --keep",
    "--shared --numjobs 4 --directory /tmp/a:b",
    "--sweep mode=buffered,osync,odsync,fsync,fdatasync,direct,direct_osync,mmap,mmap_sync,sync_file_range --repeats 2",
]


@pytest.mark.prove
@pytest.mark.parametrize("words", FIO)
def test_fio_takes_the_job_file(words: str, tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    file = tmp_path / "job.fio"
    file.write_text(to_fio("file", *words.split()))
    done = subprocess.run(["fio", "--parse-only", file], capture_output=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [
        *(
            "--mode rwf_dsync",
            "--mode fbarrier",
            "--mode mmap_async",
            "--rw randread --overlap 10",
            "sqlite",
            "postmark",
        ),
        *("--rw randread --compat-rng", "-t 2 --number_ios 5", "-t 2 --rate_iops 5", "-t 2 --shared --rw randread"),
        *("-t 2 --shared --rw append", "-t 3 --shared"),
    ],
)
def test_what_fio_cannot_do_is_said(words: str) -> None:
    with pytest.raises(InputError, match=r"^--to-fio: fio has no [^\n]+$"):
        to_fio(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "--rw randwrite --size 256k --bs 4k --numjobs 2 --mode fdatasync",
        "--rw read --size 1m --bs 16k --number_ios 100",
        "--rw append --size 64k --fsync 4",
        "--rw write --size 256k --numjobs 4 --shared --loops 2",
    ],
)
def test_fio_does_the_same_work(words: str, tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    asked: list[str | Path] = [*words.split(), "--cache", "any", "-p", tmp_path]
    file = tmp_path / "job.fio"
    file.write_text(to_fio(*asked))
    done = built.run("fio", "--output-format=json", file, cwd=tmp_path)
    theirs = json.loads(done.stdout)["jobs"][0]
    ours = jobs("-q", *asked)[0]
    direction = "read" if "read" in words else "write"
    part = ours["parts"][direction]
    assert (part["ops"], part["bytes"]) == (theirs[direction]["total_ios"], theirs[direction]["io_bytes"])
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.prove
@pytest.mark.parametrize(
    "words",
    [
        "--rw randwrite --sweep mode=buffered,osync,fsync,direct,mmap,mmap_sync --repeats 2",
        "--rw randread --sweep mode=buffered,mmap --sweep bs=4k,16k",
        "--rw write --mode mmap --fallocate native --sweep numjobs=1,3,1",
        "--rw write --numjobs 2 --shared --sweep bs=4k,16k",
        "--rw append --repeats 3",
    ],
)
def test_fio_runs_a_sweep_to_its_end(words: str, tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    asked: list[str | Path] = [*words.split(), "--size", "256k", "--cache", "any", "-p", tmp_path]
    file = tmp_path / "job.fio"
    file.write_text(to_fio(*asked))
    done = built.run("fio", "--output-format=json", file, cwd=tmp_path)
    theirs, ours = json.loads(done.stdout)["jobs"], jobs("-q", *asked)
    assert len(theirs) == len(sections(*asked)) == len(ours)
    assert all(job["error"] == 0 for job in theirs)
    for name in ("read", "write"):
        moved = [job["parts"][name]["bytes"] if name in job["parts"] else 0 for job in ours]
        assert [job[name]["io_bytes"] for job in theirs] == moved
    assert list(tmp_path.iterdir()) == [file]
