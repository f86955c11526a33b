"""Table samples from procmon's texts, compared with a slow implementation, and from hostile and damaged texts."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from procmon_texts import CHOSEN, IO, MACHINE, Reading, counters_of, decoded, samples
from support import built

from androstep_analysis import schema
from androstep_analysis.ingest import procmon_readings, record
from androstep_analysis.ingest.procmon_files import Machine

TEXTS = {
    **dict.fromkeys(("ts_ns", "before_ns"), pl.Int64),
    **dict.fromkeys(("file", "parts_left"), pl.UInt32),
    **dict.fromkeys(("path", "text", "numbers"), pl.String),
}


def differing(found: pl.DataFrame, expected: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Return the rows that are in only one of both tables."""
    return set(found.rows()) ^ set(expected)


def read(texts: pl.DataFrame, machine: Machine = MACHINE) -> tuple[pl.DataFrame, int]:
    """Return table samples of records, and the number of unusable records."""
    rows, baseless = procmon_readings.samples(texts, machine)
    return schema.conform(rows, "samples"), baseless


def chosen(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without counters of meminfo and vmstat that the slow implementation leaves out."""
    names = [f"{file}.{name}" for file, keys in CHOSEN.items() for name in keys.split()]
    return rows.filter(~pl.col("counter").str.contains("^(?:meminfo|vmstat)") | pl.col("counter").is_in(names))


# --- this machine ----------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_what_this_machine_counts_is_what_the_slow_version_finds(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    script = "for i in 1 2 3; do dd if=/dev/zero of=$0 bs=64k count=9 conv=fsync; sleep 0.2; done; exec sleep 0.5"
    built.run(built.program("procmon"), "-q", "-o", path, "--hz", "20", "--", "sh", "-c", script, tmp_path / "data")
    records = record.read(path)
    machine = Machine(MACHINE.page_bytes, MACHINE.tick_ns, records.header["opened_ns"])
    assert (records.header["page_bytes"], 1_000_000_000 // records.header["clock_hz"]) == (4096, MACHINE.tick_ns)
    texts = records.tables["text"]
    found, baseless = read(texts, machine)
    assert not baseless and found["instance"].is_in(["sleep"]).any() and texts["numbers"].is_not_null().sum() > 20
    assert not differing(chosen(found), samples(decoded(texts), machine))


# --- made texts ------------------------------------------------------------------------------------------------------

NAMES = ["sh", "a b", "a 1 b", "a 2 b", ") S 1 2 3", "((", "x\\ny", "\x1b[31m\\xff", "é€", "a  b", "5", " ", ""]
NAMES += ["kworker/0:1-events", "kworker/0:1+mm", "kworker/0:1", "kworker/0:2-foo", "kworker/R-a"]


class Counters:
    """Numbers that stay, grow, restart and wrap."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: dict[Any, int] = {}

    def at(self, *key: Any, most: int = (1 << 64) - 1) -> int:
        """Return the next value of a counter."""
        value = self.values.get(key, self.random.choice([0, 0, self.random.randrange(10**6)]))
        grown = value + self.random.choice([1, 3, self.random.randrange(10**6)])
        rare = self.random.choice([0, 9, 99, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
        kind = self.random.choices(["same", "grown", "rare"], [60, 35, 5])[0]
        self.values[key] = min({"same": value, "grown": grown, "rare": rare}[kind], most)
        return self.values[key]


def states(counters: Counters) -> dict[str, str]:
    """Yield the contents of files: CPUs, disks, interfaces, values and processes that appear and disappear."""
    chance, at = counters.random, counters.at

    def row(count: int, *key: Any) -> str:
        return " ".join(str(at(*key, place)) for place in range(count))

    def some(*names: str) -> list[str]:
        return [name for name in names if chance.random() < 0.9]

    intr = " 7" * chance.choice([30, 9000])  # a text of one record, or of several
    stat = [f"cpu  {row(10, 'cpu')}", *(f"cpu{n} {row(10, 'cpu', n)}" for n in some("0", "1", "12"))]
    stat += [f"intr {at('intr')}{intr}", f"ctxt {at('ctxt')}", "btime 5", f"procs_running {at('running', most=3)}"]
    disks = [
        f"{major:4d} {minor:7d} {name} {row(17, name)}" for major, minor, name in ((8, 0, "sda"), (253, 1, "dm-1"))
    ]
    disks = [*some(*disks), f"   7 {chance.choice([3, 4]):7d} loop3 {row(17, 'loop')}", "5000 0 x 1 2"]
    net = [f"{name:>6}: {row(16, name)}" for name in some("lo", "eth0", "a:b")]
    found = {
        "/proc/stat": "\n".join(stat) + "\n",
        "/proc/meminfo": "".join(f"{key + ':':<16}{at(key, most=10**5):>8} kB\n" for key in CHOSEN["meminfo"].split()),
        "/proc/vmstat": "".join(f"{key} {at(key)}\n" for key in [*CHOSEN["vmstat"].split(), "other"]),
        "/proc/diskstats": "\n".join(disks) + "\n",
        "/proc/net/dev": "\n".join(["Inter-|   Receive", " face |bytes    packets", *net]) + "\n",
        "/proc/pressure/io": f"some avg10=0.00 total={at('some')}\nfull avg10=1.25 total={at('full')}\n",
        "/sys/class/block/sda12/dev": "8:12\n",
        "/sys/class/thermal/thermal_zone3/type": "skin \x1b[31m\n",
        "/sys/class/thermal/thermal_zone3/temp": f"{chance.choice([-4500, 35100])}\n",
        "/sys/class/thermal/thermal_zone4/temp": f"{at('temp')}\n",
        "/sys/fs/f2fs/sda12/dirty_segments": f"{at('segments')}\n",
        "/sys/fs/f2fs/sda12/gc_background_calls": f"{at('gc')}\n",
        "/sys/fs/ext4/vda/delayed_allocation_blocks": chance.choice(["5\n", "", "none\n"]),
        "/sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq": chance.choice(["1800000\n", "<unknown>\n"]),
        "/sys/bus/mmc/devices/mmc0:0001/life_time": chance.choice(["0x01 0x0b\n", "0x02 0x0b\n"]),
        "/sys/bus/platform/drivers/ufshcd-qcom/1d.ufshc/flags/wb_enable": chance.choice(["0x1\n", "true\n"]),
    }
    for pid in (1, 44, 4000000):
        name = NAMES[counters.values.setdefault(("name", pid), 0) % len(NAMES)]
        counters.values["name", pid] += chance.random() < 0.2
        fields = [str(at(pid, place, most=1 << 38)) for place in range(4, 53)]
        fields[22 - 4] = str(counters.values.setdefault(("began", pid), chance.randrange(100)))
        found[f"/proc/{pid}/stat"] = f"{pid} ({name}) {chance.choice('RSD')} {' '.join(fields)}\n"
        found[f"/proc/{pid}/io"] = "".join(f"{name}: {at(pid, name, most=1 << 62)}\n" for name in IO)
    return found


def words(text: str) -> list[str]:
    """Return a text split into words and the text between them, alternating."""
    return re.split(r"([^ \n]+)", text)


def name_of(stat: str) -> str:
    """Return the name that procmon reads for a process."""
    name = stat.partition("(")[2].rpartition(")")[0]
    return re.split("[+-]", name)[0] if re.match("kworker/(?!R-)", name) else name


def heads(text: str) -> list[str]:
    """Return the beginnings of the lines of a text, up to the end of the first word that is not a number."""
    return [re.split(r"(?<=[^ 0-9]) ", line)[0] for line in text.split("\n")]


def recorded(seed: int) -> tuple[pl.DataFrame, list[Reading]]:
    """Return readings of such files as records, and the original readings."""
    counters = Counters(seed)
    readings: list[Reading] = []
    rows: list[tuple[Any, ...]] = []
    numbers: dict[str, int] = {}
    last: dict[str, Reading] = {}
    written: dict[str, int] = {}
    for step in range(60):
        renamed = False
        for path, text in states(counters).items():
            chance = counters.random.random()
            if path in last and chance < 0.01 and not path.startswith("/proc/"):
                continue
            ts_ns = 1_000_000_000 + step * 100_000_000 + len(rows)
            file = numbers.setdefault(path, len(numbers) + 1)
            before = last.get(path)
            last[path] = (ts_ns, file, path, text)
            readings.append(last[path])
            if path.endswith("/stat"):
                renamed = before is not None and name_of(before[3]) != name_of(text)
            whole = renamed and path.endswith(("/stat", "/io"))
            if before and before[3] == text and not whole:
                continue
            if before and written[path] != before[0]:
                rows.append((before[0], written[path], file, 0, None, None, None))
                written[path] = before[0]
            about = (ts_ns, written.get(path), file)
            written[path] = ts_ns
            old, new = words(before[3]) if before else [], words(text)
            places = [place for place in range(1, len(new), 2) if old[place : place + 1] != [new[place]]]
            is_numbers = len(old) == len(new) and heads(before[3]) == heads(text) if before else False
            is_numbers &= all((old[place] + new[place]).isdecimal() for place in places if is_numbers)
            if is_numbers and not whole and chance < 0.9 and "/pressure" not in path and "/sys" not in path:
                between = [
                    place // 2 - last_place // 2 - 1 for last_place, place in zip([-1, *places], places, strict=False)
                ]
                changes = " ".join(f"{gap} {new[place]}" for gap, place in zip(between, places, strict=True))
                rows.append((*about, 0, None, None, changes))
            else:
                parts = [text[at : at + 16384] for at in range(0, len(text) or 1, 16384)]
                rows += [(*about, len(parts) - 1 - at, path, part, None) for at, part in enumerate(parts)]
    for path, (ts_ns, file, _, _) in last.items():
        if written[path] != ts_ns:
            rows.append((ts_ns, written[path], file, 0, None, None, None))
    return pl.DataFrame(rows, TEXTS, orient="row"), readings


@pytest.mark.parametrize("seed", range(6))
def test_hostile_texts_are_what_the_slow_version_finds(seed: int) -> None:
    texts, readings = recorded(seed)
    found, baseless = read(texts)
    assert not baseless and texts["numbers"].is_not_null().sum() > 50 and texts["parts_left"].sum() > 10
    assert not differing(found, samples(readings, MACHINE))


@pytest.mark.parametrize("seed", range(3))
def test_of_what_is_lost_nothing_is_made_up(seed: int) -> None:
    texts, readings = recorded(seed)
    is_lost = pl.Series([random.Random(seed + row).random() < 0.1 for row in range(texts.height)])
    found, baseless = read(texts.filter(~is_lost))
    told = {path: text.split("\n")[0] for _, _, path, text in readings}
    true = {
        (ts_ns, *key[:5], value, key[5])
        for ts_ns, _, path, text in readings
        for key, value in counters_of(path, text, told, MACHINE)
    }
    of_system = found.filter(pl.col("scope").is_in(["system", "cpu", "interface"]))
    assert baseless > 20 and of_system.height > 1000 and set(of_system.rows()) <= true


def test_without_texts_there_are_no_samples() -> None:
    found, baseless = read(pl.DataFrame(schema=TEXTS))
    assert found.is_empty() and not baseless


@pytest.mark.parametrize(
    "numbers", ["", "1", "x 7", "1 2 3", "4294967295 7", "1 99999999999999999999", "-1 7", "1 7 4294967295 9", "  "]
)
def test_changes_as_nobody_writes_them_are_left_out(numbers: str) -> None:
    rows = [(1, None, 1, 0, "/proc/vmstat", "pgfault 5\npgpgin 6\n", None), (2, 1, 1, 0, None, None, numbers)]
    found, _ = read(pl.DataFrame(rows, TEXTS, orient="row"))
    assert found.filter(counter="vmstat.pgfault", ts_ns=1)["value"].to_list() == [5]
    assert found.filter(counter="vmstat.pgpgin", ts_ns=1)["value"].to_list() == [6]
