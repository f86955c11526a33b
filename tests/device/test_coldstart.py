"""Cold starts of an app on a phone without root, whose trace is written around the starts that the phone logged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from support.scripted_phone import APP, Scripted, connected, nothing_left, recorded, scripted
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import cli, compare, device, perceived
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import Device, DeviceError
from androstep_analysis.device.workloads.coldstart import ColdStart
from androstep_analysis.present import headline, terminal

pytestmark = pytest.mark.filterwarnings("ignore:.*could not be recorded")

US = 1000
ZYGOTE, PID, OTHER = 6, 7, 8
BOOT = 6

AM = """
echo "am $1" >>"$PHONE/actions"
[ "$1" = start ] || exit 0
[ ! -e "$PHONE/refusal" ] || { cat "$PHONE/refusal"; exit 0; }
sleep 0.1
echo "Status: ok"; echo "LaunchState: $(cat "$PHONE/state")"; echo "TotalTime: 40"; echo "WaitTime: 50"; echo Complete
"""
PM = f"""
[ "$*" = "path {APP}" ] && echo package:/data/app/a/base.apk || [ "$1" = list ]
"""
SETPROP = """
[ ! -e "$PHONE/forbidden" ] || { echo "setprop: failed to set property '$1'" >&2; exit 1; }
echo "$*" >>"$PHONE/actions"; echo 0 >"$PHONE/dropped"
"""


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    with scripted(tmp_path / "phone", monkeypatch) as phone:
        programs = {"am": AM, "pm": PM, "setprop": SETPROP}
        programs["getprop"] = '[ "$1" != perf.drop_caches ] || cat "$PHONE/dropped"'
        for name, text in programs.items():
            phone.install(name, text)
        (phone.top / "state").write_text("COLD\n")
        monkeypatch.setattr(device, "connect", lambda _: Device(phone))
        yield phone


def actions(phone: Scripted) -> list[str]:
    return (phone.top / "actions").read_text().splitlines()


def switch(ts_ns: int, prev: int, state: int, following: int) -> dict[str, Any]:
    fields = {"prev_comm": "a", "prev_pid": prev, "prev_state": state, "next_comm": "b", "next_pid": following}
    return {"timestamp": ts_ns, "pid": prev, "sched_switch": fields}


def request(issue_ns: int, complete_ns: int, sector: int, nr_sectors: int) -> Iterator[dict[str, Any]]:
    fields = {"dev": 8 << 20, "sector": sector, "nr_sector": nr_sectors, "rwbs": "R"}
    yield {"timestamp": issue_ns, "pid": PID, "block_rq_issue": {**fields, "comm": "mail"}}
    yield {"timestamp": complete_ns, "pid": 0, "block_rq_complete": fields}


def of_start(begin_ns: int, sector: int, *, has_reasons: bool) -> Iterator[dict[str, Any]]:
    """Yield the events of a start: a new process, two reads, and sleeps of its main thread and of another thread.

    The main thread sleeps for 200 us of the first read, with another reason than I/O if `has_reasons`, and for 1000 us
    of the second read and 300 us longer.
    """
    created = {"pid": PID, "comm": "zygote64", "clone_flags": 0x1200011}
    yield {"timestamp": begin_ns + 10 * US, "pid": ZYGOTE, "task_newtask": created}
    renamed = {"pid": PID, "oldcomm": "zygote64", "newcomm": APP[-15:]}
    yield {"timestamp": begin_ns + 20 * US, "pid": PID, "task_rename": renamed}
    at = [begin_ns + US * us for us in (100, 200, 400, 500, 1000, 1500, 2500, 2800)]
    yield from request(at[0], at[3], sector, 16)
    yield switch(at[1], PID, 2, OTHER)
    yield switch(at[1] + 1, OTHER, 2, 0)
    if has_reasons:
        yield {"timestamp": at[2] - 1, "pid": 0, "sched_blocked_reason": {"pid": PID, "io_wait": 0}}
    yield switch(at[2], 0, 0, PID)
    yield from request(at[4], at[6], sector + 64, 8)
    yield switch(at[5], PID, 2, 0)
    yield switch(at[7], 0, 0, PID)


def frames(begin_ns: int, token: int) -> Iterator[dict[str, Any]]:
    """Yield frames: of another process, one that was dropped, and the first one that the display showed after 3 ms."""
    rows = [(99, 500, 1, "surface"), (PID, 1000, 4, "surface"), (PID, 2900, 1, "surface"), (1, 3000, 1, "display")]
    for number, (pid, end_us, present, kind) in enumerate(rows):
        name = {"surface": "actual_surface_frame_start", "display": "actual_display_frame_start"}[kind]
        fields: dict[str, Any] = {
            "cookie": token + number,
            "pid": pid,
            "present_type": present,
            "token": token + number,
        }
        if kind == "surface":
            fields["display_frame_token"] = token + 3 if end_us == 2900 else token + 9
        at = begin_ns + US * (end_us - 400)
        yield {"timestamp": at, "timestamp_clock_id": BOOT, "frame_timeline_event": {name: fields}}
        ended = {"frame_end": {"cookie": token + number}}
        yield {"timestamp": begin_ns + US * end_us, "timestamp_clock_id": BOOT, "frame_timeline_event": ended}


def test_the_wait_for_storage_until_the_first_frame(phone: Scripted, tmp_path: Path) -> None:
    workload = ColdStart(APP, 2, settle_s=0.01)
    with connected(phone) as there, there.record(out=tmp_path / "capture", switches=True) as recording:
        workload.check(there)
        ran = workload.run(there)
        recording.add(ran)
        begins = [end_ns - 50_000 * US for end_ns in ran.steps["end_ns"]]
        events = [event for n, at in enumerate(begins) for event in of_start(at, 1000 * n, has_reasons=n == 0)]
        packets = [packet for n, at in enumerate(begins) for packet in frames(at, 100 * (n + 1))]
        (trace,) = (phone.top / "traces").iterdir()
        trace.write_bytes(recorded(*events, packets=packets))
    assert nothing_left(phone)
    assert actions(phone) == [*["am force-stop", "perf.drop_caches 3", "am start"] * 2, "am force-stop"]
    config = (phone.top / "config").read_text()
    assert "sched/sched_switch" in config and "frametimeline" in config
    made = recording.capture
    assert made is not None
    rows = perceived.starts(made.tables)
    assert rows.select("app", "repeat", "pid", "source", "detail").rows() == [
        (APP, repeat, PID, "frames", None) for repeat in (0, 1)
    ]
    assert (rows["start_ns"] - pl.Series(begins)).abs().max() <= rows["error_ns"].max()
    shift = [
        US * 3000 - found for found in rows["first_frame"]
    ]  # the clock of the steps is not exactly that of the trace
    assert all(abs(one) <= error for one, error in zip(shift, rows["error_ns"], strict=True))
    assert rows["storage_wait"].to_list() == [1000 * US, 1200 * US]
    assert rows["read"].to_list() == [24 * 512] * 2
    files = perceived.read_files(made.io, rows)
    assert files.select("path", "bytes", "lowest", "highest", "starts", "inferred").rows() == [
        (None, 24 * 512, 24 * 512, 24 * 512, 2, None)
    ]
    androstep.report.write(made, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    (section,) = re.findall(r'<section id="starts">.*?</section>', page, flags=re.DOTALL)
    assert "How long did the app take to start?" in section and f"2 starts of {APP}" in section
    assert "the main thread waited for storage: 1.1 ms (1 ms to 1.2 ms)" in section
    assert section.count("<table") == 2
    assert "the main thread waited for storage: 1.1 ms (1 ms to 1.2 ms)" in terminal.tables(made)
    (said,) = (one for one in headline.of(made).sentences if one.about == "starts")
    assert str(said).startswith(f"2 starts of {APP}; medians: first frame after ")
    assert str(said).endswith(", waited for storage 1.1 ms, read 12 KiB")
    measured = compare.measure_all([made], "starts").filter(metric="storage_wait")
    assert measured.select("kind", "repeat", "value").rows() == [("repetition", 0, 1e6), ("repetition", 1, 1.2e6)]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert cli.main(["coldstart", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, json.loads((ROOT / "schemas/answers/coldstart.json").read_text()))
    return found


def test_the_command_without_frames(phone: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, APP, "--repeat", "1", "-o", str(tmp_path / "json"))
    assert (found["app"], found["repeats"], found["caches_dropped"]) == (APP, 1, True)
    (start,) = found["starts"]
    assert (start["source"], start["first_frame"], start["storage_wait"]) == ("am", 40_000 * US, None)
    (phone.top / "state").write_text("UNKNOWN (0)\n")
    assert answer(capsys, APP, "--repeat", "1", "-o", str(tmp_path / "unknown"))["starts"][0]["detail"] is None
    (phone.top / "forbidden").touch()
    (phone.top / "state").write_text("WARM\n")
    assert cli.main(["coldstart", f"{APP}/.Main", "--repeat", "1", "-o", str(tmp_path / "text")]) == 0
    printed = capsys.readouterr()
    assert "time to the first frame: 40 ms, by Android's TotalTime" in printed.out
    assert "wait for storage is unknown" in printed.out
    assert "caches not dropped: setprop: failed to set property" in printed.err
    assert "not a cold start: Android reports WARM" in printed.out
    assert nothing_left(phone)


def test_an_app_that_does_not_start(phone: Scripted, tmp_path: Path) -> None:
    (phone.top / "refusal").write_text("Error: Activity not started, unable to resolve Intent\n")
    with connected(phone) as there, pytest.raises(DeviceError, match="cannot be started: Error: Activity not started"):
        ColdStart(APP, 2, settle_s=0.01).run(there)
    assert actions(phone)[-1] == "am force-stop"


@pytest.mark.parametrize(
    "app",
    [
        *("", "app", "-p", "--user 10", "org.example.app; reboot", "org.example.$(reboot)", "org..example", "ö.a"),
        *(
            "org.example.app/",
            "org.example.app/.A b",
            "org.example.app/.A;x",
            "org.example.app\n",
            "org.example.app/a/b",
        ),
    ],
)
def test_a_name_that_is_no_app_is_refused(app: str) -> None:
    with pytest.raises(InputError, match="not a package or activity") as refused:
        ColdStart(app)
    assert str(refused.value).isprintable()


def test_what_is_no_phone_or_lacks_the_app(phone: Scripted) -> None:
    with connected(phone) as there, pytest.raises(DeviceError, match=r"org\.example\.none is not installed"):
        ColdStart("org.example.none").check(there)
    (phone.top / "bin/am").unlink()
    with connected(phone) as there, pytest.raises(DeviceError, match="no Android device"):
        ColdStart(APP).check(there)
