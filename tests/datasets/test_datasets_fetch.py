"""Datasets by name from the repository, a mirror, a server or the cache are complete, or refused."""

from __future__ import annotations

import bz2
import functools
import gzip
import http.server
import importlib
import io
import itertools
import json
import lzma
import random
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.released import CAPTURES, contents
from support.tree import ROOT

from androstep_analysis import datasets
from androstep_analysis.cli import main
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import sha256
from androstep_analysis.datasets.fetch import CACHE, MIRROR, OFFLINE, REGISTRY, entries
from androstep_analysis.datasets.unpack import unpack

FILE = "mine-1.0.0.tar.xz"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return datasets.release([CAPTURES[2]], tmp_path_factory.mktemp("releases") / "mine")


@pytest.fixture(scope="module")
def mirror(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the release in an archive."""
    directory = tmp_path_factory.mktemp("mirror")
    with tarfile.open(directory / FILE, "w:xz") as tar:
        tar.add(release, "mine")
    return directory


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache, with no mirror set."""
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    monkeypatch.delenv(MIRROR, raising=False)
    monkeypatch.delenv(OFFLINE, raising=False)
    return tmp_path / "cache"


def registry(directory: Path, archive: Path, **changes: object) -> Path:
    """Write a registry with dataset `mine` in this archive."""
    entry = {"version": "1.0.0", "about": "mine", "licence": "CC0-1.0", "citation": "me", "file": FILE}
    entry |= {"bytes": archive.stat().st_size, "sha256": sha256(archive), "unpacked_bytes": 10_000_000, "urls": []}
    path = directory / "registry.json"
    path.write_text(json.dumps({"datasets": {"mine": entry | changes}}))
    return path


@pytest.fixture
def served(mirror: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve the archive; yield the server's address and the requested paths."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(mirror)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- the registry ------------------------------------------------------------------------------------------------------


def test_datasets_of_the_repository_are_where_they_are() -> None:
    for name, entry in entries().items():
        assert entry.place is not None
        assert datasets.fetch(name) == ROOT / entry.place
        page = (ROOT / entry.place / "README.md").read_text("utf-8")
        assert "No rights are claimed" in page
    assert {"demo", "bench", "replay"} <= entries().keys()
    directories = {path.name for path in (ROOT / "datasets").iterdir() if (path / "README.md").is_file()}
    assert {f"datasets/{name}" for name in directories} == {entry.place for entry in entries().values()}


def test_the_registry_is_in_the_package() -> None:
    assert REGISTRY.parent == ROOT / "androstep_analysis/datasets"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no dataset 'x/../y'; datasets are demo, bench, replay"):
        datasets.fetch("x/../y")


def test_a_dataset_of_the_repository_that_is_not_there_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"version": "1", "about": "a", "licence": "l", "citation": "c", "place": "datasets/absent"}
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"datasets": {"absent": entry}}))
    with pytest.raises(InputError, match=r"directory datasets/absent of AndroStep's repository, which is not here"):
        datasets.fetch("absent", registry=path)
    (tmp_path / "absent").mkdir()
    monkeypatch.setenv(MIRROR, str(tmp_path))
    assert datasets.fetch("absent", registry=path) == tmp_path / "absent"


@pytest.mark.prove
@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../x"},
        {"version": "1/../../../x"},
        {"sha256": "x"},
        {"bytes": 0},
        {"bytes": "1"},
        {"unpacked_bytes": 0},
        {"place": "x"},
        {"file": None},
        {"about": 3},
        {"more": 1},
    ],
)
def test_a_damaged_registry_is_refused(tmp_path: Path, mirror: Path, changes: dict[str, object]) -> None:
    path = registry(tmp_path, mirror / FILE, **changes)
    with pytest.raises(InputError, match=r"not a valid registry, see docs/datasets\.md"):
        datasets.fetch("mine", registry=path)


