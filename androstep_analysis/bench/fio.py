"""Reader of fio's output: its text, and its JSON (json, json+)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from androstep_analysis.bench.tables import Part, foreign, names
from androstep_analysis.common import files
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.results import Results

TESTS: Final = {
    "read": "seq_read",
    "write": "seq_write",
    "randread": "rand_read",
    "randwrite": "rand_write",
    "rw": "seq_mixed",
    "readwrite": "seq_mixed",
    "randrw": "rand_mixed",
}
"""The test for each value of fio's rw. Its trim modes have none."""

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9}
_TIMES = {"nsec": 1, "usec": 10**3, "msec": 10**6, "sec": 10**9}
_DIRECTIONS = ("read", "write")

_SETUP = re.compile(r"(?m)^(.+): \(g=(\d+)\): rw=(\w+), bs=(.+?), ioengine=(\w+), iodepth=(\d+)$")
_RESULT = re.compile(r"(?m)^(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(\d+)(.*)$")


_TERSE = re.compile(r"\d;fio-")


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is from fio."""
    return (
        b'"fio version"' in head[: 1 << 12]
        or _is_terse(head)
        or _SETUP.search(head.decode("utf-8", "replace")) is not None
    )


def _is_terse(head: bytes) -> bool:
    return _TERSE.match(head[:16].decode("latin-1")) is not None


def read(text: str, origin: bytes) -> Results:
    """Return the jobs in `text`. The runs are named after `origin`, the bytes of the file.

    A job is a run, and so is a group of jobs that fio reports together. Clones of a job that fio reports separately are
    the threads of one run. Parts `read` and `write` have fio's completion latencies, `sync` those of its syncs, and
    `op` its total latencies. Without a separate submission time, these correspond to iobench's.

    Raises `ValueError`, `TypeError` or `LookupError` if the text is not from fio, and `InputError` for terse output.
    """
    if _is_terse(origin):
        raise InputError("fio's terse output lacks the test; run it with --output-format=json")
    start = text.find("{")
    if '"fio version"' in text and start >= 0:
        return _read_json(text[start:], origin)
    return _read_text(text, origin)


# -- text -------------------------------------------------------------------------------------------------------------


def _read_text(text: str, origin: bytes) -> Results:
    version = re.search(r"(?m)^fio-(\S+)$", text)
    disks = re.findall(r"(?m)^ +(\S+): ios=([^\n]*)", text.partition("Disk stats (read/write):")[2])
    device = _disk([(name, "aggrios=" in counted) for name, counted in disks])
    setups = {(setup[1], int(setup[2])): setup for setup in _SETUP.finditer(text)}
    results = list(_RESULT.finditer(text))
    ends = [*(result.start() for result in results[1:]), len(text)]
    found: dict[tuple[str, int], list[tuple[re.Match[str], str]]] = {key: [] for key in setups}
    for result, end in zip(results, ends, strict=False):
        found.setdefault((result[1], int(result[2])), []).append((result, text[result.end() : end]))
    runs, parts, losses = [], [], []
    for (key, blocks), name in zip(found.items(), names(origin), strict=False):
        setup = setups.get(key)
        test = None if setup is None else TESTS.get(setup[3])
        if setup is None or test is None:
            losses.append(Loss("unknown", 1, f"job {key[0]!r} has an unknown test of reads or writes"))
            continue
        jobs = [_text_job(result, block, setup) for result, block in blocks]
        configured = {
            "run_id": name,
            "tool": "fio",
            "tool_version": None if version is None else version[1],
            "device": device,
            "workload": "file",
            "test": test,
            "engine": setup[5],
            "depth": int(setup[6]),
            "block_bytes": _one_size(setup[4], *_directions(test)),
        }
        runs.append(configured | _run(jobs))
        parts.append(_threads(jobs))
    return foreign("fio text", runs, parts, tuple(losses))


def _text_job(result: re.Match[str], block: str, setup: re.Match[str]) -> dict[str, Any]:
    """Return the result of one reported job, in the form that `_run` and `_threads` take."""
    issued = re.search(r"issued rwts: total=([\d,]+) short=([\d,]+) dropped=([\d,]+)", block)
    counts = [[int(number) for number in group.split(",")] for group in issued.groups()] if issued else None
    switches = re.search(r"ctx=(\d+), majf=(\d+), minf=(\d+)", block)
    parts: dict[str, dict[str, Any]] = {}
    runtimes = []
    for index, direction in enumerate(_DIRECTIONS):
        section = re.search(
            rf"(?m)^ +{direction} *: IOPS=[^\n]*\((\S+?)i?B/(\d+)msec\)[^\n]*\n((?:^(?: {{4,}}|  +\|)[^\n]*\n)*)", block
        )
        if section is None:
            continue
        runtimes.append(int(section[2]) * 10**6)
        size = _one_size(setup[4], direction)
        whole = counts is not None and size is not None and counts[1][index] == counts[2][index] == 0
        parts[direction] = {
            "ops": None if counts is None else counts[0][index],
            "bytes": counts[0][index] * size if whole and counts and size else _bytes(section[1] + "iB"),
            **_percentiles(section[3], "clat"),
            **_extremes(section[3], "clat"),
        }
        parts[f"op {direction}"] = {**_percentiles(section[3], "lat"), **_extremes(section[3], "lat")}
    syncs = re.search(r"(?m)^  fsync/fdatasync/sync_file_range:\n((?:^ {4,}[^\n]*\n)*)", block)
    if syncs is not None:
        count = counts[0][3] if counts is not None and len(counts[0]) > 3 else None
        parts["sync"] = {"ops": count, **_percentiles(syncs[1], "sync"), **_extremes(syncs[1], "sync")}
    return {
        "jobs": int(result[3]),
        "error": int(result[4]),
        "message": result[5],
        "runtime_ns": max(runtimes, default=None),
        "parts": parts,
        "usage": {} if switches is None else {"major_faults": int(switches[2]), "minor_faults": int(switches[3])},
    }


def _one_size(sizes: str, *directions: str) -> int | None:
    """Return the record size if all these directions have the same, from ``(R) 4096B-4096B, (W) 4KiB-4KiB``."""
    found = {
        size for direction in directions for size in re.findall(rf"\({direction[0].upper()}\) (\S+?)-([^\s,]+)", sizes)
    }
    least_and_most = {_bytes(size) for pair in found for size in pair}
    return least_and_most.pop() if len(least_and_most) == 1 else None


def _directions(test: str) -> tuple[str, ...]:
    """Return the directions of a test: read, write, or both."""
    return tuple(direction for direction in _DIRECTIONS if test.endswith((direction, "mixed")))


def _bytes(text: str) -> int:
    """Return the bytes of ``4096B``, ``256KiB`` or ``70.2MiB``, with the rounding of the output."""
    found = re.fullmatch(r"([\d.]+)(\w*?)B?", text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a size as printed by fio")
    return round(Decimal(found[1]) * _UNITS[found[2]])


def _percentiles(section: str, kind: str) -> dict[str, Any]:
    """Return the table of percentiles of a kind of latency (clat, lat, sync), if it is printed."""
    found = re.search(rf"(?m)^ +{kind} percentiles \((\w+)\):\n((?:^ +\|.*\n)+)", section)
    if found is None:
        return {}
    entries = re.findall(r"([\d.]+)th=\[ *(\d+)\]", found[2])
    return {
        "quantile_ppm": [round(Decimal(percent) * 10_000) for percent, _ in entries],
        "quantile_ns": [int(value) * _TIMES[found[1]] for _, value in entries],
    }


def _extremes(section: str, kind: str) -> dict[str, Any]:
    """Return the least and greatest latency of a kind, with the rounding of the output."""
    found = re.search(rf"(?m)^ +{kind} \((\w+)\): min= *([\d.]+)(\w?), max= *([\d.]+)(\w?),", section)
    if found is None:
        return {}
    unit = _TIMES[found[1]]
    least, most = (round(Decimal(found[at]) * _UNITS[found[at + 1]] * unit) for at in (2, 4))
    return {"latency_min_ns": least, "latency_max_ns": most}


# -- JSON -------------------------------------------------------------------------------------------------------------


def _read_json(text: str, origin: bytes) -> Results:
    # fio may print further text after the object.
    document = files.without_surrogates(json.JSONDecoder().raw_decode(text)[0])
    version = str(document["fio version"]).removeprefix("fio-")
    disks = document.get("disk_util", [])
    device = _disk([(str(disk["name"]), "aggr_read_ios" in disk) for disk in disks])
    grouped: dict[tuple[str, int], list[Any]] = {}
    for job in document["jobs"]:
        grouped.setdefault((job["jobname"], job["groupid"]), []).append(job)
    runs, parts, losses = [], [], []
    for ((name, _), jobs), run_id in zip(grouped.items(), names(origin), strict=False):
        options = {**document.get("global options", {}), **jobs[0].get("job options", {})}
        test = TESTS.get(options.get("rw", options.get("readwrite", "read")).partition(":")[0])
        if test is None:
            losses.append(Loss("unknown", 1, f"job {name!r} has an unknown test of reads or writes"))
            continue
        found = [_json_job(job, options) for job in jobs]
        known = {"run_id": run_id, "tool_version": version, "test": test, "device": device}
        runs.append({**known, **_asked(options), **_run(found)})
        parts.append(_threads(found))
    return foreign("fio JSON", runs, parts, tuple(losses))


def _asked(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration from a job's options, with fio's defaults."""
    size = options.get("bs", options.get("blocksize", "4k"))
    asked = options.get("size")
    return {
        "tool": "fio",
        "workload": "file",
        "engine": options.get("ioengine", "psync"),
        "depth": int(options.get("iodepth", "1")),
        "block_bytes": None if re.search("[,-]", size) else _option_bytes(size),
        "file_bytes": None if asked is None or "nrfiles" in options or "filesize" in options else _option_bytes(asked),
        "sync_mode": _sync_mode(options),
        "processes": "thread" not in options,
    }


