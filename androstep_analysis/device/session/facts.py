"""What a device says of itself: system, processor, storage, filesystems, applications, screen, heat and clocks.

Everything is read by two commands, one for the clocks alone. What a device does not state, or states in another form
than expected, is left out: nothing in it can make reading fail, and nothing in it is run or taken for a path here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from androstep_analysis.device.session.queries import query_all
from androstep_analysis.device.session.shell import Shell
from androstep_analysis.device.transport.parse import integer

USERS_APART = 100_000
"""Android's users have each so many of Linux' (AID_USER_OFFSET); packages are listed with those of the first."""

DATA = "/data"
"""Where Android mounts what applications write."""


@dataclass(frozen=True)
class Mount:
    """A mounted filesystem: number of the device as ``MAJ:MIN``, place, type, what it is made from, options of both."""

    dev: str
    path: str
    fs_type: str
    source: str
    options: str


@dataclass(frozen=True)
class Block:
    """A block device: a disk, a partition (`parent` is its disk), or one mapped onto `slaves`; sizes in sectors of 512.

    `label` is the name of the partition or the mapping; `attributes` what sysfs says of a disk's model, by its path
    below the disk (``device/model``), and of its health (``health_descriptor/eol_info``).
    """

    name: str
    dev: str
    nr_sectors: int | None
    start_sector: int | None
    parent: str | None
    label: str | None
    slaves: tuple[str, ...]
    attributes: Mapping[str, str]

    @property
    def model(self) -> str | None:
        """Vendor, model and revision of UFS and SCSI; the name of eMMC. Mere numbers, as of virtio, are no names."""
        parts = [self.attributes.get(f"device/{name}", "").strip() for name in ("vendor", "model", "rev", "name")]
        return " ".join(part for part in parts if part and not part.startswith("0x")) or None


@dataclass(frozen=True)
class Package:
    """An installed application: user for Android's first user, and file, where the device states it."""

    name: str
    uid: int | None
    apk: str | None


@dataclass(frozen=True)
class Clock:
    """The device's clocks, and how far from ours: what to add to our time to get the device's, in seconds.

    `doubt_s` is half of what the query took: the offset may be wrong by so much.
    """

    realtime_s: float
    uptime_s: float | None
    offset_s: float
    doubt_s: float


