"""Test for which ext4 images pytsk3 reads the names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import pytsk3
from support.oracles import ext4 as ext4_oracle

from androstep_analysis import fs

BLOCK_BYTES = 1024
MOST_BYTES = 4096 * BLOCK_BYTES
"""Total size of files without extents above which pytsk3, which maps each of their blocks, would take too long."""

DIRECTORY_BYTES = BLOCK_BYTES + 12 * BLOCK_BYTES
"""Size of the root and lost+found."""


@pytest.mark.parametrize(("beyond", "opened"), [(0, 1), (1, 0)])
def test_names_that_take_pytsk3_too_long_are_read_directly(
    beyond: int, opened: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ext4_oracle.require("mke2fs")
    root, image = tmp_path / "root", tmp_path / "image"
    root.mkdir()
    (root / "sparse").touch()
    os.truncate(root / "sparse", MOST_BYTES - DIRECTORY_BYTES + beyond)
    words = ["-q", "-t", "ext2", "-b", str(BLOCK_BYTES), "-O", "^resize_inode", "-d", root]
    subprocess.run(["mke2fs", *words, image, "8M"], check=True)
    calls = []
    monkeypatch.setattr(
        pytsk3, "FS_Info", lambda *given, real=pytsk3.FS_Info, **named: calls.append(1) or real(*given, **named)
    )
    read = fs.read(image, dev=7 << 20, source="image_after")
    assert len(calls) == opened
    assert {"/sparse", "/lost+found"} <= set(read.files["names"].explode())
