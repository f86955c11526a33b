"""Output of results in the format of Mobibench 1.0.9: the lines that it prints, and the logs of its -L and -k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from androstep_analysis.bench.mobibench import SQLITE_TESTS, SYNC_MODES, SYNCHRONOUS, TESTS
from androstep_analysis.bench.tables import RUN
from androstep_analysis.common.markup import visible

Row = Mapping[str, Any]
Tables = Mapping[str, pl.DataFrame]

_ACCESS: Final = {test: number for number, test in TESTS.items()}
_RULE: Final = "-" * 41
_SECOND_NS: Final = 1_000_000_000


def lacks(run: Row) -> str | None:
    """Return the reason why Mobibench's format cannot represent a run (a row of table bench_runs), or None."""
    if run["workload"] == "postmark":
        return "Mobibench has no PostMark"
    if run["workload"] == "sqlite":
        return None if run["test"] in SQLITE_TESTS else "Mobibench has no selects and no mixed transactions"
    if run["test"] not in _ACCESS:
        return "Mobibench has no mixed reads and writes"
    if run["sync_mode"] not in SYNC_MODES or (run["after_every"] or 1) != 1:
        return "Mobibench has no number (-y) for this mode"
    if run["block_bytes"] % 1024 or run["file_bytes"] % 1024:
        return "Mobibench counts files and records in whole KB"
    return None


def lines(tables: Tables) -> str:
    """Return the output of Mobibench for every repetition."""
    return "".join(f"{line}\n" for run, whole in _runs(tables) for line in _lines(run, whole))


def latency_log(tables: Tables) -> str:
    """Return the text that Mobibench appends to the file of -L: the latency of each operation, worker by worker.

    Every operation of the runs must be logged (`--log-ops`).
    """
    text = ""
    for run, whole in _runs(tables):
        logged, parts = (_of(tables[name], run) for name in ("bench_ops", "bench"))
        for thread in range(run["threads"]):
            own = logged.filter(thread=thread)
            text += _head(run)
            text += "".join(f"{(ns + 500) // 1000}\tusec\n" for ns in own.filter(part="op")["latency_ns"])
            if lost := parts.filter(thread=thread)["ops"].sum() - own.height:
                text += f"#{lost} more were not logged\n"
        text += _time(run, whole) if run["valid"] else _invalid(run)  # the next heading begins with a line end
    return text


def iops_log(tables: Tables) -> str:
    """Return the text that Mobibench appends to the file of -k: the work of each worker in each second."""
    text = ""
    for run, _ in _runs(tables):
        windows = _of(tables["bench_series"], run)
        for thread in range(run["threads"]):
            text += _head(run) + "".join(f"{line}\n" for line in _seconds(run, windows.filter(thread=thread)))
        text += "" if run["valid"] else _invalid(run)
    return text


def _runs(tables: Tables) -> Iterator[tuple[Row, Row]]:
    """Yield each repetition and its row of table bench of all workers together."""
    for run in tables["bench_runs"].iter_rows(named=True):
        whole = _of(tables["bench"], run).filter(thread=-1, part="op")
        yield run, whole.row(0, named=True) if whole.height else dict.fromkeys(whole.columns)


def _of(table: pl.DataFrame, run: Row) -> pl.DataFrame:
    return table.filter(**{name: run[name] for name in RUN})


# -- lines ------------------------------------------------------------------------------------------------------------


def _lines(run: Row, whole: Row) -> Iterator[str]:
    is_sqlite = run["workload"] == "sqlite"
    yield from (_RULE, "[mobibench measurement setup]", _RULE)
    yield from _sqlite_setup(run, whole) if is_sqlite else _file_setup(run, whole)
    yield from (f"# of Threads : {run['threads']}", "setState: 1")
    for database in range(run["databases"] if is_sqlite and run["sqlite_version"] else 0):
        yield from _database(run, database)
    yield "setState: 2"
    if run["valid"]:
        yield from (_RULE, "[Messurement Result]", _RULE, *_cpu(run), _time(run, whole))
        if run["threads"] == 1:
            voluntary = whole["ctx_voluntary"]
            yield f"[CON SWITCHES] : {voluntary + whole['ctx_involuntary']} {voluntary}"
    yield f"setState: {3 if run['valid'] else 4}"
    yield f"Err string : {'No error' if run['valid'] else visible(run['invalid'])}"


def _asked(run: Row, whole: Row) -> int:
    """Return the requested operations, or the completed ones if only a duration was requested."""
    return int(run["ops_asked"] or whole["ops"] or 0)


