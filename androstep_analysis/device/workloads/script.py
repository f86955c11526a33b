"""Run scripted interaction: send inputs to a device one after the other, and watch its GUI."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.device.session import Session
from androstep_analysis.device.workloads import activity, screen
from androstep_analysis.device.workloads.log import Log, Ran

_MAX_STEPS = 10_000
_MAX_S = 3600.0


@dataclass(frozen=True)
class Step:
    """One line of a script: the action (`what` of table `steps`), its value, and its name in results."""

    what: str
    value: Any
    label: str


@dataclass(frozen=True)
class Script:
    """Steps that are done `repeats` times. Screen lock, rotation and all other settings are left unchanged."""

    name: str
    steps: tuple[Step, ...]
    repeats: int = 1

    def run(self, device: Session) -> Ran:
        """Do the steps on a device. A failed step is recorded in the table, and the next one follows."""
        log = Log(device, self.name)
        for log.repeat in range(self.repeats):
            for step in self.steps:
                _ACTIONS[step.what](log, step)
        return log.ran()


def read(path: Path) -> Script:
    """Read a script from a TOML file (docs/perceived.md); `InputError` that names the invalid step."""
    shown = printable(str(path))
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{shown}: is not valid TOML ({printable(str(error))}); docs/perceived.md shows a script"
        ) from None
    if unknown := sorted(table.keys() - {"name", "repeats", "step"}):
        raise InputError(f"{shown}: unknown key {printable(unknown[0])}; keys are name, repeats and [[step]]")
    rows, repeats = table.get("step"), table.get("repeats", 1)
    if not isinstance(rows, list) or not 0 < len(rows) <= _MAX_STEPS:
        raise InputError(f"{shown}: has no [[step]], or more than {_MAX_STEPS:,}")
    if type(repeats) is not int or not 0 < repeats <= _MAX_STEPS:
        raise InputError(f"{shown}: repeats is {printable(repr(repeats))}; give a number from 1 to {_MAX_STEPS:,}")
    name = table.get("name", path.stem)
    if type(name) is not str:
        raise InputError(f"{shown}: name is {printable(repr(name))}; give a text")
    try:
        return Script(name, tuple(_step(number, row) for number, row in enumerate(rows, 1)), repeats)
    except ValueError as error:
        raise InputError(f"{shown}: {error}") from None


def _step(number: int, row: Any) -> Step:
    """Parse a step; `ValueError` says what is wrong with it."""
    if not isinstance(row, Mapping):
        raise ValueError(f"step {number} is not a table")
    kinds = [name for name in row if name != "label"]
    if len(kinds) != 1 or kinds[0] not in _ACTIONS:
        given = printable(", ".join(kinds)) or "nothing"
        raise ValueError(f"step {number} says {given}; give one of {', '.join(_ACTIONS)}, and a label if you like")
    what, value = kinds[0], row[kinds[0]]
    if not _VALID[what](value):
        raise ValueError(f"step {number}: {what} = {printable(repr(value))} is invalid, see docs/perceived.md")
    label = row.get("label", value if isinstance(value, str) else f"{what} {value}")
    if type(label) is not str or "\0" in label:
        raise ValueError(f"step {number}: label is not a text")
    return Step(what, value, label)


def _are_numbers(*counts: int) -> Callable[[Any], bool]:
    """Return a check for lists of screen coordinates, with one of these lengths."""
    return lambda value: (
        isinstance(value, list)
        and len(value) in counts
        and all(type(one) is int and 0 <= one <= 100_000 for one in value)
    )


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value) and "\0" not in value


def _is_key(value: Any) -> bool:
    return _is_text(value) and value.replace("_", "").isalnum() and value.isascii()


def _is_input_text(value: Any) -> bool:
    return _is_text(value) and value.isascii() and value.isprintable()


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= _MAX_S


_VALID: Final[Mapping[str, Callable[[Any], bool]]] = {
    "start": _is_text,
    "tap": _are_numbers(2),
    "swipe": _are_numbers(4, 5),
    "text": _is_input_text,
    "key": _is_key,
    "pause": _is_seconds,
    "wait": _is_seconds,
}


def _start(log: Log, step: Step) -> None:
    """Start a component (``package/.Activity``), or the package's launcher activity."""
    launcher = ["-a", "android.intent.action.MAIN", "-c", "android.intent.category.LAUNCHER", "-p", step.value]
    activity.start(log, "start", step.label, ["-n", step.value] if "/" in step.value else launcher)


def _input(*words: str) -> Callable[[Log, Step], None]:
    def act(log: Log, step: Step) -> None:
        values = step.value if isinstance(step.value, list) else [step.value]
        # `input text` takes %s for a space, because its own shell would split words there.
        texts = [str(value).replace(" ", "%s") if step.what == "text" else str(value) for value in values]
        log.command(step.what, step.label, ["input", *words, *texts])

    return act


def _pause(log: Log, step: Step) -> None:
    begin = log.now_ns()
    time.sleep(step.value)
    log.add("pause", step.label, begin, log.now_ns())


def _wait(log: Log, step: Step) -> None:
    screen.until_stable(log, step.value)


_ACTIONS: Final[Mapping[str, Callable[[Log, Step], None]]] = {
    "start": _start,
    "tap": _input("tap"),
    "swipe": _input("swipe"),
    "text": _input("text"),
    "key": _input("keyevent"),
    "pause": _pause,
    "wait": _wait,
}
