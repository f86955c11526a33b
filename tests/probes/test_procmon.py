"""procmon: its readings against other sources, its ticks, its overhead, and hostile machines."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from support import built

from androstep_analysis.ingest import procmon_readings, record
from androstep_analysis.ingest.procmon_files import Machine
from androstep_analysis.ingest.record import Records

PATIENCE_S = 120


def sampled(path: Path, *words: str | Path) -> Records:
    """Run procmon with these options and return its records."""
    built.run(built.program("procmon"), "-q", "-o", path, *words)
    return record.read(path)


def samples(records: Records) -> pl.DataFrame:
    """Return all readings in order of time."""
    machine = Machine(os.sysconf("SC_PAGESIZE"), 1_000_000_000 // os.sysconf("SC_CLK_TCK"), records.header["opened_ns"])
    rows, baseless = procmon_readings.samples(records.tables["text"], machine)
    assert not baseless
    return rows.sort("ts_ns", maintain_order=True)


def readings(records: Records, counter: str, **of: str | int) -> pl.DataFrame:
    """Return the readings of a counter in order of time."""
    return samples(records).filter(counter=counter, **of)


def last(records: Records, counter: str, **of: str | int) -> int:
    """Return the last value of a counter, summed over all instances that match."""
    found = readings(records, counter, **of).group_by("instance", "pid").last()
    return int(found["value"].to_numpy().sum())


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@contextmanager
def running(path: Path, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run procmon, yield after its first readings, and kill it at the end."""
    command = [built.program("procmon"), "-q", "-o", path, *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: process.poll() is not None or (path.exists() and path.stat().st_size > 20_000))
        assert process.poll() is None, process.communicate()[1]
        yield process
    finally:
        process.kill()
        process.communicate()


# --- what it reads ---------------------------------------------------------------------------------------------------

WORKER = """
import os, resource, sys, time
while time.process_time() < 0.4:
    pass
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(50):
    os.write(file, bytes(10_000))
os.fsync(file)
told = open("/proc/self/io").read()
usage = resource.getrusage(resource.RUSAGE_SELF)
result = f"{os.getpid()} {usage.ru_utime + usage.ru_stime} {usage.ru_majflt} {told}".encode()
os.write(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT), result)
os._exit(0)
"""


def test_what_a_command_used_is_what_the_kernel_told_the_command(tmp_path: Path) -> None:
    output = tmp_path / "told"
    records = sampled(tmp_path / "x.rec", "--", sys.executable, "-S", "-c", WORKER, tmp_path / "data", output)
    pid, seconds, faults, *words = output.read_text().split()
    io = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    of = {"pid": int(pid)}
    used = (last(records, "stat.utime", **of) + last(records, "stat.stime", **of)) / 1e9
    assert -0.03 < used - float(seconds) < 0.3  # ticks of 10 ms, each rounded down, and the exit
    assert last(records, "stat.majflt", **of) >= int(faults)
    # The last write of the process is the text with its earlier writes.
    assert last(records, "io.wchar", **of) == io["wchar:"] + output.stat().st_size
    assert last(records, "io.syscw", **of) == io["syscw:"] + 1
    assert last(records, "io.write_bytes", **of) >= io["write_bytes:"]
    assert readings(records, "io.wchar", **of)["value"][0] == 0  # it began while procmon was running
    task = records.tables["task"].filter(pid=int(pid))
    assert task["uid"].to_list()[-1] == os.getuid()
    assert records.complete


def counters_now() -> dict[tuple[str, str], int]:
    """Return some counters that only grow, as Python reads them."""
    found: dict[tuple[str, str], int] = {}
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    for line in Path("/proc/stat").read_text().splitlines():
        key, *values = line.split()
        if key.startswith("cpu"):
            found["stat.user", key[3:]] = int(values[0]) * tick_ns
            found["stat.system", key[3:]] = int(values[2]) * tick_ns
        elif key in ("ctxt", "processes", "intr"):
            found[f"stat.{key}", ""] = int(values[0])
    for line in Path("/proc/vmstat").read_text().splitlines():
        key, value = line.split()
        if key in ("pgfault", "pgpgout", "nr_dirtied"):
            found[f"vmstat.{key}", ""] = int(value)
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, disk, *values = line.split()
        if disk.startswith("loop"):  # a partition that another test recreates restarts its counters
            continue
        for place, name in ((0, "read_ios"), (2, "read_sectors"), (4, "write_ios"), (6, "write_sectors")):
            found[f"diskstats.{name}", disk] = int(values[place])
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, values = line.split(":")
        found["net.rx_bytes", name.strip()], found["net.tx_packets", name.strip()] = (
            int(values.split()[place]) for place in (0, 9)
        )
    for resource_name in ("cpu", "io", "memory"):
        if (path := Path("/proc/pressure", resource_name)).exists():
            total = path.read_text().split("\n")[0].rpartition("=")[2]
            found[f"pressure.{resource_name}.some", ""] = int(total) * 1000
    return found


