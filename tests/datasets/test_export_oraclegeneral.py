"""oracleGeneral against next uses found by brute force, and against an LRU cache."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import made
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import export

pytestmark = pytest.mark.sanitized

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("bytes", "<u4"), ("next", "<i8")])


def records(opened: Capture, path: Path, **options: Any) -> npt.NDArray[Any]:
    with path.open("w+b") as file:
        export.write(opened, "oraclegeneral", file, **options)
    return np.fromfile(path, RECORD)


def expected(opened: Capture, block_bytes: int, objects: str, op: str | None) -> list[tuple[int, Any, int, int]]:
    """Return the records, computed one at a time, with objects as tuples."""
    uses = []
    for row in opened.io.collect().iter_rows(named=True):
        if row["op"] not in ([op] if op else ["read", "write"]) or row["sector"] is None or not row["bytes"]:
            continue
        start: int = row["sector"] * 512
        space: tuple[Any, ...] = (row["dev"], None, None)
        if objects == "files" and row["ino"] is not None and row["file_offset_bytes"] is not None:
            start, space = row["file_offset_bytes"], (row["dev"], row["ino"], row["path"])
        time = next(row[name] for name in ("issue_ns", "queue_ns", "complete_ns") if row[name] is not None)
        for block in range(start // block_bytes, (start + row["bytes"] - 1) // block_bytes + 1):
            uses.append((time, (space, block)))
    first = min((time for time, _ in uses), default=0)
    found = []
    for number, (time, what) in enumerate(uses):
        following = next((later for later in range(number + 1, len(uses)) if uses[later][1] == what), -1)
        found.append(((time - first) // 10**9, what, block_bytes, following))
    return found


def check(opened: Capture, path: Path, **options: Any) -> None:
    arguments = {"block_bytes": 4096, "objects": "blocks", "op": None, **options}
    found, wanted = records(opened, path, **options), expected(opened, **arguments)
    assert found["time"].tolist() == [row[0] for row in wanted]
    assert found["bytes"].tolist() == [row[2] for row in wanted]
    assert found["next"].tolist() == [row[3] for row in wanted]
    # Object ids must be equal if and only if the objects are.
    pairs = set(zip(found["object"].tolist(), (row[1] for row in wanted), strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len({what for _, what in pairs})


PIECE = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["read", "write", "discard"]),
        "dev": st.sampled_from([made.DEV, made.DEV + 1]),
        "sector": st.one_of(st.none(), st.integers(0, 40)),
        "nr_sectors": st.integers(0, 40),
        "ino": st.sampled_from([None, 1, 2]),
        "path": st.sampled_from([None, "/a"]),
        "file_offset_bytes": st.sampled_from([None, 0, 4096, 5000]),
        "issue_ns": st.integers(0, 10**11),
    }
)


@pytest.mark.prove
@settings(max_examples=60)
@given(
    st.lists(PIECE, max_size=15),
    st.sampled_from([512, 4096, 10_000]),
    st.sampled_from(["blocks", "files"]),
    st.sampled_from([None, "read", "write"]),
    st.integers(1, 4),
)
def test_any_pieces(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pieces: list[dict[str, Any]],
    block_bytes: int,
    objects: str,
    op: str | None,
    size: int,
) -> None:
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", size)
    monkeypatch.setattr("androstep_analysis.datasets.export.oraclegeneral.USES", size)
    opened = made.capture(
        io=[{**piece, "bytes": piece["nr_sectors"] * 512, "request_id": n} for n, piece in enumerate(pieces)]
    )
    check(opened, tmp_path / "x", block_bytes=block_bytes, objects=objects, op=op)


def test_terabytes_in_one_request_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    piece = {"op": "write", "dev": made.DEV, "sector": 0, "nr_sectors": 1 << 31, "bytes": 1 << 40, "request_id": 0}
    opened = made.capture(io=[{**piece, "issue_ns": 0}])
    with pytest.raises(InputError, match=r"268,435,456 accesses .*--block-size.* or set ANDROSTEP_MAX_EXPORT_GIB"):
        records(opened, tmp_path / "x")
    assert not (tmp_path / "x").stat().st_size
    assert len(records(opened, tmp_path / "x", block_bytes=1 << 30)) == 1 << 10


def hits(objects: list[int], size: int) -> int:
    """Return the hits of an LRU cache of this many objects."""
    cache: OrderedDict[int, None] = OrderedDict()
    found = 0
    for number in objects:
        found += number in cache
        cache[number] = None
        cache.move_to_end(number)
        if len(cache) > size:
            cache.popitem(last=False)
    return found


@pytest.mark.parametrize("objects", ["blocks", "files"])
def test_next_uses_of_the_demo(objects: str, tmp_path: Path) -> None:
    found = records(androstep.open(ROOT / "datasets/demo"), tmp_path / "x", objects=objects)
    last: dict[int, int] = {}
    following = [-1] * len(found)
    for number, what in enumerate(found["object"].tolist()):
        if what in last:
            following[last[what]] = number
        last[what] = number
    assert found["next"].tolist() == following
    assert len(found) > 10_000
    assert hits(found["object"].tolist(), len(last)) == len(found) - len(last) == int((found["next"] >= 0).sum())


def test_more_objects_than_the_first_room(tmp_path: Path) -> None:
    many = 300_000
    opened = made.capture(
        [{"op": "write", "sector": 0, "nr_sectors": many * 8, "issue_ns": number} for number in (0, 1)]
    )
    found = records(opened, tmp_path / "x")
    assert found["next"].tolist() == [*range(many, 2 * many), *[-1] * many]
    assert found["object"].tolist() == [*range(many)] * 2


def test_what_cannot_seek_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InputError, match="give a file with -o"):
        export.write(made.capture([{"sector": 0, "issue_ns": 0}]), "oraclegeneral", Pipe())
