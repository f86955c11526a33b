"""The rules that infer the pages of F2FS's writes, on recordings of a few events, written by hand."""

from __future__ import annotations

import polars as pl
import pytest

from androstep_analysis.link import inferred

pytestmark = pytest.mark.sanitized

WRITE, SYNC, SYNCED, CACHED, DROPPED = range(5)
GONE, ISSUE, READ = 8, 9, 10
FLUSHER, KBLOCKD, KERNEL, SYNCHRONOUS, F2FS = 1, 2, 4, 8, 16
DEV, HOT, WARM, NODES = 7, 1000, 2000, 3000

MS = 1_000_000
PAGE = 4096

Block = tuple[int, int | None, int | None, str]
"""A block of the device, the inode and the page that were inferred, and the rule."""


class Recording:
    """Events in the order of the calls, a microsecond apart."""

    def __init__(self) -> None:
        self.ts_ns = 0
        self.rows: list[dict[str, int]] = []

    def wait(self, ms: int) -> None:
        self.ts_ns += ms * MS

    def write(self, ino: int, pages: range, tid: int = 50, end: int | None = None) -> None:
        for page in pages:
            self._add(WRITE, ino, tid, page, 1, end or (page + 1) * PAGE)

    def sync(self, ino: int, tid: int = 50) -> None:
        self._add(SYNC, ino, tid)

    def synced(self, ino: int, tid: int = 50) -> None:
        self._add(SYNCED, ino, tid)

    def drop(self, ino: int, pages: range, tid: int = 50) -> None:
        for page in pages:
            self._add(DROPPED, ino, tid, page, 1)

    def create(self, ino: int, tid: int) -> None:
        """The node of a new file enters the cache."""
        self._add(CACHED, 1, tid, ino, 1)

    def issue(self, first: int, count: int, tid: int = 50, flags: int = SYNCHRONOUS) -> None:
        self._add(ISSUE, 0, tid, first, count, flags=flags)

    def read(self, first: int, count: int, tid: int = 50) -> None:
        self._add(READ, 0, tid, first, count)

    def flush(self, first: int, count: int) -> None:
        """The flusher issues a request."""
        self.issue(first, count, tid=9, flags=FLUSHER | KERNEL)

    def _add(self, kind: int, ino: int, tid: int, first: int = 0, count: int = 0, end: int = 0, flags: int = 0) -> None:
        self.ts_ns += 1000
        self.rows.append(
            {"ts_ns": self.ts_ns, "dev": DEV, "ino": ino, "tid": tid, "first": first, "count": count, "block": end}
            | {"kind": kind, "flags": flags | F2FS}
        )

    def blocks(self) -> list[Block]:
        results = inferred._results(pl.DataFrame(self.rows))
        return results.select("block", "ino", "file_block", "rule").rows()

    def of(self, first: int, count: int) -> list[Block]:
        return [block for block in self.blocks() if first <= block[0] < first + count]


def pages(first: int, ino: int, indices: range, rule: str) -> list[Block]:
    return [(first + k, ino, index, rule) for k, index in enumerate(indices)]


@pytest.fixture
def recording() -> Recording:
    """Two logs are known: a small file and a large one were synced."""
    made = Recording()
    for ino, count, first in ((10, 2, HOT - 2), (11, 17, WARM - 17)):
        made.write(ino, range(count))
        made.sync(ino)
        made.issue(first, count)
        made.issue(NODES + ino, 1)
        made.synced(ino)
    made.wait(2000)
    return made


def test_small_files_go_to_one_log_and_large_ones_to_another(recording: Recording) -> None:
    for ino, count in ((20, 3), (21, 40), (22, 16), (23, 17)):
        recording.write(ino, range(count))
    recording.wait(200)
    recording.flush(WARM, 57)
    recording.flush(HOT, 19)
    hot = [*pages(HOT, 20, range(3), "writeback"), *pages(HOT + 3, 22, range(16), "writeback")]
    warm = [*pages(WARM, 21, range(40), "writeback"), *pages(WARM + 40, 23, range(17), "writeback")]
    assert recording.blocks()[-76:] == [*warm, *hot]


def test_a_page_whose_block_is_written_again_soon_is_not_appended(recording: Recording) -> None:
    recording.write(10, range(4))  # page 0 and 1 lie before the begin of the log of hot data
    recording.wait(200)
    recording.flush(HOT, 2)
    recording.flush(HOT - 2, 2)
    assert recording.blocks()[-4:] == [
        *pages(HOT, 10, range(2, 4), "writeback"),
        *pages(HOT - 2, 10, range(2), "place"),
    ]


