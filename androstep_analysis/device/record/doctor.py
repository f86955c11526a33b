"""Check which parts of recording and measuring work on a device, and how to fix the others."""

from __future__ import annotations

import importlib.metadata
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.device import programs
from androstep_analysis.device.doctor import Finding
from androstep_analysis.device.record import knowledge, recording
from androstep_analysis.device.session import Session
from androstep_analysis.device.session.facts import Block, Facts, facts
from androstep_analysis.device.session.queries import query_all
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.parse import free_bytes
from androstep_analysis.ingest import record

TOOLS = ("cat", "chmod", "dd", "grep", "kill", "mkdir", "mv", "rm", "tail", "wc")
"""Commands that the device's shell must have for anything to work."""

_PROBES = ("iobench", "ioreplay", "iotrace", "extmap", "procmon")

_SCRATCH_BYTES = 256 << 20
"""Space for the programs and a small benchmark."""

_MEMORY_BYTES = 64 << 20
"""Space for some seconds of a recording."""

_SKEW_S = 1.0
_SLOW_S = 0.5
_LOW_PERCENT = 20
_WARM_C = 40.0
_WORN = 9
"""Wear level of UFS and eMMC: 1 is up to 10 % of the rated lifetime used, 11 all of it."""


@dataclass(frozen=True)
class Events:
    """Tracepoints of which one is enough. `prevents` says what is lost without any of them.

    `fs_type` limits the check to devices whose /data has this type. `or_probes`: iotrace can set kprobes for the same
    purpose if the kernel supports them.
    """

    what: str
    any_of: tuple[str, ...]
    prevents: str
    fs_type: str | None = None
    or_probes: bool = False


EVENTS = (
    Events("requests", ("block/block_rq_issue",), "no request can be recorded"),
    Events("completions of requests", ("block/block_rq_complete",), "no latency and no queue depth can be measured"),
    Events("bios", ("block/block_bio_queue",), "the process of a request stays unknown if another thread issues it"),
    Events(
        "dirtied pages",
        ("writeback/writeback_dirty_folio", "writeback/writeback_dirty_page"),
        "data that is written back cannot be attributed to processes",
    ),
    Events(
        "pages read in", ("filemap/mm_filemap_add_to_page_cache",), "reads cannot be attributed to files without FIEMAP"
    ),
    Events(
        "requested pages (record --readahead)",
        ("filemap/mm_filemap_get_pages",),
        "unused readahead cannot be measured",
        or_probes=True,
    ),
    Events(
        "mapped extents of ext4",
        ("ext4/ext4_es_insert_extent",),
        "files created and deleted during the recording stay unknown",
        "ext4",
    ),
    Events(
        "submitted pages of F2FS",
        tuple(f"f2fs/f2fs_submit_{kind}" for kind in ("page_write", "folio_write", "page_bio", "folio_bio")),
        "metadata, nodes and data of F2FS cannot be distinguished",
        "f2fs",
    ),
    Events(
        "dropped pages of ext4",
        ("ext4/ext4_invalidate_folio", "ext4/ext4_invalidatepage"),
        "the writer of a page whose earlier contents were dropped is only inferred",
        "ext4",
    ),
    Events(
        "stores to mapped pages of F2FS",
        ("f2fs/f2fs_vm_page_mkwrite",),
        "stores to a page that is already dirty stay unknown",
        "f2fs",
    ),
    Events("mapped blocks of F2FS", ("f2fs/f2fs_map_blocks",), "files that F2FS moves stay unknown", "f2fs"),
    Events("system calls", ("raw_syscalls/sys_enter",), "no replay program can be made (preset block+fs+syscalls)"),
)
"""The events on which iotrace's presets depend (probes/iotrace/presets.c)."""


_ALL_EVENTS = sorted({name for events in EVENTS for name in events.any_of})

