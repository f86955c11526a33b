"""Compare measures, summary, advice and exports of a recording with the logs of the workload and the disk.

The logs determine a value (`low` = `high`) or bound it: a file with two names may be listed under either, and a block
written by two processes under either. A value may be lower than `low` by the amount in rows without a name.
`JUDGES` has all measures that can be compared, and `UNJUDGED` the others, with the reason.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

import androstep_analysis as androstep
from androstep_analysis import compare
from androstep_analysis import report as reports
from androstep_analysis.capture import Capture
from androstep_analysis.compare.measures import Recording as Measured
from androstep_analysis.compare.measures import measured
from androstep_analysis.datasets import export
from androstep_analysis.present import headline
from androstep_analysis.present.sheets import Sheet
from harness import oplog
from harness.judge import Recording
from harness.oplog import Key, Op

PAGE = 4096
SECTOR = 512
WRITES = (oplog.STAMP, oplog.DATA)
CHANGES = (*WRITES, oplog.STORE, oplog.OPEN, oplog.TRUNCATE, oplog.UNLINK, oplog.RENAME, oplog.LINK, oplog.DROP,
           oplog.COLLAPSE, oplog.INSERT)  # fmt: skip
FORGETS = (oplog.TRUNCATE, oplog.DROP, oplog.COLLAPSE, oplog.INSERT, oplog.UNLINK, oplog.RENAME)

Group = tuple[Any, ...]
Range = tuple[float, float]
"""Lower and upper bound of a group."""


@dataclass
class Known:
    """The logs of a recording: process, operation and file."""

    recording: Recording

    @cached_property
    def processes(self) -> list[str]:
        """The name of every process. Its index identifies it, even if several processes had the same id."""
        return [name for name, _ in self.numbered]

    @cached_property
    def numbered(self) -> list[tuple[str, int]]:
        """The name and the id of every process, in the order in which they began."""
        begun = [op for op in self.recording.operations if op.op == oplog.PROCESS]
        main = next(op for op in self.recording.operations if op.op == oplog.RUN)
        return [("workload", main.pid), *((op.payload.decode()[:15], op.pid) for op in begun)]

    @cached_property
    def operations(self) -> list[Op]:
        """The log, with the index of the process instead of its id."""
        number, begun, found = {self.numbered[0][1]: 0}, itertools.count(1), []
        for op in self.recording.operations:
            if op.op == oplog.PROCESS:
                number[op.pid] = next(begun)
            found.append(op._replace(pid=number.get(op.pid, 0)))
        return found

    @cached_property
    def run(self) -> list[Op]:
        """The operations within the recording."""
        begin = next(op.sequence for op in self.operations if op.op == oplog.RUN)
        return [op._replace(key=self._names.now.get(op.key, op.key)) for op in self.operations if op.sequence > begin]

    @cached_property
    def _names(self) -> oplog.Names:
        return oplog.names(self.operations)

    @cached_property
    def directories(self) -> list[str]:
        """Every path of a directory."""
        files = {path for paths in self._names.of.values() for path in paths}
        moved = {path for op in self.run if op.op == oplog.RENAME for path in op.payload.decode().split("\0")}
        above = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
        return ["/", *(f"/{path}" for path in sorted(above | (moved - files)))]

    def paths(self, key: Key) -> list[str]:
        """Return the paths that a file had; those of all directories for a file without a name."""
        return [f"/{path}" for path in self._names.of.get(key, ())] or self.directories

    @cached_property
    def by_path(self) -> dict[str, set[Key]]:
        """The files that had a path."""
        found = defaultdict(set)
        for key in self._names.of:
            for path in self.paths(key):
                found[path].add(key)
        return found

    @cached_property
    def moved(self) -> pl.DataFrame:
        """The I/O of the disk: op, ts, kind, sectors, bytes, file and offset, and the possible `paths` and `owners`."""
        of_op = {
            "write": self.recording.truth_of(self.recording.bios, self.operations),
            "read": self.recording.reads_of(self.operations),
        }
        rows = [row | {"op": op} for op, truth in of_op.items() for row in truth.rows.to_dicts()]
        return pl.DataFrame([self._moved(row) for row in rows], infer_schema_length=None)

    def _moved(self, row: dict[str, Any]) -> dict[str, Any]:
        key = None if row["ino"] is None else Key(row["ino"], row["gen"])
        numbers = row["writer_pids"] or (range(len(self.processes)) if key is None else self._touched[key])
        return {
            **{
                name: row[name]
                for name in ("ts", "kind", "ino", "gen", "offset_bytes", "sector", "sectors", "bio_sector", "op")
            },
            "bytes": row["sectors"] * SECTOR,
            "paths": self.directories if key is None else self.paths(key),
            "owners": sorted({self.processes[number] for number in numbers}),
        }

    @cached_property
    def _touched(self) -> dict[Key, set[int]]:
        found = defaultdict(set)
        for op in self.run:
            found[op.key].add(op.pid)
        return found

    @cached_property
    def submitted(self) -> dict[str, int]:
        """Bytes of the requests of each process: of those whose first bio it queued."""
        begun = [(op.pid, op.ts_ns) for op in self.recording.operations if op.op == oplog.PROCESS]
        rows = [(pid, ts, name) for (pid, ts), name in zip(begun, self.processes[1:], strict=True)]
        rows.append((self.numbered[0][1], 0, self.processes[0]))
        names = pl.DataFrame(rows, schema={"pid": pl.Int64, "ts": pl.Int64, "name": pl.String}, orient="row").sort("ts")
        inside = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors")).alias("at")
        bios = pl.concat([self.recording.bios, self.recording.read_bios]).select(
            "ts", inside, pl.col("pid").cast(pl.Int64), queued="ts"
        )
        issued = self.recording.issued.with_row_index("request").select("request", "ts", inside).explode("at")
        latest = issued.sort("ts").join_asof(bios.explode("at").sort("ts"), on="ts", by="at", check_sortedness=False)
        requests = latest.group_by("request").agg(
            pl.col("pid").sort_by("queued").drop_nulls().first(), ts=pl.col("queued").min(), bytes=pl.len() * SECTOR
        )
        found = requests.drop_nulls().sort("ts").join_asof(names, on="ts", by="pid", check_sortedness=False)
        return dict(found.drop_nulls("name").group_by("name").agg(pl.col("bytes").sum()).iter_rows())

    @property
    def open_bytes(self) -> int:
        """Upper bound of the bytes of unknown origin."""
        return PAGE * sum(truth.ambiguous.total() for truth in (self.recording.truth, self.recording.truth_of_reads))

    def files_of(self, op: Op) -> set[Key]:
        """Return the possible files of an operation, because some are logged with a path only."""
        if op.op not in (oplog.UNLINK, oplog.RENAME, oplog.LINK):
            return {op.key}
        return set().union(*(self.by_path.get(f"/{path}", set()) for path in op.payload.decode().split("\0")))

    def changed(self, process: str, path: str) -> bool:
        """Check whether a process of this name changed a file of this path, or an entry of this directory.

        Creation and removal of directories are not logged: a path that no file had may be one.
        """
        changed = self._changed[process]
        return path in changed or (path not in self.by_path and (path.rpartition("/")[0] or "/") in changed)

    @cached_property
    def _changed(self) -> dict[str, set[str]]:
        found = defaultdict(set)
        for op in self.run:
            if op.op in (*CHANGES, oplog.SYNC):
                said = op.payload.decode(errors="replace").split("\0") if op.op not in (*WRITES, oplog.SYNC) else []
                paths = {*self.paths(op.key), *(f"/{path}" for path in said)} if op.key.ino or said else set()
                above = {path.rpartition("/")[0] or "/" for path in paths}
                found[self.processes[op.pid]] |= paths | above
        return found

    def counted(self, *ops: int, of: Callable[[Op], float] = lambda op: 1) -> pl.DataFrame:
        """Return the logged values of these operations, with the possible paths and owners."""
        rows = [
            {"paths": self.paths(op.key), "owners": [self.processes[op.pid]], "value": float(of(op))}
            for op in self.run
            if op.op in ops
        ]
        return pl.DataFrame(
            rows, schema={"paths": pl.List(pl.String), "owners": pl.List(pl.String), "value": pl.Float64}
        )


NAMED: Final = {"path": "paths", "owner_comm": "owners"}
"""The dimensions with names, and the column of `Known.moved` with the possible names."""


def ranges(rows: pl.DataFrame, by: Sequence[str], value: str = "bytes") -> dict[Group, Range]:
    """Return the lower and upper bound of each group."""
    lists = [NAMED[name] for name in by if name in NAMED]
    is_sure = pl.all_horizontal(pl.lit(True), *(pl.col(name).list.len() == 1 for name in lists))
    wide = rows.with_columns(low=pl.when(is_sure).then(value).otherwise(0)).rename(
        {NAMED[name]: name for name in by if name in NAMED}
    )
    for name in by:
        if name in NAMED:
            wide = wide.explode(name)
    sums = wide.group_by(by).agg(pl.col("low").sum(), high=pl.col(value).sum())
    return {tuple(key): (low, high) for *key, low, high in sums.select(*by, "low", "high").iter_rows()}


def wrong(
    name: str, said: pl.DataFrame, by: Sequence[str], known: dict[Group, Range], slack: float = 0, is_whole: bool = True
) -> Iterator[str]:
    """Yield the errors in `said` (by, value, inferred: share of value). `is_whole`: also report missing values."""
    inferred = pl.col("inferred").fill_null(0) if "inferred" in said.columns else pl.lit(0.0)
    rows = said.with_columns(fact=pl.col("value") * (1 - inferred))
    is_named = pl.all_horizontal(pl.lit(True), *(pl.col(one).is_not_null() for one in by))
    found = {tuple(key): fact for *key, fact in rows.filter(is_named).select(*by, "fact").iter_rows()}
    for group, fact in found.items():
        most = known.get(group, (0, 0))[1]
        if fact > most + slack:
            yield f"{name} {group}: {fact:,.0f}, at most {most:,.0f}"
    lacking = sum(max(0, low - found.get(group, 0)) for group, (low, _) in known.items())
    spare = rows.select(pl.col("value").sum() - pl.col("fact").filter(is_named).sum()).item() + slack
    if is_whole and lacking > spare:
        yield f"{name}: {lacking:,.0f} are lacking, {spare:,.0f} have no name"


# -- measures of table io ---------------------------------------------------------------------------------------------


def of(capture: Capture, name: str, *by: str) -> pl.DataFrame:
    """Return a measure of the capture as `androstep measure` does."""
    table = measured(Measured.of(capture), compare.measures()[name], None, by).table
    return table.with_columns(pl.col(pl.Enum).cast(pl.String))


BYS: Final = (("path",), ("owner_comm",), ("owner_comm", "path"))

UNLOGGED: Final = r"^(jbd2/|f2fs_|kworker/|iotrace$)"
"""Threads of the filesystem, which own its metadata blocks, and the recorder, which lists directories."""


def added(table: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the value and inferred share of each group, without processes that are not logged (`UNLOGGED`)."""
    share = pl.col("inferred").fill_null(0) if "inferred" in table.columns else pl.lit(0.0)
    sums = table.group_by(by).agg(
        inferred=(pl.col("value") * share).sum() / pl.col("value").sum(), value=pl.sum("value")
    )
    return sums.filter(~pl.col("owner_comm").str.contains(UNLOGGED).fill_null(False)) if "owner_comm" in by else sums


