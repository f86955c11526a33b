"""A directory of iotrace is opened and ingested, and its description of the device reaches the tables."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import polars as pl
import pytest
from support import built, loops

import androstep_analysis
from androstep_analysis import capture, cli
from androstep_analysis.capture import Capture, derivation
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.present import summary

pytestmark = pytest.mark.root

WORK = """
cd "$1"
head -c 400000 /dev/urandom > kept; sync
head -c 300000 /dev/urandom > gone; sync; rm gone
mkdir directory; mv kept directory/moved; sync
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a recording of `WORK` on an ext4 filesystem with blocks of 1 KiB, and the image afterwards."""
    directory = tmp_path_factory.mktemp("recorded")
    loops.make_ext4(directory / "image", ["-b", "1024"])
    with loops.mounted(directory / "image") as filesystem:
        command = ("sh", "-euc", WORK, "work", filesystem.top)
        iotrace = built.program("iotrace", "native")
        built.run(iotrace, "-o", directory / "recording", "--device", filesystem.device, "--", *command)
    return directory / "recording", directory / "image"


@pytest.fixture
def copied(recorded: tuple[Path, Path], tmp_path: Path) -> Path:
    """Return a copy of the recording, to be damaged."""
    return Path(shutil.copytree(recorded[0], tmp_path / "recording"))


def data_written(opened: Capture) -> dict[str | None, int]:
    """Return the bytes of data written by path."""
    io = opened.io.filter(pl.col("op") == "write", pl.col("block_type") == "data").collect()
    return dict(io.group_by("path").agg(pl.col("bytes").sum()).iter_rows())


def test_a_recording_opens_as_it_is_and_as_a_capture(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    recording, _ = recorded
    told = json.loads((recording / "recording.json").read_text())
    for opened in (androstep_analysis.open(recording), capture.create([recording], tmp_path / "capture")):
        assert opened.lost_events == told["lost_events"] == 0
        assert opened.facts["kernel"] == os.uname().release
        assert opened.facts["fs_type"] == "ext4"
        assert opened.about["realtime_offset_ns"] == told["realtime_offset_ns"]
        written = data_written(opened)
        # Without a probe for names, the names of deleted files are unknown.
        assert set(written) in ({"/directory/moved", "/gone"}, {"/directory/moved", None})
        assert sum(written.values()) == sum(-(-nr // 1024) * 1024 for nr in (400_000, 300_000))
    kept = manifest.read(tmp_path / "capture")
    roles = ["listing_after", "listing_before", "names", "recording", "trace"]
    assert sorted(source.role for source in kept.sources) == roles
    assert all((tmp_path / "capture" / source.path).is_file() for source in kept.sources)


def test_who_wrote_is_told_by_name_and_process(recorded: tuple[Path, Path]) -> None:
    opened = androstep_analysis.open(recorded[0])
    owners = opened.io.filter(pl.col("block_type") == "data", pl.col("op") == "write").collect()
    assert set(owners["owner_comm"]) == {"head"}
    assert owners["owner_pid"].n_unique() == 2
    tasks = opened.tasks.collect()
    assert tasks.filter(pl.col("pid") == os.getpid())["cmdline"].drop_nulls().len() >= 1


@pytest.mark.parametrize("source", manifest.EXTENTS)
def test_each_source_of_extents_alone_tells_less_and_nothing_else(
    recorded: tuple[Path, Path], tmp_path: Path, source: str
) -> None:
    recording, image = recorded
    every = capture.create([recording], tmp_path / "every", capture.Description(image_after=image))
    alone = capture.create([recording], tmp_path / "alone", capture.Description(image_after=image, extents=[source]))
    assert manifest.read(tmp_path / "alone").extents == (source,)
    place = ["request_id", "sector"]
    is_fact = (pl.col("map_source") != "inferred").fill_null(False)
    facts = [opened.io.filter(is_fact, pl.col("ino").is_not_null()).collect() for opened in (every, alone)]
    shared = facts[1].join(facts[0], on=place, suffix="_every")
    assert shared.filter(pl.col("ino") != pl.col("ino_every")).is_empty()
    assert facts[1]["bytes"].sum() <= facts[0]["bytes"].sum()
    if source == "tracepoint":
        assert data_written(alone).keys() <= data_written(every).keys() | {None}  # by fanotify, where it is
        assert sum(data_written(alone).values()) == sum(data_written(every).values())


def test_a_listing_may_be_given_beside_a_trace(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    recording, _ = recorded
    made = capture.create(
        [recording / "trace.dat"],
        tmp_path / "capture",
        capture.Description(listing_before=recording / "before.rec", listing_after=recording / "after.rec"),
    )
    assert "/directory/moved" in data_written(made)


def test_the_command_line_takes_a_recording(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "capture")
    assert cli.main(["ingest", str(recorded[0]), "--extents", "tracepoint,fiemap", "-o", out]) == 0
    assert cli.main(["summary", out, "--all"]) == 0
    assert "Evidence for block types and files" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        cli.main(["ingest", str(recorded[0]), "--extents", "guess", "-o", out])
    assert "'guess' is not a source of extents; use tracepoint, image" in capsys.readouterr().err


def test_two_recordings_are_not_one(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a complete recording; ingest it alone"):
        capture.create([recorded[0], recorded[0] / "trace.dat"], tmp_path / "capture")
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda d: (d / "trace.dat").unlink(), "no trace.dat; if iotrace was killed, finish it: iotrace --finish"),
        (lambda d: (d / "recording.json").write_text("{"), "not valid JSON"),
        (lambda d: (d / "recording.json").write_text("[]"), "not in the format of iotrace"),
        (lambda d: (d / "recording.json").write_text("{}"), "not in the format of iotrace"),
    ],
)
def test_a_damaged_recording_says_what_is_wrong(copied: Path, damage, sentence: str) -> None:
    damage(copied)
    with pytest.raises(InputError, match=sentence):
        androstep_analysis.open(copied)


def test_a_directory_of_something_else_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no recording\.json in this directory"):
        capture.create([tmp_path], tmp_path / "capture")


def test_a_recording_without_listings_is_one(copied: Path) -> None:
    for name in ("before.rec", "after.rec"):
        (copied / name).unlink()
    opened = androstep_analysis.open(copied)
    assert set(opened.about["rows"]) == set(derivation.TABLES)


def test_facts_of_the_manifest_are_kept_with_the_recording(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    capture.create([recorded[0]], tmp_path / "capture")
    kept = manifest.read(tmp_path / "capture")
    told = json.loads((tmp_path / "capture/raw/recording.json").read_text())
    assert {name: value for name, value in told["facts"].items() if value is not None}.items() <= kept.facts.items()
    assert [row["dev"] for row in kept.devices] == [row["dev"] for row in told["devices"]]


def test_a_record_stream_that_is_no_listing_is_refused(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    forged = tmp_path / "forged.rec"
    forged.write_bytes((recorded[0] / "before.rec").read_bytes().replace(b'"generation"', b'"gemeration"'))
    with pytest.raises(InputError, match=r"not a record stream|not a listing of files|header"):
        capture.create([recorded[0] / "trace.dat"], tmp_path / "capture", capture.Description(listing_before=forged))


@pytest.fixture(scope="module")
def overwritten(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a recording of files that are only overwritten in place, and the image before it."""
    directory = tmp_path_factory.mktemp("overwritten")
    loops.make_ext4(directory / "image")
    with loops.mounted(directory / "image") as filesystem:
        (filesystem.top / "sub").mkdir()
        for name in ("one", "sub/two"):
            (filesystem.top / name).write_bytes(os.urandom(200_000))
    shutil.copyfile(directory / "image", directory / "before")
    overwrite = 'for f in one sub/two; do dd if=/dev/urandom of="$1/$f" bs=100k count=2 conv=notrunc,fsync; done'
    with loops.mounted(directory / "image") as filesystem:
        command = ("sh", "-euc", overwrite, "overwrite", filesystem.top)
        iotrace = built.program("iotrace", "native")
        built.run(iotrace, "-o", directory / "recording", "--device", filesystem.device, "--", *command)
    return directory / "recording", directory / "before"


