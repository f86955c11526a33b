"""The packages: their contents, and that they install without a compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import built
from support.tree import ROOT

from androstep_analysis.device import programs


def wheels(directory: Path) -> dict[str, Path]:
    """Return wheels for both kinds of Linux, built from a copy of the tree with only zig's cache."""
    copy = directory / "androstep"
    if (ROOT / "build" / "zig").exists():
        shutil.copytree(ROOT / "build" / "zig", copy / "build" / "zig")
    copy.mkdir(exist_ok=True)
    for name in ("androstep_analysis", "schemas", "tools", "LICENSE", "README.md", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.part"))
        else:
            shutil.copyfile(source, copy / name)
    made = {}
    for platform in ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64"):
        out = directory / platform
        out.mkdir()
        code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
        environment = os.environ | {"ANDROSTEP_WHEEL_PLATFORM": platform}
        subprocess.run([sys.executable, "-c", code, out], cwd=copy, env=environment, check=True, capture_output=True)
        (made[platform],) = out.iterdir()
    return made


@pytest.mark.prove
def test_wheels_are_of_their_platform_and_need_no_compiler(tmp_path: Path) -> None:
    machines = {"manylinux_2_17_x86_64": 62, "manylinux_2_17_aarch64": 183}  # e_machine of the ELF header
    made = wheels(tmp_path)
    for platform, path in made.items():
        assert path.name.endswith(f"-py3-none-{platform}.whl")
        with zipfile.ZipFile(path) as wheel:
            library = wheel.read("androstep_analysis/native/libandrostep.so")
            assert "androstep_analysis/schemas/block_events.json" in wheel.namelist()
            assert {f"androstep_analysis/present/report/page.{end}" for end in ("css", "js")} <= set(wheel.namelist())
        assert library[:4] == b"\x7fELF"
        assert int.from_bytes(library[18:20], "little") == machines[platform]
        assert max(map(int, re.findall(rb"GLIBC_2\.(\d+)", library)), default=0) <= 17
    check_without_a_compiler(made[f"manylinux_2_17_{os.uname().machine}"], tmp_path)


def check_without_a_compiler(path: Path, tmp_path: Path) -> None:
    """Check that an installed wheel loads and works alone, with no program in PATH."""
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        "import androstep_analysis as a; from androstep_analysis import native; strings = native.Strings(); "
        "assert strings.add(b'x') == 0 and strings.add(b'x') == 0; print(a.__file__)"
    )
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = [{str(tmp_path / 'site')!r}, {packages!r}]; {code}"],
        env={"PATH": "/proc/nonexistent"}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path / "site"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory that pip would make for androstep-probes, with the programs built for tests."""
    copy = tmp_path_factory.mktemp("probes")
    shutil.copytree(ROOT / "probes" / "wheel", copy / "probes" / "wheel")
    shutil.copyfile(ROOT / "LICENSE", copy / "LICENSE")
    for target in sorted(set(programs.TARGETS.values())):
        (copy / "build" / "wheel" / target).mkdir(parents=True)
        if (built.OUT / target).is_dir():
            for path in built.OUT.glob(f"{target}/*"):
                if path.is_file():
                    shutil.copy(path, copy / "build" / "wheel" / target)
    code = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=copy / "probes" / "wheel", check=True, capture_output=True, text=True
    )
    assert done.stdout.endswith("-py3-none-any.whl\n")
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(copy / "probes" / "wheel" / done.stdout.strip()) as wheel:
        for entry in wheel.infolist():
            path = Path(wheel.extract(entry, site))
            path.chmod(entry.external_attr >> 16 & 0o777)
    return site


@pytest.mark.prove
@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("probes/*/main.c")))
def test_the_programs_of_a_wheel_run(installed: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(programs.VARIABLE)
    built.program(name, programs.TARGETS[os.uname().machine])
    code = (
        "from androstep_analysis.device import programs as p; p._CHECKOUT = p.Path('/'); "
        f"print(p.for_this_machine({name!r}))"
    )
    path = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(installed)}, capture_output=True, text=True
    ).stdout.strip()
    assert Path(path).parts[-3:] == ("androstep_probes", programs.TARGETS[os.uname().machine], name)
    assert json.loads(built.run(path, "--describe").stdout)


def test_a_wheel_says_what_may_be_done_with_it(installed: Path) -> None:
    assert (installed / "androstep_probes" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
