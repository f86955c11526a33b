"""Prove names of files, including deleted ones, by events of the trace.

| event | statement |
|---|---|
| `name_found`, `name_moved` (probes on opens and renames); reads and writes of F2FS | the kernel's path of an inode |
| F2FS: look-ups | the name of an inode in a directory |
| `name_open`, `name_unlink`, `name_rename` (without those probes) | a path of the inode that the filesystem creates \
or removes next in the thread |
| F2FS: unlinks, and look-ups that find nothing | the name of the inode that ends, or is created, next |
| bio | the name of the file of its first page |

A thread may do something in between without an event, so that a single "next" is no proof. A name is a fact if the
kernel states its inode (the first two rows), if two other statements agree, or if the path leads to the directory in
which the filesystem created or removed the inode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.link.evidence.inodes import FILE
from androstep_analysis.link.intervals import ALWAYS

_BY_KERNEL = ("path", "lookup")
"""Kinds of statement that come from the kernel."""
_DENTRY = ("name_found", "name_moved")
_OF_NAMES = (
    *(*tracepoints.PATHS, *_DENTRY, *tracepoints.NAMED_IO, *tracepoints.CREATIONS, "bio_page"),
    *("ext4_unlink_enter", "f2fs_lookup_end", "f2fs_unlink_enter", "f2fs_evict_inode"),
)
_COLUMNS = (
    *("ts_ns", "event", "dev", "ino", "incarnation", "tid", "pid", "parent", "mode", "nlink", "error", "bio_dev"),
    *("name", "new_name"),
)


def files(
    fs_events: pl.LazyFrame,
    lifetimes: pl.DataFrame,
    snapshot_files: pl.DataFrame,
    mounts: Mapping[int, str],
    lost: Losses | None = None,
    recorded: Collection[str] = (),
) -> pl.DataFrame:
    """Return table `files` of the names that the trace proves: source `tracepoint`, a row per inode and incarnation.

    The last proven path is `path`, and `names` has all. If a directory above is renamed, a file keeps its path until a
    later event names it. A file with a proven name but without a known directory has no path.

    `fs_events` has incarnations, and `lifetimes` (`tracepoints.lifetimes`) are those of the trace. `snapshot_files`
    (table `files` of images and listings) gives the paths of directories, and mount points that are not in `mounts`.
    `recorded` are the events that the recorder enabled.
    """
    events = fs_events.filter(pl.col("event").is_in(_OF_NAMES)).select(_COLUMNS).collect().with_row_index("order")
    if not events.select(pl.any_horizontal(pl.col("name", "new_name").is_not_null().any())).item():
        return schema.empty("files")
    program_paths = _program_paths(events)
    by_process = _by_process(fs_events, program_paths)
    statements = pl.concat([_by_filesystem(events), _by_thread(events, program_paths), by_process], how="diagonal")
    statements = statements.filter(_is_name(pl.col("name")) & pl.all_horizontal(pl.col(*FILE).is_not_null()))
    if statements.is_empty():
        return schema.empty("files")
    statements = statements.join(roots(fs_events), on="dev", how="left", maintain_order="left")
    prefixes = _prefixes(statements, snapshot_files, mounts)
    statements = _with_given_directory(statements, prefixes)
    directories = _directories(statements, snapshot_files)
    statements = statements.join(directories, on=["dev", "parent"], how="left", maintain_order="left")
    paths = _with_path(_proven(statements, fs_events, lost or Losses(), recorded)).drop_nulls("path")
    paths = _with_renames(paths, program_paths, prefixes)
    named = paths.group_by(FILE, maintain_order=True).agg(
        pl.col("path").last(), names=pl.col("path").unique(maintain_order=True)
    )
    return table(named, lifetimes)


def table(named: pl.DataFrame, lifetimes: pl.DataFrame) -> pl.DataFrame:
    """Return table `files` of dev, ino, incarnation, path and names."""
    rows = named.select(*FILE, "path", "names").join(
        lifetimes.select(*FILE, "block_type", "subtype"), on=FILE, how="left", maintain_order="left"
    )
    rows = rows.with_columns(
        file_type=tracepoints.file_type(), name_encrypted=pl.lit(False), source=pl.lit("tracepoint")
    ).drop("block_type", "subtype")
    types = schema.table("files").polars
    return schema.complete(rows.cast({name: types[name] for name in rows.columns}), "files")


def _proven(statements: pl.DataFrame, fs_events: pl.LazyFrame, lost: Losses, recorded: Collection[str]) -> pl.DataFrame:
    """Return the statements that are facts.

    Where events may be lost, or no creations are recorded, only a file with one name has it, and a directory proves
    nothing. The open that created the file may be lost, and an inode with two names may be two files.
    """
    agrees = (pl.col("kind").n_unique() > 1).over(*FILE, "name")
    leads_there = (pl.col("directory") == pl.col("parent_path")).fill_null(False)
    statements = statements.with_columns(
        is_certain=pl.col("kind").is_in(_BY_KERNEL) | agrees, is_lost=_is_lost(statements, lost)
    )
    may_be_several = pl.col("is_lost") | pl.col("dev").is_in(tracepoints.without_lifetimes(fs_events, recorded))
    own_names = pl.col("name").filter(pl.col("is_certain") | may_be_several)
    kernel_paths = pl.col("stated_path").filter(pl.col("kind") == "path")
    has_one_name = ((own_names.n_unique() == 1) & (kernel_paths.n_unique() <= 1)).over(FILE)
    is_doubtful = pl.col("is_lost") | pl.col("dev").is_in(without_creations(fs_events, recorded))
    is_proven = pl.col("is_certain") | leads_there
    return statements.filter(pl.when(is_doubtful).then(pl.col("is_certain") & has_one_name).otherwise(is_proven))


def _is_lost(statements: pl.DataFrame, lost: Losses) -> pl.Series:
    """Return whether events may be missing between the first and the last statement on a file."""
    begin = pl.min_horizontal("ts_ns", "ts_ns_before").min().over(FILE)
    span = statements.select("dev", begin=begin, end=pl.col("ts_ns").max().over(FILE))
    return lost.between(span["begin"], span["end"], span["dev"], "fs_events")


def without_creations(events: pl.LazyFrame, recorded: Collection[str]) -> list[int]:
    """Return the devices whose filesystem has events of its own, but none of the creation of inodes."""
    devices = tracepoints.with_kinds(events, {}).filter("has_events").group_by("dev")
    is_creation = pl.col("event").is_in(tracepoints.CREATIONS)
    has_creations = (is_creation | tracepoints.is_recorded(tracepoints.CREATIONS, recorded)).any()
    without = devices.agg(has_creations=has_creations).filter(~pl.col("has_creations"))
    return without.collect()["dev"].drop_nulls().to_list()


def _by_filesystem(events: pl.DataFrame) -> pl.DataFrame:
    """Return the filesystem's statements: paths at reads and writes, look-ups, names of pages, F2FS's removals."""
    event = pl.col("event")
    is_lookup = (event == "f2fs_lookup_end") & (pl.col("error").fill_null(0) == 0)
    is_own_page = (event == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    name = pl.when(event == "name_moved").then("new_name").otherwise("name")
    # The kernel names a file that was created without a name (O_TMPFILE) "#" and its inode number.
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
    own = rows.select(*FILE, "ts_ns", "kind", "parent", stated_path=whole_path, name=name.str.split("/").list.last())
    own = own.filter((pl.col("kind") != "path") | pl.col("stated_path").is_not_null())
    return pl.concat([own, _by_f2fs_entries(events)], how="diagonal").unique(maintain_order=True)


def _by_f2fs_entries(events: pl.DataFrame) -> pl.DataFrame:
    """Return F2FS's inodes that end after an unlink in the thread, or begin after a look-up that found nothing."""
    columns, by = ("tid", "dev", "ts_ns", "parent", "name", "error", "order"), ["tid", "dev"]
    unlinks, looks = (
        events.filter(pl.col("event") == name).select(columns) for name in ("f2fs_unlink_enter", "f2fs_lookup_end")
    )
    is_end = (pl.col("event") == "f2fs_evict_inode") & (pl.col("nlink") == 0)
    removed = _following(events, unlinks, is_end, by).filter(pl.col("parent") == pl.col("parent_before"))
    made = _following(events, looks, (pl.col("event") == "f2fs_new_inode") & tracepoints.creations(), by)
    made = made.filter(pl.col("error_before") != 0)
    rows = pl.concat([removed.with_columns(kind=pl.lit("removed")), made.with_columns(kind=pl.lit("made"))])
    return rows.select(*FILE, "ts_ns", "ts_ns_before", "kind", parent="parent_before", name="name_before")


