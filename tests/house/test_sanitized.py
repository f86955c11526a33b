"""Run every function of the native library with sanitizers on truncated, flipped and synthetic input.

No access is out of bounds, and no behaviour is undefined. The tests that show this are marked `sanitized`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import corpus, sanitized
from support.tree import ROOT

pytestmark = [pytest.mark.prove, pytest.mark.compiler]

NEVER_CALLED: set[str] = set()

BROKEN = """\
import pytest
from androstep_analysis import native

@pytest.mark.sanitized
def test_a_text_is_longer_than_its_bytes():
    native.library().strings_add(native.Strings().handle, b"x" * 64, 1 << 20)

@pytest.mark.sanitized
def test_nothing_is_wrong():
    assert native.Strings().add(b"x") == 0
"""


def reports(directory: Path) -> str:
    return "\n".join(path.read_text("utf-8", "replace")[:8000] for path in directory.glob("*san.*"))


def test_the_sanitizers_end_a_test_that_reads_too_far(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text(BROKEN)
    ran = sanitized.run([broken], tmp_path)
    assert "1 failed, 1 passed" in ran.stdout
    assert "test_a_text_is_longer_than_its_bytes" in ran.stdout
    assert "AddressSanitizer: heap-buffer-overflow" in reports(tmp_path)


def test_prove_runs_no_test_twice() -> None:
    """Tests assert the same with and without sanitizers, so `make prove` runs them only once."""
    assert f'-m "prove and (not sanitized or {" or ".join(sanitized.LEFT_OUT)})"' in (ROOT / "Makefile").read_text()


def test_no_access_is_out_of_bounds(tmp_path: Path) -> None:
    ran = sanitized.run(sanitized.marked(), tmp_path)
    assert ran.returncode == 0, f"{reports(tmp_path)}\n{ran.stdout[-8000:]}\n{ran.stderr[-8000:]}"
    if corpus.ROOT.is_dir():  # there are no other recordings of several formats
        assert sanitized.exported() - sanitized.called(tmp_path) == NEVER_CALLED
