"""Recording again on an idle machine: the idle test, the remaining steps, and the update of docstrings."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.tree import ROOT

sys.path.append(str(ROOT / "tools"))
import examples


def loaded(path: Path) -> ModuleType:
    """Import a program that is not part of the package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


idle = loaded(ROOT / "datasets" / "idle.py")

BEFORE = "cpu  100 0 50 1000 20 0 0 0 7 0\ncpu0 1 2 3\n"


@pytest.mark.parametrize(
    ("after", "share"),
    [
        ("cpu  100 0 50 2000 20 0 0 0 7 0\n", 0.0),
        ("cpu  150 0 50 1900 70 0 0 0 7 0\n", 0.1),  # computing and waiting for storage
        ("cpu  100 0 50 1000 20 0 0 100 107 0\n", 1.0),  # steal time; a guest's time is part of user's
        (BEFORE, 0.0),
    ],
)
def test_how_busy_a_machine_is(after: str, share: float) -> None:
    assert idle.busy_share(BEFORE, after) == pytest.approx(share)


def test_it_waits_until_the_machine_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    shares = iter([0.5, 0.3, 0.01, 0.9])
    idle.wait_until_idle(shares, clock=lambda: 0.0)
    assert next(shares) == 0.9
    assert capsys.readouterr().out == "  waiting: 50% of the CPU time is used by others\n"


def test_it_does_not_wait_for_ever() -> None:
    clock = iter([0.0, 1.0, idle.PATIENCE_S + 1])
    with pytest.raises(SystemExit, match=r"the machine is not idle: 50% of its CPU time"):
        idle.wait_until_idle(iter([0.5] * 9), clock=lambda: next(clock))


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Make datasets with two places each, and an empty stage."""
    datasets, stage = tmp_path / "datasets", tmp_path / "stage"
    for name, places in {"bench": ("ext4_disk", "ext4_peers"), "replay": ("ext4_guest",)}.items():
        for place in places:
            (datasets / name / place).mkdir(parents=True)
            (datasets / name / place / "old.xz").write_bytes(b"old")
        recorded = {"places": {place: {"recorded": "then"} for place in places}, "host": "old", "app": "kept"}
        (datasets / name / "recorded.json").write_text(json.dumps(recorded))
    (datasets / "replay" / "app.strace.xz").write_bytes(b"app")
    monkeypatch.setattr(idle, "DATASETS", datasets)
    monkeypatch.setattr(idle, "STAGE", stage)
    monkeypatch.setattr(idle, "PROGRAMS", {})
    return datasets, stage


def test_what_is_done_is_not_done_again_and_all_is_replaced_at_the_end(trees: tuple[Path, Path]) -> None:
    datasets, stage = trees
    idle.prepare()
    steps = idle.steps()
    assert [(step.dataset, step.place) for step in steps] == [("bench", "ext4_disk"), ("replay", "ext4_guest")]
    for step in steps:
        assert not step.is_done
        told = json.loads((stage / step.dataset / "recorded.json").read_text()) if step.dataset == "replay" else {}
        places = {**told.get("places", {}), step.place: {"recorded": "now"}}
        (stage / step.dataset / "recorded.json").write_text(json.dumps({**told, "host": "new", "places": places}))
        (stage / step.dataset / step.place).mkdir()
        (stage / step.dataset / step.place / "new.xz").write_bytes(b"new")
    idle.prepare()  # restarted
    assert all(step.is_done for step in steps)
    idle.replace(steps)
    assert not stage.exists()
    assert [path.name for path in (datasets / "bench" / "ext4_disk").iterdir()] == ["new.xz"]
    assert [path.name for path in (datasets / "bench" / "ext4_peers").iterdir()] == ["old.xz"]
    told = json.loads((datasets / "bench" / "recorded.json").read_text())
    assert told["places"] == {"ext4_disk": {"recorded": "now"}, "ext4_peers": {"recorded": "then"}}
    assert told["host"] == "new"
    assert json.loads((datasets / "replay" / "recorded.json").read_text())["app"] == "kept"


def test_what_is_missing_is_said_at_once(trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "PROGRAMS", {"no such program": "its-package"})
    with pytest.raises(SystemExit, match="programs are missing: install its-package"):
        idle.prepare()


EXAMPLES = '''\
def first():
    """Says one.

    Examples
    --------
    >>> for number in range(2):
    ...     print(number + base)
    0
    1
    >>> "a" + "b"
    'ab'
    >>> base
    7
    """
'''


def test_examples_get_what_they_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # with the same second and size it would count as the new one
    path = tmp_path / "of_this_test.py"
    path.write_text(EXAMPLES)
    module = loaded(path)
    assert examples.rewrite([module.first], {"base": 5}) == [path]
    assert path.read_text() == EXAMPLES.replace("    0\n    1\n", "    5\n    6\n").replace("    7\n", "    5\n")
    assert examples.rewrite([loaded(path).first], {"base": 5}) == []
