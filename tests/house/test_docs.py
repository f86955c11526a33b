"""Run every command and every piece of code in the top-level pages and in docs/.

A page is run from top to bottom in a copy of the tree, like a reader would:

- ```sh fences: by a shell that stops at the first failure, with the environment's programs and the probes first on
  PATH.
- ```python fences: in one namespace per page.
- ```sh root: by root only.
- Other fences (```text, ```json, …) are not run. Every fence must name its kind.

Lines that set up or start something are checked and not run:

- `make TARGET` must be a target (`make --dry-run`).
- `pytest …` must select tests (`--collect-only`), which run with all others.
- `git clone …` and the `cd` into the clone are left out, because the copy is that clone.

All pages run in one copy, so a page may only write what git ignores. There is no build/ when a page begins.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import machine, preloaded
from support.checkout import copied
from support.tree import ROOT, ignored

from androstep_analysis import schema
from androstep_analysis.common import files, pages
from androstep_analysis.datasets.export import oraclegeneral
from androstep_analysis.fs import image

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ONE_OF_EACH_KIND = {"README.md", "docs/start.md", "docs/sql.md"}
"""The pages that `make test` runs: one that only starts things, one of commands, and one of code."""

RUN = {"sh", "python"}
OF_THE_SITE = {"{toctree}", "{eval-rst}"}
SHOWN = {"text", "json", "diff", "toml", "yaml", "csv", "c", "bibtex"} | OF_THE_SITE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the number of its first line, and whether only root can run it."""

    language: str
    code: str
    line: int
    needs_root: bool = False


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    lines = iter(enumerate(markdown.splitlines(), 1))
    for number, line in lines:
        if fence := re.fullmatch(r"( *)(```+)(\S*)(.*)", line):
            indent, ticks, language, rest = fence.groups()
            code: list[str] = []
            for _, inner in lines:
                if inner.strip() == ticks:
                    break
                code.append(inner.removeprefix(indent))
            else:
                raise ValueError(f"the block that starts at line {number} has no end")
            yield Block(language, "\n".join(code) + "\n", number + 1, rest.strip() == "root")


def checked_instead_of_run(code: str) -> str:
    """Return a shell block with dry `make` and `pytest` lines and without `git clone`."""
    lines: list[str] = []
    clone = None
    for line in code.splitlines():
        if match := re.match(r"git clone\s+(?:\S+\s+)*?(\S+?)(?:\.git)?/?\s*(?:#.*)?$", line):
            clone = match[1].rpartition("/")[2]
        elif not (clone and re.match(rf"cd\s+{re.escape(clone)}/?\s*(?:#.*)?$", line)):
            line = re.sub(r"^make\b", "make --dry-run", line)
            lines.append(re.sub(r"^pytest\b", "pytest --collect-only", line))
    return "\n".join(lines)


