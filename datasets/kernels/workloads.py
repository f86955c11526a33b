"""Workloads for each kernel: shell for a guest with busybox and iobench, in an empty directory of the filesystem.

They are meant for counts and kinds of I/O, not for times, because every program is emulated. Each ends with sync, so
that all of its data reaches the disk within its recording.
"""

from __future__ import annotations

MESSENGER = """
iobench sqlite -T 2 -n 60 -j TRUNCATE -s FULL --cache any -q -p .
for picture in 1 2 3 4 5 6; do dd if=/dev/urandom of=picture$picture bs=64k count=1; done
"""
"""Messages, each a transaction on two tables with the defaults of Android's apps, and pictures without a sync."""

INSTALLATION = """
mkdir app; for file in $(seq 40); do
    dd if=/dev/urandom of=app/new$file bs=1k count=$((file * 3)) conv=fsync; mv app/new$file app/file$file
done
"""
"""Like an installer: every file is written under a temporary name, fsynced, and renamed."""

BROWSER = """
mkdir -p cache; for page in 1 2 3 4; do
    for part in $(seq 12); do dd if=/dev/urandom of=cache/$page.$part bs=1k count=$((part * 4)); done
    [ $page -lt 3 ] || rm cache/$((page - 2)).*
done
iobench sqlite -T 1 -n 20 -j WAL -s NORMAL --cache any -q -p .
sync; echo 3 >/proc/sys/vm/drop_caches; cat cache/* >/dev/null
"""
"""A cache of many small files that are created and deleted and never synced, with cookies and history.

The cache is read again at the end.
"""

CAMERA = """
dd if=/dev/urandom of=film bs=256k count=96 conv=fsync; dd if=/dev/urandom of=thumbnail bs=16k count=1 conv=fsync
"""
"""A film, written in large pieces and fsynced at the end, and its thumbnail."""

IDLE = """
for second in $(seq 8); do
    echo "line $second of a log that nobody syncs" >>log; echo $second >settings.new; sleep 1
    [ $((second % 4)) -ne 0 ] || { dd if=settings.new of=settings.tmp conv=fsync; mv settings.tmp settings; }
done
"""
"""Background work of an idle phone: few writes, and now and then one that is fsynced."""

SQLITE_TRANSACTIONS = 60


def sqlite(journal_mode: str, synchronous: str = "FULL") -> str:
    """Return a workload of transactions of one row each on an existing database."""
    words = f"-T 1 -n {SQLITE_TRANSACTIONS} -d update -j {journal_mode} -s {synchronous} --prefilled 100"
    return f"iobench sqlite {words} --cache any -q -p .\n"


WORKLOADS = {
    "messenger": MESSENGER,
    "installation": INSTALLATION,
    "browser": BROWSER,
    "camera": CAMERA,
    "idle": IDLE,
    "sqlite_delete": sqlite("DELETE"),
    "sqlite_truncate": sqlite("TRUNCATE"),
    "sqlite_persist": sqlite("PERSIST"),
    "sqlite_wal": sqlite("WAL"),
    "sqlite_wal_normal": sqlite("WAL", "NORMAL"),
}