def problems(known: Known, capture: Capture) -> dict[str, list[str]]:
    """Return the errors in each measure, in the texts and in the exports."""
    exports = {name: judge for name, judge in EXPORTS.items() if not isinstance(judge, str)}
    found = {name: list(judge(known, capture)) for name, judge in {**JUDGES, **WORDS, **exports}.items()}
    return {name: wrong for name, wrong in found.items() if wrong}


def _data(known: Known) -> pl.DataFrame:
    return known.moved.filter(pl.col("kind") == "data")


def volumes(name: str) -> Callable[[Known, Capture], Iterator[str]]:
    """Return a judge of a measure of bytes read and written."""

    def judged(known: Known, capture: Capture) -> Iterator[str]:
        for by in BYS:
            groups = ["op", *by]
            table = of(capture, name, *by).filter(pl.col("metric") == "bytes", pl.col("op").is_in(["read", "write"]))
            yield from wrong(name, added(table, groups), groups, ranges(known.moved, groups), known.open_bytes)

    return judged


def block_types(known: Known, capture: Capture) -> Iterator[str]:
    for by in BYS:
        groups = ["op", *by]
        table = of(capture, "block_types", *by).filter(metric="bytes", block_type="data")
        yield from wrong("block_types", table, groups, ranges(_data(known), groups), known.open_bytes)


