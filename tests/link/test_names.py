"""Test names from events: some relations between events prove a name, others do not."""

from __future__ import annotations

import lzma
import os
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support.blocks import DEV

from androstep_analysis import fs, link, schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import evidence
from androstep_analysis.link.evidence import names

F2FS_16K = Path(__file__).parents[1] / "data" / "f2fs_16k.img.xz"

MOUNT = {DEV: "/data"}
LOST = [Loss("overwritten", 1, "one is lost")]
PATHS_GIVEN = ("name_open", "name_unlink", "name_rename")
EVERYWHERE = {"tid", "pid", "comm"}


def fs_events(*rows):
    """Return table fs_events from (event, columns): one event each microsecond, by default on 7:0 by thread 1."""
    full = [
        {"ts_ns": at * 1000, "tid": 1, "pid": row.get("tid", 1), "event": event,
         "dev": None if event in PATHS_GIVEN else DEV, **row}
        for at, (event, row) in enumerate(rows)
    ]  # fmt: skip
    return schema.conform(pl.DataFrame(full, schema=schema.table("fs_events").polars), "fs_events")


def opened(path, **more):
    return "name_open", {"name": path, **more}


def unlinked(path, **more):
    return "name_unlink", {"name": path, **more}


def renamed(old, new):
    return "name_rename", {"name": old, "new_name": new}


def found(ino, path, **more):
    return "name_found", {"ino": ino, "name": path, **more}


def moved(ino, old, new, **more):
    return "name_moved", {"ino": ino, "name": old, "new_name": new, **more}


def allocated(ino, parent, **more):
    return "ext4_allocate_inode", {"ino": ino, "parent": parent, "mode": 0o100644, **more}


def removed(ino, parent, **more):
    return "ext4_unlink_enter", {"ino": ino, "parent": parent, **more}


def directories(**paths):
    """Return table files of directories, with names from `i` and their inode numbers."""
    rows = [
        {"dev": DEV, "ino": int(ino[1:]), "incarnation": 0, "path": path, "names": [path], "name_encrypted": False,
         "file_type": "directory", "source": "image_after"}
        for ino, path in paths.items()
    ]  # fmt: skip
    return schema.conform(pl.DataFrame(rows, schema=schema.table("files").polars), "files")


def told(*rows, known=None, mounts=MOUNT, lost=()):
    events = tracepoints.numbered(fs_events(*rows)).lazy()
    files = directories() if known is None else known
    table = names.files(events, tracepoints.lifetimes(events), files, mounts, Losses(lost))
    return {(row["ino"], row["incarnation"]): row["path"] for row in table.iter_rows(named=True)}


APP = {"i30": "/app", "i31": "/app/db"}


def test_an_open_that_leads_to_the_directory_of_the_new_inode_names_it():
    rows = opened("/data/app/db/main.db"), allocated(40, 31)
    assert told(*rows, known=directories(**APP)) == {(40, 1): "/app/db/main.db"}
    assert told(*rows) == {}  # directory 31 is unknown
    assert told(*rows, known=directories(**APP), lost=LOST) == {}


def test_names_below_a_directory_of_which_only_the_ciphertext_is_known_have_no_path():
    looked = "f2fs_lookup_end", {"ino": 40, "parent": 31, "name": "main.db"}
    known = directories(**APP)
    assert told(looked, known=known) == {(40, 1): "/app/db/main.db"}
    assert told(looked, known=known.with_columns(name_encrypted=pl.col("ino") == 31)) == {}


