"""Members of tar archives equal those that tarfile reads, for various writers."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import androstep_analysis as androstep
from androstep_analysis.common.tar import Tar

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


def listed(members: Iterator[tarfile.TarInfo]) -> tuple[list[tuple[str, int, int]], bool]:
    """Return the members before the damage, and whether there is damage."""
    found = []
    try:
        for one in members:
            found.append((one.name, one.size, one.offset_data))
    except tarfile.TarError:
        return found, True
    return found, False


def test_an_archive_that_ends_early_has_the_members_of_tarfile() -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for number, size in enumerate((0, 0, 0, 700, 0, 0, 512, 0)):
            member = tarfile.TarInfo(f"{number}")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    for end in range(512, len(content.getvalue()), 128):
        cut = content.getvalue()[:end]
        expected = listed(iter(tarfile.open(fileobj=io.BytesIO(cut))))  # noqa: SIM115
        assert listed(iter(Tar(io.BytesIO(cut)))) == expected, end


@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
def test_an_archive_is_listed_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of input is recognised by itself."""
    path, read = tmp_path / "lists.tar", []
    whole = Tar.__iter__
    monkeypatch.setattr(Tar, "__iter__", lambda tar: read.append(tar) or whole(tar))
    for nr_rows in (1, 2):
        rows = "timestamp,process,device,rw_flag,sector,size\n" + "1.5,a-7,1048577,W,8,16\n" * nr_rows
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("list.csv")
            member.size = len(rows)
            archive.addfile(member, io.BytesIO(rows.encode()))
        assert androstep.open(path).about["rows"]["requests"] == nr_rows
        assert len(read) == nr_rows
