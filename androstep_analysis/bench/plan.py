"""The runs of iobench for a command line: sweeps, Mobibench's letters, and the output of the results.

iobench does one run, with fio's option names. Everything that needs no device is done here: `--sweep` becomes a run for
each value, Mobibench's letters and numbers become the equivalent options, and `--output`, `-L`, `-k` and `--to-fio`
select the output. All other words are passed on to iobench, which checks them.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from androstep_analysis.bench import mobibench
from androstep_analysis.common.errors import InputError

HELP: Final = """\
of androstep bench (not of iobench by itself):
      --sweep NAME=V1,V2  measure with each value of option NAME; NAME=LOW..HIGH doubles; may be given again:
                          every value with every other
      --output human|mobibench
                          a summary (the default), or Mobibench's lines, as --mobibench before --
      --to-fio            print the same measurement as a job file of fio and do nothing else
  -a N                    write (0), randwrite (1), read (2), randread (3), append (4)
  -y N                    buffered (0), osync (1), fsync (2), direct (3), direct_osync (4), mmap (5),
                          mmap_async (6), mmap_sync (7), fdatasync (8), fbarrier (9), fdatabarrier (10)
  -d N                    insert (0), update (1), delete (2)
  -j N                    DELETE (0), TRUNCATE (1), PERSIST (2), WAL (3), MEMORY (4), OFF (5)
  -s N                    OFF (0), NORMAL (1), FULL (2), EXTRA (3)
  -f KB                   KiB of all files together, as in Mobibench
  -r KB                   --bs in KiB
  -i MS                   --thinktime in milliseconds
  -R X                    --random-order; X is anything
  -L FILE                 append the latency of each operation to FILE, as Mobibench does
  -k FILE                 append the throughput of each second to FILE, as Mobibench does
  -g FILE                 refused: androstep replay replays

examples:
  androstep bench /mnt -- --rw randread --size 1g --direct 1 --runtime 10 --sweep bs=512..1m
  androstep bench /mnt -- --rw randwrite --size 256m --direct 1 --ioengine io_uring --sweep iodepth=1..64
  androstep bench /mnt -- sqlite -n 1000 --sweep journal-mode=TRUNCATE,WAL --sweep synchronous=NORMAL,FULL
  androstep bench /mnt --mobibench -- -f 10240 -r 4 -a 1 -y 2"""

MOST_RUNS: Final = 10_000

_FLAGS: Final = {
    *("raw", "i-know", "keep", "shared", "compat-rng", "random-order", "unbuffered", "log-ops", "quiet", "to-fio"),
    *("dry-run", "describe", "version", "help"),
}
"""Options without a value."""

_NOT_SWEPT: Final = {"repeats", "sweep", "interval", "output", "record", "point"}
"""Options that must be the same for all runs."""

_LETTERS: Final = {
    **{"p": "directory", "t": "numjobs", "a": "rw", "y": "mode", "v": "overlap", "n": "transactions"},
    **{"d": "sqlite-op", "j": "journal-mode", "s": "synchronous", "T": "tables", "D": "databases", "o": "record"},
    **{"q": "quiet", "h": "help"},
}
"""Letters that abbreviate an option."""

_OWN_LETTERS: Final = set("firRLkg")
"""Letters of Mobibench that iobench lacks, since their unit or meaning differs."""

_NUMBERED: Final = {
    "rw": ("write", "randwrite", "read", "randread", "append"),
    "mode": mobibench.SYNC_MODES,
    "sqlite-op": ("insert", "update", "delete"),
    "journal-mode": ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"),
    "synchronous": mobibench.SYNCHRONOUS,
}
"""Meanings of Mobibench's numbers, from 0 on."""

