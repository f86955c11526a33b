"""Copy the repository without files that git ignores."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.needs import needs
from support.tree import ROOT, ignored


@needs("checkout")
def copied(directory: Path) -> Path:
    """Copy the current working tree to `directory` and return it."""
    shutil.copytree(ROOT, directory, ignore=lambda at, names: [name for name in names if ignored(Path(at, name))])
    return directory
