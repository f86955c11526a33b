"""The files of the repository without those that git ignores (git is not needed)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_IGNORED = [".git", *(line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf-8").split())]


def ignored(path: Path) -> bool:
    """Return whether .gitignore names this path; its patterns are names, or paths from the root."""
    from_root = path.relative_to(ROOT).as_posix()
    return any(fnmatch(from_root if "/" in pattern else path.name, pattern) for pattern in _IGNORED)


def files(directory: Path = ROOT) -> Iterator[Path]:
    """Yield every file of the tree, sorted."""
    for path in sorted(directory.iterdir()):
        if ignored(path):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(path)
        else:
            yield path
