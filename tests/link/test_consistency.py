"""An image or listing is used only if the trace agrees with it: correct ones are accepted, others state no fact."""

from __future__ import annotations

import functools
import itertools
import lzma
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support import built, corpus, loops, truth
from support.needs import left_to_prove

from androstep_analysis import capture, cli, fs, link, schema
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

F2FS_16K = Path(__file__).parents[1] / "data" / "f2fs_16k.img.xz"
"""A new filesystem with blocks of 16 KiB and quota files (tests/harness/recordings.py)."""

UUID = "11111111-2222-4333-8444-555555555555"

FILL = """
cd "$1"; mkdir -p old
for i in $(seq 40); do head -c $((i * 3000 + SEED * 1700)) /dev/urandom > old/f$i; done; sync
"""

WORK = """
cd "$1"; mkdir -p new
for i in $(seq 60); do head -c $((i * 2000 + SEED * 900)) /dev/urandom > new/n$i; done; sync
for i in $(seq 1 3 40); do head -c 9000 /dev/urandom | dd of=old/f$i conv=notrunc bs=4096 seek=1 status=none; done; sync
for i in $(seq 2 5 40); do rm old/f$i; done; for i in $(seq 2 7 60); do rm new/n$i; done; sync
for i in $(seq 10); do touch new; sync -f new; done
echo 3 > /proc/sys/vm/drop_caches; cat old/* new/* > /dev/null
"""


def work(script: str, seed: int, place: Path) -> tuple[str, ...]:
    return ("env", f"SEED={seed}", "sh", "-euc", script, "work", str(place))


