"""Every `make` target that the Makefile documents works on a fresh clone, and `make test` stays cheap."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from support import lab, site
from support.checkout import copied
from support.tree import ROOT

from androstep_analysis.device import programs

LIMIT_S = 1500
"""Time limit of a target in seconds: several times that of the slowest on a busy machine."""

RUN_HERE = ("check", "demo", "figures", "probes", "wheels", "tables", "docs")
"""The targets that are run to their end, in this order."""

RUN_ELSEWHERE = {
    **{"test": ".ci/run", "prove": ".ci/run", "fresh": "by hand", "truth": "by hand", "fuzz": "by hand"},
    "lint": "check needs it",
    "benchmarks": "by hand; tests/house/test_benchmarks.py runs each at a small size",
}
"""The targets that take too long to be run inside another test run, and where they are run."""

CACHES = (
    *(".mypy_cache", "build/zig", "build/sqlite"),
    *(f"build/probes/{variant}/obj" for variant in {"native", "sanitized", *programs.TARGETS.values()}),
)
"""Directories to copy into the clone: results of checks, downloads and compilations, but no programs."""

NOTEBOOKS = (Path(site.FIRST).name, "kim")
"""The notebooks to run in the clone. The others have only their text there; test_notebooks.py runs them."""

BUDGET = {"qemu": 0, "corpus": 0, "browser": 6, "notebook": 2, "compiler": 32, "checkout": 4}
"""The number of tests in `make test` that may need each of the expensive resources."""


def documented() -> set[str]:
    """Return the targets in the comment at the top of the Makefile."""
    head = (ROOT / "Makefile").read_text("utf-8").split("\n\n")[0]
    return {
        name for names in re.findall(r"^# make ([a-z |]+?)(?:  |$)", head, re.MULTILINE) for name in names.split(" | ")
    }


def test_every_documented_target_is_run_somewhere() -> None:
    assert documented() == {*RUN_HERE, *RUN_ELSEWHERE, "notebook", "lock", "clean"}


def test_no_variable_is_read_before_it_is_defined() -> None:
    """Make expands prerequisites when it reads a rule; a variable that is defined further down is empty there."""
    reading = ["make", "--dry-run", "--warn-undefined-variables", "TARGET=native", "fresh"]
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # set by a calling make
    made = subprocess.run(reading, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert made.stderr == ""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh checkout in which `make` has not run yet."""
    directory = copied(tmp_path_factory.mktemp("clone") / "androstep")
    for name in CACHES:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, directory / name)
    for path in (directory / "notebooks").rglob("*.ipynb"):
        if path.stem not in NOTEBOOKS:
            notebook = json.loads(path.read_text("utf-8"))
            notebook["cells"] = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
            path.write_text(json.dumps(notebook), "utf-8")
            path.with_suffix(".toml").unlink(missing_ok=True)  # the list of figures that the code would make
    return directory


@pytest.mark.prove
def test_documented_targets_work_on_a_fresh_clone(clone: Path, tmp_path: Path) -> None:
    # The tests of `make check` ran already; one file of them shows that the target works.
    environment = os.environ | {"PYTEST_ADDOPTS": "tests/house/test_environment.py"}
    for name in (programs.VARIABLE, "MAKEFLAGS", "MAKELEVEL"):  # set for this checkout, and by a calling make
        environment.pop(name, None)
    for target in RUN_HERE:
        done = subprocess.run(
            ["make", target],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"make {target}:\n{done.stdout[-6000:]}"
    site.check(clone / "build" / "site")
    _notebook_server_answers(clone, tmp_path)


def _notebook_server_answers(clone: Path, home: Path) -> None:
    """Start `make notebook`, request the server's status, and end it."""
    environment = os.environ | {"BROWSER": "true", "JUPYTER_RUNTIME_DIR": str(home), "HOME": str(home)}
    server = subprocess.Popen(["make", "notebook"], cwd=clone, env=environment, start_new_session=True)
    try:
        with urllib.request.urlopen(lab.address(server, home, "api/status"), timeout=60) as answer:
            assert "started" in json.load(answer)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_make_test_stays_within_its_budget(request: pytest.FixtureRequest) -> None:
    chosen = [item for item in request.session.items if not item.get_closest_marker("prove")]
    needed = Counter(name for item in chosen for name in BUDGET if item.get_closest_marker(name))
    assert {name: count for name, count in needed.items() if count > BUDGET[name]} == {}