@dataclass(frozen=True)
class Facts:
    """What a device states. Empty or None is what it does not."""

    properties: Mapping[str, str]
    host: str | None
    """Its name in networks; every Android has the same."""
    kernel: str | None
    machine: str | None
    page_bytes: int | None
    """Size of the kernel's pages."""
    is_root: bool
    mounts: tuple[Mount, ...]
    blocks: Mapping[str, Block]
    packages: tuple[Package, ...]
    users: Mapping[int, str]
    screen: tuple[int, int] | None
    """Width and height in pixels."""
    density: int | None
    """Pixels per inch."""
    battery_percent: int | None
    battery_c: float | None
    is_charging: bool | None
    throttling: int | None
    """Android's thermal status: 0 none, 1 light, 2 moderate, 3 severe, …"""
    temperatures_c: Mapping[str, float]
    """By the name of the thermal zone, and where several have one name by ``name.N``."""
    clock: Clock | None

    @property
    def is_android(self) -> bool:
        """Whether it has Android's properties."""
        return "ro.build.version.release" in self.properties

    @cached_property
    def data(self) -> Mount | None:
        """What is mounted on /data, or where that is no mount on ``/``."""
        return self.mount_of(DATA)

    def mount_of(self, path: str) -> Mount | None:
        """What is mounted over a path; of several in one place the last is on top."""
        over = [mount for mount in self.mounts if f"{path}/".startswith(f"{mount.path.rstrip('/')}/")]
        return max(reversed(over), key=lambda mount: len(mount.path), default=None)

    def disks_of(self, dev: str) -> list[Block]:
        """The disks beneath a block device, by its number: through mappings and partitions."""
        by_dev = {block.dev: block for block in self.blocks.values()}
        waiting = [by_dev[dev]] if dev in by_dev else []
        seen: dict[str, Block] = {}
        while waiting:
            block = waiting.pop()
            if block.name in seen:
                continue
            seen[block.name] = block
            beneath = [*block.slaves, *([block.parent] if block.parent else [])]
            waiting += [self.blocks[name] for name in beneath if name in self.blocks]
        return [block for block in seen.values() if block.parent is None and not block.slaves]

    def model_of(self, mount: Mount) -> str | None:
        """Model of the disk beneath a filesystem."""
        models = [disk.model for disk in self.disks_of(mount.dev)]
        return next((model for model in models if model), None)

    @property
    def encryption(self) -> str | None:
        """How /data is encrypted: none, fbe (each file), metadata (that and the filesystem), or block (the device)."""
        state, kind = self.properties.get("ro.crypto.state"), self.properties.get("ro.crypto.type")
        if state == "unencrypted":
            return "none"
        if kind == "file":
            mapped = self.data is not None and any(
                block.dev == self.data.dev and block.slaves for block in self.blocks.values()
            )
            is_enabled = self.properties.get("ro.crypto.metadata.enabled") == "true"
            return "metadata" if mapped or is_enabled else "fbe"
        return kind or None

    def package_of(self, uid: int, process: str | None = None) -> str | None:
        """The package of a user: that of a process' name where several share the user, otherwise None then.

        The same choice as the recorders make.
        """
        named = [package.name for package in self._packages_by_user.get(uid % USERS_APART, [])]
        wanted = re.split("[: ]", process, maxsplit=1)[0] if process else None
        if wanted in named:
            return wanted
        return named[0] if len(named) == 1 else None

    @cached_property
    def _packages_by_user(self) -> dict[int, list[Package]]:
        by_user: dict[int, list[Package]] = {}
        for package in self.packages:
            if package.uid is not None:
                by_user.setdefault(package.uid % USERS_APART, []).append(package)
        return by_user

    def manifest(self, place: str | None = DATA) -> dict[str, Any]:
        """`manifest.FACTS`; None for what is unknown, and for what only a recording knows.

        Those of storage are of the filesystem that a path without links lies in; `place` None is in none.
        """
        stated = self.properties.get
        mount = None if place is None else self.mount_of(place)
        sdk = integer(stated("ro.build.version.sdk"))
        return {
            "device": stated("ro.product.model") or self.host,
            "soc": stated("ro.soc.model") or stated("ro.board.platform"),
            "android_release": stated("ro.build.version.release"),
            "sdk": sdk if sdk is not None and 0 <= sdk < 1 << 31 else None,
            "build_fingerprint": stated("ro.build.fingerprint"),
            "kernel": self.kernel,
            "page_bytes": self.page_bytes,
            "storage_model": self.model_of(mount) if mount else None,
            "fs_type": mount.fs_type if mount else None,
            "encryption": self.encryption if mount == self.data else None,
            "clock": None,
            "workload": None,
            "rooted": self.is_root,
        }

    def stated(self, place: str | None = DATA) -> dict[str, Any]:
        """`manifest` without what is unknown."""
        return {name: value for name, value in self.manifest(place).items() if value is not None}


def facts(shell: Shell) -> Facts:
    """Queries the device. Raises `DeviceError` only where no command runs there."""
    answers = query_all(shell, _QUERIES, root=shell.has_root)
    blocks = _blocks(answers["blocks"], answers["slaves"])
    properties = _properties(answers["properties"])
    battery = _colons(answers["battery"])
    return Facts(
        properties=properties,
        host=_host(answers["host"]),
        kernel=_line(answers["kernel"]),
        machine=_line(answers["machine"]),
        page_bytes=_page_bytes(answers["page_size"]),
        is_root=shell.has_root,
        mounts=tuple(_mounts(answers["mounts"])),
        blocks=blocks,
        packages=_packages(answers["packages"], answers["listed"]),
        users=dict(_users(answers["users"])),
        screen=_screen(answers["screen"]),
        density=_last_integer(answers["density"]),
        battery_percent=integer(battery.get("level")),
        battery_c=_scaled(battery.get("temperature"), 10),
        is_charging=_charging(battery),
        throttling=integer(_colons(answers["thermal"]).get("Thermal Status")),
        temperatures_c=_temperatures(answers["zones"]),
        clock=clock(shell),
    )


def clock(shell: Shell) -> Clock | None:
    """The device's clocks, queried three times; the answer that came fastest is kept."""
    best: Clock | None = None
    for _ in range(_CLOCK_TRIES):
        began, began_mono = time.time(), time.monotonic()
        lines = shell.query("date +%s.%N; cat /proc/uptime").text.splitlines()
        took = time.monotonic() - began_mono
        realtime = _seconds(lines[0]) if lines else None
        if realtime is None:
            return None
        uptime = _seconds(lines[1].split(" ")[0]) if len(lines) > 1 else None
        # A date without fractions is on average half a second older than it says.
        whole = not _HAS_FRACTION.fullmatch(lines[0])
        read = Clock(
            realtime, uptime, realtime + (0.5 if whole else 0) - (began + took / 2), took / 2 + (0.5 if whole else 0)
        )
        if best is None or read.doubt_s < best.doubt_s:
            best = read
    return best


