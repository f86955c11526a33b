"""Classify threads by their role in the storage stack, and collect the threads that a recording names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from androstep_analysis.common import schema

# Thread names from the kernel's sources (kthread_create, alloc_workqueue). The first match wins.
# Servers are processes and kernel threads that do I/O on behalf of other processes: FUSE daemons, loop devices, file
# and disk servers. Android's FUSE daemon is MediaProvider, of which the kernel keeps the last 15 characters. It was
# `sdcard` before Android 11. Before Linux 5.12, the kernel's io_uring threads belonged to no process.
_KINDS = (
    ("journal", r"^(?:jbd2?/|kjournald|xfsaild/|btrfs-transacti|txg_sync)"),
    ("gc", r"^f2fs_gc"),
    ("writeback", r"^(?:kworker/u|flush-|bdi-default|pdflush|segctord$)"),
    (
        "kernel",
        r"^(?:kworker/|<idle>$|swapper|kthreadd$|ksoftirqd/|migration/|cpuhp/|watchdog/|rcu[_bo]|irq/|kswapd"
        r"|khugepaged|ksmd$|kcompactd|kdamond|kdevtmpfs|khungtaskd|oom_reaper|kauditd|kblockd|mmcqd/|mmc-cmdqd|scsi_|ufs_"
        r"|ext4lazyinit|kmmpd-|f2fs_(?:discard|flush|ckpt)|erofs_|btrfs-|dmcrypt_write|dm_bufio|kdmflush|kcopyd|kcryptd"
        r"|kverityd|bcache_|zram|z_(?:rd|wr)_|md\d+_|io_wq_manager|io_wqe_work|io_uring-sq|usb-storage$|nand-dev-rw"
        r"|mtdblock\d|ubi_bgt\d|ubifs_bgt\d|bch_(?:gc|allocator)|drbd_|jfs(?:IO|Commit|Sync)$|gfs2_(?:logd|quotad)"
        r"|l2arc_feed|arc_(?:evict|prune|reap)|dbu_evict)",
    ),
    (
        "server",
        r"^(?:rs\.media\.module|providers\.media|d\.process\.media|sdcard$|[Ff]use|mount\.(?:fuse|ntfs|exfat)|ntfs-3g|sshfs|s3fs"
        r"|gcsfuse|rclone|bindfs|mergerfs|gocryptfs|cryfs|encfs|unionfs|lxcfs|gluster|ceph-fuse|snapfuse|squashfuse"
        r"|archivemount|davfs|curlftpfs|gvfsd-fuse|xdg-document-po|loop\d+$|nbd\d|nbd-server|nbdkit|qemu-nbd|qemu-storage-|ublk"
        r"|tgtd|tcmu-runner|iscsi_t|vhost-|virtiofsd|9pfs|nfsd$|nfsv4-svc|ksmbd|smbd|ganesha\.nfsd|cachefilesd)",
    ),
)


def kind(comm: pl.Expr) -> pl.Expr:
    """Return the enum `tasks.kind` of thread name `comm`; `other` if the name is not known.

    Unbound workers (``kworker/u…``) count as writeback. The flushers of Linux >= 3.10 run in them, but so do other
    unbound queues (dm-crypt, loop), which the name cannot distinguish. Bound workers are ``kernel``. The user of a
    thread, not its name, decides whether it belongs to an app or to the system.
    """
    rules = [pl.when(comm.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _KINDS]
    return pl.coalesce(*rules, pl.lit("other")).cast(schema.enum("tasks", "kind")).alias("kind")


_SERVING_PACKAGES = r"^com\.(?:google\.)?android\.providers\.media(?:\.module)?$"


def serves_others(kind: pl.Expr, package: pl.Expr) -> pl.Expr:
    """Return whether a process of this kind or package does I/O on behalf of processes that its events do not name."""
    return ((kind == "server") | package.str.contains(_SERVING_PACKAGES).fill_null(False)).fill_null(False)


_PER_USER = 100_000
_FIRST_APP = 10_000
"""The first user id of Android apps, modulo `_PER_USER` (AID_APP_START, AID_USER_OFFSET)."""


def listed(rows: pl.DataFrame, clock_offset_ns: int | None = None) -> pl.DataFrame:
    """Return table `tasks` of the threads in `task` records (extmap, iotrace), sorted by tid and start.

    `clock_offset_ns` is the clock of the recording minus CLOCK_BOOTTIME. With it, a thread is valid from its start;
    without it, from before the recording. The kind of a thread follows from these rules:

    - A process that holds open a device through which the kernel sends it requests (`serves`) is a server.
    - A thread with a command line is not a kernel thread, whatever its name.
    - A thread of root without a command line is a kernel thread.
    - App and system are distinguished only on Android, where the listing contains packages.
    """
    task_kind = schema.enum("tasks", "kind")
    on_android = rows["package"].is_not_null().any()
    is_app = pl.col("uid") % _PER_USER >= _FIRST_APP
    kind_by_user = (
        pl.when(pl.lit(on_android) & is_app)
        .then(pl.lit("app", task_kind))
        .when(pl.lit(on_android) & ~is_app)
        .then(pl.lit("system", task_kind))
        .otherwise(pl.lit("other", task_kind))
    )
    kind_by_name = kind(pl.col("comm").fill_null(""))
    is_nameless = (kind_by_name == "other") & (pl.col("uid") == 0).fill_null(False)
    kind_without_cmdline = pl.when(is_nameless).then(pl.lit("kernel", task_kind)).otherwise(kind_by_name)
    serves = pl.col("serves").is_not_null() if "serves" in rows.columns else pl.lit(False)
    started = pl.col("started_ns") + clock_offset_ns if clock_offset_ns is not None else pl.lit(None, pl.Int64)
    table = rows.sort("tid", "started_ns", maintain_order=True).select(
        *("pid", "tid", "comm", "cmdline", "uid", "package"),
        pl.when(serves)
        .then(pl.lit("server", task_kind))
        .when(pl.col("cmdline").is_null())
        .then(kind_without_cmdline)
        .otherwise(kind_by_user)
        .alias("kind"),
        started.alias("valid_from_ns"),
    )
    return schema.complete(table, "tasks")


_READ = {"oom_score_adj": pl.Int64(), "listed_ns": pl.Int64()}


def importance(rows: pl.DataFrame, clock_offset_ns: int | None) -> pl.DataFrame:
    """Return table `importance` from the `task` records of a listing, sorted by time.

    `clock_offset_ns` is as in `listed`. Without it, or if the listing did not read `oom_score_adj`, the table is empty.
    """
    if clock_offset_ns is None or not _READ.items() <= rows.schema.items():
        return schema.empty("importance")
    read = rows.filter(pl.col("oom_score_adj").is_between(-1000, 1000)).select(
        pl.col("oom_score_adj").cast(pl.Int32),
        ts_ns=pl.col("listed_ns") + clock_offset_ns,
        event=pl.lit("reading", schema.enum("importance", "event")),
        task="pid",
        task_comm="comm",
    )
    return schema.complete(read.sort("ts_ns", maintain_order=True), "importance")


def joined(parts: Sequence[tuple[pl.DataFrame, int | None, int | None]]) -> pl.DataFrame | None:
    """Return table `tasks` of a recording in several files: their tables, and the times of their first and last events.

    The files are sorted by their first events. If each begins after the previous one has ended, a name from before a
    file holds from its first event if an earlier file knows the thread, and ends where the next name begins. If files
    overlap, the order of their names is unknown: of a thread with several names, all are valid for the whole time.
    """
    if not parts:
        return None
    tables = [table.with_columns(file=pl.lit(file, pl.Int64)) for file, (table, _, _) in enumerate(parts)]
    names = [name for name in parts[0][0].columns if not name.startswith("valid_")]
    rows = pl.concat(tables)
    is_nameless = pl.col("comm").is_null() & pl.col("valid_from_ns").is_null()
    rows = rows.filter(~is_nameless | pl.col("comm").is_null().all().over("tid"))
    spans = list(pairwise(parts))
    if any(last is None or first is None or first < last for (_, _, last), (_, first, _) in spans):
        return rows.drop("file").unique(maintain_order=True).sort("tid", "valid_from_ns", maintain_order=True)
    begins = pl.Series("begins", [first for _, first, _ in parts], dtype=pl.Int64)
    is_later = pl.col("file") > pl.col("file").min().over("tid")
    since = pl.coalesce("valid_from_ns", pl.when(is_later).then(pl.lit(begins).gather("file")))
    rows = rows.with_columns(valid_from_ns=since).sort("tid", "valid_from_ns", maintain_order=True)
    known = pl.struct(names)
    rows = rows.filter(known.ne_missing(known.shift()))
    of_next = pl.col("valid_from_ns").shift(-1).over("tid")
    return rows.drop("file").with_columns(valid_to_ns=pl.min_horizontal(of_next, "valid_to_ns"))


class Seen:
    """Collects the threads that occur in rows, batch by batch. It stores names, not rows.

    A thread id has a row for each of its names and processes. It is valid from the time when it was first seen until
    that of the next row; the first one is valid from before the recording. A name ends when it was last seen before
    another name, because the thread may have been renamed at any time in between. With `is_noted`, rows note the begin
    of a name, which lasts until the next one. Rows without a name count only for threads that never have one.

    If batches overlap in time, a name that lasted only within the overlap may be missing or be dated late.
    """

    def __init__(self, *, is_noted: bool = False) -> None:
        self._is_noted = is_noted
        self._named = pl.DataFrame(schema=_SEEN)
        self._tids = pl.Series("tid", [], pl.Int32)
        self._pids = pl.DataFrame(schema={name: _SEEN[name] for name in ("tid", "comm", "pid")})

    def add(self, rows: pl.DataFrame) -> None:
        """Add the threads in `rows`, with the columns ts_ns, tid, pid and comm."""
        rows = rows.select("tid", "pid", "comm", "ts_ns", last_ns="ts_ns").filter(pl.col("tid").is_not_null())
        # Consecutive rows mostly belong to one thread, so the first and the last row of each run are enough.
        thread = pl.struct("tid", "comm", "pid")
        is_edge = thread.ne_missing(thread.shift()) | thread.ne_missing(thread.shift(-1))
        rows = rows.sort("ts_ns", maintain_order=True).filter(is_edge).select(list(_SEEN))
        self._tids = pl.concat([self._tids, rows["tid"]]).unique()
        self._pids = pl.concat([self._pids, rows.drop_nulls("pid").select("tid", "comm", "pid")]).unique()
        named = pl.concat([self._named, _first_of_each(rows.filter(pl.col("comm").is_not_null()))])
        self._named = _first_of_each(named.sort("ts_ns", maintain_order=True))

    def table(self) -> pl.DataFrame:
        """Return table `tasks`, sorted by tid and time."""
        only_pids = self._pids.filter(pl.len().over("tid", "comm") == 1).rename({"pid": "only_pid"})
        nameless = pl.DataFrame({"tid": self._tids.sort()}).join(self._named, on="tid", how="anti")
        table = (
            pl.concat([self._named, nameless], how="diagonal")
            .join(only_pids, on=["tid", "comm"], how="left", nulls_equal=True)
            .sort("tid", "ts_ns")
            .with_columns(
                pl.when(pl.col("tid") == pl.col("tid").shift()).then("ts_ns").alias("valid_from_ns"),
                pl.when(pl.col("tid") == pl.col("tid").shift(-1)).then(self._end_ns()).alias("valid_to_ns"),
                kind(pl.col("comm").fill_null("")),
                pl.coalesce("pid", "only_pid"),
            )
            .drop("ts_ns", "last_ns", "only_pid")
        )
        return schema.complete(table, "tasks")

    def _end_ns(self) -> pl.Expr:
        """Return the end of the span of a row that has a next row of its thread."""
        following = pl.col("ts_ns").shift(-1)
        is_renamed = pl.col("comm") != pl.col("comm").shift(-1)
        ends = pl.min_horizontal(following, pl.col("last_ns") + 1)
        return pl.when(is_renamed & pl.lit(not self._is_noted)).then(ends).otherwise(following)


_SEEN = {"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String, "last_ns": pl.Int64}
"""Rows of threads at ts_ns, which were seen as the same until last_ns."""


def _first_of_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows at which a thread id has another name or process than before. `rows` is sorted by time.

    The process of a row is the first that is known until the next one.
    """
    before = pl.col("pid").forward_fill().shift().over("tid")
    is_renamed = pl.col("comm").ne_missing(pl.col("comm").shift().over("tid"))
    is_other = is_renamed | (pl.col("pid") != before).fill_null(False)
    runs = rows.with_columns(is_other=is_other).with_columns(run=pl.col("is_other").cum_sum().over("tid"))
    of_run = ("tid", "run")
    runs = runs.with_columns(
        pid=pl.col("pid").drop_nulls().first().over(of_run), last_ns=pl.col("last_ns").max().over(of_run)
    )
    return runs.filter("is_other").drop("is_other", "run")


def seen(rows: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Return table `tasks` of the threads in `rows`, as `Seen` does.

    `rows` has the columns ts_ns, tid, pid and comm and is sorted by time.
    """
    threads = Seen()
    for piece in rows.lazy().select("ts_ns", "tid", "pid", "comm").collect_batches(maintain_order=True):
        threads.add(piece)
    return threads.table()
