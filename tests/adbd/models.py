"""Models of phones with their answers. The values are typical of such phones; no real device's serial is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHELL_UID = 2000

_TOOLS = """
    [ awk base64 basename cat chgrp chmod chown cmp comm cp cut date dd df diff dirname du echo egrep env expr
    false fgrep find flock getconf grep gunzip gzip head hostname id ionice kill ln ls md5sum mkdir mkfifo mknod
    mktemp mount mountpoint mv nice nl nohup nproc od paste pidof pgrep pkill printenv printf ps pwd readlink
    realpath renice rm rmdir sed seq setsid sha1sum sha256sum sha512sum sleep sort split stat stty sync tac tail
    tar taskset tee test time timeout touch tr true truncate tty uname uniq umount uptime wc which xargs xxd yes
"""
TOOLS = tuple(_TOOLS.split())
"""The tools of toybox on a phone. Those that the host has are used, with the host's implementation."""

FEATURES = ("shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir", "fixed_push_symlink_timestamp")


@dataclass(frozen=True)
class Mount:
    """A line of /proc/self/mountinfo."""

    dev: str
    path: str
    fs_type: str
    source: str
    options: str = "rw,nosuid,nodev,noatime"
    of_filesystem: str = "rw"


@dataclass(frozen=True)
class Package:
    """An installed application; `uid` for the first user."""

    name: str
    uid: int
    apk: str
    version: int = 1


@dataclass(frozen=True)
class Model:
    """A phone.

    - `su`: ``c`` for ``su -c CMD``, ``0`` for ``su 0 CMD…``, None without su.
    - `uid`: user of adbd and its shells.
    - `sys`: texts of files below /sys; `links`: links below /sys.
    - `answers`: contents of files in /proc for `cat`, by path, and output of ``dumpsys NAME``, by its words.
    """

    properties: Mapping[str, str]
    kernel: str
    kernel_version: str
    mounts: tuple[Mount, ...]
    sys: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Package, ...] = ()
    users: tuple[tuple[int, str], ...] = ((0, "Owner"),)
    answers: Mapping[str, str] = field(default_factory=dict)
    uid: int = SHELL_UID
    su: str | None = None
    context: str = "u:r:shell:s0"
    enforcing: str = "Enforcing"
    features: tuple[str, ...] = FEATURES
    tools: tuple[str, ...] = TOOLS
    abi: str = "x86_64"
    lists_uids: bool = True
    clock_skew_s: int = 0

    @property
    def machine(self) -> str:
        """The processor in uname."""
        return {"arm64-v8a": "aarch64", "armeabi-v7a": "armv8l", "x86_64": "x86_64"}[self.abi]


_BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Max charging current: 500000
  status: 2
  health: 2
  present: true
  level: {level}
  scale: 100
  voltage: 4211
  temperature: {temperature}
  technology: Li-ion
"""

_THERMAL = """IsStatusOverride: false
ThermalEventListeners:
	callbacks: 2
Thermal Status: {status}
Cached temperatures:
	Temperature{{mValue=34.1, mType=3, mName=skin, mStatus={status}}}