# -- where it comes from -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [str, Path.as_uri])
def test_a_mirror_may_be_a_directory(
    tmp_path: Path, mirror: Path, release: Path, monkeypatch: pytest.MonkeyPatch, form: Callable[[Path], str]
) -> None:
    monkeypatch.setenv(MIRROR, form(mirror))
    monkeypatch.setenv(OFFLINE, "1")
    found = datasets.fetch("mine", registry=registry(tmp_path, mirror / FILE))
    assert contents(found) == contents(release)


def test_an_address_of_the_registry_is_asked_once(
    tmp_path: Path, mirror: Path, release: Path, served: tuple[str, list[str]], cache: Path
) -> None:
    address, asked = served
    path = registry(tmp_path, mirror / FILE, urls=[f"{address}/absent", f"{address}/{FILE}"])
    assert contents(datasets.fetch("mine", registry=path)) == contents(release)
    assert asked == ["/absent", f"/{FILE}"] or len(asked) == 3, "an error is logged too"
    asked.clear()
    assert datasets.fetch("mine", registry=path) == cache / "mine-1.0.0"
    assert asked == []


def test_a_mirror_in_the_network_is_asked_first(
    tmp_path: Path, mirror: Path, served: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = served
    monkeypatch.setenv(MIRROR, f"{address}/")
    path = registry(tmp_path, mirror / FILE, urls=["http://127.0.0.1:9/never-asked"])
    datasets.fetch("mine", registry=path)
    assert asked == [f"/{FILE}"]


def test_offline_it_says_which_file_to_put_where(
    tmp_path: Path, mirror: Path, served: tuple[str, list[str]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = served
    monkeypatch.setenv(OFFLINE, "1")
    path = registry(tmp_path, mirror / FILE, urls=[f"{address}/{FILE}"])
    with pytest.raises(InputError) as caught:
        datasets.fetch("mine", registry=path)
    message = str(caught.value)
    assert all(word in message for word in (FILE, sha256(mirror / FILE), str(cache), OFFLINE, MIRROR))
    assert asked == []
    cache.mkdir(exist_ok=True)
    shutil.copy(mirror / FILE, cache)
    assert datasets.fetch("mine", registry=path) == cache / "mine-1.0.0"


def test_what_is_not_what_the_registry_says_is_not_taken(
    tmp_path: Path, mirror: Path, served: tuple[str, list[str]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = served
    wrong = registry(tmp_path, mirror / FILE, sha256="0" * 64, urls=[f"{address}/{FILE}"])
    monkeypatch.setenv(MIRROR, str(mirror))
    with pytest.raises(InputError, match=f"its sha256 is {sha256(mirror / FILE)}"):
        datasets.fetch("mine", registry=wrong)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_download_that_is_larger_than_stated_is_given_up(
    tmp_path: Path, mirror: Path, served: tuple[str, list[str]], cache: Path
) -> None:
    address, _ = served
    path = registry(tmp_path, mirror / FILE, urls=[f"{address}/{FILE}"], bytes=(mirror / FILE).stat().st_size - 1)
    with pytest.raises(InputError, match=r"more than the \d+ bytes that were expected"):
        datasets.fetch("mine", registry=path)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_download_that_never_ends_is_given_up(
    tmp_path: Path, mirror: Path, served: tuple[str, list[str]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is 0 at the first reading, and beyond every limit at the next."""
    address, _ = served
    clock = itertools.count(0.0, 1e9)
    module = importlib.import_module("androstep_analysis.datasets.fetch")
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    path = registry(tmp_path, mirror / FILE, urls=[f"{address}/{FILE}"])
    with pytest.raises(InputError, match="slower than"):
        datasets.fetch("mine", registry=path)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_copy_in_the_cache_that_was_changed_is_refused(
    tmp_path: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR, str(mirror))
    path = registry(tmp_path, mirror / FILE)
    found = datasets.fetch("mine", registry=path)
    (found / "LICENSE").write_text("mine")
    with pytest.raises(InputError, match=r"differs from the release \(LICENSE: changed.*remove the directory"):
        datasets.fetch("mine", registry=path)


def test_two_who_fetch_at_once_both_have_it(
    tmp_path: Path, mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR, str(mirror))
    module = importlib.import_module("androstep_analysis.datasets.fetch")

    def unpack_after_another(archive: Path, directory: Path, most_bytes: int) -> None:
        unpack(archive, directory, most_bytes)
        shutil.copytree(directory / "mine", cache / "mine-1.0.0")

    monkeypatch.setattr(module, "unpack", unpack_after_another)
    found = datasets.fetch("mine", registry=registry(tmp_path, mirror / FILE))
    assert sorted(path.name for path in cache.iterdir()) == sorted([found.name, FILE])


def test_an_archive_of_something_else_is_refused(tmp_path: Path, cache: Path) -> None:
    cache.mkdir()
    with tarfile.open(cache / FILE, "w:xz") as tar:
        tar.add(ROOT / "docs", "docs")
    with pytest.raises(InputError, match=r"neither manifest\.json nor SHA256SUMS"):
        datasets.fetch("mine", registry=registry(tmp_path, cache / FILE))
    assert not (cache / "mine-1.0.0").exists()


# -- archives ----------------------------------------------------------------------------------------------------------


def tar_of(*members: tuple[str, bytes | None, dict[str, object]]) -> bytes:
    """Return a tar archive; content None is a directory, unless the changes set another type."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content, changes in members:
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            for key, value in changes.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content or b""))
    return packed.getvalue()


def zip_of(*members: tuple[str, bytes, int]) -> bytes:
    """Return a zip archive of names, contents and modes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content)
    return packed.getvalue()


@pytest.mark.parametrize("pack", ["gz", "bz2", "xz", "", "zip"])
def test_every_kind_of_archive_is_unpacked(tmp_path: Path, release: Path, pack: str) -> None:
    archive = tmp_path / "archive"
    if pack == "zip":
        archive = Path(shutil.make_archive(str(archive), "zip", release))
    else:
        with tarfile.open(archive, f"w:{pack}") as tar:
            tar.add(release, ".")
    (tmp_path / "out").mkdir()
    unpack(archive, tmp_path / "out", 10_000_000)
    assert contents(tmp_path / "out") == contents(release)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tar_of(("../evil", b"x", {})), "is not a path inside the dataset"),
        (tar_of(("a/../../evil", b"x", {})), "is not a path inside the dataset"),
        (tar_of(("/tmp/evil", b"x", {})), "is not a path inside the dataset"),
        (tar_of(("a\\b", b"x", {})), "is not a path inside the dataset"),
        (tar_of(("a\x1b[1m", b"x", {})), "is not a path inside the dataset"),
        (tar_of(("a", None, {"type": tarfile.SYMTYPE, "linkname": "/"}), ("a/b", b"x", {})), "is a link"),
        (tar_of(("a", None, {"type": tarfile.LNKTYPE, "linkname": "b"})), "is a link"),
        (tar_of(("a", None, {"type": tarfile.FIFOTYPE})), "is a link or a device"),
        (tar_of(("a", None, {"type": tarfile.CHRTYPE})), "is a link or a device"),
        (tar_of(("a", b"x", {}), ("a", b"y", {})), "is contained twice"),
        (tar_of(("a", b"x", {}), ("a/b", b"y", {})), "is contained twice|is below a file"),
        (tar_of(("a", b"\0" * 5000, {})), "more than 4096 bytes when unpacked"),
        (tar_of(("a", b"x" * 3000, {}))[:2000], "the tar or zip archive is damaged"),
        (b"nonsense", "the tar or zip archive is damaged"),
        (zip_of(("../evil", b"x", 0)), "is not a path inside the dataset"),
        (zip_of(("link", b"/etc/passwd", 0o120777)), "is a link"),
        (zip_of(("bomb", b"\0" * 5_000_000, 0o100644)), "more than 4096 bytes when unpacked"),
    ],
)
def test_an_archive_that_wants_more_than_its_directory_is_refused(tmp_path: Path, archive: bytes, message: str) -> None:
    (tmp_path / "archive").write_bytes(archive)
    (tmp_path / "in" / "out").mkdir(parents=True)
    with pytest.raises(InputError, match=message):
        unpack(tmp_path / "archive", tmp_path / "in" / "out", 4096)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= len(archive) + 4096
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["out"]


def tar_with_header(kind: bytes, size: int) -> bytes:
    """Return a tar archive of one header that claims this size for a name or attributes; zeros follow."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT) + bytes(max(0, size))


def zip_packed(method: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("a", b"x" * 3000)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (
            lambda: gzip.compress(tar_with_header(tarfile.XHDTYPE, 1 << 26)),
            "the tar or zip archive is damaged (a header of",
        ),
        (
            lambda: gzip.compress(tar_with_header(tarfile.GNUTYPE_LONGNAME, 1 << 26)),
            "the tar or zip archive is damaged (a header of",
        ),
        (lambda: tar_with_header(tarfile.XHDTYPE, -512), "the tar or zip archive is damaged ("),
        (lambda: tar_with_header(tarfile.REGTYPE, -1024), "the tar or zip archive is damaged ("),
        (lambda: tar_of(("/".join("a" * 200), b"x", {})), "is too long for a file name"),
        (lambda: tar_of(("a" * 256, b"x", {})), "is too long for a file name"),
        (lambda: zip_packed(zipfile.ZIP_BZIP2), "is not deflated"),
        (lambda: zip_packed(zipfile.ZIP_LZMA), "is not deflated"),
        (lambda: bz2.compress(b"nonsense")[:-4], "the tar or zip archive is damaged ("),
        (lambda: b"", "the tar or zip archive is damaged ("),
    ],
)
def test_an_archive_that_lies_is_one_sentence(tmp_path: Path, archive: Callable[[], bytes], message: str) -> None:
    (tmp_path / "archive").write_bytes(archive())
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError) as caught:
        unpack(tmp_path / "archive", tmp_path / "out", 4096)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Change, remove, duplicate or truncate a few bits, bytes or runs of the data."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
            case 2:
                del changed[at:]
            case 3:
                begin = chance.randrange(len(changed) + 1)
                changed[at : at + 600] = changed[begin : begin + chance.randrange(600)]
            case _:
                del changed[at : at + chance.randrange(600)]
    return bytes(changed)


@pytest.mark.prove
def test_of_every_archive_however_damaged_comes_one_sentence(tmp_path: Path) -> None:
    """A damaged archive gives an error or its files, and nothing outside the directory."""
    contents_of = {"d/a.txt": b"hello" * 100, f"d/{'x' * 120}é": random.Random(1).randbytes(3000)}
    plain_tar = tar_of(
        ("d", None, {}), *((name, data, {"pax_headers": {"k": "v"}}) for name, data in contents_of.items())
    )
    plain_zip = zip_of(*((name, data, 0o100644) for name, data in contents_of.items()))
    kinds = [plain_tar, gzip.compress(plain_tar), bz2.compress(plain_tar), lzma.compress(plain_tar), plain_zip]
    archive, out = tmp_path / "archive", tmp_path / "out"
    whole = 0
    for number in range(2000):
        archive.write_bytes(damaged(kinds[number % len(kinds)], random.Random(number)))
        out.mkdir()
        try:
            unpack(archive, out, 100_000)
            whole += 1
        except InputError as error:
            assert "\n" not in str(error)
        shutil.rmtree(out)
        assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    assert 0 < whole < 1500


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_directory_or_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "demo"]) == 0
    assert capsys.readouterr().out == f"{ROOT / 'datasets/demo'}\n"
    assert main(["fetch"]) == 0
    said = capsys.readouterr().out
    assert [name for name in entries() if name not in said] == []
    assert main(["fetch", "absent"]) == 1
    assert "there is no dataset 'absent'" in capsys.readouterr().err
