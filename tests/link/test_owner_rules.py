"""Cases of the rules of the owner: the facts of one dirty interval, and the rule that decides."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from support.tree import ROOT

from androstep_analysis.link.owner import rules
from androstep_analysis.link.owner.coverage import Coverage

DEV, APP, OTHER, FLUSHER = 7, 1, 2, 90

WRITTEN: Final[dict[str, Any]] = {
    "dev": DEV, "via": "write_begin", "process": APP, "submit_process": FLUSHER, "is_by_process": False,
    "is_write_recorded": True, "is_dirtied_by_other": False, "has_several_dirtiers": False, "is_redirtied": False,
    "is_within_write": False, "file_dirtiers": 1, "is_in_folio": False, "is_first": False, "is_new_inode": False,
    "is_clean": False, "is_direct": False, "is_pageless": False, "is_modified_later": False,
    "may_be_written_before": False, "may_be_written_since": False, "may_lack_events": False, "is_complete": True,
    "count": 1,
}  # fmt: skip
"""A block to which an app wrote, and which the flusher writes back."""

DIRTIED: Final = {"via": "dirty_folio", "is_write_recorded": False}
STORED: Final = {"via": "dirty_folio"}
UNMODIFIED: Final = {"via": None, "process": None, "is_write_recorded": False, "file_dirtiers": 0}

TYPES: Final = {"dev": pl.UInt32, "via": pl.String, "process": pl.Int64, "submit_process": pl.Int64}

RECORDED: Final = {"dirtying", "presence", "drops", "invalidations", "direct_calls", "stores", "lifetimes"}

CASES: Final[list[tuple[dict[str, Any], str, str]]] = [
    # facts, coverage that is missing (-) or added (+), rule and verdict
    ({"is_direct": True}, "", "direct_write: submitter"),
    ({"is_direct": True, **UNMODIFIED}, "-dirtying", "direct_write: submitter"),
    ({**UNMODIFIED, "is_pageless": True}, "", "bio_without_page: submitter"),
    ({"is_pageless": True}, "", "last_modifier: fact"),
    ({**UNMODIFIED, "is_clean": True, "is_direct": None}, "", "clean_page: submitter"),
    ({**UNMODIFIED, "is_clean": True}, "", "no_modification: unknown"),
    ({**UNMODIFIED, "is_clean": True, "is_direct": None}, "-dirtying", "no_modification: unknown"),
    ({**UNMODIFIED, "is_clean": True, "is_direct": None}, "+large_folios", "no_modification: unknown"),
    ({**UNMODIFIED, "is_direct": None}, "", "no_modification: unknown"),
    ({}, "-dirtying", "dirtying_not_recorded: inferred"),
    ({**DIRTIED, "has_several_dirtiers": True}, "-dirtying +shared_dirtying", "several_on_shared_disk: unknown"),
    ({**DIRTIED, "is_complete": False}, "-dirtying +shared_dirtying", "shared_disk: inferred"),
    ({"is_complete": False}, "-dirtying +shared_dirtying", "shared_disk: inferred"),
    ({"count": 2}, "-dirtying +shared_dirtying", "shared_disk: inferred"),
    ({}, "-dirtying +shared_dirtying", "last_modifier: fact"),
    ({**UNMODIFIED, "is_clean": True, "is_direct": None}, "-dirtying +shared_dirtying", "no_modification: unknown"),
    ({"is_direct": None}, "-drops", "may_be_direct: inferred"),
    ({"is_direct": None, "submit_process": None}, "-drops", "may_be_direct: inferred"),
    ({"is_direct": None, "submit_process": APP}, "-drops", "last_modifier: fact"),
    ({"is_direct": None}, "", "last_modifier: fact"),
    ({}, "-drops -lifetimes", "earlier_file: inferred"),
    ({}, "-lifetimes", "last_modifier: fact"),
    ({"may_be_written_before": True}, "", "written_in_between: inferred"),
    ({"is_dirtied_by_other": True}, "-presence", "dropped_in_between: inferred"),
    ({"is_dirtied_by_other": True, "may_be_written_since": True}, "", "dropped_in_between: inferred"),
    ({"is_dirtied_by_other": True}, "", "last_modifier: fact"),
    ({"may_be_written_since": True}, "", "last_modifier: fact"),
    ({**DIRTIED, "has_several_dirtiers": True}, "", "several_dirtiers: inferred"),
    ({**DIRTIED, "is_first": True}, "+redirties", "dirty_before_recording: inferred"),
    ({**DIRTIED, "is_first": True, "is_new_inode": True}, "+redirties", "last_modifier: fact"),
    ({**DIRTIED, "is_first": True}, "", "last_modifier: fact"),
    ({"is_first": True}, "+redirties", "last_modifier: fact"),
    ({"is_redirtied": True}, "", "redirtied_in_flight: inferred"),
    ({"is_redirtied": True, "is_pageless": True}, "+bio_pages", "redirtied_in_flight: inferred"),
    ({"is_redirtied": True}, "+bio_pages", "last_modifier: fact"),
    ({"is_redirtied": True}, "+redirties", "last_modifier: fact"),
    ({"is_modified_later": True}, "", "modified_before_passed_on: inferred"),
    ({"is_in_folio": True}, "-invalidations", "part_of_folio_dropped: inferred"),
    ({"is_in_folio": None}, "-invalidations +large_folios", "part_of_folio_dropped: inferred"),
    ({"is_in_folio": False}, "-invalidations +large_folios", "last_modifier: fact"),
    ({"is_in_folio": True}, "", "last_modifier: fact"),
    ({**DIRTIED, "is_in_folio": True}, "", "another_page_of_folio: inferred"),
    ({**STORED, "is_in_folio": True}, "", "last_modifier: fact"),
    ({**DIRTIED, "is_within_write": True}, "+redirties", "compressed_cluster: inferred"),
    ({**DIRTIED, "is_within_write": True}, "", "last_modifier: fact"),
    ({**DIRTIED, "file_dirtiers": 2}, "+divided_pages", "another_block_of_page: inferred"),
    ({**STORED, "file_dirtiers": 2}, "+divided_pages", "last_modifier: fact"),
    ({**DIRTIED, "file_dirtiers": 2}, "", "last_modifier: fact"),
    ({**DIRTIED, "is_by_process": True, "submit_process": OTHER}, "+divided_pages",
     "another_block_of_submitter: inferred"),
    ({**DIRTIED, "is_by_process": True, "submit_process": None}, "+divided_pages",
     "another_block_of_submitter: inferred"),
    ({**DIRTIED, "is_by_process": True, "submit_process": APP}, "+divided_pages", "last_modifier: fact"),
    (DIRTIED, "+divided_pages", "last_modifier: fact"),
    (DIRTIED, "+without_writes", "writes_not_recorded: inferred"),
    (STORED, "+without_writes", "writes_not_recorded: inferred"),
    ({"may_lack_events": True}, "", "events_lost: inferred"),
    ({"may_lack_events": True, **UNMODIFIED}, "", "no_modification: unknown"),
    ({}, "", "last_modifier: fact"),
    (DIRTIED, "", "last_modifier: fact"),
    ({"process": None, "submit_process": None}, "", "last_modifier: fact"),
]  # fmt: skip


def decided(facts: dict[str, Any], changes: str) -> str:
    """Return the name and the verdict of the rule that decides the owner of the block."""
    recorded = set(RECORDED)
    for change in changes.split():
        (recorded.add if change[0] == "+" else recorded.remove)(change[1:])
    coverage = Coverage(**{name: [DEV] if name in recorded else [] for name in Coverage._fields})
    types = {name: TYPES.get(name, pl.Int32 if name in ("file_dirtiers", "count") else pl.Boolean) for name in WRITTEN}
    block = pl.DataFrame([WRITTEN | facts], schema=types)
    rule = rules.RULES[block.select(rules.first_that_applies(coverage)).item()]
    return f"{rule.name}: {rule.verdict}"


@pytest.mark.parametrize(("facts", "changes", "expected"), CASES)
def test_case(facts: dict[str, Any], changes: str, expected: str) -> None:
    assert decided(facts, changes) == expected


def test_every_rule_decides_a_case() -> None:
    assert {expected for *_, expected in CASES} == {f"{rule.name}: {rule.verdict}" for rule in rules.RULES}
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)


def test_the_definition_has_the_sentences_of_the_rules(tmp_path: Path) -> None:
    written = Path(shutil.copy(ROOT / "schemas" / "definitions.toml", tmp_path))
    subprocess.run([sys.executable, ROOT / "tools" / "owner_rules.py", written], check=True)
    assert written.read_text("utf-8") == (ROOT / "schemas" / "definitions.toml").read_text("utf-8"), "run `make tables`"
    for rule in rules.RULES[:-1]:
        assert rule.sentence.replace("`", "") in written.read_text("utf-8"), rule.name
