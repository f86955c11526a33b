"""The cleaner: each call on the right file at the right place, and a program that does the same again."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus
from support.oracles import replay as replay_oracle

from androstep_analysis import ingest, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay import Cleaned, clean

pytestmark = pytest.mark.sanitized

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

NO_TASKS = schema.empty("tasks")


def cleaned_log(path: Path, **options: Any) -> Cleaned:
    """Return the cleaned log of strace at `path`, and check that no row is lost."""
    staging = ingest.read(path)
    rows = staging.tables["syscalls"].collect()
    cleaned = clean(rows, staging.tasks if staging.tasks is not None else NO_TASKS, **options)
    check_whole(rows, cleaned)
    return cleaned


def cleaned_text(directory: Path, text: str, **options: Any) -> Cleaned:
    """Return the same as `cleaned_log` for a log that consists of `text`."""
    log = directory / "text.strace"
    log.write_text(text)
    return cleaned_log(log, **options)


def check_whole(rows: pl.DataFrame, cleaned: Cleaned) -> None:
    """Check that all rows are operations or counted, and that descriptors are made, used and closed in order."""
    operations = cleaned.program.operations
    kept = operations.filter(~pl.col("inserted")).height
    assert rows.height == kept + cleaned.left_out["count"].sum()
    assert operations["operation"].to_list() == list(range(operations.height))
    assert operations["ts_ns"].is_sorted()
    opened: set[int] = set()
    closed: set[int] = set()
    for row in operations.to_dicts():
        made = {"open": row["descriptor"], "dup": row["descriptor2"]}.get(row["call"])
        used = {row["descriptor"], row["descriptor2"]} - {made, None}
        assert used <= opened, row
        assert row["call"] in ("munmap", "msync") or not used & closed, row
        if made is not None:
            assert made not in opened
            opened.add(made)
        if row["call"] == "close":
            closed.add(row["descriptor"])


def calls(cleaned: Cleaned) -> list[str]:
    """Return the calls of all operations. Inserted ones have a plus."""
    return [
        f"{'+' * inserted}{call}" for call, inserted in cleaned.program.operations.select("call", "inserted").rows()
    ]


# -- against the truth ------------------------------------------------------------------------------------------------


@pytest.mark.prove
@needs_strace
@pytest.mark.parametrize(
    "options",
    [("-yy", "-ttt", "-T"), ("-ttt", "-T"), ("-ttt",), ("-t",), ()],
    ids=lambda options: " ".join(options) or "plain",
)
def test_each_call_is_on_the_right_file_at_the_right_place(tmp_path: Path, options: tuple[str, ...]) -> None:
    recorded = replay_oracle.record(tmp_path, 7, *options)
    cleaned = cleaned_log(recorded.log)
    of_file: dict[int, str] = {}
    of_identity: dict[str, int] = {}
    checked = unknown = 0
    for truth, operation in replay_oracle.truths(recorded, cleaned.program.operations):
        checked += 1
        if truth.identity is not None:
            assert of_file.setdefault(operation["file"], truth.identity) == truth.identity, operation
            assert of_identity.setdefault(truth.identity, operation["file"]) == operation["file"], operation
        if truth.offset is not None and not operation["failed"]:
            unknown += operation["offset_bytes"] is None
            assert operation["offset_bytes"] in (truth.offset, None), (truth, operation)
    assert checked > 0.99 * len(recorded.truths)
    assert unknown <= 0.05 * checked
    assert cleaned.conflicts == 0 or not {"-ttt"} & set(options)  # without times the order is not always known


@pytest.mark.prove
@needs_strace
def test_the_program_does_the_same_again(tmp_path: Path) -> None:
    recorded = replay_oracle.record(tmp_path, 11, "-yy", "-ttt", "-T")
    program = cleaned_log(recorded.log).program
    (tmp_path / "again").mkdir()
    emulator = replay_oracle.Emulator(tmp_path / "again", program.files)
    emulator.run(program.operations)
    assert emulator.divergences == []
    assert emulator.tree(recorded.top) == recorded.tree


# -- descriptors ------------------------------------------------------------------------------------------------------


def test_a_fork_gives_the_child_what_it_uses(tmp_path: Path) -> None:
    log = """\