def _file_setup(run: Row, whole: Row) -> Iterator[str]:
    threads, record = run["threads"], run["block_bytes"]
    share = run["file_bytes"] // threads if run["shared"] else run["file_bytes"]
    if run["ops_asked"] or run["duration_asked_ns"]:
        count = _asked(run, whole) // threads
    else:
        count = share // record * run["loops"]
    yield f"File size per thread : {share // 1024} KB"
    yield f"IO size : {record // 1024} KB"
    yield f"IO count : {count} "
    yield f"Access Mode {_ACCESS[run['test']]}, Sync Mode {SYNC_MODES.index(run['sync_mode'])}"


def _sqlite_setup(run: Row, whole: Row) -> Iterator[str]:
    yield "DB teset mode enabled."
    if run["think_ns"]:
        yield f"DB time interval : {run['think_ns'] // 1_000_000} ms"
    yield f"Operation : {SQLITE_TESTS.index(run['test'])}"
    yield f"Transactions per thread: {_asked(run, whole) // run['threads']}"
    yield f"# of Tables : {run['tables']}"
    yield f"# of Databases : {run['databases']}"


def _database(run: Row, database: int) -> Iterator[str]:
    yield from (_RULE, f"[DB information of db {visible(run['directory'])}/test.db0_{database}]", _RULE)
    yield f"sqlite_version={run['sqlite_version'].split(' ')[0]}"
    yield f"page_size={run['page_bytes']}"
    yield f"journal_mode={run['journal_mode'].lower()}"
    yield f"synchronous={SYNCHRONOUS.index(run['synchronous'])}"


def _cpu(run: Row) -> Iterator[str]:
    """Yield the CPU line unless the kernel has no CPU times, or its clock did not tick. The original printed -nan."""
    times = [run[f"cpu_{name}_ns"] for name in ("active", "idle", "iowait")]
    if None in times or min(times) < 0 or not (total := sum(times)):
        return
    yield f"[CPU] : Active,Idle,IoWait : {' '.join(f'{100 * time / total:1.2f}' for time in times)}"


def _time(run: Row, whole: Row) -> str:
    """Return Mobibench's line of the time and the rates, without the pauses of -i."""
    worked_ns = whole["duration_ns"] - whole["paused_ns"]
    us = (worked_ns + 500) // 1000
    ops, rate = (whole[name] * 1e9 / worked_ns if worked_ns > 0 else 0.0 for name in ("ops", "bytes"))
    text = f"[TIME] :{us // 1_000_000:8d} sec {us % 1_000_000:06d}us. \t"
    if run["workload"] == "sqlite":
        return f"{text}{ops:.2f} Transactions/sec"
    text += f"{rate:.0f} B/sec, \t{rate / 1024:.2f} KB/sec, \t{rate / 1024 / 1024:.2f} MB/sec."
    is_random = run["test"].startswith("rand")
    return f"{text} {ops:.2f} IOPS({run['block_bytes'] // 1024}KB) " if is_random else text


# -- logs -------------------------------------------------------------------------------------------------------------


def _head(run: Row) -> str:
    """Return the heading of a worker. If Mobibench has no such test, it has the test's name instead of the number."""
    if run["workload"] == "file" and not lacks(run):
        return f"\n#In {_ACCESS[run['test']]} IO mode and {SYNC_MODES.index(run['sync_mode'])} sync mode\n"
    mode = {"file": run["sync_mode"], "sqlite": run["synchronous"]}.get(run["workload"], "no")
    return f"\n#In {run['test']} IO mode and {mode} sync mode\n"


def _invalid(run: Row) -> str:
    return f"#invalid: {visible(run['invalid'])}\n"


def _seconds(run: Row, windows: pl.DataFrame) -> Iterator[str]:
    """Yield the work in each second of wall-clock time. If the last one is shorter, its length is added.

    KB are counted from the start, so that they add up.
    """
    is_file, is_random = run["workload"] == "file", run["test"].startswith("rand")
    counted = "bytes" if is_file and not is_random else "ops"
    unit = ("IOPS" if is_random else "KB/s") if is_file else "Transactions/sec"
    scale = 1024 if counted == "bytes" else 1
    done = before = since_ns = 0
    for row in windows.sort("ts_ns").iter_rows(named=True):
        end_ns = row["ts_ns"] + row["duration_ns"]
        if not since_ns:
            # The first window lacks the part before the first operation.
            is_only = windows.height == 1
            since_ns = row["ts_ns"] if is_only else end_ns - run["interval_ns"]
        elif row["ts_ns"] - since_ns >= _SECOND_NS:
            yield f"{done // scale - before // scale} {unit}"
            since_ns, before = row["ts_ns"], done
        done += row[counted]
    if windows.height:
        length_ns = end_ns - since_ns
        short = f"\t{length_ns / 1e9:.3f} sec" if length_ns < _SECOND_NS else ""
        yield f"{done // scale - before // scale} {unit}{short}"
