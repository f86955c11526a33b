"""SQLite as iobench drives it, judged by Python's sqlite3 and by the system calls: it is not fast for being empty."""

from __future__ import annotations

import ctypes
import itertools
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import benched, built, compiling

from androstep_analysis.ingest import record

JOURNAL_MODES = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
MODES = tuple(itertools.product(JOURNAL_MODES, SYNCHRONOUS))
SYSTEM = "libsqlite3.so.0"
VALUE_BYTES = 100

# The cache is for tests of its own; in these any will do.
COMMON = ("--cache", "any", "-q")


def job(directory: Path, *words: str | Path) -> list[str | Path]:
    return ["sqlite", "--directory", directory, *COMMON, *words]


def kept(directory: Path) -> list[Path]:
    """Return the databases that a run with --keep left."""
    return sorted(path for path in (directory / "iobench-kept").glob("test.db*") if "-" not in path.name)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as database:
        yield database


def tables(path: Path) -> dict[str, dict[int, str]]:
    """Return every table of a database as {key: value}, after SQLite has checked the file."""
    with opened(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: dict(database.execute(f"SELECT id, Value FROM {name}")) for name in names}


def recorded(path: Path) -> dict[str, Any]:
    """Return the one run of a record."""
    (row,) = record.read(path).tables["bench_run"].iter_rows(named=True)
    return dict(row)


def refused(directory: Path, *words: str | Path, variant: str = "sanitized") -> str:
    """Return the message of iobench when it does not run. It must leave no files."""
    before = sorted(directory.rglob("*"))
    said = benched.run(*job(directory, *words), variant=variant, status=1).stderr.decode()
    assert sorted(directory.rglob("*")) == before
    return said


# -- every mode really works ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("synchronous", SYNCHRONOUS)
@pytest.mark.parametrize("journal", JOURNAL_MODES)
def test_every_mode_inserts_every_row(tmp_path: Path, journal: str, synchronous: str) -> None:
    asked = ("-n", "5", "-T", "2", "-D", "3", "--rows", "2", "--journal-mode", journal, "--synchronous", synchronous)
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, *asked, "--keep", "--record", out))
    databases = kept(tmp_path)
    assert [path.name for path in databases] == ["test.db0_0", "test.db0_1", "test.db0_2"]
    for path in databases:
        found = tables(path)
        assert list(found) == ["tblMyList0", "tblMyList1"]
        assert all(set(rows) == set(range(1, 11)) for rows in found.values())
        with opened(path) as database:
            assert (database.execute("PRAGMA journal_mode").fetchone() == ("wal",)) == (journal == "WAL")
    run = recorded(out)
    assert (run["rows_expected"], run["rows_found"], run["rows_changed"]) == (60, 60, 60)
    assert (run["journal_mode"].upper(), run["synchronous"].upper()) == (journal, synchronous)


@pytest.mark.prove
@pytest.mark.parametrize("op", ["insert", "update", "delete", "select", "mixed"])
@pytest.mark.parametrize("workers", ["--thread=1", "--thread=0"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
@pytest.mark.parametrize("journal", ["TRUNCATE", "WAL"])
def test_workers_lose_no_transaction(tmp_path: Path, op: str, workers: str, shared: bool, journal: str) -> None:
    """What each worker says it changed is there: transactions of workers that wait for each other are not lost."""
    asked = ("--sqlite-op", op, "-n", "42", "-t", "4", workers, "--rows", "2", "-T", "2", "--journal-mode", journal)
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, *asked, *(["--shared"] if shared else []), "--synchronous=OFF", "--keep", "-o", out))
    run = recorded(out)
    rows = sum(len(rows) for path in kept(tmp_path) for rows in tables(path).values())
    assert len(kept(tmp_path)) == (1 if shared else 4)
    assert run["rows_found"] == run["rows_expected"] == rows
    assert benched.tallies(out)["op"][0] == benched.tallies(out)["commit"][0] == 42
    # Where nothing is said, there are as many rows before as the transactions of the busiest worker (11) need.
    prefilled = {"insert": 0}.get(op, (11 * 4) * 2 * 2)
    changes = {"insert": 42 * 4, "delete": -42 * 4, "update": 0, "select": 0}
    if op in changes:
        assert rows == prefilled + changes[op]
        assert run["rows_changed"] == (0 if op == "select" else 42 * 4)


