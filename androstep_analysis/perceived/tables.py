"""Files of workload steps and GUI snapshots as parts of a capture."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, Final

import polars as pl

from androstep_analysis.common import files, schema
from androstep_analysis.common.errors import InputError, Loss, LossWarning, printable
from androstep_analysis.common.results import Kind, Results
from androstep_analysis.ingest.source import load
from androstep_analysis.perceived import archive, gui

_MARK = "androstep_steps"
_VERSION = 1
_BEGIN = f'{{"{_MARK}": '.encode()
MAX_STEPS = 1_000_000


def write(steps: pl.DataFrame, path: Path, realtime_offset_ns: int | None = None) -> None:
    """Write table `steps` as JSON, a line for each step. Raises `FileExistsError` if `path` exists.

    `realtime_offset_ns` is CLOCK_REALTIME minus the clock of the table.
    """
    head = {_MARK: _VERSION, "clock": "boot", "realtime_offset_ns": realtime_offset_ns}
    rows = ",\n".join(json.dumps(row) for row in schema.conform(steps, "steps").iter_rows(named=True))
    with path.open("x", encoding="ascii") as file:
        file.write(f'{json.dumps(head)[:-1]}, "steps": [\n{rows}\n]}}\n')


def _sniff_steps(path: Path) -> bool:
    return _raw_head(path).startswith(_BEGIN)


def _sniff_gui(path: Path) -> bool:
    return archive.is_one(_raw_head(path))


def _raw_head(path: Path) -> bytes:
    """Return the first bytes of a file without decompression.

    `source.head` would have to unpack, which it does not do for a zip archive of many files.
    """
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(4096)


def read_steps(path: Path) -> Results:
    """Return the steps in one file. Raises `InputError` if it is not from `write`."""
    source = load(path)
    try:
        document = files.parse_json(source.data)
        if document[_MARK] != _VERSION:
            raise InputError(
                f"{source.name}: steps of version {document[_MARK]!r}, expected {_VERSION}; update androstep"
            )
        if len(document["steps"]) > MAX_STEPS:
            raise ValueError(f"{len(document['steps'])} steps")
        frame = pl.DataFrame(document["steps"], schema=schema.table("steps").polars, strict=True)
        offset = document["realtime_offset_ns"]
        if document["clock"] != "boot" or not (offset is None or (type(offset) is int and abs(offset) < 1 << 63)):
            raise ValueError(f"clock {document['clock']!r} with offset {offset!r}")
        steps = schema.conform(frame, "steps")
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError, pl.exceptions.PolarsError) as error:
        what = printable(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise InputError(
            f"{source.name}: not in the format of androstep's steps ({what}); give its steps.json"
        ) from None
    return Results(
        format="steps of a workload",
        tables={"steps": steps.sort("ts_ns", "number")},
        losses=source.losses,
        clock="boot",
        realtime_offset_ns=offset,
    )


def gui_states(path: str | os.PathLike[str], rules: gui.Rules = gui.DEFAULT) -> pl.DataFrame:
    """Return table `gui_states` of dumps in a directory, or a zip or tar archive.

    Parameters
    ----------
    path : path-like
        Directory or archive of dumps of uiautomator, named ``TS.xml`` or ``TS-END.xml`` in ns of the device's clock.
    rules : Rules
        The parts of a dump that belong to the state.

    Returns
    -------
    polars.DataFrame
        Table `gui_states`.

    Raises
    ------
    InputError
        If there is no dump.

    Warns
    -----
    LossWarning
        For dumps that cannot be read.

    References
    ----------
    ``schemas/definitions.toml``, gui_state; Luo, Jiang and Cohen, section 2, after Memon et al.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as dumps:
    ...     for ts_ns, text in ((1000, "Inbox"), (2000, "Draft")):
    ...         node = f'<node class="android.widget.TextView" text="{text}" package="com.example.mail"/>'
    ...         _ = Path(dumps, f"{ts_ns}.xml").write_text(f"<hierarchy>{node}</hierarchy>")
    ...     states = perceived.gui_states(dumps)
    >>> states["state"].n_unique()
    2
    """
    results = read_gui(Path(path), rules)
    if results.losses:
        warnings.warn("; ".join(loss.message for loss in results.losses), LossWarning, stacklevel=2)
    return results.tables["gui_states"]


def read_gui(path: Path, rules: gui.Rules = gui.DEFAULT) -> Results:
    """Return the states in a directory or archive of dumps (`archive.read`). Raises `InputError` if it has none."""
    snapshots, losses = archive.read(path)
    states, unreadable = gui.states(snapshots, rules)
    if unreadable:
        what = (
            f"{unreadable} of {len(snapshots)} snapshots of the GUI are incomplete; the state at these times is unknown"
        )
        losses = (*losses, Loss("unreadable", unreadable, what))
    return Results(
        format="snapshots of a GUI",
        tables={"gui_states": states},
        losses=losses,
        clock="boot",
        realtime_offset_ns=archive.realtime_offset(path),
    )


def _steps_summary(steps: pl.DataFrame) -> dict[str, Any]:
    return {
        "workloads": sorted(steps["workload"].unique()),
        "steps": steps.height,
        "completed": steps.filter(pl.col("outcome") == "completed").height,
    }


def _gui_summary(states: pl.DataFrame) -> dict[str, Any]:
    return {"snapshots": states.height, "states": states["state"].n_unique()}


STEPS: Final = Kind(
    role="steps",
    noun="steps of a workload",
    command="androstep record --workload",
    tables=("steps",),
    key=("workload", "repeat", "number", "ts_ns"),
    facts={"workload": "workload"},
    sniff=_sniff_steps,
    read_file=read_steps,
    summary=_steps_summary,
)
GUI: Final = Kind(
    role="gui",
    noun="snapshots of a GUI",
    command="androstep record --workload script:FILE",
    tables=("gui_states",),
    key=("ts_ns", "end_ns"),
    facts={},
    sniff=_sniff_gui,
    read_file=read_gui,
    summary=_gui_summary,
)