def test_pages_written_elsewhere_are_appended(recording: Recording) -> None:
    """F2FS does not rewrite in place on a large volume. The flusher begins with the page that was synced last."""
    recording.write(10, range(2))
    recording.wait(200)
    recording.flush(HOT, 2)
    assert recording.blocks()[-2:] == [(HOT, 10, 1, "writeback"), (HOT + 1, 10, 0, "writeback")]


def test_the_flusher_goes_on_behind_the_last_synced_page(recording: Recording) -> None:
    recording.write(11, range(20, 23))
    recording.sync(11)
    recording.issue(HOT, 3)
    recording.synced(11)
    recording.wait(2000)
    recording.write(11, range(30, 32))
    recording.write(11, range(18, 20))
    recording.wait(200)
    recording.flush(HOT + 3, 4)
    assert [page for _, _, page, _ in recording.blocks()[-4:]] == [30, 31, 18, 19]


def test_a_file_that_outgrows_its_inode_is_written_before_the_write(recording: Recording) -> None:
    recording.write(20, range(1), tid=60, end=100)
    recording.write(21, range(3), tid=61)
    recording.issue(HOT, 1, tid=8, flags=SYNCHRONOUS | KBLOCKD | KERNEL)
    recording.write(21, range(3, 4), tid=61)
    recording.write(20, range(1), tid=60, end=PAGE)
    assert recording.blocks()[-1] == (HOT, 20, 0, "converted")


def test_no_write_waits_so_long_for_a_request(recording: Recording) -> None:
    recording.write(20, range(1), tid=60, end=100)
    recording.issue(HOT, 1, tid=8, flags=SYNCHRONOUS | KBLOCKD | KERNEL)
    recording.wait(60_000)
    recording.write(20, range(1), tid=60, end=PAGE)
    assert "converted" not in [rule for *_, rule in recording.blocks()]


def test_a_recording_that_begins_at_time_0_has_no_fsync_before_it() -> None:
    recording = Recording()
    recording.write(20, range(2))
    recording.flush(HOT, 2)
    assert recording.blocks() == pages(HOT, 20, range(2), "writeback")


def test_a_file_in_its_inode_has_no_data_block(recording: Recording) -> None:
    recording.write(20, range(1), end=3488)
    recording.write(21, range(1))
    recording.wait(200)
    recording.flush(HOT, 1)
    assert recording.blocks()[-1] == (HOT, 21, 0, "writeback")


def test_blocks_of_the_log_of_nodes_are_no_pages_of_a_fsync(recording: Recording) -> None:
    recording.write(20, range(2))
    recording.sync(20)
    node = NODES + 12  # goes on where the nodes of inode 11 ended
    recording.issue(node, 1, tid=8, flags=SYNCHRONOUS | KBLOCKD | KERNEL)
    recording.issue(HOT, 2)
    assert recording.blocks()[-3:] == [(node, None, None, "node"), *pages(HOT, 20, range(2), "sync")]


def test_the_flusher_may_write_pages_that_wait_for_a_fsync(recording: Recording) -> None:
    recording.write(20, range(2))  # not due yet
    recording.write(10, range(2), tid=60)
    recording.sync(10, tid=60)
    recording.flush(HOT, 2)
    assert [(ino, rule) for _, ino, _, rule in recording.blocks()[-2:]] == [(10, "writeback")] * 2


def test_a_plug_issues_its_last_request_first(recording: Recording) -> None:
    recording.write(20, range(3))
    recording.write(21, range(4))
    recording.wait(2200)
    recording.flush(HOT + 3, 4)
    recording.flush(HOT, 3)
    assert sorted(recording.blocks()[-7:]) == [
        *pages(HOT, 20, range(3), "writeback"),
        *pages(HOT + 3, 21, range(4), "writeback"),
    ]


def test_files_that_are_skipped_for_a_fsync_are_due_again_later(recording: Recording) -> None:
    recording.write(20, range(5))
    recording.write(21, range(16))
    recording.wait(2200)
    recording.sync(10)
    recording.synced(10)
    recording.flush(HOT, 16)
    recording.wait(2200)
    recording.flush(HOT + 16, 5)
    assert recording.blocks()[-21:] == [
        *pages(HOT, 21, range(16), "writeback_during_sync"),
        *pages(HOT + 16, 20, range(5), "writeback"),
    ]


def test_without_a_fsync_no_file_is_skipped(recording: Recording) -> None:
    recording.wait(3000)
    recording.write(20, range(5))
    recording.write(21, range(16))
    recording.wait(2200)
    recording.flush(HOT, 16)
    assert recording.of(HOT, 16) == []


