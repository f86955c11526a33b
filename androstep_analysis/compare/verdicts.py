"""From p-values to verdicts: the number of questions of a table, and the correction of p-values for it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from androstep_analysis.compare.differences import Compared, Row

Floats: TypeAlias = npt.NDArray[np.float64]

Test: TypeAlias = tuple[str, float]
"""The name of a test, and its p-value."""

_IMPOSSIBLE: Final[Test] = ("none", 1.0)

Correction: TypeAlias = Literal["holm", "bh"]
"""Correction for several comparisons: Holm (no false difference, with 95 %), or Benjamini and Hochberg (5 % false)."""

LEVEL: Final = 0.05
"""Probability of showing a difference where there is none."""

GATES: Final = ("within", "beyond", "undecided")
"""Results for a change that has a limit."""


def give_verdicts(rows: Sequence[Compared], correction: Correction, smallest: float | None) -> None:
    """Set the test, the adjusted p-value and the verdict of every open row.

    A share and the remainder of the whole are one question. If `smallest` is given, a difference that is shown to be
    smaller does not matter.
    """
    asked = [one for one in rows if one.is_open]
    questions = _questions(asked)
    count = len(set(questions))
    tests = [one.test(count, LEVEL) for one in asked]
    if correction == "holm":
        tests, adjusted = _closed(asked, tests, questions)
    else:
        adjusted = _by_question([None if test is None else test[1] for test in tests], questions, correction)
    small = [None if smallest is None else _smaller(one, smallest) for one in asked]
    unimportant = _by_question(small, questions, correction)
    for one, test, p_adjusted, p_small in zip(asked, tests, adjusted, unimportant, strict=True):
        row = one.row
        if test is None:
            row["verdict"] = "insufficient data"
            continue
        row |= {"tested_by": test[0], "p": test[1], "p_adjusted": p_adjusted, "p_smaller": p_small}
        assert p_adjusted is not None, "what is tested has a p-value"
        if p_small is not None and p_small <= LEVEL:
            row["verdict"] = "no difference that matters"
        elif p_adjusted <= LEVEL and row["difference"]:
            row["verdict"] = "higher" if row["difference"] > 0 else "lower"
        else:
            row["verdict"] = "no difference shown"
            row["longer"] = one.longer(LEVEL / count)


def give_gates(rows: Sequence[Compared], limit: float, correction: Correction) -> None:
    """Set p-value and gate of every row.

    The change from the first group must stay below `limit` (above, if negative).
    """
    asked = [one for one in rows if one.is_open]
    sides = [one.against(limit) for one in asked]
    # A limit on a share and a limit on the remainder are two questions.
    questions = [(number,) for number in range(len(asked))]
    adjusted = _by_question([None if side is None else side[1] for side in sides], questions, correction)
    for one in rows:
        one.row["gate"] = "undecided"
    for one, side, p in zip(asked, sides, adjusted, strict=True):
        one.row["p_gate"] = p
        if side is not None and p is not None and p <= LEVEL:
            one.row["gate"] = "within" if side[0] is (limit < 0) else "beyond"


def _closed(
    rows: Sequence[Compared], tests: Sequence[Test | None], questions: Sequence[tuple[object, ...]]
) -> tuple[list[Test | None], list[float | None]]:
    """Return the deciding test of each row, and its p-value adjusted for the number of questions.

    Closed testing (Marcus, Peritz and Gabriel 1976) shows a difference if Bonferroni's test shows one in every set of
    questions that contains it. The test in a set depends only on the size of the set (`Compared.test`). Tests by ranks
    can show a difference among few questions, tests of means also among many. If one test serves all sets, the result
    is Holm's.
    """
    of: dict[tuple[object, ...], list[int]] = {}
    for number, (question, test) in enumerate(zip(questions, tests, strict=True)):
        if test is not None:
            of.setdefault(question, []).append(number)
    # Of a share and the remainder of the whole, the greater p-value counts.
    alone = [one.test(1, LEVEL) for one in rows]
    few, many = (
        np.array([max((chosen[number] or _IMPOSSIBLE)[1] for number in asking) for asking in of.values()])
        for chosen in (alone, tests)
    )
    ends = np.array([min(rows[number].most_questions(LEVEL) for number in asking) for asking in of.values()])
    adjusted, by_few = closed(few, many, ends)
    deciding, p_adjusted = list(tests), [None if test is None else 1.0 for test in tests]
    for at, asking in enumerate(of.values()):
        for number in asking:
            p_adjusted[number] = float(adjusted[at])
            if by_few[at]:
                name, p = alone[number] or _IMPOSSIBLE
                deciding[number] = (name if ends[at] >= len(of) else f"{name}, means", p)
    return deciding, p_adjusted


def closed(few: Floats, many: Floats, ends: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return p-values adjusted by closed testing with Bonferroni's local tests, and the test that decides each.

    `few` are p-values in sets of up to `ends` hypotheses, `many` in greater sets. A set of m holds a difference if m
    times its least p-value is small enough. The worst set for a hypothesis consists of the greatest other p-values.
    """
    count = len(few)
    adjusted, by_few = np.zeros(count), np.zeros(count, np.bool_)
    stops = np.unique(np.clip(ends, 0, count))
    for first, last in itertools.pairwise(np.unique([0, *stops, count])):
        is_few = ends >= last
        p = np.where(is_few, few, many)
        sizes = np.arange(first + 1, last + 1)
        # of the worst set of each size, unless the p-value of the hypothesis is less
        least = np.sort(p)[::-1][sizes - 1]
        own = np.searchsorted(-least, -p, "right")  # number of sizes without a lower p-value
        others = np.append(np.maximum.accumulate((sizes * least)[::-1])[::-1], 0.0)
        found = np.maximum(np.where(own > 0, sizes[np.maximum(own, 1) - 1] * p, 0.0), others[own])
        by_few = np.where(found > adjusted, is_few, by_few)
        adjusted = np.maximum(adjusted, found)
    return np.minimum(adjusted, 1.0), by_few