HAL Ready: true
"""


def _answers(*, level: int = 87, temperature: int = 291, thermal: int = 0) -> dict[str, str]:
    return {
        "battery": _BATTERY.format(level=level, temperature=temperature),
        "thermalservice": _THERMAL.format(status=thermal),
    }


def _disk(name: str, dev: str, sectors: int, **more: str) -> dict[str, str]:
    """Return the files of a block device in /sys/block."""
    files = {"dev": dev, "size": str(sectors), "removable": "0", "ro": "0", "queue/logical_block_size": "4096"}
    files |= {"queue/rotational": "0", "queue/scheduler": "[none] mq-deadline", "queue/nr_requests": "63"}
    return {f"block/{name}/{path}": f"{text}\n" for path, text in (files | more).items()}


def _partition(disk: str, name: str, dev: str, start: int, sectors: int, label: str) -> dict[str, str]:
    number = name.removeprefix(disk).lstrip("p")
    major, minor = dev.split(":")
    uevent = f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE=partition\nPARTN={number}\nPARTNAME={label}"
    files = {"dev": dev, "start": str(start), "size": str(sectors), "partition": number, "uevent": uevent}
    return {f"block/{disk}/{name}/{path}": f"{text}\n" for path, text in files.items()}


def _mapped(name: str, dev: str, sectors: int, label: str) -> dict[str, str]:
    return _disk(name, dev, sectors, **{"dm/name": label, "dm/uuid": f"AB-{label}", "dm/suspended": "0"})


def _thermal(*zones: tuple[str, int]) -> dict[str, str]:
    return {
        f"class/thermal/thermal_zone{number}/{path}": f"{text}\n"
        for number, (kind, temperature) in enumerate(zones)
        for path, text in (("type", kind), ("temp", str(temperature)))
    }


_UFS = "devices/soc/14700000.ufs"
_UFS_DISK = f"{_UFS}/host0/target0:0:0/0:0:0:0"

_PIXEL_SYS = {
    **_disk("sda", "8:0", 249_823_232),
    **_partition("sda", "sda20", "259:4", 1_400_832, 17_825_792, "super"),
    **_partition("sda", "sda22", "259:6", 19_300_352, 230_000_000, "userdata"),
    **_partition("sda", "sda21", "259:5", 19_226_624, 32_768, "metadata"),
    **_disk("sdb", "8:16", 8192),
    **_mapped("dm-0", "254:0", 1_700_000, "system_a"),
    **_mapped("dm-40", "254:40", 230_000_000, "userdata"),
    **_disk("zram0", "252:0", 6_291_456),
    f"{_UFS_DISK}/vendor": "SKhynix \n",
    f"{_UFS_DISK}/model": "HN8T05DEHKX073  \n",
    f"{_UFS_DISK}/rev": "B004\n",
    f"{_UFS_DISK}/type": "0\n",
    f"{_UFS}/health_descriptor/eol_info": "0x01\n",
    f"{_UFS}/health_descriptor/life_time_estimation_a": "0x02\n",
    f"{_UFS}/health_descriptor/life_time_estimation_b": "0x01\n",
    f"{_UFS}/device_descriptor/specification_version": "0x0310\n",
    "fs/f2fs/dm-40/features": "encryption, quota_ino, verity, casefold, pin_file\n",
    "fs/f2fs/dm-40/gc_urgent": "0\n",
    "fs/f2fs/dm-40/lifetime_write_kbytes": "812345678\n",
    **_thermal(("BIG", 41_000), ("MID", 39_000), ("LITTLE", 38_000), ("battery", 29_100)),
    "class/power_supply/battery/type": "Battery\n",
    "class/power_supply/battery/capacity": "87\n",
    "class/power_supply/battery/temp": "291\n",
    "class/power_supply/battery/status": "Charging\n",
}
_PIXEL_LINKS = {
    "block/sda/device": f"../../{_UFS_DISK}",
    "block/dm-0/slaves/sda20": "../../../sda/sda20",
    "block/dm-40/slaves/sda22": "../../../sda/sda22",
}

_DATA_OPTIONS = (
    "rw,lazytime,seclabel,background_gc=on,nodiscard,user_xattr,inline_xattr,acl,inline_data,fsync_mode=nobarrier"
)

_PIXEL_MOUNTS = (
    Mount("254:0", "/", "ext4", "/dev/block/dm-0", "ro,nodev,noatime", "ro,seclabel"),
    Mount("0:22", "/dev", "tmpfs", "tmpfs", "rw,nosuid,relatime", "rw,seclabel,size=2883140k,mode=755"),
    Mount("259:5", "/metadata", "f2fs", "/dev/block/sda21", "rw,nosuid,nodev,noatime", "rw,seclabel"),
    Mount("254:40", "/data", "f2fs", "/dev/block/dm-40", "rw,nosuid,nodev,noatime", _DATA_OPTIONS),
    Mount("254:40", "/data/user/0", "f2fs", "/dev/block/dm-40", "rw,nosuid,nodev,noatime", _DATA_OPTIONS),
    Mount("0:96", "/storage/emulated", "fuse", "/dev/fuse", "rw,nosuid,nodev,noexec,noatime", "rw,user_id=0"),
)

_PACKAGES = (
    Package("android", 1000, "/system/framework/framework-res.apk"),
    Package("com.android.settings", 1000, "/system_ext/priv-app/SettingsGoogle/SettingsGoogle.apk"),
    Package("com.android.providers.media.module", 10_064, "/apex/com.android.mediaprovider/priv-app/MediaProvider.apk"),
    Package("com.android.chrome", 10_142, "/data/app/~~Yw3c==/com.android.chrome-1==/base.apk", 636_771_233),
    Package("com.google.android.gm", 10_150, "/product/app/PrebuiltGmail/PrebuiltGmail.apk"),
    Package("com.facebook.katana", 10_233, "/data/app/~~kD9a==/com.facebook.katana-2==/base.apk", 457_020_030),
    Package("com.google.android.gms", 10_111, "/data/app/~~gms==/com.google.android.gms-1==/base.apk"),
    Package("com.google.android.gsf", 10_111, "/system_ext/priv-app/GoogleServicesFramework/GSF.apk"),
)


def _properties(**more: str) -> dict[str, str]:
    return {"ro.build.type": "user", "ro.debuggable": "0", "persist.sys.timezone": "Asia/Seoul"} | {
        name.replace("__", "."): value for name, value in more.items()
    }


PIXEL = Model(
    properties=_properties(
        ro__product__manufacturer="Google",
        ro__product__brand="google",
        ro__product__model="Pixel 6a",
        ro__product__device="bluejay",
        ro__product__name="bluejay",
        ro__serialno="0A1BJEHZ000000",
        ro__board__platform="gs101",
        ro__hardware="bluejay",
        ro__soc__manufacturer="Google",
        ro__soc__model="Tensor",
        ro__build__version__release="14",
        ro__build__version__sdk="34",
        ro__build__version__security_patch="2024-03-05",
        ro__build__fingerprint="google/bluejay/bluejay:14/AP1A.240305.019.A1/11445699:user/release-keys",
        ro__crypto__state="encrypted",
        ro__crypto__type="file",
        ro__crypto__metadata__enabled="true",
        ro__boot__verifiedbootstate="orange",
    ),
    kernel="5.10.189-android13-4-00010-g4aeb9ba26ea4-ab11214040",
    kernel_version="#1 SMP PREEMPT Tue Dec 12 01:57:21 UTC 2023",
    mounts=_PIXEL_MOUNTS,
    sys=_PIXEL_SYS,
    links=_PIXEL_LINKS,
    packages=_PACKAGES,
    answers=_answers(),
    su="c",
)
"""Android 14, UFS, F2FS on a mapped device (metadata encryption), Magisk's su; shells have uid 2000."""

