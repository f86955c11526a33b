"""Many queries of a device in one command, and its answer to each."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from androstep_analysis.device.session.shell import Shell


def query_all(shell: Shell, queries: Mapping[str, str], *, root: bool) -> dict[str, list[str]]:
    """The lines that each shell text writes, but for empty ones, by the name of the query.

    What they write to standard error, and their exit status, is dropped. Raises `DeviceError` only where no command
    runs there. The answers cannot be mistaken for one another: a random token stands between them.
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
