"""Every compiled decoder with the sanitizers, on cut, flipped and made input.

No access is out of bounds and nothing is undefined. A test of a family runs others in a process of its own, which call
no other program: the sanitizers would be loaded into that too.
"""

from __future__ import annotations

import pytest
from support import sanitized

DAMAGED = "(truncated or garbage or flipped or zeros)"

FAMILIES = {
    "pages of ftrace": (f"{DAMAGED} and trace.dat", "tests/ingest/test_readers.py"),
    "pages whose records are longer": ("longer", "tests/ingest/test_ingest_ftrace_raw.py"),
    "ftrace text": (f"{DAMAGED} and (ftrace or atrace)", "tests/ingest/test_readers.py"),
    "ftrace text in HTML": (f"{DAMAGED} and systrace", "tests/ingest/test_readers.py"),
    "blktrace": (f"{DAMAGED} and blktrace", "tests/ingest/test_readers.py"),
    "Perfetto": (f"{DAMAGED} and Perfetto", "tests/ingest/test_readers.py"),
    "frames of Perfetto": ("naive or damaged or clock", "tests/measures/test_perceived_frames.py"),
    "system calls of ftrace": ("not recorded_here", "tests/ingest/test_ingest_ftrace_syscalls.py"),
    "strace and ioshark": (f"{DAMAGED} and (strace or ioshark)", "tests/ingest/test_readers.py"),
    "other text": (f"{DAMAGED} and (CSV or MOST or blkparse)", "tests/ingest/test_readers.py"),
    "Open-CAS": (f"{DAMAGED} and CAS", "tests/ingest/test_readers.py"),
    "tables that are full": ("", "tests/ingest/test_pieces.py"),
    "exports": (
        "not trace_processor and not fio",
        "tests/export/test_export_perfetto.py",
        "tests/export/test_export_oraclegeneral.py",
    ),
    "steps of bios": ("whatever", "tests/export/test_export_btt.py"),
    "dependencies of a replay": ("descriptor or all_pairs or anything", "tests/replay/test_replay_dependencies.py"),
    "linking": ("garbage or damaged or at_once", "tests/link/test_requests.py"),
    "owners": ("", "tests/link/test_turns.py"),
    "explorer": ("not jupyterlab", "tests/explore/test_explorer.py"),
    "page cache": ("(oracle and not None) or without_end", "tests/measures/test_readahead.py"),
    "caches": ("plain_python", "tests/measures/test_reuse.py", "tests/measures/test_miss_ratio.py"),
    "log-structured layer": ("plainest or reads_back or cleaning or mebibyte", "tests/whatif/test_whatif_layer.py"),
    "flash": ("plainest or sums or discarded", "tests/whatif/test_whatif_flash.py"),
    "queue of a device": ("plainest_queue", "tests/whatif/test_whatif_predict.py"),
    "cleaning of calls": ("not truth and not right_file and not same_again", "tests/replay/test_replay_clean.py"),
}
"""For each family which tests run, and the files they are in."""


@pytest.mark.prove
@pytest.mark.parametrize("family", FAMILIES)
def test_no_access_out_of_bounds(family: str) -> None:
    chosen, *files = FAMILIES[family]
    ran = sanitized.run(*files, "-x", "-s", "-k", chosen)
    assert ran.returncode == 0, f"{ran.stdout[-4000:]}\n{ran.stderr[-8000:]}"
