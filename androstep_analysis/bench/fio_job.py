"""Conversion of fio's job files to options of iobench. Jobs that iobench cannot run are refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from androstep_analysis.common.errors import InputError, printable

_SAME: Final = (
    *("size", "bs", "direct", "fsync", "fdatasync", "sync_file_range", "loops", "thinktime", "ramp_time", "filename"),
    *("randseed", "buffer_compress_percentage", "dedupe_percentage", "directory", "end_fsync", "rwmixread", "numjobs"),
)
"""Options with the same meaning in both."""

_ALIASES: Final = {"readwrite": "rw", "blocksize": "bs", "wait_for_previous": "stonewall"}

_WITHOUT_EFFECT: Final = (
    *("description", "name", "group_reporting", "stonewall", "new_group", "unlink", "filename_format", "fadvise_hint"),
    *("random_generator", "registerfiles", "fixedbufs", "iodepth_batch_submit", "time_based", "disable_lat"),
    *("iodepth_batch_complete_min", "iodepth_batch_complete_max", "write_bw_log", "write_lat_log", "write_iops_log"),
)
"""Options that change what fio prints but not what it measures, or that describe what iobench does anyway."""

_RW: Final = {"readwrite": "rw", **{name: name for name in ("read", "write", "randread", "randwrite", "rw", "randrw")}}
_SYNC: Final = {"0": "none", "1": "sync", "none": "none", "sync": "sync", "dsync": "dsync"}
_ENGINES: Final = ("psync", "mmap", "io_uring")
_CHECKSUMS: Final = (
    *("crc7", "crc16", "crc32", "crc32c", "crc32c-intel", "crc64", "md5", "xxhash", "sha1", "sha256", "sha512"),
    *("sha3-224", "sha3-256", "sha3-384", "sha3-512", "meta"),
)
"""Values of verify: a checksum in each block. iobench remembers what it wrote instead, and checks as thoroughly."""


_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30}


class _Value(NamedTuple):
    """The value of an option, and its line."""

    text: str
    line: int


_BS: Final = _Value("4k", 0)


def options(path: Path) -> dict[str, list[str]]:
    """Return options of iobench for each job in a job file of fio, by the jobs' names.

    fio's defaults are given explicitly if those of iobench differ. Raises `InputError`, with line and option, for what
    iobench cannot do in the same way.

    References
    ----------
    fio's HOWTO, job file parameters (fio 3.33).
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text; give a job file of fio") from None
    jobs = list(_jobs(path, lines))
    if not jobs:
        raise InputError(f"{path}: has no [job] section; a job file of fio needs at least one")
    made: dict[str, list[str]] = {}
    for number, (title, values) in enumerate(jobs, 1):
        if number > 1 and "stonewall" not in values:
            raise InputError(
                f"{path}: fio runs [{printable(title)}] together with the previous job; iobench runs jobs one after"
                " another: add stonewall to it, or use numjobs in one job"
            )
        name = re.sub(r"[^A-Za-z0-9_-]", "_", title) or "job"
        made[name if name not in made else f"{name}-{number}"] = list(_Job(path, values).words())
    return made


def _jobs(path: Path, lines: list[str]) -> Iterator[tuple[str, dict[str, _Value]]]:
    """Yield the sections, each with the preceding options of [global]."""
    common: dict[str, _Value] = {}
    title: str | None = None
    values = common
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not line or line[0] in ";#":
            continue
        if line[0] == "[" and line[-1] == "]":
            if title is not None:
                yield title, values
            title = None if line[1:-1] == "global" else line[1:-1]
            values = common if title is None else dict(common)
            continue
        name, equals, text = (part.strip() for part in line.partition("="))
        if "${" in text or name.startswith("include "):
            raise InputError(f"{path}: line {number}: {printable(line)}: cannot be expanded; write the values out")
        name = _ALIASES.get(name, name)
        values[name] = _Value(text if equals else "1", number)
    if title is not None:
        yield title, values


