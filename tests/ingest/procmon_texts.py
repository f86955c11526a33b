"""A slow reference implementation of the reader for procmon's texts, in plain Python."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from androstep_analysis.ingest.procmon_files import Machine

MACHINE = Machine(os.sysconf("SC_PAGESIZE"), 1_000_000_000 // os.sysconf("SC_CLK_TCK"), 500_000_000)
_LARGEST = (1 << 63) - 1

Reading = tuple[int, int, str, str]
"""Time in ns, number of the file, path, text."""
Key = tuple[Any, ...]
"""Scope, dev, pid, instance, counter, unit."""

CPU = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"]
DISK = [
    *("read_ios", "read_merges", "read_sectors", "read_ticks", "write_ios", "write_merges", "write_sectors"),
    *("write_ticks", "in_flight", "io_ticks", "time_in_queue", "discard_ios", "discard_merges", "discard_sectors"),
    *("discard_ticks", "flush_ios", "flush_ticks"),
]
NET = {0: "rx_bytes", 1: "rx_packets", 2: "rx_errors", 3: "rx_dropped"}
NET |= {place + 8: name.replace("rx", "tx") for place, name in NET.items()}
STAT = {12: "majflt", 14: "utime", 15: "stime", 16: "cutime", 17: "cstime", 20: "num_threads", 24: "rss"}
STAT |= {42: "delayacct_blkio_ticks"}
IO = ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"]
CHOSEN = {
    "stat": "intr ctxt processes procs_running procs_blocked",
    "vmstat": "pgfault pgpgin pgpgout nr_dirty nr_free_pages",
    "meminfo": "MemTotal MemFree Cached Dirty Active(file)",
}
"""Some counters of each file. The remaining ones of meminfo and vmstat have similar names."""


@dataclass
class Series:
    """A counter and its last reading."""

    key: Key
    rows: list[tuple[Any, ...]]
    told: bool = False
    known: bool = False
    written: bool = False
    ts_ns: int = 0
    value: int = 0

    def write(self) -> None:
        """Append the last reading."""
        self.rows.append((self.ts_ns, *self.key[:4], self.key[4], self.value, self.key[5]))
        self.told = self.written = True

    def read(self, ts_ns: int, value: int | None) -> None:
        """Add a reading. If its value differs, append it and the previous reading."""
        if value is None:
            return
        differs = not self.known or self.value != value
        if differs and self.known and not self.written:
            self.write()
        if not self.known and self.key[0] == "process" and value == 0:
            differs = False
        self.known, self.written, self.ts_ns, self.value = True, False, ts_ns, value
        if differs:
            self.write()

    def end(self) -> None:
        """Append the last reading if it was not appended yet."""
        if self.known and not self.written and (self.told or self.value or self.key[0] != "process"):
            self.write()


@dataclass
class Process:
    """A process by the number of its stat file."""

    name: str | None = None
    series: dict[str, Series] = field(default_factory=dict)


def number(word: str, factor: int = 1) -> int | None:
    """Return the value of a word; None if it is not a number or too large."""
    value = (
        int(word, 16) if re.fullmatch("0x[0-9a-fA-F]+", word) else int(word) if re.fullmatch(r"-?\d+", word) else None
    )
    return value * factor if value is not None and abs(value * factor) <= _LARGEST else None


def decoded(texts: pl.DataFrame) -> Iterator[Reading]:
    """Return the whole text of each record."""
    files: dict[int, tuple[str, str]] = {}
    part = ""
    for row in texts.to_dicts():
        path, text = files.get(row["file"], ("", ""))
        if row["text"] is not None:
            part, path = part + row["text"], row["path"]
            if row["parts_left"]:
                continue
            text, part = part, ""
        elif row["numbers"]:
            pieces = re.split(r"([^ \n]+)", text)
            words, place = row["numbers"].split(" "), -1
            for between, new in zip(words[::2], words[1::2], strict=True):
                place += int(between) + 1
                pieces[2 * place + 1] = new
            text = "".join(pieces)
        files[row["file"]] = path, text
        yield row["ts_ns"], row["file"], path, text


def samples(readings: Iterable[Reading], machine: Machine) -> list[tuple[Any, ...]]:
    """Return rows of table samples: the first and the last of equal consecutive readings of each counter."""
    ordered = sorted(readings, key=lambda reading: reading[0])
    rows: list[tuple[Any, ...]] = []
    told = {path: text.split("\n")[0] for _, _, path, text in reversed(ordered)}
    series: dict[tuple[int, Key], Series] = {}
    before: dict[int, set[tuple[int, Key]]] = {}
    processes: dict[int, Process] = {}
    by_pid: dict[int, Process] = {}
    for ts_ns, file, path, text in ordered:
        if match := re.fullmatch(r"/proc/(\d+)/(stat|io)", path):
            pid = int(match[1])
            if match[2] == "stat":
                process = by_pid[pid] = processes.setdefault(file, Process())
                _stat(process, rows, pid, ts_ns, text, machine)
            elif pid in by_pid:
                values = {
                    f"io.{name}": number(line.split()[1]) for name, line in zip(IO, text.split("\n"), strict=False)
                }
                _take(by_pid[pid], ts_ns, values)
            continue
        now = set()
        for key, value in counters_of(path, text, told, machine):
            place = (file, key)
            now.add(place)
            series.setdefault(place, Series(key, rows)).read(ts_ns, value)
        for gone in before.get(file, set()) - now:
            series[gone].end()
        before[file] = now
    for each in [*series.values(), *(each for process in processes.values() for each in process.series.values())]:
        each.end()
    return rows


def _stat(process: Process, rows: list[tuple[Any, ...]], pid: int, ts_ns: int, text: str, machine: Machine) -> None:
    name, rest = text.partition("(")[2].rpartition(")")[::2]
    fields = dict(enumerate(rest.split(), 3))
    if name.startswith("kworker/") and not name.startswith("kworker/R-"):
        name = re.split("[+-]", name)[0]
    factors = dict.fromkeys(STAT, machine.tick_ns) | {12: 1, 20: 1, 24: machine.page_bytes}
    values = {f"stat.{STAT[place]}": number(fields[place], factors[place]) for place in STAT}
    if name != process.name:
        if process.name is not None:
            _take(process, ts_ns, values)
        old, process.series = process.series, {}
        for counter in [*values, *(f"io.{name}" for name in IO)]:
            is_count = counter in ("stat.majflt", "stat.num_threads", "io.syscr", "io.syscw")
            unit = "count" if is_count else "B" if counter.startswith("io.") or counter == "stat.rss" else "ns"
            key = ("process", None, pid, name or None, counter, unit)
            new = process.series[counter] = Series(key, rows)
            if counter in old:
                old[counter].end()
                if old[counter].known:
                    new.read(old[counter].ts_ns, old[counter].value)
            elif (began_ns := int(fields[22]) * machine.tick_ns) >= machine.opened_ns and counter not in (
                "stat.rss",
                "stat.num_threads",
            ):
                new.read(began_ns, 0)
        process.name = name
    _take(process, ts_ns, values)


def _take(process: Process, ts_ns: int, values: dict[str, int | None]) -> None:
    for counter, value in values.items():
        process.series[counter].read(ts_ns, value)


def counters_of(path: str, text: str, told: dict[str, str], machine: Machine) -> Iterator[tuple[Key, int | None]]:
    """Return the counters in a file of the system."""
    file = path.removeprefix("/proc/").removesuffix("/dev").replace("/", ".")
    for line in text.split("\n"):
        key, *words = line.split() or [""]
        if file == "stat" and key.startswith("cpu"):
            of = ("system", None, None, None) if key == "cpu" else ("cpu", None, None, key[3:])
            for name, word in zip(CPU, words, strict=False):
                yield (*of, f"stat.{name}", "ns"), number(word, machine.tick_ns)
        elif file == "diskstats" and len(words) > 1 and int(key) < 1 << 12:
            for name, word in zip(DISK, words[2:], strict=False):
                unit = "512 B sectors" if "sectors" in name else "ms" if re.search("ticks|queue", name) else "I/Os"
                yield (
                    ("device", int(key) << 20 | int(words[0]), None, words[1], f"diskstats.{name}", unit),
                    number(word),
                )
        elif file == "net" and re.search(".:$", key):
            for place, name in NET.items():
                unit = "B" if "bytes" in name else "packets"
                yield ("interface", None, None, key[:-1], f"net.{name}", unit), number(words[place])
        elif file.startswith("pressure.") and key in ("some", "full"):
            yield ("system", None, None, None, f"{file}.{key}", "ns"), number(line.rpartition("=")[2], 1000)
        elif key.removesuffix(":") in CHOSEN.get(file, "").split():
            unit = "kB" if file == "meminfo" else "count"
            yield ("system", None, None, None, f"{file}.{key.removesuffix(':')}", unit), number(words[0])
    yield from _value(path, text, told)


def _value(path: str, text: str, told: dict[str, str]) -> Iterator[tuple[Key, int | None]]:
    parts, words = path.split("/"), text.split() or [""]
    name, above = parts[-1], parts[-2]
    if name == "scaling_cur_freq":
        yield ("cpu", None, None, parts[-3][3:], "cpufreq.scaling_cur_freq", "kHz"), number(words[0])
    elif name == "temp":
        kind = told.get(f"/sys/class/thermal/{above}/type")
        instance = above if kind is None else f"{above} {kind}"
        yield ("system", None, None, instance, "thermal.temp", "m°C"), number(words[0])
    elif match := re.match("/sys/fs/(f2fs|ext4)/", path):
        major, _, minor = told.get(f"/sys/class/block/{above}/dev", "").partition(":")
        dev = int(major) << 20 | int(minor) if major else None
        unit = (
            "kB" if "kbytes" in name else "segments" if "segments" in name else "count" if "calls" in name else "blocks"
        )
        yield ("device", dev, None, above, f"{match[1]}.{name}", unit), number(words[0])
    elif path.startswith("/sys/bus/"):
        kind, instance = ("mmc", above) if "/mmc/" in path else ("ufs", parts[-3])
        names = [f"{name}_a", f"{name}_b"] if name == "life_time" else [name]
        for field_name, word in zip(names, words, strict=False):
            yield ("system", None, None, instance, f"{kind}.{field_name}", "code"), number(word)
