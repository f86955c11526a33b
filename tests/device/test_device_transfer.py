"""Files arrive complete or not at all, whatever happens during the transfer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from adbd import ODD, PIXEL, FakePhone, Faults, Model, phone
from support.devices import home

from androstep_analysis.device import Device, DeviceError, LinkLost, connect
from androstep_analysis.device.session.transfer import PIECE_BYTES, Transfer

CONTENT = os.urandom(3 * PIECE_BYTES + 12345)


@contextmanager
def connected(
    place: Path, faults: Faults | None = None, *, model: Model = PIXEL, patience_s: float = 60
) -> Iterator[tuple[Device, FakePhone]]:
    with (
        home(place),
        phone(place, model=model, faults=faults) as fake,
        connect(fake.address, patience_s=patience_s) as device,
    ):
        yield device, fake


def left(fake: FakePhone) -> list[str]:
    """Return the files in the phone's private directory, except the one that the test pushes."""
    return sorted(path.name for path in fake.tmp.rglob("*") if path.is_file())


def test_what_is_there_already_is_not_sent_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    with connected(tmp_path) as (device, fake):
        target = f"{device.directory}/file"
        device.push(tmp_path / "file", target)
        there = next(fake.tmp.rglob("file"))
        first = there.stat()
        device.push(tmp_path / "file", target, mode=0o755)
        second = there.stat()
        assert (first.st_ino, first.st_mtime_ns) == (second.st_ino, second.st_mtime_ns)
        assert second.st_mode & 0o777 == 0o755
        (tmp_path / "file").write_bytes(CONTENT[::-1])
        device.push(tmp_path / "file", target)
        assert there.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("fault", ["cut_push_after", "corrupt_push_at"])
def test_a_push_that_goes_wrong_once_is_done_again(tmp_path: Path, fault: str) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    with connected(tmp_path, Faults(**{fault: 1_000_000})) as (device, fake):
        device.push(tmp_path / "file", f"{device.directory}/file")
        assert next(fake.tmp.rglob("file")).read_bytes() == CONTENT
        assert left(fake) == ["file"]


