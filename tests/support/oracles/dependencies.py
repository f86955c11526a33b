"""The orders between operations that the rules of replay/dependencies.py require, pair by pair.

Each operation is a list of its uses: (kind of resource, which one, how). Two operations are ordered if they use a
resource in conflicting ways. Written from the rules, without state and without shortcuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]
Use = tuple[str, Any, str]

O_CREAT, O_TRUNC = 0o100, 0o1000

WRITERS = {"write", "pwrite", "writev", "pwritev", "truncate", "ftruncate", "fallocate", "mapped_write"}
WRITERS |= {"chmod", "fchmod", "utimens", "futimens"}
READERS = {"read", "pread", "readv", "preadv", "fsync", "fdatasync", "sync_file_range", "fadvise", "readahead", "msync"}
READERS |= {"mmap", "mapped_read", "stat", "lstat", "fstat", "open", "lseek"}
COPIES = {"sendfile", "splice", "copy_file_range"}
NAMERS = {"mkdir", "rmdir", "unlink", "rename", "symlink"}
LOOKERS = {"open", "stat", "lstat", "access", "readlink", "statfs", "truncate", "chmod", "utimens", "link"}


def above(path: str) -> Iterator[str]:
    """Yield the parent directories of a path, from below, without the root."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def used(operation: Operation, operations: list[Operation]) -> set[Use]:
    """Return all uses of an operation."""
    found = set(_descriptors(operation, operations)) | set(_files(operation)) | set(_names(operation))
    if _changes(operation):
        found.add(("all", 0, "changed"))
    if operation["call"] in ("sync", "syncfs"):
        found.add(("all", 0, "synced"))
    return found


def _changes(operation: Operation) -> bool:
    """Return whether an operation changes any file or name, known or not."""
    call, flags, succeeds = operation["call"], operation["flags"] or 0, not operation["failed"]
    if call == "open":
        return succeeds and bool(flags & (O_CREAT | O_TRUNC))
    return call in WRITERS | COPIES or (succeeds and call in NAMERS | {"link"})


def _opened(descriptor: int, before: Operation, operations: list[Operation]) -> tuple[int, str | None]:
    """Return the descriptor that was not duplicated from another one, and the path with which it was opened."""
    path = None
    for other in operations:
        if other is before:
            break
        if other["call"] == "open" and other["descriptor"] == descriptor and other["path"] is not None:
            path = other["path"]
        if other["call"] == "dup" and other["descriptor2"] == descriptor and other["descriptor"] is not None:
            return _opened(other["descriptor"], other, operations)
    return descriptor, path


def _descriptors(operation: Operation, operations: list[Operation]) -> Iterator[Use]:
    call, first, second = operation["call"], operation["descriptor"], operation["descriptor2"]
    if first is not None:
        yield "descriptor", first, "exclusive" if call in ("open", "close") else "shared"
        original, path = _opened(first, operation, operations)
        unplaced = call in ("pread", "pwrite", "preadv", "pwritev") and operation["offset_bytes"] is None
        if call in ("read", "write", "readv", "writev", "lseek", "getdents") or call in COPIES or unplaced:
            yield "position", original, "exclusive"
        if call in ("getdents", "fsync", "fdatasync", "sync_file_range") and path is not None:
            yield "entries", path, "shared"
    if second is not None and (call != "dup" or first is not None):
        yield "descriptor", second, "exclusive" if call == "dup" else "shared"
        if call in COPIES and operation["offset2_bytes"] is None:
            yield "position", _opened(second, operation, operations)[0], "exclusive"


def _files(operation: Operation) -> Iterator[Use]:
    call, file, file2 = operation["call"], operation["file"], operation["file2"]
    truncates = call == "open" and (operation["flags"] or 0) & O_TRUNC and not operation["failed"]
    if file is not None:
        if call in WRITERS or truncates:
            yield "file", file, "exclusive"
        elif call in READERS or call in COPIES:
            yield "file", file, "shared"
        if call in ("mmap", "munmap"):
            yield "mapping", file, "exclusive"
        if call in ("msync", "mapped_read", "mapped_write"):
            yield "mapping", file, "shared"
    if file2 is not None and call in COPIES:
        yield "file", file2, "exclusive"


