"""Record tests/support/syscall_workload.c with ftrace and strace at once, on this machine.

``python -m support.syscall_recording`` in tests/ makes tests/data/syscalls again (root, gcc, strace and zstd).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from support import compiling, tracing

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "syscalls"

_NOBODY = "999999999"
_PAGE_BYTES = 4096
_SAVED = ("events/header_page", "saved_cmdlines", "saved_tgids", "trace_clock")


@dataclass(frozen=True)
class Recorded:
    """The files of one run: the directory of raw pages, the kernel's own text, and strace's log."""

    pages: Path
    text: Path
    log: Path


def compiled(directory: Path) -> Path:
    """Compile the workload in `directory`."""
    program = directory / "workload"
    source = HERE / "syscall_workload.c"
    compiling.gcc("-std=gnu11", "-pthread", "-O1", "-w", source, "-o", program)
    return program


def record(directory: Path, group: str = "syscalls") -> Recorded:
    """Run the workload and record the events of `group`, and the creation and names of its tasks."""
    program, place = compiled(directory), directory / "place"
    place.mkdir()
    recorded = Recorded(directory / "pages", directory / "trace.txt", directory / "strace.log")
    with tracing.instance(directory) as instance:
        (instance / "trace_clock").write_text("mono")
        (instance / "buffer_size_kb").write_text("16384")
        for option in ("event-fork", "record-tgid"):
            (instance / "options" / option).write_text("1")
        (instance / "set_event_pid").write_text(_NOBODY)
        for event in (group, "task/task_newtask", "task/task_rename"):
            (instance / "events" / event / "enable").write_text("1")
        begin = f'echo $$ >> {instance}/set_event_pid; exec "$@"'
        traced = ["sh", "-c", begin, "sh", str(program), str(place)]
        subprocess.run(["strace", "-f", "-ttt", "-T", "-s", "4096", "-o", str(recorded.log), *traced], check=True)
        (instance / "tracing_on").write_text("0")
        recorded.text.write_bytes((instance / "trace").read_bytes())
        _keep_pages(instance, recorded.pages, group)
    return recorded


def _keep_pages(instance: Path, directory: Path, group: str) -> None:
    """Save the files that `androstep_analysis.ingest.ftrace.raw` reads."""
    directory.mkdir()
    for cpu in sorted((instance / "per_cpu").iterdir()):
        (directory / f"{cpu.name}.raw").write_bytes(_pages(cpu / "trace_pipe_raw"))
    stats = [(cpu / "stats").read_text() for cpu in sorted((instance / "per_cpu").iterdir())]
    (directory / "stats").write_text("".join(stats))
    formats = [*(instance / "events" / group).glob("*/format"), *(instance / "events" / "task").glob("*/format")]
    (directory / "formats").write_text("".join(file.read_text() for file in sorted(formats)))
    for name in _SAVED:
        file = instance / name if (instance / name).exists() else instance.parents[1] / name
        (directory / file.name).write_bytes(file.read_bytes())  # process names may be invalid UTF-8
    (directory / "machine").write_text(os.uname().machine)


def _pages(pipe: Path) -> bytes:
    """Return all pages of a CPU, with the last one padded."""
    pages = b""
    file = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while page := os.read(file, _PAGE_BYTES):
            pages += page.ljust(_PAGE_BYTES, b"\0")
    except BlockingIOError:
        pass
    finally:
        os.close(file)
    return pages


def main(directory: Path) -> None:
    """Make the files in tests/data/syscalls from a new recording; `directory` is for temporary files."""
    recorded = record(directory)
    used = {*re.findall(r"\w+", recorded.log.read_text()), "newfstat", "newstat", "newlstat", "sendfile64"}
    text = (recorded.pages / "formats").read_text()
    formats = [form for form in re.split(r"(?m)^(?=name: )", text) if form]
    kept = [form for form in formats if form.split()[1].removeprefix("sys_enter_").removeprefix("sys_exit_") in used]
    kept += [form for form in formats if form.split()[1].startswith("task_")]
    (recorded.pages / "formats").write_text("".join(kept))
    (recorded.pages / "saved_cmdlines").write_text("")
    DATA.mkdir(parents=True, exist_ok=True)
    with tarfile.open(directory / "pages.tar", "w") as archive:
        for file in sorted(recorded.pages.iterdir()):
            archive.add(file, file.name)
    for file, name in ((directory / "pages.tar",) * 2, (recorded.text,) * 2, (recorded.log,) * 2):
        subprocess.run(["zstd", "-19", "-q", "-f", file, "-o", DATA / f"{name.name}.zst"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