@pytest.mark.parametrize("journal", ["TRUNCATE", "WAL"])
def test_waits_for_locks_are_counted_where_a_database_is_shared(tmp_path: Path, journal: str) -> None:
    busy = {}
    for sharing in ([], ["--shared"]):
        out = tmp_path / "run.rec"
        asked = ("-n", "400", "-t", "4", "-T", "1", "--journal-mode", journal, "--synchronous=FULL")
        benched.run(*job(tmp_path, *asked, *sharing, "-o", out))
        busy[bool(sharing)] = recorded(out)["busy"]
    assert busy[False] == 0 < busy[True]


@pytest.mark.parametrize("op", ["insert", "mixed"])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_threads_that_share_databases_do_not_race(tmp_path: Path, op: str, journal: str) -> None:
    asked = ("--sqlite-op", op, "-n", "80", "-t", "4", "--shared", "-D", "2", "--journal-mode", journal, "-s", "0")
    benched.run(*job(tmp_path, *asked), variant="tsan")


def test_a_random_order_inserts_the_same_keys(tmp_path: Path) -> None:
    benched.run(*job(tmp_path, "-n", "50", "-t", "2", "--shared", "--random-order", "--rows", "3", "--keep"))
    (path,) = kept(tmp_path)
    assert {frozenset(rows) for rows in tables(path).values()} == {frozenset(range(1, 151))}


def test_mixed_transactions_follow_their_weights(tmp_path: Path) -> None:
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, "--sqlite-op=mixed", "--mix=1:0:0:3", "-n", "200", "-T", "1", "-s", "0", "-o", out))
    parts = benched.tallies(out)
    assert parts["read"][0] + parts["statement"][0] == 200
    assert 100 < parts["read"][0] < 190
    assert recorded(out)["rows_found"] - recorded(out)["rows_changed"] == 200


# -- the syncs of a transaction ---------------------------------------------------------------------------------------

SYNCS = {
    "DELETE": (0, 3, 4, 5),
    "TRUNCATE": (0, 3, 5, 5),
    "PERSIST": (0, 4, 5, 5),
    "WAL": (0, 0, 1, 1),
    "MEMORY": (0, 1, 1, 1),
    "OFF": (0, 1, 1, 1),
}
"""fsync and fdatasync of a transaction in one database, for OFF, NORMAL, FULL and EXTRA. Rollback journals: the journal
(with FULL also before its header counts the pages), its directory, the database, and with FULL the journal's end where
the file stays (TRUNCATE, PERSIST; EXTRA: its directory for DELETE, too). Logs: the log with FULL only; "WAL mode is
consistent with NORMAL" (sqlite.org/pragma.html#pragma_synchronous). OFF never: SQLite hands data over to the system."""

TRANSACTIONS = (6, 10)

OTHER_PROGRAM = """
import sqlite3, sys
modes, directory, transactions, databases = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for mode in modes:
    journal, synchronous = mode.split("-")
    paths = [f"{directory}/{mode}/{number}" for number in range(databases)]
    for path in paths:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)")
        database.close()
    database = sqlite3.connect(paths[0], isolation_level=None)
    schemas = ["main", *(f"db{number}" for number in range(1, databases))]
    for schema, path in zip(schemas[1:], paths[1:]):
        database.execute(f"ATTACH '{path}' AS {schema}")
    for schema in schemas:
        database.execute(f"PRAGMA {schema}.journal_mode = {journal}")
        database.execute(f"PRAGMA {schema}.synchronous = {synchronous}")
    for key in range(transactions):
        database.execute("BEGIN")
        for schema in schemas:
            database.execute(f"INSERT INTO {schema}.t VALUES (?, ?)", (key, "x" * 100))
        database.execute("COMMIT")
    database.close()
"""


def syncs(calls: list[benched.Call], below: Path) -> list[int]:
    """Count the syncs in each directory below a directory, in the order of their first."""
    return list(Counter(Path(call.path).relative_to(below).parts[0] for call in calls).values())


