"""What a thread is to the storage stack, and the tasks a recording names."""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema

# Thread names as the kernel's own sources give them (kthread_create, alloc_workqueue), first match wins. Servers are
# processes and kernel threads that read and write on behalf of others: FUSE daemons, loop devices, servers of files and
# of disks. Android's FUSE daemon is MediaProvider, of which the kernel keeps the last 15 characters; it was `sdcard`
# before Android 11. The kernel's own thread of io_uring was a thread of no process before Linux 5.12.
_KINDS = (
    ("journal", r"^(?:jbd2?/|kjournald|xfsaild/|btrfs-transacti|txg_sync)"),
    ("gc", r"^f2fs_gc"),
    ("writeback", r"^(?:kworker/u|flush-|bdi-default|pdflush)"),
    (
        "kernel",
        r"^(?:kworker/|<idle>$|swapper|kthreadd$|ksoftirqd/|migration/|cpuhp/|watchdog/|rcu[_bo]|irq/|kswapd"
        r"|khugepaged|ksmd$|kcompactd|kdamond|kdevtmpfs|khungtaskd|oom_reaper|kauditd|kblockd|mmcqd/|mmc-cmdqd|scsi_|ufs_"
        r"|ext4lazyinit|kmmpd-|f2fs_(?:discard|flush|ckpt)|erofs_|btrfs-|dmcrypt_write|dm_bufio|kdmflush|kcopyd|kcryptd"
        r"|kverityd|bcache_|zram|z_(?:rd|wr)_|md\d+_|io_wq_manager|io_wqe_work|io_uring-sq)",
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
    """Enum `tasks.kind` of thread name `comm`; `other` where the name says nothing.

    Unbound workers (``kworker/u…``) count as writeback: the flushers of Linux >= 3.10 run in them, but so do other
    unbound queues (dm-crypt, loop), which the name cannot tell apart. Bound workers are ``kernel``. Whether a thread
    belongs to an app or to the system is told by its user, not by its name.
    """
    rules = [pl.when(comm.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _KINDS]
    return pl.coalesce(*rules, pl.lit("other")).cast(schema.enum("tasks", "kind")).alias("kind")


_SERVING_PACKAGES = r"^com\.(?:google\.)?android\.providers\.media(?:\.module)?$"


def serves_others(comm: pl.Expr, package: pl.Expr) -> pl.Expr:
    """Return whether a process of this name or package does I/O on behalf of others, which its events do not name."""
    return ((kind(comm) == "server") | package.str.contains(_SERVING_PACKAGES).fill_null(False)).fill_null(False)


_PER_USER = 100_000
_FIRST_APP = 10_000
"""Android gives apps the users from this one on, for each of its own users again (AID_APP_START, AID_USER_OFFSET)."""


def listed(rows: pl.DataFrame, clock_offset_ns: int | None = None) -> pl.DataFrame:
    """Table `tasks` of the threads in `task` records (extmap, iotrace), in order of tid and start.

    `clock_offset_ns` is the capture's clock minus CLOCK_BOOTTIME; with it a thread is valid from its start, without it
    from before the capture. What has a command line is no kernel thread, whatever it calls itself, and a thread of root
    that has none is one. A process that has a device open through which the kernel asks it (`serves`) is a server. App
    and system are told apart only where the listing knows a package, that is, on Android.
    """
    task_kind = schema.enum("tasks", "kind")
    on_android = rows["package"].is_not_null().any()
    is_app = pl.col("uid") % _PER_USER >= _FIRST_APP
    of_user = (
        pl.when(pl.lit(on_android) & is_app)
        .then(pl.lit("app", task_kind))
        .when(pl.lit(on_android) & ~is_app)
        .then(pl.lit("system", task_kind))
        .otherwise(pl.lit("other", task_kind))
    )
    of_name = kind(pl.col("comm").fill_null(""))
    is_nameless = (of_name == "other") & (pl.col("uid") == 0).fill_null(False)
    of_kernel = pl.when(is_nameless).then(pl.lit("kernel", task_kind)).otherwise(of_name)
    serves = pl.col("serves").is_not_null() if "serves" in rows.columns else pl.lit(False)
    started = pl.col("started_ns") + clock_offset_ns if clock_offset_ns is not None else pl.lit(None, pl.Int64)
    table = rows.sort("tid", "started_ns", maintain_order=True).select(
        *("pid", "tid", "comm", "cmdline", "uid", "package"),
        pl.when(serves)
        .then(pl.lit("server", task_kind))
        .when(pl.col("cmdline").is_null())
        .then(of_kernel)
        .otherwise(of_user)
        .alias("kind"),
        started.alias("valid_from_ns"),
    )
    return schema.complete(table, "tasks")


_READ = {"oom_score_adj": pl.Int64(), "listed_ns": pl.Int64()}


def importance(rows: pl.DataFrame, clock_offset_ns: int | None) -> pl.DataFrame:
    """Table `importance` of what a listing's `task` records read, in order of time; `clock_offset_ns` as of `listed`.

    Without that offset, or of a listing that did not read it, it has no rows.
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


class Seen:
    """The threads that rows show, gathered piece by piece; it holds names, not rows.

    A thread has a row for each name it bore, valid from the time the name was first seen (from before the capture,
    for its first name) until that of the next one. Rows without a name count only for threads that never have one.
    Where pieces overlap in time, a name that came and went within the overlap may be missing or dated late.
    """

    def __init__(self) -> None:
        self._named = pl.DataFrame(schema=_SEEN)
        self._tids = pl.Series("tid", [], pl.Int32)
        self._pids = pl.DataFrame(schema={name: _SEEN[name] for name in ("tid", "comm", "pid")})

    def add(self, rows: pl.DataFrame) -> None:
        """Take in `rows`, of which the columns ts_ns, tid, pid and comm are used."""
        rows = rows.select(list(_SEEN)).filter(pl.col("tid").is_not_null())
        # Neighbours are mostly of one thread: look at one row of each such run.
        here = pl.struct("tid", "comm", "pid")
        rows = rows.sort("ts_ns", maintain_order=True).filter(here.ne_missing(here.shift()))
        self._tids = pl.concat([self._tids, rows["tid"]]).unique()
        pids = pl.concat([self._pids, rows.drop_nulls("pid").select("tid", "comm", "pid")])
        self._pids = pids.unique(["tid", "comm"], keep="first", maintain_order=True)
        named = pl.concat([self._named, _first_of_each(rows.filter(pl.col("comm").is_not_null()))])
        self._named = _first_of_each(named.sort("ts_ns", maintain_order=True))

    def table(self) -> pl.DataFrame:
        """Table `tasks`, in order of tid and time."""
        nameless = pl.DataFrame({"tid": self._tids.sort()}).join(self._named, on="tid", how="anti")
        table = (
            pl.concat([self._named.drop("pid"), nameless], how="diagonal")
            .join(self._pids, on=["tid", "comm"], how="left", nulls_equal=True)
            .sort("tid", "ts_ns")
            .with_columns(
                pl.when(pl.col("tid") == pl.col("tid").shift()).then("ts_ns").alias("valid_from_ns"),
                pl.when(pl.col("tid") == pl.col("tid").shift(-1)).then(pl.col("ts_ns").shift(-1)).alias("valid_to_ns"),
                kind(pl.col("comm").fill_null("")),
            )
            .drop("ts_ns")
        )
        return schema.complete(table, "tasks")


_SEEN = {"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String}


def _first_of_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Of rows in order of time those in which a thread has another name than before."""
    return rows.filter(pl.col("comm").ne_missing(pl.col("comm").shift().over("tid")))


def seen(rows: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Table `tasks` of the threads that `rows` (columns ts_ns, tid, pid, comm; in order of time) show, as `Seen`."""
    threads = Seen()
    for piece in rows.lazy().select(list(_SEEN)).collect_batches(maintain_order=True):
        threads.add(piece)
    return threads.table()
