"""Programs that run on a device for long: detached from the link, so that they go on when it is lost.

Each has a directory on the device with ``pid``, ``output`` and ``errors`` (what it writes) and, from its end,
``status``. Their progress is queried by short commands, which can be repeated after a link was lost: by
``begun`` and ``sent-TERM`` the device knows what it has done already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from androstep_analysis.device.session.shell import Shell
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import count

_POLL_S = 15.0
_STATUS_S = 5.0
"""How long a program's shell has, on a busy device, to write the status of a program that has ended."""

_LINE_BYTES = 1 << 20
"""What is longer without a line's end is a line."""

_OFTEN_S, _SELDOM_S = 0.05, 0.5
"""How long to wait between polls: at first, and at most. Each costs the device a few processes."""

KILLED = 128 + 9
"""The status of a program that was killed with its shell, or with the device."""


class Job:
    """A program at work on a device, or its remains: what is in `directory` says all."""

    def __init__(self, shell: Shell, directory: str, *, root: bool) -> None:
        self.shell = shell
        self.directory = directory
        self.root = root
        self.status: int | None = None
        """Exit status (128 + n by signal n), when it is known to have ended."""
        self._seen = 0
        self._partial = b""

    def start(self, words: Sequence[str]) -> None:
        """Starts a program; its directory is there already, and nothing else uses it.

        May be called again where the answer was lost: the program starts once.
        """
        # The inner shell becomes the program, so that its number is the program's.
        become = 'echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid" && exec "$@"'
        ended = 'echo $? >"$0/status.new" && mv "$0/status.new" "$0/status"'
        run = f'sh -c {quoted([become])} "$0" "$@" >"$0/output" 2>"$0/errors"; {ended}'
        # The link ends when nobody has the terminal open that adbd made for it. A subshell of mksh, Android's shell,
        # keeps what its redirections replaced, so that another program is run, and mksh itself opens /dev/tty, which
        # there is none of in a session of its own.
        named = quoted(["sh", "-c", run, self.directory, *words])
        line = f"$(command -v setsid) {named} </dev/null >/dev/null 2>&1 3>&- & shell=$!"
        once = f'shell=$$; if mkdir "$D/begun"; then {line}; elif [ ! -d "$D/begun" ]; then exit 1; fi'
        # Returns when the number is known, or nobody is left to write it: a signal sent before would reach nothing.
        is_known = '[ -e "$D/pid" ] || [ -e "$D/status" ]'
        until = f'until {is_known} || ! kill -0 "$shell" 2>/dev/null; do sleep 0.05; done'
        full = 'echo "nothing can be written to $D; make room there" >&2; false'
        text = f"trap '' HUP; D={quoted([self.directory])}; {once}; {until}; {is_known} || {{ {full}; }}"
        self.shell.ensure(text, "start a program", root=self.root)

    def poll(self) -> list[str]:
        """The lines it wrote to standard error since the last call; sets `status` when it has ended."""
        ended = 'read s <status && echo $s || { [ ! -d "/proc/${p:-none}" ] && echo gone || echo; }'
        rest = f"[ ! -e errors ] || tail -c +{self._seen + 1} errors"
        text = f"cd {quoted([self.directory])} || exit; p=; read p <pid; {ended}; {rest}"
        answer = self.shell.query(text, root=self.root, timeout_s=_POLL_S)
        if answer.status:
            raise DeviceError(
                f"{self.shell.name}: {self.directory} is gone, with what ran there ({answer.complaint}); "
                "was the device restarted?"
            )
        state, _, new = answer.output.partition(b"\n")
        self._seen += len(new)
        *whole, self._partial = (self._partial + new).split(b"\n")
        self._settle(state.strip())
        if self._partial and (self.status is not None or len(self._partial) > _LINE_BYTES):
            whole, self._partial = [*whole, self._partial], b""
        return [line.decode("utf-8", "backslashreplace").rstrip("\r") for line in whole]

    def _settle(self, state: bytes) -> None:
        """Takes what the device says of the end. Between a program's end and its status there is a moment."""
        self.status = count(state)
        if state == b"gone":
            deadline = time.monotonic() + _STATUS_S
            while self.status is None and time.monotonic() < deadline:
                time.sleep(_OFTEN_S)
                self.status = count(self._text("status"))
            if self.status is None:
                self.status = KILLED

    def wait(self, line: Callable[[str], None] | None = None, meanwhile: Callable[[], None] | None = None) -> int:
        """Its exit status, when it ends; calls `line` with each line that it writes to standard error until then.

        Calls `meanwhile` a few times a second, whether or not it writes anything.
        """
        pause = _OFTEN_S
        while self.status is None:
            for written in self.poll():
                if line is not None:
                    line(written)
            if meanwhile is not None:
                meanwhile()
            if self.status is None:
                time.sleep(pause)
                pause = min(2 * pause, _SELDOM_S)
        return self.status

    def pid(self) -> int:
        """Its process."""
        pid = count(self._text("pid"))
        if pid is None:
            raise DeviceError(f"{self.shell.name}: a program could not be started ({self.errors()})")
        return pid

    def end(self, signal: str = "TERM") -> None:
        """Tells it to end, unless it has ended. Shells start background programs with SIGINT ignored: hence SIGTERM.

        Each signal is sent once, also where the answer was lost: by a second, iotrace breaks off what it does at last.
        """
        sent = f"sent-{signal}"
        text = (
            f"cd {quoted([self.directory])} && [ -e pid ] && [ ! -e status ] && [ ! -e {sent} ] && "
            f'kill -{signal} "$(cat pid)" && : >{sent}'
        )
        self.shell.query(text, root=self.root)

    def output(self) -> str:
        """What it has written to standard output."""
        return self._text("output").decode("utf-8", "replace")

    def errors(self) -> str:
        """What it has written to standard error."""
        return self._text("errors").decode("utf-8", "replace").strip()

    def _text(self, name: str) -> bytes:
        line = f"cat {quoted([f'{self.directory}/{name}'])}"
        return self.shell.query(line, root=self.root).output
