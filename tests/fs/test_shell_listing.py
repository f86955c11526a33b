"""The listing of adb's shell: paths, devices, hostile names and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import fiemap, shell_listing

TOKEN = "0123456789abcdef" * 2
OTHER = "f" * 32
ST_DEV = 0xFE05  # 254:5
DEV = 254 << 20 | 5
MOUNTS = r"""mounts
20 1 7:1 / / ro - ext4 /dev/root ro
30 20 254:5 / /data rw shared:1 - f2fs /dev/block/dm-5 rw
31 30 254:5 /data /data/user/0 rw - f2fs /dev/block/dm-5 rw
32 20 0:90 / /storage/emulated rw - fuse /dev/fuse rw
33 32 254:5 /media/0/Android/data /storage/emulated/0/Android/data rw - f2fs /dev/block/dm-5 rw
34 30 254:5 /odd\040top /data/odd\040place rw - f2fs /dev/block/dm-5 rw"""


def entry(path: str, ino: int = 7, st_dev: int = ST_DEV, changed: str = "2026-01-02 03:04:05.000000006 +0000") -> str:
    return f"file {st_dev} {ino} 81a4 5 {changed} {path}"


def written(tmp_path: Path, *entries: str, ends: bool = True, first: str = "") -> Path:
    records = ["clock 1795958756.778620348 78897.42 37465.78", MOUNTS, f"filesystem {ST_DEV} 4096", *entries]
    records += ["end 1795958757.778620348 78898.42 37465.78"] if ends else []
    text = "".join(f"{TOKEN} {record}\n" for record in records)
    path = tmp_path / "before.list"
    path.write_bytes(f"{first or shell_listing.MAGIC} {TOKEN}\n{text}".encode(errors="surrogateescape"))
    return path


def paths(path: Path) -> dict[int, str | None]:
    found = fiemap.listings(shell_listing.read(path))
    assert [one.dev for one in found] == [DEV]
    return dict(found[0].files.select("ino", "path").iter_rows())


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("/data/app/a", "/app/a"),
        ("/data", "/"),
        ("/data/user/0/org.x/db", "/data/org.x/db"),
        ("/data/user/01/x", "/user/01/x"),
        ("/storage/emulated/0/Android/data/org.x/f", "/media/0/Android/data/org.x/f"),
        ("/data/odd place/f", "/odd top/f"),
        ("/data/two\nlines\n", "/two\nlines\n"),
        (f"/data/\n{OTHER} {entry('/data/forged', 1)}", f"/\n{OTHER} {entry('/data/forged', 1)}"),
        ("/data/tab\t  blank ", "/tab\t  blank "),
        ("/data/\udcff\udcfe", r"/\xff\xfe"),
        ("/data/\u00e9\u4e16", "/\u00e9\u4e16"),
        ("/data/%n\\n\\101", "/%n\\n\\101"),
    ],
)
def test_paths_from_the_root_of_the_filesystem(tmp_path: Path, said: str, path: str) -> None:
    assert paths(written(tmp_path, entry(said), entry("/data/last", 8))) == {7: path, 8: "/last"}


def test_files_of_other_devices_have_no_number_of_this_one(tmp_path: Path) -> None:
    path = written(tmp_path, entry("/data/app/a"), entry("/storage/emulated/0/x", 8, st_dev=90), entry("/elsewhere", 9))
    assert paths(path) == {7: "/app/a"}
    (loss,) = shell_listing.read(path).losses
    assert (loss.kind, loss.count) == ("unplaced", 2)


def test_what_a_listing_knows(tmp_path: Path) -> None:
    (found,) = fiemap.listings(shell_listing.read(written(tmp_path, entry("/data/a"), entry("/data/hard link"))))
    assert (found.fs_type, found.block_bytes, found.is_whole, found.extents.height) == ("f2fs", 4096, False, 0)
    assert found.times.rows() == [(7, None, None, 1767323045000000006)]
    assert found.files["names"].to_list() == [["/a", "/hard link"]]
    assert found.files["size_bytes"].to_list() == [5]
    assert found.realtime_offset_ns == 1795958756_778620348 - 78897_420000000


def test_a_truncated_listing_keeps_its_whole_records(tmp_path: Path) -> None:
    path = written(tmp_path, entry("/data/a"), entry("/data/cut off", 8), ends=False)
    assert paths(path) == {7: "/a"}
    read = shell_listing.read(path)
    assert [loss.kind for loss in read.losses] == ["truncated"] and not read.complete


@pytest.mark.parametrize("damage", [b"filesystem", b"clock"])
def test_a_listing_without_its_first_records_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path, entry("/data/a"))
    path.write_bytes(path.read_bytes().replace(damage, b"?"))
    with pytest.raises(InputError, match="lacks the clock or the filesystem"):
        shell_listing.read(path)


def test_other_files_are_not_listings(tmp_path: Path) -> None:
    assert shell_listing.is_one(written(tmp_path))
    assert not shell_listing.is_one(written(tmp_path, first="some text"))


def test_an_empty_listing(tmp_path: Path) -> None:
    assert paths(written(tmp_path)) == {}
