"""A session with a device: files and programs in addition to commands. `close` leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from androstep_analysis.device import programs
from androstep_analysis.device.session import left
from androstep_analysis.device.session.facts import DATA, facts
from androstep_analysis.device.session.job import Job
from androstep_analysis.device.session.place import Place, place
from androstep_analysis.device.session.shell import PREFIX, Shell
from androstep_analysis.device.session.transfer import Hasher, Transfer, hasher
from androstep_analysis.device.transport import Transport, quoted
from androstep_analysis.device.transport.notices import notify

_END_S = 60.0

_BEGUN_BY = ".begun-by"
"""Symbolic link in a session's directory on the device. Its target names the session's process (`left.process`).

A symbolic link has no data block that could be written back during a recording.
"""


class Session(Shell):
    """The files and programs of this process on a device; a context manager that ends and removes them."""

    def __init__(self, transport: Transport, **choices: Any) -> None:
        super().__init__(transport, **choices)
        self._jobs: list[Job] = []
        self._numbered = 0

    def facts(self, directory: str | None = DATA) -> dict[str, Any]:
        """Return the facts of the device (`manifest.FACTS`). Storage facts describe what holds `directory`.

        A relative directory is relative to where programs run (`place`). If it does not exist yet, its parent counts.
        """
        place = None
        if directory is not None:
            start = "." if self.is_here else self.directory
            inside = directory if directory.startswith("/") else f"{start}/{directory}"
            tries = [f"cd {quoted([path])}" for path in (inside, posixpath.dirname(inside.rstrip("/")) or "/")]
            answer = self.query(f"{{ {' || '.join(tries)}; }} && pwd -P", root=self.has_root)
            place = answer.text.rstrip("\n") or None
        return facts(self).stated(place)

    def place(self, directory: str = "") -> Place:
        """Describe a directory of the device as a place to measure (`place.place`)."""
        return place(self, facts(self), directory)

    # -- files -----------------------------------------------------------------------------------------------------

    def push(self, source: str | PathLike[str], target: str, *, mode: int = 0o644, root: bool = False) -> None:
        """Copy a file to the device and verify it (`Transfer.push`). A partial copy is never visible."""
        Transfer(self, self.hasher, root).push(Path(source), target, mode)

    def pull(self, source: str, target: str | PathLike[str], *, root: bool = False) -> None:
        """Copy a file from the device and verify it (`Transfer.pull`). A partial copy is never visible."""
        Transfer(self, self.hasher, root).pull(source, Path(target))

    @cached_property
    def hasher(self) -> Hasher:
        """The command that verifies copies."""
        return hasher(self)

    # -- programs --------------------------------------------------------------------------------------------------

    def probe(self, name: str) -> str:
        """Return the path on the device of one of our programs; copy it there at first use."""
        target = f"{self.directory}/{name}"
        self.push(programs.for_processor(name, self.abi), target, mode=0o755)
        return target

    def start(self, words: Sequence[str], *, root: bool = False, directory: str | None = None) -> Job:
        """Start a program that continues if the link is lost. `close` ends it.

        Its output goes to `directory`, which must be new. The default is one that is removed with the session.
        """
        if directory is None:
            self._numbered += 1
            directory = f"{self.directory}/job-{self._numbered}"
        self._make_directory(directory, root=root)
        job = Job(self, directory, root=root)
        self._jobs.append(job)  # before it starts: if the answer is lost, it may be running
        with self.ending(job):
            job.start(words)
        return job

    def stream(self, words: Sequence[str], line: Callable[[str], None], *, root: bool = False) -> int:
        """Run a program that continues if the link is lost, and return its exit status.

        `line` is called with each line of standard error. An exception ends the program by SIGTERM, and is raised again
        after the program has ended.
        """
        job = self.start(words, root=root)
        try:
            with self.ending(job):
                return job.wait(line)
        finally:
            self.forget(job)

    @contextlib.contextmanager
    def ending(self, job: Job) -> Iterator[Job]:
        """Guard a running job: an exception in the block ends it by SIGTERM, and is raised again afterwards."""
        try:
            yield job
        except BaseException:
            self.end(job)
            raise

    def end(self, job: Job, signals: Sequence[str] = ("TERM", "KILL")) -> None:
        """End a program by the first signal, or by the next one if it still runs after a minute."""
        for signal in signals:
            job.end(signal)
            deadline = time.monotonic() + _END_S
            while job.status is None and time.monotonic() < deadline:
                job.poll()
                time.sleep(0.05)
            if job.status is not None:
                return

    def forget(self, job: Job) -> None:
        """Stop tracking a program, so that `close` does not end it."""
        if job in self._jobs:
            self._jobs.remove(job)

    def _begin_directory(self) -> str:
        self.remove_left()
        made = super()._begin_directory()
        if (by_us := left.process(os.getpid())) is not None:
            self.ensure(f"ln -sfn {quoted([by_us, f'{made}/{_BEGUN_BY}'])}", "begin to work")
        return made

    def remove_left(self) -> None:
        """Remove directories on the device that killed programs of this machine left behind."""
        names = f"{quoted([self.scratch])}/{PREFIX}*/{_BEGUN_BY}"
        own = 'd=${f%/*}; [ -L "$f" ] && [ -O "$d" ] && [ ! -L "$d" ] && by=$(readlink "$f") && echo "$by $d"'
        found = self.query(f"for f in {names}; do {own}; done; true").text
        for by, name in re.findall(rf"^(\S+ \d+ \d+) .*/({PREFIX}[0-9a-f]{{16}})$", found, re.MULTILINE | re.ASCII):
            if left.was_killed(by):
                self._remove_left(f"{self.scratch}/{name}")

    def _remove_left(self, directory: str) -> None:
        """End the programs that run from a directory according to its job subdirectories, and remove it."""
        running = 'read -r p <"$f" && case "$(readlink "/proc/$p/exe")" in "$D"/*) kill "$p"; esac'
        text = f'D={quoted([directory])}; for f in "$D"/*/pid; do [ ! -f "$f" ] || {{ {running}; }}; done; rm -rf "$D"'
        self.query(text, root=self.has_root)
        notify(f"{self.name}: removed {directory}, which a program that was killed had left")

    def _clean_up(self) -> None:
        for job in list(self._jobs):
            self.end(job)
            self.forget(job)
        super()._clean_up()
