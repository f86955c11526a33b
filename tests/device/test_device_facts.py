"""The facts of devices: phones, this machine, and devices that answer nonsense."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adbd import EMMC, LOCKED, ODD, PIXEL, Model, Package, phone
from hypothesis import given, settings
from hypothesis import strategies as st
from support.devices import home
from support.loops import mounted

from androstep_analysis.common import manifest
from androstep_analysis.device import Device, connect
from androstep_analysis.device.session.facts import Facts, facts
from androstep_analysis.device.transport import Answer


def facts_of(model: Model, tmp_path: Path) -> Facts:
    """Return the facts of a phone."""
    with home(tmp_path), phone(tmp_path, model=model) as fake, connect(fake.address) as device:
        return facts(device)


# -- phones -----------------------------------------------------------------------------------------------------------

EXPECTED = {
    "pixel": ("Pixel 6a", "Tensor", "14", 34, "SKhynix HN8T05DEHKX073 B004", "f2fs", "metadata", True),
    "locked": ("Pixel 8", "Tensor G3", "14", 34, "SKhynix HN8T05DEHKX073 B004", "f2fs", "metadata", False),
    "emmc": ("SM-A125F", "mt6765", "11", 30, "DV6DAB", "ext4", "fbe", True),
    "odd": ("LG-M700", "msm8937", "8.1.0", 27, "HAG4a2", "ext4", "none", True),
}
COLUMNS = ("device", "soc", "android_release", "sdk", "storage_model", "fs_type", "encryption", "rooted")


@pytest.mark.root
@pytest.mark.parametrize("name", EXPECTED)
def test_each_phone_is_known(tmp_path: Path, name: str) -> None:
    model = {"pixel": PIXEL, "locked": LOCKED, "emmc": EMMC, "odd": ODD}[name]
    known = facts_of(model, tmp_path)
    row = known.manifest()
    assert tuple(row) == manifest.FACTS
    assert tuple(row[column] for column in COLUMNS) == EXPECTED[name]
    assert row["page_bytes"] == os.sysconf("SC_PAGESIZE")  # the fake phone's getconf is this machine's
    assert (row["kernel"], row["build_fingerprint"]) == (model.kernel, model.properties["ro.build.fingerprint"])
    assert [(mount.dev, mount.path, mount.fs_type, mount.source) for mount in known.mounts] == [
        (mount.dev, mount.path, mount.fs_type, mount.source) for mount in model.mounts
    ]
    assert (known.screen, known.density, dict(known.users)) == ((1080, 2400), 420, dict(model.users))


@pytest.mark.root
def test_the_topology_leads_from_data_to_the_disk(tmp_path: Path) -> None:
    known = facts_of(PIXEL, tmp_path)
    assert known.data is not None
    mapped = next(block for block in known.blocks.values() if block.dev == known.data.dev)
    assert (mapped.name, mapped.label, mapped.slaves) == ("dm-40", "userdata", ("sda22",))
    partition = known.blocks["sda22"]
    assert (partition.label, partition.parent, partition.start_sector) == ("userdata", "sda", 19_300_352)
    assert [disk.name for disk in known.disks_of(known.data.dev)] == ["sda"]
    assert known.blocks["sda"].attributes["health_descriptor/life_time_estimation_a"] == "0x02"
    assert known.disks_of("1:1") == []


@pytest.mark.root
def test_battery_heat_and_clock_are_told(tmp_path: Path) -> None:
    known = facts_of(replace(LOCKED, clock_skew_s=-3600), tmp_path)
    assert (known.battery_percent, known.battery_c, known.is_charging, known.throttling) == (12, 44.7, True, 2)
    assert known.temperatures_c == {"BIG": 41.0, "MID": 39.0, "LITTLE": 38.0, "battery": 29.1}
    assert known.clock is not None
    assert abs(known.clock.offset_s + 3600) <= known.clock.doubt_s + 0.01


@pytest.mark.root
def test_packages_have_users_from_pm_or_from_the_list(tmp_path: Path) -> None:
    """ODD's pm prints no user ids, but root can read Android's list; EMMC's second user has the same packages."""
    for model in (PIXEL, LOCKED, EMMC, ODD):
        known = facts_of(model, tmp_path)
        assert [(p.name, p.uid, p.apk) for p in known.packages] == sorted(
            (p.name, p.uid, p.apk) for p in model.packages
        )
        assert known.package_of(10_142) == known.package_of(1_010_142) == "com.android.chrome"


