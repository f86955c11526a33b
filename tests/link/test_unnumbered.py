"""Test the facts that FAT images prove for a trace without information about files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support.blocks import DEV, block_events

from androstep_analysis import fs, link
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

SECOND = 1_000_000_000
AT_ONCE = 64 << 10

FILES = {"kept": 900_000, "gone": 300_000, "grows": 500_000, "far": 6_000_000}


def mtools(image: Path, name: str, *arguments: str | Path) -> None:
    subprocess.run([name, "-i", image, *arguments], check=True, env={"MTOOLS_SKIP_CHECK": "1", "PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module", params=[("16", "4"), ("32", "1"), ("16", "16")], ids=lambda both: "-".join(both))
def volumes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Create a volume, and a copy after one file was removed, one created and one extended."""
    if any(shutil.which(program) is None for program in ("mkfs.vfat", "mcopy", "mdel")):
        pytest.skip("needs dosfstools and mtools")
    directory = tmp_path_factory.mktemp("volume")
    before, after, source = (directory / name for name in ("before", "after", "source"))
    bits, sectors = request.param
    before.write_bytes(bytes(40 << 20))
    subprocess.run(["mkfs.vfat", "-F", bits, "-s", sectors, before], check=True, stdout=subprocess.DEVNULL)
    for name, size in FILES.items():
        source.write_bytes(name.encode() * (size // len(name)))
        mtools(before, "mcopy", source, f"::{name}")
    shutil.copy(before, after)
    mtools(after, "mdel", "::gone")
    for name in ("grows", "new"):
        source.write_bytes(b"n" * 700_000)
        mtools(after, "mcopy", "-D", "o", source, f"::{name}")
    return before, after


def written(before: Path, after: Path) -> list[int]:
    """Return the sectors in which two images differ."""
    one, other = before.read_bytes(), after.read_bytes()
    return [at for at in range(len(one) // 512) if one[at * 512 : at * 512 + 512] != other[at * 512 : at * 512 + 512]]


def trace(sectors: list[int], unmounted: bool = True) -> Staging:
    """Return writes of these sectors, one every 1,000 ns, and after an unmount a final one of the boot record."""
    order = [*sectors, 0] if unmounted else sectors
    steps = [("queue", 0), ("issue", 1), ("complete", 2)]
    rows = [
        {"ts_ns": at * 1000 + later, "action": action, "sector": sector, "nr_sectors": 1, "rwbs": "W", "tid": 1}
        for at, sector in enumerate(order)
        for action, later in steps
    ]
    tables = {"block_events": block_events(rows).lazy()}
    return Staging("trace.dat", {}, 0, len(order) * 1000, tables)


def facts(staging: Staging, before: fs.Filesystem, after: fs.Filesystem | None) -> dict[int, tuple[str, int]]:
    """Return path and offset by sector for files that are facts."""
    tables = link.tables(staging, requests.link(staging.block), link.Images(before=before, after=after), Spool())
    io = tables["io"].filter(pl.col("map_source") != "inferred", pl.col("ino").is_not_null()).collect()
    rows = io.select("sector", "path", "file_offset_bytes").iter_rows()
    return {sector: (path, offset) for sector, path, offset in rows}


def images(volumes: tuple[Path, Path]) -> tuple[fs.Filesystem, fs.Filesystem]:
    before, after = (
        fs.read(path, dev=DEV, source=source)
        for path, source in zip(volumes, ("image_before", "image_after"), strict=True)
    )
    return link.classified(before), link.classified(after)


def places(image: fs.Filesystem, name: str) -> list[int]:
    """Return the first and the last sector of every cluster of a file."""
    ino = image.files.filter(path=f"/{name}")["ino"].item()
    runs = image.extents.filter(ino=ino).select("sector", "nr_sectors").iter_rows()
    step = image.block_bytes // 512
    return [
        sector for first, count in runs for at in range(first, first + count, step) for sector in (at, at + step - 1)
    ]


@pytest.mark.prove
def test_only_clusters_with_an_unwritten_entry_are_facts(volumes):
    before, after = images(volumes)
    changed = written(*volumes)
    data = [sector for name in FILES for sector in places(before, name)] + places(after, "new")
    staging = trace(data + changed)
    said = facts(staging, before, after)
    table = before.allocation
    assert table is not None
    true = {}
    for name in ("kept", "far"):
        ino = before.files.filter(path=f"/{name}")["ino"].item()
        for sector, row in zip(
            places(before, name), fs.lookup(before, places(before, name)).iter_rows(named=True), strict=True
        ):
            entry = ((sector - table.heap_sector) // table.cluster_sectors + table.first) * table.entry_bits
            if table.sector + entry // 4096 not in changed and row["ino"] == ino:
                true[sector] = (f"/{name}", row["file_offset_bytes"])
    assert {sector: place for sector, place in said.items() if sector in data} == true
    assert len(true) > 100


@pytest.mark.prove
@pytest.mark.parametrize(
    "hurt",
    [
        lambda staging, before, after: (replace(staging, lost_events=1), before, after),
        lambda staging, before, after: (staging, before, None),
        lambda staging, before, after: (staging, before, replace(after, losses=(Loss("unsynced", 1, "in use"),))),
        lambda staging, before, after: (trace([800, 900], unmounted=False), before, after),
    ],
    ids=["events lost", "no image after", "image in use", "table never written out"],
)
def test_clusters_that_may_have_been_reused_are_no_fact(
    hurt: Callable[..., tuple[Staging, fs.Filesystem, fs.Filesystem | None]], volumes
):
    before, after = images(volumes)
    recorded = trace(places(before, "far") + written(*volumes))
    staging, before, last = hurt(recorded, before, after)
    assert facts(staging, before, last) == {}
    assert facts(recorded, before, after) != {}


@pytest.mark.prove
def test_an_image_after_that_disagrees_leaves_no_fact(volumes):
    before, after = images(volumes)
    renamed = after.files.with_columns(path=pl.col("path").replace("/far", "/other"))
    recorded = trace(places(before, "far") + written(*volumes))
    assert facts(recorded, before, after) != {}
    # The root directory of FAT32, which was also written, is at the same location in both.
    assert set(facts(recorded, before, replace(after, files=renamed)).values()) <= {("/", 0)}
