"""What `androstep advise` finds in workloads made to have each trait and made not to, and in all traces of the corpus.

``python benchmarks/advise.py [--corpus DIRECTORY]`` as root. Each workload of ``tests/advice/traits.py`` runs on an
ext4 of its own on a loop device and is recorded there. The first table has a row for each: the triggers it is to set
off, and which of them were found, missed, and found though they are not there. With a corpus the second table tells of
every trace which triggers found something, how many found nothing, and how many cannot tell.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import polars as pl

import androstep_analysis as androstep
from androstep_analysis.errors import InputError

sys.path += [str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "advice")]

import traits
from recorded import recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--only", nargs="*", default=list(traits.TRAITS))
    chosen = parser.parse_args()
    lines = ["| workload | trait | expected | found | missed | false |", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for name in chosen.only:
        for kind, bad in (("yes", True), ("no", False)):
            with tempfile.TemporaryDirectory() as place:
                advice = androstep.advise(recorded(Path(place), name, bad=bad))
            found = set(advice.filter(status="found")["trigger"])
            expected = set(traits.TRAITS[name][1 if bad else 2])
            sets = {"found": found & expected, "missed": expected - found, "false": found - expected}
            total.update({kind: len(triggers) for kind, triggers in sets.items()})
            cells = [", ".join(sorted(one)) or "–" for one in (expected, *sets.values())]
            lines.append(f"| {name} | {kind} | {' | '.join(cells)} |")
    lines.append(f"| together | | | {total['found']} | {total['missed']} | {total['false']} |")
    print("\n".join(lines))
    if chosen.corpus:
        of_corpus(chosen.corpus)


def with_image(capture: androstep.Capture, path: Path, place: Path) -> androstep.Capture:
    """The capture with the image that lies beside its recording, if there is one."""
    packed, image = path.with_name("final.img.zst"), place / "image"
    if not packed.exists() or path.suffix == ".tgz":
        return capture
    subprocess.run(["zstd", "-dqf", packed, "-o", image], check=True)
    return capture.with_filesystem(after=image)


def of_corpus(corpus: Path) -> None:
    print("\n| trace | found | nothing | cannot tell |\n|---|---|---|---|")
    traces, total = 0, Counter[str]()
    for path in sorted(path for path in corpus.rglob("*") if path.is_file() and "fs_images" not in path.parts):
        if path.suffix in (".json", ".md", ".sha256") and not path.name.startswith("novelinux"):
            continue
        try:
            with tempfile.TemporaryDirectory() as place:
                advice = androstep.advise(with_image(androstep.open(path), path, Path(place)))
        except InputError:
            continue
        traces += 1
        found = advice.filter(status="found").group_by("trigger", maintain_order=True).len()
        counts = Counter(advice.filter(pl.col("status") != "found")["status"])
        total.update({"found": found.height, **counts})
        told = ", ".join(f"{trigger} ({count})" for trigger, count in found.iter_rows()) or "–"
        print(f"| {path.relative_to(corpus)} | {told} | {counts['nothing']} | {counts['cannot tell']} |", flush=True)
    print(f"| {traces} traces | {total['found']} | {total['nothing']} | {total['cannot tell']} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore", androstep.LossWarning)
    main()
