"""Results in a directory, with names and notes: list them, pack them into files to share, and unpack such files."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.common import files, manifest, scratch
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.ingest.archive import Archive
from androstep_analysis.ingest.source import Source, head

NOTE: Final = "note.json"
"""File in a result's directory with the name and the note that the user entered."""

_MOST_LETTERS: Final = 10_000
_MOST_BYTES: Final = 1 << 28
"""Maximum size of a shared file after unpacking."""


@dataclass(frozen=True)
class Result:
    """A result in the history: its capture, its name and its note."""

    capture: Capture
    directory: Path
    name: str
    note: str

    @property
    def when(self) -> str:
        """Begin of its first repetition, in UTC."""
        began = self.capture.bench["bench_runs"]["realtime_ns"].min()
        return "" if not isinstance(began, int) else f"{datetime.fromtimestamp(began / 1e9, UTC):%Y-%m-%d %H:%M}"

    @property
    def seconds(self) -> float:
        """Duration from the begin of the first repetition to the end of the last."""
        runs = self.capture.bench["bench_runs"].select("realtime_ns", end=pl.col("realtime_ns") + pl.col("duration_ns"))
        return float(runs.select((pl.col("end").max() - pl.col("realtime_ns").min()) / 1e9).item() or 0)


def results(home: Path) -> list[Result]:
    """Return the benchmark results in a directory, the newest first. Other files are ignored."""
    found = []
    for directory in sorted(home.iterdir() if home.is_dir() else (), key=lambda path: path.name, reverse=True):
        with contextlib.suppress(InputError):  # ignore files of other programs
            if (directory / manifest.FILE_NAME).is_file():
                found.append(result(directory))
    return found


def result(directory: Path) -> Result:
    """Return the result in a capture directory. Raise `InputError` if there is none."""
    opened = capture.open(directory)
    if not opened.about["bench"]:
        raise InputError(f"{directory}: contains no benchmark results")
    name, note = _noted(directory)
    return Result(opened, directory, name or directory.name, note)


def annotate(directory: Path, name: str, note: str) -> None:
    """Save the name and the note of a result in its directory."""
    text = json.dumps({"name": name[:_MOST_LETTERS], "note": note[:_MOST_LETTERS]}, indent=2)
    files.write_text(directory / NOTE, f"{text}\n")


def _noted(directory: Path) -> tuple[str, str]:
    """Return name and note. The file may come from elsewhere, so values that are not strings are ignored."""
    try:
        read = json.loads(files.read_text(directory / NOTE))
        texts = (read["name"], read["note"])
    except (OSError, InputError, RecursionError, *manifest.MALFORMED):
        return "", ""
    return ("", "") if not all(type(text) is str for text in texts) else (texts[0].strip(), texts[1])


def new_directory(home: Path) -> Path:
    """Return a new path for a result. `home` is created."""
    home.mkdir(parents=True, exist_ok=True)
    stem = f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(home / name for name in names if not (home / name).exists())


def remove(directory: Path) -> None:
    """Delete a result permanently."""
    assert (directory / manifest.FILE_NAME).is_file()
    shutil.rmtree(directory)


def packed(directory: Path) -> bytes:
    """Return a result as a tar.xz file: sources, manifest and note. The bytes are reproducible."""
    described = manifest.read(directory)
    # Images are not packed. Absolute paths are skipped: a foreign manifest could name any file of this machine.
    kept = [source for source in described.sources if not Path(source.path).is_absolute()]
    names = [manifest.FILE_NAME, NOTE, *(source.path for source in kept if manifest.locate(source, directory))]
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name in names:
            if (path := directory / name).is_file():
                member = tarfile.TarInfo(f"{directory.name}/{name}")
                member.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(member, file)
    return content.getvalue()


def receive(home: Path, file_name: str, content: bytes) -> Path:
    """Add a shared file as a new result: a file of `packed`, or a result file of iobench, fio or Mobibench.

    Derived tables are computed again. Raises `InputError` for any other file.
    """
    with scratch.directory("shared") as directory:
        file = directory / "shared"
        file.write_bytes(content)
        made = _unpacked(file, directory / "unpacked")
        if made is None:
            made = directory / "made"
            capture.create([file], made)
            annotate(made, Path(file_name).name, "")
        result(made)
        out = new_directory(home)
        with capture.staged_directory(out) as staged:
            shutil.copytree(made, staged, dirs_exist_ok=True)
    return out


def _unpacked(file: Path, directory: Path) -> Path | None:
    """Unpack an archive of `packed` and return its capture directory.

    Return None if the file is not such an archive.
    """
    directory.mkdir()
    try:
        unpack(file, directory, _MOST_BYTES)
    except InputError:
        if Archive.is_one(Source.of(file, head(file))):
            raise
        return None
    found = next(directory.glob(f"*/{manifest.FILE_NAME}"), None)
    if found is None:
        return None
    for source in manifest.read(found.parent).sources:
        if Path(source.path).is_absolute():
            raise InputError(f"{source.path}: is missing from the shared result; share it again with all its files")
        manifest.verify(source, found.parent)
    shutil.rmtree(found.parent / "tables", ignore_errors=True)
    return found.parent