def test_few_blocks_do_not_show_that_files_were_skipped(recording: Recording) -> None:
    recording.write(20, range(5))
    recording.write(21, range(2))
    recording.wait(2200)
    recording.sync(10)
    recording.synced(10)
    recording.flush(HOT, 2)
    assert {rule for *_, rule in recording.blocks()[-2:]} == {"writeback_misfit"}


def test_a_fsync_issues_the_pages_that_the_flusher_has_collected(recording: Recording) -> None:
    recording.write(20, range(3))
    recording.wait(2200)
    recording.write(21, range(2))
    recording.sync(21)
    recording.issue(HOT, 5)
    assert recording.blocks()[-5:] == [
        *pages(HOT, 20, range(3), "writeback"),
        *pages(HOT + 3, 21, range(2), "sync"),
    ]


def test_a_fsync_issues_the_pages_of_another_one(recording: Recording) -> None:
    recording.write(20, range(3), tid=60)
    recording.sync(20, tid=60)
    recording.write(21, range(2))
    recording.sync(21)
    recording.issue(HOT, 5)
    assert recording.blocks()[-5:] == [
        *pages(HOT, 20, range(3), "sync"),
        *pages(HOT + 3, 21, range(2), "sync"),
    ]


def test_a_fsync_issues_the_pages_that_another_one_will_not_issue(recording: Recording) -> None:
    recording.write(20, range(3), tid=60)
    recording.sync(20, tid=60)
    recording.write(21, range(2))
    recording.sync(21)
    recording.issue(HOT, 3)
    recording.issue(HOT + 3, 2, tid=60)
    assert recording.of(HOT, 5) == [
        *pages(HOT, 20, range(1), "sync"),
        *pages(HOT + 1, 21, range(2), "sync"),
        *pages(HOT + 3, 20, range(1, 3), "sync"),
    ]


def test_the_order_of_pages_of_several_fsyncs_is_uncertain(recording: Recording) -> None:
    recording.write(21, range(2))
    recording.sync(21)
    for ino, tid in ((20, 60), (22, 61)):
        recording.write(ino, range(1), tid=tid)
        recording.sync(ino, tid=tid)
    recording.issue(HOT, 4)
    assert {rule for *_, rule in recording.of(HOT, 4)} == {"sync_other"}


def test_blocks_of_nobody_are_unknown_in_a_fsync(recording: Recording) -> None:
    """A file that another thread changed through a memory map, for example."""
    recording.write(21, range(2))
    recording.sync(21)
    recording.issue(HOT, 3)
    assert recording.of(HOT, 3) == pages(HOT + 1, 21, range(2), "sync")


def test_a_fsync_may_issue_blocks_ahead_of_those_of_the_flusher(recording: Recording) -> None:
    recording.write(20, range(3))
    recording.wait(2200)
    recording.write(21, range(1))
    recording.sync(21)
    recording.issue(HOT + 3, 1)
    recording.synced(21)
    recording.flush(HOT, 3)
    recording.write(22, range(2))
    recording.wait(2200)
    recording.flush(HOT + 4, 2)
    assert recording.blocks()[-6:] == [
        (HOT + 3, 21, 0, "sync"),
        *pages(HOT, 20, range(3), "writeback"),
        *pages(HOT + 4, 22, range(2), "writeback"),
    ]


def test_a_large_file_is_continued_where_a_fsync_interrupted_it(recording: Recording) -> None:
    recording.write(20, range(60))
    recording.wait(2200)
    recording.flush(WARM, 20)
    recording.wait(3000)
    recording.flush(WARM + 20, 40)
    assert recording.blocks()[-60:] == pages(WARM, 20, range(60), "writeback")


def test_a_file_that_is_being_deleted_is_not_written(recording: Recording) -> None:
    recording.write(20, range(2))
    recording.write(21, range(3))
    recording.wait(2200)
    recording.flush(HOT, 3)
    recording._add(DROPPED, 20, 50, 0, 2)
    assert recording.blocks()[-3:] == pages(HOT, 21, range(3), "writeback")


def test_new_files_are_in_the_order_in_which_their_nodes_enter_the_cache(recording: Recording) -> None:
    recording.create(22, tid=60)
    recording.create(21, tid=61)
    recording.write(21, range(3), tid=61)
    recording.write(22, range(2), tid=60)
    recording.wait(2200)
    recording.flush(HOT, 5)
    assert recording.blocks()[-5:] == [
        *pages(HOT, 22, range(2), "writeback"),
        *pages(HOT + 2, 21, range(3), "writeback"),
    ]