LOCKED = Model(
    properties={
        **PIXEL.properties,
        "ro.product.model": "Pixel 8",
        "ro.product.device": "shiba",
        "ro.product.name": "shiba",
        "ro.soc.model": "Tensor G3",
        "ro.board.platform": "zuma",
        "ro.build.fingerprint": "google/shiba/shiba:14/AP1A.240305.019.A1/11445699:user/release-keys",
        "ro.boot.verifiedbootstate": "green",
    },
    kernel="5.15.110-android14-11-gcc48824eebe8-dirty",
    kernel_version="#1 SMP PREEMPT Wed Nov 15 08:31:05 UTC 2023",
    mounts=_PIXEL_MOUNTS,
    sys=_PIXEL_SYS,
    links=_PIXEL_LINKS,
    packages=_PACKAGES,
    answers=_answers(level=12, temperature=447, thermal=2),
)
"""A retail Android 14 without root, warm and with a nearly empty battery."""

EMMC = Model(
    properties=_properties(
        ro__product__manufacturer="samsung",
        ro__product__brand="samsung",
        ro__product__model="SM-A125F",
        ro__product__device="a12",
        ro__product__name="a12nnxx",
        ro__serialno="R58R000000",
        ro__board__platform="mt6765",
        ro__hardware="mt6765",
        ro__build__version__release="11",
        ro__build__version__sdk="30",
        ro__build__version__security_patch="2022-01-01",
        ro__build__fingerprint="samsung/a12nnxx/a12:11/RP1A.200720.012/A125FXXU1BVA1:userdebug/test-keys",
        ro__crypto__state="encrypted",
        ro__crypto__type="file",
    )
    | {"ro.build.type": "userdebug", "ro.debuggable": "1"},
    kernel="4.19.188-22929451",
    kernel_version="#1 SMP PREEMPT Thu Jan 13 17:03:10 KST 2022",
    mounts=(
        Mount("179:38", "/", "ext4", "/dev/block/mmcblk0p38", "ro,nodev,noatime", "ro,seclabel"),
        Mount("179:40", "/data", "ext4", "/dev/block/mmcblk0p40", "rw,nosuid,nodev,noatime", "rw,noauto_da_alloc"),
        Mount("0:41", "/storage/emulated", "sdcardfs", "/data/media", "rw,nosuid,nodev,noexec,noatime", "rw"),
    ),
    sys={
        **_disk("mmcblk0", "179:0", 61_071_360, **{"queue/logical_block_size": "512", "queue/scheduler": "noop [cfq]"}),
        **_partition("mmcblk0", "mmcblk0p38", "179:38", 1_146_880, 8_388_608, "system"),
        **_partition("mmcblk0", "mmcblk0p40", "179:40", 12_000_000, 49_000_000, "userdata"),
        **_disk("mmcblk0boot0", "179:8", 8192),
        "devices/soc/mmc0/mmc0:0001/name": "DV6DAB\n",
        "devices/soc/mmc0/mmc0:0001/manfid": "0x000015\n",
        "devices/soc/mmc0/mmc0:0001/type": "MMC\n",
        "devices/soc/mmc0/mmc0:0001/rev": "0x8\n",
        "devices/soc/mmc0/mmc0:0001/fwrev": "0x0100000000000000\n",
        "devices/soc/mmc0/mmc0:0001/date": "06/2021\n",
        "devices/soc/mmc0/mmc0:0001/life_time": "0x02 0x01\n",
        "devices/soc/mmc0/mmc0:0001/pre_eol_info": "0x01\n",
        "class/mmc_host/mmc0/caps": "0x000004f7\n",
        **_thermal(("mtktscpu", 45_300), ("mtktsbattery", 30_000)),
        "class/power_supply/battery/type": "Battery\n",
        "class/power_supply/battery/capacity": "55\n",
    },
    links={"block/mmcblk0/device": "../../devices/soc/mmc0/mmc0:0001"},
    packages=_PACKAGES[:5],
    users=((0, "Owner"), (10, "Work profile")),
    answers=_answers(level=55, temperature=300),
    uid=0,
    context="u:r:su:s0",
    features=("shell_v2", "cmd", "stat_v2", "fixed_push_mkdir"),
)
"""Android 11, eMMC, ext4, file-based encryption; a userdebug build whose adbd runs as root."""

