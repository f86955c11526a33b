"""Compare AndroStep with other programs for the same tasks.

``make benchmarks`` or ``python -m benchmarks [NAME ...]`` runs all or the named benchmarks and prints one table. A
benchmark is a generator of `paired.Row` in one of the modules here; `__main__.BENCHMARKS` lists them all. Recordings,
loop devices and closed forms come from the tests (``tests/support``).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "present")]
