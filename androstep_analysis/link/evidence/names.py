"""Names of files as the trace tells them, deleted ones included, each only where it is proven.

No event of ext4 carries a name. The probe on every open (`name_found`) tells the inode and the whole path in its
filesystem as the kernel has it, and that on renames (`name_moved`) the new one. Where the kernel cannot be probed so,
names come from the paths that programs gave to it (`name_open`, `name_unlink`, `name_rename`), tied to an inode by
what the filesystem does next in the same thread: an open that is followed by the allocation of an inode made that
file, an unlink names the inode whose removal follows. F2FS looks names up in directories, names what it unlinks, and
tells the whole path at every read and write; a bio tells the name of its first page's file.

A thread may do something between that no event shows, so that one such tie is no proof. A name is a fact where

- the kernel itself says which inode has it (a path at an open, read or write, a look-up that found the inode), or
- two of the others say the same, or
- the path given leads to the very directory in which the filesystem made or removed the inode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.link.intervals import ALWAYS

_KEY = ["dev", "ino", "incarnation"]
_BY_KERNEL = ("path", "lookup")
"""Kinds of statement that are the kernel's own word."""
_DENTRY = ("name_found", "name_moved")
_OF_NAMES = (
    *(*tracepoints.PATHS, *_DENTRY, *tracepoints.NAMED_IO, *tracepoints.CREATIONS, "bio_page"),
    *("ext4_unlink_enter", "f2fs_lookup_end", "f2fs_unlink_enter", "f2fs_evict_inode"),
)
_TOLD = (
    *("ts_ns", "event", "dev", "ino", "incarnation", "tid", "pid", "parent", "mode", "nlink", "error", "bio_dev"),
    *("name", "new_name"),
)
"""What events tell of names."""


def files(
    fs_events: pl.LazyFrame,
    lives: pl.DataFrame,
    snapshot_files: pl.DataFrame,
    mounts: Mapping[int, str],
    lost: Losses | None = None,
    recorded: Collection[str] = (),
) -> pl.DataFrame:
    """Table `files` of the names that the trace proves, source `tracepoint`: a row per inode and incarnation.

    The last proven path is the canonical one; `names` has all. A file keeps it when a directory above is renamed and
    nothing tells of the file afterwards. `snapshot_files` is table files of what images and listings name: directories
    are found by it. `mounts` tells where each filesystem was mounted, which may also follow from `snapshot_files`.
    Where events may be `lost` between what proves the names of a file, or those of ext4 or F2FS do not tell which
    inodes are new (`recorded`: see `tracepoints.numbered`), only a file of a single name has one, and a directory
    proves nothing. A file of which the trace proves a name but no directory has no path.
    """
    events = fs_events.filter(pl.col("event").is_in(_OF_NAMES)).select(_TOLD).collect().with_row_index("order")
    program_paths = _program_paths(events)
    by_process = _by_process(fs_events, program_paths)
    statements = pl.concat([_by_filesystem(events), _by_thread(events, program_paths), by_process], how="diagonal")
    statements = statements.filter(_is_name(pl.col("name")) & pl.all_horizontal(pl.col(*_KEY).is_not_null()))
    if statements.is_empty():
        return schema.empty("files")
    statements = statements.join(roots(fs_events), on="dev", how="left", maintain_order="left")
    prefixes = _prefixes(statements, snapshot_files, mounts)
    statements = _in_filesystem(statements, prefixes)
    directories = _directories(statements, snapshot_files)
    statements = statements.join(directories, on=["dev", "parent"], how="left", maintain_order="left")
    agrees = (pl.col("kind").n_unique() > 1).over(*_KEY, "name")
    leads_there = (pl.col("directory") == pl.col("parent_path")).fill_null(False)
    is_proven = pl.col("kind").is_in(_BY_KERNEL) | agrees | leads_there
    # The open that made the file may be lost and the one before it led to the same directory; and where the end of a
    # file is lost, what bears two names may be two files. A tie that is no proof does not make one doubtful.
    statements = statements.with_columns(
        is_certain=pl.col("kind").is_in(_BY_KERNEL) | agrees, is_lost=_is_lost(statements, lost or Losses())
    )
    may_be_several = pl.col("is_lost") | pl.col("dev").is_in(tracepoints.without_lives(fs_events, recorded))
    own_names = pl.col("name").filter(pl.col("is_certain") | may_be_several)
    places = pl.col("stated_path").filter(pl.col("kind") == "path")
    is_alone = ((own_names.n_unique() == 1) & (places.n_unique() <= 1)).over(_KEY)
    is_doubtful = pl.col("is_lost") | pl.col("dev").is_in(without_births(fs_events, recorded))
    is_proven = pl.when(is_doubtful).then(pl.col("is_certain") & is_alone).otherwise(is_proven)
    proven = statements.filter(is_proven)
    path = pl.coalesce(
        pl.when(pl.col("kind") == "path").then("stated_path"),
        pl.col("parent_path") + "/" + pl.col("name"),
        pl.when(pl.col("parent").is_null()).then(pl.col("directory") + "/" + pl.col("name")),
    ).str.replace_all("/+", "/")
    paths = _renamed(proven.with_columns(path=path).drop_nulls("path"), program_paths, prefixes)
    return table(
        paths.group_by(_KEY, maintain_order=True).agg(
            pl.col("path").last(), names=pl.col("path").unique(maintain_order=True)
        ),
        lives,
    )


