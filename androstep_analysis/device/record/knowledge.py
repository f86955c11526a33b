"""Check what a recording can report on the device's kernel: file names, owners of writes, direct I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from androstep_analysis.device.doctor import Finding
from androstep_analysis.device.session.queries import query_all
from androstep_analysis.device.session.shell import Shell

TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
"""Mount points of tracefs, on Linux 4.1 and later, and before."""

_DIRTIED = ("writeback/writeback_dirty_folio", "writeback/writeback_dirty_page")
_DIRECT = {
    "ext": ("iomap/iomap_dio_rw_begin", "ext4/ext4_direct_IO_enter"),
    "f2fs": ("f2fs/f2fs_direct_IO_enter",),
}
"""The events for direct I/O, by the prefix of the filesystem's type."""
_NAMED_BY_F2FS = ("f2fs/f2fs_lookup_end", "f2fs/f2fs_datawrite_start")

_EVENTS = (*_DIRTIED, *(name for events in _DIRECT.values() for name in events), *_NAMED_BY_F2FS)

_FANOTIFY = (5, 17)
"""The Linux version whose fanotify reports inodes with names."""

QUERIES = {
    "mounted": f"for d in {' '.join(TRACEFS)}; do [ -e $d/trace_clock ] && echo $d; done",
    "release": "uname -r",
    "fanotify": "[ -d /proc/sys/fs/fanotify ] && echo yes",
    "probes": f"for d in {' '.join(TRACEFS)}; do "
    "[ -e $d/kprobe_events ] && [ -e /sys/kernel/btf/vmlinux ] && echo $d; done",
    "telling": f"for d in {' '.join(TRACEFS)}; do for e in {' '.join(_EVENTS)}; do [ -d $d/events/$e ] && echo $e; "
    "done; done",
    "filesystems": "while read -r source place type rest; do case $source in /dev/*) echo $type $place; esac; "
    "done </proc/mounts",
}


def examine(shell: Shell) -> list[Finding]:
    """Return the findings for a device. Raises `DeviceError` only if no command runs there."""
    return list(findings(query_all(shell, QUERIES, root=shell.has_root)))


def findings(answers: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield the findings from the answers to `QUERIES`.

    If tracefs is not mounted, nothing is known yet: iotrace mounts it for itself.
    """
    if not answers["mounted"]:
        yield Finding(
            False,
            "cannot check what a recording will contain: tracefs is not mounted",
            "iotrace mounts it for itself if it may; to check now, as root: mount -t tracefs nodev /sys/kernel/tracing",
        )
        return
    events, types = set(answers["telling"]), _filesystems(answers["filesystems"])
    has_probes = bool(answers["probes"])
    yield _names(answers, has_probes, types == {"f2fs"} and events.issuperset(_NAMED_BY_F2FS))
    owners = not events.isdisjoint(_DIRTIED)
    yield _finding(
        owners, "owners of what is written back", "events of pages that become dirty", "this kernel has none"
    )
    silent = sorted(name for name in types if not _has_direct_events(name, events))
    why = (
        f"{', '.join(silent)} has no events of it here, and probes need CONFIG_KPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF"
    )
    yield _finding(has_probes or not silent, "direct reads and writes", "events" if not silent else "kprobes", why)


def _names(answers: Mapping[str, Sequence[str]], has_probes: bool, has_f2fs: bool) -> Finding:
    """Check whether names of files that are missing from listings and images can be resolved."""
    release = next(iter(answers["release"]), "unknown")
    has_fanotify = bool(answers["fanotify"]) and _version(release) >= _FANOTIFY
    by = {"kprobes": has_probes, "F2FS's events": has_f2fs, "fanotify": has_fanotify}
    why = (
        "probes need CONFIG_KPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF, fanotify CONFIG_FANOTIFY and Linux "
        f"{'.'.join(map(str, _FANOTIFY))}, and this is {release}"
    )
    sources = " and ".join(name for name, is_there in by.items() if is_there)
    return _finding(bool(sources), "names of files deleted during the recording", sources, why)


def _finding(ok: bool, what: str, by: str, why: str) -> Finding:
    return Finding(True, f"known: {what} (by {by})") if ok else Finding(False, f"not known: {what}", why)


def _version(release: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, found.groups())) if found else (0, 0)


def _filesystems(lines: Sequence[str]) -> set[str]:
    """Return the types of the filesystems on block devices; only that of /data if it is one of them."""
    rows = [line.split(" ", 1) for line in lines if " " in line]
    of_data = {fs_type for fs_type, place in rows if place == "/data"}
    return of_data or {fs_type for fs_type, _ in rows}


def _has_direct_events(fs_type: str, events: set[str]) -> bool:
    return any(fs_type.startswith(prefix) and not events.isdisjoint(names) for prefix, names in _DIRECT.items())
