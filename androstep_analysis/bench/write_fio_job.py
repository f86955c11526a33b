"""Conversion of runs of iobench to job files of fio, the reverse of `fio_job`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from androstep_analysis.common.errors import InputError

Row = Mapping[str, Any]
"""A row of table bench_runs."""

_RANGE: Final = ("wait_before", "write", "wait_after")
_SYNC: Final = {"osync": "sync", "direct_osync": "sync", "odsync": "dsync"}
_LACKING: Final = {
    **dict.fromkeys(("fbarrier", "fdatabarrier"), "barriers"),
    "mmap_async": "msync(MS_ASYNC) after a record",
    "rwf_dsync": "writes with RWF_DSYNC",
}


def write(runs: Sequence[tuple[Row, Sequence[str]]]) -> str:
    """Return a job file with a section for each repetition of each run.

    `runs` are rows of table bench_runs, each with its swept options. Raises `InputError` for what fio cannot do.
    """
    for row, _ in runs:
        if what := _lacks(row):
            raise InputError(f"--to-fio: fio has no {what}")
    lines = ["; made by androstep bench --to-fio"]
    if any(row["rate_asked"] for row, _ in runs):
        lines.append("; fio's latencies count from the submission, not from when an operation was due")
    if any(row["think_ns"] for row, _ in runs):
        lines.append("; fio's rates include the pauses")
    for point, (row, swept) in enumerate(runs, 1):
        for repeat in range(1, row["repeats"] + 1):
            lines += ["", f"[point{point}-repeat{repeat}]", f"description={' '.join((row['test'], *swept))}"]
            # fio lays out the files of all sections before it starts the first, which removes its own. So each section
            # gets files of its own. A section with one worker lays them out only when it starts.
            several = len(runs) > 1 or row["repeats"] > 1
            is_late = several and not _filename(row) and row["threads"] == 1
            made = _job(row, f"test.dat.{point}.{repeat}." if several else "test.dat")
            options = [("stonewall", 1), *made, *([("create_serialize", 0)] if is_late else [])]
            lines += [f"{name}={value}" for name, value in options]
    return "\n".join(lines) + "\n"


def _words(row: Row) -> list[str]:
    return shlex.split(row["command"] or "")


def _filename(row: Row) -> bool:
    """Return whether the run measures an existing file or device."""
    return any(word == "--filename" or word.startswith("--filename=") for word in _words(row))


def _modes(row: Row) -> list[str]:
    return str(row["sync_mode"]).split("+")


def _is_shared(row: Row) -> bool:
    return bool(row["shared"]) and row["threads"] > 1


def _reads(row: Row) -> bool:
    return row["test"] in ("seq_read", "rand_read")


def _lacks(row: Row) -> str | None:
    """Return the property of a run that fio cannot reproduce, or None."""
    if row["workload"] != "file":
        return str(row["test"])
    if row["compat_rng"]:
        return "Mobibench's orders"
    if row["overlap_percent"]:
        return "records that overlap by per cent"
    if {"\n", "\r"} & set(row["directory"]):
        return "paths with a line end"
    return next((what for mode, what in _LACKING.items() if mode in _modes(row)), None) or _lacks_shares(row)


def _lacks_shares(row: Row) -> str | None:
    """Return the property that fio cannot divide among workers, or None. In fio, all workers have equal shares."""
    if (row["ops_asked"] or 0) % row["threads"]:
        return "workers with different numbers of records (make --number_ios a multiple of --numjobs)"
    if (row["rate_asked"] or 0) % row["threads"]:
        return "workers with different rates (make --rate_iops a multiple of --numjobs)"
    if not _is_shared(row):
        return None
    if row["test"].startswith("rand") or row["test"] == "append":
        return "workers that share one random order, or append to one file"
    if row["file_bytes"] // row["block_bytes"] % row["threads"]:
        return "workers with parts of different sizes"
    return None


Options = Iterator[tuple[str, object]]


def _job(row: Row, name: str) -> Options:
    """Yield the options of a job whose files begin with `name`."""
    yield from (("group_reporting", 1), ("numjobs", row["threads"]), ("thread", int(not row["processes"])))
    yield from _file_options(row, name)
    yield from _access(row)
    if not _filename(row) and not _reads(row):
        yield ("overwrite", int(row["layout"] == "written"))
        yield ("fallocate", "native" if row["layout"] == "allocated" else "none")
    yield from _mode(row)
    yield from _end(row)
    yield from _cache(row)
    if row["compress_percent"]:
        yield ("buffer_compress_percentage", row["compress_percent"])
    if row["dedupe_percent"]:
        yield ("dedupe_percentage", row["dedupe_percent"])
    yield ("randseed", row["seed"] % (1 << 64))


def _file_options(row: Row, name: str) -> Options:
    path = row["directory"].replace(":", "\\:")  # fio ends a path there
    if _filename(row):
        yield from (("filename", path), ("allow_file_create", 0))
        return
    yield ("directory", path)
    yield ("filename", name) if row["shared"] else ("filename_format", f"{name}$jobnum")
    yield ("unlink", int("--keep" not in _words(row)))


def _access(row: Row) -> Options:
    kind, is_random = row["test"].rpartition("_")[2], row["test"].startswith("rand")
    size = row["file_bytes"] // row["threads"] if _is_shared(row) else row["file_bytes"]
    yield ("rw", ("rand" if is_random else "") + {"mixed": "rw", "append": "write"}.get(kind, kind))
    if kind == "mixed":
        yield ("rwmixread", row["read_percent"])
    if is_random:
        # fio's default generator takes the next record if a record was drawn before, so its orders end in sequences.
        yield ("random_generator", "lfsr")
    yield ("size", size)
    if _is_shared(row):
        yield ("offset_increment", size)
    yield ("bs", row["block_bytes"])


def _mode(row: Row) -> Options:
    modes, depth = _modes(row), row["depth"]
    yield from (("ioengine", row["engine"]), ("iodepth", depth))
    if row["engine"] == "io_uring":
        yield from (("registerfiles", 1), ("fixedbufs", 1), ("iodepth_batch_submit", depth))
        yield from (("iodepth_batch_complete_min", 1), ("iodepth_batch_complete_max", depth))
    if {"direct", "direct_osync"} & set(modes):
        yield ("direct", 1)
    yield from (("sync", word) for mode, word in _SYNC.items() if mode in modes)
    if _reads(row):
        return
    yield from ((mode, row["after_every"]) for mode in ("fsync", "fdatasync") if mode in modes)
    if "sync_file_range" in modes:
        flags = [flag for flag in _RANGE if flag in modes] or _RANGE
        yield ("sync_file_range", f"{','.join(flags)}:{row['after_every']}")
    if "mmap_sync" in modes:
        yield ("direct", 1)  # fio's mmap engine then calls msync(MS_SYNC) after each record
    yield ("end_fsync", int(row["final_sync"]))


def _end(row: Row) -> Options:
    ops = (row["ops_asked"] or 0) // row["threads"]
    if row["duration_asked_ns"]:
        yield from (("time_based", 1), ("runtime", f"{row['duration_asked_ns'] // 1000}us"))
    if row["warmup_ns"]:
        yield ("ramp_time", f"{row['warmup_ns'] // 1000}us")
    if ops and row["duration_asked_ns"]:
        yield ("number_ios", ops)
    elif ops:
        yield ("io_size", ops * row["block_bytes"])
    elif (row["loops"] or 1) > 1:
        yield ("loops", row["loops"])
    if row["rate_asked"]:
        yield ("rate_iops", row["rate_asked"] // row["threads"])
    if row["think_ns"]:
        yield ("thinktime", row["think_ns"] // 1000)


def _cache(row: Row) -> Options:
    # fio always drops the files that it laid out from the cache, and with `invalidate` again after each pass over the
    # file.
    drops = _filename(row) or (not row["duration_asked_ns"] and (row["loops"] or 1) <= 1)
    yield ("invalidate", int(row["cache_asked"] == "cold" and drops))
    if row["cache_asked"] == "warm":
        yield ("pre_read", 1)
    yield ("fadvise_hint", 0)  # iobench leaves read-ahead to the kernel, as applications do
