"""What could be mended in a capture: findings with their evidence, what they cost, and what mending them would save.

>>> androstep.advise(androstep.open("datasets/demo"))

Each trigger is a function from what a capture tells (`Evidence`) to findings (`FINDING`); its words and limits, with
where they come from, are in ``schemas/triggers.toml``. Other packages bring more: entry points of group
``androstep.triggers``, each a `Trigger`.
"""

from androstep_analysis.present.advice.apply import ADVICE, STATUS, advise
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import FINDING
from androstep_analysis.present.advice.registry import GROUP, Limit, Trigger, failures, triggers

__all__ = ["ADVICE", "FINDING", "GROUP", "STATUS", "Evidence", "Limit", "Trigger", "advise", "failures", "triggers"]