def test_a_name_from_the_trace_precedes_the_ciphertext_of_an_image(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(lzma.decompress(F2FS_16K.read_bytes()))
    os.truncate(image, 300 << 20)
    locked = directories(i40="/\\xe1ni", i41="/\\x1dq").with_columns(name_encrypted=pl.lit(True))
    after = replace(fs.read(image, dev=DEV, source="image_after"), files=locked)
    events = tracepoints.numbered(fs_events(found(40, "/app"))).lazy()
    numbers = locked.select("dev", "ino", "generation", incarnation=pl.lit(0, pl.Int32))
    staging = Staging("trace.dat", {}, 0, 2000, {"fs_events": events})
    images, lives = link.Images(after=after), tracepoints.lifetimes(events)
    of_files = evidence._Numbers(numbers, numbers.clear(), numbers.clear(), [])
    table = evidence._files(images, of_files, lives, staging, {}, pl.Series(dtype=pl.Int64))
    assert table.select("ino", "path", "name_encrypted").rows() == [(40, "/app", False), (41, "/\\x1dq", True)]


def test_without_a_known_mount_the_known_directories_show_it():
    assert told(opened("/mnt/x/app/a"), allocated(40, 30), known=directories(**APP), mounts={}) == {(40, 1): "/app/a"}


def test_making_and_removing_agree_on_a_name():
    rows = opened("/data/x/f"), allocated(40, 31), unlinked("/data/x/f"), removed(40, 31)
    assert told(*rows, known=directories(i31="/x")) == {(40, 1): "/x/f"}
    assert told(*rows) == {}
    two = *rows, opened("/data/x/g"), allocated(41, 31), unlinked("/data/x/g"), removed(41, 31)
    assert told(*two) == {(40, 1): "/x/f", (41, 1): "/x/g"}


@pytest.mark.parametrize(
    "rows",
    [
        [opened("/data/app/log"), opened(None), allocated(40, 31)],  # the open that created it could not be read
        [opened("/data/app/log"), allocated(40, 31)],  # another directory: an unrecorded call created it
        [opened("/data/app/db/a"), allocated(40, 31, tid=2)],  # another thread
        [opened("/data/app/db/a"), allocated(40, 31, mode=0o40755)],  # no open creates a directory
        [unlinked("/data/app/db/a"), allocated(40, 31)],
        [opened("/data/app/db/../db/a"), allocated(40, 31)],
        [opened("/data/app/db/.."), allocated(40, 31)],
        [opened("/data/app/db/"), allocated(40, 31)],
        [opened("/other/app/db/a"), allocated(40, 31)],
        [opened("a"), allocated(40, 31)],
        [opened("/data/app/db/a"), removed(40, 31)],
    ],
)
def test_what_is_no_proof(rows):
    assert told(*rows, known=directories(**APP)) == {}


def test_one_open_makes_one_file():
    rows = opened("/data/app/db/a"), allocated(40, 31), allocated(41, 31)
    assert told(*rows, known=directories(**APP)) == {(40, 1): "/app/db/a"}


def test_a_rename_moves_the_file_that_last_had_the_name():
    rows = (
        opened("/data/app/a"), allocated(40, 30), renamed("/data/app/a", "/data/app/a.bak"), opened("/data/app/a"),
        allocated(41, 30),
    )  # fmt: skip
    assert told(*rows, known=directories(**APP)) == {(40, 1): "/app/a.bak", (41, 1): "/app/a"}


def look(name, parent, ino=None):
    return "f2fs_lookup_end", {"parent": parent, "name": name, "ino": ino, "error": 0 if ino else -2}


def made(ino):
    return "f2fs_new_inode", {"ino": ino, "error": 0}


def test_f2fs_reports_paths_at_writes_and_results_of_look_ups():
    write = ("f2fs_datawrite_start", {"ino": 50, "name": "/app/db/main.db"})
    assert told(made(50), write, look("x", 30, 51), known=directories(**APP)) == {
        (50, 1): "/app/db/main.db", (51, 0): "/app/x",
    }  # fmt: skip


def test_a_look_up_that_found_nothing_is_no_proof_of_what_was_made():
    rows = look("main.db-journal", 31), look("main.db-wal", 31), made(50)
    assert told(*rows, known=directories(**APP)) == {}
    agreed = opened("/data/app/db/b"), look("b", 31), made(51)
    assert told(*rows, *agreed, known=directories(**APP)) == {(51, 1): "/app/db/b"}


def test_fat_names_a_file_by_the_only_path_its_user_opened():
    page = {"bio_dev": DEV, "sector": 8, "nr_bytes": 4096, "page": 0, "name": "a.txt", "ino": 60}
    rows = opened("/data/d/a.txt"), ("writeback_dirty_folio", {"ino": 60, "page": 0}), ("bio_page", page)
    assert told(*rows) == {(60, 0): "/d/a.txt"}
    assert told(opened("/data/e/a.txt"), *rows) == {}
    assert told(rows[0], ("writeback_dirty_folio", {"ino": 60, "page": 0, "tid": 9}), rows[2]) == {}


def test_fat_asks_every_process_that_used_the_pages():
    page = {"bio_dev": DEV, "sector": 8, "nr_bytes": 4096, "page": 0, "name": "a.txt", "ino": 60}
    touched = [("mm_filemap_add_to_page_cache", {"ino": 60, "page": 0, "tid": tid}) for tid in (9, 1, 2)]
    rows = opened("/data/d/a.txt"), *touched, ("bio_page", page)
    assert told(*rows) == {(60, 0): "/d/a.txt"}
    assert told(opened("/data/e/a.txt", tid=2), *rows) == {}


def test_the_kernel_names_what_it_opens_wherever_it_is_mounted():
    rows = (
        found(60, "/d/a.txt"),
        found(61, "/b", tid=2),
        found(60, "/d/a.txt"),
        found(2, "/"),
        found(3, "/d/#3", parent=2),
    )
    assert told(*rows, mounts={}) == {(60, 0): "/d/a.txt", (61, 0): "/b"}
    assert told(*rows, mounts={}, lost=LOST) == {(60, 0): "/d/a.txt", (61, 0): "/b"}


def test_the_kernel_names_what_it_moves():
    rows = allocated(40, 30), found(40, "/app/a"), moved(40, "/app/a", "/app/b"), allocated(41, 30), found(41, "/app/a")
    assert told(*rows, mounts={}) == {(40, 1): "/app/b", (41, 1): "/app/a"}
    assert told(*rows, mounts={}, lost=LOST) == {(41, 1): "/app/a"}


def test_names_of_a_reused_inode_are_separate():
    rows = found(40, "/a"), allocated(40, 30), found(40, "/b")
    assert told(*rows) == {(40, 0): "/a", (40, 1): "/b"}
    unseen = found(40, "/a"), removed(40, 30), found(40, "/b"), found(41, "/c")
    assert list(told(*unseen).values()) == ["/c"]  # ext4 without events that show which inodes are new


def test_a_path_truncated_by_the_probe_needs_a_known_directory():
    rows = (
        found(40, "main.db", parent=31),
        found(41, "x", parent=99),
        found(42, None, parent=31),
        found(43, "#43", parent=31),
    )
    assert told(*rows, known=directories(**APP)) == {(40, 0): "/app/db/main.db"}
    assert told(moved(40, "/app/a", "b", parent=31), known=directories(**APP)) == {}


@pytest.mark.parametrize("name", ["a\nb", "\\xff\\xfe", "💾", "x" * 255, "-rf *", '"; drop', "a\tb\\"])
def test_hostile_names_are_names(name):
    rows = opened(f"/data/app/{name}"), allocated(40, 30)
    assert told(*rows, known=directories(**APP)) == {(40, 1): f"/app/{name}"}


def test_types_of_files_from_events():
    lives = pl.DataFrame(
        {"block_type": ["directory", "metadata", "data", None], "subtype": [None, "symlink", None, None]}
    )
    types = lives.select(tracepoints.file_type().alias("file_type"))["file_type"]
    assert types.to_list() == ["directory", "symlink", "unknown", "unknown"]