1  1000.000000 openat(AT_FDCWD, "/a", O_RDWR) = 3 <0.000010>
1  1000.000100 openat(AT_FDCWD, "/b", O_RDWR) = 4 <0.000010>
1  1000.000200 read(3, "x"..., 10) = 10 <0.000010>
1  1000.000300 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 2 <0.000500>
2  1000.000400 read(3, "x"..., 10) = 10 <0.000010>
1  1000.000900 read(3, "x"..., 10) = 10 <0.000010>
2  1000.001000 exit_group(0) = ?
1  1000.001100 exit_group(0) = ?
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["open", "open", "read", "+dup", "read", "read", "+close", "+close", "+close"]
    rows = cleaned.program.operations.to_dicts()
    assert (rows[3]["thread"], rows[4]["thread"]) == (0, 1)
    assert [row["offset_bytes"] for row in rows if row["call"] == "read"] == [0, 10, 20]
    assert [row["file"] for row in rows if row["call"] == "read"] == [0, 0, 0]


@pytest.mark.parametrize(("flags", "parents"), [("SIGCHLD", "a/f"), ("CLONE_FS|SIGCHLD", "b/f")])
def test_a_working_directory_is_shared_where_clone_says_so(tmp_path: Path, flags: str, parents: str) -> None:
    log = f"""\
1  chdir("/a") = 0
1  clone(child_stack=NULL, flags={flags}) = 2
2  chdir("/b") = 0
1  openat(AT_FDCWD, "f", O_RDONLY) = 3
2  openat(AT_FDCWD, "f", O_RDONLY) = 3
"""
    assert cleaned_text(tmp_path, log).program.operations["path"].to_list() == [parents, "b/f"]


def test_places_of_calls_that_overlap_are_unknown(tmp_path: Path) -> None:
    """Of two that read on at once: which of them came first. After both the position is known again."""
    log = """\
1  1700000000.000000 openat(AT_FDCWD, "/a", O_RDONLY) = 3 <0.000010>
1  1700000000.000100 clone(child_stack=0x7f00, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2 <0.000010>
1  1700000000.001000 read(3, <unfinished ...>
2  1700000000.002000 read(3, "x"..., 10) = 10 <0.000010>
1  1700000000.003000 <... read resumed>"x"..., 20) = 20 <0.002000>
2  1700000000.004000 read(3, "x"..., 10) = 10 <0.000010>
"""
    reads = cleaned_text(tmp_path, log).program.operations.filter(call="read")
    assert reads.select("thread", "offset_bytes").rows() == [(0, None), (1, None), (1, 30)]


def test_msync_is_of_what_it_reaches(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_RDWR) = 3
1  mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000001000
1  msync(0x7f0000000000, 4096, MS_SYNC) = 0
1  msync(0x7f0000000000, 8192, MS_SYNC) = 0
1  msync(0x7f0000002000, 8192, MS_SYNC) = 0
1  msync(0x7f0000003000, 4096, MS_SYNC) = 0
"""
    cleaned = cleaned_text(tmp_path, log)
    synced = cleaned.program.operations.filter(call="msync")
    assert synced.select("offset_bytes", "bytes").rows() == [(0, 4096), (4096, 4096)]
    assert cleaned.left_out.rows() == [("memory", "msync", 2, 0)]


def test_a_thread_has_its_last_name_and_the_process_that_all_tell(tmp_path: Path) -> None:
    """Thread 3 has two recorded processes: neither is used, and it shares no descriptors."""
    log = tmp_path / "text.strace"
    log.write_text('1  openat(AT_FDCWD, "/a", O_RDWR) = 3\n2  read(3, "x", 1) = 1\n3  read(3, "x", 1) = 1\n')
    names = [(1, 1, "zygote"), (1, 1, "app"), (2, 1, "worker"), (3, 1, "other"), (3, 9, "other")]
    told = pl.DataFrame(names, schema={"tid": pl.Int32, "pid": pl.Int32, "comm": pl.String}, orient="row")
    cleaned = clean(ingest.read(log).tables["syscalls"].collect(), told)
    assert cleaned.program.threads["comm"].to_list() == ["app", "worker"]
    assert cleaned.left_out.rows() == [("unknown descriptor", "read", 1, 1)]


def test_exec_closes_what_is_marked(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_RDONLY|O_CLOEXEC) = 3
1  openat(AT_FDCWD, "/b", O_RDONLY) = 4
1  fcntl(4, F_DUPFD_CLOEXEC, 10) = 10
1  execve("/bin/true", ["true"], 0x7ffe /* 1 var */) = 0
1  read(3, "", 1) = -1 EBADF (Bad file descriptor)
1  read(4, "x", 1) = 1
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["open", "open", "dup", "+close", "+close", "read"]
    assert cleaned.left_out.filter(pl.col("call") == "read")["reason"].to_list() == ["unknown descriptor"]


def test_what_was_open_before_is_opened_where_it_stood(tmp_path: Path) -> None:
    log = """\
