"""Writes in the background belong to the process that had the pid when it wrote."""

from __future__ import annotations

import pytest
from support import made

from androstep_analysis.present.advice.background import background
from androstep_analysis.present.advice.evidence import Evidence

S = 10**9
LIMITS = {"after": 10.0, "bytes": 1.0}


@pytest.mark.parametrize("has_creations", [True, False])
@pytest.mark.parametrize("has_listing", [True, False])
def test_a_new_process_is_not_in_the_background_since_its_pid_was_used_before(
    has_creations: bool, has_listing: bool
) -> None:
    """Process 7 goes to the background and ends. Another process gets its pid, and no event states its importance."""
    times = [{"queue_ns": at * S, "issue_ns": at * S + 1, "complete_ns": at * S + 2} for at in (30, 60)]
    common = {"op": "write", "sync": True, "block_type": "data", "owner_via": "submitter", "owner_pid": 7, "ino": 5}
    io = [{"request_id": n, **times[n], **common, "owner_comm": comm} for n, comm in enumerate(("mail", "shop"))]
    tables = {
        name: table.collect() for name, table in made.capture([{"op": "write"} | at for at in times], io).tables.items()
    }
    events = [(5, "oom_score_adj_update", "mail", 900)]
    if has_creations:
        events.append((50, "task_newtask", "zygote", 900))
    tables["importance"] = made.table(
        "importance",
        [
            {"ts_ns": at * S, "event": event, "task": 7, "task_comm": comm, "oom_score_adj": score}
            for at, event, comm, score in events
        ],
    )
    names = [("mail", None, 40), ("shop", 50, None)]
    if has_creations or has_listing:
        tables["tasks"] = made.table(
            "tasks",
            [
                {"tid": 7, "comm": comm, "kind": "app"}
                | {"valid_from_ns": since and since * S, "valid_to_ns": until and until * S}
                for comm, since, until in names
            ],
        )
    found = background(Evidence(made.of_tables(tables)), LIMITS)
    expected = ["mail"] if has_creations or has_listing else ["mail", "shop"]
    assert sorted(found["process"].to_list()) == expected