class Made:
    """Recordings of `WORK` on ext4 filesystems with equal size and UUID, and images of many times and kinds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.recordings = {seed: directory / f"recording{seed}" for seed in (1, 2)}
        for seed in (1, 2):
            self._record(seed)
        self._others()

    @functools.cached_property
    def recording(self) -> Capture:
        """Return the recording of seed 1, without images."""
        return capture.open(self.recordings[1])

    @functools.cached_property
    def block_trace(self) -> Capture:
        """Return the same recording without filesystem events, a trace of only the block layer."""
        return without_events(self.recording)

    @functools.cached_property
    def truth(self) -> pl.DataFrame:
        """Return table io of the recording with both of its images."""
        images = {"before": self.image("before1"), "after": self.image("after1")}
        return self.recording.with_filesystem(**images).io.collect()

    def image(self, name: str) -> Path:
        return self.directory / f"{name}.img"

    def copy(self, source: Path, name: str) -> Path:
        subprocess.run(["cp", "--sparse=always", source, self.image(name)], check=True)
        return self.image(name)

    def _record(self, seed: int) -> None:
        disk = self.directory / f"disk{seed}"
        loops.make_ext4(disk, ["-b", "4096", "-U", UUID])
        if seed == 1:
            self.copy(disk, "just made")
        with loops.mounted(disk) as filesystem:
            built.run(*work(FILL, seed, filesystem.top))
        self.copy(disk, f"before{seed}")
        with loops.mounted(disk) as filesystem:
            command = work(WORK, seed, filesystem.top)
            iotrace = built.program("iotrace", "native")
            built.run(iotrace, "-o", self.recordings[seed], "--device", filesystem.device, "--", *command)
            (filesystem.top / "late").write_bytes(b"x" * 50_000)
            self.copy(disk, f"live{seed}")
        self.copy(disk, f"after{seed}")

    def _others(self) -> None:
        self.worked("later", self.image("after1"), "cd $1; rm -r new/n1*; cp -r old older; sync")
        self.worked("diverged", self.image("before1"), WORK, seed=3)
        self.worked("fewer", self.image("before1"), "".join(WORK.splitlines(True)[:3]), seed=3)
        self.worked("earlier", self.image("just made"), "cd $1; for i in 1 2 3; do echo $i > file$i; done")
        checked = self.copy(self.image("after1"), "checked")
        subprocess.run(["e2fsck", "-f", "-y", checked], check=False, capture_output=True)
        other = self.copy(checked, "other uuid")
        subprocess.run(["tune2fs", "-U", "random", other], check=True, capture_output=True, input=b"y\n")
        grown = self.copy(checked, "grown")
        subprocess.run(["truncate", "-s", "96M", grown], check=True)
        subprocess.run(["resize2fs", "-f", grown], check=True, capture_output=True)
        for name, options in {"small blocks": ["-b", "1024"], "no journal": ["-O", "^has_journal"]}.items():
            loops.make_ext4(self.image(name), options)
        subprocess.run(["truncate", "-s", "40M", self.copy(self.image("after1"), "cut")], check=True)
        subprocess.run(["truncate", "-s", "64M", self.image("vfat")], check=True)
        subprocess.run(["mkfs.vfat", self.image("vfat")], check=True, capture_output=True)
        loops.make_ext4(self.image("larger"), ["-b", "4096", "-U", UUID], nr_mib=256)
        self.worked("larger", self.image("larger"), FILL)

    def worked(self, name: str, image: Path, script: str, seed: int = 1) -> None:
        """Create image `name` by work in another image."""
        if image != self.image(name):
            self.copy(image, name)
        with loops.mounted(self.image(name)) as filesystem:
            built.run(*work(script, seed, filesystem.top))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    if shutil.which("mkfs.vfat") is None:
        pytest.skip("mkfs.vfat is not installed")
    return Made(tmp_path_factory.mktemp("consistency"))


TRUE = {
    "image_after": ("after1", "live1", "later", "other uuid", "checked", "grown"),
    "image_before": ("before1",),
}
"""Images of the recorded filesystem, taken at the stated time or with later changes."""

REFUSED = {
    "image_after": (
        *("before1", "before2", "just made", "earlier", "diverged", "fewer", "after2", "live2"),
        *("small blocks", "no journal", "larger", "vfat"),
    ),
    "image_before": (
        *("after1", "later", "before2", "after2", "just made", "earlier", "diverged"),
        *("small blocks", "no journal", "larger", "vfat"),
    ),
}
"""Images that contradict the recording: another time, device, history or kind."""

WITHOUT_EVENTS = sorted({*itertools.chain(*TRUE.values()), *itertools.chain(*REFUSED.values())})

FACTS = ["block_type", "subtype", "ino", "path"]


def without_events(found: Capture) -> Capture:
    """Return the recording as a trace of only the block layer."""
    return with_events(found, schema.empty("fs_events").lazy())


def with_events(found: Capture, fs_events: pl.LazyFrame) -> Capture:
    """Return the recording with these filesystem events instead of its own."""
    tables = found._recorded | {"fs_events": fs_events}
    return Capture(found.title, replace(found.manifest, events=None), tables, found.about)


def with_image(found: Capture, role: str, image: Path) -> Capture:
    return found.with_filesystem(before=image) if role == "image_before" else found.with_filesystem(after=image)


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in TRUE.items() for name in names])
def test_a_true_image_belongs_to_the_trace(made: Made, role: str, name: str) -> None:
    found = with_image(made.recording, role, made.image(name))
    (told,) = found.about["snapshots"]
    assert (told["role"], told["proven"]) == (role, "content")
    assert told["agreements"] > 50


@pytest.mark.parametrize(
    ("role", "name"),
    left_to_prove(
        [(role, name) for role, names in REFUSED.items() for name in names],
        lambda case: case[1] in ("before1", "after1", "after2", "diverged", "just made"),
    ),
)
def test_an_image_that_contradicts_the_trace_is_refused(made: Made, role: str, name: str) -> None:
    with pytest.raises(InputError, match=r"not what device .* held (before|after) the recording: ") as refused:
        accepted = with_image(made.recording, role, made.image(name))
        pytest.fail(f"accepted with {accepted.about['snapshots']}, losses {accepted.about['losses']}")
    assert str(refused.value).startswith(str(made.image(name)))
    assert str(refused.value).count("\n") == 0


def test_transactions_at_other_times_and_those_that_it_lacks_both_speak_against_an_image(made: Made) -> None:
    """Of the first four transactions of the recording, the image has one or two others with those numbers."""
    commits = made.recording._recorded["fs_events"].filter(pl.col("event").is_in(tracepoints.COMMITS)).collect()
    first = commits["transaction"].drop_nulls().unique().sort()[:4]
    with pytest.raises(InputError, match=r"transactions .* \(([34]) of \1\)"):
        with_image(
            with_events(made.recording, commits.filter(pl.col("transaction").is_in(first.implode())).lazy()),
            "image_after",
            made.image("fewer"),
        )


@pytest.mark.parametrize("set_ns", [500_000_000, -500_000_000])
def test_times_that_are_half_a_second_off_are_of_another_image_or_of_a_clock_that_was_set(
    made: Made, set_ns: int
) -> None:
    """The same work was done on the other image directly before or after."""
    found, image = made.recording, made.image("after1")
    about = found.about | {"realtime_offset_ns": found.about["realtime_offset_ns"] + set_ns}

    def proven(moved_ns: int | None) -> str | None:
        described = replace(found.manifest, realtime_moved_ns=moved_ns)
        linked = Capture(found.title, described, found._recorded, about).with_filesystem(after=image)
        return linked.about["snapshots"][0]["proven"]

    assert proven(set_ns) == "content"
    assert proven(None) != "content"
    with pytest.raises(InputError, match=r"at other times|has others by their numbers"):
        proven(0)


def test_swapped_images_are_called_swapped(made: Made) -> None:
    with pytest.raises(InputError, match="are before and after swapped"):
        made.recording.with_filesystem(before=made.image("after1"), after=made.image("before1"))
    with pytest.raises(InputError, match="are before and after swapped"):
        made.block_trace.with_filesystem(before=made.image("after1"), after=made.image("before1"))


@pytest.mark.parametrize("role", TRUE)
@pytest.mark.parametrize(
    "name", left_to_prove(WITHOUT_EVENTS, {"after1", "before1", "live2", "just made"}.__contains__)
)
def test_no_image_makes_a_wrong_fact_of_a_block_trace(made: Made, role: str, name: str) -> None:
    """Without filesystem events little can be compared: the image is refused, or its statements are inferred."""
    try:
        said = with_image(made.block_trace, role, made.image(name)).io.collect()
    except InputError:
        return
    both = facts_beside(said, made.truth)
    assert both.filter(pl.any_horizontal(pl.col(f).ne_missing(pl.col(f"{f}_true")) for f in FACTS)).rows() == []


def facts_beside(said: pl.DataFrame, truth: pl.DataFrame) -> pl.DataFrame:
    """Return the facts in `said` about pieces of requests, each with the truth (`…_true`)."""
    keys = ["request_id", "sector"]
    facts = said.filter(pl.col("map_source").is_not_null(), pl.col("map_source") != "inferred")
    both = facts.join(truth, on=keys, how="left", suffix="_true")
    return both.select(*keys, *FACTS, *(f"{f}_true" for f in FACTS), "map_source")


def images_of(when: str, image: Filesystem) -> link.Images:
    return link.Images(before=image) if when == "before" else link.Images(after=image)


IMAGES = [(name, when) for name in truth.RECORDINGS for when in ("before", "after")]


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_no_image_of_another_recording_is_proven(name: str) -> None:
    """Each recording of the corpus is combined with the images of all others, as image before and as image after."""
    staging = truth.staging(corpus.path(f"kernel/{name}"))
    for (other, when), role in itertools.product(IMAGES, ("before", "after")):
        image = truth.image(corpus.path(f"kernel/{other}"), when, truth.device(staging))
        if image is None or other == name:
            continue
        with pytest.raises(InputError, match="not what device"):
            truth.tables(staging, images_of(role, image))


@pytest.mark.parametrize("name", truth.RECORDINGS)
def test_the_own_images_are_proven(name: str) -> None:
    directory = corpus.path(f"kernel/{name}")
    staging = truth.staging(directory)
    for when in ("before", "after"):
        image = truth.image(directory, when, truth.device(staging))
        if image is not None:
            comparison = truth.tables(staging, images_of(when, image))["comparison"]
            assert set(comparison["proven"]) == {"layout" if name.startswith("vfat") else "content"}


def test_quotas_that_the_trace_writes_do_not_speak_against_an_image_of_f2fs(tmp_path: Path) -> None:
    """Quota inodes are not in the image's files, and their blocks move more often than those of files."""
    image = tmp_path / "image"
    image.write_bytes(lzma.decompress(F2FS_16K.read_bytes()))
    os.truncate(image, 300 << 20)
    quota = {"event": "f2fs_submit_page_write", "file_block": 1, "nr_blocks": 1, "status": "DATA"}
    rows = [{"event": "f2fs_new_inode", "ino": 9}] + [quota | {"ino": 4 + n % 3, "block": 5000 + n} for n in range(60)]
    rows = [row | {"ts_ns": at, "tid": 1, "dev": 7 << 20} for at, row in enumerate(rows)]
    table = schema.table("fs_events")
    events = schema.conform(pl.DataFrame(rows, schema=table.polars), "fs_events")
    staging = Staging("trace.dat", {}, 0, 1000, {"fs_events": events.lazy()})
    before = fs.read(image, dev=7 << 20, source="image_before")
    tables = link.tables(staging, requests.link(staging.block), images_of("before", before), Spool())
    assert tables["comparison"].collect()["contradictions"].sum() == 0