def syncs_of_iobench(tmp_path: Path, databases: int, *words: str) -> list[int]:
    """Return the syncs of a transaction for each of MODES, as the difference of runs with more transactions."""
    found = []
    for transactions in TRANSACTIONS:
        top = tmp_path / f"iobench{transactions}"
        top.mkdir()
        sweeps = (f"--sweep=journal-mode={','.join(JOURNAL_MODES)}", f"--sweep=synchronous={','.join(SYNCHRONOUS)}")
        asked = ("-n", str(transactions), "-T", "1", "-D", str(databases), *sweeps, *words)
        calls = benched.calls(tmp_path / "log", "fsync,fdatasync", *job(top, *asked))
        found.append(syncs(calls, top))
    return [(more - few) // 4 for few, more in zip(*found, strict=True)]


def syncs_of_another_program(tmp_path: Path, databases: int) -> list[int]:
    found = []
    modes = [f"{journal}-{synchronous}" for journal, synchronous in MODES]
    for transactions in TRANSACTIONS:
        top = tmp_path / f"other{transactions}"
        for mode in modes:
            (top / mode).mkdir(parents=True)
        command = [sys.executable, "-c", OTHER_PROGRAM, ",".join(modes), str(top), str(transactions), str(databases)]
        found.append(syncs(benched.traced(tmp_path / "log", "fsync,fdatasync", *command), top))
    return [(more - few) // 4 for few, more in zip(*found, strict=True)]


@pytest.mark.prove
def test_a_transaction_syncs_as_often_as_sqlite_documents(tmp_path: Path) -> None:
    found = dict(zip(MODES, syncs_of_iobench(tmp_path, 1), strict=True))
    assert found == {
        (journal, synchronous): SYNCS[journal][level]
        for journal, (level, synchronous) in itertools.product(JOURNAL_MODES, enumerate(SYNCHRONOUS))
    }


@pytest.mark.prove
def test_transactions_on_attached_databases_sync_as_often_as_another_program(tmp_path: Path) -> None:
    """Modes hold for attached databases: with OFF nothing is synced, in Mobibench all but the first were."""
    found = dict(zip(MODES, syncs_of_iobench(tmp_path, 3), strict=True))
    assert found == dict(zip(MODES, syncs_of_another_program(tmp_path, 3), strict=True))
    assert {found[journal, "OFF"] for journal in JOURNAL_MODES} == {0}
    assert found["TRUNCATE", "FULL"] > 3 * SYNCS["TRUNCATE"][2]


# -- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "final", "checkpoints"),
    [("none", 0, 0), ("none", 1, 2), ("10", 0, 10), ("10", 1, 12), ("50", 0, 2), ("auto", 0, 0), ("auto", 1, 2)],
)
def test_checkpoints_are_counted_apart(tmp_path: Path, policy: str, final: int, checkpoints: int) -> None:
    asked = ("-n", "50", "-D", "2", "-T", "1", "-j", "3", "-s", "1", "--checkpoint", policy, f"--end_fsync={final}")
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, *asked, "-o", out))
    parts = benched.tallies(out)
    assert parts["op"][0] == parts["commit"][0] == 50
    assert parts.get("checkpoint", (0, 0))[0] == checkpoints


def test_a_checkpoint_is_due_when_the_log_has_as_many_pages_as_sqlite_takes(tmp_path: Path) -> None:
    """A transaction writes one page or at times more, and SQLite waits for a thousand of them."""
    out = tmp_path / "run.rec"
    asked = ("-n", "3500", "-T", "1", "-j", "3", "-s", "0", "--end_fsync=0", "-o", out)
    benched.run(*job(tmp_path, *asked))
    assert benched.tallies(out)["checkpoint"][0] in (3, 4)


@pytest.mark.prove
def test_without_checkpoints_nothing_is_written_to_the_database(tmp_path: Path) -> None:
    switches = {}
    for policy in ("none", "500"):
        asked = ("-n", "2500", "-T", "1", "-j", "3", "-s", "1", "--checkpoint", policy, "--end_fsync=0")
        calls = benched.calls(tmp_path / "log", "pwrite64", *job(tmp_path, *asked))
        files = [call.path[-4:] for call in calls if not call.path.endswith("-shm")]
        turns = [file for file, _ in itertools.groupby(files[files.index("-wal") :])]
        assert set(turns) == {"-wal", "b0_0"}
        switches[policy] = turns.count("b0_0")
    # SQLite itself empties the log when the worker closes the database, which is no longer measured.
    assert switches == {"none": 1, "500": 5}