def file_types(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the type of each file by its name."""
    kinds = {r"\.db$": "sqlite_db", r"-journal$": "sqlite_journal", r"-wal$": "sqlite_wal", r"-shm$": "sqlite_shm",
             r"\.tmp$": "temporary", r"\.log(\.1)?$": "log"}  # fmt: skip
    table = of(capture, "file_types", "path").filter(metric="bytes")
    for path, kind in table.select("path", "file_type").drop_nulls().unique().iter_rows():
        expected = next((kind for end, kind in kinds.items() if re.search(end, path)), None)
        if expected and kind != expected:
            yield f"file_types: {path} is {kind}, not {expected}"
    groups = ["op", "path"]
    summed = table.group_by(groups).agg(pl.col("value").sum())
    yield from wrong("file_types", summed, groups, ranges(_data(known), groups), known.open_bytes)


def sync(known: Known, capture: Capture) -> Iterator[str]:
    written = known.moved.filter(op="write")
    for by in BYS:
        table = of(capture, "sync", *by).filter(metric="bytes")
        yield from wrong("sync", added(table, by), by, ranges(written, by), known.open_bytes)


def bursts(known: Known, capture: Capture) -> Iterator[str]:
    for by in BYS:
        table = of(capture, "bursts", *by).filter(metric="bytes")
        yield from wrong("bursts", added(table, by), by, ranges(known.moved, by), known.open_bytes)


def blocks(
    name: str, metric: str, *, scale: int = 1, column: str = "value", ops: Sequence[str] = ("read", "write"),
    is_whole: bool = True,
) -> Callable[[Known, Capture], Iterator[str]]:  # fmt: skip
    """Return a judge of a measure of blocks. A block counts once for each request that touches it."""

    def judged(known: Known, capture: Capture) -> Iterator[str]:
        whole = pl.col("sectors") + pl.col("sector") % 8
        rows = known.moved.filter(pl.col("op").is_in(ops)).with_columns(bytes=(whole + 7) // 8 * PAGE)
        for by in BYS:
            table = of(capture, name, *by).filter(metric=metric).with_columns(value=pl.col(column) * scale)
            groups = [*(["op"] if "op" in table.columns else []), *by]
            # Values that are equal in all rows of a group count once.
            table = table.unique([*groups, *(["class"] if "class" in table.columns else [])])
            yield from wrong(name, added(table, groups), groups, ranges(rows, groups), known.open_bytes, is_whole)

    return judged


# -- costs and syncs --------------------------------------------------------------------------------------------------


def write_cost(known: Known, capture: Capture) -> Iterator[str]:
    written = known.counted(*WRITES, of=lambda op: op.length)
    data = _data(known).filter(op="write").sort("ts")
    spans = pl.int_ranges("offset_bytes", pl.col("offset_bytes") + pl.col("bytes"), SECTOR)
    sectors = data.with_columns(at=spans).explode("at").with_columns(bytes=pl.lit(SECTOR))
    is_first = pl.struct("ino", "gen", "at").is_first_distinct()
    forgotten = {key for op in known.run if op.op in FORGETS for key in known.files_of(op)}
    for by in BYS:
        table = of(capture, "write_cost", *by)
        cost, fates = table.filter(metric="cost"), table.filter(metric="written")
        is_told = known.recording.fs_type in SYNCED
        # SQLite extends its -shm without the logging VFS.
        is_shm = pl.col("path").str.ends_with("-shm").fill_null(False) if "path" in by else pl.lit(False)
        all_written = fates.filter(~is_shm).group_by(by).agg(pl.col("value").sum())
        # Nothing shows whether a write to a block that another process also changed was direct.
        yield from wrong("write_cost written", all_written, by, ranges(written, by, "value"), 4 * PAGE, is_told)
        out = fates.filter(~is_shm, part="out")
        yield from wrong("write_cost out", out, by, ranges(data, by), known.open_bytes, is_whole=False)
        dropped = known.counted(*WRITES, of=lambda op: op.length if op.key in forgotten else 0)
        yield from wrong(
            "write_cost dropped", fates.filter(part="dropped"), by, ranges(dropped, by, "value"), 16, False
        )
        both = added(cost.filter(pl.col("part").is_in(["data", "rewritten"])), by)
        yield from wrong("write_cost data", both, by, ranges(data, by), known.open_bytes)
        again = cost.filter(part="rewritten")
        yield from wrong("write_cost rewritten", again, by, ranges(sectors.filter(~is_first), by), known.open_bytes)
    shared = of(capture, "write_cost", "owner_comm", "path").filter(
        pl.col("part").is_in(["journal", "metadata", "directory", "node", "discard"]),
        metric="cost",
    ).drop_nulls(["owner_comm", "path"])  # fmt: skip
    for process, path, part, value in shared.select("owner_comm", "path", "part", "value").iter_rows():
        if process in known.processes and not known.changed(process, path):
            yield f"write_cost {part}: {process} pays {value:,.0f} for {path}, which it did not change"


def _syncs(known: Known, *calls: bytes) -> pl.DataFrame:
    return known.counted(oplog.SYNC, of=lambda op: op.payload in calls)


def sync_cost(known: Known, capture: Capture) -> Iterator[str]:
    for by in BYS:
        table = of(capture, "sync_cost", *by).drop_nulls("call").filter(metric="cost")
        calls = table.group_by(by).agg(value=pl.col("n").max().cast(pl.Float64))
        yield from wrong("sync_cost calls", calls, by, ranges(_syncs(known, b"fsync"), by, "value"), is_whole=False)


SYNCED: Final = ("ext4", "f2fs")
"""Filesystems with events of writes and syncs. For others these measures are empty, and io relies on probes."""


def fsyncs(known: Known, capture: Capture) -> Iterator[str]:
    lasted = known.counted(oplog.SYNC, of=lambda op: op.done_ns - op.ts_ns)
    for by in BYS:
        table = of(capture, "fsyncs", *by)
        calls = table.filter(metric="calls")
        if calls.is_empty() and known.recording.fs_type not in SYNCED:
            continue
        yield from wrong("fsyncs calls", calls, by, ranges(_syncs(known, b"fsync", b"msync"), by, "value"))
        longest = lasted.rename({NAMED[name]: name for name in by})
        for name in by:
            longest = longest.explode(name)
        most = {tuple(key): (0.0, value) for *key, value in longest.group_by(by).agg(pl.col("value").max()).iter_rows()}
        yield from wrong("fsyncs latency", table.filter(metric="latency_max"), by, most, is_whole=False)


LOGS: Final = {"delete": "journal", "truncate": "journal", "persist": "journal", "wal": "wal", "memory": "none",
               "off": "none"}  # fmt: skip


def sqlite_cost(known: Known, capture: Capture) -> Iterator[str]:
    commits = Counter(f"/{op.payload.decode()}" for op in known.run if op.op == oplog.ENDED)
    data = ranges(_data(known).filter(op="write"), ["path"])
    syncs = ranges(_syncs(known, b"fsync"), ["path"], "value")
    table = of(capture, "sqlite_cost")
    for database, log, n in table.select("database", "log", "n").unique().iter_rows():
        mode = database.removeprefix("/db/").removesuffix(".db")
        if log is not None and LOGS.get(mode) != log:
            yield f"sqlite_cost: {database} has log {log}"
        # Without a journal a transaction that changes the size of the file may begin twice.
        if n > commits[database]:
            yield f"sqlite_cost: {n} transactions of {database}, of {commits[database]}"
    files = [f"{database}{end}" for database in commits for end in ("", "-journal", "-wal")]
    of_database = pl.col("path").str.replace("-(journal|wal)$", "")
    both = table.filter(pl.col("part").is_in(["data", "rewritten"]), metric="cost").group_by("database").agg(
        pl.col("value").sum()
    )  # fmt: skip
    most = _sums({path: data.get((path,), (0, 0)) for path in files}, of_database)
    yield from wrong("sqlite_cost data", both, ["database"], most, known.open_bytes, is_whole=False)
    per = table.filter(metric="syncs_per_transaction").with_columns(pl.col("value") * pl.col("n"))
    most = _sums({path: syncs.get((path,), (0, 0)) for path in files}, of_database)
    yield from wrong("sqlite_cost syncs", per, ["database"], most, 1e-6, is_whole=False)


def _sums(of_path: dict[str, Range], database: pl.Expr) -> dict[Group, Range]:
    rows = [{"path": path, "low": low, "high": high} for path, (low, high) in of_path.items()]
    sums = pl.DataFrame(rows).group_by(database=database).agg(pl.col("low", "high").sum())
    return {(name,): (low, high) for name, low, high in sums.iter_rows()}


def readahead(known: Known, capture: Capture) -> Iterator[str]:
    read = _data(known).filter(op="read")
    for by in BYS:
        table = of(capture, "readahead", *by).filter(metric="bytes")
        yield from wrong("readahead", added(table, by), by, ranges(read, by), known.open_bytes)


# -- who submitted ----------------------------------------------------------------------------------------------------


def mix(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the bytes queued by each process. A request of several bios belongs to the process of the first one."""
    said = of(capture, "mix", "submit_comm").filter(metric="bytes").group_by("submit_comm").agg(pl.col("value").sum())
    is_logged = pl.col("submit_comm").is_in(known.processes)
    submitted = {(name,): (float(size), float(size)) for name, size in known.submitted.items()}
    # Slack for the two marks at the ends of the recording.
    yield from wrong("mix", said.filter(is_logged), ["submit_comm"], submitted, 2 * PAGE, is_whole=False)


def submitters(name: str, metric: str) -> Callable[[Known, Capture], Iterator[str]]:
    """Return a judge of a measure of requests: logged processes in it must have queued something."""

    def judged(known: Known, capture: Capture) -> Iterator[str]:
        table = of(capture, name, "submit_comm").filter(pl.col("metric") == metric, pl.col("value") > 0)
        for comm in table["submit_comm"].drop_nulls().unique():
            if comm in known.processes[1:] and comm not in known.submitted:
                yield f"{name}: {comm} queued nothing"

    return judged


_UNSEEN = "names nothing but threads, by the number that the event has"

JUDGES: Final[dict[str, Callable[[Known, Capture], Iterator[str]]]] = {
    "volume": volumes("volume"),
    "causes": volumes("causes"),
    "daily": volumes("daily"),
    "sync": sync,
    "block_types": block_types,
    "file_types": file_types,
    "bursts": bursts,
    "reuse": blocks("reuse", "accesses", scale=PAGE),
    "miss_ratio": blocks("miss_ratio", "miss_ratio", scale=PAGE, column="n"),
    "hotness": blocks("hotness", "size", scale=PAGE, column="n"),
    "lifetimes": blocks("lifetimes", "writes", scale=PAGE, ops=("write",)),
    "block_uses": blocks("block_uses", "bytes", is_whole=False),
    "working_set": blocks("working_set", "largest", is_whole=False),
    "write_cost": write_cost,
    "sync_cost": sync_cost,
    "sqlite_cost": sqlite_cost,
    "fsyncs": fsyncs,
    "readahead": readahead,
    "mix": mix,
    **{name: submitters(name, metric) for name, metric in {
        "rate": "bandwidth", "locality": "bytes", "latency": "latency", "queue": "issued",
        "depth": "max", "idle": "time",
    }.items()},
}  # fmt: skip

UNJUDGED: Final = {
    "steps": _UNSEEN,
    "seeks": _UNSEEN,
    "seek_distances": _UNSEEN,
    "merges": _UNSEEN,
    "command_latency": "names devices and commands, which a loop device does not have",
    "file_io": "counts what calls ask for, of which tests/measures/test_file_io.py has the truth",
    "samples": "the workload reads no counters",
    "starts": "the workload starts no app; tests/device/test_boxed_phone.py has the truth",
    "bench": "names what a benchmark says of itself",
    "replay": "names what a replay says of itself",
}

# -- texts and exports ------------------------------------------------------------------------------------------------


def summary(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the summary's tables of bytes by process and file."""
    causes = pl.concat(table.rows for table in headline.of(capture).tables if isinstance(table, Sheet))
    is_logged = ~pl.col("owner").str.contains(UNLOGGED).fill_null(False)
    rows = causes.filter(is_logged, pl.col("inferred").fill_null(0) == 0)
    groups = ["op", "owner_comm", "path"]
    said = rows.with_columns(pl.col("op").cast(pl.String)).group_by("op", "path", owner_comm="owner")
    said_bytes = said.agg(value=pl.sum("bytes"))
    yield from wrong("summary", said_bytes, groups, ranges(known.moved, groups), known.open_bytes, is_whole=False)


def advice(known: Known, capture: Capture) -> Iterator[str]:
    """Check that the process of each finding used its file, and that the values do not exceed the log."""
    syncs, ended = (
        _syncs(known, b"fsync"),
        Counter(f"/{op.payload.decode()}" for op in known.run if op.op == oplog.ENDED),
    )
    lasted = known.counted(oplog.SYNC, of=lambda op: op.done_ns - op.ts_ns)
    written = ranges(_data(known).filter(op="write"), ["path"])
    gone = Counter(f"/{op.payload.decode().rpartition('/')[0]}/" for op in known.run if op.op == oplog.UNLINK)
    for row in androstep.advise(capture).filter(status="found").iter_rows(named=True):
        trigger, process, path, times = (row[name] for name in ("trigger", "process", "path", "times"))
        at = f"advise {trigger}: {process} at {path}"
        if path and process and not known.changed(process, path.rstrip("/")):
            yield f"{at}, which it did not change"
        by, group = (("owner_comm", "path"), (process, path)) if path else (("owner_comm",), (process,))
        for what, logged, said in (("calls", syncs, times), ("ns", lasted, row["took_ns"])):
            if trigger == "syncs" and said > ranges(logged, by, "value").get(group, (0, 0))[1]:
                yield f"{at}: {said} {what}"
        if trigger == "rollback" and times > ended[path]:
            yield f"{at}: {times} transactions"
        if trigger == "rewrites" and path and row["bytes"] > written.get((path,), (0, 0))[1]:
            yield f"{at}: {row['bytes']} bytes"
        if trigger == "temporary" and times > gone.total():
            yield f"{at}: {times} files"


def blkparse(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the process of each request, by id and name."""
    called = defaultdict(set)
    for comm, pid in known.numbered:
        called[pid].add(comm)
    for line in _lines(capture, "blkparse"):
        found = re.match(r"\s*\d+,\d+\s+\d+\s+\d+\s+\S+\s+(\d+)\s+Q\s.*\[(.+)\]$", line)
        if found and int(found[1]) in called and found[2] not in called[int(found[1])]:
            yield f"blkparse: process {found[1]} is called {found[2]}"


def most(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the file in which each queued bio begins."""
    begins = known.moved.filter(pl.col("sector") == pl.col("bio_sector"), pl.col("kind") == "data")
    paths = {(ts, sector): paths for ts, sector, paths in begins.select("ts", "sector", "paths").iter_rows()}
    for line in _lines(capture, "most"):
        fields = line.split("\t")
        at = int(fields[0].replace(".", "")), int(fields[3])
        if fields[1] == "Q" and len(fields) > 8 and at in paths and fields[8] not in paths[at]:
            yield f"most: {fields[8]} at {fields[0]}, where {paths[at]} was"


def _lines(capture: Capture, target: str) -> list[str]:
    written = io.BytesIO()
    export.write(capture, target, written)
    return written.getvalue().decode().splitlines()


def report(known: Known, capture: Capture) -> Iterator[str]:
    """Judge the bytes read and written by process and by file in the report's page."""
    with tempfile.TemporaryDirectory() as directory:
        reports.write(capture, Path(directory) / "report.html")
        text = (Path(directory) / "report.html").read_text()
    for label, by, rows in (("Processes", "owner_comm", known.moved), ("Files", "path", _data(known))):
        columns = _columns(text, label)
        names, (read, written, _, inferred) = columns[0], columns[-4:]
        for op, values in (("read", read), ("write", written)):
            both = {by: names["texts"], "value": values["values"], "inferred": inferred["values"]}
            moved = pl.DataFrame(both, schema={by: pl.String, "value": pl.Float64, "inferred": pl.Float64})
            # The inferred share is that of both directions together.
            is_logged = ~pl.col(by).str.contains(UNLOGGED).fill_null(False)
            certain = moved.filter(is_logged, pl.col("inferred").fill_null(0) == 0)
            yield from wrong(f"report {label} {op}", certain, [by], ranges(rows.filter(op=op), [by]),
                             known.open_bytes, is_whole=False)  # fmt: skip


def _columns(text: str, label: str) -> list[dict[str, list[Any]]]:
    """Return the columns of a table of the report, with texts and numbers from the page's JSON."""
    data = re.search(rf'aria-label="{label}".*?<script type="application/json">(.*?)</script>', text, flags=re.DOTALL)
    assert data is not None, f"the report has no table {label}"
    columns: list[dict[str, list[Any]]] = json.loads(data[1])
    return columns


WORDS: Final = {"summary": summary, "advise": advice, "report": report}

_NAMELESS = "names neither files nor processes"
EXPORTS: Final[dict[str, Callable[[Known, Capture], Iterator[str]] | str]] = {
    "blkparse": blkparse,
    "most": most,
    "perfetto": "its tracks are columns of table io (tests/datasets), which `judge` judges",
    "blktrace": "the same rows as blkparse",
    "mobigen": "of recorded calls with paths, which no kernel of the harness records",
    **dict.fromkeys(("btt", "fio2", "fio3", "msr", "oraclegeneral"), _NAMELESS),
}
"""The judge of each export, or why it has none."""