_QUERIES = {
    "tracefs": f"for d in {' '.join(knowledge.TRACEFS)}; do [ -d $d/events/block ] && echo $d && break; done",
    "events": f"for d in {' '.join(knowledge.TRACEFS)}; do "
    f"for e in {' '.join(_ALL_EVENTS)}; do [ -d $d/events/$e ] && echo $e; done; done",
    "kprobes": f"for d in {' '.join(knowledge.TRACEFS)}; do [ -e $d/kprobe_events ] && echo $d; done",
    "btf": "[ -e /sys/kernel/btf/vmlinux ] && echo yes",
    **knowledge.QUERIES,
    "selinux": "getenforce",
    "context": "id -Z || cat /proc/self/attr/current",
    "memory": f"df -k {' '.join(recording.MEMORY)}",
    "packages": "[ -r /data/system/packages.list ] && echo yes",
    "su": "command -v su",
    "perfetto": "command -v perfetto",
    "tools": "for t in " + " ".join(TOOLS) + "; do command -v $t >/dev/null || echo $t; done",
}


def examine(device: Session) -> list[Finding]:
    """Return all findings, most important first. Raises `DeviceError` only if no command runs on the device."""
    return list(_examined(device))


def _examined(device: Session) -> Iterator[Finding]:
    yield _link(device)
    answers = query_all(device, _QUERIES, root=device.has_root)
    known = facts(device)
    yield _tools(answers["tools"])
    yield _copies(device)
    yield _scratch(device)
    yield from _probes(device, known.page_bytes)
    yield _root(device, bool(answers["su"]))
    if not device.has_root:
        yield _perfetto(bool(answers["perfetto"]))
    yield from _tracing(device, answers, known)
    yield _memory(answers["memory"])
    yield _listing(device, known)
    yield from _android(answers, known)
    yield from _clock(known)
    yield from _health(known)


# -- connection and basic operation --------------------------------------------------------------------------------


def _link(device: Session) -> Finding:
    began = time.monotonic()
    device.answers()
    device.sh(["true"])
    took = time.monotonic() - began
    return Finding(
        took < _SLOW_S,
        f"{device.name}: a command takes {took * 1000:.0f} ms",
        "" if took < _SLOW_S else "progress is delayed and small copies are slow; use a cable instead of Wi-Fi",
        needed=False,
    )


def _tools(missing: Sequence[str]) -> Finding:
    if not missing:
        return Finding(True, "the device's shell and its tools", needed=True)
    return Finding(
        False,
        f"the device's shell has no {', '.join(missing)}",
        "nothing can be run or copied; install toybox or busybox, and put it on the shell's PATH",
        needed=True,
    )


def _copies(device: Session) -> Finding:
    try:
        hasher = device.hasher
    except DeviceError:
        return Finding(
            False, "no sha256sum and no md5sum", "no copy can be verified; install toybox or busybox", needed=True
        )
    return Finding(True, f"copies are verified by {hasher.command}", needed=True)


def _scratch(device: Session) -> Finding:
    place = device.scratch
    try:
        lines = device.checked(f"df -k {quoted([device.directory])}", "check the free space").decode("utf-8", "replace")
    except DeviceError as error:
        return Finding(
            False, f"{place} cannot be used", f"no program can be copied there ({error}); free some space", needed=True
        )
    free = free_bytes(lines.splitlines())
    if free is None:
        return Finding(True, f"{place} is writable; its free space is unknown", needed=True)
    room = free >= _SCRATCH_BYTES
    advice = "" if room else f"benchmarks fail; make room for at least {_SCRATCH_BYTES >> 20} MiB there"
    return Finding(room, f"{free >> 20:,} MiB free in {place}", advice)


def _probes(device: Session, page_bytes: int | None) -> Iterator[Finding]:
    """Check that our programs exist for the processor, run on the device, and have this version."""
    pages = "" if page_bytes is None else f", pages of {page_bytes} bytes"
    what = f"processor {device.abi}{pages}"
    version = importlib.metadata.version("androstep")
    try:
        answers = {name: device.sh([device.probe(name), "--describe"]) for name in _PROBES}
    except InputError as error:
        yield Finding(False, what, f"nothing can be recorded or measured ({error})", needed=True)
        return
    yield Finding(True, what, needed=True)
    for name, answer in answers.items():
        if answer.status:
            advice = f"it does not run there ({answer.complaint}); {programs.advice()}"
            yield Finding(False, name, advice, needed=True)
        elif f'"{version}"'.encode() not in answer.output:
            advice = f"its records may not be understood; {programs.advice()}"
            yield Finding(False, f"{name} is not of version {version}", advice, needed=True)
    if all(answer.status == 0 for answer in answers.values()):
        yield Finding(True, f"{', '.join(_PROBES)} run there", needed=True)