_CLOCK_TRIES = 3
_HAS_FRACTION = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)

_DISK_FILES = (
    *("dev", "size", "removable", "ro", "dm/name", "queue/rotational", "queue/scheduler", "queue/logical_block_size"),
    *(f"device/{name}" for name in ("vendor", "model", "rev", "name", "manfid", "type", "fwrev", "date")),
    *("device/life_time", "device/pre_eol_info"),
)
_BENEATH_UFS = "device/../../.."
"""From a logical unit to its controller."""

_QUERIES: dict[str, str] = {
    "properties": "getprop",
    "host": "uname -n",
    "kernel": "uname -r",
    "machine": "uname -m",
    "page_size": "getconf PAGE_SIZE || grep -m 1 KernelPageSize /proc/self/smaps",
    "mounts": "cat /proc/self/mountinfo",
    "blocks": " ".join(
        [
            "grep -s ''",
            *(f"/sys/block/*/{path}" for path in _DISK_FILES),
            *(f"/sys/block/*/*/{path}" for path in ("dev", "size", "start", "uevent")),
            f"/sys/block/*/{_BENEATH_UFS}/health_descriptor/*",
            "/dev/null",  # where nothing is found grep must not read its input
        ]
    ),
    "slaves": "printf '%s\\n' /sys/block/*/slaves/*",
    "packages": "pm list packages -f -U || pm list packages -f",
    "listed": "cat /data/system/packages.list",
    "users": "pm list users",
    "screen": "wm size",
    "density": "wm density",
    "battery": "dumpsys battery",
    "thermal": "dumpsys thermalservice",
    "zones": "grep -s '' /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp /dev/null",
}
"""The query for each part; sysfs by one grep, which is one process and not thousands."""


# -- what devices say -------------------------------------------------------------------------------------------------


def _line(lines: list[str]) -> str | None:
    return lines[0].strip() if lines else None


def _host(lines: list[str]) -> str | None:
    """Its name; the kernel's own is that of who has got none."""
    name = _line(lines)
    return None if name == "(none)" else name


def _page_bytes(lines: list[str]) -> int | None:
    """Of getconf, in bytes, or where there is none of the kernel: ``KernelPageSize: 16 kB``."""
    stated = re.fullmatch(r"(?:KernelPageSize:)?\s*([0-9]{1,9})( kB)?", _line(lines) or "", re.ASCII)
    size = int(stated[1]) * (1024 if stated[2] else 1) if stated else 0
    return size if 0 < size < 1 << 31 else None


def _properties(lines: list[str]) -> dict[str, str]:
    """``[name]: [value]``; a value may go on over more lines."""
    lines_of_one = re.finditer(r"^\[([^\[\]\n]+)\]: \[(.*?)\]$", "\n".join(lines), re.MULTILINE | re.DOTALL)
    return {match[1]: match[2] for match in lines_of_one}


def _mounts(lines: list[str]) -> Iterator[Mount]:
    """Of proc(5): … MAJ:MIN ROOT PLACE OPTIONS [TAGS…] - TYPE SOURCE OPTIONS. The last of one place is on top."""
    for line in lines:
        of_place, is_parted, of_filesystem = line.partition(" - ")
        first, second = of_place.split(" "), of_filesystem.split(" ")
        if is_parted and len(first) >= 6 and len(second) >= 3 and re.fullmatch("[0-9]+:[0-9]+", first[2], re.ASCII):
            place, source = _unescaped(first[4]), _unescaped(second[1])
            yield Mount(first[2], place, second[0], source, ",".join((first[5], second[2])))


def _unescaped(text: str) -> str:
    """What mountinfo writes with ``\\040`` and the like."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), text)


def _below(lines: list[str], top: str) -> Iterator[tuple[list[str], str]]:
    """The parts of a file's path below `top`, and a line in it, from each line of grep."""
    for line in lines:
        path, colon, value = line.partition(":")
        # Names in sysfs of SCSI have colons, but what is queried is reached by others.
        if colon and path.startswith(f"{top}/"):
            yield path.removeprefix(f"{top}/").split("/"), value


