"""Members of tar archives equal those that tarfile reads, for various writers."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from androstep_analysis import capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.tar import Tar
from androstep_analysis.ingest import archive

TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_those_of_tarfile(form: int) -> None:
    choose = random.Random(form)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for number in range(300):
            parts = ["é" * choose.randrange(2) + "n" * choose.randrange(1, 60) for _ in range(choose.randrange(1, 4))]
            member = tarfile.TarInfo("/".join(parts)[: choose.choice((20, 99, 100, 150))] + f"{number}")
            member.type = choose.choice(TYPES)
            member.size = choose.choice((0, 1, 511, 512, 5000)) if member.type == tarfile.REGTYPE else 0
            member.uname = choose.choice(("", "root", "né"))
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    content.seek(0)
    expected = [(one.name, one.type, one.size, one.offset_data) for one in tarfile.open(fileobj=content)]  # noqa: SIM115
    content.seek(0)
    found = Tar(content)
    assert [(one.name, one.type, one.size, one.offset_data) for one in found] == expected
    assert len(expected) == 300


@pytest.mark.parametrize(("at", "byte"), [(0, b"x"), (124, b"9"), (148, b"7")])
def test_a_header_whose_checksum_does_not_fit_is_damage(at: int, byte: bytes) -> None:
    member = tarfile.TarInfo("name")
    header = bytearray(member.tobuf())
    header[at : at + 1] = byte
    with pytest.raises(tarfile.TarError):
        list(Tar(io.BytesIO(bytes(header) + bytes(1024))))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_archive_of_countless_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "many.tar"
    with tarfile.open(path, "w") as made:
        for number in range(3):
            made.addfile(tarfile.TarInfo(f"trace{number}.txt"))
    path.write_bytes(compress(path.read_bytes()))
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    with pytest.raises(InputError, match="none of the 3 files"):
        capture.open(path)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2)
    with pytest.raises(InputError, match="more than 2 files, as no recording has; unpack it"):
        capture.open(path)
