"""Test damaged recordings (tests/gauntlet): no wrong fact is stated, and a message describes the damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gauntlet import judging
from gauntlet.situations import SITUATIONS, Situation
from support import truth


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    """Return the images of the recordings by name."""
    return {name: judging.with_images(name, tmp_path_factory.mktemp(name)) for name in truth.RECORDINGS}


WRONG_ONCE = {
    ("not recorded: where extents are", "ext4_host_6.18"),
    ("not recorded: the allocation of inodes", "ext4_guest_6.1"),
    ("not recorded: the journal", "ext4_host_6.18"),
    ("recorded besides the block layer only: inodes altogether", "ext4_host_6.18"),
}


def cases() -> Iterator[object]:
    """Return each situation with one of its possible recordings, in rotation, and with those that once failed.

    `make truth` tries all combinations.
    """
    for number, situation in enumerate(SITUATIONS):
        names = [name for name in truth.RECORDINGS if situation.on(name)]
        for place, name in enumerate(names):
            if place == number % len(names) or (situation.title, name) in WRONG_ONCE:
                yield pytest.param(situation, name, id=f"{situation.title}-{name}")


@pytest.mark.parametrize(("situation", "name"), list(cases()))
def test_no_wrong_fact_is_stated_and_the_damage_is_reported(
    situation: Situation, name: str, originals: dict[str, dict[str, Path]], tmp_path: Path
) -> None:
    case = situation.spoil(judging.recording(name).with_images(**originals[name]), tmp_path)
    verdict = judging.judge(case, tmp_path)
    assert not verdict.wrong, dict(verdict.wrong)
    assert situation.says is None or situation.named(verdict.said) is not None, verdict.said