def _following(events: pl.DataFrame, first: pl.DataFrame, then: pl.Expr, by: list[str]) -> pl.DataFrame:
    """Return events (`then`), each with the last row of `first` (columns …_before) before it, and each row once."""
    befores = first.rename({name: f"{name}_before" for name in first.columns if name not in (*by, "order")})
    befores = befores.with_columns(at="order").sort("order")
    followers = events.filter(then).sort("order").join_asof(befores, on="order", by=by, check_sortedness=False)
    return followers.drop_nulls("at").unique("at", keep="first", maintain_order=True)


def _by_thread(events: pl.DataFrame, program_paths: pl.DataFrame) -> pl.DataFrame:
    """Return the inodes that the filesystem creates or removes next in the thread after a path from a program."""
    befores = program_paths.select("tid", "ts_ns", "event", "stated_path", "name", "order")
    is_file = (pl.col("mode").fill_null(0o100000) & 0o170000) == 0o100000
    steps = (
        ("opened", "name_open", tracepoints.creations() & is_file),
        ("unlinked", "name_unlink", pl.col("event") == "ext4_unlink_enter"),
    )
    parts = [
        _following(events, befores, then, ["tid"])
        .filter(pl.col("event_before") == event)
        .with_columns(kind=pl.lit(kind))
        for kind, event, then in steps
    ]
    return pl.concat(parts, how="diagonal").select(
        *FILE, "ts_ns", "ts_ns_before", "parent", "kind", stated_path="stated_path_before", name="name_before"
    )


