"""Run every fuzzer for some seconds, two at a time (``make fuzz``): session.py SECONDS [TARGET...].

Inputs, and those that broke a fuzzer, are saved in build/fuzz/.
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import targets
from support import corpus, fuzzing

_AT_ONCE = 2


def fuzz(name: str, seconds: str) -> str:
    """Run a fuzzer and return a line with its outcome."""
    inputs, artifacts = fuzzing.BUILD / "inputs" / name, fuzzing.BUILD / "found"
    targets.plant(name, corpus.ROOT, inputs)
    artifacts.mkdir(exist_ok=True)
    limits = (f"-max_total_time={seconds}", f"-max_len={targets.MAX_BYTES}", "-print_final_stats=1")
    ran = fuzzing.run(name, inputs, *limits, f"-artifact_prefix={artifacts}/{name}-")
    (fuzzing.BUILD / f"{name}.log").write_text(ran.stderr)
    edges = re.findall(r"cov: (\d+)", ran.stderr) or ["?"]
    executed = re.search(r"number_of_executed_units: (\d+)", ran.stderr)
    outcome = "ok" if ran.returncode == 0 else f"BROKEN, see {fuzzing.BUILD / name}.log"
    return f"{name:16} {executed[1] if executed else '?':>10} inputs {edges[-1]:>6} edges  {outcome}"


def main(seconds: str, names: list[str]) -> None:
    fuzzing.build()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lines = list(pool.map(lambda name: fuzz(name, seconds), names or targets.TARGETS))
    print("\n".join(lines))
    sys.exit(any("BROKEN" in line for line in lines))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
