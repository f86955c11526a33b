"""Run long programs on a device, detached from the link, so that they continue if the link is lost.

Each job has a directory on the device with the files ``pid``, ``output``, ``errors`` and, once it has ended,
``status``. Short commands query its progress, and can be repeated after the link was lost: the files ``begun`` and
``sent-TERM`` record which actions were already carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from androstep_analysis.device.session.shell import Shell
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import count

_POLL_S = 15.0
_STATUS_S = 5.0
"""How long the job's shell may take to write the status of an ended program on a busy device."""

_LINE_BYTES = 1 << 20
"""Longer data without a line end counts as a line."""

_OFTEN_S, _SELDOM_S = 0.05, 0.5
"""Seconds between polls: the first and the longest interval. Each poll costs the device a few processes."""

SHOWN = ("sh", "-c", 'exec "$0" "$@" >&2')
"""Words before a program whose standard output is to be shown with its errors while it runs."""

KILLED = 128 + 9
"""Status of a program that was killed together with its shell, or by a restart of the device."""


class Job:
    """A running or ended program on a device. Its whole state is in `directory`."""

    def __init__(self, shell: Shell, directory: str, *, root: bool) -> None:
        self.shell = shell
        self.directory = directory
        self.root = root
        self.status: int | None = None
        """Exit status (128 + n if signal n ended it), once the program is known to have ended."""
        self._seen = 0
        self._partial = b""

    def start(self, words: Sequence[str]) -> None:
        """Start a program. Its directory must exist, and must not be used by anything else.

        May be called again if the answer was lost: the program starts only once.
        """
        # The inner shell execs the program, so that both have the same pid.
        become = 'echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid" && exec "$@"'
        ended = 'echo $? >"$0/status.new" && mv "$0/status.new" "$0/status"'
        run = f'sh -c {quoted([become])} "$0" "$@" >"$0/output" 2>"$0/errors"; {ended}'
        # adbd ends the link when the last process closes the terminal that it allocated. A subshell of mksh, Android's
        # shell, keeps the descriptors that its redirections replaced, so a separate program is run. mksh itself opens
        # /dev/tty, which does not exist in a session of its own (setsid).
        named = quoted(["sh", "-c", run, self.directory, *words])
        line = f"$(command -v setsid) {named} </dev/null >/dev/null 2>&1 3>&- & shell=$!"
        once = f'shell=$$; if mkdir "$D/begun"; then {line}; elif [ ! -d "$D/begun" ]; then exit 1; fi'
        # Wait until the pid is written, or until the shell that writes it is gone: a signal sent earlier would be lost.
        is_known = '[ -e "$D/pid" ] || [ -e "$D/status" ]'
        until = f'until {is_known} || ! kill -0 "$shell" 2>/dev/null; do sleep 0.05; done'
        full = 'echo "nothing can be written to $D; make room there" >&2; false'
        text = f"trap '' HUP; D={quoted([self.directory])}; {once}; {until}; {is_known} || {{ {full}; }}"
        self.shell.ensure(text, "start a program", root=self.root)

    def poll(self) -> list[str]:
        """Return the new lines of standard error since the last call; set `status` if the program has ended."""
        ended = 'read s <status && echo $s || { [ ! -d "/proc/${p:-none}" ] && echo gone || echo; }'
        rest = f"[ ! -e errors ] || tail -c +{self._seen + 1} errors"
        text = f"cd {quoted([self.directory])} || exit; p=; read p <pid; {ended}; {rest}"
        answer = self.shell.query(text, root=self.root, timeout_s=_POLL_S)
        if answer.status:
            raise DeviceError(
                f"{self.shell.name}: {self.directory} is missing, and the programs that ran in it "
                f"have ended ({answer.complaint}); "
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
        """Set `status` from the reported state. The status file may appear shortly after the program's end."""
        self.status = count(state)
        if state == b"gone":
            deadline = time.monotonic() + _STATUS_S
            while self.status is None and time.monotonic() < deadline:
                time.sleep(_OFTEN_S)
                self.status = count(self._text("status"))
            if self.status is None:
                self.status = KILLED

    def wait(self, line: Callable[[str], None] | None = None, meanwhile: Callable[[], None] | None = None) -> int:
        """Wait until the program ends and return its exit status.

        `line` is called with each line of standard error. `meanwhile` is called a few times a second.
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
        """Return the process id."""
        pid = count(self._text("pid"))
        if pid is None:
            raise DeviceError(f"{self.shell.name}: a program could not be started ({self.errors()})")
        return pid

    def end(self, signal: str = "TERM") -> None:
        """Send a signal to the program unless it has ended.

        The default is SIGTERM, because shells start background programs with SIGINT ignored. Each signal is sent only
        once, even if the answer was lost: at a second signal iotrace aborts its final work.
        """
        sent = f"sent-{signal}"
        text = (
            f"cd {quoted([self.directory])} && [ -e pid ] && [ ! -e status ] && [ ! -e {sent} ] && "
            f'kill -{signal} "$(cat pid)" && : >{sent}'
        )
        self.shell.query(text, root=self.root)

    def output(self) -> str:
        """Return its standard output so far."""
        return self._text("output").decode("utf-8", "replace")

    def errors(self) -> str:
        """Return its standard error so far."""
        return self._text("errors").decode("utf-8", "replace").strip()

    def _text(self, name: str) -> bytes:
        line = f"cat {quoted([f'{self.directory}/{name}'])}"
        return self.shell.query(line, root=self.root).output