def _smaller(one: Compared, smallest: float) -> float | None:
    """Return the p-value of two one-sided tests (TOST, Schuirmann 1987).

    They show that the difference lies between -smallest and smallest.
    """
    below, above = one.against(-smallest), one.against(smallest)
    if below is None or above is None:
        return None
    return max(below[1], above[1]) if below[0] and not above[0] else 1.0


def _questions(rows: Sequence[Compared]) -> list[tuple[object, ...]]:
    """Return the question of each row. A share and the remainder of the whole ask the same one."""
    seen: Counter[tuple[object, ...]] = Counter()
    questions = []
    for number, one in enumerate(rows):
        question = _question(number, one.row)
        # Other shares may be equal by chance. Only one that rises and one that falls ask the same question.
        side = (*question, one.row["first"] < one.row["second"])
        questions.append((*question, seen[side]))
        seen[side] += 1
    return questions


def _question(number: int, row: Row) -> tuple[object, ...]:
    first, second = row["first"], row["second"]
    if row["unit"] != "1" or not (0 <= first <= 1 and 0 <= second <= 1) or first == second:
        return (number,)
    if first > second:
        first, second = 1 - first, 1 - second
    return row["metric"], row["group_first"], row["group_second"], round(first, 9), round(second, 9)


def _by_question(
    values: Sequence[float | None], questions: Sequence[tuple[object, ...]], correction: Correction
) -> list[float | None]:
    """Return the p-values, adjusted for the number of questions that have one."""
    of: dict[tuple[object, ...], float] = {}
    for question, value in zip(questions, values, strict=True):
        if value is not None:
            of[question] = max(value, of.get(question, 0.0))
    adjusted = dict(zip(of, _adjusted(list(of.values()), correction), strict=True))
    return [None if value is None else adjusted[asked] for value, asked in zip(values, questions, strict=True)]


def _adjusted(values: Sequence[float], correction: Correction) -> list[float]:
    if not values:
        return []
    order = sorted(range(len(values)), key=lambda at: values[at])
    adjusted = [0.0] * len(values)
    if correction == "bh":  # Benjamini and Hochberg (1995)
        least = 1.0
        for rank, at in reversed([*enumerate(order, 1)]):
            least = min(least, values[at] * (len(values) / rank))
            adjusted[at] = least
        return adjusted
    most = 0.0
    for index, at in enumerate(order):
        most = max(most, min(1.0, values[at] * (len(values) - index)))
        adjusted[at] = most
    return adjusted