@pytest.mark.root
def test_of_packages_that_share_a_user_the_process_says_which(tmp_path: Path) -> None:
    known = facts_of(PIXEL, tmp_path)
    assert known.package_of(10_111) is None
    assert known.package_of(10_111, "com.google.android.gms:persistent") == "com.google.android.gms"
    assert known.package_of(10_111, "com.google.process.gapps") is None
    assert known.package_of(10_142, "renamed") == "com.android.chrome"
    assert known.package_of(99_999) is None


@pytest.mark.root
def test_hostile_names_are_names(tmp_path: Path) -> None:
    names = ("a; rm -rf /", "$(reboot)", "=1+1", "\x1b[2J", "x uid:0")
    packages = tuple(Package(name, 10_300 + at, f"/data/app/{name}=/b.apk") for at, name in enumerate(names))
    hostile = replace(
        PIXEL,
        packages=packages,
        properties={**PIXEL.properties, "ro.product.model": "<b>$(id)\x1b[2J", "x]: [y": "z"},
        mounts=(replace(PIXEL.mounts[3], path="/data\\040x\\012y"), *PIXEL.mounts),
    )
    known = facts_of(hostile, tmp_path)
    assert {package.name for package in known.packages} >= {"a; rm -rf /", "$(reboot)", "\x1b[2J"}
    assert known.properties["ro.product.model"] == "<b>$(id)\x1b[2J"
    assert known.mounts[0].path == "/data x\ny"
    assert known.manifest()["fs_type"] == "f2fs"


@pytest.mark.root
def test_a_phone_that_tells_nothing_has_no_facts(tmp_path: Path) -> None:
    mute = ("getprop", "getconf", "pm", "dumpsys", "wm", "uname", "grep", "date", "cat")
    with home(tmp_path), phone(tmp_path, model=LOCKED) as fake, connect(fake.address) as device:
        device.answers()
        for name in mute:
            fake.install(name, "exit 1")
        row = facts(device).manifest()
    assert {name for name, value in row.items() if value is not None} == {"rooted"}


# -- this machine -----------------------------------------------------------------------------------------------------


@pytest.mark.root
def test_facts_of_storage_are_of_the_place_that_is_meant(tmp_path: Path) -> None:
    if shutil.which("mkfs.xfs") is None:
        pytest.skip("mkfs.xfs is not installed")
    subprocess.run(["mkfs.xfs", "-q", "-d", "file,size=300m", f"-dname={tmp_path / 'image'}"], check=True)
    with mounted(tmp_path / "image") as place, connect("local") as device:
        (tmp_path / "link").symlink_to(place.top)
        for path in (place.top, place.top / "still to be made", tmp_path / "link", os.path.relpath(place.top)):
            assert device.facts(str(path))["fs_type"] == "xfs", path
        assert "fs_type" not in device.facts(None)
        assert "fs_type" not in device.facts("/proc/not/there")
        assert device.facts().get("fs_type") == device.facts("/").get("fs_type")


def test_this_machine_is_known(tmp_path: Path) -> None:
    with connect("local") as device:
        known = facts(device)
    assert (known.kernel, known.machine) == (platform.release(), platform.machine())
    assert (known.is_android, known.is_root) == (False, os.geteuid() == 0)
    assert known.manifest()["device"] == platform.node()
    number = Path("/").stat().st_dev
    on_root = next(mount for mount in reversed(known.mounts) if mount.path == "/")
    assert on_root.dev == f"{os.major(number)}:{os.minor(number)}"
    disks = {block.name for block in known.blocks.values() if block.parent is None}
    there = {path.name for path in Path("/sys/block").iterdir()}
    assert disks ^ there <= {name for name in disks | there if name.startswith("loop")}  # of other tests
    for name in disks & there - {name for name in disks if name.startswith("loop")}:
        assert known.blocks[name].nr_sectors == int(Path(f"/sys/block/{name}/size").read_text())
    assert known.clock is not None
    assert abs(known.clock.offset_s) <= known.clock.doubt_s + 0.01


# -- nonsense ---------------------------------------------------------------------------------------------------------


class Saying:
    """A device that answers each query with this text."""

    name = "saying"
    has_root = False

    def __init__(self, answers: dict[str, str], clock: str) -> None:
        self.answers, self.clock = answers, clock

    def query(self, text: str, **_: Any) -> Answer:
        queries = re.findall(r"^printf '\\n%s %s\\n' ([0-9a-f]+) (\w+);", text, re.MULTILINE)
        said = "".join(f"\n{token} {name}\n{self.answers.get(name, '')}" for token, name in queries)
        return Answer(0, (said if queries else self.clock).encode("utf-8", "surrogatepass"))


def facts_from(answers: dict[str, str], clock: str = "") -> Facts:
    """Return the facts of such a device."""
    device: Any = Saying(answers, clock)
    as_device: Device = device
    return facts(as_device)


