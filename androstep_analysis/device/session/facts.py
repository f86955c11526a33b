"""Read the facts of a device: system, processor, storage, filesystems, applications, screen, heat and clocks.

One command reads everything but the clocks, which take one of their own. Facts that are missing or have an unexpected
form are left out. The device is not trusted: nothing it says can make reading fail, is executed, or is used as a local
path.
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
"""Number of Linux user ids of each Android user (AID_USER_OFFSET). Packages are listed with the first user's."""

DATA = "/data"
"""Mount point of application data on Android."""


@dataclass(frozen=True)
class Mount:
    """A mounted filesystem: device number as ``MAJ:MIN``, mount point, type, source, and all options."""

    dev: str
    path: str
    fs_type: str
    source: str
    options: str


@dataclass(frozen=True)
class Block:
    """A block device: a disk, a partition (`parent` is its disk), or one mapped onto `slaves`.

    Sizes are in sectors of 512 bytes. `label` is the name of the partition or mapping. `attributes` has the sysfs
    attributes of a disk's model and health, by path below the disk (``device/model``, ``health_descriptor/eol_info``).
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
        """Vendor, model and revision (UFS, SCSI) or name (eMMC). Plain numbers, as of virtio, are left out."""
        parts = [self.attributes.get(f"device/{name}", "").strip() for name in ("vendor", "model", "rev", "name")]
        return " ".join(part for part in parts if part and not part.startswith("0x")) or None


@dataclass(frozen=True)
class Package:
    """An installed application: its name, and if stated its user id for Android's first user and its file."""

    name: str
    uid: int | None
    apk: str | None


@dataclass(frozen=True)
class Clock:
    """The device's clocks, and their offset from ours.

    `offset_s` is the device's time minus our time in seconds. `doubt_s` is its maximum error: half of the query's
    duration.
    """

    realtime_s: float
    uptime_s: float | None
    offset_s: float
    doubt_s: float


@dataclass(frozen=True)
class Facts:
    """The facts of a device. A missing fact is empty or None."""

    properties: Mapping[str, str]
    host: str | None
    """Host name. It is the same on every Android device."""
    kernel: str | None
    machine: str | None
    page_bytes: int | None
    """Size of the kernel's pages in bytes."""
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
    """Temperature by name of the thermal zone. Further zones of the same name are called ``name.N``."""
    clock: Clock | None

    @property
    def is_android(self) -> bool:
        """Whether it has Android's properties."""
        return "ro.build.version.release" in self.properties

    @cached_property
    def data(self) -> Mount | None:
        """The mount that holds /data: its own, or else the root filesystem."""
        return self.mount_of(DATA)

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount that holds a path. Of several at one mount point the last one counts."""
        over = [mount for mount in self.mounts if f"{path}/".startswith(f"{mount.path.rstrip('/')}/")]
        return max(reversed(over), key=lambda mount: len(mount.path), default=None)

    def disks_of(self, dev: str) -> list[Block]:
        """Return the disks below a block device (``MAJ:MIN``), through mappings and partitions."""
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
        """Return the model of the disk below a filesystem."""
        models = [disk.model for disk in self.disks_of(mount.dev)]
        return next((model for model in models if model), None)

    @property
    def encryption(self) -> str | None:
        """Encryption of /data: none, fbe (each file), metadata (fbe and the filesystem) or block (the device)."""
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
        """Return the package of a user id.

        If several packages share the user, the process' name decides; None if it matches none of them. The recorders
        make the same choice.
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
        """Return `manifest.FACTS`. Unknown facts, and facts that only a recording knows, are None.

        The storage facts describe the filesystem that holds `place`, a path without symbolic links. If `place` is None,
        there are none.
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
        """Return `manifest` without the unknown facts."""
        return {name: value for name, value in self.manifest(place).items() if value is not None}


def facts(shell: Shell) -> Facts:
    """Query the facts of a device. Raises `DeviceError` only if no command runs there."""
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
    """Query the device's clocks three times, and return the answer with the smallest error."""
    best: Clock | None = None
    for _ in range(_CLOCK_TRIES):
        began, began_mono = time.time(), time.monotonic()
        lines = shell.query("date +%s.%N; cat /proc/uptime").text.splitlines()
        took = time.monotonic() - began_mono
        realtime = _seconds(lines[0]) if lines else None
        if realtime is None:
            return None
        uptime = _seconds(lines[1].split(" ")[0]) if len(lines) > 1 else None
        # A date in whole seconds is on average half a second early.
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
"""Path from a logical unit of UFS to its controller."""

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
            "/dev/null",  # without a file grep would read standard input
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
"""Shell command for each query. A single grep reads all of sysfs, instead of thousands of processes."""