# -- nothing is empty -------------------------------------------------------------------------------------------------


def test_an_update_writes_in_every_run_and_with_every_transaction(tmp_path: Path) -> None:
    """SQLite does not write a row that stays as it is: Mobibench's second run on a directory wrote nothing."""
    asked = ("--sqlite-op=update", "-n", "40", "-T", "1", "--journal-mode=TRUNCATE", "--synchronous=FULL", "--keep")
    seen, values = [], []
    for _ in range(3):
        calls = benched.calls(tmp_path / "log", "fdatasync,fsync", *job(tmp_path, *asked))
        seen.append(sum(1 for call in calls if call.path.endswith("-journal")))
        (path,) = kept(tmp_path)
        values += tables(path)["tblMyList0"].values()
    assert set(seen) == {40 * 3}
    assert len(set(values)) == len(values) == 3 * 40


@pytest.mark.prove
def test_no_value_is_written_twice(tmp_path: Path) -> None:
    benched.run(*job(tmp_path, "--sqlite-op=update", "-n", "60", "-t", "3", "--shared", "--rows", "5", "--keep"))
    benched.run(*job(tmp_path, "--sqlite-op=update", "-n", "60", "-t", "3", "--shared", "--rows", "5", "--keep"))
    (path,) = kept(tmp_path)
    values = [value for rows in tables(path).values() for value in rows.values()]
    assert len(set(values)) == len(values) == 3 * 300
    assert {len(value) for value in values} == {VALUE_BYTES}


@pytest.mark.parametrize("size", [11, 12, 4096, 100_000])
def test_values_are_as_long_as_asked(tmp_path: Path, size: int) -> None:
    benched.run(*job(tmp_path, "-n", "7", "-T", "1", "--value-size", str(size), "--page-size=1024", "--keep"))
    (path,) = kept(tmp_path)
    rows = tables(path)["tblMyList0"]
    assert len(set(rows.values())) == 7 and {len(value) for value in rows.values()} == {size}
    with opened(path) as database:
        assert database.execute("PRAGMA page_size").fetchone() == (1024,)


def test_deletes_take_each_row_once(tmp_path: Path) -> None:
    out = tmp_path / "run.rec"
    asked = ("--sqlite-op=delete", "-n", "20", "--rows", "2", "--prefilled", "50", "-T", "2", "--keep", "-o", out)
    benched.run(*job(tmp_path, *asked))
    (path,) = kept(tmp_path)
    assert [len(rows) for rows in tables(path).values()] == [10, 10]
    assert len({frozenset(rows) for rows in tables(path).values()}) == 1
    assert recorded(out)["rows_changed"] == 80


def test_keys_are_those_of_rows(tmp_path: Path) -> None:
    """Mobibench never updated its first row, and at times updated one that was not there: here one row must do."""
    for op in ("update", "delete", "select"):
        benched.run(*job(tmp_path, "--sqlite-op", op, "-n", "1", "--prefilled", "1"))


def test_many_tables_in_many_databases(tmp_path: Path) -> None:
    benched.run(*job(tmp_path, "-n", "2", "-T", "20", "-D", "12", "-s", "0", "--keep"))
    assert len(kept(tmp_path)) == 12
    for path in kept(tmp_path):
        found = tables(path)
        assert len(found) == 20 and {frozenset(rows) for rows in found.values()} == {frozenset({1, 2})}


def test_pauses_are_no_part_of_the_measurement(tmp_path: Path) -> None:
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, "-n", "5", "-i", "50", "-s", "0", "-o", out))
    rows = record.read(out).tables["bench_result"]
    (ops,) = rows.filter(thread=-1, part="op").iter_rows(named=True)
    assert ops["paused_ns"] >= 4 * 50_000_000
    assert ops["latency_sum_ns"] <= ops["duration_ns"] - ops["paused_ns"]