def test_what_gets_no_answer_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link breaks after each step of a push was carried out; a repetition must not fail."""
    (tmp_path / "file").write_bytes(CONTENT[:1000])
    lost: set[str] = set()
    with connected(tmp_path) as (device, fake):
        target = f"{device.directory}/file"
        checked = device.checked

        def lose(text: str, *words: object, **choices: object) -> bytes:
            output = checked(text, *words, **choices)
            if text not in lost:
                lost.add(text)
                raise LinkLost("cut")
            return output

        monkeypatch.setattr(device, "checked", lose)
        device.push(tmp_path / "file", target, mode=0o755)
        there = next(fake.tmp.rglob("file"))
        assert there.read_bytes() == CONTENT[:1000] and there.stat().st_mode & 0o777 == 0o755
        assert left(fake) == ["file"]
        assert len(lost) == 3


def test_a_push_that_always_goes_wrong_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    with connected(tmp_path, Faults(corrupt_push_at=77, times=None)) as (device, fake):
        with pytest.raises(DeviceError, match="arrived damaged 3 times"):
            device.push(tmp_path / "file", f"{device.directory}/file")
        assert left(fake) == []


def test_a_file_that_does_not_fit_is_refused_with_the_room_there_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    with connected(tmp_path, Faults(disk_bytes=1 << 20)) as (device, fake):
        with pytest.raises(DeviceError, match=r"12\.6 MB do not fit .* where 1\.0 MB are free"):
            device.push(tmp_path / "file", f"{device.directory}/file")
        assert left(fake) == []


@pytest.mark.parametrize("after", [0, 1, 100_000, 3_000_000])
def test_a_pull_is_taken_up_where_the_link_broke(tmp_path: Path, after: int) -> None:
    with connected(tmp_path) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        fake.faults.cut_shell_after, fake.faults.times = after, 3
        device.pull("/data/local/tmp/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == CONTENT
        assert not (tmp_path / "back.part").exists()


def test_a_pull_goes_on_with_what_an_earlier_one_had(tmp_path: Path) -> None:
    with connected(tmp_path, patience_s=0) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        assert device.hasher.algorithm == "sha256"
        fake.install("dd", 'case "$*" in *skip=8*) exit 1 ;; esac; exec /usr/bin/dd "$@"')
        with pytest.raises(DeviceError, match="at byte 8,388,608"):
            device.pull("/data/local/tmp/file", tmp_path / "back")
        assert (tmp_path / "back.part").read_bytes() == CONTENT[: 2 * PIECE_BYTES]
        assert not (tmp_path / "back").exists()
        fake.install("dd", 'exec /usr/bin/dd "$@"')
        before = len(fake.commands)
        device.pull("/data/local/tmp/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == CONTENT
        pieces = [line for line in fake.commands[before:] if " >&2" in line and "dd if=" in line and "; dd" in line]
        assert len(pieces) == 2


@pytest.mark.parametrize(
    "part",
    [b"", b"short", os.urandom(2 * PIECE_BYTES), CONTENT + bytes(10 << 20)],
    ids=["empty", "short", "whole pieces", "longer"],
)
def test_a_part_of_another_file_is_not_kept(tmp_path: Path, part: bytes) -> None:
    with connected(tmp_path) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        (tmp_path / "back.part").write_bytes(part)
        device.pull("/data/local/tmp/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == CONTENT


def test_a_piece_that_arrives_damaged_is_asked_for_again(tmp_path: Path) -> None:
    """The first dd writes another byte than the second, whose output is hashed."""
    with connected(tmp_path) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        once = '[ -e /data/local/tmp/done ] || { : >/data/local/tmp/done; /usr/bin/dd "$@" | tr a b; exit; }'
        fake.install("dd", f'{once}; exec /usr/bin/dd "$@"')
        device.pull("/data/local/tmp/file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == CONTENT
        assert (fake.tmp / "done").exists()


def test_a_device_that_always_sends_damage_gives_no_file(tmp_path: Path) -> None:
    with connected(tmp_path) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        fake.install("dd", 'echo; exec /usr/bin/dd "$@"')
        with pytest.raises(DeviceError, match="arrived damaged 3 times at byte 0"):
            device.pull("/data/local/tmp/file", tmp_path / "back")
        assert not (tmp_path / "back").exists()


def test_a_file_that_changes_meanwhile_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "file"
    source.write_bytes(CONTENT)
    piece = Transfer._piece

    def changing(transfer: Transfer, path: str, offset: int, length: int) -> bytes:
        content = piece(transfer, path, offset, length)
        with source.open("r+b") as file:
            file.write(b"new")
        return content

    monkeypatch.setattr(Transfer, "_piece", changing)
    with connect("local") as device, pytest.raises(DeviceError, match="changed while it was copied"):
        device.pull(str(source), tmp_path / "back")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_file_that_shrinks_meanwhile_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "file"
    source.write_bytes(CONTENT)
    size = Transfer._size

    def sized(transfer: Transfer, path: str) -> int:
        before = size(transfer, path)
        os.truncate(source, before // 2)
        return before

    monkeypatch.setattr(Transfer, "_size", sized)
    with connect("local") as device, pytest.raises(DeviceError, match="became shorter"):
        device.pull(str(source), tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("where", ["local", "phone"])
def test_offsets_and_sizes_have_more_than_32_bits(tmp_path: Path, where: str) -> None:
    """A file of 5 GiB is a hole except for one piece."""
    piece, offset = os.urandom(PIECE_BYTES), (9 << 29) + PIECE_BYTES
    with connected(tmp_path) as (device, fake), connect("local") as here:
        place = tmp_path if where == "local" else fake.tmp
        with (place / "large").open("wb") as file:
            file.truncate(5 << 30)
            file.seek(offset)
            file.write(piece)
        device, path = (here, str(place / "large")) if where == "local" else (device, "/data/local/tmp/large")
        transfer = Transfer(device, device.hasher, root=False)
        assert transfer._size(path) == 5 << 30
        assert transfer._piece(path, offset, len(piece)) == piece


def test_a_device_without_sha256sum_takes_md5(tmp_path: Path) -> None:
    with connected(tmp_path, model=ODD) as (device, fake):
        assert device.hasher.algorithm == "md5"
        (fake.tmp / "file").write_bytes(CONTENT)
        device.pull("/data/local/tmp/file", tmp_path / "back")
        assert hashlib.sha256((tmp_path / "back").read_bytes()).digest() == hashlib.sha256(CONTENT).digest()


def test_a_sum_that_gives_wrong_answers_is_not_used(tmp_path: Path) -> None:
    with connected(tmp_path, model=ODD) as (device, fake):
        fake.install("sha256sum", "echo 0000")
        assert device.hasher.command.endswith("md5sum")


def test_a_device_that_can_hash_nothing_is_told(tmp_path: Path) -> None:
    missing = ("sha256sum", "md5sum", "toybox", "busybox")
    with connected(tmp_path, Faults(missing_tools=missing)) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        with pytest.raises(DeviceError, match="neither sha256sum nor md5sum"):
            device.pull("/data/local/tmp/file", tmp_path / "back")


def test_a_link_that_stays_lost_leaves_the_part_and_one_sentence(tmp_path: Path) -> None:
    with connected(tmp_path, patience_s=0) as (device, fake):
        (fake.tmp / "file").write_bytes(CONTENT)
        assert device.hasher.algorithm == "sha256"
        fake.faults.reboot_shell_after = 3_000_000
        with pytest.raises(LinkLost):
            device.pull("/data/local/tmp/file", tmp_path / "back")
        assert not (tmp_path / "back").exists()
