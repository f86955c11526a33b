"""Findings on avoidable I/O in a capture, with evidence, cost, and the saving of a fix.

>>> androstep.advise(androstep.open("datasets/demo"))

Each trigger is a function from `Evidence` to findings (`FINDING`). Its texts and limits, with their sources, are in
``schemas/triggers.toml``. Other packages can add triggers: entry points of group ``androstep.triggers``, each a
`Trigger`.
"""

from androstep_analysis.present.advice.apply import ADVICE, STATUS, advise
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import FINDING
from androstep_analysis.present.advice.registry import GROUP, Limit, Trigger, failures, triggers

__all__ = ["ADVICE", "FINDING", "GROUP", "STATUS", "Evidence", "Limit", "Trigger", "advise", "failures", "triggers"]
