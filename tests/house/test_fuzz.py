"""Run every native decoder under libFuzzer for some thousand fixed inputs; `make fuzz` continues."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support import corpus, fuzzing
from support.tree import ROOT

sys.path.insert(0, str(ROOT / "tests" / "fuzz"))

import targets

RUNS = 3000


def prototypes(path: Path) -> dict[str, list[str]]:
    """Return the result and parameter types of each function of the library by name; all pointers are alike."""
    found = re.findall(r"^API ([^;{}()]*?)(\w+)\(([^;{}]*?)\)\s*[;{]", path.read_text("utf-8"), re.MULTILINE)
    return {name: [type_of(f"{result} it"), *map(type_of, taken.split(","))] for result, name, taken in found}


def type_of(parameter: str) -> str:
    """Return the type of a named parameter."""
    return "pointer" if re.search(r"[*[]", parameter) else " ".join(parameter.split()[:-1])


@pytest.mark.unit
@pytest.mark.parametrize("path", sorted(fuzzing.FUZZERS.glob("*.c")), ids=lambda path: path.name)
def test_a_fuzzer_declares_functions_as_they_are(path: Path) -> None:
    """No compiler sees both declarations: the library's sources declare these functions for Python."""
    ours: dict[str, list[str]] = {}
    for source in fuzzing.NATIVE.rglob("*.c"):
        ours |= prototypes(source)
    declared = prototypes(path)
    assert declared
    theirs = {name: types for name, types in declared.items() if not name.startswith("fuzz_") and name != "prepared"}
    assert theirs == {name: ours.get(name) for name in theirs}


@pytest.mark.prove
def test_a_fuzzer_finds_what_is_broken(tmp_path: Path) -> None:
    """Verify that a fuzzer can fail: `fuzz_broken` reads past the end of pieces that begin with three letters."""
    ran = fuzzing.run(targets.BROKEN, "-runs=200000", "-seed=1", f"-artifact_prefix={tmp_path}/")
    assert ran.returncode != 0
    assert "heap-buffer-overflow" in ran.stderr
    (found,) = tmp_path.iterdir()
    assert found.read_bytes().startswith(b"BAD")


@pytest.mark.prove
@pytest.mark.parametrize("name", targets.TARGETS)
def test_no_input_breaks_a_decoder(name: str, tmp_path: Path) -> None:
    targets.plant(name, corpus.ROOT, tmp_path / "inputs")
    limits = (f"-runs={RUNS}", "-seed=1", f"-max_len={targets.MAX_BYTES}")
    ran = fuzzing.run(name, tmp_path / "inputs", *limits, f"-artifact_prefix={tmp_path}/")
    assert ran.returncode == 0, ran.stderr[-8000:]
    edges = [int(edges) for edges in re.findall(r"cov: (\d+)", ran.stderr)]
    assert edges[-1] > edges[0] > 0