ODD = Model(
    properties=_properties(
        ro__product__manufacturer="LGE",
        ro__product__brand="lge",
        ro__product__model="LG-M700",
        ro__product__device="mh",
        ro__product__name="mh_global_com",
        ro__board__platform="msm8937",
        ro__build__version__release="8.1.0",
        ro__build__version__sdk="27",
        ro__build__fingerprint="lge/mh_global_com/mh:8.1.0/OPM1.171019.019/1906916025b13:user/release-keys",
        ro__crypto__state="unencrypted",
    ),
    kernel="3.18.71-perf-g6a5e9d2",
    kernel_version="#1 SMP PREEMPT Wed Mar 6 19:22:01 KST 2019",
    mounts=(
        Mount("179:24", "/system", "ext4", "/dev/block/bootdevice/by-name/system", "ro,relatime", "ro,seclabel"),
        Mount("179:54", "/data", "ext4", "/dev/block/bootdevice/by-name/userdata", "rw,nosuid,nodev", "rw,seclabel"),
    ),
    sys={
        **_disk("mmcblk0", "179:0", 61_071_360, **{"queue/logical_block_size": "512"}),
        **_partition("mmcblk0", "mmcblk0p54", "179:54", 12_000_000, 49_000_000, "userdata"),
        "devices/soc/mmc0/mmc0:0001/name": "HAG4a2\n",
        "devices/soc/mmc0/mmc0:0001/manfid": "0x000090\n",
        "devices/soc/mmc0/mmc0:0001/type": "MMC\n",
    },
    links={"block/mmcblk0/device": "../../devices/soc/mmc0/mmc0:0001"},
    packages=_PACKAGES[:4],
    answers={"battery": _BATTERY.format(level=100, temperature=250)},
    su="0",
    features=("cmd",),
    tools=tuple(tool for tool in TOOLS if tool not in {"sha256sum", "sha512sum", "stat", "awk", "timeout", "flock"}),
    lists_uids=False,
)
"""Android 8.1 with gaps: few tools, an old adbd, pm without uids, AOSP's su, no thermal service."""