class _Job:
    """The options of one job, which are removed as they are converted."""

    def __init__(self, path: Path, values: Mapping[str, _Value]) -> None:
        self._path = path
        self._left = {name: value for name, value in values.items() if name not in _WITHOUT_EFFECT}
        self._is_time_based = values.get("time_based", _Value("0", 0)).text != "0"

    def words(self) -> Iterator[str]:
        """Yield all options of the job as options of iobench."""
        rw = self._one_of("rw", _RW, "read")
        numjobs = self._number("numjobs", 1)
        engine = self._one_of("ioengine", {name: name for name in _ENGINES}, "psync")
        yield from ("--rw", rw, "--ioengine", engine, "--thread", self._flag("thread", "0"))
        if engine == "io_uring":
            yield from ("--iodepth", str(self._number("iodepth", 1)))
        self._take("iodepth")  # fio ignores it for synchronous engines
        yield from self._of_writes(rw)
        yield from ("--cache", "cold" if self._flag("invalidate", "1") == "1" else "any")
        yield from self._of_rates(numjobs)
        if (sync := self._take("sync")) is not None:
            yield from ("--sync", _SYNC[sync.text] if sync.text in _SYNC else self._refuse("sync", sync, _SYNC))
        if (buffered := self._take("buffered")) is not None:
            yield from ("--direct", "0" if buffered.text == "1" else "1")
        if (mixed := self._take("rwmixwrite")) is not None:
            yield from ("--rwmixread", str(100 - self._whole("rwmixwrite", mixed)))
        for name in _SAME:
            if (value := self._take(name)) is not None:
                yield from (f"--{name}", value.text)
        for name, value in self._left.items():
            self._refuse(name, value)

    def _of_writes(self, rw: str) -> Iterator[str]:
        """Yield options of writes. By default, fio extends the files that it writes, in preallocated blocks."""
        overwrite, end_fsync = self._flag("overwrite", "0"), self._flag("end_fsync", "0")
        fallocate = self._one_of(
            "fallocate", {"none": "none", "native": "native", "0": "none", "1": "native"}, "native"
        )
        if rw in ("write", "randwrite"):
            yield from ("--overwrite", overwrite)
            yield from () if overwrite == "1" else ("--fallocate", fallocate)
        if rw not in ("read", "randread"):
            yield from ("--end_fsync", end_fsync)
            yield from self._of_checks()

    def _of_checks(self) -> Iterator[str]:
        """Yield options of verification: fio reads back all that it wrote.

        iobench cannot verify data of other writers.
        """
        writes_checks = self._one_of("verify", {"0": "0", "none": "0", **dict.fromkeys(_CHECKSUMS, "1")}, "0")
        reads_back = self._flag("do_verify", "1")
        if writes_checks == reads_back == "1":
            yield from ("--verify", "all")

    def _of_rates(self, numjobs: int) -> Iterator[str]:
        """Yield limits, which fio has for each job and iobench for all jobs together.

        iobench ends at the time limit only.
        """
        for name in ("rate_iops", "number_ios"):
            if (value := self._take(name)) is not None:
                yield from (f"--{name}", str(self._whole(name, value) * numjobs))
        if (value := self._take("io_size")) is not None:
            nr_records, rest = divmod(self._bytes("io_size", value), self._bytes("bs", self._left.get("bs", _BS)))
            yield from ("--number_ios", str(nr_records * numjobs) if not rest else self._refuse("io_size", value))
        runtime = self._take("runtime")
        if runtime is not None and not self._is_time_based:
            self._refuse(
                "runtime", runtime, (), " without time_based: iobench goes over the file until the time is over"
            )
        if runtime is not None:
            yield from ("--runtime", runtime.text)

    def _take(self, name: str) -> _Value | None:
        return self._left.pop(name, None)

    def _flag(self, name: str, default: str) -> str:
        return self._one_of(name, {"0": "0", "1": "1"}, default)

    def _number(self, name: str, default: int) -> int:
        value = self._left.get(name)
        return default if value is None else self._whole(name, value)

    def _whole(self, name: str, value: _Value) -> int:
        return int(value.text) if value.text.isascii() and value.text.isdigit() else self._refuse(name, value)

    def _bytes(self, name: str, value: _Value) -> int:
        match = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", value.text.lower(), re.ASCII)
        return int(match[1]) << _SHIFTS[match[2]] if match else self._refuse(name, value)

    def _one_of(self, name: str, known: Mapping[str, str], default: str) -> str:
        value = self._take(name)
        if value is None:
            return default
        return known[value.text] if value.text in known else self._refuse(name, value, known)

    def _refuse(self, name: str, value: _Value, known: Mapping[str, str] | tuple[()] = (), why: str = "") -> NoReturn:
        known_values = f"; it has {', '.join(dict.fromkeys(known))}" if known else ""
        explanation = (
            why
            or f": iobench cannot do that{known_values}; leave it out, or run fio and compare its output (--compare)"
        )
        raise InputError(f"{self._path}: line {value.line}: {printable(name)}={printable(value.text)}{explanation}")