def _names(operation: Operation) -> Iterator[Use]:
    call, failed = operation["call"], bool(operation["failed"])
    creates = call == "open" and bool((operation["flags"] or 0) & O_CREAT)
    uses = []
    if call in NAMERS or creates:
        uses.append((operation["path"], not failed))
    elif call in LOOKERS:
        uses.append((operation["path"], False))
    if call in ("rename", "link"):
        uses.append((operation["path2"], not failed))
    if failed and call in ("rmdir", "rename"):
        directory = operation["path" if call == "rmdir" else "path2"]
        if directory is not None:
            yield "entries", directory, "shared"
    for path, changes in uses:
        if path is None or path == ".":
            continue
        yield "name", path, "exclusive" if changes else "shared"
        for directory in above(path):
            yield "name", directory, "shared"
        if changes:
            yield "entries", next(above(path), "."), "changed"


def births(operations: list[Operation]) -> set[tuple[int, int]]:
    """Return the (later, earlier) pairs of different threads on files whose first operation created them."""
    found: set[tuple[int, int]] = set()
    creators: dict[int, int | None] = {}
    for number, operation in enumerate(operations):
        file, call = operation["file"], operation["call"]
        if file is None:
            continue
        creates = call in NAMERS or (call == "open" and bool((operation["flags"] or 0) & O_CREAT))
        creator = creators.setdefault(file, number if creates and not operation["failed"] else None)
        if creator is not None and operations[creator]["thread"] != operation["thread"]:
            found.add((number, creator))
    return found


def conflict(earlier: str, later: str) -> bool:
    """Return whether two uses of a resource conflict."""
    free = (("shared", "shared"), ("changed", "changed"), ("synced", "changed"), ("synced", "synced"))
    return (earlier, later) not in free


def required(operations: list[Operation], tells: list[bool]) -> set[tuple[int, int]]:
    """Return all (later, earlier) pairs of operations of different threads that must keep their order.

    `tells` states for each operation whether its result shows on which side of a name's change it was.
    """
    uses = [used(operation, operations) for operation in operations]
    found = births(operations)
    for later in range(len(operations)):
        for earlier in range(later):
            if operations[earlier]["thread"] == operations[later]["thread"]:
                continue
            kinds = {
                kind
                for kind, which, how in uses[earlier]
                for other, what, later_how in uses[later]
                if (kind, which) == (other, what) and conflict(how, later_how)
            }
            is_observed = "name" in kinds and tells[earlier] and tells[later]
            if (
                "descriptor" in kinds
                or is_observed
                or (kinds and end(operations, earlier) <= operations[later]["ts_ns"])
            ):
                found.add((later, earlier))
    return found


def end(operations: list[Operation], number: int) -> int:
    """Return when an operation ended: at the latest when the next one of its thread began."""
    operation = operations[number]
    ended = operation["ts_ns"] + (operation["duration_ns"] or 0)
    following = (other for other in operations[number + 1 :] if other["thread"] == operation["thread"])
    return int(min([ended, *(other["ts_ns"] for other in following)]))


def closure(operations: list[Operation], pairs: set[tuple[int, int]]) -> list[int]:
    """Return for each operation the set of all earlier ones, as bits, from these pairs and the order within threads."""
    before = [0] * len(operations)
    last: dict[int, int] = {}
    direct: dict[int, list[int]] = {}
    for later, earlier in pairs:
        direct.setdefault(later, []).append(earlier)
    for number, operation in enumerate(operations):
        waits = direct.get(number, [])
        if operation["thread"] in last:
            waits = [*waits, last[operation["thread"]]]
        for earlier in waits:
            before[number] |= before[earlier] | 1 << earlier
        last[operation["thread"]] = number
    return before
