"""An order for calls that overlapped in time, in which all of them return the recorded results.

A call changes a name, or finds it existing or missing, at one moment between its begin and its end. If calls of several
threads on one name overlap, their results show the order of these moments: a call that did not find a file which
another call was creating looked it up before the creation. Such histories are linearizable (Herlihy and Wing, ACM
TOPLAS 12(3), 1990). Names may be examined separately, since an order of all calls follows from those of each name
(their Theorem 1). The order is found as in Wing and Gong, Journal of Parallel and Distributed Computing 17, 1993.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

_O_CREAT, _O_EXCL = 0o100, 0o200
_NOREPLACE, _EXCHANGE = 1, 2
_MISSING, _EXISTS = -2, -17
"""ENOENT and EEXIST, as results."""

_FINDS = ("stat", "lstat", "access", "readlink", "statfs", "truncate", "chmod", "utimens", "link")
_MOST_TRIED = 10_000
"""The most choices, in addition to one for each call, that are tried for related names. If there is no result by then,
the calls keep the order of their begins."""
_MOST_SEEN, _SEEN_PER_CALL = 4_000_000, 64
"""The most calls that are examined, over all choices. If very many overlap, the rest keep the order of their begins."""

LONGEST_NS = 1 << 62

_BEHIND = 2**-20
"""Distance of a row that is placed right after another one. Many of them are less than the distance to the next row."""
_PARENT = r"(?s)^(.+)/[^/]*$"
_OF_USES = ("row", "ts_ns", "end_ns", "name", "was", "becomes")


def ends() -> pl.Expr:
    """Return the end of an operation: immediately if its duration is unknown, at the latest when its thread goes on."""
    ended = pl.col("ts_ns") + pl.col("duration_ns").fill_null(0).clip(0, LONGEST_NS)
    return pl.min_horizontal(ended, pl.col("ts_ns").shift(-1).over("thread"))


def settled(operations: pl.DataFrame, at_start: pl.Series) -> pl.DataFrame:
    """Return table `operations` in an order that explains their results.

    Calls that only began first are moved after those that took effect before them. Their begin is then that of the last
    of these, and their end is unchanged. `at_start` are the paths that existed at the start.
    """
    contested = _contested(_uses(operations))
    before = pl.col("becomes").shift(1).over("name").fill_null(pl.col("name").is_in(at_start.implode()))
    doubtful = contested.filter(before != pl.col("was"))["name"].unique()
    if doubtful.is_empty():
        return operations
    positions: dict[int, float] = {}
    was_there = set(at_start)
    budget = _Budget(_MOST_SEEN + _SEEN_PER_CALL * contested.height)
    for calls in _belonging_together(contested, doubtful):
        position = -1.0
        there = {name: name in was_there for call in calls for name in call.names}
        for call in _linear(calls, there, budget) or ():
            position = max(float(call.row), position + _BEHIND)
            positions[call.row] = position
    placed = operations.with_columns(place=pl.int_range(pl.len()).cast(pl.Float64).replace(positions))
    begin_ns = pl.col("ts_ns").gather(pl.col("place").floor().cast(pl.UInt32))
    late_ns = begin_ns - pl.col("ts_ns")
    return (
        placed.with_columns(ts_ns=begin_ns, duration_ns=(pl.col("duration_ns") - late_ns).clip(0))
        .sort("place", maintain_order=True)
        .with_columns(operation=pl.int_range(pl.len()))
        .drop("place")
    )


def tells(operations: pl.DataFrame) -> pl.Series:
    """Return whether each operation used a name while another thread changed it, with a result that shows its state."""
    rows = _contested(_uses(operations))["row"].unique()
    return pl.repeat(False, operations.height, eager=True).scatter(rows, True).rename("tells")


def _uses(operations: pl.DataFrame) -> pl.DataFrame:
    """Return the uses of names by operations: row, times, name, was, becomes.

    was and becomes are whether the name existed before and after, null if unknown. Links are left out, because a
    missing name may be the target of a link.
    """
    call = pl.col("call").cast(pl.String)
    rows = operations.with_row_index("row").with_columns(end_ns=ends())
    own = _of_own_names(rows)
    changed = own.filter(~_only_looks()).select("name").unique()
    if changed.is_empty():
        return own.clear()
    done = rows.filter(~pl.col("failed"))
    of_links = rows.filter(call.is_in(["symlink", "readlink"])).select(name="path").unique()
    parts = [own, _of_directories(done, changed), _of_the_emptied(done.filter(call == "rmdir"), changed)]
    return pl.concat(parts).join(of_links, on="name", how="anti").sort("row", maintain_order=True)


def _only_looks() -> pl.Expr:
    return (pl.col("was") == pl.col("becomes")).fill_null(False)


def _of_own_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Return uses of the names in the arguments of operations, and of the missing directory of a failed creation.

    If a rename or link fails for something missing, its first name is assumed to be missing, which may be wrong.
    """
    call, flags, result = pl.col("call").cast(pl.String), pl.col("flags").fill_null(0), pl.col("result")
    path, path2 = pl.col("path"), pl.col("path2")
    done, is_missing, exists = ~pl.col("failed"), result == _MISSING, result == _EXISTS
    is_link, is_rename, removes = call == "link", call == "rename", call.is_in(["unlink", "rmdir"])
    creates = (call == "open") & (flags & _O_CREAT != 0)
    is_new = call.is_in(["mkdir", "symlink"]) | (creates & (flags & _O_EXCL != 0))
    makes = creates | is_new
    finds = call.is_in(_FINDS) | ((call == "open") & ~creates)
    # A rename between two names of one file does nothing.
    is_same = (path == path2) | (pl.col("file") == pl.col("file2")).fill_null(False)
    is_kept = (flags & _EXCHANGE != 0) | is_same
    exists_now, missing = pl.lit(True), pl.lit(False)

    def uses(name: pl.Expr, when: pl.Expr, was: pl.Expr, becomes: pl.Expr) -> pl.DataFrame:
        found = rows.filter(when.fill_null(False), name.is_not_null())
        return found.with_columns(name.alias("name"), was.alias("was"), becomes.alias("becomes")).select(_OF_USES)

    return pl.concat(
        [
            uses(path, done & finds, exists_now, exists_now),
            uses(path, is_missing & (finds | removes | is_rename), missing, missing),
            uses(path, exists & (makes | is_link | is_rename), exists_now, exists_now),
            uses(path, done & makes, pl.when(is_new).then(missing), exists_now),
            uses(path, done & removes, exists_now, missing),
            uses(path, done & is_rename, exists_now, is_kept),
            uses(path2, done & is_rename & ~is_kept, pl.when(flags & _NOREPLACE != 0).then(missing), exists_now),
            uses(path2, done & is_rename & is_kept, exists_now, exists_now),
            uses(path2, done & is_link, missing, exists_now),
            uses(path2, exists & (is_link | is_rename), exists_now, exists_now),
            uses(path.str.extract(_PARENT), is_missing & makes, missing, missing),
        ]
    )


