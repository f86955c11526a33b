"""Run commands on a device, also as root, with retries while the link is lost, and manage directories there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from androstep_analysis.device.transport import Answer, DeviceError, LinkLost, Transport, quoted
from androstep_analysis.device.transport.frame import framed
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.transport.parse import count

T = TypeVar("T")

PREFIX = "androstep-"
"""Prefix of the name of each directory that is made on a device."""

_PATIENCE_S = 60.0
_AGAIN_S = 1.0

_SU = ("su -c", "su 0 sh -c", "su root sh -c")
"""Command prefixes for root: Magisk and similar, debuggable builds of Android, others. One word follows."""


class Shell:
    """Runs commands on a device and has a directory there, which the context manager removes.

    A command is retried for `patience_s` while the link is lost. Every method raises `DeviceError` with a one-sentence
    message if the device fails, and its subclass `LinkLost` if the device does not answer.
    """

    def __init__(self, transport: Transport, *, patience_s: float = _PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._transport = transport
        self._directory: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        """The device's address, as for `connect`."""
        return self._transport.name

    @property
    def scratch(self) -> str:
        """A directory of the device in which all its users may create files and run programs."""
        return self._transport.scratch

    @property
    def is_here(self) -> bool:
        """Whether the device is this machine, so that relative paths are valid on both sides."""
        return self._transport.is_here

    # -- commands --------------------------------------------------------------------------------------------------

    def sh(self, words: Sequence[str], *, root: bool = False, timeout_s: float = 60) -> Answer:
        """Run a program with exactly these words, without input, to its end.

        A failing program raises nothing; see `Answer.status`. `root` uses su if the shell is not root.
        """
        return self.script(quoted(words), root=root, timeout_s=timeout_s)

    def script(self, text: str, *, root: bool = False, timeout_s: float = 60) -> Answer:
        """Run a text in the device's shell. Quote every name in it with `transport.quoted`."""
        user = None
        if root:
            if not self.has_root:
                raise DeviceError(f"{self.name}: no root access; root the device, or allow adb's shell to use su")
            user = self._su
        return self._framed(text, user, timeout_s)

    def checked(self, text: str, purpose: str, *, root: bool = False, timeout_s: float = 60) -> bytes:
        """Run a shell text that must succeed and return its output; otherwise raise `DeviceError` with `purpose`."""
        answer = self.script(text, root=root, timeout_s=timeout_s)
        if answer.status:
            raise DeviceError(f"{self.name}: cannot {purpose}: {answer.complaint}")
        return answer.output

    def _framed(self, text: str, user: str | None, timeout_s: float) -> Answer:
        answer, raw = self._run(text, user, timeout_s)
        if answer is None:
            rest = raw.decode("utf-8", "replace").strip()[-200:]
            raise LinkLost(f"{self.name}: a command was broken off{f' ({rest})' if rest else ''}; is the link lost?")
        return answer

    def _run(self, text: str, user: str | None, timeout_s: float) -> tuple[Answer | None, bytes]:
        """Return the answer, or None if it is incomplete, and the raw output."""
        frame = framed(text, user)
        raw = self._transport.run(frame.line, timeout_s=timeout_s)
        return frame.answer(raw), raw

    def patiently(self, action: Callable[[], T]) -> T:
        """Call `action` and return its result; repeat it for `patience_s` while the link is lost."""
        deadline: float | None = None
        while True:
            try:
                return action()
            except LinkLost as lost:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + self.patience_s
                    if self.patience_s:
                        notify(f"{lost} (trying again for {self.patience_s:.0f} s; what runs on the device goes on)")
                if now >= deadline:
                    raise
                time.sleep(min(_AGAIN_S, max(0.0, deadline - now)))

    def query(self, text: str, *, root: bool = False, timeout_s: float = 60) -> Answer:
        """Run `script` with retries while the link is lost. The text must be safe to run twice."""
        return self.patiently(lambda: self.script(text, root=root, timeout_s=timeout_s))

    def ensure(self, text: str, purpose: str, *, root: bool = False, timeout_s: float = 60) -> bytes:
        """Run `checked` with retries while the link is lost. The text must be safe to run twice."""
        return self.patiently(lambda: self.checked(text, purpose, root=root, timeout_s=timeout_s))

    def holds(self, condition: str, *, root: bool = False) -> bool:
        """Return whether a shell condition, such as a test, has exit status 0."""
        return self.query(condition, root=root).status == 0

    def answers(self) -> None:
        """Raise `DeviceError` unless commands run on the device."""
        assert self._user >= 0

    @cached_property
    def _user(self) -> int:
        """The user id of commands."""
        answer = self._framed("id -u", None, 30)
        user = count(answer.output)
        if user is None:
            raise DeviceError(f"{self.name}: the device's shell does not work ({answer.complaint})")
        return user

    @cached_property
    def _su(self) -> str | None:
        """The command prefix that gives root; None if the shell is root, or if no prefix works."""
        if self._user == 0:
            return None
        for way in _SU:
            answer, _ = self.patiently(partial(self._run, "id -u", way, 30))
            if answer is not None and count(answer.output) == 0:  # a refused su runs nothing: no answer
                return way
        return None

    @cached_property
    def has_root(self) -> bool:
        """Whether commands can run as root, directly or by su."""
        return self._user == 0 or self._su is not None

    @cached_property
    def abi(self) -> str:
        """The processor: ``ro.product.cpu.abi``, or ``uname -m`` if there are no properties."""
        text = 'a=$(getprop ro.product.cpu.abi 2>/dev/null); [ -n "$a" ] && echo "$a" || uname -m'
        return self.query(text).text.strip()

    # -- directories -----------------------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """A directory on the device for this program alone. `close` removes it."""
        if self._directory is None:
            self._directory = self._begin_directory()
        return self._directory

    def _begin_directory(self) -> str:
        return self.new_directory(self.scratch)

    def new_directory(self, place: str, *, root: bool = False) -> str:
        """Make a directory with a random name in `place`, for its owner only."""
        directory = f"{place}/{PREFIX}{secrets.token_hex(8)}"
        self._make_directory(directory, root=root)
        return directory

    def _make_directory(self, directory: str, *, root: bool) -> None:
        """Make a private directory. If we already own one of this name, an earlier attempt's answer was lost."""
        word, place = quoted([directory]), directory.rpartition("/")[0]
        text = f"umask 077; mkdir {word} || {{ [ -d {word} ] && [ -O {word} ]; }}"
        self.ensure(text, f"make a directory in {place}", root=root)

    def remove(self, directory: str, *, root: bool = False) -> None:
        """Remove a directory that `new_directory` made, with its contents."""
        assert directory.rpartition("/")[2].startswith(PREFIX)
        self.ensure(f"rm -rf {quoted([directory])}", f"remove {directory}", root=root)

    def copy_in(self, source: Path, target: str) -> None:
        """Copy a file to the device without verification."""
        self._transport.push(source, target)

    def close(self) -> None:
        """End and remove everything that was started and stored on the device, and close the connection.

        If the device does not answer, a notice names what may remain.
        """
        try:
            self._clean_up()
        except DeviceError as error:
            notify(f"{error}; {self._directory} may be left on the device")
        finally:
            self._transport.close()

    def _clean_up(self) -> None:
        if self._directory is not None:
            self.remove(self._directory, root=self.has_root)
            self._directory = None
