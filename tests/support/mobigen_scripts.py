"""Read MobiGen's scripts in plain Python, with the corpus' expectations of the two existing ones."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from support import corpus

NAMES = ("facebook", "twitter")

INSERTED = ["/data/data", "O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE"]


class Line(NamedTuple):
    """One line. The last of `words` is the call's result."""

    number: int
    tid: int
    us: int
    call: str
    words: list[str]

    @property
    def is_inserted(self) -> bool:
        return self.call == "open" and self.words[:2] == INSERTED


def expected(name: str) -> dict[str, Any]:
    """Return the oracle's values for a script."""
    values: dict[str, Any] = json.loads(corpus.path("androstep/oracle_mobigen.json").read_text())[name]
    return values


def lines(name: str) -> list[Line]:
    """Return the lines of a script of the corpus."""
    split = (line.split() for line in corpus.path(f"androstep/mobigen.out.{name}").read_text().splitlines())
    return [
        Line(number, int(tid), int(us), call, words) for number, (tid, us, call, *words) in enumerate(split, start=1)
    ]