FRAGMENTS = st.sampled_from(
    [
        *("[a]: [b]\n", "[a]: [", "]\n", "1 1 8:0 / / rw - ext4 /dev/x rw\n", " - ", "8:0", "\\777", "\\040", "\n", ""),
        *("/sys/block/sda/dev:8:0\n", "/sys/block/sda/sda1/dev:", "/sys/block/", "sda/slaves/", "PARTNAME=", ":", "/"),
        *(
            "package:",
            "=",
            " uid:",
            "9" * 30,
            "-1",
            "UserInfo{",
            "0:x:4c13}",
            "size: 1x2",
            "Thermal Status: ",
            "level:",
        ),
        *("/sys/class/thermal/thermal_zone0/temp:", "٣", "0x", "\x00", "\x1b[2J", "\ud800", "²", "../..", "1e999"),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join) | st.text(max_size=60)
PARTS = (
    *(
        "properties",
        "host",
        "kernel",
        "machine",
        "page_size",
        "mounts",
        "blocks",
        "slaves",
        "packages",
        "listed",
        "users",
    ),
    *("screen", "density", "battery", "thermal", "zones"),
)


@pytest.mark.prove
@settings(max_examples=150)
@given(st.fixed_dictionaries(dict.fromkeys(PARTS, TEXTS)), TEXTS)
def test_nonsense_is_left_out(answers: dict[str, str], clock: str) -> None:
    known = facts_from(answers, clock)
    row = known.manifest()
    for name, value in row.items():
        assert value is None or type(value) in (str, int, bool), name
    assert row["sdk"] is None or 0 <= row["sdk"] < 1 << 31  # its column is an Int32
    known.package_of(10_000, "x")
    manifest.parsed(
        {"facts": row, "realtime_offset_ns": None, "devices": [], "mounts": [], "lost_events": 0}, ()
    )  # the manifest accepts it


def test_slaves_in_a_circle_end() -> None:
    blocks = "".join(f"/sys/block/dm-{n}/dev:254:{n}\n" for n in range(2))
    slaves = "/sys/block/dm-0/slaves/dm-1\n/sys/block/dm-1/slaves/dm-0\n"
    known = facts_from({"blocks": blocks, "slaves": slaves})
    assert known.disks_of("254:0") == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("/sys/class/thermal/thermal_zone0/type:a\n/sys/class/thermal/thermal_zone0/temp:41500\n", {"a": 41.5}),
        ("/sys/class/thermal/thermal_zone0/temp:38\n", {"thermal_zone0": 38.0}),
        ("/sys/class/thermal/thermal_zone0/temp:-40000\n", {"thermal_zone0": -40.0}),
        ("/sys/class/thermal/thermal_zone0/temp:0\n", {}),
        ("/sys/class/thermal/thermal_zone0/temp:2147483647\n", {}),
        (
            "".join(
                f"/sys/class/thermal/thermal_zone{n}/{k}:{v}\n"
                for n in (1, 2)
                for k, v in (("type", "x"), ("temp", n * 1000))
            ),
            {"x": 1.0, "x.2": 2.0},
        ),
    ],
)
def test_temperatures_are_degrees(lines: str, expected: dict[str, float]) -> None:
    assert facts_from({"zones": lines}).temperatures_c == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("16384\n", 16384),
        ("KernelPageSize:       16 kB\n", 16384),
        ("KernelPageSize:        4 kB\n", 4096),
        ("undefined\n", None),
        ("4 MB\n", None),
        ("0\n", None),
        ("999999999 kB\n", None),
        ("", None),
    ],
)
def test_pages_are_as_large_as_getconf_says_or_the_kernel(said: str, expected: int | None) -> None:
    assert facts_from({"page_size": said}).page_bytes == expected


def test_the_kernels_word_for_no_name_is_none() -> None:
    assert facts_from({"host": "(none)\n"}).manifest()["device"] is None
    assert facts_from({"host": "guest\n"}).manifest()["device"] == "guest"


@pytest.mark.parametrize(
    ("said", "realtime_s", "doubt_s"),
    [
        ("1700000000.25\n12.5 1.0\n", 1_700_000_000.25, 0.0),
        ("1700000000.N\n", 1_700_000_000.0, 0.5),
        ("Tue\n", None, None),
    ],
)
def test_a_date_without_fractions_is_less_certain(said: str, realtime_s: float | None, doubt_s: float | None) -> None:
    clock = facts_from({}, said).clock
    assert (clock.realtime_s if clock else None) == realtime_s
    if clock is not None and doubt_s is not None:
        assert doubt_s <= clock.doubt_s < doubt_s + 60
