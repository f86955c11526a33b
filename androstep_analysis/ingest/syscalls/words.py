"""Name the bits in arguments of system calls, in the order in which strace prints them.

The values are those of include/uapi of Linux. The supported machines differ only in the flags of open
(arch/arm/include/uapi/asm/fcntl.h, the same on arch/arm64; asm-generic/fcntl.h on x86). Only x86 has MAP_32BIT; its bit
is unused on other machines. Bits without a name are appended as a number.
"""

from __future__ import annotations

from dataclasses import dataclass

_ALL = (1 << 64) - 1
_INT = (1 << 32) - 1


@dataclass(frozen=True)
class Word:
    """`name` denotes `value` in the bits `mask`."""

    mask: int
    value: int
    name: str


def _bits(names: str, first: int = 0) -> tuple[Word, ...]:
    """Return one word per bit, starting with bit `first`; ``-`` skips a bit."""
    numbered = enumerate(names.split(), first)
    return tuple(Word(1 << bit, 1 << bit, name) for bit, name in numbered if name != "-")


def _values(names: str, first: int = 0, mask: int = _ALL) -> tuple[Word, ...]:
    """Return one word per number, starting with `first`; ``-`` skips a number."""
    return tuple(Word(mask, number, name) for number, name in enumerate(names.split(), first) if name != "-")


def _flags(**named: int) -> tuple[Word, ...]:
    return tuple(Word(bits, bits, name) for name, bits in named.items())


def _prefixed(prefix: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    return tuple(Word(word.mask, word.value, prefix + word.name) for word in words)


_MOVED_ON_ARM = {"O_DIRECT": 0o200000, "O_LARGEFILE": 0o400000, "O_NOFOLLOW": 0o100000, "O_DIRECTORY": 0o40000}
_MOVED = {"O_DIRECT": 0o40000, "O_LARGEFILE": 0o100000, "O_NOFOLLOW": 0o400000, "O_DIRECTORY": 0o200000}
_ARMS = ("arm", "aarch64")
_GENERIC = ("x86_64", "i386")

TMPFILE = 0o20000000
CREATE = 0o100


def _open(machine: str | None) -> tuple[Word, ...]:
    """Return the flags of open except the access mode.

    On an unknown machine, the four flags that differ have no names.
    """
    moved = _MOVED_ON_ARM if machine in _ARMS else _MOVED if machine in _GENERIC else {}
    directory = moved.get("O_DIRECTORY", 0)
    named = {
        **{"O_CREAT": CREATE, "O_EXCL": 0o200, "O_NOCTTY": 0o400, "O_TRUNC": 0o1000, "O_APPEND": 0o2000},
        **{"O_NONBLOCK": 0o4000, "O_SYNC": 0o4010000, "__O_SYNC": 0o4000000, "O_DSYNC": 0o10000},
        **{name: moved[name] for name in ("O_DIRECT", "O_LARGEFILE", "O_NOFOLLOW") if moved},
        **{"O_NOATIME": 0o1000000, "O_CLOEXEC": 0o2000000, "O_PATH": 0o10000000},
        **({"O_TMPFILE": TMPFILE | directory} if directory else {}),
        **({"O_DIRECTORY": directory} if directory else {}),
        **{"__O_TMPFILE": TMPFILE, "FASYNC": 0o20000},
    }
    return _flags(**named)


_CLOSED, _NONBLOCK = 0o2000000, 0o4000
"""The close-on-exec and non-blocking flags of calls that create a descriptor. They equal O_CLOEXEC and O_NONBLOCK."""

_ADVICE = "NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED"

_CLONE = _bits(
    "VM FS FILES SIGHAND PIDFD PTRACE VFORK PARENT THREAD NEWNS SYSVSEM SETTLS PARENT_SETTID CHILD_CLEARTID "
    "DETACHED UNTRACED CHILD_SETTID NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET IO CLEAR_SIGHAND INTO_CGROUP",
    8,
)
_SIGCHLD = Word(0xFF, 17, "SIGCHLD")

_SETS: dict[str, tuple[Word, ...]] = {
    "at": _flags(
        AT_SYMLINK_NOFOLLOW=0x100,
        AT_REMOVEDIR=0x200,
        AT_SYMLINK_FOLLOW=0x400,
        AT_NO_AUTOMOUNT=0x800,
        AT_EMPTY_PATH=0x1000,
        AT_RECURSIVE=0x8000,
    ),
    "access_at": _flags(AT_EACCESS=0x200, AT_SYMLINK_NOFOLLOW=0x100, AT_EMPTY_PATH=0x1000),
    "statx": (
        *_values("AT_STATX_SYNC_AS_STAT - -", mask=0x6000),
        Word(0x6000, 0x2000, "AT_STATX_FORCE_SYNC"),
        Word(0x6000, 0x4000, "AT_STATX_DONT_SYNC"),
        *_flags(AT_SYMLINK_NOFOLLOW=0x100, AT_NO_AUTOMOUNT=0x800, AT_EMPTY_PATH=0x1000),
    ),
    "statx_mask": (
        *_flags(STATX_ALL=0xFFF, STATX_BASIC_STATS=0x7FF),
        *_prefixed("STATX_", _bits("TYPE MODE NLINK UID GID ATIME MTIME CTIME INO SIZE BLOCKS BTIME MNT_ID DIOALIGN")),
    ),
    "access": (Word(_ALL, 0, "F_OK"), *_flags(R_OK=4, W_OK=2, X_OK=1)),
    "whence": _values("SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE"),
    "protection": (Word(_ALL, 0, "PROT_NONE"), *_flags(PROT_READ=1, PROT_WRITE=2, PROT_EXEC=4, PROT_SEM=8)),
    "mapping": (
        *_values("MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE", 1, mask=0xF),
        *_flags(MAP_32BIT=0x40, MAP_FIXED=0x10, MAP_ANONYMOUS=0x20, MAP_NORESERVE=0x4000, MAP_POPULATE=0x8000),
        *_flags(MAP_NONBLOCK=0x10000, MAP_GROWSDOWN=0x100, MAP_DENYWRITE=0x800, MAP_EXECUTABLE=0x1000),
        *_flags(MAP_LOCKED=0x2000, MAP_STACK=0x20000, MAP_HUGETLB=0x40000, MAP_SYNC=0x80000),
        *_flags(MAP_FIXED_NOREPLACE=0x100000),
    ),
    "remapping": _prefixed("MREMAP_", _bits("MAYMOVE FIXED DONTUNMAP")),
    "memory_advice": (
        *_prefixed("MADV_", _values(_ADVICE)),
        *_prefixed(
            "MADV_",
            _values(
                "FREE REMOVE DONTFORK DOFORK MERGEABLE UNMERGEABLE HUGEPAGE NOHUGEPAGE DONTDUMP DODUMP WIPEONFORK "
                "KEEPONFORK COLD PAGEOUT POPULATE_READ POPULATE_WRITE DONTNEED_LOCKED COLLAPSE",
                8,
            ),
        ),
    ),
    "advice": _prefixed("POSIX_FADV_", _values(f"{_ADVICE} NOREUSE")),
    "memory_sync": _prefixed("MS_", _bits("ASYNC INVALIDATE SYNC")),
    "allocation": _prefixed(
        "FALLOC_FL_",
        _bits("KEEP_SIZE PUNCH_HOLE NO_HIDE_STALE COLLAPSE_RANGE ZERO_RANGE INSERT_RANGE UNSHARE_RANGE WRITE_ZEROES"),
    ),
    "range_sync": _prefixed("SYNC_FILE_RANGE_", _bits("WAIT_BEFORE WRITE WAIT_AFTER")),
    "renaming": _prefixed("RENAME_", _bits("NOREPLACE EXCHANGE WHITEOUT")),
    "locking": tuple(
        Word(_INT, value | flag, name + suffix)
        for value, name in ((1, "LOCK_SH"), (2, "LOCK_EX"), (8, "LOCK_UN"))
        for flag, suffix in ((0, ""), (4, "|LOCK_NB"))
    ),
    "transfer": _prefixed("RWF_", _bits("HIPRI DSYNC SYNC NOWAIT APPEND NOAPPEND ATOMIC DONTCACHE")),
    "splicing": _prefixed("SPLICE_F_", _bits("MOVE NONBLOCK MORE GIFT")),
    "closing": _prefixed("CLOSE_RANGE_", _bits("UNSHARE CLOEXEC", 1)),
    "memory_file": _prefixed("MFD_", _bits("CLOEXEC ALLOW_SEALING HUGETLB NOEXEC_SEAL EXEC")),
    "clone": (*_prefixed("CLONE_", _CLONE), _SIGCHLD),
    "command": (
        *_prefixed("F_", _values("DUPFD GETFD SETFD GETFL SETFL GETLK SETLK SETLKW SETOWN GETOWN SETSIG GETSIG")),
        *_prefixed("F_", _values("GETLK64 SETLK64 SETLKW64 SETOWN_EX GETOWN_EX GETOWNER_UIDS", 12)),
        *_prefixed("F_OFD_", _values("GETLK SETLK SETLKW", 36)),
        *_prefixed("F_", _values("SETLEASE GETLEASE NOTIFY DUPFD_QUERY CREATED_QUERY CANCELLK DUPFD_CLOEXEC", 1024)),
        *_prefixed("F_", _values("SETPIPE_SZ GETPIPE_SZ ADD_SEALS GET_SEALS GET_RW_HINT SET_RW_HINT", 1031)),
        *_prefixed("F_", _values("GET_FILE_RW_HINT SET_FILE_RW_HINT", 1037)),
    ),
    "descriptor": _flags(FD_CLOEXEC=1),
    "sealing": _prefixed("F_SEAL_", _bits("SEAL SHRINK GROW WRITE FUTURE_WRITE EXEC")),
    "epoll": _prefixed("EPOLL_CTL_", _values("ADD DEL MOD", 1)),
    "shutting": _prefixed("SHUT_", _values("RD WR RDWR")),
    "unmounting": _flags(MNT_FORCE=1, MNT_DETACH=2, MNT_EXPIRE=4, UMOUNT_NOFOLLOW=8),
    "event_descriptor": _flags(EFD_SEMAPHORE=1, EFD_CLOEXEC=_CLOSED, EFD_NONBLOCK=_NONBLOCK),
    "epoll_descriptor": _flags(EPOLL_CLOEXEC=_CLOSED),
    "signal_descriptor": _flags(SFD_CLOEXEC=_CLOSED, SFD_NONBLOCK=_NONBLOCK),
    "timer_descriptor": _flags(TFD_CLOEXEC=_CLOSED, TFD_NONBLOCK=_NONBLOCK),
    "notify_descriptor": _flags(IN_CLOEXEC=_CLOSED, IN_NONBLOCK=_NONBLOCK),
    "clock": _prefixed("CLOCK_", _values("REALTIME MONOTONIC - - - - - BOOTTIME REALTIME_ALARM BOOTTIME_ALARM")),
    "socket_family": (*_values("AF_UNSPEC AF_UNIX AF_INET"), Word(_ALL, 10, "AF_INET6"), Word(_ALL, 16, "AF_NETLINK")),
    "socket_type": (
        *_prefixed("SOCK_", _values("STREAM DGRAM RAW RDM SEQPACKET DCCP", 1, mask=0xF)),
        *_flags(SOCK_CLOEXEC=_CLOSED, SOCK_NONBLOCK=_NONBLOCK),
    ),
    "accepting": _flags(SOCK_CLOEXEC=_CLOSED, SOCK_NONBLOCK=_NONBLOCK),
    "message": (
        *_prefixed(
            "MSG_",
            _bits(
                "OOB PEEK DONTROUTE CTRUNC PROBE TRUNC DONTWAIT EOR WAITALL FIN SYN CONFIRM RST ERRQUEUE NOSIGNAL MORE "
                "WAITFORONE"
            ),
        ),
        *_flags(MSG_CMSG_CLOEXEC=0x40000000),
    ),
    "number": (),
}


def words(name: str, machine: str | None) -> tuple[Word, ...]:
    """Return the words of a set, in order. The words that match are joined with ``|``.

    A word for the value 0 is used only if no other word matches.

    Raises
    ------
    KeyError
        If there is no set with that name.
    """
    if name == "open":
        return (*_values("O_RDONLY O_WRONLY O_RDWR O_ACCMODE", mask=3), *_open(machine))
    return _open(machine) if name == "open_flags" else _SETS[name]