# -- recording --------------------------------------------------------------------------------------------------------


def _root(device: Session, has_su: bool) -> Finding:
    if device.has_root:
        return Finding(True, "root")
    mend = "allow adb's shell in the app that manages su" if has_su else "use a rooted or userdebug build (`adb root`)"
    return Finding(False, "no root", f"iotrace cannot record, and caches cannot be dropped; {mend}")


def _perfetto(is_there: bool) -> Finding:
    if is_there:
        return Finding(True, "perfetto, which records without root what Android permits (docs/stock_phone.md)")
    return Finding(False, "no perfetto", "nothing can be recorded without root; Android has it since version 9")


def _tracing(device: Session, answers: dict[str, list[str]], known: Facts) -> Iterator[Finding]:
    if not device.has_root:
        yield Finding(False, "tracepoints: not checked", "they are visible to root only; see above")
        return
    if not answers["mounted"]:
        yield from knowledge.findings(answers)
        return
    if not answers["tracefs"]:
        advice = "nothing can be recorded; use a kernel with CONFIG_BLK_DEV_IO_TRACE"
        yield Finding(False, f"no block tracepoints in {answers['mounted'][0]}", advice)
        return
    yield Finding(True, f"block tracepoints in {answers['tracefs'][0]}")
    there = set(answers["events"])
    fs_type = known.data.fs_type if known.data else None
    for events in EVENTS:
        if events.fs_type in (None, fs_type):
            can_probe = events.or_probes and answers["kprobes"] and answers["btf"]
            ok = bool(can_probe) or not there.isdisjoint(events.any_of)
            named = " or ".join(name.partition("/")[2] for name in events.any_of)
            named += ", or kprobes and BTF" if events.or_probes else ""
            advice = "" if ok else f"{events.prevents}; use a kernel that has {named}"
            yield Finding(ok, f"events: {events.what}", advice)
    for option, present, what, prevents in (
        ("KPROBE_EVENTS", answers["kprobes"], "kprobes", "direct reads and files of FUSE and exFAT stay unknown"),
        (
            "DEBUG_INFO_BTF",
            answers["btf"],
            "BTF of the kernel",
            "kprobes record no paths, and no replay can be made",
        ),
    ):
        yield Finding(bool(present), what, "" if present else f"{prevents}; use a kernel with CONFIG_{option}")
    yield from knowledge.findings(answers)


def _memory(lines: Sequence[str]) -> Finding:
    """Check the memory for recordings, which stay there until they are fetched."""
    free = max((room for line in lines if (room := free_bytes([line])) is not None), default=None)
    if free is None:
        return Finding(False, "no memory to record into", "name a directory on unrecorded storage with memory=")
    room = free >= _MEMORY_BYTES
    advice = "" if room else "recordings end early; restart the device, or record fewer devices"
    return Finding(room, f"{free >> 20:,} MiB of memory to record into", advice)


def _listing(device: Session, known: Facts) -> Finding:
    """Check that extmap gets the extents of a file in /data by FIEMAP."""
    fs_type = known.data.fs_type if known.data else "its filesystem"
    failing = "the file of a request stays unknown unless an event names it; record an image of the filesystem, too"
    try:
        extents = _extents(device)
    except InputError as error:
        return Finding(False, f"FIEMAP of {fs_type} on {device.scratch}", f"{failing} ({error})")
    what = f"FIEMAP of {fs_type} on {device.scratch}"
    return Finding(True, what) if extents else Finding(False, f"{what} knows no blocks", failing)


