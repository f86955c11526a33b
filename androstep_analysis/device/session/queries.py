"""Run many queries on a device in one command."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from androstep_analysis.device.session.shell import Shell


def query_all(shell: Shell, queries: Mapping[str, str], *, root: bool) -> dict[str, list[str]]:
    """Run several shell commands at once; return the non-empty output lines of each by name.

    Standard error and exit status are dropped. A random token separates the outputs, so that they cannot be confused.
    Raises `DeviceError` only if no command runs on the device.
    """
    token = secrets.token_hex(16)
    texts = (f"printf '\\n%s %s\\n' {token} {name}; {{ {text}; }} 2>/dev/null" for name, text in queries.items())
    output = shell.query("\n".join([*texts, "true"]), root=root).text
    answers: dict[str, list[str]] = {name: [] for name in queries}
    current: list[str] = []
    for line in output.split("\n"):
        before, is_marked, name = line.partition(f"{token} ")
        if is_marked and not before:
            current = answers.setdefault(name, [])
        elif line.strip():
            current.append(line)
    return answers
