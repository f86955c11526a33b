"""Search order of the programs: a named directory, the checkout, the installed package."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from androstep_analysis.common.errors import InputError
from androstep_analysis.device import programs

HERE = programs.TARGETS[platform.machine()]


def put(directory: Path, target: str, name: str = "iotrace") -> Path:
    """Make an empty program."""
    path = directory / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout in which nothing is built."""
    monkeypatch.delenv(programs.VARIABLE, raising=False)
    monkeypatch.setattr(programs, "_CHECKOUT", tmp_path / "checkout")
    return tmp_path / "checkout"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an installed androstep-probes without programs."""
    path = tmp_path / "site" / "androstep_probes"
    path.mkdir(parents=True)
    (path / "__init__.py").touch()
    monkeypatch.setitem(sys.modules, "androstep_probes", None)
    monkeypatch.delitem(sys.modules, "androstep_probes")
    monkeypatch.syspath_prepend(str(path.parent))
    return path


def test_this_machines_own_before_the_static_one(checkout: Path, package: Path) -> None:
    static = put(package, HERE)
    assert programs.for_this_machine("iotrace") == static
    built = put(checkout / "build" / "probes", HERE)
    assert programs.for_this_machine("iotrace") == built
    native = put(checkout / "build" / "probes", "native")
    assert programs.for_this_machine("iotrace") == native


@pytest.mark.parametrize("abi", programs.TARGETS)
def test_for_every_processor(package: Path, abi: str) -> None:
    programs_by_target = {target: put(package, target) for target in set(programs.TARGETS.values())}
    assert programs.for_processor("iotrace", abi) == programs_by_target[programs.TARGETS[abi]]


def test_a_named_directory_stands_for_all_others(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(package, HERE)
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "mine"))
    with pytest.raises(InputError, match=f"no program iotrace for {HERE} in {tmp_path}/mine; .* {programs.VARIABLE}"):
        programs.for_this_machine("iotrace")
    mine = put(tmp_path / "mine", HERE)
    assert programs.for_this_machine("iotrace") == mine


def test_what_to_do_without(checkout: Path) -> None:
    with pytest.raises(
        InputError, match=r"there is no program iotrace for .*; `pip install androstep-probes`, or name"
    ):
        programs.for_this_machine("iotrace")


def test_a_checkout_compiles_what_is_needed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.mkdir()
    (checkout / "Makefile").write_text("build/probes/%/iotrace:\n\tmkdir -p $(@D)\n\tinstall -m 755 /dev/null $@\n")
    made = programs.for_processor("iotrace", "aarch64")
    assert made == checkout / "build/probes/aarch64-linux-musl/iotrace" and made.is_file()
    assert "compiling iotrace for aarch64-linux-musl" in capsys.readouterr().err
    assert programs.for_processor("iotrace", "aarch64") == made
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in (checkout / "build/probes").iterdir()) == ["aarch64-linux-musl"]


def test_a_program_older_than_its_sources_is_compiled_again(
    checkout: Path, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An installed package has no sources: what is in the checkout says nothing about it."""
    (checkout / "probes/iotrace").mkdir(parents=True)
    (checkout / "Makefile").write_text(
        "build/probes/%/iotrace: probes/iotrace/main.c\n\tmkdir -p $(@D)\n\tinstall -m 755 $< $@\n"
    )
    static = put(package, HERE)
    old = put(checkout / "build/probes", "native")
    os.utime(old, (1, 1))
    (checkout / "probes/iotrace/main.c").write_text("new")
    assert programs.for_this_machine("iotrace").read_text() == "new"
    capsys.readouterr()
    (checkout / "probes/other.c").touch()
    for _ in range(2):  # make has nothing to do, and says so only once
        assert programs.for_this_machine("iotrace") == old
    assert capsys.readouterr().err.count("compiling") <= 1
    old.unlink()
    os.utime(static, (1, 1))
    assert programs.for_this_machine("iotrace") == static


def test_what_cannot_be_compiled_is_said(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout.mkdir()
    (checkout / "Makefile").write_text("build/probes/%/iotrace:\n\t@echo no such host >&2; exit 1\n")
    with pytest.raises(InputError, match=r"cannot compile iotrace .*\(no such host\); build it with `make probes`, or"):
        programs.for_processor("iotrace", "aarch64")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"cannot compile iotrace: make cannot be run .*; build it with `make probes`"):
        programs.for_processor("iotrace", "aarch64")


def test_what_is_no_program_is_passed_over(checkout: Path, package: Path) -> None:
    (checkout / "build" / "probes" / HERE / "iotrace").mkdir(parents=True)
    static = put(package, HERE)
    assert programs.for_this_machine("iotrace") == static


def test_an_unknown_processor() -> None:
    with pytest.raises(InputError, match=r"riscv64: no program is built for this processor, only for .*aarch64, "):
        programs.for_processor("iotrace", "riscv64")


def test_elsewhere_than_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(
        InputError, match="iotrace runs on Linux and on Android devices, not on Darwin; name such a device with --on"
    ):
        programs.for_this_machine("iotrace")
