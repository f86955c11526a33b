"""The requirements of tests are derived from their code and that of their helpers."""

from __future__ import annotations

import functools
from contextlib import contextmanager

import pytest
from support import corpus, loops, needs


def nothing() -> None:
    str(corpus.ROOT)


def through_another() -> None:
    def inside() -> None:
        list(map(helper, "a"))

    inside()


def helper(name: str) -> None:
    corpus.path(name)


@functools.cache
def cached() -> None:
    helper("a")


def through_a_cache() -> None:
    cached()


@contextmanager
def mounted():
    with loops.mounted(corpus.ROOT) as there:
        yield there


class Disk:
    def image(self) -> object:
        return mounted()


def by_a_method() -> None:
    Disk().image()


@needs.needs("qemu")
def says_itself() -> None:
    through_another()


def both() -> None:
    says_itself()
    by_a_method()


NEEDED = {
    "nothing": set(),
    "through_another": {"corpus"},
    "through_a_cache": {"corpus"},
    "mounted": {"root"},
    "by_a_method": {"root"},
    "says_itself": {"qemu"},
    "both": {"qemu", "root"},
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_test_needs_what_its_helpers_say(name: str) -> None:
    assert needs.of(globals()[name]) == NEEDED[name]