1  read(3</data/a>, "x"..., 10) = 10
1  lseek(3</data/a>, 0, SEEK_CUR) = 110
1  write(3</data/a>, "x"..., 5) = 5
"""
    rows = cleaned_text(tmp_path, log).program.operations.to_dicts()
    assert [(row["call"], row["inserted"], row["offset_bytes"]) for row in rows] == [
        ("open", True, None),
        ("lseek", True, 100),
        ("read", False, None),
        ("lseek", False, 0),
        ("write", False, 110),
    ]
    assert (rows[0]["path"], rows[0]["flags"]) == ("data/a", 2)


def test_sockets_and_pipes_are_counted(tmp_path: Path) -> None:
    log = """\
1  socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 3
1  sendto(3, "x"..., 100, 0, NULL, 0) = 100
1  pipe2([4, 5], O_CLOEXEC) = 0
1  write(5, "x", 1) = 1
1  write(1, "x", 1) = 1
1  openat(AT_FDCWD, "/dev/null", O_RDWR) = 6
1  openat(AT_FDCWD, "/f", O_RDONLY) = 7
1  sendfile(3, 7, NULL, 50) = 50
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["open", "sendfile"]
    sent = cleaned.program.operations.to_dicts()[1]
    assert (sent["descriptor"], sent["descriptor2"], sent["offset_bytes"]) == (0, None, None)
    assert sorted(cleaned.left_out.rows()) == [
        ("device", "openat", 1, 0),
        ("pipe", "pipe2", 1, 0),
        ("pipe", "write", 1, 1),
        ("socket", "sendto", 1, 100),
        ("socket", "socket", 1, 0),
        ("unknown descriptor", "write", 1, 1),
    ]
    as_files = cleaned_text(tmp_path, log, unknown="files")
    assert calls(as_files) == ["+open", "write", "open", "sendfile"]
    assert as_files.program.operations["path"][0] == ".unnamed/0"


def test_only_some_processes(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_RDWR) = 3
1  openat(AT_FDCWD, "/b", O_RDWR) = 4
1  fork() = 2
2  read(3, "x", 1) = 1
1  read(4, "x", 1) = 1
2  openat(AT_FDCWD, "/c", O_RDWR) = 4
"""
    cleaned = cleaned_text(tmp_path, log, processes=[2])
    assert calls(cleaned) == ["+open", "+dup", "read", "open"]
    assert set(cleaned.left_out["reason"]) == {"filtered"}
    with pytest.raises(InputError, match="processes is empty"):
        cleaned_text(tmp_path, log, processes=[])
    assert calls(cleaned_text(tmp_path, log, processes=[1])) == ["open", "open", "read"]


def test_seeks_of_processes_that_are_not_kept_say_where_to(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_RDWR) = 3
1  lseek(3, 5, SEEK_SET) = 5
1  lseek(3, 9, SEEK_CUR) = 14
1  fork() = 2
2  read(3, "x", 1) = 1
"""
    (tmp_path / "log").write_text(log)
    rows = ingest.read(tmp_path / "log").tables["syscalls"].collect()
    told = clean(rows, NO_TASKS, processes=[2]).program.operations.filter(call="lseek")
    assert told["offset_bytes"].to_list() == [5, 14]
    assert told["request"].to_list() == [0, 0]
    untold = rows.with_columns(pl.when(pl.col("call") != "lseek").then("offset_bytes"))
    cleaned = clean(untold, NO_TASKS, processes=[2])
    assert calls(cleaned) == ["+open", "+dup", "read"]
    assert cleaned.left_out["count"].sum() == 4


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_follow_directories_that_move(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/d/../d//x/./f", O_RDONLY) = 3
1  rename("/d", "/e") = 0
1  stat("/e/x/f", {st_mode=S_IFREG|0644, st_size=77, ...}) = 0
1  mkdir("/d", 0777) = 0
1  stat("/d/x", 0x7ffd) = -1 ENOENT (No such file or directory)
1  openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT, 0644) = 4
"""
    program = cleaned_text(tmp_path, log).program
    assert program.files.select("path", "size_bytes").rows() == [("d", None), ("d/x", None), ("d/x/f", 77)]
    files = program.operations.select("path", "file").rows()
    assert files[0] == ("d/x/f", 0)
    assert files[2] == ("e/x/f", 0)
    assert files[5][1] not in (0, None)


def test_links_are_followed_where_they_say_where(tmp_path: Path) -> None:
    log = """\