@pytest.mark.parametrize("source", ["image", "fiemap"])
def test_where_births_were_recorded_no_birth_means_that_there_was_none(
    overwritten: tuple[Path, Path], tmp_path: Path, source: str
) -> None:
    recording, image = overwritten
    made = capture.create(
        [recording], tmp_path / "capture", capture.Description(image_before=image, extents=["tracepoint", source])
    )
    assert not made.fs_events.filter(pl.col("event") == "ext4_allocate_inode").collect().height
    assert set(data_written(made)) == {"/one", "/sub/two"}
    assert "ext4_allocate_inode" in (manifest.read(tmp_path / "capture").events or ())
    data = made.io.filter(pl.col("op") == "write", pl.col("block_type") == "data").collect()
    assert "inferred" not in set(data["map_source"])


def test_where_nobody_says_what_was_recorded_files_may_be_others_of_their_numbers(
    overwritten: tuple[Path, Path], tmp_path: Path
) -> None:
    recording = Path(shutil.copytree(overwritten[0], tmp_path / "recording"))
    told = json.loads((recording / "recording.json").read_text())
    del told["events"]
    (recording / "recording.json").write_text(json.dumps(told))
    made = capture.create(
        [recording],
        tmp_path / "capture",
        capture.Description(image_before=overwritten[1], extents=["tracepoint", "image"]),
    )
    assert manifest.read(tmp_path / "capture").events is None
    assert None in data_written(made)