def _option_bytes(text: str) -> int | None:
    """Return the bytes of an option such as 4k or 1g, in powers of 1024, fio's default."""
    found = re.fullmatch(r"(\d+)([kmgt]?)(?:i?b)?", text.lower())
    return None if found is None else int(found[1]) << (10 * " kmgt".index(found[2] or " "))


def _sync_mode(options: Mapping[str, str]) -> str:
    """Return iobench's name for the way in which the job makes writes durable. Several are joined by a plus."""
    sync = {"0": "", "none": "", "1": "osync", "sync": "osync", "dsync": "odsync"}.get(options.get("sync", "0"), "")
    words = [
        *(["mmap"] if options.get("ioengine") == "mmap" else []),
        *(["direct"] if options.get("direct", "0") not in ("0", "false") else []),
        *([sync] if sync else []),
        *(name for name in ("fsync", "fdatasync", "sync_file_range") if options.get(name, "0") != "0"),
    ]
    return {"direct+osync": "direct_osync", "": "buffered"}.get("+".join(words), "+".join(words))


def _json_job(job: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = {}
    runtimes = []
    for direction in _DIRECTIONS:
        section = job[direction]
        if not section["total_ios"]:
            continue
        runtimes.append(section["runtime"] * 10**6)
        parts[direction] = {"ops": section["total_ios"], "bytes": section["io_bytes"], **_latency(section, "clat_ns")}
        parts[f"op {direction}"] = _latency(section, "lat_ns")
    sync = job.get("sync", {})
    if sync.get("total_ios"):
        parts["sync"] = {"ops": sync["total_ios"], **_latency(sync, "lat_ns")}
    cpu = {"major_faults": job["majf"], "minor_faults": job["minf"]}
    jobs = int(options.get("numjobs", "1")) if "group_reporting" in options else 1
    runtime = max(runtimes, default=None)
    return {"jobs": jobs, "error": job["error"], "message": "", "runtime_ns": runtime, "parts": parts, "usage": cpu}


def _latency(section: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the extremes of a kind of latency, and its bins (json+) as a histogram, or else its percentiles."""
    found = section.get(kind, {})
    known: dict[str, Any] = {}
    if found.get("N", section.get("total_ios")):
        known = {"latency_min_ns": int(found["min"]), "latency_max_ns": int(found["max"])}
    if bins := {int(value): int(count) for value, count in found.get("bins", {}).items()}:
        buckets = sorted((*_bucket(value), count) for value, count in bins.items() if count)
        known |= dict(
            zip(("hist_bucket_ns", "hist_width_ns", "hist_count"), map(list, zip(*buckets, strict=True)), strict=True)
        )
    elif entries := found.get("percentile"):
        pairs = sorted((round(Decimal(percent) * 10_000), int(value)) for percent, value in entries.items())
        known |= {"quantile_ppm": [ppm for ppm, _ in pairs], "quantile_ns": [value for _, value in pairs]}
    return known


def _bucket(value: int) -> tuple[int, int]:
    """Return lower bound and width of the bin that fio names by its middle.

    Bins are exact below 128. Above, there are 64 for each power of two.
    """
    width = 1 if value < 128 else 1 << (value.bit_length() - 7)
    return value - value % width, width


# -- both -------------------------------------------------------------------------------------------------------------


def _disk(disks: Sequence[tuple[str, bool]]) -> str | None:
    """Return the disk of the jobs' files; None if there are several. Disks that lie on other disks take precedence."""
    above = [name for name, lies_on_others in disks if lies_on_others] or [name for name, _ in disks]
    return above[0] if len(above) == 1 else None


def _run(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the combined result of the jobs of a run as columns of bench_runs."""
    problem = None if jobs else "fio printed no result"
    for job in jobs:
        if job["error"]:
            problem = f"fio: error {job['error']}{job['message'] and ' ' + job['message'].strip(' :(')}"
    if problem is None and not any(direction in job["parts"] for job in jobs for direction in _DIRECTIONS):
        problem = "fio counted no operation"
    return {
        "threads": sum(job["jobs"] for job in jobs) or 1,
        "duration_ns": max((job["runtime_ns"] for job in jobs if job["runtime_ns"]), default=None),
        "valid": problem is None,
        "invalid": problem,
    }


def _threads(jobs: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the rows of table bench: of all jobs together, and of each if there are several."""
    rows = [row for number, job in enumerate(jobs) for row in _of_job(job, number if len(jobs) > 1 else -1)]
    if len(jobs) < 2:
        return rows
    names = dict.fromkeys(row.part for row in rows)
    return [*(_sum(name, [row for row in rows if row.part == name]) for name in names), *rows]


def _of_job(job: Mapping[str, Any], thread: int) -> Iterator[Part]:
    moved = [job["parts"][direction] for direction in _DIRECTIONS if direction in job["parts"]]
    if not moved:
        return
    totals = [job["parts"][f"op {direction}"] for direction in _DIRECTIONS if direction in job["parts"]]
    latency = totals[0] if len(totals) == 1 else _merged(totals)
    known = {"duration_ns": job["runtime_ns"], "result": -job["error"], **job["usage"]}
    yield Part("op", thread, _total(moved, "ops"), _total(moved, "bytes"), known | latency)
    for name, part in job["parts"].items():
        if not name.startswith("op "):
            rest = {key: value for key, value in part.items() if key not in ("ops", "bytes")}
            yield Part(name, thread, part["ops"], part.get("bytes", 0), known | rest)


def _total(parts: Sequence[Mapping[str, Any]], name: str) -> int | None:
    values = [part.get(name) for part in parts]
    return None if None in values else sum(value for value in values if value is not None)


def _sum(name: str, rows: Sequence[Part]) -> Part:
    """Return the jobs' rows of one part as one. Counts are added up. Quantiles of several jobs cannot be combined."""
    known = _merged([row.known for row in rows])
    known["duration_ns"] = max(row.known["duration_ns"] for row in rows)
    known["result"] = min(row.known["result"] for row in rows)
    counts = [{"ops": row.ops, "bytes": row.bytes} for row in rows]
    return Part(name, -1, _total(counts, "ops"), _total(counts, "bytes"), known)


def _merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the combined latencies: their extremes and, if all have one, the histogram."""
    merged: dict[str, Any] = {}
    for name, choose in (("latency_min_ns", min), ("latency_max_ns", max)):
        if all(name in part for part in parts):
            merged[name] = choose(part[name] for part in parts)
    if all("hist_bucket_ns" in part for part in parts):
        counts: dict[tuple[int, int], int] = {}
        for part in parts:
            for bucket, width, count in zip(
                part["hist_bucket_ns"], part["hist_width_ns"], part["hist_count"], strict=True
            ):
                counts[bucket, width] = counts.get((bucket, width), 0) + count
        ordered = sorted(counts)
        merged["hist_bucket_ns"] = [bucket for bucket, _ in ordered]
        merged["hist_width_ns"] = [width for _, width in ordered]
        merged["hist_count"] = [counts[key] for key in ordered]
    return merged