def _of_directories(done: pl.DataFrame, changed: pl.DataFrame) -> pl.DataFrame:
    """Return uses of directories with `changed` names that existed in the path of each successful operation."""
    of_both = done.filter(pl.col("call").cast(pl.String).is_in(["rename", "link"]))
    paths = pl.concat([done.select("row", "path"), of_both.select("row", path="path2")]).drop_nulls()
    parts = paths.select("path").unique().with_columns(parts=pl.col("path").str.split("/"))
    depths = changed["name"].str.count_matches("/", literal=True).unique().sort() + 1
    # Each depth separately: all directories of all paths may exceed the memory.
    ways = [
        parts.filter(pl.col("parts").list.len() > depth)
        .select("path", name=pl.col("parts").list.head(depth).list.join("/"))
        .join(changed, on="name", how="semi")
        for depth in depths
    ]
    rows = paths.join(pl.concat(ways), on="path").select("row", "name").unique()
    return done.join(rows, on="row").with_columns(was=True, becomes=True).select(_OF_USES)


def _of_the_emptied(removed: pl.DataFrame, changed: pl.DataFrame) -> pl.DataFrame:
    """Return uses that show that none of the `changed` names existed in a directory that could be removed."""
    inside = changed.with_columns(path=pl.col("name").str.extract(_PARENT)).drop_nulls()
    return removed.join(inside, on="path").with_columns(was=False, becomes=False).select(_OF_USES)


