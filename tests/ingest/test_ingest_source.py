"""Sources: compression, damage, and inputs that are not recordings."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus

from androstep_analysis import ingest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.ingest import compression, source

TEXT = b"".join(random.Random(i).randbytes(24).hex().encode() + b"\n" for i in range(20_000))


def zip_of(*members: tuple[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return sink.getvalue()


PACKED: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(TEXT),
    "gzip of two members": lambda: gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]) + b"\0" * 7,
    "xz": lambda: lzma.compress(TEXT[:999]) + b"\0" * 4 + lzma.compress(TEXT[999:]),
    "zip": lambda: zip_of(("folder/trace.txt", TEXT)),
    "zip from a Mac": lambda: zip_of(("trace.txt", TEXT), ("__MACOSX/._trace.txt", b"x")),
}


@pytest.mark.parametrize("method", PACKED)
def test_compression_is_transparent(tmp_path: Path, method: str) -> None:
    path = tmp_path / "named.like.nothing"
    path.write_bytes(PACKED[method]())
    found = source.load(path)
    assert (found.path, found.data, found.losses) == (path, TEXT, ())


def test_zstd_is_transparent() -> None:
    path = corpus.path("kernel/ext4_host_6.18/trace.dat.zst")
    assert source.load(path).data == subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout


def test_cut_zstd_gives_what_there_is(tmp_path: Path) -> None:
    raw = corpus.path("kernel/ext4_host_6.18/trace.dat.zst").read_bytes()
    whole = source.load(corpus.path("kernel/ext4_host_6.18/trace.dat.zst")).data
    path = tmp_path / "cut.zst"
    path.write_bytes(raw[: len(raw) // 2])
    cut = source.load(path)
    reference = subprocess.run(["zstd", "-dc", path], capture_output=True, check=False).stdout
    assert whole.startswith(cut.data)
    assert len(cut.data) >= len(reference) > 0
    assert [loss.kind for loss in cut.losses] == ["torn"]


@pytest.mark.parametrize("method", PACKED)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_cut_stream_gives_what_there_is(tmp_path: Path, method: str, part: float) -> None:
    packed = PACKED[method]()
    path = tmp_path / "cut"
    path.write_bytes(packed[: int(len(packed) * part)])
    cut = source.load(path)
    assert TEXT.startswith(cut.data)
    assert len(cut.data) > len(TEXT) * part * 0.7  # the text packs evenly
    assert [loss.kind for loss in cut.losses] == ["torn"]


@pytest.mark.parametrize("method", ["gzip", "xz", "zip"])
def test_damaged_stream_gives_everything_before_the_damage(tmp_path: Path, method: str) -> None:
    packed = bytearray(PACKED[method]())
    middle = len(packed) // 2
    packed[middle : middle + 4] = bytes(b ^ 0xFF for b in packed[middle : middle + 4])
    path = tmp_path / "damaged"
    path.write_bytes(packed)
    damaged = source.load(path)
    same = next(n for n, (a, b) in enumerate(zip(TEXT, damaged.data + b"\0", strict=False)) if a != b)
    assert same > len(TEXT) * 0.4
    assert [loss.kind for loss in damaged.losses] == ["unreadable"]


def test_wrong_checksum_keeps_the_data(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1
    path = tmp_path / "checksum.gz"
    path.write_bytes(packed)
    assert source.load(path).data == TEXT
    assert [loss.kind for loss in source.load(path).losses] == ["unreadable"]


def test_bytes_as_a_file_object() -> None:
    file = compression.Readable(source.Source.of(Path("x"), b"abcdef"))
    assert (file.read(0), file.read(2), file.tell(), file.read(), file.read(1)) == (b"", b"ab", 2, b"cdef", b"")
    assert (file.seek(-2, io.SEEK_END), file.read(9), file.seek(-99), file.read(1)) == (4, b"ef", 0, b"a")


def test_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_usage = shutil.disk_usage("/")._replace(free=2 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk_usage)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * (1 << 24)))
    with pytest.raises(InputError, match="limit"):
        source.load(path)


class Pipe:
    """A file that can only be written."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


