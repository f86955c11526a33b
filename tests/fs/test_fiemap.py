"""Compare extmap on mounted ext4 filesystems with debugfs and the ext4 reader on the same image; test fs.fiemap."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import built, loops
from support.loops import Mounted
from support.oracles import ext4 as oracle
from support.tree import ROOT

from androstep_analysis import fs, schema, units
from androstep_analysis.fs import fiemap
from androstep_analysis.ingest import record, tasks
from androstep_analysis.ingest.record import Records

BLOCK_SECTORS = {1024: 2, 4096: 8}

VARIANTS = {
    "plain": ["-b", "4096"],
    "inline_data": ["-b", "4096", "-O", "inline_data"],
    "indirect": ["-b", "1024", "-O", "^extents,^64bit,^flex_bg"],
    "android": ["-b", "4096", "-O", "^flex_bg,^64bit,^metadata_csum,encrypt,verity"],
}


@contextmanager
def mounted(directory: Path, variant: str) -> Iterator[Mounted]:
    loops.make_ext4(directory / "image", VARIANTS[variant])
    with loops.mounted(directory / "image") as filesystem:
        yield filesystem


def listed(filesystem: Mounted, out: Path, *options: str | Path, variant: str = "sanitized") -> Records:
    """Run extmap on the filesystem after a sync, and return its listing."""
    subprocess.run(["sync", "-f", filesystem.top], check=True)
    built.run(built.program("extmap", variant), "-o", out, *options, filesystem.top)
    return record.read(out)


def write(path: Path, nr_bytes: int) -> None:
    path.write_bytes(os.urandom(nr_bytes))


def fill(top: Path) -> None:
    """Create files of all types."""
    write(top / "small", 40)
    write(top / "tiny-but-not-inline", 300)
    write(top / "plain", 700_000)
    (top / "empty").touch()
    with (top / "sparse").open("wb") as file:
        for block in range(0, 1400, 2):
            file.seek(block * 4096)
            file.write(b"x" * 4096)
    with (top / "hole at the end").open("wb") as file:
        file.write(b"y" * 5000)
        file.truncate(3 << 30)
    subprocess.run(["fallocate", "-l", "300000", top / "preallocated"])
    subprocess.run(["fallocate", "-p", "-o", "8192", "-l", "40960", top / "plain"])
    (top / "links").mkdir()
    os.link(top / "plain", top / "links" / "again")
    os.link(top / "plain", top / "links" / "and again")
    (top / "short link").symlink_to("plain")
    (top / "long link").symlink_to("/".join(["nowhere"] * 100))
    os.link(top / "long link", top / "links" / "a link to a link", follow_symlinks=False)
    os.mkfifo(top / "pipe")
    os.mknod(top / "zero", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(top / "socket"))
    for name in (b"line\nend", b"no \xff\xfe UTF-8", b"\xc3", b"\xa7REC", " ä€😀".encode(), b"-o", b"%s%n", b"n" * 255):
        write(top / os.fsdecode(name), 5000)
    (top / "many").mkdir()
    for number in range(2500):
        (top / "many" / f"a longer name, number {number:05}").touch()
    deep(top / "deep", 200)


def deep(top: Path, levels: int) -> None:
    """Create nested directories beyond PATH_MAX, each with a file before and a directory after the nested one."""
    top.mkdir()
    above = os.open(top, os.O_RDONLY)
    for level in range(levels):
        name = f"{level:04} with a long name to leave PATH_MAX behind"
        os.mkdir(name, dir_fd=above)
        os.mkdir(f"{level:04} beside", dir_fd=above)
        with os.fdopen(os.open(f"{level:04} file", os.O_CREAT | os.O_WRONLY, dir_fd=above), "wb") as file:
            file.write(b"z" * (level * 37))
        below = os.open(name, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)


def blocks(extents: pl.DataFrame, block_bytes: int) -> dict[int, dict[int, int]]:
    """Return, by inode, the file block of each block."""
    answer: dict[int, dict[int, int]] = {}
    sectors = BLOCK_SECTORS[block_bytes]
    for ino, sector, nr_sectors, offset in extents.select(
        "ino", "sector", "nr_sectors", "file_offset_bytes"
    ).iter_rows():
        assert sector % sectors == nr_sectors % sectors == offset % block_bytes == 0
        for number in range(nr_sectors // sectors):
            answer.setdefault(ino, {})[sector // sectors + number] = offset // block_bytes + number
    return answer


def blocks_by_debugfs(image: Path, inos: list[int]) -> dict[int, dict[int, int]]:
    """Return the same from debugfs stat."""
    answer = {}
    for ino, text in oracle.stats(image, inos).items():
        content = {block: place[1] for block, place in oracle.uses(text).items() if place[0] == "content"}
        if content:
            answer[ino] = {block: at for block, at in content.items() if at is not None}
    return answer


@pytest.fixture(scope="module", params=list(VARIANTS))
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    directory = tmp_path_factory.mktemp(request.param)
    with mounted(directory, request.param) as filesystem:
        fill(filesystem.top)
        yield filesystem


@pytest.mark.root
def test_a_listing_agrees_with_the_image(filled: Mounted, tmp_path: Path) -> None:
    records = listed(filled, tmp_path / "out.rec")
    assert records.losses == () and records.complete
    (listing,) = fiemap.listings(records)
    image = fs.read(filled.image, dev=listing.dev, source="image_after")
    assert listing.dev == units.dev_from_stat(filled.top.stat().st_dev)
    assert (listing.fs_type, listing.block_bytes, listing.roots) == ("ext4", image.block_bytes, ("/",))
    assert listing.nr_sectors == image.nr_sectors

    # Long symlinks have a block that no system call reports.
    inos = listing.files.filter(pl.col("file_type") != "symlink")["ino"].to_list()
    assert len(inos) > 2500
    mine = blocks(listing.extents, listing.block_bytes)
    assert mine == blocks_by_debugfs(filled.image, inos)
    content = image.extents.filter(pl.col("block_type").is_in(["data", "directory"]) & pl.col("subtype").is_null())
    assert mine == blocks(content, image.block_bytes)
    # The kernel splits some runs; each part is within a run of the image.
    row = np.searchsorted(content["sector"].to_numpy(), listing.extents["sector"].to_numpy(), side="right") - 1
    same = ["block_type", "ino", "generation"]
    assert content[row].select(same).equals(listing.extents.select(same))
    assert_same_files(listing, image)
    schema.conform(listing.extents, "extents")
    schema.conform(listing.files, "files")


def assert_same_files(listing: fiemap.Listing, image: fs.Filesystem) -> None:
    """Compare names, sizes and times, and the generations of files that can be opened."""
    in_image = image.files.sort("ino")
    closed = listing.files.filter(pl.col("generation").is_null())
    assert set(closed["path"]) == {"/short link", "/links/a link to a link", "/pipe", "/zero", "/socket"}
    opened = ~in_image["ino"].is_in(closed["ino"].to_list())
    same = [name for name in in_image.columns if name not in ("source", "generation")]
    assert_frame_equal(listing.files.select(same), in_image.select(same))
    assert_frame_equal(
        listing.files["generation"].filter(opened).to_frame(), in_image.filter(opened).select("generation")
    )
    same = ["ino", "created_epoch_ns", "changed_epoch_ns"]
    assert_frame_equal(listing.times.select(same), image.times.sort("ino").select(same))


def runs(extents: pl.DataFrame) -> list[list[int]]:
    """Return inode, offset in sectors, sector and length of each extent, joined where they are contiguous."""
    found: list[list[int]] = []
    offset = pl.col("file_offset_bytes") // 512
    for row in extents.sort("ino", "file_offset_bytes").select("ino", offset, "sector", "nr_sectors").iter_rows():
        last = found[-1] if found else [0, 0, 0, 0]
        if (last[0], last[1] + last[3], last[2] + last[3]) == row[:3]:
            last[3] += row[3]
        else:
            found.append(list(row))
    return found


@pytest.mark.root
def test_fibmap_and_fiemap_agree(filled: Mounted, tmp_path: Path) -> None:
    subprocess.run(["sync", "-f", filled.top], check=True)
    inos = [(filled.top / name).stat().st_ino for name in ("plain", "sparse", "empty")]
    found = []
    for hidden in ([], [sys.executable, ROOT / "tests" / "support" / "attacker.py", "without-fiemap"]):
        built.run(*hidden, built.program("extmap"), "-o", tmp_path / "out.rec", filled.top)
        found.append(record.read(tmp_path / "out.rec").tables["extent"].filter(pl.col("ino").is_in(inos)))
    assert runs(found[0]) == runs(found[1]) != []
    assert (found[1]["flags"] == 0x80000000).all() and not (found[0]["flags"] == 0x80000000).any()


@pytest.mark.root
@pytest.mark.parametrize("variant", ["native", "x86_64-linux-musl", "aarch64-linux-musl"])
def test_all_builds_agree(filled: Mounted, tmp_path: Path, variant: str) -> None:
    emulator = [shutil.which("qemu-aarch64-static")] if variant.startswith("aarch64") else []
    if None in emulator:
        pytest.skip("qemu-aarch64-static is not installed")
    expected = listed(filled, tmp_path / "expected.rec").tables
    built.run(*map(str, emulator), built.program("extmap", variant), "-o", tmp_path / "out.rec", filled.top)
    found = record.read(tmp_path / "out.rec").tables
    for name in ("file", "extent", "filesystem"):
        columns = [column for column in expected[name].columns if column != "listed_ns"]
        assert found[name].select(columns).equals(expected[name].select(columns)), name


@pytest.mark.root
def test_states_of_extents_are_listed(tmp_path: Path) -> None:
    with mounted(tmp_path, "inline_data") as filesystem:
        fill(filesystem.top)
        records = listed(filesystem, tmp_path / "out.rec")
        paths = records.tables["file"].select("ino", "path")
        flags = records.tables["extent"].join(paths, on="ino").group_by("path").agg(pl.col("flags").unique().sort())
        told = dict(flags.iter_rows())
        assert all(value & 0x800 for value in told["/preallocated"])
        assert told["/small"] == [fiemap.INLINE | fiemap.NOT_ALIGNED | 1]
        (listing,) = fiemap.listings(records)
        (inline,) = listing.losses
        assert inline.kind == "inline" and inline.count >= 1


@pytest.mark.root
def test_dirty_data_has_no_place_yet(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem:
        subprocess.run(["sync", "-f", filesystem.top], check=True)
        write(filesystem.top / "dirty", 10_000)
        built.run(built.program("extmap"), "-o", tmp_path / "out.rec", filesystem.top)
        records = record.read(tmp_path / "out.rec")
        ino = (filesystem.top / "dirty").stat().st_ino
        (extent,) = records.tables["extent"].filter(pl.col("ino") == ino).iter_rows(named=True)
        assert extent["sector"] is None and extent["flags"] & fiemap.DELALLOC
        (listing,) = fiemap.listings(records)
        assert [loss.kind for loss in listing.losses] == ["unallocated"]
        assert listing.extents.filter(pl.col("ino") == ino).is_empty()


@pytest.mark.root
def test_neither_links_nor_mounts_are_followed(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem, ExitStack() as mounts:
        top = filesystem.top
        (outside := tmp_path / "outside").mkdir()
        write(outside / "secret", 5000)
        (top / "way out").symlink_to(outside)
        for name in ("inner", "other", "again"):
            (top / name).mkdir()
        write(top / "inner" / "file", 5000)
        write(top / "target", 10)
        for command in (
            ["mount", "-t", "tmpfs", "none", top / "other"],
            ["mount", "--bind", top / "inner", top / "again"],
            ["mount", "--bind", top / "inner" / "file", top / "target"],
        ):
            subprocess.run(command, check=True)
            mounts.callback(subprocess.run, ["umount", command[-1]], check=True)
        write(top / "other" / "in tmpfs", 5000)
        records = listed(filesystem, tmp_path / "out.rec")
        paths = set(records.tables["file"]["path"])
        assert paths == {"/", "/lost+found", "/way out", "/inner", "/inner/file"}
        assert [(loss.kind, loss.count) for loss in records.losses] == [("mount", 3)]

        built.run(built.program("extmap"), "-o", tmp_path / "again.rec", top / "again")
        again = record.read(tmp_path / "again.rec")
        assert set(again.tables["file"]["path"]) == {"/inner", "/inner/file"}
        assert again.tables["filesystem"]["mount_point"].to_list() == [str(top / "again")]


@pytest.mark.root
def test_the_listed_filesystem_is_written_only_on_request(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem:
        out = filesystem.top / "out.rec"
        done = built.run(built.program("extmap"), "-o", out, filesystem.top, status=1)
        assert b"--same-filesystem" in done.stderr and done.stderr.count(b"\n") == 1
        assert not out.exists()
        built.run(built.program("extmap"), "--same-filesystem", "-o", out, filesystem.top)
        assert record.read(out).complete


@pytest.mark.root
def test_access_times_stay(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem:
        subprocess.run(["mount", "-o", "remount,strictatime", filesystem.top], check=True)
        fill(filesystem.top)
        chosen = [filesystem.top, filesystem.top / "plain", filesystem.top / "links"]
        before = [path.stat().st_atime_ns for path in chosen]
        listed(filesystem, tmp_path / "out.rec")
        assert [path.stat().st_atime_ns for path in chosen] == before


@pytest.mark.root
def test_who_may_not_open_a_file_still_gets_its_name(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem:
        write(filesystem.top / "public", 5000)
        write(filesystem.top / "private", 5000)
        (filesystem.top / "private").chmod(0)
        (filesystem.top / "lost+found").rmdir()
        subprocess.run(["sync", "-f", filesystem.top], check=True)
        tmp_path.chmod(0o755)
        shutil.copy(built.program("extmap"), tmp_path / "extmap")
        done = built.run("./extmap", "-o", "-", "image.mounted", user=65534, cwd=tmp_path)
        (tmp_path / "out.rec").write_bytes(done.stdout)
        records = record.read(tmp_path / "out.rec")
        assert set(records.tables["file"]["path"]) == {"/", "/public", "/private"}
        assert [(loss.kind, loss.count) for loss in records.losses] == [("denied", 1)]
        assert records.tables["extent"].height == 2


CHURN = """
import os, sys
os.chdir(sys.argv[1])
number = 0
while True:
    number += 1
    name = f"f{number % 50}"
    with open(name, "wb") as file:
        file.write(b"x" * (number % 7 * 4096 + 1))
    if number % 2:
        os.fsync(os.open(name, os.O_RDONLY)) if number % 31 == 0 else None
    os.makedirs(f"d{number % 9}/e/f", exist_ok=True)
    os.replace(name, f"d{number % 9}/e/f/{number % 20}")
    if number % 5 == 0:
        os.rename(f"d{number % 9}", f"moved{number}")
    if number % 11 == 0:
        for entry in [entry for entry in os.listdir(".") if entry.startswith("moved")][:3]:
            for directory, _, files in os.walk(entry, topdown=False):
                for file in files:
                    os.unlink(os.path.join(directory, file))
                os.rmdir(directory)
    if number == 200:
        print("going", flush=True)