@pytest.mark.prove
def test_a_file_of_a_recording_stands_for_all_of_it(copied: Path, tmp_path: Path) -> None:
    """The whole recording is read, including the losses that only the recorder knows."""
    told = json.loads((copied / "recording.json").read_text())
    (copied / "recording.json").write_text(json.dumps(told | {"lost_events": 1125}))
    whole = summary.summary(androstep_analysis.open(copied))
    assert whole["lost_events"] == 1125 and [loss["count"] for loss in whole["losses"]] == [1125]
    for name in ("trace.dat", "before.rec", "recording.json"):
        assert summary.summary(androstep_analysis.open(copied / name)) == whole
    made = capture.create([copied / "trace.dat"], tmp_path / "made")
    assert summary.summary(androstep_analysis.open(tmp_path / "made/raw/trace.dat")) == summary.summary(made) == whole
    again = capture.create([tmp_path / "made/raw/trace.dat"], tmp_path / "again")
    assert again.lost_events == 1125 and again.manifest.events == made.manifest.events
    assert "1,125 missing" in str(whole_of := androstep_analysis.open(copied)) and "0 events" not in str(whole_of)


def test_a_recording_that_was_killed_lost_nobody_knows_what(copied: Path, tmp_path: Path) -> None:
    told = json.loads((copied / "recording.json").read_text())
    (copied / "recording.json").write_text(json.dumps(told | {"lost_events": None}))
    for read in (lambda: androstep_analysis.open(copied), lambda: capture.create([copied], tmp_path / "made")):
        with pytest.warns(LossWarning, match="the number of lost events is unknown"):
            opened = read()
        assert [loss.kind for loss in opened.losses] == ["uncounted"] and "1 uncounted" in str(opened)


def test_a_trace_beside_a_damaged_recording_is_read_alone_and_says_so(copied: Path) -> None:
    (copied / "recording.json").write_text("{")
    with pytest.warns(LossWarning, match="a part of a recording, read alone"):
        assert androstep_analysis.open(copied / "trace.dat").events


def test_of_a_packed_recording_the_trace_alone_is_read_and_that_is_said(copied: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(copied, "run")
    message = r"the device description .* in run/recording\.json were not read; unpack the archive"
    with pytest.warns(LossWarning, match=message):
        opened = androstep_analysis.open(tmp_path / "x.tar")
    assert "unread" in [loss.kind for loss in opened.losses]