def _contested(uses: pl.DataFrame) -> pl.DataFrame:
    """Return the uses of names that an operation changed, or may have changed, while another thread used them."""
    begin_ns, changes = pl.col("ts_ns"), ~_only_looks()
    reach_ns = pl.col("end_ns").cum_max().shift(1).over("name") > begin_ns
    changing_ns = pl.when(changes).then("end_ns").cum_max().forward_fill().shift(1).over("name") > begin_ns
    meets = changing_ns | (changes & reach_ns)
    return uses.join(uses.filter(meets).select("name").unique(), on="name", how="semi", maintain_order="left")


# -- an order ---------------------------------------------------------------------------------------------------------


_Summary = tuple[int, bytes, frozenset[tuple[str, bool]]]


@dataclass(frozen=True)
class _Call:
    """One operation, with the state of each name before and after."""

    row: int
    begin_ns: int
    end_ns: int
    names: dict[str, tuple[bool | None, bool]] = field(default_factory=dict)

    def fits(self, there: dict[str, bool]) -> bool:
        return all(was is None or there[name] == was for name, (was, _) in self.names.items())

    def only_looks(self, there: dict[str, bool]) -> bool:
        return all(there[name] == was == becomes for name, (was, becomes) in self.names.items())


@dataclass
class _Budget:
    """The number of calls that may still be examined."""

    left: int


def _belonging_together(uses: pl.DataFrame, doubtful: pl.Series) -> Iterator[list[_Call]]:
    """Yield groups of operations on doubtful names, and on names that are related by a common operation."""
    groups: dict[str, set[str]] = {}
    together = uses.group_by("row", maintain_order=True).agg(pl.col("name").unique(maintain_order=True))
    for names in together["name"].unique(maintain_order=True):
        shared = [groups.setdefault(name, {name}) for name in names]
        largest = max(shared, key=len)
        for group in shared:
            if group is not largest:
                largest |= group
                groups.update(dict.fromkeys(group, largest))
    wanted = {id(group): group for group in (groups[name] for name in doubtful)}
    members = [(name, number) for number, group in enumerate(wanted.values()) for name in group]
    own = uses.join(pl.DataFrame(members, ["name", "group"], orient="row"), on="name", maintain_order="left")
    for rows in own.partition_by("group"):
        calls: dict[int, _Call] = {}
        for row, begin_ns, end_ns, name, was, becomes in rows.select(_OF_USES).iter_rows():
            calls.setdefault(row, _Call(row, begin_ns, end_ns)).names[name] = was, becomes
        yield list(calls.values())


def _linear(calls: list[_Call], at_start: dict[str, bool], budget: _Budget) -> list[_Call] | None:
    """Return the calls in an order that explains their results; None if there is none, or none was found."""
    done = bytearray(len(calls))
    order: list[int] = []
    there = dict(at_start)
    undo: list[dict[str, bool]] = []
    choices = [_possible(calls, done, there, budget)]
    dead: set[_Summary] = set()
    for _ in range(len(calls) + _MOST_TRIED):
        if budget.left < 0:
            return None
        if choices[-1]:
            order.append(choices[-1].pop())
            done[order[-1]] = True
            if len(order) == len(calls):
                return [calls[number] for number in order]
            names = calls[order[-1]].names
            undo.append({name: there[name] for name in names})
            there.update((name, becomes) for name, (_, becomes) in names.items())
            choices.append([] if dead and _summary(done, there) in dead else _possible(calls, done, there, budget))
        elif order:
            dead.add(_summary(done, there))
            there.update(undo.pop())
            choices.pop()
            done[order.pop()] = False
        else:
            return None
    return None


def _possible(calls: list[_Call], done: bytearray, there: dict[str, bool], budget: _Budget) -> list[int]:
    """Return the calls that may come next, the first to try at the end.

    None of them begins after another one has ended.
    """
    possible = []
    first_end_ns = calls[-1].end_ns + LONGEST_NS
    for number in range(done.find(False), len(calls)):
        call = calls[number]
        budget.left -= 1
        if call.begin_ns >= first_end_ns:
            break
        if done[number]:
            continue
        first_end_ns = min(first_end_ns, call.end_ns)
        if call.fits(there):
            if call.only_looks(there):
                return [number]
            possible.append(number)
    return possible[::-1]


def _summary(done: bytearray, there: dict[str, bool]) -> _Summary:
    """Return the state on which the remaining calls depend."""
    first = done.find(False)
    return first, bytes(done[first : done.rfind(True) + 1]), frozenset(there.items())
