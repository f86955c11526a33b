"""Results in a directory, with names and notes beside them: found, shared as files, and opened from such files."""

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
"""The file beside a result that has its name and a note, as people wrote them."""

_MOST_LETTERS: Final = 10_000
_MOST_BYTES: Final = 1 << 28
"""What a shared file may come to when it is unpacked."""


@dataclass(frozen=True)
class Result:
    """A result in the history: its capture, what it is called, and what somebody noted."""

    capture: Capture
    directory: Path
    name: str
    note: str

    @property
    def when(self) -> str:
        """When its first repetition began, in UTC."""
        began = self.capture.bench["bench_runs"]["realtime_ns"].min()
        return "" if not isinstance(began, int) else f"{datetime.fromtimestamp(began / 1e9, UTC):%Y-%m-%d %H:%M}"

    @property
    def seconds(self) -> float:
        """How long it took, from its first repetition's begin to its last one's end."""
        runs = self.capture.bench["bench_runs"].select("realtime_ns", end=pl.col("realtime_ns") + pl.col("duration_ns"))
        return float(runs.select((pl.col("end").max() - pl.col("realtime_ns").min()) / 1e9).item() or 0)


def results(home: Path) -> list[Result]:
    """The results of benchmarks in a directory, the newest first; what else is there is left out."""
    found = []
    for directory in sorted(home.iterdir() if home.is_dir() else (), key=lambda path: path.name, reverse=True):
        with contextlib.suppress(InputError):  # what another program left there is no history of ours
            if (directory / manifest.FILE_NAME).is_file():
                found.append(result(directory))
    return found


def result(directory: Path) -> Result:
    """The result in a capture directory. Raises `InputError` where there is none."""
    opened = capture.open(directory)
    if not opened.about["bench"]:
        raise InputError(f"{directory}: no results of a benchmark are in it")
    name, note = _noted(directory)
    return Result(opened, directory, name or directory.name, note)


def annotate(directory: Path, name: str, note: str) -> None:
    """Keeps the name and the note of a result beside it."""
    text = json.dumps({"name": name[:_MOST_LETTERS], "note": note[:_MOST_LETTERS]}, indent=2)
    files.write_text(directory / NOTE, f"{text}\n")


def _noted(directory: Path) -> tuple[str, str]:
    """Name and note; anyone may have written them, so whatever is no text is none."""
    try:
        read = json.loads(files.read_text(directory / NOTE))
        texts = (read["name"], read["note"])
    except (OSError, InputError, RecursionError, *manifest.MALFORMED):
        return "", ""
    return ("", "") if not all(type(text) is str for text in texts) else (texts[0].strip(), texts[1])


def new_directory(home: Path) -> Path:
    """A directory for a result that is not there yet; `home` is made."""
    home.mkdir(parents=True, exist_ok=True)
    stem = f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 1000)))
    return next(home / name for name in names if not (home / name).exists())


def remove(directory: Path) -> None:
    """Removes a result for good."""
    assert (directory / manifest.FILE_NAME).is_file()
    shutil.rmtree(directory)


def packed(directory: Path) -> bytes:
    """A result as a file (tar, xz): what was recorded, what is known of it, and its note; the same whenever made."""
    described = manifest.read(directory)
    # Images stay where they are. A manifest from elsewhere could name any file of this machine by an absolute path.
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
    """Keeps a file that somebody shared as a new result: one of `packed`, or what iobench, fio or Mobibench wrote.

    What follows from what was recorded is made anew. Raises `InputError` for any other file.
    """
    with scratch.directory("shared") as place:
        file = place / "shared"
        file.write_bytes(content)
        made = _unpacked(file, place / "unpacked")
        if made is None:
            made = place / "made"
            capture.create([file], made)
            annotate(made, Path(file_name).name, "")
        result(made)
        out = new_directory(home)
        with capture.staged_directory(out) as staged:
            shutil.copytree(made, staged, dirs_exist_ok=True)
    return out


def _unpacked(file: Path, directory: Path) -> Path | None:
    """The capture directory in an archive of `packed`, unpacked; None where the file is no such archive."""
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
            raise InputError(f"{source.path}: a shared result holds all that it was made from; this one does not")
        manifest.verify(source, found.parent)
    shutil.rmtree(found.parent / "tables", ignore_errors=True)
    return found.parent