def _by_process(events: pl.LazyFrame, program_paths: pl.DataFrame) -> pl.DataFrame:
    """Return files of FAT by the only path with their name (in the first bio) that each of their processes opened."""
    is_page = (pl.col("event") == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    is_use = pl.col("event").is_in([*tracepoints.DIRTIED, tracepoints.CACHED])
    pages = events.filter(is_page).select(*FILE, "name", "ts_ns").collect()
    pages = pages.group_by(FILE, maintain_order=True).agg(pl.col("name", "ts_ns").first())
    users = (
        events.filter(is_use)
        .select(*FILE, "pid", "tid", "ts_ns")
        .join(pages.lazy(), on=FILE, how="semi", maintain_order="left")
        .collect()
        .group_by(*FILE, process=pl.coalesce("pid", -pl.col("tid")), maintain_order=True)
        .agg(used_ns=pl.col("ts_ns").first())
    )
    opened = program_paths.filter(pl.col("event") == "name_open").drop_nulls("name")
    has_one_path = (pl.col("stated_path").fill_null("").n_unique() == 1).over("process", "name")
    opened = opened.select("process", "name", "stated_path", opened_ns="ts_ns").filter(has_one_path)
    opened = opened.group_by("process", "name", maintain_order=True).first()
    rows = pages.join(users, on=FILE, maintain_order="left").join(opened, on=["process", "name"], maintain_order="left")
    rows = rows.filter(pl.col("opened_ns") <= pl.col("used_ns"))
    rows = rows.filter((pl.col("stated_path").n_unique() == 1).over(FILE))
    rows = rows.unique(FILE, keep="first", maintain_order=True)
    ever = pl.lit(int(ALWAYS))  # Another open of such a name may be missing at any earlier time.
    return rows.select(*FILE, "ts_ns", "stated_path", "name", ts_ns_before=ever, kind=pl.lit("process"))


def _is_name(name: pl.Expr) -> pl.Expr:
    """Return whether this can be the name of a directory's entry."""
    return (name.is_not_null() & ~name.is_in(["", ".", ".."]) & ~name.str.contains("/", literal=True)).fill_null(False)


def _plain(path: pl.Expr) -> pl.Expr:
    """Return the absolute path without repeated slashes; null if it is relative or contains dots as names."""
    is_plain = path.str.starts_with("/") & ~path.str.contains(r"(?:^|/)\.{1,2}(?:/|$)")
    return pl.when(is_plain).then(path.str.replace_all("/+", "/"))


def parent_path(path: pl.Expr) -> pl.Expr:
    return path.str.replace(r"/[^/]*$", "")


def _program_paths(events: pl.DataFrame) -> pl.DataFrame:
    """Return the paths that programs passed: ts_ns, order, tid, process, event, stated_path, name, new_name.

    A path that the probe could not read (null) has a row too: later events do not belong to the path before it.
    """
    return (
        events.filter(pl.col("event").is_in(tracepoints.PATHS))
        .select(
            *("ts_ns", "order", "tid", "new_name"),
            process=pl.coalesce("pid", -pl.col("tid")),
            event=pl.col("event").cast(pl.String),
            stated_path=_plain(pl.col("name")),
            name=pl.col("name").str.split("/").list.last(),
        )
        .sort("order")
    )


def roots(events: pl.LazyFrame) -> pl.DataFrame:
    """Return dev and root (the inode of the root directory) of the filesystems whose events show their type."""
    numbers = {"ext4": tracepoints_ext4.ROOT_INODE, "f2fs": tracepoints_f2fs.ROOT_INODE}
    prefix = pl.col("event").cast(pl.String).str.head(4)
    rows = events.filter(pl.col("dev").is_not_null()).select("dev", prefix).unique().collect()
    rows = rows.select("dev", root=pl.col("event").replace_strict(numbers, default=None, return_dtype=pl.Int64))
    return rows.drop_nulls("root").unique("dev", keep="none")


def _prefixes(statements: pl.DataFrame, snapshot_files: pl.DataFrame, mounts: Mapping[int, str]) -> dict[int, str]:
    """Return the mount point of each filesystem: as stated, or if all paths to known directories agree on one."""
    prefixes = {dev: path.rstrip("/") for dev, path in mounts.items()}
    directories = _named_directories(snapshot_files, statements)
    paths = statements.filter(pl.col("kind") != "path", pl.col("stated_path").is_not_null()).select(
        "dev", "parent", above=parent_path(pl.col("stated_path"))
    )
    paths = paths.join(directories, on=["dev", "parent"], maintain_order="left")
    paths = paths.filter(pl.col("above").str.ends_with(pl.col("parent_path")))
    start = pl.col("above").str.head(pl.col("above").str.len_chars() - pl.col("parent_path").str.len_chars())
    for dev, starts in paths.group_by("dev").agg(start.unique().alias("start")).iter_rows():
        if len(starts) == 1:
            prefixes.setdefault(dev, starts[0])
    return prefixes


def _with_given_directory(statements: pl.DataFrame, prefixes: Mapping[int, str]) -> pl.DataFrame:
    """Add `directory`, the directory of the path from a program, as a path in the filesystem."""
    prefix, path = pl.col("dev").replace_strict(prefixes, default=None, return_dtype=pl.String), pl.col("stated_path")
    below = pl.when(path.str.starts_with(prefix + "/")).then(
        path.str.tail(path.str.len_chars() - prefix.str.len_chars())
    )
    return statements.with_columns(directory=pl.when(pl.col("kind") != "path").then(parent_path(below)))


def _with_path(statements: pl.DataFrame) -> pl.DataFrame:
    """Add `path`: the kernel's path, or the name below its directory in the filesystem, or below that of the path."""
    path = pl.coalesce(
        pl.when(pl.col("kind") == "path").then("stated_path"),
        pl.col("parent_path") + "/" + pl.col("name"),
        pl.when(pl.col("parent").is_null()).then(pl.col("directory") + "/" + pl.col("name")),
    )
    return statements.with_columns(path=path.str.replace_all("/+", "/"))


def readable_directories(files: pl.DataFrame) -> pl.DataFrame:
    """Return dev, ino, incarnation and path (empty for the root) of the directories in table `files`.

    Events never contain the ciphertext of names, as images may.
    """
    is_readable = pl.col("path").is_not_null() & ~pl.col("name_encrypted")
    directories = files.filter((pl.col("file_type") == "directory") & is_readable)
    return directories.select(*FILE, path=pl.col("path").str.strip_chars_end("/"))


def _named_directories(snapshot_files: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """Return dev, parent (inode of a directory) and its parent_path, if there is only one."""
    rows = readable_directories(snapshot_files).select("dev", parent="ino", parent_path="path")
    roots = statements.filter(pl.col("parent") == pl.col("root")).select("dev", "parent", parent_path=pl.lit(""))
    rows = pl.concat([rows, roots]).unique()
    return rows.filter(pl.len().over("dev", "parent") == 1)


def _directories(statements: pl.DataFrame, snapshot_files: pl.DataFrame) -> pl.DataFrame:
    """Return `_named_directories`, and directories that only paths from programs name, if all of these agree.

    The paths must be of several names: a program may open one file repeatedly while it creates others unrecorded.
    """
    named = _named_directories(snapshot_files, statements)
    guesses = statements.filter(pl.col("directory").is_not_null() & pl.col("parent").is_not_null())
    agreed = guesses.group_by("dev", "parent", maintain_order=True).agg(
        parent_path=pl.col("directory").first(),
        is_agreed=(pl.col("directory").n_unique() == 1) & (pl.col("name").n_unique() > 1),
    )
    agreed = agreed.filter("is_agreed").select(named.columns)
    return pl.concat([named, agreed]).unique(["dev", "parent"], keep="first", maintain_order=True)


def _with_renames(proven: pl.DataFrame, program_paths: pl.DataFrame, prefixes: Mapping[int, str]) -> pl.DataFrame:
    """Return the proven paths, and those to which they were renamed later: dev, ino, incarnation, ts_ns, path.

    A rename moves the file that last had the path before it.
    """
    paths = proven.select(*FILE, "ts_ns", "path").unique(maintain_order=True)
    renames = program_paths.filter(pl.col("event") == "name_rename").select(
        "ts_ns", old="stated_path", new=_plain(pl.col("new_name"))
    )
    parts = [paths]
    for dev, prefix in prefixes.items():
        inside = renames.filter(pl.all_horizontal(pl.col("old", "new").str.starts_with(f"{prefix}/")))
        inside = inside.with_columns(pl.col("old", "new").str.slice(len(prefix)))
        owners = paths.filter(pl.col("dev") == dev).sort("ts_ns")
        moved = inside.sort("ts_ns").join_asof(
            owners, on="ts_ns", by_left="old", by_right="path", check_sortedness=False
        )
        parts.append(moved.drop_nulls("ino").select(*FILE, "ts_ns", path="new"))
    return pl.concat(parts, how="diagonal_relaxed").sort("ts_ns", maintain_order=True)
