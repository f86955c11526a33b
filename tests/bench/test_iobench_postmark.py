"""iobench postmark: what it says it did against the system calls it made and the files it left."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import benched, built, loops

from androstep_analysis.ingest import record

CALLS = "open,openat,read,write,unlink,unlinkat,syncfs"
SMALL = ("--files", "40", "--transactions", "300")
LEAST, MOST = 500, 10000
"""PostMark's default sizes of files."""


def postmark(directory: Path, *words: str | Path, recorded: Path | None = None, **options: Any) -> bytes:
    """Run it on files that stay cached, as PostMark itself does, and return its standard error."""
    recording = () if recorded is None else ("--record", recorded)
    return benched.run("postmark", "-p", directory, "--cache", "any", *recording, *words, **options).stderr


def traced(directory: Path, *words: str | Path) -> list[benched.Call]:
    """System calls of a small run."""
    return benched.calls(directory / "calls", CALLS, "postmark", "-p", directory, "--cache", "any", *SMALL, *words)


def left(directory: Path) -> dict[str, int]:
    """Return the sizes of the files below a directory, by path."""
    return {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}


def pool(directory: Path) -> list[Path]:
    """Return the files of a run in progress. Some may disappear at any time."""
    return [path for path in directory.rglob("*") if path.name.isdigit()]


def opened(call: benched.Call) -> str | None:
    """Return the purpose for which a file of the pool was opened; None: no such call."""
    if call.name not in ("open", "openat") or not re.search(r"/w\d+/(s\d+/)?\d+$", call.path):
        return None
    if "O_CREAT" in call.arguments:
        return "create"
    return "append" if "O_APPEND" in call.arguments else "read"


def counted(calls: list[benched.Call], nr_files: int) -> dict[str, list[int]]:
    """Return operations and bytes of each part from the system calls of one worker.

    Part fill are the first creations. A file that is opened and not read was only looked up.
    """
    parts = {part: [0, 0] for part in ("fill", "create", "append", "read", "delete")}
    doing, unread = "fill", False
    for call in calls:
        purpose = opened(call)
        if purpose is not None:
            doing = "fill" if purpose == "create" and parts["fill"][0] < nr_files else purpose
            parts[doing][0] += doing != "read"
            unread = doing == "read"
        elif call.name in ("read", "write") and re.search(r"/w\d+/", call.path):
            parts[doing][0] += unread
            parts[doing][1] += call.result
            unread = False
        elif (
            call.name.startswith("unlink") and re.search(r"/w\d+/", call.path) and "AT_REMOVEDIR" not in call.arguments
        ):
            parts["delete"][0] += 1
    return parts


@pytest.mark.parametrize("mode", [(), ("--unbuffered",), ("--subdirectories", "3"), ("--bias-read", "2")], ids=str)
def test_it_did_what_it_says(tmp_path: Path, mode: tuple[str, ...]) -> None:
    recorded = tmp_path / "run.rec"
    seen = counted(traced(tmp_path, *mode, "--record", recorded), nr_files=40)
    said = benched.tallies(recorded)
    for part in ("fill", "create", "append", "read"):
        assert said[part] == tuple(seen[part]), part
    assert said["delete"][0] + said["clear"][0] == seen["delete"][0] == said["fill"][0] + said["create"][0]
    assert said["op"] == (300, sum(said[part][1] for part in ("create", "append", "read")))


def test_transactions_are_halves_in_pairs(tmp_path: Path) -> None:
    """Each is a read or an append and a creation or a deletion, but a file of the full size is not appended to."""
    recorded = tmp_path / "run.rec"
    postmark(tmp_path, *SMALL, recorded=recorded)
    said = benched.tallies(recorded)
    assert said["create"][0] + said["delete"][0] == 300
    assert 290 <= said["read"][0] + said["append"][0] <= 300


@pytest.mark.prove
@pytest.mark.parametrize(
    ("option", "bias", "parts"),
    [
        ("--bias-read", "10", {"read", "create", "delete"}),
        ("--bias-read", "0", {"append", "create", "delete"}),
        ("--bias-read", "-1", {"create", "delete"}),
        ("--bias-create", "10", {"read", "append", "create"}),
        ("--bias-create", "0", {"read", "append", "delete"}),
        ("--bias-create", "-1", {"read", "append"}),
    ],
)
def test_biases(tmp_path: Path, option: str, bias: str, parts: set[str]) -> None:
    recorded = tmp_path / "run.rec"
    postmark(tmp_path, "--files", "400", "--transactions", "300", option, bias, recorded=recorded)
    assert set(benched.tallies(recorded)) == parts | {"op", "fill", "clear"}


