"""What is done on each kernel: shell for a guest with busybox and iobench, in an empty directory of the filesystem.

Counts and kinds of I/O are meant, not times: every program is emulated. Each ends with sync, so that all of it reaches
the disk within its recording.
"""

from __future__ import annotations

MESSENGER = """
iobench sqlite -T 2 -n 60 -j TRUNCATE -s FULL --cache any -q -p .
for picture in 1 2 3 4 5 6; do dd if=/dev/urandom of=picture$picture bs=64k count=1; done
"""
"""Messages, each a transaction on two tables as Android's apps make them by default, and pictures that nobody syncs."""

INSTALLATION = """
mkdir app; for file in $(seq 40); do
    dd if=/dev/urandom of=app/new$file bs=1k count=$((file * 3)) conv=fsync; mv app/new$file app/file$file
done
"""
"""As an installer does: every file is made durable under another name, and then renamed."""

BROWSER = """
mkdir -p cache; for page in 1 2 3 4; do
    for part in $(seq 12); do dd if=/dev/urandom of=cache/$page.$part bs=1k count=$((part * 4)); done
    [ $page -lt 3 ] || rm cache/$((page - 2)).*
done
iobench sqlite -T 1 -n 20 -j WAL -s NORMAL --cache any -q -p .
sync; echo 3 >/proc/sys/vm/drop_caches; cat cache/* >/dev/null
"""
"""A cache of many small files, which come and go and are never synced; cookies and history; the cache is read again."""

CAMERA = """
dd if=/dev/urandom of=film bs=256k count=96 conv=fsync; dd if=/dev/urandom of=thumbnail bs=16k count=1 conv=fsync
"""
"""A film, written in large pieces and made durable at the end, and its picture."""

IDLE = """
for second in $(seq 8); do
    echo "line $second of a log that nobody syncs" >>log; echo $second >settings.new; sleep 1
    [ $((second % 4)) -ne 0 ] || { dd if=settings.new of=settings.tmp conv=fsync; mv settings.tmp settings; }
done
"""
"""Little is written, now and then something that must last: background work of a phone in a pocket."""

SQLITE_TRANSACTIONS = 60


def sqlite(journal_mode: str, synchronous: str = "FULL") -> str:
    """Transactions of one row each on a database that is there already."""
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
