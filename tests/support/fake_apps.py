"""Programs of a fake phone that log their arguments and times in the phone's CLOCK_BOOTTIME."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from adbd import FakePhone

LOG, CHANGES = "data/local/tmp/actions.log", "data/local/tmp/changes"

_PROGRAM = r"""
exec /usr/bin/python3 -I -S -c '
import json, os, sys, time
begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
words = sys.argv[1:]
delay, said, status = @answer@
time.sleep(delay)
if words[1:2] in (["tap"], ["text"]):
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with open("/data/local/tmp/changes", "a") as file:
        for after in @changes@:
            file.write("%d\n" % (now + round(after * 1e9)))
if words[0] == "uiautomator":
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    try:
        shown = sum(int(line) <= now for line in open("/data/local/tmp/changes"))
    except FileNotFoundError:
        shown = 0
    text = "<hierarchy><node index=\"0\" class=\"T\" package=\"org.example\" text=\"%d\"/></hierarchy>" % shown
    open(words[-1], "w").write(text)
end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
with open("/data/local/tmp/actions.log", "a") as file:
    file.write(json.dumps([words, begin, end]) + "\n")
print(said)
sys.exit(status)
' @name@ "$@"
"""


@dataclass(frozen=True)
class Action:
    """A program that ran on the phone: its arguments, begin and end."""

    words: list[str]
    begin_ns: int
    end_ns: int


def install(
    phone: FakePhone, name: str, delay_s: float = 0, said: str = "", status: int = 0, changes: Any = ()
) -> None:
    """Install a program that takes `delay_s`; a tap changes the screen after each of the delays in `changes`.

    `uiautomator dump` shows the number of changes so far.
    """
    answer = repr((delay_s, said, status)).replace("'", '"')
    text = _PROGRAM.replace("@answer@", answer).replace("@changes@", repr(list(changes))).replace("@name@", name)
    phone.install(name, text)


def actions(phone: FakePhone) -> list[Action]:
    """Return the logged actions in order."""
    log = phone.root / LOG
    return [Action(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def changes(phone: FakePhone) -> list[int]:
    """Return the times of screen changes."""
    return [int(line) for line in (phone.root / CHANGES).read_text().split()]
