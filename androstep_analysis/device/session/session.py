"""A session with a device: files and programs there besides commands, and nothing left behind."""

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
"""The link in a program's directory on a device whose target names its process (`left.process`).

A link takes no block of data, which would be written back into what is recorded there.
"""


class Session(Shell):
    """What this program does and keeps on a device; a context manager that ends and removes all that again."""

    def __init__(self, transport: Transport, **choices: Any) -> None:
        super().__init__(transport, **choices)
        self._jobs: list[Job] = []
        self._numbered = 0

    def facts(self, directory: str | None = DATA) -> dict[str, Any]:
        """What is known of the device (`manifest.FACTS`); of its storage, what holds the directory.

        A relative one is of where programs run (`place`). Where it is still to be made, what is above it counts.
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
        """What a directory of the device is as a place to measure (`place.place`)."""
        return place(self, facts(self), directory)

    # -- files -----------------------------------------------------------------------------------------------------

    def push(self, source: str | PathLike[str], target: str, *, mode: int = 0o644, root: bool = False) -> None:
        """Copies a file to the device, where it is whole or not there (`Transfer.push`)."""
        Transfer(self, self.hasher, root).push(Path(source), target, mode)

    def pull(self, source: str, target: str | PathLike[str], *, root: bool = False) -> None:
        """Copies a file from the device, where it is whole or not there (`Transfer.pull`)."""
        Transfer(self, self.hasher, root).pull(source, Path(target))

    @cached_property
    def hasher(self) -> Hasher:
        """How files are compared with their copies."""
        return hasher(self)

    # -- programs --------------------------------------------------------------------------------------------------

    def probe(self, name: str) -> str:
        """The path on the device of one of our programs, which is copied there when it is first used."""
        target = f"{self.directory}/{name}"
        self.push(programs.for_processor(name, self.abi), target, mode=0o755)
        return target

    def start(self, words: Sequence[str], *, root: bool = False, directory: str | None = None) -> Job:
        """Starts a program that goes on when the link is lost; `close` ends it.

        `directory`, which must be new, gets what it writes; by default one that is removed with the rest.
        """
        if directory is None:
            self._numbered += 1
            directory = f"{self.directory}/job-{self._numbered}"
        self._make_directory(directory, root=root)
        job = Job(self, directory, root=root)
        self._jobs.append(job)  # before it starts: who loses the answer does not know whether it runs
        with self.ending(job):
            job.start(words)
        return job

    def stream(self, words: Sequence[str], line: Callable[[str], None], *, root: bool = False) -> int:
        """Runs a program that goes on when the link is lost, calling `line` with each line of its standard error.

        Its exit status. What is raised meanwhile ends it by SIGTERM, and is raised on when it has ended.
        """
        job = self.start(words, root=root)
        try:
            with self.ending(job):
                return job.wait(line)
        finally:
            self.forget(job)

    @contextlib.contextmanager
    def ending(self, job: Job) -> Iterator[Job]:
        """A program at work; what is raised inside ends it by SIGTERM, and is raised on when it has ended."""
        try:
            yield job
        except BaseException:
            self.end(job)
            raise

    def end(self, job: Job, signals: Sequence[str] = ("TERM", "KILL")) -> None:
        """Ends a program: by the first signal, or where it does not end in a minute by the next."""
        for signal in signals:
            job.end(signal)
            deadline = time.monotonic() + _END_S
            while job.status is None and time.monotonic() < deadline:
                job.poll()
                time.sleep(0.05)
            if job.status is not None:
                return

    def forget(self, job: Job) -> None:
        """Leaves a program to itself: `close` will not end it."""
        if job in self._jobs:
            self._jobs.remove(job)

    def _begin_directory(self) -> str:
        self.remove_left()
        made = super()._begin_directory()
        if (by_us := left.process(os.getpid())) is not None:
            self.ensure(f"ln -sfn {quoted([by_us, f'{made}/{_BEGUN_BY}'])}", "begin to work")
        return made

    def remove_left(self) -> None:
        """Remove what programs of this machine have left on the device when they were killed."""
        names = f"{quoted([self.scratch])}/{PREFIX}*/{_BEGUN_BY}"
        own = 'd=${f%/*}; [ -L "$f" ] && [ -O "$d" ] && [ ! -L "$d" ] && by=$(readlink "$f") && echo "$by $d"'
        found = self.query(f"for f in {names}; do {own}; done; true").text
        for by, name in re.findall(rf"^(\S+ \d+ \d+) .*/({PREFIX}[0-9a-f]{{16}})$", found, re.MULTILINE | re.ASCII):
            if left.was_killed(by):
                self._remove_left(f"{self.scratch}/{name}")

    def _remove_left(self, directory: str) -> None:
        """End the programs that were copied to a directory and have a directory of a job in it, and remove it."""
        running = 'read -r p <"$f" && case "$(readlink "/proc/$p/exe")" in "$D"/*) kill "$p"; esac'
        text = f'D={quoted([directory])}; for f in "$D"/*/pid; do [ ! -f "$f" ] || {{ {running}; }}; done; rm -rf "$D"'
        self.query(text, root=self.has_root)
        notify(f"{self.name}: removed {directory}, which a program that was killed had left")

    def _clean_up(self) -> None:
        for job in list(self._jobs):
            self.end(job)
            self.forget(job)
        super()._clean_up()