1  symlink("../b/f", "/a/l") = 0
1  stat("/a/l", {st_mode=S_IFREG|0644, st_size=7, ...}) = 0
1  readlink("/k", "/a", 100) = 2
1  stat("/k/l", {st_mode=S_IFREG|0644, st_size=7, ...}) = 0
1  link("/b/f", "/b/g") = 0
1  rename("/b/f", "/b/g") = 0
1  unlink("/b/g") = 0
"""
    program = cleaned_text(tmp_path, log).program
    assert program.operations["path"].to_list() == ["a/l", "b/f", "k", "b/f", "b/f", "b/f", "b/g"]
    assert program.files.filter(pl.col("path") == "k").select("inode_type", "target").rows() == [("symlink", "/a")]


def test_open_follows_a_link_unless_it_must_not(tmp_path: Path) -> None:
    log = """\
1  symlink("f", "/l") = 0
1  openat(AT_FDCWD, "/l", O_RDONLY) = 3
1  openat(AT_FDCWD, "/l", O_RDWR|O_CREAT, 0600) = 4
1  openat(AT_FDCWD, "/l", O_RDWR|O_CREAT|O_EXCL, 0600) = -1 EEXIST (File exists)
1  openat(AT_FDCWD, "/l", O_RDONLY|O_NOFOLLOW) = -1 ELOOP (Too many levels of symbolic links)
"""
    program = cleaned_text(tmp_path, log).program
    assert program.operations["path"].to_list() == ["l", "f", "f", "l", "l"]
    assert program.files["path"].to_list() == ["f"]


def test_forty_links_are_followed_as_linux_does(tmp_path: Path) -> None:
    """MAXSYMLINKS of include/linux/namei.h."""
    names = ["f", *(f"l{number}" for number in range(1, 42))]
    log = "".join(f'1  symlink("{to}", "/{name}") = 0\n' for to, name in itertools.pairwise(names))
    log += '1  stat("/l40", {st_mode=S_IFREG|0644, st_size=7, ...}) = 0\n'
    log += '1  stat("/l41", 0x7ff) = -1 ELOOP (Too many levels of symbolic links)\n'
    cleaned = cleaned_text(tmp_path, log)
    assert cleaned.program.operations.filter(call="stat")["path"].to_list() == ["f"]
    assert cleaned.left_out.rows() == [("unknown path", "stat", 1, 0)]


def test_two_names_of_one_file_of_the_start(tmp_path: Path) -> None:
    found = "{st_dev=makedev(0x8, 0x1), st_ino=5, st_mode=S_IFREG|0644, st_size=9, ...}"
    program = cleaned_text(tmp_path, f'1  stat("/a", {found}) = 0\n1  stat("/b", {found}) = 0\n').program
    assert program.operations["file"].to_list() == [0, 0]
    assert program.files.select("path", "file", "size_bytes").rows() == [("a", 0, 9), ("b", 0, 9)]


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls_of_log", "size", "size_from"),
    [
        ('pread64(3, ""..., 100, 50) = 100', 150, "reads"),
        ('read(3, ""..., 4096) = 10', 10, "end"),
        ("lseek(3, 0, SEEK_END) = 300", 300, "end"),
        ("fstat(3, {st_mode=S_IFREG|0644, st_size=44, ...}) = 0", 44, "stat"),
        ('pwrite64(3, ""..., 10, 90) = 10\n1  fstat(3, {st_mode=S_IFREG|0644, st_size=100, ...}) = 0', 0, "nothing"),
        ('pwrite64(3, ""..., 10, 0) = 10\n1  fstat(3, {st_mode=S_IFREG|0644, st_size=100, ...}) = 0', 100, "stat"),
        ("ftruncate(3, 10) = 0\n1  fstat(3, {st_mode=S_IFREG|0644, st_size=10, ...}) = 0", 0, "nothing"),
        ('pwritev2(3, [{iov_base="x", iov_len=10}], 1, 0, RWF_APPEND) = 10\n1  lseek(3, 0, SEEK_END) = 30', 20, "end"),
        ("fallocate(3, 0, 0, 100) = 0\n1  lseek(3, 0, SEEK_END) = 100", 0, "nothing"),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 100) = 0\n1  lseek(3, 0, SEEK_END) = 100", 100, "end"),
        ("fallocate(3, FALLOC_FL_INSERT_RANGE, 0, 4096) = 0\n1  lseek(3, 0, SEEK_END) = 8192", 0, "nothing"),
    ],
)
def test_the_size_at_the_start(tmp_path: Path, calls_of_log: str, size: int, size_from: str) -> None:
    program = cleaned_text(tmp_path, f'1  open("/f", O_RDWR) = 3\n1  {calls_of_log}\n').program
    assert program.files.select("size_bytes", "size_from").rows() == [(size, size_from)]


def test_a_file_that_open_may_have_made(tmp_path: Path) -> None:
    log = '1  open("/f", O_RDWR|O_CREAT, 0644) = 3\n'
    assert cleaned_text(tmp_path, log).program.files.height == 0
    assert cleaned_text(tmp_path, log + '1  read(3, "x", 5) = 1\n').program.files["path"].to_list() == ["f"]
    assert cleaned_text(tmp_path, log + '1  write(3, "x", 1) = 1\n').program.files.height == 0


def test_a_file_that_open_must_have_made(tmp_path: Path) -> None:
    """O_EXCL proves it, whichever process wrote the data."""
    log = '1  open("/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3\n1  read(3, "x", 5) = 1\n'
    assert cleaned_text(tmp_path, log).program.files.height == 0


# -- other recordings --------------------------------------------------------------------------------------------------


def test_an_ioshark_workload_names_files_not_descriptors() -> None:
    cleaned = cleaned_log(corpus.path("ioshark/wl.tar"))
    operations = cleaned.program.operations
    assert cleaned.left_out["count"].sum() < 0.01 * operations.height
    assert operations.filter(pl.col("call") == "open")["path"].str.starts_with("trace.").all()
    sizes = cleaned.program.files.drop_nulls("file")["size_from"]
    assert (sizes == "stat").sum() > 0.9 * len(sizes)  # of the others the first open says O_TRUNC


# -- hostile ----------------------------------------------------------------------------------------------------------


def test_hostile_paths_and_numbers(tmp_path: Path) -> None:
    long = "/".join(["n" * 200] * 30)
    log = f"""\
