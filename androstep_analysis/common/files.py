"""Write files atomically, and read small files from untrusted sources."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from androstep_analysis.common import scratch
from androstep_analysis.common.errors import InputError

MOST_TEXT_MIB = 32
"""The default size limit of files that are read as a whole. A `capture.json`, for example, has some kilobytes."""

MOST_TEXT = "ANDROSTEP_MAX_TEXT_MIB"
"""The environment variable that raises this limit."""


STDOUT = Path("/dev/stdout")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; on success the file written there replaces `path`, after an error it is removed.

    - An existing file at `path` stays until then. The new file gets its permissions.
    - A symbolic link at `path` is replaced, not followed.
    - Standard output (`STDOUT`) gets the whole file at the end. Any other device or pipe is written to directly.
    - The new file is created in a scratch directory next to `path`. If this process is killed, the next run removes it.
    """
    if path == STDOUT:
        with tempfile.TemporaryDirectory(prefix="androstep-") as directory:
            new = Path(directory) / "new"
            yield new
            sys.stdout.flush()
            with new.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    try:
        previous = path.lstat()
    except FileNotFoundError:
        previous = None
    if previous is not None and stat.S_ISDIR(previous.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    with scratch.directory("output", path.parent) as directory:
        new = directory / "new"
        yield new
        new.chmod(stat.S_IMODE(previous.st_mode) if previous is not None and path.is_file() else 0o666 & ~_umask())
        new.replace(path)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Replace `path` atomically by a file with this text (UTF-8)."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def read_text(path: Path) -> str:
    """Return the text (UTF-8) of a file, with the checks of `read_bytes`."""
    return read_bytes(path).decode("utf-8")


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file, without following a symbolic link.

    Raises `InputError` if the file is larger than `MOST_TEXT_MIB` (the environment variable `MOST_TEXT` raises the
    limit). Raises `OSError` if it cannot be read or is not a regular file: a FIFO could block, and a device never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(22, "Not a regular file", str(path))
        limit = limit_of(MOST_TEXT, MOST_TEXT_MIB)
        if state.st_size > limit << 20:
            raise InputError(
                f"{path}: {state.st_size >> 20} MiB, but the limit for such a file is {limit} MiB; to read it, set "
                f"{MOST_TEXT} to a larger number"
            )
        return file.read(limit << 20)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; see `without_surrogates`.

    Raises `ValueError` or `RecursionError` if the text is not valid.
    """
    return without_surrogates(json.loads(text))


def without_surrogates(value: Any) -> Any:
    r"""Return a value of JSON, in which each lone surrogate becomes its escape, such as ``\udcff``.

    JSON permits lone surrogates, and the probes write bytes that are not UTF-8 as such, but no table can hold them.
    """
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii():
        return value
    return json.loads(re.sub("[\ud800-\udfff]", lambda found: rf"\\u{ord(found[0]):04x}", text))


def limit_of(variable: str, default: int) -> int:
    """Return the value of an environment variable, or `default` if it is unset; `InputError` if it is not a number."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{variable} is {text!r}; set it to a whole number")
    return int(text)


def cache_directory() -> Path:
    """Return AndroStep's directory in the user's cache (XDG base directory specification)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "androstep"


def is_own_directory(path: Path) -> bool:
    """Return whether `path` is a directory (not a link to one) owned by the effective user of this process."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()


def is_regular(path: Path) -> bool:
    """Return whether `path` is a regular file and not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