def _is_lost(statements: pl.DataFrame, lost: Losses) -> pl.Series:
    """Whether events may be missing between what proves a name of a file and what proves another."""
    begin = pl.min_horizontal("ts_ns", "ts_ns_before").min().over(_KEY)
    span = statements.select("dev", begin=begin, end=pl.col("ts_ns").max().over(_KEY))
    return lost.between(span["begin"], span["end"], span["dev"], "fs_events")


def _is_name(name: pl.Expr) -> pl.Expr:
    """Whether this can be the name of a directory's entry."""
    return (name.is_not_null() & ~name.is_in(["", ".", ".."]) & ~name.str.contains("/", literal=True)).fill_null(False)


def _program_paths(events: pl.DataFrame) -> pl.DataFrame:
    """The paths that programs gave: ts_ns, order, tid, process, event, given, name, new_name.

    A path that the probe could not read (null) is one too: what follows it does not belong to the path before.
    """
    return (
        events.filter(pl.col("event").is_in(tracepoints.PATHS))
        .select(
            "ts_ns",
            "order",
            "tid",
            "new_name",
            process=pl.coalesce("pid", -pl.col("tid")),
            event=pl.col("event").cast(pl.String),
            stated_path=_plain(pl.col("name")),
            name=pl.col("name").str.split("/").list.last(),
        )
        .sort("order")
    )


def _plain(path: pl.Expr) -> pl.Expr:
    """The absolute path without repeated slashes; null where it is relative or leads through dots."""
    is_plain = path.str.starts_with("/") & ~path.str.contains(r"(?:^|/)\.{1,2}(?:/|$)")
    return pl.when(is_plain).then(path.str.replace_all("/+", "/"))


def roots(events: pl.LazyFrame) -> pl.DataFrame:
    """dev and root, the inode of its root directory, of the filesystems that show by their events which they are."""
    numbers = {"ext4": tracepoints_ext4.ROOT_INODE, "f2fs": tracepoints_f2fs.ROOT_INODE}
    prefix = pl.col("event").cast(pl.String).str.head(4)
    rows = events.filter(pl.col("dev").is_not_null()).select("dev", "event").unique().collect()
    rows = rows.select("dev", prefix).unique()
    rows = rows.select("dev", root=pl.col("event").replace_strict(numbers, default=None, return_dtype=pl.Int64))
    return rows.drop_nulls("root").unique("dev", keep="none")