@pytest.mark.prove
@pytest.mark.parametrize("bias", [1, 5, 8])
def test_a_bias_is_a_chance_in_ten(tmp_path: Path, bias: int) -> None:
    """Within five standard deviations; the seed is fixed, so that this fails always or never."""
    recorded = tmp_path / "run.rec"
    words = ("--files", "2000", "--transactions", "1500", "--file-size", "1:30", "--bias-read", str(bias))
    postmark(tmp_path, *words, "--bias-create", str(bias), recorded=recorded, variant="native")
    said = benched.tallies(recorded)
    deviation = (1500 * bias / 10 * (1 - bias / 10)) ** 0.5
    for part in ("read", "create"):
        assert abs(said[part][0] - 150 * bias) < 5 * deviation, part


def test_files_are_picked_uniformly(tmp_path: Path) -> None:
    """Below the 99.9 % point of chi-square with nine degrees of freedom; the seed is fixed."""
    words = ("--files", "10", "--transactions", "2000", "--bias-read", "10", "--bias-create", "-1")
    calls = traced(tmp_path, "--unbuffered", "--read-block", "10000", *words)
    reads = Counter(call.path for call in calls if call.name == "read" and re.search(r"/w0/\d+$", call.path))
    assert len(reads) == 10 and reads.total() == 2000
    assert sum((found - 200) ** 2 / 200 for found in reads.values()) < 27.88


@pytest.mark.prove
@pytest.mark.parametrize("workers", [("-t", "1"), ("-t", "3"), ("-t", "3", "--thread", "0")], ids=str)
def test_what_is_kept_is_what_was_counted(tmp_path: Path, workers: tuple[str, ...]) -> None:
    recorded, directory = tmp_path / "run.rec", tmp_path / "on"
    directory.mkdir()
    words = ("--files", "50", "--transactions", "400", "--subdirectories", "4", "--bias-create", "10", "--keep")
    postmark(directory, *words, *workers, recorded=recorded)
    said, sizes = benched.tallies(recorded), left(directory)
    assert len(sizes) == said["fill"][0] + said["create"][0] == 450
    assert sum(sizes.values()) == sum(said[part][1] for part in ("fill", "create", "append"))
    assert min(sizes.values()) >= LEAST and max(sizes.values()) <= MOST
    nr_workers = int(workers[1])
    assert {tuple(path.split("/")[-3:-1]) for path in sizes} == {
        (f"w{worker}", f"s{subdirectory}") for worker in range(nr_workers) for subdirectory in range(4)
    }
    shares = [benched.tallies(recorded, thread)["op"][0] for thread in range(nr_workers)]
    assert sum(shares) == 400 and max(shares) - min(shares) <= 1


def test_new_files_have_less_than_the_largest_size(tmp_path: Path) -> None:
    """As PostMark's; an append may fill them up."""
    words = ("--files", "300", "--transactions", "1", "--file-size", "1:4", "--bias-read", "10", "--bias-create", "-1")
    postmark(tmp_path, *words, "--keep")
    assert set(left(tmp_path).values()) == {1, 2, 3}
    postmark(tmp_path, "--file-size", "7:7", *SMALL, "--keep")
    assert set(left(tmp_path).values()) == {7}


def test_a_full_file_is_no_longer_appended_to(tmp_path: Path) -> None:
    recorded = tmp_path / "run.rec"
    words = ("--files", "10", "--transactions", "500", "--file-size", "5:6", "--bias-read", "0", "--bias-create", "-1")
    postmark(tmp_path, *words, recorded=recorded)
    said = benched.tallies(recorded)
    assert said["append"] == (10, 10) and said["op"] == (500, 10)


@pytest.mark.parametrize("variant", ["sanitized", "tsan", "native"])
@pytest.mark.parametrize("workers", [(), ("-t", "4"), ("-t", "4", "--thread", "0")], ids=str)
def test_nothing_is_left_behind(tmp_path: Path, workers: tuple[str, ...], variant: str) -> None:
    postmark(tmp_path, *SMALL, "--subdirectories", "5", "--repeats", "2", *workers, variant=variant)
    assert list(tmp_path.iterdir()) == []


def test_a_seed_gives_the_same_files(tmp_path: Path) -> None:
    found = []
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        directory = tmp_path / name
        directory.mkdir()
        postmark(directory, *SMALL, "-t", "2", "--keep", "--randseed", seed, recorded=tmp_path / f"{name}.rec")
        contents = {path: (directory / path).read_bytes() for path in left(directory)}
        found.append((benched.tallies(tmp_path / f"{name}.rec"), contents))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert not {found[0][1][path][:64] for path in found[0][1]} & {found[2][1][path][:64] for path in found[2][1]}


