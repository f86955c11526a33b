"""Job files of fio: iobench makes the same of them as fio does, and names what it cannot do."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from support import benched

from androstep_analysis import bench, runs
from androstep_analysis.bench import fio_job, write_fio_job
from androstep_analysis.common.errors import InputError


def to_fio(words: list[str]) -> str:
    """Return the job file of fio with the same meaning as options of iobench."""
    return write_fio_job.write(runs.described(words) or [])


@pytest.mark.parametrize(
    "words",
    [
        "--rw randwrite --size 64m --mode fsync",
        "--rw randread --size 1m --direct 1 --ioengine io_uring --iodepth 8 --numjobs 2 --thread 0",
        "--rw write --size 1m --overwrite 0 --fallocate native --end_fsync 0 --thinktime 50 --loops 2",
        "--rw randrw --rwmixread 70 --size 8m --runtime 3 --ramp_time 1 --rate_iops 100 --numjobs 2",
        "--rw rw --size 1m --bs 16k --sync dsync --number_ios 20",
        "--rw write --size 1m --fdatasync 8 --buffer_compress_percentage 50",
        "--rw read --size 1m --ioengine mmap",
    ],
)
def test_what_iobench_wrote_for_fio_is_what_it_was(tmp_path: Path, words: str) -> None:
    """The file of the options that are read of a file is that file."""
    text = to_fio([*words.split(), "--directory", str(tmp_path)])
    (tmp_path / "job.fio").write_text(text)
    (made,) = fio_job.options(tmp_path / "job.fio").values()
    again = to_fio(made)
    kept = [line for line in text.splitlines() if not line.startswith(";")]
    assert [line for line in again.splitlines() if not line.startswith(";")] == kept


JOB = """
; a comment
[global]
bs=8k
size=1m
ioengine=psync
group_reporting

[write it]
rw=randwrite
numjobs=2
fsync=4

# another
[read it]
stonewall
rw=read
bs=64k
"""


@pytest.mark.prove
def test_fio_itself_does_as_much(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    (tmp_path / "job.fio").write_text(JOB)
    files = tmp_path / "files"
    files.mkdir()
    command = ["fio", "--output-format=json", f"--directory={files}", tmp_path / "job.fio"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    by_fio = [
        (job[kind]["total_ios"], job[kind]["io_bytes"])
        for job, kind in zip(told["jobs"], ("write", "read"), strict=True)
    ]
    shutil.rmtree(files)
    files.mkdir()
    words = ["bench", files, "--job", tmp_path / "job.fio", "-o", tmp_path / "kept", "--", "--cache", "any"]
    subprocess.run([sys.executable, "-m", "androstep_analysis", *words], check=True, capture_output=True)
    parts = bench.read(*sorted((tmp_path / "kept" / "raw").glob("*.rec"))).tables["bench"]
    totals = parts.filter(pl.col("thread") < 0).group_by("part").agg(pl.sum("ops"), pl.sum("bytes"))
    by_iobench = [totals.filter(part=part).select("ops", "bytes").row(0) for part in ("write", "read")]
    assert by_iobench == by_fio
    assert totals.filter(part="sync")["ops"].to_list() == [2 * 128 // 4]  # of two files of 128 records


def test_what_fio_verifies_iobench_looks_at(tmp_path: Path) -> None:
    asked = (
        "[a]\nrw=write\nverify=crc32c\n[b]\nstonewall\nrw=write\nverify=md5\ndo_verify=0\n[c]\nstonewall\nrw=write\n"
    )
    (tmp_path / "job.fio").write_text(asked)
    jobs = fio_job.options(tmp_path / "job.fio")
    assert [("--verify", "all") in itertools.pairwise(words) for words in jobs.values()] == [True, False, False]
    subprocess.run(
        [*benched.program("native"), *jobs["a"], "--size", "1m", "--cache", "any", "--directory", tmp_path],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nrw=randwrite\nioengine=libaio\n", "line 3: ioengine=libaio: iobench cannot do that; it has psync"),
        ("[a]\nverify=crc32c\n", "line 2: verify=crc32c"),  # of what others wrote
        ("[a]\nrw=write\nverify=pattern\nverify_pattern=0xff\n", "line 3: verify=pattern"),
        ("[a]\nrw=read\nruntime=10\n", "without time_based"),
        ("[a]\nrw=read\n[b]\nrw=write\n", "together with the previous job"),
        ("[a]\nsize=${SIZE}\n", "line 2"),
        ("[global]\nrw=read\n", "no \\[job\\]"),
        ("[a]\nrw=trim\n", "rw=trim"),
        ("[a]\nnumjobs=many\n", "numjobs=many"),
        ("[a]\nrwmixwrite=half\n", "rwmixwrite=half"),
        ("[a]\nio_size=1m%\n", "io_size=1m%"),
        ("[a]\nzonemode=\x1b[2J\n", r"zonemode=\\x1b\[2J"),
    ],
)
def test_what_iobench_cannot_do_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "job.fio").write_text(text)
    with pytest.raises(InputError, match=said):
        fio_job.options(tmp_path / "job.fio")


def test_names_of_jobs_are_names_of_files_and_each_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[../x y]\nrw=read\n[../x y]\nstonewall\nrw=write\n")
    assert list(fio_job.options(tmp_path / "job.fio")) == ["___x_y", "___x_y-2"]