def _extents(device: Session) -> int:
    """Return the number of extents that extmap lists for a new file of 64 KiB."""
    place = device.new_directory(device.directory)
    records = f"{device.directory}/listing.rec"
    write = f"dd if=/dev/zero of={quoted([f'{place}/file'])} bs=65536 count=1 && sync"
    device.checked(write, "write a file")
    words = [device.probe("extmap"), "--same-filesystem", "-o", records, place]
    device.checked(quoted(words), "list a file", root=device.has_root)
    with TemporaryDirectory() as here:
        device.pull(records, Path(here) / "listing.rec", root=device.has_root)
        table = record.read(Path(here) / "listing.rec").tables.get("extent")
    if table is None or "nr_sectors" not in table.columns:
        return 0
    return table.filter(pl.col("nr_sectors") > 0).height


# -- Android ----------------------------------------------------------------------------------------------------------


def _android(answers: dict[str, list[str]], known: Facts) -> Iterator[Finding]:
    if not known.is_android:
        return
    mode = answers["selinux"][0].strip() if answers["selinux"] else "unknown"
    context = answers["context"][0].strip("\0 ") if answers["context"] else "unknown"
    yield Finding(True, f"SELinux {mode}, {context}", "what it denies shows in `logcat` as avc: denied")
    yield _encryption(known)
    readable = bool(answers["packages"]) or any(package.uid is not None for package in known.packages)
    yield Finding(
        readable,
        f"{len(known.packages)} packages" if readable else "the user ids of packages are not readable",
        "" if readable else "requests cannot be attributed to apps whose processes hide their names; record as root",
    )


def _encryption(known: Facts) -> Finding:
    prevents = {
        "fbe": "an image of /data shows no names and no contents; list files on the unlocked device instead",
        "metadata": "an image of /data cannot be read at all; list files on the unlocked device instead",
        "block": "an image of the partition cannot be read; record the mapped device",
    }
    kind = known.encryption
    return Finding(True, f"encryption of /data: {kind or 'unknown'}", prevents.get(kind or "", ""))


# -- clocks and health ------------------------------------------------------------------------------------------------


def _clock(known: Facts) -> Iterator[Finding]:
    clock = known.clock
    if clock is None:
        yield Finding(False, "the device's clock cannot be read", "captures cannot be aligned with other logs by time")
        return
    near = abs(clock.offset_s) - clock.doubt_s < _SKEW_S
    yield Finding(
        near,
        f"clock {clock.offset_s:+.3f} s from this machine's (± {clock.doubt_s:.3f} s)",
        "" if near else "captures cannot be aligned with logs of this machine; turn on network time there",
    )


def _health(known: Facts) -> Iterator[Finding]:
    for what, value, is_bad, advice in _states(known):
        if value is not None:
            bad = is_bad(value)
            yield Finding(not bad, what.format(value), advice if bad else "")
    for disk in known.disks_of(known.data.dev) if known.data else ():
        worn = [level for level in _wear(disk) if level >= _WORN]
        if worn:
            yield Finding(False, f"{disk.model or disk.name} is worn out ({max(worn)} of 11)", "it is not typical")


_State = tuple[str, float | int | None, Callable[[float], bool], str]


def _states(known: Facts) -> Iterator[_State]:
    charging = bool(known.is_charging)
    low = "charge it: a low battery slows storage and processor" if not charging else "wait until it is charged"
    yield "battery at {} %", known.battery_percent, lambda percent: percent < _LOW_PERCENT, low
    yield "battery at {} °C", known.battery_c, lambda celsius: celsius > _WARM_C, "let it cool: warm devices are slowed"
    throttled = "benchmarks are slowed by heat; let the device cool, screen off, out of its case"
    yield "thermal status {}", known.throttling, lambda status: status > 0, throttled


def _wear(disk: Block) -> Iterator[int]:
    """Yield the used lifetime in tenths, of eMMC (two numbers in one file) and UFS."""
    levels = [text for path, text in disk.attributes.items() if "life_time" in path]
    for word in " ".join(levels).split():
        if re.fullmatch("0x[0-9a-fA-F]{1,2}", word):
            yield int(word, 16)
