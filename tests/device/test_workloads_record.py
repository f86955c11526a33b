"""A recorded workload: its steps are in the capture, in the trace's clock, around the I/O that they caused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from adbd import EMMC, phone
from support import fake_apps
from support.devices import home, needs_probe
from support.loops import attached
from support.tracing import needs_tracefs

import androstep_analysis as androstep
from androstep_analysis import cli, perceived
from androstep_analysis.device.record import recording

pytestmark = [pytest.mark.root, pytest.mark.filterwarnings("ignore:.*the probe counted")]

BLOCKS = 50

SCRIPT = """
[[step]]
pause = 0.05

[[step]]
start = "org.example/.Main"

[[step]]
tap = [1, 2]

[[step]]
wait = 60
"""


def test_steps_lie_around_the_io_that_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_probe("iotrace")
    needs_tracefs()
    (tmp_path / "open.toml").write_text(SCRIPT)
    with (tmp_path / "image").open("wb") as file:
        file.truncate(8 << 20)
    out = tmp_path / "capture"
    with attached(tmp_path / "image") as loop, home(tmp_path) as patch, phone(tmp_path, model=EMMC) as fake:
        patch.setattr(recording, "MEMORY", ("/data/local/tmp",))
        fake.install(
            "am", f"/usr/bin/dd if=/dev/zero of={loop} bs=4096 count={BLOCKS} oflag=direct 2>&1; echo Status: ok"
        )
        fake_apps.install(fake, "input", changes=[0.1])
        fake_apps.install(fake, "uiautomator")
        options = ["--workload", f"script:{tmp_path / 'open.toml'}", "--preset", "block", "--device", loop]
        assert cli.main(["record", "--on", fake.address, "-o", str(out), *options]) == 0
    assert "steps" in capsys.readouterr().out
    capture = androstep.open(out)
    assert capture.facts["workload"] == "open" and capture.about["steps"]["completed"] == 4
    assert capture.gui_states.height >= 2
    steps = {row["what"]: row for row in capture.steps.iter_rows(named=True)}
    start, error = steps["start"], steps["start"]["error_ns"]
    writes = capture.requests.filter(op="write", submit_comm="dd").collect()
    assert writes.height == BLOCKS
    assert start["ts_ns"] - error <= writes["queue_ns"].to_numpy().min()
    assert writes["complete_ns"].to_numpy().max() <= start["end_ns"] + error
    windows = capture.steps.select("label", start_ns="ts_ns", end_ns="end_ns")
    share = perceived.in_flight(capture.io, windows, apps=["dd"])
    written = share.filter(pl.col("kind") == "write", pl.col("metric") == "in_flight_ratio")
    anyone = dict(written.filter(whose="any").select("window", "value").rows())
    assert anyone[1] > 0 and anyone[0] == anyone[2] == anyone[3] == 0
    assert written.filter(window=1, whose="any").select("n", "coverage").row(0) == (BLOCKS, 1)
    # Without filesystem events the owner of a write is not proven, so the app's share is not a fact.
    assert written.filter(window=1, whose="app").select("value", "coverage").row(0) == (0, 0)