# -- what another run left --------------------------------------------------------------------------------------------


def test_other_rows_than_the_job_needs_are_made_anew(tmp_path: Path) -> None:
    """Mobibench took what it found: of its updates, many hit no row."""
    benched.run(*job(tmp_path, "-n", "30", "--keep"))
    benched.run(*job(tmp_path, "--sqlite-op=update", "-n", "50", "--keep"))
    assert [len(rows) for rows in tables(kept(tmp_path)[0]).values()] == [50] * 3
    benched.run(*job(tmp_path, "--sqlite-op=update", "-n", "20", "-T", "2", "--value-size=50", "-j", "3", "--keep"))
    found = tables(kept(tmp_path)[0])
    assert [len(rows) for rows in found.values()] == [20] * 2
    assert {len(value) for value in found["tblMyList0"].values()} == {50}


# -- libraries --------------------------------------------------------------------------------------------------------


def system_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(SYSTEM)
    except OSError:
        pytest.skip(f"{SYSTEM} is not installed")
    library.sqlite3_libversion.restype = ctypes.c_char_p
    library.sqlite3_compileoption_get.restype = ctypes.c_char_p
    return library


def test_a_shared_library_is_loaded_and_named(tmp_path: Path) -> None:
    library = system_library()
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, "-n", "3", "--sqlite-library", SYSTEM, "-o", out), variant="native")
    version, *options = recorded(out)["sqlite_version"].split(" ")
    assert version == library.sqlite3_libversion().decode()
    known = itertools.takewhile(lambda option: option is not None, map(library.sqlite3_compileoption_get, range(500)))
    assert " ".join(options) == " ".join(option.decode() for option in known)[: len(" ".join(options))]
    assert len(options) > 10


def test_the_library_within_is_named(tmp_path: Path) -> None:
    out = tmp_path / "run.rec"
    benched.run(*job(tmp_path, "-n", "3", "-o", out))
    version, *options = recorded(out)["sqlite_version"].split(" ")
    assert version.startswith("3.") and "THREADSAFE=2" in options


def test_libraries_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    assert "expected the path or name of a shared libsqlite3" in refused(tmp_path, "--sqlite-library", "./none.so")
    assert "libm.so.6 has no sqlite3_" in refused(tmp_path, "--sqlite-library", "libm.so.6")


def test_a_static_program_says_that_it_loads_nothing(tmp_path: Path) -> None:
    said = refused(tmp_path, "--sqlite-library", SYSTEM, variant="x86_64-linux-musl")
    assert "linked statically and can load no library" in said


def test_more_databases_than_the_library_has_are_refused(tmp_path: Path) -> None:
    """Mobibench reported 79,554 transactions a second for twelve databases, without one row."""
    system_library()
    said = refused(tmp_path, "-D", "12", "--sqlite-library", SYSTEM, variant="native")
    assert "--databases 12" in said and "at most 11" in said


LIARS = {
    "no commit of inserts": ("COMMIT_NOTHING", ("-n", "5"), "has 0 rows, expected 5"),
    "no commit of updates": (
        "COMMIT_NOTHING",
        ("-n", "5", "--sqlite-op=update"),
        "does not have the value that was written last",
    ),
    "no change": ("CHANGE_NOTHING", ("-n", "5", "--sqlite-op=update"), "did not find exactly this row"),
    "another journal": ("NO_LOG", ("-n", "5", "--journal-mode=WAL"), "journal mode WAL cannot be had"),
    "another synchronous": ("NO_LEVEL", ("-n", "5", "--synchronous=EXTRA"), "synchronous EXTRA cannot be had"),
    "no threads": ("NO_THREADS", ("-n", "5", "-t", "2"), "use processes (--thread 0)"),
}

LIAR = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

int sqlite3_exec(void *, const char *, void *, void *, void *);
const char *sqlite3_sql(void *);
void *sqlite3_db_handle(void *);