def test_summary_of_a_wrong_image_ends_with_a_sentence(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    out = made.directory / "refused"
    trace = str(made.recordings[1] / "trace.dat")
    assert cli.main(["ingest", trace, "--image-after", str(made.image("before1")), "-o", str(out)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "before1.img" in told and "swapped" in told
    assert not out.exists()


def test_an_image_that_cannot_be_compared_is_inferred_and_reported(tmp_path: Path, made: Made) -> None:
    """A CSV has neither flags nor events, so that all statements of the image about it are inferred."""
    rows = made.recording.requests.filter(pl.col("op") == "write").collect()
    trace = tmp_path / "trace.csv"
    lines = [
        f"{ns / 1e9:.6f},W,{sector},{nr}"
        for ns, sector, nr in rows.select("issue_ns", "sector", "nr_sectors").iter_rows()
    ]
    trace.write_text("\n".join(lines) + "\n")
    found = capture.open(trace, csv_columns="time:s,op,offset:sectors,size:sectors").with_filesystem(
        after=made.image("after1")
    )
    assert "image after not proven to belong to the trace" in repr(found)
    assert set(found.io.collect()["map_source"].drop_nulls()) == {"inferred"}


DIRECTORIES = "cd $1; mkdir $(seq -f d%g 400); for i in $(seq 400); do echo $i > d$i/file; done; sync"
NONE = "rm -r $1/*; sync"
FILES = "for i in $(seq 40); do head -c 1000000 /dev/urandom > $1/large$i; done; sync"
CHANGES = {
    "grows": ("true", DIRECTORIES),
    "shrinks": (DIRECTORIES, NONE),
    "reuses": (DIRECTORIES, f"{NONE}; {FILES}"),
    "returns": (FILES, f"{NONE}; {DIRECTORIES}; {NONE}; {FILES}; {NONE}; {DIRECTORIES}"),
}
"""Work before and during the recording: blocks of metadata become free or a file's, and the reverse."""

COMPLETE = ("reuses", "returns")
"""Changes that include the others: reused blocks shrank first, returned ones grow again."""

KINDS = {
    "ext4": ("-b", "4096"),
    "ext4 without journal": ("-O", "^has_journal"),
    "ext4 with small blocks": ("-b", "1024"),
    "ext3": ("-t", "ext3"),
    "ext2": ("-t", "ext2"),
}


CHANGED = left_to_prove(
    [("ext4", change) for change in CHANGES]
    + [(kind, change) for kind in KINDS for change in COMPLETE if kind != "ext4"],
    {("ext4", change) for change in COMPLETE}.__contains__,
)


@pytest.mark.parametrize(("kind", "change"), CHANGED)
def test_a_correct_image_is_accepted_despite_changed_metadata(tmp_path: Path, kind: str, change: str) -> None:
    """Blocks of directories are free before these grow and after they shrink, and belong to files when reused."""
    disk = tmp_path / "disk"
    loops.make_ext4(disk, KINDS[kind])
    prepare, script = CHANGES[change]
    with loops.mounted(disk) as filesystem:
        built.run(*work(prepare, 1, filesystem.top))
    images = {"image_before": tmp_path / "before.img", "image_after": disk}
    subprocess.run(["cp", "--sparse=always", disk, images["image_before"]], check=True)
    with loops.mounted(disk) as filesystem:
        iotrace = built.program("iotrace", "native")
        command = work(script, 1, filesystem.top)
        built.run(iotrace, "-o", tmp_path / "recording", "--device", filesystem.device, "--", *command)
    recording = capture.open(tmp_path / "recording")
    found = recording.with_filesystem(before=images["image_before"], after=images["image_after"])
    assert {one["role"]: one["proven"] for one in found.about["snapshots"]} == dict.fromkeys(images, "content")
    both = found.io.collect()
    for role, image in images.items():
        for alone in (recording, without_events(recording)):
            beside = facts_beside(with_image(alone, role, image).io.collect(), both)
            # Even both images do not show all files that existed only between them.
            assert beside.filter(pl.any_horizontal(pl.col(f) != pl.col(f"{f}_true") for f in FACTS)).rows() == []


COME_AND_GO = """
cd "$1"; i=0
while [ ! -e ended ]; do
    i=$((i + 1)); head -c 6000 /dev/urandom > kept$i; head -c 5000 /dev/urandom > journal; rm journal
    [ $i -lt 40 ] || rm kept$((i - 39))
done
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a recording of a busy filesystem, an earlier listing of that boot, and the image after.

    Inode numbers are reused faster than a listing takes. It may contain a file that is deleted before the listing ends.
    """
    directory = tmp_path_factory.mktemp("busy")
    disk = directory / "disk"
    loops.make_ext4(disk, ["-b", "4096", "-N", "16000"])
    with loops.mounted(disk) as filesystem:
        built.run(*work("cd $1; for i in $(seq 10000); do echo $i > old$i; done; sync", 1, filesystem.top))
        with subprocess.Popen(work(COME_AND_GO, 1, filesystem.top)) as others:
            try:
                built.run(built.program("extmap"), "-o", directory / "earlier.rec", filesystem.top)
                iotrace = built.program("iotrace", "native")
                built.run(iotrace, "-o", directory / "recording", "--device", filesystem.device, "--", "sleep", "1")
                time.sleep(1)
            finally:
                (filesystem.top / "ended").touch()
                others.wait(60)
    return directory


def contradicting(found: Capture, image: Path) -> tuple[int, list[tuple[object, ...]]]:
    """Count the pieces with a path as fact here and from the image after, and return those that differ."""
    keys = ["request_id", "sector"]
    facts = pl.col("map_source") != "inferred"
    known = [
        one.io.filter(facts, pl.col("path").is_not_null()).select(*keys, "path").collect()
        for one in (found, without_listings(found).with_filesystem(after=image))
    ]
    both = known[0].join(known[1], on=keys, suffix="_by_image")
    return both.height, both.filter(pl.col("path") != pl.col("path_by_image")).rows()


def without_listings(found: Capture) -> Capture:
    sources = tuple(source for source in found.manifest.sources if not source.role.startswith("listing"))
    return Capture(found.title, replace(found.manifest, sources=sources), found._recorded, found.about)


def test_files_that_come_and_go_while_a_listing_is_made_are_not_of_before(busy: Path) -> None:
    """iotrace records while it lists. The events show files created during the listing, which are no contradiction."""
    found = capture.open(busy / "recording")
    assert {row["role"]: row["proven"] for row in found.about["snapshots"]} == {
        "listing_before": "content",
        "listing_after": "content",
    }
    nr_known, other = contradicting(found, busy / "disk")
    assert nr_known > 10
    assert other == []


def test_an_earlier_listing_of_the_same_boot_states_nothing_wrong(busy: Path) -> None:
    """Files were deleted and created between the listing and the recording."""
    try:
        made = capture.create(
            [busy / "recording" / "trace.dat"], busy / "made", capture.Description(listing_before=busy / "earlier.rec")
        )
    except InputError:
        return
    assert contradicting(made, busy / "disk")[1] == []