def _blocks(lines: list[str], slaves: list[str]) -> dict[str, Block]:
    disks: dict[str, dict[str, str]] = {}
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for (name, *below), value in _below(lines, "/sys/block"):
        path = "/".join(below)
        if len(below) == 2 and below[1] in {"dev", "size", "start"}:
            parts.setdefault((name, below[0]), {})[below[1]] = value
        elif len(below) == 2 and below[1] == "uevent":
            if value.startswith("PARTNAME="):
                parts.setdefault((name, below[0]), {})["label"] = value.removeprefix("PARTNAME=")
        elif path:
            disks.setdefault(name, {})[path.removeprefix(f"{_BENEATH_UFS}/")] = value
    mapped: dict[str, list[str]] = {}
    for line in slaves:
        words = line.split("/")
        if len(words) == 6 and "*" not in words:
            mapped.setdefault(words[3], []).append(words[5])
    blocks = {
        name: Block(
            name,
            stated["dev"],
            integer(stated.get("size")),
            None,
            None,
            stated.get("dm/name"),
            tuple(sorted(mapped.get(name, []))),
            {path: value for path, value in stated.items() if path not in {"dev", "size"}},
        )
        for name, stated in disks.items()
        if "dev" in stated
    }
    for (disk, name), stated in parts.items():
        if "dev" in stated and "start" in stated and disk in blocks:
            sizes = integer(stated.get("size")), integer(stated["start"])
            blocks[name] = Block(name, stated["dev"], *sizes, disk, stated.get("label"), (), {})
    return blocks


def _packages(lines: list[str], listed: list[str]) -> tuple[Package, ...]:
    """Of pm, ``package:FILE=NAME uid:N``, and of Android's own list, ``NAME N …``, where that can be read."""
    users: dict[str, int] = {}
    for line in listed:
        name, _, rest = line.partition(" ")
        uid = integer(rest.split(" ")[0])
        if uid is not None:
            users[name] = uid
    packages: dict[str, Package] = {}
    for line in lines:
        match = re.fullmatch(
            r"package:(?:(.*)=)?([^=]*?)(?: uid:([0-9]{1,9})(?:,[0-9,]*)?)?", line.rstrip("\r"), re.ASCII
        )
        if match and match[2]:
            packages[match[2]] = Package(match[2], integer(match[3]), match[1])
    for name, uid in users.items():
        known = packages.get(name)
        packages[name] = Package(name, uid, known.apk if known else None)
    return tuple(packages[name] for name in sorted(packages))


def _users(lines: list[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        match = re.search(r"UserInfo\{([0-9]{1,9}):(.*):[0-9a-fA-F]+\}", line, re.ASCII)
        if match:
            yield int(match[1]), match[2]


def _screen(lines: list[str]) -> tuple[int, int] | None:
    """An override stands behind the physical size, and holds."""
    matches = [re.search(r"size: ([0-9]{1,6})x([0-9]{1,6})", line, re.ASCII) for line in lines]
    sizes = [(int(match[1]), int(match[2])) for match in matches if match]
    return sizes[-1] if sizes else None


def _last_integer(lines: list[str]) -> int | None:
    numbers = [integer(line.rpartition(":")[2]) for line in lines]
    return next((number for number in reversed(numbers) if number is not None), None)


def _colons(lines: list[str]) -> dict[str, str]:
    """``name: value``; the first of a name holds, which is of the service and not of its history."""
    values: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    return values


def _charging(battery: Mapping[str, str]) -> bool | None:
    sources = [battery.get(f"{source} powered") for source in ("AC", "USB", "Wireless", "Dock")]
    return None if not any(sources) else "true" in sources


def _temperatures(lines: list[str]) -> dict[str, float]:
    """Zones state thousandths of a degree, and on some kernels degrees; what no phone has is no temperature."""
    zones: dict[str, dict[str, str]] = {}
    for (zone, *below), value in _below(lines, "/sys/class/thermal"):
        zones.setdefault(zone, {})["/".join(below)] = value
    celsius: dict[str, float] = {}
    for zone, files in sorted(zones.items()):
        raw = integer(files.get("temp"))
        if raw is None:
            continue
        degrees = raw / 1000 if abs(raw) >= _MOST_C else float(raw)
        if -_MOST_C < degrees < _MOST_C and raw != 0:
            name = files.get("type", zone).strip()
            celsius[name if name not in celsius else f"{name}.{zone.removeprefix('thermal_zone')}"] = degrees
    return celsius


_MOST_C = 200


def _scaled(text: str | None, divisor: int) -> float | None:
    value = integer(text)
    return None if value is None else value / divisor


def _seconds(text: str) -> float | None:
    """A time of date or of /proc; a date that knows no fractions writes other characters in their place."""
    match = re.match(r"([0-9]{1,12})(\.[0-9]+)?", text, re.ASCII)
    return float(match[0]) if match else None
