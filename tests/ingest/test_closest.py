"""A file that is not a recording is described in a sentence with the format that comes closest."""

from __future__ import annotations

from pathlib import Path

import pytest

from androstep_analysis import capture
from androstep_analysis.common.errors import InputError

FILES = {
    "only comments": (b"# a\n#\n\n", "there are only comments and empty lines at its beginning"),
    "binary": (b"\x01\x02ELVES\x00", "it is binary, and starts with b'"),
    "events of another kind": (
        b" app-1 [000] 1.5: sched_wakeup: comm=a\n app-1 [000] 1.6: sched_wakeup: comm=b\n",
        "2 of its first 2 lines look like ftrace text, but none is a known event",
    ),
    "a table": (
        b"who;what;when\nme;this;now\n",
        "its 3 columns match no known table, and the first line is 'who;what;",
    ),
    "a log": (b"12:01 started\n12:02 ended\n", "it is text without events; it starts with '12:01 started'"),
    "escapes": (b"\x1b[31mred\nred\n", "it is text without events; it starts with '\\x1b[31mred'"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_found_is_said(name: str, tmp_path: Path) -> None:
    content, said = FILES[name]
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError) as failed:
        capture.open(tmp_path / "file")
    assert f"file: no known recording; {said}" in str(failed.value)
    assert "\x1b" not in str(failed.value)
