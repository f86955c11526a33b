"""Test the validity of statements about blocks from copies of inodes in a journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np

from androstep_analysis.fs.ext4 import journal_states
from androstep_analysis.fs.ext4.blockmap import CONTENT
from androstep_analysis.fs.ext4.journal_states import CLAIMED, NEVER, STATE
from androstep_analysis.fs.ext4.layout import Superblock

BLOCKS = cast(Superblock, SimpleNamespace(nr_blocks=1000))


def moved(*files: list[tuple[int, int, list[tuple[int, int, int]]]]) -> list[list[tuple[int, int, int, int]]]:
    """Return start, length, from_order and to_order of the claims of files with states (order, next order, runs)."""
    rows = [
        (number, start, length, logical, CONTENT, order, following, order - 1, following)
        for number, states in enumerate(files)
        for order, following, runs in states
        for start, length, logical in runs
    ]
    found = journal_states._without_moves(np.array(rows, CLAIMED), BLOCKS)
    names = ["start", "length", "from_order", "to_order"]
    return [sorted(map(tuple, found[found["state"] == number][names].tolist())) for number in range(len(files))]


def test_a_block_that_moves_to_another_file_is_of_neither_between_the_two_commits() -> None:
    swapped = moved(
        [(3, 8, [(100, 8, 0)]), (8, NEVER, [(200, 2, 2)])],
        [(3, 8, [(200, 2, 2)]), (8, NEVER, [(102, 2, 2)])],
    )
    assert swapped == [
        [(100, 2, 2, 8), (102, 2, 2, 7), (104, 4, 2, 8), (200, 2, 8, NEVER)],
        [(102, 2, 8, NEVER), (200, 2, 2, 7)],
    ]


def test_a_block_that_is_freed_and_reused_is_the_new_files_from_the_previous_commit() -> None:
    freed = moved([(3, 6, [(100, 4, 0)])], [(8, NEVER, [(100, 4, 0)])])
    assert freed == [[(100, 4, 2, 6)], [(100, 4, 7, NEVER)]]


def spans(*copies: tuple[int, list[tuple[int, int, int]]]) -> list[tuple[int, int, int, int, int]]:
    """Return start, length, logical, from_order and to_order of the claims of copies of one inode.

    A copy consists of the order of its transaction and its runs (start, length, logical).
    """
    states = np.zeros(len(copies), STATE)
    states["ino"], states["order"] = 12, [order for order, _ in copies]
    states["from_order"] = states["order"] - 1
    states["next_order"] = [*states["order"][1:], NEVER]
    states["end_order"] = NEVER
    runs = [(at, *run) for at, (_, of_copy) in enumerate(copies) for run in of_copy]
    claimed = np.zeros(len(runs), CLAIMED)
    for column, values in zip(("state", "start", "length", "logical"), zip(*runs, strict=True), strict=True):
        claimed[column] = values
    claimed["use"] = CONTENT
    found = journal_states._merged(journal_states._until_change(claimed, states, BLOCKS), states)
    names = ["start", "length", "logical", "from_order", "to_order"]
    return sorted(tuple(int(value) for value in row) for row in found[names].tolist())


def test_a_new_block_is_the_files_from_the_commit_before_and_a_freed_one_until_its_own() -> None:
    assert spans((5, [(100, 4, 0)]), (8, [(100, 2, 0), (200, 1, 2)])) == [
        (100, 2, 0, 4, NEVER), (102, 2, 2, 4, 8), (200, 1, 2, 7, NEVER),
    ]  # fmt: skip


def test_a_block_that_moves_within_its_file_is_at_neither_place_between_the_two_commits() -> None:
    collapsed = spans((5, [(100, 4, 0)]), (8, [(100, 1, 0), (102, 2, 1)]))
    assert collapsed == [(100, 1, 0, 4, NEVER), (101, 1, 1, 4, 8), (102, 2, 1, 8, NEVER), (102, 2, 2, 4, 7)]
    inserted = spans((5, [(100, 2, 0)]), (8, [(100, 1, 0), (101, 1, 9)]))
    assert inserted == [(100, 1, 0, 4, NEVER), (101, 1, 1, 4, 7), (101, 1, 9, 8, NEVER)]


def test_a_block_that_moves_back_is_there_again_from_its_own_commit() -> None:
    there_and_back = spans((5, [(100, 1, 0)]), (8, [(100, 1, 7)]), (9, [(100, 1, 0)]))
    assert there_and_back == [(100, 1, 0, 4, 7), (100, 1, 0, 9, NEVER), (100, 1, 7, 8, 8)]