@pytest.mark.prove
def test_counters_lie_between_what_python_reads_before_and_after(tmp_path: Path) -> None:
    before = counters_now()
    records = sampled(tmp_path / "x.rec", "--time", "1", "--groups", "cpu,memory,disk,net,pressure")
    after = counters_now()
    found = {
        (counter, instance or ""): values
        for counter, instance, values in samples(records).group_by("counter", "instance").agg("value").iter_rows()
    }
    shared = before.keys() & after.keys()
    assert len(shared) > 10 and shared <= found.keys()
    for key in shared:
        assert before[key] <= found[key][0] <= found[key][-1] <= after[key], key
        assert found[key] == sorted(found[key]), key


def disks() -> set[str]:
    """Return the current disks, which other tests may add and remove."""
    return {line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()}


def test_disks_have_their_numbers_and_memory_its_amount(tmp_path: Path) -> None:
    records = sampled(tmp_path / "x.rec", "--time", "100ms", "--groups", "disk,memory")
    found = readings(records, "diskstats.io_ticks").filter(pl.col("instance").is_in(disks()))
    assert not found.is_empty()
    for dev, name in found.select("dev", "instance").iter_rows():
        assert Path(f"/sys/class/block/{name}/dev").read_text().strip() == f"{dev >> 20}:{dev & 0xFFFFF}"
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert last(records, "meminfo.MemTotal") == int(total.split()[1])


def test_a_reading_between_equal_ones_is_left_out(tmp_path: Path) -> None:
    there = disks()
    records = sampled(tmp_path / "x.rec", "--time", "1", "--hz", "50", "--groups", "cpu,memory,disk")
    there &= disks()
    rows = samples(records).with_columns(series=pl.struct("scope", "counter", "instance")).sort("series", "ts_ns")
    equal = pl.col("value") == pl.col("value").shift()
    again = pl.col("value") == pl.col("value").shift(-1)
    same = pl.col("series") == pl.col("series").shift()
    assert rows.filter(same & equal & again & (pl.col("series") == pl.col("series").shift(-1))).is_empty()
    stayed = (pl.col("scope") != "device") | pl.col("instance").is_in(there)
    spans = rows.filter(stayed).group_by("series").agg(pl.col("ts_ns").min(), last=pl.col("ts_ns").max(), n=pl.len())
    ticks = records.tables["tick"]
    assert spans.filter(pl.col("n") == 2).height > 5  # a constant counter has its two ends
    assert (spans["last"] >= ticks["ts_ns"][-1]).all() and (spans["ts_ns"] <= ticks["ts_ns"][1]).all()


