"""Perfetto configurations: for a phone without root, and to record with Perfetto while iotrace records with root.

Without root, everything is recorded that a user build lets adb's shell record.

The events are those related to storage that Android's SELinux policy permits on user builds (AOSP, system/sepolicy,
label `debugfs_tracing` in private/genfs_contexts; Android 11 to 16). `perfetto` refuses a configuration with an unknown
field, so only fields that Android 11 knows are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

FILESYSTEMS: Final = ("ext4", "f2fs")
"""Filesystems with events of their own in this configuration."""

LONGEST_S: Final = 3600
"""The longest recording in seconds."""

_TASKS: Final = ("task/task_newtask", "task/task_rename", "sched/sched_process_exit", "sched/sched_process_free")

_EVENTS: Final = (
    *("block/block_rq_issue", "block/block_rq_complete"),
    *("filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_delete_from_page_cache"),
    *_TASKS,
    *("sched/sched_blocked_reason", "oom/oom_score_adj_update"),
)

_OF_FILESYSTEM: Final = {
    "ext4": (
        *("ext4/ext4_da_write_begin", "ext4/ext4_da_write_end"),
        *("ext4/ext4_es_lookup_extent_enter", "ext4/ext4_es_lookup_extent_exit", "ext4/ext4_load_inode"),
        *("ext4/ext4_sync_file_enter", "ext4/ext4_sync_file_exit"),
    ),
    "f2fs": (
        *("f2fs/f2fs_get_data_block", "f2fs/f2fs_iget", "f2fs/f2fs_write_begin", "f2fs/f2fs_write_end"),
        *("f2fs/f2fs_sync_file_enter", "f2fs/f2fs_sync_file_exit"),
    ),
}


class _Sizes(NamedTuple):
    """Kernel buffer of each CPU and the interval to drain it; the service's buffer and the interval to write it."""

    kernel_kb: int
    drain_ms: int
    buffer_kb: int
    write_ms: int


_SHORT_S: Final = 600
_SHORT: Final = _Sizes(16384, 250, 65536, 2500)
"""For up to `_SHORT_S`.

A thread that drops caches makes about a million events a second, of 40 bytes in the kernel and 25 in the trace. Both
buffers can hold them until they are drained.
"""
_LONG: Final = _Sizes(4096, 250, 32768, 5000)
"""For hours of ordinary use: takes less of the phone's memory, and writes to its storage half as often."""

_LARGEST_BYTES: Final = 4 << 30


def events(fs_types: Collection[str] = FILESYSTEMS) -> list[str]:
    """Return the permitted events as ``group/name``, with those of the filesystems `fs_types`."""
    return [*_EVENTS, *(name for fs_type in FILESYSTEMS if fs_type in fs_types for name in _OF_FILESYSTEM[fs_type])]


_SWITCHES: Final = ("sched/sched_switch", "sched/sched_blocked_reason")
"""The events of which table `blocked` is made. The first one occurs thousands of times a second."""

_SLICES: Final = ("am", "wm", "view")
"""Categories of atrace that show the start of an app."""

_FRAMES: Final = "android.surfaceflinger.frametimeline"


def config(fs_types: Collection[str] = FILESYSTEMS, seconds: int = LONGEST_S, *, switches: bool = False) -> str:
    """Return the configuration as text for ``perfetto --txt -c -``.

    It includes the frame timeline (Android 12 and later), and with `switches` the events of table `blocked`.
    """
    names = [*events(fs_types), *(_SWITCHES if switches else ())]
    return "\n".join(_lines(dict.fromkeys(names), (), seconds)) + "\n"


def config_with_root(*, switches: bool = False) -> str:
    """Return the configuration for Perfetto while iotrace records the kernel's events.

    It records what iotrace does not: slices, the frame timeline, packages, and with `switches` the events of table
    `blocked`. The events of tasks identify main threads.
    """
    return "\n".join(_lines([*_TASKS, *(_SWITCHES if switches else ())], _SLICES, LONGEST_S)) + "\n"


def _lines(names: Collection[str], slices: Collection[str], seconds: int) -> Iterator[str]:
    sizes = _SHORT if seconds <= _SHORT_S else _LONG
    yield f"buffers {{ size_kb: {sizes.buffer_kb} fill_policy: DISCARD }}"
    yield "buffers { size_kb: 4096 fill_policy: DISCARD }"
    yield from _source("linux.ftrace", 0, "ftrace_config", _ftrace(names, slices, sizes))
    processes = ["scan_all_processes_on_start: true", "record_thread_names: true"]
    yield from _source("linux.process_stats", 1, "process_stats_config", processes)
    yield from _source("android.packages_list", 1)
    yield from _source(_FRAMES, 1)
    yield f"duration_ms: {seconds * 1000}"
    yield "write_into_file: true"
    yield f"file_write_period_ms: {sizes.write_ms}"
    yield f"max_file_size_bytes: {_LARGEST_BYTES}"
    yield "flush_period_ms: 10000"


def _ftrace(names: Collection[str], slices: Collection[str], sizes: _Sizes) -> Iterator[str]:
    for name in names:
        yield f'ftrace_events: "{name}"'
    for category in slices:
        yield f'atrace_categories: "{category}"'
    yield "compact_sched { enabled: false }"
    yield f"buffer_size_kb: {sizes.kernel_kb}"
    yield f"drain_period_ms: {sizes.drain_ms}"


def _source(name: str, buffer: int, kind: str = "", settings: Collection[str] | Iterator[str] = ()) -> Iterator[str]:
    yield "data_sources {"
    yield "  config {"
    yield f'    name: "{name}"'
    yield f"    target_buffer: {buffer}"
    if kind:
        yield f"    {kind} {{"
        yield from (f"      {line}" for line in settings)
        yield "    }"
    yield "  }"
    yield "}"
