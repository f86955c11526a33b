"""MobiGen's scripts as plain Python reads them, and what the corpus says of the two that there are."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from support import corpus

NAMES = ("facebook", "twitter")

INSERTED = ["/data/data", "O_WRONLY|O_CREAT|O_TRUNC|O_LARGEFILE"]


class Line(NamedTuple):
    """One line: the last of `words` is what the call returned."""

    number: int
    tid: int
    us: int
    call: str
    words: list[str]

    @property
    def is_inserted(self) -> bool:
        return self.call == "open" and self.words[:2] == INSERTED


def expected(name: str) -> dict[str, Any]:
    """The oracle's values of a script."""
    told: dict[str, Any] = json.loads(corpus.path("androstep/oracle_mobigen.json").read_text())[name]
    return told


def lines(name: str) -> list[Line]:
    """The lines of a script of the corpus."""
    split = (line.split() for line in corpus.path(f"androstep/mobigen.out.{name}").read_text().splitlines())
    return [
        Line(number, int(tid), int(us), call, words) for number, (tid, us, call, *words) in enumerate(split, start=1)
    ]
