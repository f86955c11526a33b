"""Write the rules of the owner (link/owner/rules.py) into their definition.

usage: python tools/owner_rules.py DEFINITIONS

`make tables` runs it for schemas/definitions.toml. tests/link/test_owner_rules.py fails if that is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from androstep_analysis.link.owner.rules import RULES

TITLES = {
    "submitter": "The block belongs to its submitter in each of these cases:",
    "unknown": "It has no owner in each of these cases:",
    "inferred": "The owner is inferred instead of a fact in each of these cases:",
}

END = "In all other cases, the owner is a fact.\n"


def main(path: Path) -> None:
    lists = [
        "\n".join([title, "", *(f"- {rule.sentence}" for rule in RULES if rule.verdict == verdict)])
        for verdict, title in TITLES.items()
    ]
    text = "\n\n".join([*lists, END]).replace("`", "")
    old = path.read_text("utf-8")
    between = f"{re.escape(TITLES['submitter'])}.*?{re.escape(END)}"
    path.write_text(re.sub(between, lambda _: text, old, count=1, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