1  openat(AT_FDCWD, "/../../../etc/passwd", O_RDONLY) = 3
1  openat(AT_FDCWD, "../../x", O_RDONLY) = 4
1  openat(AT_FDCWD, "/{long}", O_RDONLY) = 5
1  openat(AT_FDCWD, "/a\\0b", O_RDONLY) = 6
1  stat("", 0x7ff) = -1 ENOENT (No such file or directory)
1  read(-1, "", 1) = -1 EBADF (Bad file descriptor)
1  read(2147483647, "x", 1) = 1
1  dup2(3, 2147483647) = 2147483647
1  close_range(3, 4294967295, 0) = 0
1  rename("/a", "/a/b") = 0
1  rename("/a/b", "/a") = 0
1  symlink("/s", "/s") = 0
1  stat("/s", 0x7ff) = -1 ELOOP (Too many levels of symbolic links)
1  pread64(3, "x", 1, 9223372036854775807) = 1
1  lseek(3, -9223372036854775807, SEEK_CUR) = 9223372036854775807
1  mmap(0xfffffffffffff000, 9223372036854775807, PROT_READ, MAP_SHARED|MAP_FIXED, 3, 0x7ffffffffffff000) = 0x7f00
1  munmap(0x1000, 18446744073709551615) = 0
1  clone(child_stack=NULL, flags=SIGCHLD) = 1
"""
    cleaned = cleaned_text(tmp_path, log)
    for path in cleaned.program.operations["path"].drop_nulls():
        assert not {"", ".."} & set(path.split("/"))
        assert "\0" not in path
        assert len(path) < 4096
    cleaned.program.write(tmp_path / "program.rec")


def test_times_that_are_out_of_order() -> None:
    rows = schema.complete(
        pl.DataFrame({"ts_ns": [2, 1], "call": ["sync", "sync"]}).with_columns(
            state=pl.lit("whole", schema.enum("syscalls", "state"))
        ),
        "syscalls",
    )
    with pytest.raises(InputError, match="not in order of time"):
        clean(rows, NO_TASKS)


NUMBERS = st.none() | st.integers(-3, 6) | st.sampled_from([2**31 - 1, -(2**31), 100])
LARGE = st.none() | st.integers(-3, 5000) | st.sampled_from([2**63 - 1, -(2**63) + 1, 1 << 40])
PATHS = st.none() | st.sampled_from(
    ["", "/", ".", "..", "a", "/a", "/a/b", "/a/../b", "a//b/.", "/b", "/dev/null", "\0"]
)
CALLS = (
    *("open", "openat", "creat", "close", "dup", "dup2", "fcntl", "lseek", "_llseek", "read", "write", "pread64"),
    *("pwritev2", "sendfile", "splice", "copy_file_range", "fsync", "ftruncate", "fallocate", "mmap", "munmap"),
    *("mremap", "msync", "newfstatat", "lstat", "readlink", "mkdir", "rmdir", "unlinkat", "renameat2", "link"),
    *("symlink", "chdir", "fchdir", "getcwd", "clone", "vfork", "execve", "exit", "exit_group", "socket", "pipe"),
    *("recvmsg", "close_range", "unshare", "mknod", "io_uring_enter", "truncate", "utimensat", "getdents64"),
)
FLAGS_OF = st.none() | st.sampled_from(
    (
        *("O_CREAT|O_RDWR", "O_CREAT|O_EXCL", "O_TRUNC|O_APPEND", "O_TMPFILE", "CLONE_FILES|CLONE_VM", "CLONE_THREAD"),
        *("RENAME_EXCHANGE", "AT_EMPTY_PATH", "MAP_SHARED", "MAP_FIXED|MAP_PRIVATE", "0x7fffffffffffffff"),
    )
)
ROWS = st.fixed_dictionaries(
    {
        "ts_ns": st.integers(0, 50),
        "duration_ns": st.none() | st.integers(0, 20),
        "tid": st.none() | st.integers(1, 4),
        "call": st.sampled_from(CALLS),
        "state": st.sampled_from(["whole", "whole", "whole", "unfinished", "resumed"]),
        "fd": NUMBERS,
        "fd2": NUMBERS,
        "fd_path": PATHS,
        "fd_kind": st.none() | st.sampled_from(["path", "deleted", "pipe", "socket", "char"]),
        "path": PATHS,
        "path2": PATHS,
        "result_path": PATHS,
        "flags": FLAGS_OF,
        "request": st.none() | st.sampled_from(["SEEK_END", "SEEK_CUR", "F_DUPFD", "F_SETFD", "PROT_WRITE", "9"]),
        "offset_bytes": LARGE,
        "offset2_bytes": LARGE,
        "bytes": LARGE,
        "address": LARGE,
        "ino": st.none() | st.integers(1, 3),
        "dev": st.none() | st.just(1),
        "size": LARGE,
        "mode": st.none() | st.sampled_from([0o100644, 0o040755, 0o120777, 0o010644, -1]),
        "result": LARGE,
        "error": st.none() | st.sampled_from(["ENOENT", "?"]),
    }
)


@pytest.mark.prove
@settings(max_examples=150)
@given(st.lists(ROWS, max_size=60))
def test_made_up_calls(rows: list[dict[str, Any]]) -> None:
    """Calls that no kernel would do, in any order: what comes out is a whole program all the same."""
    wanted = schema.table("syscalls").polars
    frame = pl.DataFrame(rows, schema={name: wanted[name] for name in ROWS_OF}).sort("ts_ns", maintain_order=True)
    syscalls = schema.complete(frame, "syscalls")
    check_whole(syscalls, clean(syscalls, NO_TASKS, unknown="files"))


ROWS_OF = (
    *("ts_ns", "duration_ns", "tid", "call", "state", "fd", "fd2", "fd_path", "fd_kind", "path", "path2"),
    *("result_path", "flags", "request", "offset_bytes", "offset2_bytes", "bytes", "address", "ino", "dev", "size"),
    *("mode", "result", "error"),
)


# -- what is not recorded ---------------------------------------------------------------------------------------------


def test_what_came_again_is_made_as_large_as_it_is_needed(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/d/a", O_RDWR|O_CREAT, 0600) = 3
1  close(3) = 0
1  unlink("/d/a") = 0
1  openat(AT_FDCWD, "/d/a", O_RDONLY) = 3
1  read(3, ""..., 70) = 70
1  close(3) = 0
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["open", "close", "unlink", "+open", "+ftruncate", "+close", "open", "read", "close"]
    rows = cleaned.program.operations.to_dicts()
    assert (rows[4]["bytes"], rows[3]["path"]) == (70, "d/a")
    assert rows[3]["file"] == rows[4]["file"] == rows[6]["file"] != rows[0]["file"]
    assert cleaned.program.files["path"].to_list() == ["d"]
    assert cleaned.conflicts == 1


def test_directories_that_came_are_made_from_the_top(tmp_path: Path) -> None:
    log = """\
