"""The iobench experiments that `fit` needs for a complete model of a device."""

from __future__ import annotations

from typing import Final

EXPERIMENTS: Final = {
    "sizes": "--sweep rw=read,randread,write,randwrite --sweep bs=4k..1m",
    "depths": "--sweep rw=randread,randwrite --sweep bs=4k,64k,1m --sweep numjobs=1..8",
    "durable": "--sync dsync --sweep rw=write,randwrite --sweep bs=4k..1m",
    "flushes": "--rw write --sweep fdatasync=1,16 --sweep bs=4k..1m",
}
"""Experiments with O_DIRECT: time by size, concurrent requests, time of durable writes, and time of flushes by the
bytes written before."""

_EACH: Final = "file --direct 1 --cache any --size 32m --number_ios 256 --runtime 1 --repeats 3"


def experiments(directory: str) -> dict[str, list[str]]:
    """Return the options of iobench for each experiment in a directory, by its name.

    Parameters
    ----------
    directory : str
        The directory to measure in.

    Returns
    -------
    dict of list of str
        Options for `runs.bench`. Each point ends after a second or 256 requests and is repeated three times. All
        together take at most five minutes.

    Examples
    --------
    >>> whatif.experiments("/data")["flushes"][-8:]
    ['--rw', 'write', '--sweep', 'fdatasync=1,16', '--sweep', 'bs=4k..1m', '--directory', '/data']
    """
    return {name: [*_EACH.split(), *options.split(), "--directory", directory] for name, options in EXPERIMENTS.items()}