"""


@pytest.mark.root
def test_files_may_change_during_a_listing(tmp_path: Path) -> None:
    with mounted(tmp_path, "plain") as filesystem:
        (still := filesystem.top / "still").mkdir()
        for number in range(300):
            write(still / f"{number}", 1 + number * 50)
        (churned := filesystem.top / "churned").mkdir()
        subprocess.run(["sync", "-f", filesystem.top], check=True)
        churn = subprocess.Popen([sys.executable, "-c", CHURN, churned], stdout=subprocess.PIPE)
        try:
            assert churn.stdout is not None and churn.stdout.readline() == b"going\n"
            listings = []
            for number in range(15):
                built.run(built.program("extmap"), "-o", tmp_path / f"{number}.rec", filesystem.top)
                records = record.read(tmp_path / f"{number}.rec")
                assert records.complete
                listings += fiemap.listings(records)
        finally:
            churn.kill()
            churn.wait()
            assert churn.stdout is not None
            churn.stdout.close()
        (settled,) = fiemap.listings(listed(filesystem, tmp_path / "after.rec"))
        of_still = settled.files.filter(pl.col("path").str.starts_with("/still/"))["ino"]
        assert of_still.len() == 300
        expected = blocks(settled.extents.filter(pl.col("ino").is_in(of_still)), 4096)
        for listing in listings:
            found = blocks(listing.extents.filter(pl.col("ino").is_in(of_still)), 4096)
            assert found == expected
            start = listing.extents["sector"].to_numpy()
            end = start + listing.extents["nr_sectors"].to_numpy()
            assert (start[1:] >= end[:-1]).all()


@dataclass
class Vault:
    """An encrypted directory (linux/fscrypt.h, policy version 2) with a removable key."""

    top: Path

    ADD_KEY, REMOVE_KEY, SET_POLICY = 0xC0506617, 0xC0406618, 0x800C6613

    def __post_init__(self) -> None:
        self.descriptor = os.open(self.top, os.O_RDONLY)
        key = bytearray(struct.pack("<II32sII32s", 2, 0, b"", 64, 0, b"") + bytes(range(64)))
        try:
            fcntl.ioctl(self.descriptor, self.ADD_KEY, key)
        except OSError as error:
            self.close()
            pytest.skip(f"this kernel has no filesystem encryption ({error})")
        self.identifier = bytes(key[8:24])
        (self.top / "vault").mkdir()
        directory = os.open(self.top / "vault", os.O_RDONLY)
        # AES-256-XTS for contents, AES-256-CTS for names.
        fcntl.ioctl(directory, self.SET_POLICY, struct.pack("<BBBBB3s16s", 2, 1, 4, 3, 0, b"", self.identifier))
        os.close(directory)

    def lock(self) -> None:
        subprocess.run(["sync", "-f", self.top], check=True)
        fcntl.ioctl(
            self.descriptor, self.REMOVE_KEY, bytearray(struct.pack("<II32s6I", 2, 0, self.identifier, *[0] * 6))
        )

    def close(self) -> None:
        os.close(self.descriptor)


@pytest.mark.root
def test_an_encrypted_directory_with_and_without_its_key(tmp_path: Path) -> None:
    with mounted(tmp_path, "android") as filesystem:
        vault = Vault(filesystem.top)
        try:
            write(filesystem.top / "vault" / "secret", 9000)
            (filesystem.top / "vault" / "sub" / "deeper").mkdir(parents=True)
            (filesystem.top / "vault" / "link").symlink_to("secret")
            write(filesystem.top / "open", 9000)
            unlocked = listed(filesystem, tmp_path / "unlocked.rec")
            vault.lock()
            locked = listed(filesystem, tmp_path / "locked.rec")
        finally:
            vault.close()
        (open_listing,), (locked_listing,) = fiemap.listings(unlocked), fiemap.listings(locked)
        in_vault = ["/vault/link", "/vault/secret", "/vault/sub", "/vault/sub/deeper"]
        assert set(open_listing.files["path"]) == {"/", "/lost+found", "/open", "/vault", *in_vault}
        assert not open_listing.files["name_encrypted"].any()
        image = fs.read(filesystem.image, dev=open_listing.dev, source="image_after")
        content = image.extents.filter(pl.col("block_type").is_in(["data", "directory"]) & pl.col("subtype").is_null())
        assert blocks(open_listing.extents, 4096) == blocks(content, 4096)

        hidden = locked_listing.files.filter("name_encrypted")
        assert hidden.height == len(in_vault)
        assert set(locked_listing.files.filter(~pl.col("name_encrypted"))["path"]) == {
            *("/", "/lost+found", "/open", "/vault")
        }
        assert set(hidden["ino"]) == set(open_listing.files.filter(pl.col("path").is_in(in_vault))["ino"])
        assert [(loss.kind, loss.count) for loss in locked.losses] == [("locked", 1)]


def test_tasks_are_those_of_proc(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        built.run(built.program("extmap"), "-o", tmp_path / "out.rec", "--tasks")
        records = record.read(tmp_path / "out.rec")
        rows = records.tables["task"]
        (row,) = rows.filter(pl.col("tid") == sleeper.pid).iter_rows(named=True)
        worth = int(Path(f"/proc/{sleeper.pid}/oom_score_adj").read_text("utf-8"))
        fields = Path(f"/proc/{sleeper.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert (row["pid"], row["comm"], row["cmdline"], row["uid"]) == (sleeper.pid, "sleep", "sleep 600", os.getuid())
    assert row["package"] is None
    assert row["started_ns"] == int(fields[19]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    assert row["started_ns"] <= row["listed_ns"] + 10_000_000
    firsts = rows.filter(pl.col("pid") == pl.col("tid"))
    assert firsts["tid"].is_unique().all()
    assert rows.filter(pl.col("pid") != pl.col("tid"))["oom_score_adj"].is_null().all()
    # A process may end before this is read.
    assert not any(Path(f"/proc/{pid}").exists() for pid in firsts.filter(pl.col("oom_score_adj").is_null())["pid"])

    offset = records.header["monotonic_offset_ns"]
    table = tasks.listed(rows, offset)
    (task,) = table.filter(pl.col("tid") == sleeper.pid).iter_rows(named=True)
    read = tasks.importance(rows, offset)
    assert read.filter(task=sleeper.pid).select("ts_ns", "event", "task_comm", "oom_score_adj").rows() == [
        (row["listed_ns"] + offset, "reading", "sleep", worth)
    ]
    assert read.height == firsts["oom_score_adj"].count()
    assert tasks.importance(rows, None).is_empty()
    assert tasks.importance(rows.drop("oom_score_adj"), offset).is_empty()
    assert tasks.importance(rows.with_columns(pl.col("oom_score_adj").cast(pl.String)), offset).is_empty()
    assert task["kind"] == "other" and task["valid_from_ns"] == row["started_ns"] + offset
    assert tasks.listed(rows)["valid_from_ns"].null_count() == rows.height


# -- rows made up ------------------------------------------------------------------------------------------------------

DEV = 7 << 20


def made_up(extents: list[tuple[int | None, int, int, int, int]], files: list[tuple[int, int, int, str]]) -> Records:
    """Build records from (sector, nr_sectors, ino, generation, flags) and (ino, generation, attributes, path)."""
    file_rows = [
        {
            "ino": ino,
            "generation": generation,
            "size_bytes": 1,
            "created_ns": 1,
            "changed_ns": 2,
            "allocated_sectors": 8,
            "listed_ns": number,
            "dev": DEV,
            "mode": stat.S_IFREG,
            "attributes": attributes,
            "name_encrypted": 0,
            "path": path,
        }
        for number, (ino, generation, attributes, path) in enumerate(files)
    ]
    return Records(
        header={"realtime_offset_ns": 0, "monotonic_offset_ns": 0},
        tables={
            "filesystem": pl.DataFrame(
                {"dev": [DEV], "listed_ns": [0], "fs_type": ["ext4"], "block_bytes": [4096], "nr_sectors": [1000]}
            ).with_columns(pl.col("dev").cast(pl.UInt32), root=pl.lit("/")),
            "file": pl.DataFrame(file_rows).with_columns(pl.col("dev", "mode", "attributes").cast(pl.UInt32)),
            "extent": pl.DataFrame(
                extents,
                schema=dict.fromkeys(["sector", "nr_sectors", "ino", "generation", "flags"], pl.Int64),
                orient="row",
            ).with_columns(
                pl.lit(DEV, pl.UInt32).alias("dev"),
                pl.col("flags").cast(pl.UInt32),
                file_offset_bytes=pl.lit(0, pl.Int64),
            ),
        },
        losses=(),
        complete=True,
    )


@pytest.mark.parametrize(
    ("flags", "attributes", "reason"),
    [
        (0x0, 0, None),
        (0x1, 0, None),
        (0x800, 0, None),  # unwritten
        (0x1000, 0, None),  # merged
        (0x80000000, 0, None),  # by FIBMAP
        (0x88, 0x800, None),  # encrypted: the location is still known
        (0x88, 0x804, "encoded"),  # encrypted and compressed
        (0x8, 0x4, "encoded"),
        (0x6, 0, "unallocated"),
        (0x2, 0, "unallocated"),
        (0x300, 0, "inline"),
        (0x500, 0, "shared"),
        (0x2000, 0, "shared"),
    ],
)
def test_only_certain_places_are_in_the_map(flags: int, attributes: int, reason: str | None) -> None:
    (listing,) = fiemap.listings(made_up([(80, 8, 12, 5, flags)], [(12, 5, attributes, "/a")]))
    assert listing.extents.height == (reason is None)
    assert [loss.kind for loss in listing.losses] == ([reason] if reason else [])


def test_blocks_reused_during_the_listing_are_left_out() -> None:
    extents = [
        (0, 8, 12, 5, 0),
        (100, 50, 12, 5, 0),  # overlaps the next two
        (110, 8, 13, 6, 0),
        (120, 8, 14, 7, 0),
        (200, 8, 14, 7, 0),
        (300, 8, 15, 8, 0),  # of the file with this inode number before
        (400, 8, 16, 9, 0),  # of a file that is not listed
        (500, 8, 15, 18, 0),
    ]
    files = [(12, 5, 0, "/a"), (13, 6, 0, "/b"), (15, 8, 0, "/old"), (14, 7, 0, "/c"), (15, 18, 0, "/new")]
    (listing,) = fiemap.listings(made_up([(s, n, i, g, f) for s, n, i, g, f in extents], files))
    assert listing.extents["sector"].to_list() == [0, 200, 500]
    assert {loss.kind: loss.count for loss in listing.losses} == {"overlapping": 3, "unowned": 2}
    assert listing.files.select("ino", "path").rows() == [(12, "/a"), (13, "/b"), (14, "/c"), (15, "/new")]


def test_a_name_is_ciphertext_where_the_key_is_not_there() -> None:
    records = made_up([], [(number, 5, 0x800, f"/{number}") for number in range(12, 16)])
    records.tables["file"] = records.tables["file"].with_columns(
        name_encrypted=pl.Series([1, 0, None, None], dtype=pl.Int32),
        generation=pl.Series([5, None, 5, None], dtype=pl.Int64),  # null: could not be opened
    )
    (listing,) = fiemap.listings(records)
    assert listing.files["name_encrypted"].to_list() == [True, False, False, True]


def test_kinds_of_tasks() -> None:
    rows = pl.DataFrame(
        [
            (1, 1, 0, "init", "/init", None),
            (2, 2, 0, "jbd2/dm-1-8", None, None),
            (3, 3, 10_001, "jbd2/fake", "com.example", "com.example"),
            (4, 4, 1_010_001, "worker", "com.example", "com.example"),
            (5, 5, 1000, "system_server", "system_server", None),
        ],
        schema={
            "pid": pl.Int32,
            "tid": pl.Int32,
            "uid": pl.Int32,
            "comm": pl.String,
            "cmdline": pl.String,
            "package": pl.String,
        },
        orient="row",
    ).with_columns(started_ns=pl.lit(0, pl.Int64))
    assert tasks.listed(rows)["kind"].to_list() == ["system", "journal", "app", "app", "system"]
    elsewhere = rows.with_columns(package=pl.lit(None, pl.String))
    assert tasks.listed(elsewhere)["kind"].to_list() == ["other", "journal", "other", "other", "other"]