#if defined COMMIT_NOTHING
int sqlite3_step(void *statement)
{
    static int commits; /* the first makes the tables */
    int (*step)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "sqlite3_step");

    if (!sqlite3_sql(statement) || strcmp(sqlite3_sql(statement), "COMMIT") || !commits++)
        return step(statement);
    sqlite3_exec(sqlite3_db_handle(statement), "ROLLBACK", 0, 0, 0);
    return 101;
}
#elif defined CHANGE_NOTHING
int sqlite3_changes(void *database)
{
    (void)database;
    return 0;
}
#elif defined NO_THREADS
int sqlite3_threadsafe(void)
{
    return 0;
}
#else
#ifdef NO_LOG
#define ASKED "PRAGMA main.journal_mode = WAL"
#else
#define ASKED "PRAGMA main.synchronous = EXTRA"
#endif
int sqlite3_prepare_v2(void *database, const char *sql, int bytes, void **statement, const char **rest)
{
    int (*prepare)(void *, const char *, int, void **, const char **) =
        (int (*)(void *, const char *, int, void **, const char **))dlsym(RTLD_NEXT, "sqlite3_prepare_v2");

    return prepare(database, strcmp(sql, ASKED) ? sql : "SELECT 'delete'", bytes, statement, rest);
}
#endif
"""


@pytest.mark.parametrize("lie", LIARS)
def test_a_library_that_lies_is_found_out(tmp_path: Path, lie: str) -> None:
    """Libraries that do less than they say, in front of the system's: no result of them is taken for valid."""
    system_library()
    define, words, reason = LIARS[lie]
    library = compiling.preloaded_library(tmp_path, LIAR, "-Wl,--no-as-needed", f"-D{define}", f"-l:{SYSTEM}")
    asked = ("-T", "1", "--sqlite-library", library, *words)
    said = benched.run(*job(tmp_path, *asked), variant="native", status=1).stderr.decode()
    assert reason in said


# -- what cannot be done ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-n", "3", "-t", "4"), "workers"),
        (("--value-size", "10"), "no value is written twice"),
        (("--page-size", "1000"), "--page-size"),
        (("-D", "32"), "at most 31"),
        (("--sqlite-op=update", "--prefilled", "0"), "needs rows"),
        (("--sqlite-op=select", "--prefilled", "3", "-t", "4", "--shared"), "expected one for each worker"),
        (("--sqlite-op=delete", "-n", "10", "--prefilled", "9"), "delete 10 rows"),
        (("--sqlite-op=delete", "--runtime", "1"), "--prefilled"),
        (("--checkpoint", "10", "-j", "1"), "--checkpoint"),
        (("--prefilled", "1000000000000", "--sqlite-op=update"), "free"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    assert reason in refused(tmp_path, *words)


def test_deletes_that_run_out_of_rows_are_no_result(tmp_path: Path) -> None:
    asked = ("--sqlite-op=delete", "--runtime", "60", "--prefilled", "20", "-s", "0", "-T", "1")
    said = benched.run(*job(tmp_path, *asked), status=1).stderr.decode()
    assert "no row is left for this worker: raise --prefilled" in said


def test_nothing_is_left(tmp_path: Path) -> None:
    benched.run(*job(tmp_path, "-n", "4", "-t", "2", "-j", "3", "-D", "2"))
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_a_lock_ends_in_good_order(tmp_path: Path) -> None:
    asked = job(tmp_path, "--sqlite-op=update", "--runtime=100", "-t", "4", "--shared", "--journal-mode=PERSIST")
    with subprocess.Popen([built.program("iobench"), *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        while not list(tmp_path.glob("iobench-*/*-journal")) and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said.decode()) == (1, "iobench: it was interrupted by a signal\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.prove
def test_databases_are_cold_or_there_is_no_result(tmp_path: Path) -> None:
    """The rows are made, and all of SQLite is closed before the cache is looked at."""
    out = tmp_path / "run.rec"
    asked = ("sqlite", "-p", tmp_path, "-q", "--sqlite-op=select", "-n", "50", "--prefilled=5000", "--cache=cold")
    done = subprocess.run([built.program("iobench"), *asked, "-o", out], capture_output=True, check=False)
    if done.returncode:
        assert b"page cache" in done.stderr
    else:
        run = recorded(out)
        assert (run["cache_found"], run["cache_resident_bytes"]) == ("cold", 0)
        assert run["cache_bytes"] > 3 * 5000 * VALUE_BYTES