# --- ticks and ends --------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_ticks_are_where_they_should_be_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    with running(path, "--hz", "100", "--groups", "cpu,memory") as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    records = record.read(path)
    ticks = records.tables["tick"]
    grid = ticks[1:-1]  # the first reading starts the ticks, the last one is at the end
    steps = grid["ts_ns"].diff().drop_nulls()
    assert (steps % 10_000_000 == 0).all()
    assert (steps // 10_000_000 - 1).to_list() == grid["missed"][1:].to_list()
    assert (grid["late_ns"] >= 0).all() and ticks["missed"].max() >= 20
    losses = {loss.kind: loss.count for loss in records.losses}
    assert losses["missed"] == ticks["missed"].sum()
    assert (ticks["cpu_ns"].diff().drop_nulls() >= 0).all()


@pytest.mark.usefixtures("hang_up_ends")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_with_a_whole_file(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "x.rec"
    with running(path) as process:
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert record.read(path).complete


def blocks_of_ticks(content: bytes) -> list[list[int]]:
    """Return the scheduled times in each block of ticks, according to FORMAT.md."""
    types = {kind["name"]: kind for kind in built.described("procmon")["types"]}
    tick, found, at = types["tick"], [], 0
    while at < len(content):
        magic, kind, count, length = struct.unpack_from("<4s2xH4xII", content, at)
        assert magic == b"\xa7REC"
        if kind == tick["id"]:
            width = tick["record_bytes"]
            found.append([struct.unpack_from("<q", content, at + 24 + row * width)[0] for row in range(count)])
        at += 24 + length
    return found


def written_ticks(path: Path) -> list[list[int]]:
    """Return the blocks of ticks in a file that is being written; none if its end is incomplete."""
    try:
        return blocks_of_ticks(path.read_bytes())
    except struct.error:
        return []


@pytest.mark.prove
@pytest.mark.parametrize("hz", ["1", "3", "50"])
def test_nothing_waits_for_more_than_a_second(tmp_path: Path, hz: str) -> None:
    path = tmp_path / "x.rec"
    with running(path, "--hz", hz) as process:
        wait_for(lambda: len(written_ticks(path)) >= 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    blocks = blocks_of_ticks(path.read_bytes())
    assert len(blocks) >= 3 and len(blocks[0]) == 1
    for before, block in itertools.pairwise(blocks):
        # A block ends at the latest with the first tick a second after the previous block.
        assert all(ts_ns < before[-1] + 1_000_000_000 for ts_ns in block[:-1])


@pytest.mark.prove
def test_killed_it_leaves_what_it_had_written(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    with running(path, "--groups", "cpu,disk", "--hz", "50") as process:
        wait_for(lambda: len(written_ticks(path)) >= 3)
        process.kill()
        process.wait(PATIENCE_S)
    records = record.read(path)
    assert {loss.kind for loss in records.losses} == {"torn"}
    ticks = records.tables["tick"]["ts_ns"]
    assert ticks[-1] - ticks[0] >= 1_000_000_000
    first, end = (readings(records, "stat.ctxt")["ts_ns"][place] for place in (0, -1))
    assert first <= ticks[1] and end >= ticks[-2]


def test_killed_before_a_second_has_passed_it_leaves_its_first_readings(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    command = [built.program("procmon"), "-q", "-o", path, "--groups", "cpu,process", "--hz", "1"]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: path.exists() and bool(written_ticks(path)))
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    records = record.read(path)
    assert last(records, "stat.ctxt") > 0 and last(records, "stat.num_threads", pid=process.pid) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_once_leaves_a_whole_file_or_none(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "x.rec"
    for wanted in (path, tmp_path) * 10:
        path.unlink(missing_ok=True)
        process = subprocess.Popen([built.program("procmon"), "-q", "-o", path, "--groups", "cpu"])
        try:
            wait_for(wanted.exists)
            process.send_signal(number)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait(PATIENCE_S)
        assert record.read(path).complete if path.exists() else process.returncode == -number


@pytest.mark.prove
def test_a_full_disk_ends_it_and_its_command_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    limited = ["sh", "-c", 'ulimit -f 512; exec "$@"', "sh"]
    command = [built.program("procmon"), "-q", "-o", path, "--hz", "200", "--", "sleep", "1000"]
    done = built.run(*limited, *command, status=1)
    assert done.stderr.decode() == f"procmon: {path}: the file is incomplete (File too large)\n"
    assert path.stat().st_size == 512 * 512
    records = record.read(path)
    assert {loss.kind for loss in records.losses} == {"torn", "unreadable"}  # its end, and what follows the last block
    assert samples(records).height


def test_without_descriptors_processes_have_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    limited = ["sh", "-c", 'ulimit -n 32; exec "$@"', "sh"]
    command = [built.program("procmon"), "-q", "-o", path, "--time", "1"]
    built.run(*limited, *command)
    records = record.read(path)
    assert "unreadable_process" in {loss.kind for loss in records.losses}
    assert records.tables["text"].filter(path=f"/proc/{os.getpid()}/stat")["file"].n_unique() <= 1


def test_a_signal_ends_the_command_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "told"
    with running(tmp_path / "x.rec", "--", "sh", "-c", 'echo $$ > "$0"; exec sleep 1000', pid_file) as process:
        wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert not Path(f"/proc/{int(pid_file.read_text())}").exists()
    assert record.read(tmp_path / "x.rec").complete


@pytest.mark.prove
def test_time_ends_the_command_and_progress_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    done = built.run(built.program("procmon"), "--record", path, "--time", "2", "--", "sleep", "1000")
    lines = done.stderr.decode().splitlines()
    assert lines[-1] == "procmon: 100 % of 2 s" and all(line.startswith("procmon: ") for line in lines)
    assert readings(record.read(path), "stat.num_threads", instance="sleep").height


@pytest.mark.prove
def test_time_ends_also_between_ticks_and_a_command_that_will_not_is_waited_for(tmp_path: Path) -> None:
    output, ready = tmp_path / "told", tmp_path / "ready"
    sampled(tmp_path / "a.rec", "--hz", "1", "--time", "200ms")
    script = 'trap "sleep 1; echo ended > $0" TERM; echo > "$1"; while [ ! -e "$0" ]; do sleep 0.1; done'
    for time_ms in (500, 5000, 50_000):
        done = built.run(
            built.program("procmon"), "-q", "-o", tmp_path / "b.rec", "--time", f"{time_ms}ms", "--hz", "100", "--",
            "sh", "-c", script, output, ready,
        )  # fmt: skip
        if ready.exists():  # otherwise the time was over before the shell had set its trap
            break
    assert output.read_text() == "ended\n" and done.stderr == b""
    assert record.read(tmp_path / "b.rec").complete


def test_the_command_has_what_procmon_had(tmp_path: Path) -> None:
    output = tmp_path / "told"
    script = 'echo "$(ulimit -n) $(grep -c . /proc/self/status) $(grep ^SigBlk /proc/self/status)" > "$0"; exit 3'
    program = built.program("procmon")
    done = built.run(program, "-q", "-o", tmp_path / "x.rec", "--", "sh", "-c", script, output)
    assert b"sh: ended with status 3" in done.stderr
    assert output.read_text().split()[0] == str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert int(output.read_text().split()[-1], 16) == 0


# --- other processes, other users ------------------------------------------------------------------------------------


SLEEPER = """
import sys
open("/proc/self/comm", "wb").write(sys.stdin.buffer.readline()[:-1])
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def sleeping(name: bytes) -> Iterator[int]:
    """Start a waiting process with this name and yield its id."""
    process = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(name + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", [b") S 1 2 (", b"((((", b"\x1b[31m\xff", b"a'; rm -rf", "é€".encode()])
def test_names_of_processes_are_only_names(tmp_path: Path, name: bytes) -> None:
    with sleeping(name) as pid:
        records = sampled(tmp_path / "x.rec", "--time", "200ms", "--groups", "process")
    assert records.complete
    assert set(samples(records).filter(pid=pid)["instance"]) == {name.decode("utf-8", "backslashreplace")}
    assert last(records, "stat.num_threads", pid=pid) == 1


BUSY_CHILDREN = 80
BUSY = f"""
import os, time
file = os.open("/dev/zero", os.O_RDONLY)
for _ in range({BUSY_CHILDREN}):
    if not os.fork():
        break
while True:
    os.read(file, 1)
    time.sleep(0.05)
"""
"""Processes that do very little, but continuously."""


@pytest.mark.prove
def test_where_more_work_than_may_be_read_at_a_tick_each_has_its_turn(tmp_path: Path) -> None:
    busy = subprocess.Popen([sys.executable, "-S", "-c", BUSY], start_new_session=True)
    try:
        for time_s in ("4", "16", "64"):
            records = sampled(tmp_path / "x.rec", "--hz", "50", "--groups", "process", "--time", time_s)
            children = Path(f"/proc/{busy.pid}/task/{busy.pid}/children").read_text().split()
            rows = readings(records, "io.syscr").filter(pl.col("pid").is_in([int(pid) for pid in children]))
            read = rows.group_by("pid").agg(pl.col("value").n_unique())
            if (
                read.height == BUSY_CHILDREN and read["value"].to_numpy().min() >= 4
            ):  # otherwise some got no CPU in that time
                break
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()
    assert read.height == BUSY_CHILDREN and read["value"].to_numpy().min() >= 4
    assert {loss.kind for loss in records.losses} >= {"late"}


RENAMED = """
import sys, time
for name in ("fir" "st", "sec" "ond"):
    open("/proc/self/comm", "w").write(name)
    end = time.process_time() + 0.5
    while time.process_time() < end or name.encode() not in open(sys.argv[1], "rb").read():
        pass
"""
"""Works under each name until procmon has recorded it, which takes at most a second."""


@pytest.mark.prove
def test_a_process_that_is_renamed_begins_anew_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    records = sampled(path, "--hz", "20", "--groups", "process", "--", sys.executable, "-Sc", RENAMED, path)
    first, second = (readings(records, "stat.utime", instance=name) for name in ("first", "second"))
    assert first.height and second.height
    assert first["value"][-1] == second["value"][0] and first["ts_ns"][-1] == second["ts_ns"][0]


def test_processes_that_come_and_go_end_nothing(tmp_path: Path) -> None:
    pid_file, script = tmp_path / "told", 'echo $$ > "$0"; for i in $(seq 300); do /bin/true; done'
    records = sampled(tmp_path / "x.rec", "--hz", "200", "--groups", "process,cpu", "--", "sh", "-c", script, pid_file)
    assert records.complete and last(records, "stat.processes") - readings(records, "stat.processes")["value"][0] >= 300
    ended = readings(records, "stat.cutime", pid=int(pid_file.read_text()))["value"].to_list()
    assert ended == sorted(ended)


PHONE = {
    "fs/f2fs/sda12/dirty_segments": "17\n",
    "fs/f2fs/sda12/gc_background_calls": "5\n",
    "class/block/sda12/dev": "8:12\n",
    "fs/f2fs/features/dirty_segments": "not a number\n",
    "class/thermal/thermal_zone3/temp": "-4500\n",
    "class/thermal/thermal_zone3/type": "skin \x1b[31m\n",
    "devices/system/cpu/cpu7/cpufreq/scaling_cur_freq": "1800000\n",
    "bus/mmc/devices/mmc0:0001/life_time": "0x01 0x0b\n",
    "bus/mmc/devices/mmc0:0001/pre_eol_info": "0x02\n",
    "bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/health_descriptor/life_time_estimation_a": "0x03\n",
    "bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/attributes/wb_avail_buf": "0xA\n",
}
"""Files of /sys on phones, which this machine lacks."""


@pytest.mark.root
def test_files_of_phones_are_found_and_read(tmp_path: Path) -> None:
    """A file changes and one vanishes while the command runs, between the first and the last reading."""
    for name, text in {**PHONE, "fs/f2fs/sda12/not_read": "1\n"}.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(text)
    groups = "frequency,thermal,filesystem,health"
    script = (
        'mount --bind "$1" /sys && exec "$2" -q -o "$3" --groups "$4" --hz 10 -- sh -c '
        '"echo 18 >/sys/fs/f2fs/sda12/dirty_segments; rm /sys/class/thermal/thermal_zone3/temp"'
    )
    words = (tmp_path / "sys", built.program("procmon"), tmp_path / "out.rec", groups)
    built.run("unshare", "--mount", "sh", "-c", script, "sh", *words)
    texts = record.read(tmp_path / "out.rec").tables["text"].drop_nulls("text")
    found = {path: rows["text"].to_list() for (path,), rows in texts.group_by("path", maintain_order=True)}
    expected = {f"/sys/{name}": [text] for name, text in PHONE.items()}
    expected["/sys/fs/f2fs/sda12/dirty_segments"].append("18\n")
    assert found == expected


@pytest.mark.root
def test_what_only_root_may_read_is_counted(tmp_path: Path) -> None:
    program = os.memfd_create("procmon")
    os.write(program, built.program("procmon", "native").read_bytes())
    command = [f"/proc/self/fd/{program}", "-q", "-o", "-", "--time", "200ms"]
    try:
        done = subprocess.run(
            command, capture_output=True, user=65534, group=65534, extra_groups=[], pass_fds=[program], cwd="/"
        )
    finally:
        os.close(program)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "x.rec"
    path.write_bytes(done.stdout)
    records = record.read(path)
    losses = {loss.kind: loss.count for loss in records.losses}
    assert losses["denied"] >= 1 and last(records, "stat.utime", pid=1) >= 0
    assert readings(records, "io.rchar", pid=1).is_empty()


# --- words -----------------------------------------------------------------------------------------------------------


def test_records_go_to_standard_output(tmp_path: Path) -> None:
    done = built.run(built.program("procmon"), "-q", "-o", "-", "--time", "100ms")
    path = tmp_path / "x.rec"
    path.write_bytes(done.stdout)
    assert record.read(path).complete


def test_the_device_build_samples_under_qemu(tmp_path: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64-static is not installed")
    program, path = built.program("procmon", "aarch64-linux-musl"), tmp_path / "x.rec"
    built.run(emulator, program, "-q", "-o", path, "--time", "1")
    records = record.read(path)
    assert records.complete and records.header["machine"] == "aarch64"
    assert records.tables["tick"].height >= 3 and last(records, "stat.ctxt") > 0
    described = json.loads(built.run(emulator, program, "--describe").stdout)
    assert described == built.described("procmon")