LINE = b" app-1 [000] 1.000000: block_rq_issue: 8,0 W 4096 () 8 + 8 [app]\n"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_recording_in_a_zip_of_several_files_is_read(method: int, tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("../notes.txt", "what was done")
        archive.writestr("dir/trace.txt", LINE * 3)
        archive.writestr("dir/other.txt.gz", gzip.compress(LINE))
    with pytest.warns(LossWarning, match="1 more recordings in the archive were not read, the first dir/other.txt.gz"):
        staging = ingest.read(path)
    assert staging.events == {"block_rq_issue": 3}
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("only.txt", LINE * 2)
    assert ingest.read(path).events == {"block_rq_issue": 2}


def test_a_stored_file_whose_size_only_the_directory_of_a_zip_states_is_read(tmp_path: Path) -> None:
    """An archive written to a pipe has such files."""
    path = tmp_path / "piped.zip"
    with path.open("wb") as file, zipfile.ZipFile(Pipe(file), "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("notes.txt", "what was done")
        with archive.open("trace.txt", "w") as member:
            member.write(LINE * 3)
    assert ingest.read(path).events == {"block_rq_issue": 3}


def test_a_zip_with_files_that_overlap_is_refused(tmp_path: Path) -> None:
    """The entries of the central directory name the same compressed bytes, as in a bomb of 200 KB for 100 GB."""
    path = tmp_path / "overlap.zip"
    contents = zip_of(("a", LINE), ("b", LINE))
    second = contents.index(b"PK\x03\x04", 4).to_bytes(4, "little")
    entry = contents.rindex(b"PK\x01\x02") + 42
    assert contents[entry : entry + 4] == second
    path.write_bytes(contents[:entry] + bytes(4) + contents[entry + 4 :])
    with pytest.raises(InputError, match="files in the zip archive overlap"):
        ingest.read(path)


def test_a_gzip_file_of_many_members_reads_each_byte_few_times(tmp_path: Path) -> None:
    path = tmp_path / "members.gz"
    path.write_bytes(gzip.compress(b"") * 3000 + gzip.compress(TEXT))
    raw = source.opened(path)
    done = 0

    class Counting:
        name, size = raw.name, raw.size

        def read(self, offset: int, size: int) -> bytes:
            nonlocal done
            data = raw.read(offset, size)
            done += len(data)
            return data

    data, losses = compression.drained("x", "gzip", lambda: compression._Gzip(Counting()))
    assert (data, losses) == (TEXT, ())
    assert done < 100 * raw.size


def test_a_zip_without_a_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    path.write_bytes(zip_of(("a", b"1"), ("b", b"2")))
    with pytest.raises(InputError, match=r"none of the 2 files in this archive is a known recording"):
        ingest.read(path)


def test_damage_in_a_zip_of_several_files_is_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", LINE * 3)
        archive.writestr("b", b"2")
    path.write_bytes(path.read_bytes().replace(b"8,0 W", b"8,0 R", 1))
    with pytest.warns(LossWarning, match="damaged: its checksum is wrong"):
        assert ingest.read(path).events == {"block_rq_issue": 3}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", r"starts with b'\\x89PNG"),
        (b"import sys\n\n\ndef main() -> None:\n    print(sys.argv[1:])\n", "starts with 'import sys"),
        (b"\x1b]0;owned\x07\n", r"starts with b'\\x1b\]0;owned"),
        (b"<!DOCTYPE html>\n<html><body>no trace</body></html>\n", "without a systrace recording"),
        (b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n", "it contains no event"),
        (b"proces,device,rw_flag,sector,size,timestamp\r\n", "it contains no event"),
        (b"name,size\na,1\n", "starts with 'name,size"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "what\x1b[2Jever"
    path.write_bytes(contents)
    with pytest.raises(InputError, match=message) as caught:
        ingest.read(path)
    assert r"what\x1b[2Jever: " in str(caught.value)
    assert str(caught.value).isprintable()


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        ingest.read(tmp_path / "absent")
    with pytest.raises(InputError, match="is not a file"):
        ingest.read(tmp_path)


@given(st.binary(max_size=300))
def test_garbage_is_refused(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(contents)
    with pytest.raises(InputError):
        ingest.read(path)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"adbd is already running as root\n\nREADS :\n_______\n\nFILE VIEW:\n", "a report of ioblame"),
        (b"# proto-message: Trace\npacket {\n  timestamp: 1\n}\n", "a Perfetto trace as text"),
        (b'{\n "tool": "blkparse",\n "events": 3\n}\n', "JSON"),
        (b'[["C", "WS"]]', "JSON"),
        # Lines of ftrace in JSON are not a recording.
        (b'{\n "line": "dd-7 [000] d..1 5.000001: block_plug: [dd]"\n}\n', "JSON"),
        (b"PERFILE2" + bytes(96), "a recording of perf"),
        (bytes(1080) + b"\x53\xef" + bytes(4096), "an image of a filesystem"),
        (bytes(1024) + b"\x10\x20\xf5\xf2" + bytes(4096), "an image of a filesystem"),
        (b"\xeb\x58\x90mkfs.fat" + bytes(499) + b"\x55\xaa" + bytes(512), "an image of a filesystem"),
        (b"\xa7REC" + bytes(64), "records of extmap"),
    ],
)
def test_what_is_known_to_be_no_recording(tmp_path: Path, head: bytes, told: str) -> None:
    path = tmp_path / "trace.dat"
    path.write_bytes(head)
    with pytest.raises(InputError, match=rf"trace.dat: {told}.*; (open|pass)"):
        ingest.read(path)