def _by_filesystem(events: pl.DataFrame) -> pl.DataFrame:
    """What the filesystem says itself: paths at reads and writes, look-ups, names of pages, F2FS's removals."""
    event, name = pl.col("event"), pl.col("name")
    is_lookup = (event == "f2fs_lookup_end") & (pl.col("error").fill_null(0) == 0)
    is_own_page = (event == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    name = pl.when(event == "name_moved").then("new_name").otherwise("name")
    # A file that was made without a name (O_TMPFILE) is known to the kernel by "#" and its inode number.
    is_named = event.is_in(_DENTRY) & (name.str.split("/").list.last() != pl.concat_str(pl.lit("#"), "ino"))
    is_whole = name.str.starts_with("/")
    kind = (
        pl.when(event.is_in(tracepoints.NAMED_IO) | (is_named & is_whole))
        .then(pl.lit("path"))
        .when(is_lookup | (is_named & ~is_whole & (event == "name_found")))
        .then(pl.lit("lookup"))
        .when(is_own_page)
        .then(pl.lit("page"))
    )
    rows = events.with_columns(kind=kind).filter(pl.col("kind").is_not_null())
    whole_path = pl.when(pl.col("kind") == "path").then(_plain(name))
    own = rows.select(*_KEY, "ts_ns", "kind", "parent", stated_path=whole_path, name=name.str.split("/").list.last())
    own = own.filter((pl.col("kind") != "path") | pl.col("stated_path").is_not_null())
    return pl.concat([own, _removed(events), _made(events)], how="diagonal").unique(maintain_order=True)


def _removed(events: pl.DataFrame) -> pl.DataFrame:
    """F2FS's inodes that end in the thread that has just removed a name from their directory."""
    removals = events.filter(pl.col("event") == "f2fs_unlink_enter")
    is_end = (pl.col("event") == "f2fs_evict_inode") & (pl.col("nlink") == 0)
    ends = _following(
        events, removals.select("tid", "dev", "ts_ns", "parent", "name", "order", at="order"), is_end, ["tid", "dev"]
    )
    ends = ends.filter(pl.col("parent") == pl.col("parent_before"))
    return ends.select(*_KEY, "ts_ns", "ts_ns_before", "parent", name="name_before", kind=pl.lit("removed"))


def _made(events: pl.DataFrame) -> pl.DataFrame:
    """F2FS's inodes that begin in the thread that has just looked for a name and not found it."""
    looks = events.filter(pl.col("event") == "f2fs_lookup_end")
    looks = looks.select("tid", "dev", "ts_ns", "parent", "name", "error", "order", at="order")
    made = _following(events, looks, (pl.col("event") == "f2fs_new_inode") & tracepoints.creations(), ["tid", "dev"])
    made = made.filter(pl.col("error_before") != 0)
    return made.select(*_KEY, "ts_ns", "ts_ns_before", parent="parent_before", name="name_before", kind=pl.lit("made"))


def _following(events: pl.DataFrame, first: pl.DataFrame, then: pl.Expr, by: list[str]) -> pl.DataFrame:
    """The events where `then` holds, each with the last of `first` before it (columns …_before), each of those once."""
    own = [name for name in first.columns if name not in (*by, "order", "at")]
    befores = first.rename({name: f"{name}_before" for name in own}).sort("order")
    followers = events.filter(then).sort("order").join_asof(befores, on="order", by=by, check_sortedness=False)
    return followers.drop_nulls("at").unique("at", keep="first", maintain_order=True)


def without_births(events: pl.LazyFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose filesystem has events of its own, but none that tells which inodes are new."""
    devices = tracepoints.with_kinds(events, {}).filter("has_events").group_by("dev")
    has_creations = pl.col("event").is_in(tracepoints.CREATIONS) | tracepoints.is_recorded(
        tracepoints.CREATIONS, recorded
    )
    without = devices.agg(has_creations=has_creations.any()).filter(~pl.col("has_creations"))
    return without.collect()["dev"].drop_nulls().to_list()


def _by_thread(events: pl.DataFrame, program_paths: pl.DataFrame) -> pl.DataFrame:
    """What follows from a path given to the kernel and what the filesystem does next in the same thread."""
    befores = program_paths.select("tid", "ts_ns", "event", "stated_path", "name", order="order", at="order")
    is_file = (pl.col("mode").fill_null(0o100000) & 0o170000) == 0o100000
    made = _following(events, befores, tracepoints.creations() & is_file, ["tid"]).filter(
        pl.col("event_before") == "name_open"
    )
    gone = _following(events, befores, pl.col("event") == "ext4_unlink_enter", ["tid"]).filter(
        pl.col("event_before") == "name_unlink"
    )
    rows = pl.concat(
        [made.with_columns(kind=pl.lit("opened")), gone.with_columns(kind=pl.lit("unlinked"))], how="diagonal"
    )
    return rows.select(
        *_KEY, "ts_ns", "ts_ns_before", "parent", "kind", stated_path="stated_path_before", name="name_before"
    )


def _by_process(events: pl.LazyFrame, program_paths: pl.DataFrame) -> pl.DataFrame:
    """What follows from the only path of a name that a process opened which then used the file's pages.

    For filesystems without events that tell of creation (FAT): `name` is that of the file's first bio. Where several
    processes used the file, their paths must be one.
    """
    is_page = (pl.col("event") == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    used = pl.col("event").is_in([*tracepoints.DIRTIED, tracepoints.CACHED])
    pages = events.filter(is_page).select(*_KEY, "name", "ts_ns").collect()
    pages = pages.group_by(_KEY, maintain_order=True).agg(pl.col("name", "ts_ns").first())
    users = (
        events.filter(used)
        .select(*_KEY, "pid", "tid", "ts_ns")
        .join(pages.lazy(), on=_KEY, how="semi", maintain_order="left")
        .collect()
        .group_by(*_KEY, process=pl.coalesce("pid", -pl.col("tid")), maintain_order=True)
        .agg(used_ns=pl.col("ts_ns").first())
    )
    opened = program_paths.filter(pl.col("event") == "name_open").select(
        "process", "name", "stated_path", opened_ns="ts_ns"
    )
    opened = opened.drop_nulls("name").with_columns(
        alone=(pl.col("stated_path").fill_null("").n_unique() == 1).over("process", "name")
    )
    opened = opened.filter("alone").group_by("process", "name", maintain_order=True).first()
    rows = pages.join(users, on=_KEY, maintain_order="left").join(opened, on=["process", "name"], maintain_order="left")
    rows = rows.filter(pl.col("opened_ns") <= pl.col("used_ns"))
    rows = rows.filter((pl.col("stated_path").n_unique() == 1).over(_KEY)).unique(
        _KEY, keep="first", maintain_order=True
    )
    ever = pl.lit(int(ALWAYS))  # another open of such a name may be missing from any time before
    return rows.select(*_KEY, "ts_ns", "stated_path", "name", ts_ns_before=ever, kind=pl.lit("process"))


def _prefixes(statements: pl.DataFrame, snapshot_files: pl.DataFrame, mounts: Mapping[int, str]) -> dict[int, str]:
    """Where each filesystem is mounted: as told, else as all paths given show whose directory is known."""
    prefixes = {dev: path.rstrip("/") for dev, path in mounts.items()}
    directories = _named_directories(snapshot_files, statements)
    paths = statements.filter(pl.col("kind") != "path", pl.col("stated_path").is_not_null()).select(
        "dev", "parent", above=pl.col("stated_path").str.replace(r"/[^/]*$", "")
    )
    paths = paths.join(directories, on=["dev", "parent"], maintain_order="left")
    paths = paths.filter(pl.col("above").str.ends_with(pl.col("parent_path")))
    start = pl.col("above").str.head(pl.col("above").str.len_chars() - pl.col("parent_path").str.len_chars())
    for dev, starts in paths.group_by("dev").agg(start.unique().alias("start")).iter_rows():
        if len(starts) == 1:
            prefixes.setdefault(dev, starts[0])
    return prefixes


def _in_filesystem(statements: pl.DataFrame, prefixes: Mapping[int, str]) -> pl.DataFrame:
    """The statements with `directory`, the path in the filesystem of the directory that the given path names."""
    prefix = pl.col("dev").replace_strict(prefixes, default=None, return_dtype=pl.String)
    below = pl.when(pl.col("stated_path").str.starts_with(prefix + "/")).then(
        pl.col("stated_path").str.tail(pl.col("stated_path").str.len_chars() - prefix.str.len_chars())
    )
    directory = pl.when(pl.col("kind") != "path").then(below.str.replace(r"/[^/]*$", ""))
    return statements.with_columns(directory=directory)


def _named_directories(snapshot_files: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """dev, parent (inode of a directory) and its parent_path (empty for the root), where there is only one.

    The events never have a name's ciphertext, as snapshots may.
    """
    is_readable = pl.col("path").is_not_null() & ~pl.col("name_encrypted")
    directories = snapshot_files.filter((pl.col("file_type") == "directory") & is_readable)
    rows = directories.select("dev", parent="ino", parent_path=pl.col("path").str.strip_chars_end("/"))
    roots = statements.filter(pl.col("parent") == pl.col("root")).select("dev", "parent", parent_path=pl.lit(""))
    rows = pl.concat([rows, roots]).unique()
    return rows.filter(pl.len().over("dev", "parent") == 1)


def _directories(statements: pl.DataFrame, snapshot_files: pl.DataFrame) -> pl.DataFrame:
    """As `_named_directories`, and of directories that nothing else names where all paths given agree on it.

    They must be of several names: a program may well open one file again and again while it makes others unseen.
    """
    named = _named_directories(snapshot_files, statements)
    guesses = statements.filter(pl.col("directory").is_not_null() & pl.col("parent").is_not_null())
    agreed = guesses.group_by("dev", "parent", maintain_order=True).agg(
        parent_path=pl.col("directory").first(),
        alone=pl.col("directory").n_unique() == 1,
        count=pl.col("name").n_unique(),
    )
    agreed = agreed.filter(pl.col("alone") & (pl.col("count") > 1)).select(named.columns)
    return pl.concat([named, agreed]).unique(["dev", "parent"], keep="first", maintain_order=True)


def _renamed(proven: pl.DataFrame, program_paths: pl.DataFrame, prefixes: Mapping[int, str]) -> pl.DataFrame:
    """The proven paths and those that they were renamed to later: dev, ino, incarnation, ts_ns and path.

    A rename moves the file that last had the path before it.
    """
    paths = proven.select(*_KEY, "ts_ns", "path").unique(maintain_order=True)
    renames = program_paths.filter(pl.col("event") == "name_rename").select(
        ts_ns="ts_ns", old="stated_path", new=_plain(pl.col("new_name"))
    )
    parts = [paths]
    for dev, prefix in prefixes.items():
        inside = renames.filter(pl.all_horizontal(pl.col("old", "new").str.starts_with(f"{prefix}/")))
        inside = inside.with_columns(pl.col("old", "new").str.slice(len(prefix)))
        owners = paths.filter(pl.col("dev") == dev).select(*_KEY, "ts_ns", "path").sort("ts_ns")
        moved = inside.sort("ts_ns").join_asof(
            owners, on="ts_ns", by_left="old", by_right="path", check_sortedness=False
        )
        parts.append(moved.drop_nulls("ino").select(*_KEY, "ts_ns", path="new"))
    return pl.concat(parts, how="diagonal_relaxed").sort("ts_ns", maintain_order=True)


def table(named: pl.DataFrame, lives: pl.DataFrame) -> pl.DataFrame:
    """Table `files` of dev, ino, incarnation, path and names of each file."""
    kinds = lives.select(*_KEY, "block_type", "subtype")
    rows = named.join(kinds, on=_KEY, how="left", maintain_order="left").with_columns(
        file_type=tracepoints.file_type(), name_encrypted=pl.lit(False), source=pl.lit("tracepoint")
    )
    want = schema.table("files").polars
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in rows.columns]
    rows = rows.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(rows, "files")
