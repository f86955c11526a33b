"""Print the table of the gauntlet in docs/truth.md: python tests/gauntlet [PATTERN of situations]"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import truth
from tqdm import tqdm

from gauntlet import situations
from gauntlet.judging import Verdict, judge, recording, with_images
from gauntlet.situations import Situation


def verdicts(which: list[Situation]) -> Iterator[tuple[Situation, list[Verdict]]]:
    """Yield each situation with a verdict for each recording to which it applies."""
    with tempfile.TemporaryDirectory(prefix="androstep-gauntlet-") as name:
        top = Path(name)
        originals = {name: with_images(name, _made(top / name)) for name in truth.RECORDINGS}
        for situation in tqdm(which, disable=None):
            found = []
            for name in filter(situation.on, truth.RECORDINGS):
                with tempfile.TemporaryDirectory(dir=top) as place:
                    case = situation.spoil(recording(name).with_images(**originals[name]), Path(place))
                    found.append(judge(case, Path(place)))
            yield situation, found


def lines(which: list[Situation]) -> Iterator[str]:
    """Yield the table: the number of right, wrong, inferred and unknown answers about all blocks, and the message."""
    yield "| what happened | right | wrong | inferred right | inferred wrong | unknown | what is said of it |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for situation, found in verdicts(which):
        total = dict.fromkeys(truth.OUTCOMES, 0)
        for verdict in found:
            for counts in verdict.outcomes.values():
                for outcome, count in counts.items():
                    total[outcome] += count
        cells = [f"{total[outcome]:,}" for outcome in ("right", "wrong", "inferred right", "inferred wrong", "unknown")]
        said = next((line for verdict in found if (line := situation.named(verdict.said)) is not None), "")
        refused = sum(verdict.is_refused for verdict in found)
        for verdict in found:
            if verdict.wrong or (situation.says and situation.named(verdict.said) is None):
                print(situation.title, dict(verdict.wrong), verdict.said, file=sys.stderr)
        how = f"refused ({refused} of {len(found)}): " if refused else ""
        yield f"| {situation.title} | {' | '.join(cells)} | {how}{_cell(said)} |"


def _cell(text: str) -> str:
    """Remove names of temporary files from a message."""
    return re.sub(r"/\S*/", "", text).replace("|", "\\|")


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


if __name__ == "__main__":
    pattern = re.compile(sys.argv[1] if sys.argv[1:] else "")
    for line in lines([known for known in situations.SITUATIONS if pattern.search(known.title)]):
        print(line)
