"""Raw pages of ftrace in a directory, compared with the same pages in a trace.dat and with the kernel's own counts."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import corpus, readers, tracing
from support.tracedat_files import MACHINES, File, Machine, random_file
from support.tracing import FLAGS

from androstep_analysis import ingest
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.ftrace import raw


def dump(directory: Path, file: File, **saved: str) -> Path:
    """Write the pages and formats of a trace.dat to `directory`, with files of tracefs."""
    directory.mkdir()
    (directory / "formats").write_text("".join(text for _, text in file.formats))
    for cpu, pages in enumerate(file.cpus):
        (directory / f"cpu{cpu}.raw").write_bytes(pages)
    texts = {"header_page": file.machine.header_page.decode(), "saved_cmdlines": file.cmdlines} | saved
    for name, text in texts.items():
        (directory / name).write_text(text)
    return directory


def same(one: readers.Read, two: readers.Read) -> None:
    assert (one.events, one.first_ns, one.last_ns) == (two.events, two.first_ns, two.last_ns)
    assert (one.lost_events, one.clock, one.losses) == (two.lost_events, two.clock, two.losses)
    assert one.block.equals(two.block) and one.fs_events.equals(two.fs_events) and one.tasks.equals(two.tasks)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_same_pages_in_a_trace_dat(tmp_path: Path, machine: Machine) -> None:
    file, rows, _ = random_file(machine, str(machine))
    directory = dump(tmp_path / "raw", file, trace_clock="local [boot] mono\n")
    data = tmp_path / "trace.dat"
    data.write_bytes(file.v6())
    read = readers.read(directory)
    assert read.format == "raw ftrace pages" and read.events == {"everything": len(rows)}
    same(read, readers.read(data))


def test_every_file_of_the_set_stands_for_it(tmp_path: Path) -> None:
    file, _, _ = random_file(Machine(), "set")
    directory = dump(tmp_path / "raw", file, saved_tgids="10 10\n", trace_clock="[mono]", stats="entries: 1\n")
    whole = readers.read(directory)
    archive = tmp_path / "raw.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(directory, "raw")
    for path in (directory / "cpu0.raw", directory / "cpu1.raw", directory / "formats", archive):
        same(readers.read(path), whole)
    assert set(ingest.files(directory)) == set(directory.iterdir())


def test_without_what_may_be_missing(tmp_path: Path) -> None:
    """Byte order and size of a long are derived from the pages; the clock is unknown.

    A CPU may have recorded nothing.
    """
    for machine in (Machine(), Machine(big_endian=True, long_bytes=4)):
        file, rows, _ = random_file(machine, str(machine))
        directory = dump(tmp_path / str(machine), file)
        for name in ("header_page", "saved_cmdlines"):
            (directory / name).unlink()
        (directory / "cpu2.raw").write_bytes(b"")
        read = readers.read(directory)
        assert (read.events, read.clock) == ({"everything": len(rows)}, "unknown")
        assert read.tasks["comm"].to_list() == ["<idle>", None, None]


def test_statistics_of_all_cpus(tmp_path: Path) -> None:
    machine = Machine()
    file = File(machine, random_file(machine, "x")[0].formats, [machine.page(1, machine.record(1, bytes(8)))])
    stats = "entries: 0\noverrun: {}\ncommit overrun: 0\ndropped events: {}\nread events: 1\n"
    read = readers.read(dump(tmp_path / "raw", file, stats=stats.format(3, 0) + stats.format(4, 2)))
    assert (read.lost_events, readers.losses(read)["dropped"]) == (9, 2)


def test_a_last_page_that_is_cut(tmp_path: Path) -> None:
    file, rows, _ = random_file(Machine(), "cut")
    directory = dump(tmp_path / "raw", file)
    pages = (directory / "cpu1.raw").read_bytes()
    (directory / "cpu1.raw").write_bytes(pages[:-3000])
    read = readers.read(directory)
    assert 0 < read.events["everything"] < len(rows)
    assert readers.losses(read)["torn"] == 1


@pytest.mark.sanitized
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_last_record_that_is_longer_than_its_page(tmp_path: Path, machine: Machine) -> None:
    """The rest of the page is one loss, and no byte after the page is read."""
    file, rows, _ = random_file(machine, "longer")
    for word, kind in {"of 28 words": 28, "of its own length": 0, "padding": 29}.items():
        page = machine.page(1 << 50, machine.word(kind, 1) + machine.pack("I", 4096))
        longer = replace(file, cpus=[file.cpus[0] + page, *file.cpus[1:]])
        read = readers.read(dump(tmp_path / word, longer))
        assert read.events == {"everything": len(rows)}, word
        assert readers.losses(read)["unreadable"] == 1, word


@pytest.mark.parametrize("missing", ["formats", "cpu"])
def test_what_is_no_set(tmp_path: Path, missing: str) -> None:
    directory = dump(tmp_path / "raw", random_file(Machine(), "x")[0])
    for path in [path for path in directory.iterdir() if path.name.startswith(missing)]:
        path.unlink()
    with pytest.raises(InputError, match="formats"):
        ingest.read(directory / ("cpu0.raw" if missing == "formats" else "formats"))


def test_nothing_else_is_taken_for_pages() -> None:
    pick = random.Random(5)
    assert not any(raw.sniff(pick.randbytes(5000)) for _ in range(200))
    assert not raw.sniff(bytes(1 << 16)) and not raw.sniff(b"") and not raw.sniff(b"name: x\n")
    for folder in ("blktrace_bin", "blkparse_text", "ftrace_text", "perfetto", "strace", "trace_dat"):
        for path in corpus.path(folder).iterdir():
            if path.is_file():
                assert not raw.sniff(path.read_bytes()[: 1 << 16]), path


# --- this machine's own kernel ---------------------------------------------------------------------------------------


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Path]:
    with tracing.instance(tmp_path) as path:
        yield path


@pytest.mark.root
def test_a_recording_of_this_kernel(tmp_path: Path, instance: Path) -> None:
    """There are as many events as the kernel counted.

    They equal those that trace-cmd reports from a trace.dat of the same pages.
    """
    directory = tmp_path / "raw"
    directory.mkdir()
    # It contains all events of the machine. With other tests running, the kernel's 1.4 MB would lose the first ones.
    (instance / "buffer_size_kb").write_text("32768")
    for name in ("task/task_newtask", "task/task_rename", "sched/sched_process_exec", "block", "ext4", "jbd2"):
        if (instance / "events" / name).is_dir():
            (instance / "events" / name / "enable").write_text("1")
    for number in range(20):
        subprocess.run(["dd", "if=/dev/zero", f"of={tmp_path}/{number}", "bs=4k", "count=20", "conv=fsync"], stderr=-3)
    (instance / "tracing_on").write_text("0")
    cpus = sorted((instance / "per_cpu").iterdir(), key=lambda path: int(path.name.removeprefix("cpu")))
    for cpu in cpus:
        (directory / f"{cpu.name}.raw").write_bytes(_drained(cpu / "trace_pipe_raw"))
    stats = [(cpu / "stats").read_text() for cpu in cpus]
    formats = [path.read_text() for path in sorted(instance.glob("events/*/*/format"))]
    (directory / "formats").write_text("".join(formats))
    (directory / "stats").write_text("".join(stats))
    for name in ("events/header_page", "saved_cmdlines", "trace_clock"):
        at = instance / name if (instance / name).exists() else instance.parents[1] / name
        (directory / at.name).write_bytes(at.read_bytes())
    read = readers.read(directory)
    said = sum(int(number) for text in stats for number in re.findall(r"^read events: (\d+)$", text, re.M))
    assert sum(read.events.values()) == said > 100 and read.clock == "local"
    assert read.events["sched_process_exec"] >= 20
    dd = read.tasks.filter(read.tasks["comm"] == "dd")
    assert dd.height >= 20
    _as_trace_cmd(tmp_path, directory, formats, read)


def _drained(pipe: Path) -> bytes:
    """Return all pages that wait in the kernel."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    pages = b""
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline and (page := os.read(descriptor, 1 << 16)):
            pages += page
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)
    return pages


def _as_trace_cmd(tmp_path: Path, directory: Path, formats: list[str], read: readers.Read) -> None:
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    machine = Machine()
    cpus = [path.read_bytes() for path in sorted(directory.glob("cpu*.raw"))]
    data = tmp_path / "trace.dat"
    data.write_bytes(File(machine, [("any", text) for text in formats], cpus).v6())
    report = subprocess.run(["trace-cmd", "report", "-i", data], capture_output=True, check=True).stdout
    names = re.findall(r"^.*-\d+ +\[\d+\] +" + FLAGS + r" *[\d.]+: +(\w+):", report.decode(errors="replace"), re.M)
    assert Counter(names) == read.events