_LIMITS: Final = {"f": (1, 1 << 40), "r": (1, 1 << 20), "i": (0, 10_000)}
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Run:
    """One configuration: the `words` of iobench's command line, and the swept options in it (`NAME=VALUE`)."""

    words: list[str]
    swept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The runs and the output that a command line requests.

    `runs` are measured one after another. `is_mobibench` selects Mobibench's output, and `latency_log` and `iops_log`
    its logs (`bench.write_mobibench`). `is_to_fio` selects a job file of fio instead of a measurement
    (`bench.write_fio_job`). `is_question` is set if only iobench's help, version or record types are requested.
    """

    runs: list[Run]
    is_mobibench: bool = False
    latency_log: Path | None = None
    iops_log: Path | None = None
    is_to_fio: bool = False
    is_question: bool = False


@dataclass(frozen=True)
class _Option:
    """One option of a command line: its long name (or its letter), its value, and its original words."""

    name: str
    value: str | None
    words: tuple[str, ...]

    @property
    def called(self) -> str:
        return f"-{self.name}" if self.name in _OWN_LETTERS else f"--{self.name}"


def plan(words: Sequence[str]) -> Plan:
    """Return the runs that a command line of `androstep bench -- WORDS` requests.

    Raises `InputError` for an invalid sweep or letter of Mobibench. Options that iobench itself refuses are not
    checked.
    """
    options = list(_options(words))
    by_name = {option.name: option.value for option in options}
    if by_name.keys() & {"help", "version", "describe"}:
        return Plan([Run(list(words))], is_question=True)
    if "g" in by_name:
        raise InputError(f"-g {by_name['g']}: iobench does not replay; use `androstep replay`")
    output = by_name.get("output") or "human"
    if output not in ("human", "mobibench"):
        raise InputError(f"--output {output}: expected one of human|mobibench")
    logs = {letter: _log(letter, by_name[letter] or "") for letter in ("L", "k") if letter in by_name}
    common = [option for option in options if option.name not in ("sweep", "output", "to-fio", "L", "k")]
    common += [_long("log-ops")] if "L" in logs else []
    common += [_long("interval", "1000")] if "k" in logs and "interval" not in by_name else []
    sweeps = [_sweep(option.value or "", by_name) for option in options if option.name == "sweep"]
    names = [name for name, _ in sweeps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"--sweep {twice} is given twice; give all its values in one option")
    runs: list[Run] = []
    for values in itertools.product(*(values for _, values in sweeps)):
        if len(runs) == MOST_RUNS:
            raise InputError(f"--sweep: more than {MOST_RUNS} measurements; sweep fewer values")
        swept = [_long(name, value) for name, value in zip(names, values, strict=True)]
        of_run = _words([*common, *swept])
        runs.append(Run([*of_run, f"--point={len(runs)}"] if runs else of_run, tuple(s.words[0][2:] for s in swept)))
    return Plan(runs, output == "mobibench", logs.get("L"), logs.get("k"), "to-fio" in by_name)


def _options(words: Sequence[str]) -> Iterator[_Option]:
    """Yield the options in a command line. A word that belongs to no option is an option without a name."""
    left = iter(words)
    for word in left:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            attached = value if equals else None
        elif word.startswith("-") and len(word) > 1 and word != "--":
            name, attached = _LETTERS.get(word[1], word[1]), word[2:] or None
        else:
            yield _Option("", None, (word,))
            continue
        following = None if name in _FLAGS or attached is not None else next(left, None)
        yield _Option(name, attached or following, (word,) if following is None else (word, following))


def _long(name: str, value: str | None = None) -> _Option:
    return _Option(name, value, (f"--{name}" if value is None else f"--{name}={value}",))


def _log(letter: str, value: str) -> Path:
    """Return the path of a log. It is checked now, since an error after hours of measuring would be too late."""
    path = Path(value)
    if value in ("", "-") or path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"-{letter} {path}: cannot be written")
    return path


# -- sweeps -----------------------------------------------------------------------------------------------------------


def _sweep(text: str, by_name: dict[str, str | None]) -> tuple[str, list[str]]:
    """Return the option and the values of ``NAME=V1,V2`` or ``NAME=LOW..HIGH``."""
    name, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"--sweep {text}: expected NAME=V1,V2,... or NAME=LOW..HIGH")
    if name in _FLAGS or len(name) < 2:
        raise InputError(f"--sweep {text}: {name} is not an option with a value")
    if name in _NOT_SWEPT:
        raise InputError(f"--sweep {name}: this option applies to all runs and cannot be swept")
    if name in by_name:
        raise InputError(f"--{name} is swept; do not give it a second time")
    if ".." in values and "/" not in values and "," not in values:
        low, _, high = values.partition("..")
        return name, list(_doubling(name, low, high))
    found = values.split(",")
    if "" in found:
        raise InputError(f"--sweep {name}: a value is empty; give NAME=V1,V2,... or NAME=LOW..HIGH")
    return name, found


def _doubling(name: str, low: str, high: str) -> Iterator[str]:
    value, last = _size(low), _size(high)
    if not value or not last:
        raise InputError(f"--sweep {name}={low}..{high}: expected numbers from 1 on")
    while value < last:
        yield str(value)
        value *= 2
    if value != last:
        raise InputError(f"--sweep {name}={low}..{high}: {high} is not {low} doubled a number of times")
    yield str(value)


def _size(text: str) -> int | None:
    """Return the bytes of a size such as ``4k``; None if it is not a size."""
    found = re.fullmatch(r"([0-9]{1,18})([kmgt]?)", text.lower(), re.ASCII)
    return int(found[1]) * _SIZES[found[2]] if found else None


# -- Mobibench's letters ----------------------------------------------------------------------------------------------


def _words(options: Sequence[_Option]) -> list[str]:
    """Return the words for iobench from all options of a run."""
    by_name = {option.name: option.value for option in options}
    for letter, name in (("f", "size"), ("r", "bs"), ("i", "thinktime")):
        if letter in by_name and name in by_name:
            raise InputError(f"--{name} and -{letter}: give only one of them")
    return [word for option in options for word in _translated(option, by_name)]


def _translated(option: _Option, by_name: dict[str, str | None]) -> Sequence[str]:
    """Return an option in iobench's form."""
    value = option.value or ""
    if (words := _NUMBERED.get(option.name)) and value.isascii() and value.isdigit() and value == str(int(value)):
        if int(value) >= len(words):
            raise InputError(f"{option.called} {value}: Mobibench has 0 to {len(words) - 1}")
        return (f"--{option.name}={words[int(value)]}",)
    match option.name:
        case "f":
            return (f"--size={_of_each_file(_number(option), by_name)}",)
        case "r":
            return (f"--bs={_number(option) * 1024}",)
        case "i":
            return (f"--thinktime={_number(option) * 1000}",)
        case "R":
            return ("--random-order",)
    return option.words


def _number(option: _Option) -> int:
    least, most = _LIMITS[option.name]
    value = option.value or ""
    if not re.fullmatch(r"[0-9]{1,15}", value, re.ASCII) or not least <= int(value) <= most:
        raise InputError(f"{option.called} {value}: expected a number from {least} to {most}")
    return int(value)


def _of_each_file(all_kb: int, by_name: dict[str, str | None]) -> int:
    """Return the bytes of each file. Mobibench states the KB of all files together."""
    threads, record = (_size(by_name.get(name) or default) for name, default in (("numjobs", "1"), ("bs", "4k")))
    if "r" in by_name:
        record = (_size(by_name["r"] or "") or 0) * 1024
    files = 1 if "shared" in by_name or "filename" in by_name else threads
    if not files or not record:  # iobench reports the error
        return all_kb * 1024
    if all_kb * 1024 % (files * record):
        raise InputError(
            f"-f: {all_kb} KiB for all files together cannot be {files} file{'s' * (files > 1)} of whole records of"
            f" {record} bytes; give the --size of each file"
        )
    return all_kb * 1024 // files
