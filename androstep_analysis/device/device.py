"""A device: commands, files and programs on it, whatever the way there, and nothing left behind."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from androstep_analysis import programs
from androstep_analysis.device import transfer
from androstep_analysis.device.job import Job
from androstep_analysis.device.numbers import count
from androstep_analysis.device.shell import framed
from androstep_analysis.device.telling import tell
from androstep_analysis.device.transport import Answer, DeviceError, LinkLost, Transport, quoted

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture
    from androstep_analysis.device.monitoring import Monitoring
    from androstep_analysis.device.recording import Recording
    from androstep_analysis.doctor import Finding
    from androstep_analysis.probe import Runner
    from androstep_analysis.runs import Run

T = TypeVar("T")

PREFIX = "androstep-"
"""Begins the name of each directory that is made on a device."""

_PATIENCE_S = 60.0
_AGAIN_S = 1.0
_END_S = 60.0

_SU = ("su -c", "su 0 sh -c", "su root sh -c")
"""Magisk and its like; debuggable builds of Android; others. A command as one word follows."""


class Device:
    """A device, and what this program started and keeps there; a context manager that removes all that again.

    `patience_s` is how long a lost link is tried again before it is an error. Every method raises `DeviceError` with
    one sentence where the device fails, and its `LinkLost` where it does not answer.
    """

    def __init__(self, transport: Transport, *, patience_s: float = _PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._transport = transport
        self._jobs: list[Job] = []
        self._directory: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Device {self.name}>"

    @property
    def name(self) -> str:
        """How the device is named for `connect`."""
        return self._transport.name

    @property
    def scratch(self) -> str:
        """The directory of the device that any of its users may make files and run programs in."""
        return self._transport.scratch

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, and relative paths mean what they mean here."""
        return self._transport.is_here

    # -- commands --------------------------------------------------------------------------------------------------

    def sh(self, words: Sequence[str], *, root: bool = False, timeout_s: float = 60) -> Answer:
        """Runs a program with exactly these words, without input, to its end.

        A failure of the program is no error: `Answer.status` tells. Asks for `root` where the shell is not.
        """
        return self.script(quoted(words), root=root, timeout_s=timeout_s)

    def script(self, text: str, *, root: bool = False, timeout_s: float = 60) -> Answer:
        """Runs a text for the device's shell; make every name in it with `transport.quoted`."""
        user = None
        if root:
            if not self.has_root:
                raise DeviceError(f"{self.name}: no root there; root the device, or allow adb's shell to use su")
            user = self._su
        return self._framed(text, user, timeout_s)

    def checked(self, text: str, purpose: str, *, root: bool = False, timeout_s: float = 60) -> bytes:
        """The output of a text for the shell that has to work; raises `DeviceError` naming `purpose` otherwise."""
        answer = self.script(text, root=root, timeout_s=timeout_s)
        if answer.status:
            raise DeviceError(f"{self.name}: cannot {purpose}: {answer.complaint}")
        return answer.output

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

    def _framed(self, text: str, user: str | None, timeout_s: float) -> Answer:
        answer, raw = self._run(text, user, timeout_s)
        if answer is None:
            said = raw.decode("utf-8", "replace").strip()[-200:]
            raise LinkLost(f"{self.name}: a command was broken off{f' ({said})' if said else ''}; is the link lost?")
        return answer

    def _run(self, text: str, user: str | None, timeout_s: float) -> tuple[Answer | None, bytes]:
        """The answer, None where it did not come whole, and all that came."""
        frame = framed(text, user)
        raw = self._transport.run(frame.line, timeout_s=timeout_s)
        return frame.answer(raw), raw

    def patiently(self, action: Callable[[], T]) -> T:
        """What `action` returns; does it again for `patience_s` as long as the link is lost."""
        deadline: float | None = None
        while True:
            try:
                return action()
            except LinkLost as lost:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + self.patience_s
                    if self.patience_s:
                        tell(f"{lost} (trying again for {self.patience_s:.0f} s; what runs on the device goes on)")
                if now >= deadline:
                    raise
                time.sleep(min(_AGAIN_S, max(0.0, deadline - now)))

    def answers(self) -> None:
        """Raises `DeviceError` unless commands run there."""
        assert self._user >= 0

    @cached_property
    def _user(self) -> int:
        """The number of the user that commands run as."""
        answer = self._framed("id -u", None, 30)
        user = count(answer.output)
        if user is None:
            raise DeviceError(f"{self.name}: the device's shell does not work ({answer.complaint})")
        return user

    @cached_property
    def _su(self) -> str | None:
        """What runs a command as root; None where the shell is root, or nothing works."""
        if self._user == 0:
            return None
        for way in _SU:
            answer, _ = self.patiently(partial(self._run, "id -u", way, 30))
            if answer is not None and count(answer.output) == 0:  # who is told no gets no answer: nothing was run
                return way
        return None

    @cached_property
    def has_root(self) -> bool:
        """Whether commands can run as root: the shell is root, or su lets it."""
        return self._user == 0 or self._su is not None

    @cached_property
    def abi(self) -> str:
        """The processor, by ``ro.product.cpu.abi`` or, where there are no properties, ``uname -m``."""
        asked = 'a=$(getprop ro.product.cpu.abi 2>/dev/null); [ -n "$a" ] && echo "$a" || uname -m'
        return self.patiently(lambda: self.script(asked)).text.strip()

    # -- files -----------------------------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """A directory on the device for this program alone; `close` removes it."""
        if self._directory is None:
            self._directory = self.new_directory(self.scratch)
        return self._directory

    def new_directory(self, place: str, *, root: bool = False) -> str:
        """Makes a directory with a new name in `place`, for its owner only."""
        directory = f"{place}/{PREFIX}{secrets.token_hex(8)}"
        self._make(directory, root=root)
        return directory

    def _make(self, directory: str, *, root: bool) -> None:
        """Makes a directory that nobody else has: one of ours that is there was made, and the answer lost."""
        word, place = quoted([directory]), directory.rpartition("/")[0]
        text = f"umask 077; mkdir {word} || {{ [ -d {word} ] && [ -O {word} ]; }}"
        self.patiently(lambda: self.checked(text, f"make a directory in {place}", root=root))

    def remove(self, directory: str, *, root: bool = False) -> None:
        """Removes a directory that `new_directory` made, with all that is in it."""
        assert directory.rpartition("/")[2].startswith(PREFIX)
        self.checked(f"rm -rf {quoted([directory])}", f"remove {directory}", root=root)

    def copy_in(self, source: Path, target: str) -> None:
        """Copies a file to the device, unverified."""
        self._transport.push(source, target)

    def push(self, source: str | PathLike[str], target: str, *, mode: int = 0o644, root: bool = False) -> None:
        """Copies a file to the device, where it is whole or not there (`transfer.push`)."""
        transfer.push(self, Path(source), target, mode=mode, root=root)

    def pull(self, source: str, target: str | PathLike[str], *, root: bool = False) -> None:
        """Copies a file from the device, where it is whole or not there (`transfer.pull`)."""
        transfer.pull(self, source, Path(target), root=root)

    @cached_property
    def hasher(self) -> transfer.Hasher:
        """How files are compared with their copies."""
        return transfer.hasher(self)

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
        self._make(directory, root=root)
        job = Job(self, directory, root=root)
        self._jobs.append(job)  # before it starts: who loses the answer does not know whether it runs
        with self.ending(job):
            job.start(words)
        return job

    _numbered = 0

    @contextlib.contextmanager
    def ending(self, job: Job) -> Any:
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

    def runner(
        self, name: str, *operands: str, root: bool | None = None, meanwhile: Callable[[], None] | None = None
    ) -> Runner:
        """Runs one of our probes there (`probe.Runner`), with `operands`, which are the device's, behind the options.

        As root where the device lets us, unless told. `meanwhile` is called a few times a second; what it raises ends
        the probe.
        """
        from androstep_analysis.device.running import runner

        return runner(self, name, operands, root=self.has_root if root is None else root, meanwhile=meanwhile)

    def facts(self) -> dict[str, Any]:
        """What is known of the device (`manifest.FACTS`)."""
        from androstep_analysis.device.facts import facts

        return known(facts(self).manifest())

    def doctor(self) -> list[Finding]:
        """What of recording and measuring works there, and what does not, with what that prevents."""
        from androstep_analysis.device.doctor import examine

        return list(examine(self))

    def bench(self, options: Sequence[str], out: str | PathLike[str]) -> Run:
        """Runs iobench there, as `runs.bench` does here; its capture is made at `out`."""
        from androstep_analysis.device.running import bench

        return bench(self, options, Path(out))

    def replay(
        self,
        program: str | PathLike[str],
        directory: str,
        out: str | PathLike[str],
        options: Sequence[str] = (),
        *,
        repeats: int = 1,
    ) -> Run:
        """Replays a program in a directory of the device, as `runs.replay` does here; its capture is at `out`."""
        from androstep_analysis.device.running import replay

        return replay(self, Path(program), directory, Path(out), options, repeats=repeats)

    def record(self, **asked: Any) -> Recording:
        """Records while its block runs: ``with device.record(workload=…, out=…) as recording`` (`Recording`)."""
        from androstep_analysis.device.recording import Recording

        return Recording(self, **asked)

    def monitor(self, out: str | PathLike[str], *, hz: int = 10, seconds: int | None = None) -> Monitoring:
        """Samples counters of kernel and processes while its block runs (`Monitoring`)."""
        from androstep_analysis.device.monitoring import Monitoring

        return Monitoring(self, Path(out), hz=hz, seconds=seconds)

    def recover(self, out: str | PathLike[str]) -> list[Capture]:
        """Ends and fetches recordings that a lost link or a killed program left on the device (`recovery.recover`)."""
        from androstep_analysis.device.recovery import recover

        return recover(self, Path(out))

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends what was started there and still runs, removes what was put there, and closes the connection.

        What the device does not let us remove, because it does not answer, is told.
        """
        try:
            for job in list(self._jobs):
                self.end(job)
                self.forget(job)
            if self._directory is not None:
                self.patiently(lambda: self.remove(str(self._directory), root=self.has_root))
                self._directory = None
        except DeviceError as error:
            tell(f"{error}; {self._directory} may be left on the device")
        finally:
            self._transport.close()


def known(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts without those that nobody could tell."""
    return {name: value for name, value in facts.items() if value is not None}
