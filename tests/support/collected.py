"""Make many small captures of phones for collections."""

from __future__ import annotations

import random
from pathlib import Path

import androstep_analysis as androstep

ROWS = 40


def trace(path: Path, seed: int) -> Path:
    """Write a CSV of a phone with some requests at different times."""
    draw = random.Random(seed)
    rows = "".join(
        f"app-1,8388608,{draw.choice('RW')},{8 * draw.randrange(99)},8,{at + draw.random():.3f}\n" for at in range(ROWS)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("process,device,rw_flag,sector,size,timestamp\n" + rows)
    return path


def captures_of_apps(top: Path, count: int) -> Path:
    """Make captures of two apps alternately, in directories ``APP/NUMBER``; their traces are next to `top`."""
    for seed in range(count):
        app = ("mail", "game")[seed % 2]
        source = trace(top.parent / "traces" / f"{seed}.csv", seed)
        androstep.create([source], top / app / str(seed), androstep.Description(facts={"workload": app}))
    return top