def run_shell(block: Block, where: str, directory: Path) -> None:
    """Run a shell block; fail with its output."""
    done = subprocess.run(
        ["sh", "-eu", "-c", checked_instead_of_run(block.code)],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        pytest.fail(f"{where}: status {done.returncode} of\n{block.code}\n{done.stdout[-4000:]}", pytrace=False)


def run_python(block: Block, where: str, page: Path, namespace: dict[str, Any]) -> None:
    """Run a Python block in `namespace`; a traceback shows the line of the page."""
    try:
        exec(compile("\n" * (block.line - 1) + block.code, page, "exec"), namespace)
    except Exception as error:
        error.add_note(f"{where}:\n{block.code}")
        raise


def run_page(page: Path, directory: Path) -> None:
    """Run the blocks of `page` in order in `directory`, the working directory."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text("utf-8")):
        where = f"{page.name}:{block.line}"
        if block.language not in RUN | SHOWN:
            pytest.fail(f"{where}: a {block.language or 'nameless'} block; use one of {RUN | SHOWN}", pytrace=False)
        if block.needs_root and os.geteuid() != 0:
            continue
        # The block may record, and would then save the events of a recorder that another test has killed.
        with machine.shared(machine.KERNEL) if block.needs_root else contextlib.nullcontext():
            if block.language == "sh":
                run_shell(block, where, directory)
            elif block.language == "python":
                run_python(block, where, page, namespace)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository."""
    return copied(tmp_path_factory.mktemp("pages") / "androstep")


@pytest.fixture(scope="module")
def programs() -> Iterator[str]:
    """Yield the PATH of a reader: a quicker `androstep`, the environment's programs, and the probes."""
    with preloaded.program() as androstep:
        places = [androstep.parent, Path(sys.executable).parent, ROOT / "build/probes/native"]
        yield os.pathsep.join([*map(str, places), os.environ["PATH"]])


def state(tree: Path) -> set[tuple[str, int, int, int]]:
    """Return each file in a copy of the repository, with attributes that change if it is written or replaced."""
    paths = [Path(directory, name) for directory, _, names in os.walk(tree) for name in names]
    found = {path.relative_to(tree).as_posix(): path.lstat() for path in paths}
    return {(name, known.st_ino, known.st_size, known.st_mtime_ns) for name, known in found.items()}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=[] if name in ONE_OF_EACH_KIND else pytest.mark.prove)
        for page in PAGES
        for name in (page.relative_to(ROOT).as_posix(),)
    ],
)
def test_page(page: Path, tree: Path, programs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PATH", programs)
    before = state(tree)
    try:
        run_page(page, tree)
    finally:
        shutil.rmtree(tree / "build", ignore_errors=True)
    changed = {Path(name) for name, *_ in before ^ state(tree)}
    assert {path for path in changed if not any(ignored(ROOT / part) for part in (path, *path.parents))} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", prose)]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_the_limits_are_those_of_the_code() -> None:
    stated = dict(re.findall(r"(?m)^\| `(\w+)` \| (\d+) \|", (ROOT / "SECURITY.md").read_text("utf-8")))
    limits = {
        files.MOST_TEXT: files.MOST_TEXT_MIB,
        pages.MOST: pages.MOST_MIB,
        image.MOST: image.MOST_GIB,
        image.RUNS: image.MOST_RUNS,
        oraclegeneral.MOST: oraclegeneral.MOST_GIB,
    }
    assert stated == {name: str(limit) for name, limit in limits.items()}


# -- the runner itself: a page that is wrong must fail ----------------------------------------------------------------

GOOD = """\
```sh
git clone https://example.org/androstep.git
cd androstep
make demo
echo 1 > one
```
- indented:
  ```python
  from pathlib import Path
  one = int(Path("one").read_text())
  ```
```text
not run
```
```python
assert one == 1
```
"""


def write(directory: Path, text: str) -> Path:
    """Write a page with this text, and next to it a Makefile with one target."""
    (directory / "Makefile").write_text("demo:\n\tfalse\n")
    page = directory / "page.md"
    page.write_text(text)
    return page


def test_a_page_is_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(write(tmp_path, GOOD), tmp_path)
    assert (tmp_path / "one").read_text() == "1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n```sh\ntrue\nfalse | false\ntrue\n```\n", "page.md:3: status 1 of"),
        ("```sh\nmake dmeo\n```\n", "No rule to make target 'dmeo'"),
        ("```sh\necho $unset\n```\n", "unset"),
        ("```\nls\n```\n", "page.md:2: a nameless block"),
        ("```bash\nls\n```\n", "page.md:2: a bash block"),
    ],
)
def test_a_wrong_page_fails_and_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=re.escape(message)):
        run_page(write(tmp_path, text), tmp_path)


def test_wrong_python_fails_and_says_where(tmp_path: Path) -> None:
    page = write(tmp_path, "text\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page, tmp_path)
    assert caught.traceback[-1].lineno == 4  # counted from 0
    assert caught.value.__notes__ == ["page.md:4:\nx = 1\nx / 0\n"]


def test_a_fence_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="starts at line 2 has no end"):
        list(blocks("text\n```sh\nls\n"))


def test_the_glossary_names_columns_and_definitions_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| [^|]+ \|[^|]+\|[^|]+\| ([^|]+) \|$", text, re.MULTILINE)
    places = [place for cell in terms if cell != "in the tables" for place in cell.split(", ")]
    columns = {f"`{name}.{column}`" for name in schema.names() for column in schema.table(name).polars}
    assert len(places) > 60
    assert [place for place in places if place not in columns and place.strip("[]") not in schema.definitions()] == []