def test_no_two_files_are_equal(tmp_path: Path) -> None:
    postmark(tmp_path, *SMALL, "-t", "2", "--keep")
    contents = [(tmp_path / path).read_bytes() for path in left(tmp_path)]
    assert len({content[:LEAST] for content in contents}) == len(contents)


@pytest.mark.parametrize(
    ("words", "read", "written"),
    [
        ((), 4096, 4096),
        (("--read-block", "5000", "--write-block", "4096"), 8192, 4096),
        (("--unbuffered",), 512, 512),
        (("--unbuffered", "--read-block", "700", "--write-block", "300"), 700, 300),
    ],
    ids=str,
)
def test_block_sizes(tmp_path: Path, words: tuple[str, ...], read: int, written: int) -> None:
    """Without stdio a call moves a block, with it a buffer of 4096 bytes, or the buffers that a larger block fills."""
    found = [call for call in traced(tmp_path, *words) if re.search(r"/w0/\d+$", call.path)]
    assert max(call.result for call in found if call.name == "read") == read
    assert max(call.result for call in found if call.name == "write") == written
    partial = [call for call, later in pairwise(found) if call.name == later.name and call.name in ("read", "write")]
    assert partial and {call.result for call in partial} == {read, written}


@pytest.mark.parametrize("sync", ["0", "1"])
def test_the_filesystem_is_synced_on_request(tmp_path: Path, sync: str) -> None:
    recorded = tmp_path / "run.rec"
    calls = traced(tmp_path, "--end_fsync", sync, "--record", recorded)
    assert [call.name for call in calls].count("syncfs") == int(sync)
    assert benched.tallies(recorded).get("finish", (0, 0))[0] == int(sync)


def test_without_files_it_fails(tmp_path: Path) -> None:
    said = postmark(tmp_path, "--files", "10", "--transactions", "300", "--bias-create", "0", status=1)
    assert b"no file is left after 10 transactions" in said
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_fails_the_run(tmp_path: Path) -> None:
    """A limit for files' sizes simulates a full device."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    words = ("--files", "10", "--transactions", "300", "--file-size", "6000:9000")
    said = postmark(tmp_path, *words, status=1, preexec_fn=limit)
    assert b"File too large" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_full_filesystem_fails_the_run(tmp_path: Path) -> None:
    image = tmp_path / "full.img"
    loops.make_ext4(image, ["-N", "64"], nr_mib=16)
    with loops.mounted(image) as at:
        said = postmark(at.top, "--files", "200", "--transactions", "300", status=1)
        assert b"No space left on device" in said
        said = postmark(at.top, "--files", "30", "--transactions", "300", "--bias-create", "10", status=1)
        assert b"cannot be created: No space left on device" in said
        said = postmark(at.top, "--files", "30", "--file-size", "1000000:2000000", status=1)
        assert b"free" in said
        assert {path.name for path in at.top.iterdir()} == {"lost+found"}


@pytest.mark.root
def test_a_cold_pool(tmp_path: Path) -> None:
    image, recorded = tmp_path / "cold.img", tmp_path / "run.rec"
    loops.make_ext4(image)
    with loops.mounted(image) as at:
        benched.run("postmark", "-p", at.top, "--cache", "cold", *SMALL, "--record", recorded)
    assert record.read(recorded).tables["bench_run"]["cache_found"].to_list() == ["cold"]


def started(directory: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a run of several minutes, and wait until it has created its files."""
    program = built.program("iobench")
    options = ("--files", "40", "--rate_iops", "20", "--transactions", "5000", "--bias-read", "10")
    process = subprocess.Popen(
        [program, "postmark", "-p", directory, "--cache", "any", *options, *words], stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while (
        not any(int(Path(path).name) >= 40 for path in left(directory))
        and process.poll() is None
        and time.monotonic() < until
    ):
        time.sleep(0.01)
    return process


def test_a_file_that_shrank_fails_the_run(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        for path in pool(tmp_path):
            with contextlib.suppress(FileNotFoundError):
                os.truncate(path, 3)
        _, said = process.communicate(timeout=100)
    assert process.returncode == 1
    assert b"is shorter than what was written to it" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove
def test_a_file_that_grew_fails_the_run(tmp_path: Path) -> None:
    """Reads do not see it; the sizes afterwards do."""
    for seconds in (2, 8, 32):
        with started(tmp_path, "--runtime", str(seconds), "--bias-create", "-1") as process:
            for path in pool(tmp_path):
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(path, 2 * MOST)
            _, said = process.communicate(timeout=100)
        if process.returncode:  # else it may have ended before this process had its turn
            break
    assert process.returncode == 1
    assert b"has 20000 bytes" in said


def test_a_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []
