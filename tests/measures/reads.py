"""Read files in known ways, and log the pages that were requested and those in the cache: `python reads.py DIR LOG`.

This is not a test: test_readahead_live.py records it. mincore shows the pages in the cache, pagemap the mapped ones.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, *(ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class File:
    """A file that is read, and what is known of its pages."""

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self.fd = os.open(path, flags)
        self.size = os.fstat(self.fd).st_size
        self.asked: set[int] = set()
        self.was_in: set[int] = set()
        self.mapped: set[int] = set()
        self.is_dropped = False

    def map(self) -> int:
        place = LIBC.mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED, self.fd, 0)
        assert place != ctypes.c_void_p(-1).value
        return int(place)

    def read(self, begin: int, length: int) -> None:
        got = len(os.pread(self.fd, length, begin))
        self.asked.update(range(begin // PAGE, (begin + got - 1) // PAGE + 1) if got else ())

    def look(self) -> None:
        """Return the pages in the cache, after all reads have ended."""
        time.sleep(0.05)
        place, found = self.map(), ctypes.create_string_buffer(-(-self.size // PAGE))
        assert LIBC.mincore(place, self.size, found) == 0
        LIBC.munmap(place, self.size)
        self.was_in |= {page for page, state in enumerate(found.raw[: -(-self.size // PAGE)]) if state & 1}

    def touch(self, pages: Iterable[int], advice: int | None = None) -> None:
        """Load a byte of each page, and return the mapped pages."""
        place = self.map()
        if advice is not None:
            assert LIBC.madvise(place, self.size, advice) == 0
        for page in pages:
            ctypes.string_at(place + page * PAGE, 1)
            self.asked.add(page)
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(place // PAGE * 8)
            entries = memoryview(pagemap.read(-(-self.size // PAGE) * 8)).cast("Q")
        self.mapped |= {page for page, entry in enumerate(entries) if entry >> 63}
        LIBC.munmap(place, self.size)

    def drop(self) -> None:
        self.look()
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        left = set(self.was_in)
        self.was_in = set()
        self.look()
        assert not self.was_in, "what was read could not be dropped"
        self.was_in, self.is_dropped = left, True

    def told(self) -> dict[str, object]:
        self.look()
        pages = {name: sorted(getattr(self, name)) for name in ("asked", "was_in", "mapped")}
        return {**pages, "is_dropped": self.is_dropped, "size": self.size}


def main(top: Path, log: Path) -> None:
    files = {}

    def opened(name: str, flags: int = os.O_RDONLY) -> File:
        files[name] = File(top / name, flags)
        return files[name]

    whole = opened("whole")
    for begin in range(0, whole.size, 1 << 17):
        whole.read(begin, 1 << 17)
    odd = opened("odd")  # calls that span cached pages and pages still being read
    for begin in range(0, odd.size, 100_003):
        odd.read(begin, 100_003)
    huge = opened("huge")
    huge.read(0, huge.size)
    head = opened("head")  # what follows is read ahead, and never asked for
    for begin in range(0, 40 * PAGE, PAGE):
        head.read(begin, PAGE)
    dropped = opened("dropped")
    for begin in range(0, 40 * PAGE, PAGE):
        dropped.read(begin, PAGE)
    dropped.drop()
    single = opened("single")
    for page in (77, 5, 300, 1001, 6):
        single.read(page * PAGE, 100)
    around = opened("around")  # a fault reads around its page
    around.touch([500, 501, 3, 900])
    strict = opened("strict")
    strict.touch([500, 501, 3, 900], mmap.MADV_RANDOM)
    written = opened("written", os.O_RDWR)  # of a page that is written in part the rest is read
    os.pwrite(written.fd, b"x", 5 * PAGE + 10)
    written.asked.add(5)
    direct = opened("direct", os.O_RDONLY | os.O_DIRECT)
    os.preadv(direct.fd, [mmap.mmap(-1, 1 << 19)], 1 << 20)
    log.write_text(json.dumps({name: file.told() for name, file in files.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