def test_blocks_that_depend_on_the_order_of_a_preempted_creation_are_uncertain(recording: Recording) -> None:
    """File 22 may have become dirty before or after file 21, whose first page lies in the same blocks either way."""
    recording.create(22, tid=60)
    recording.create(21, tid=61)
    recording.write(21, range(3), tid=61)
    recording.wait(10)
    recording.write(22, range(2), tid=60)
    recording.wait(2200)
    recording.flush(HOT, 5)
    assert recording.blocks()[-5:] == [
        *pages(HOT, 22, range(2), "writeback_unordered"),
        (HOT + 2, 21, 0, "writeback"),
        *pages(HOT + 3, 21, range(1, 3), "writeback_unordered"),
    ]


def test_a_deleted_file_is_not_written(recording: Recording) -> None:
    recording.write(20, range(2))
    recording.write(21, range(2))
    recording._add(GONE, 20, 50)
    recording.wait(200)
    recording.flush(HOT, 2)
    assert recording.blocks()[-2:] == pages(HOT, 21, range(2), "writeback")


def test_a_thread_writes_the_pages_that_it_is_about_to_drop(recording: Recording) -> None:
    """Direct I/O, and fallocate() that makes a hole, wherever they are in the file and whoever wrote them."""
    recording.write(20, range(8), tid=60)
    recording.write(21, range(1))
    recording.issue(HOT, 3)
    recording.drop(20, range(2, 5))
    assert recording.of(HOT, 3) == pages(HOT, 20, range(2, 5), "self")


def test_direct_io_is_of_the_file_whose_pages_its_thread_has_dropped(recording: Recording) -> None:
    recording.write(20, range(2), tid=60)
    recording.sync(20, tid=60)
    recording.issue(HOT, 2, tid=60)
    recording.synced(20, tid=60)
    recording.drop(20, range(1), tid=70)
    recording.issue(WARM, 4, tid=70)
    assert {(ino, rule) for _, ino, _, rule in recording.of(WARM, 4)} == {(20, "direct")}


def test_direct_io_is_not_of_a_deleted_file(recording: Recording) -> None:
    recording.write(20, range(2), tid=60)
    recording.drop(20, range(2), tid=70)
    recording.drop(1, range(20, 21), tid=70)
    recording.issue(WARM, 4, tid=70)
    assert {ino for _, ino, _, _ in recording.of(WARM, 4)} == {None}


def test_no_asynchronous_request_is_direct_io(recording: Recording) -> None:
    recording.write(20, range(2), tid=60)
    recording.drop(20, range(1), tid=70)
    recording.issue(WARM, 4, tid=70, flags=0)
    assert recording.of(WARM, 4) == []


def test_a_segment_of_nodes_continues_the_log_of_nodes() -> None:
    """The plug issues the second segment before the end of the first. Blocks of nodes are never rewritten."""
    recording, end = Recording(), 4 * 512
    recording.write(20, range(4), tid=60)
    recording.sync(20, tid=60)
    for first, count in ((end - 9, 7), (end, 2), (end - 2, 2), (end + 2, 1)):
        recording.issue(first, count, tid=8, flags=SYNCHRONOUS | KBLOCKD | KERNEL)
    recording.issue(HOT, 4, tid=60)
    assert recording.of(HOT, 4) == pages(HOT, 20, range(4), "sync")
    assert {rule for *_, rule in recording.of(end - 9, 12)} == {"node"}


def test_blocks_rewritten_in_place_through_a_memory_map_do_not_disturb_the_flusher(recording: Recording) -> None:
    recording.write(20, range(3))
    recording.wait(2200)
    recording.flush(5000, 2)
    recording.flush(HOT, 3)
    assert recording.of(HOT, 3) == pages(HOT, 20, range(3), "writeback")
    assert recording.of(5000, 2) == []


@pytest.mark.parametrize("is_read", [False, True])
def test_a_new_file_is_dirty_since_its_node_was_made(is_read: bool, recording: Recording) -> None:
    """Whichever page is written first. A node that is read is that of an old file."""
    recording.create(20, tid=60)
    if is_read:
        recording.read(NODES, 1, tid=60)
    recording.wait(5)
    recording.write(21, range(2))
    recording.write(20, range(7, 10), tid=60)
    recording.wait(2200)
    recording.flush(HOT, 5)
    files = [(21, range(2)), (20, range(7, 10))] if is_read else [(20, range(7, 10)), (21, range(2))]
    assert [(ino, page) for _, ino, page, _ in recording.of(HOT, 5)] == [
        (ino, page) for ino, indices in files for page in indices
    ]
