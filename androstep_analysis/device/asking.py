"""Many questions in one command: what a device says to each."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from androstep_analysis.device.device import Device

_TIMEOUT_S = 60.0


def ask(device: Device, questions: Mapping[str, str], *, root: bool) -> dict[str, list[str]]:
    """The lines that each shell text writes, but for empty ones, by the name of the question.

    What they write to standard error, and their exit status, is dropped. Raises `DeviceError` only where no command
    runs there. The answers cannot be mistaken for one another: a random token stands between them.
    """
    token = secrets.token_hex(16)
    texts = (f"printf '\\n%s %s\\n' {token} {name}; {{ {text}; }} 2>/dev/null" for name, text in questions.items())
    line = "\n".join([*texts, "true"])
    answer = device.patiently(lambda: device.script(line, root=root, timeout_s=_TIMEOUT_S))
    said: dict[str, list[str]] = {name: [] for name in questions}
    current: list[str] = []
    for found in answer.text.split("\n"):
        before, marked, name = found.partition(f"{token} ")
        if marked and not before:
            current = said.setdefault(name, [])
        elif found.strip():
            current.append(found)
    return said