1  mkdir("/d", 0700) = 0
1  access("/d/e/f/a", F_OK) = 0
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["mkdir", "+mkdir", "+mkdir", "+open", "+close", "access"]
    made = cleaned.program.operations.filter(pl.col("inserted"))["path"].drop_nulls().to_list()
    assert made == ["d/e", "d/e/f", "d/e/f/a"]


def test_what_went_is_removed(tmp_path: Path) -> None:
    log = """\
1  access("/a", F_OK) = 0
1  access("/a", F_OK) = -1 ENOENT (No such file or directory)
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["access", "+unlink", "access"]
    assert cleaned.conflicts == 1


def test_a_failure_that_began_before_a_file_came_shows_nothing(tmp_path: Path) -> None:
    log = """\
1  1000.000000 access("/a", F_OK) = -1 ENOENT (No such file or directory) <0.000500>
2  1000.000100 openat(AT_FDCWD, "/a", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3 <0.000100>
"""
    cleaned = cleaned_text(tmp_path, log)
    assert (calls(cleaned), cleaned.conflicts) == (["access", "open"], 0)


def test_what_paths_lead_through_is_a_directory(tmp_path: Path) -> None:
    log = """\
1  access("/d/image", F_OK) = 0
1  access("/d/image/a", F_OK) = -1 ENOENT (No such file or directory)
"""
    files = cleaned_text(tmp_path, log).program.files
    assert files.select("path", "inode_type").rows() == [("d", "directory"), ("d/image", "directory")]


def test_what_failed_for_rights_is_left_out_where_it_would_succeed(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_WRONLY|O_CREAT, 0600) = -1 EACCES (Permission denied)
1  openat(AT_FDCWD, "/b", O_WRONLY|O_CREAT|O_EXCL, 0600) = -1 EEXIST (File exists)
"""
    cleaned = cleaned_text(tmp_path, log)
    assert cleaned.left_out.select("reason", "call", "count").rows() == [("unsupported call", "openat", 1)]
    assert cleaned.program.files["path"].to_list() == ["b"]


def test_unknown_descriptors_that_count_as_files_hold_what_is_read(tmp_path: Path) -> None:
    log = """\
1  read(5, ""..., 10) = 10
1  write(5, ""..., 4) = 4
1  read(5, ""..., 6) = 6
1  write(5, ""..., 100) = 100
"""
    cleaned = cleaned_text(tmp_path, log, unknown="files")
    assert cleaned.program.files.select("path", "size_bytes").rows() == [(".unnamed", None), (".unnamed/0", 20)]
    with pytest.raises(ValueError, match="neither 'leave out' nor 'files'"):
        cleaned_text(tmp_path, log, unknown="guess")


def test_paths_in_proc_lead_to_open_files(tmp_path: Path) -> None:
    log = """\
7  openat(AT_FDCWD, "/a", O_RDWR) = 3
7  openat(AT_FDCWD, "/proc/self/fd", O_RDONLY|O_DIRECTORY) = 4
7  rename("/a", "/b") = 0
7  chmod("/proc/self/fd/3", 0600) = 0
7  chmod("/dev/fd/3", 0600) = 0
7  linkat(4, "3", AT_FDCWD, "/c", AT_SYMLINK_FOLLOW) = 0
7  access("/c", F_OK) = 0
7  readlink("/proc/self/fd/3", "/b", 100) = 2
"""
    cleaned = cleaned_text(tmp_path, log)
    assert calls(cleaned) == ["open", "rename", "chmod", "chmod", "link", "access"]
    rows = cleaned.program.operations.to_dicts()
    assert [row["path"] for row in rows] == ["a", "a", "b", "b", "b", "c"]
    assert {row["file"] for row in rows} == {0}
    assert cleaned.conflicts == 0


def test_a_file_is_not_linked_beneath_itself(tmp_path: Path) -> None:
    cleaned = cleaned_text(tmp_path, '1  link("/a", "/a/b") = 0\n1  access("/a/b/c", F_OK) = 0\n')
    assert cleaned.conflicts


def test_directories_of_two_names_do_not_come_beneath_each_other(tmp_path: Path) -> None:
    made = "".join(
        f"""\
1  mkdir("/{one}", 0777) = 0
1  mkdir("/{other}", 0777) = 0
1  link("/{one}", "/{other}/{one}") = 0
1  link("/{one}", "/{one}2") = 0
1  rename("/{other}", "/{one}/{other}") = 0
"""
        for one, other in (("d", "q"), ("e", "r"))
    )
    exchanged = """\
1  renameat2(AT_FDCWD, "/d/q/d", AT_FDCWD, "/e/r/e", RENAME_EXCHANGE) = 0
1  rename("/d2/q", "/e2/r/q") = 0
1  stat("/d2/q/d/r/e", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0
"""
    assert cleaned_text(tmp_path, made + exchanged).conflicts


@pytest.mark.prove
def test_paths_and_links_longer_than_the_kernel_takes_are_unknown(tmp_path: Path) -> None:
    long = "a" * 4096
    log = f"""\
1  getcwd("/w", 100) = 3
1  symlink("{long}", "/l") = 0
1  symlink("{long[1:]}", "/m") = 0
1  readlink("/n", "{long}", 8192) = 4096
1  readlink("/", "a", 100) = 1
"""
    deeper = '1  mkdir("aaaaaaa", 0777) = 0\n1  chdir("aaaaaaa") = 0\n'
    cleaned = cleaned_text(tmp_path, log + 600 * deeper)
    unknown = cleaned.left_out.filter(reason="unknown path").select("call", "count").rows()
    assert unknown == [("mkdir", 89), ("symlink", 1)]
    cleaned.program.write(tmp_path / "app.rec")


def test_a_recorded_file_leaves_room_for_unnamed_ones(tmp_path: Path) -> None:
    log = '1  open("/.unnamed", O_RDONLY) = 3\n1  read(7, "", 100) = 100\n'
    files = cleaned_text(tmp_path, log, unknown="files").program.files
    assert files.select("path", "inode_type").rows() == [(".unnamed", "directory"), (".unnamed/0", "file")]


def test_without_times_a_call_ends_when_its_thread_goes_on(tmp_path: Path) -> None:
    log = """\
1  openat(AT_FDCWD, "/a", O_RDONLY <unfinished ...>
2  openat(AT_FDCWD, "/b", O_RDONLY) = 3
2  read(3, ""..., 5) = 5
2  close(3) = 0
1  <... openat resumed>) = 3
1  read(3, ""..., 7) = 7
"""
    tasks = NO_TASKS.clear(2).with_columns(tid=pl.Series([1, 2], dtype=pl.Int32), pid=pl.lit(1, pl.Int32))
    (tmp_path / "log").write_text(log)
    operations = clean(ingest.read(tmp_path / "log").tables["syscalls"], tasks).program.operations
    opened = {row["descriptor"]: row["path"] for row in operations.filter(call="open").to_dicts()}
    reads = operations.filter(call="read")
    assert {row["bytes"]: opened[row["descriptor"]] for row in reads.to_dicts()} == {5: "b", 7: "a"}
