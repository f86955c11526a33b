"""Every compiled decoder under libFuzzer for some thousand inputs, the same ones each time; `make fuzz` goes on."""

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


@pytest.mark.prove
def test_a_fuzzer_finds_what_is_broken(tmp_path: Path) -> None:
    """Otherwise none of the others could fail: `fuzz_broken` reads behind pieces that begin with three letters."""
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
