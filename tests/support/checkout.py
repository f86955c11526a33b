"""Copies of the repository, without what git ignores."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.needs import needs
from support.tree import ROOT, ignored


@needs("checkout")
def copied(directory: Path) -> Path:
    """Return `directory`, which becomes a checkout of the working tree as it is now."""
    shutil.copytree(ROOT, directory, ignore=lambda at, names: [name for name in names if ignored(Path(at, name))])
    return directory