# -- parsers of the answers --------------------------------------------------------------------------------------------


def _line(lines: list[str]) -> str | None:
    return lines[0].strip() if lines else None


def _host(lines: list[str]) -> str | None:
    """Return the host name; "(none)" is the kernel's default."""
    name = _line(lines)
    return None if name == "(none)" else name


def _page_bytes(lines: list[str]) -> int | None:
    """Return the page size from getconf in bytes, or from smaps as ``KernelPageSize: 16 kB``."""
    stated = re.fullmatch(r"(?:KernelPageSize:)?\s*([0-9]{1,9})( kB)?", _line(lines) or "", re.ASCII)
    size = int(stated[1]) * (1024 if stated[2] else 1) if stated else 0
    return size if 0 < size < 1 << 31 else None


def _properties(lines: list[str]) -> dict[str, str]:
    """Parse ``[name]: [value]``. A value may span several lines."""
    lines_of_one = re.finditer(r"^\[([^\[\]\n]+)\]: \[(.*?)\]$", "\n".join(lines), re.MULTILINE | re.DOTALL)
    return {match[1]: match[2] for match in lines_of_one}


def _mounts(lines: list[str]) -> Iterator[Mount]:
    """Parse mountinfo, see proc(5): … MAJ:MIN ROOT MOUNTPOINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS."""
    for line in lines:
        of_place, is_parted, of_filesystem = line.partition(" - ")
        first, second = of_place.split(" "), of_filesystem.split(" ")
        if is_parted and len(first) >= 6 and len(second) >= 3 and re.fullmatch("[0-9]+:[0-9]+", first[2], re.ASCII):
            place, source = _unescaped(first[4]), _unescaped(second[1])
            yield Mount(first[2], place, second[0], source, ",".join((first[5], second[2])))


def _unescaped(text: str) -> str:
    r"""Decode octal escapes of mountinfo such as ``\040``."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), text)


def _below(lines: list[str], top: str) -> Iterator[tuple[list[str], str]]:
    """Parse ``path:value`` lines of grep; yield the path's parts below `top`, and the value."""
    for line in lines:
        path, colon, value = line.partition(":")
        # SCSI names in sysfs contain colons, but the queried paths do not go through them.
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
    """Merge pm's list, ``package:FILE=NAME uid:N``, with packages.list, ``NAME N …``, if that is readable."""
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
    """Return the last size: an override follows the physical size and takes precedence."""
    matches = [re.search(r"size: ([0-9]{1,6})x([0-9]{1,6})", line, re.ASCII) for line in lines]
    sizes = [(int(match[1]), int(match[2])) for match in matches if match]
    return sizes[-1] if sizes else None


def _last_integer(lines: list[str]) -> int | None:
    numbers = [integer(line.rpartition(":")[2]) for line in lines]
    return next((number for number in reversed(numbers) if number is not None), None)


def _colons(lines: list[str]) -> dict[str, str]:
    """Parse ``name: value``. The first value of a name counts, because later ones belong to the history."""
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
    """Return degrees Celsius by zone. Zones report millidegrees, or on some kernels degrees.

    Values that are impossible for a phone are dropped.
    """
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
    """Parse the time of date or /proc/uptime. A date without %N support prints other characters for the fraction."""
    match = re.match(r"([0-9]{1,12})(\.[0-9]+)?", text, re.ASCII)
    return float(match[0]) if match else None
